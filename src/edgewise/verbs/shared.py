"""What requests of several verbs have in common: where, how long, within which limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from edgewise.constraints.base import CONTAINER_NAMES, MECHANISMS
from edgewise.device.devices import transport_of
from edgewise.device.environments import check_variables
from edgewise.errors import BadField
from edgewise.record import Constraints, Scenario, Stopping, TargetSpec
from edgewise.record.job import ScenarioKind
from edgewise.run.limits import check_settings, require_at_least
from edgewise.units import parse_duration, parse_size
from edgewise.verbs import choices
from edgewise.verbs.fields import (
    Device,
    EngineSettings,
    Environments,
    InputData,
    InputShapes,
    Lab,
    MemoryLimit,
    Models,
    NewTokens,
    Precisions,
    Prepare,
    Providers,
    Runtimes,
    Seed,
    Signatures,
    Threads,
    Timeout,
    Variables,
    Warmup,
)  # fmt: skip
from edgewise.verbs.option import option, worded
from edgewise.verbs.request import Case, FilePath, Number, Request, Texts, Whole
from edgewise.verbs.shared_options import DATA, LIMITS, MEASURE, VARY
from edgewise.verbs.words import MOST_CASES, words

if TYPE_CHECKING:
    from edgewise.run.plan import Axes

SPREAD_SESSIONS = 10
"""Sessions that are spread over a time, unless their number is given."""
COLD_STARTS = 10
"""Sessions in the scenario cold-start, unless their number is given."""
GENERATED = 128
"""Tokens of a prompt, and tokens that are made, unless their number is given."""
UNUSED = ("iterations", "warmup", "duration", "report_every")
"""Fields that mean nothing where the number of inferences follows from the scenario."""
LEAST_CPUS, MOST_CPUS = 0.01, 1024
LEAST_MEMORY = 2**20


class GeneratingRequest(Request):
    """How a language model makes text, at one length of the prompt and one depth; None are the usual numbers."""

    prompt_tokens: Annotated[
        Whole | None,
        option("--prompt-tokens N", MEASURE, "Tokens of the prompt in the scenario generate (default: 128)"),
    ] = None
    new_tokens: NewTokens = None
    depth: Annotated[
        Whole | None,
        option("--depth N", MEASURE, "Tokens in the KV cache before the prompt, in the scenario generate (default: 0)"),
    ] = None

    def scenario_of(self, kind: ScenarioKind, *, fps: float | None = None, from_file: bool) -> Scenario:
        """As a job has it; `from_file` says whether the prompts are those of a file."""
        own = Scenario(
            kind=kind, fps=fps, prompt_tokens=self.prompt_tokens, new_tokens=self.new_tokens, depth=self.depth
        )
        return with_usual_tokens(own, from_file=from_file)


def with_usual_tokens(scenario: Scenario, *, from_file: bool) -> Scenario:
    """`scenario` with the usual numbers of tokens where none are given; the prompts of a file have their own."""
    if scenario.kind != "generate":
        return scenario
    usual = None if from_file else GENERATED
    return replace(
        scenario,
        prompt_tokens=usual if scenario.prompt_tokens is None else scenario.prompt_tokens,
        new_tokens=GENERATED if scenario.new_tokens is None else scenario.new_tokens,
        depth=scenario.depth or 0,
    )


class TargetRequest(Request):
    """Where to run, and on inputs of which shape.

    Attributes:
        device: its name or URL; ``local`` is this machine.
        shapes: input name → shape; "" is the only input.
    """

    device: Device = "local"
    shapes: InputShapes = Field(default_factory=dict)
    memory_limit: MemoryLimit = None

    def target(self) -> TargetSpec:
        """As a job has it."""
        return TargetSpec(device=self.device, transport=transport_of(self.device), memory_limit_bytes=self.memory_limit)


CPUS = option(
    "--cpus N",
    LIMITS,
    "Number of processors that the job may use, such as 0.5: simulates a smaller device",
    common=True,
)


class LimitedRequest(Request):
    """Limits of a smaller device; None sets no limit."""

    cpus: Annotated[Number | None, CPUS] = None
    memory: Annotated[
        Whole | None,
        option(
            "--memory 2GiB",
            LIMITS,
            "Memory that all processes of the job may use together: simulates a smaller device",
            read=parse_size,
            common=True,
        ),
    ] = None
    mechanism: Annotated[
        str | None,
        option(
            "--mechanism NAME",
            LIMITS,
            "cgroup-v2, cgroup-v1 or affinity-rlimit (default: the best that works here)",
            choices=("cgroup-v2", "cgroup-v1", "affinity-rlimit"),
        ),
    ] = None

    def constraints(self) -> Constraints | None:
        """As a job has them; None where there are none."""
        limits = Constraints(cpus=self.cpus, memory_bytes=self.memory, mechanism=self.mechanism)
        return limits if limits != Constraints() else None


class LimitedTargetRequest(LimitedRequest, TargetRequest):
    """Where to run, within limits."""

    def target(self) -> TargetSpec:
        """As a job has it."""
        return replace(super().target(), constraints=self.constraints())

    def check(self) -> None:
        """Reject limits that can't be held."""
        super().check()
        limits = self.constraints()
        check_constraints(limits or Constraints())
        if limits is not None and self.device != "local":
            raise BadField(
                "⟦cpus⟧ and ⟦memory⟧ apply only to ⟦device=local⟧",
                advice="leave ⟦device⟧ out; limits of a container are settings of its device: cpus, memory",
            )


class MeasuringRequest(LimitedTargetRequest):
    """How to measure models.

    Attributes:
        runtimes: empty is every installed runtime that reads the model.
        precisions: empty is the like-for-like default.
        environments: Python environments with the engines, ``onnxruntime==1.30.0`` or the path of one, or
            ``container://IMAGE``; empty and ``local`` are edgewise's own.
        variables: environment variables for the engine's process, ``NAME=VALUE`` each.
        set: settings of the engines by their own names; each engine gets those that it has.
        seed: of the random inputs and of every random choice.
    """

    runtimes: Runtimes = ()
    providers: Providers = ()
    threads: Threads = ()
    batches: Annotated[tuple[Whole, ...], option("--batch 1,8", VARY, "Batch sizes (default: 1)", common=True)] = (1,)
    precisions: Precisions = ()
    signatures: Signatures = ()
    environments: Environments = ()
    variables: Variables = ()
    set: EngineSettings = Field(default_factory=dict)
    input_data: InputData = None
    seed: Seed = 0
    timeout: Timeout = 120.0

    def axes(self) -> Axes:
        """Return what is varied."""
        from edgewise.run.plan import Axes  # it takes 0.15 s to import

        return Axes(
            runtimes=self.runtimes,
            providers=self.providers,
            threads=self.threads,
            batches=self.batches,
            precisions=self.precisions,
            signatures=self.signatures,
            environments=self.environments,
            variables=self.variables,
            shapes=self.shapes,
            settings=self.set,
        )

    def scenario_spec(self) -> Scenario:
        """As a job has it."""
        return Scenario()

    def stopping(self) -> Stopping:
        """As a job has it."""
        return Stopping(timeout_s=self.timeout)

    def plan_settings(self) -> dict[str, Any]:
        """Return the arguments of `edgewise.run.plan.make_plan` that say how models are measured."""
        return {
            "axes": self.axes(),
            "scenario": self.scenario_spec(),
            "stopping": self.stopping(),
            "target": self.target(),
            "seed": self.seed,
            "input_data": None if self.input_data is None else Path(self.input_data),
        }

    def check(self) -> None:
        """Reject settings that no engine supports."""
        super().check()
        check_variables(self.variables)
        check_settings(
            threads=self.threads,
            batches=self.batches,
            scenario=self.scenario_spec(),
            stopping=self.stopping(),
            target=self.target(),
            seed=self.seed,
        )


class ProtocolRequest(MeasuringRequest):
    """How much to measure. What is None follows from the data.

    Attributes:
        lab: whether a host of a lab measures; `device` is a name or a tag there.
    """

    PATHS = ("models", "input_data")

    models: Models = Field(min_length=1)
    iterations: Annotated[
        Whole | None, option("--iterations N", MEASURE, "Number of timed inferences per session", common=True)
    ] = None
    warmup: Warmup = None
    duration: Annotated[
        Number | None, option("--duration 5s", MEASURE, "Measuring time per session", read=parse_duration)
    ] = None
    lab: Lab = False


def _read_classes(given: Path | str) -> tuple[str, ...] | str:
    """Names with commas between them, or the path of a file with names."""
    return str(given) if "," not in str(given) or Path(given).exists() else words([str(given)])


def _write_classes(classes: tuple[str, ...] | str) -> list[str]:
    """Return the text of which `_read_classes` makes `classes`; none for a name that it would divide."""
    if isinstance(classes, str):
        return [classes]
    return [",".join(classes)] if len(classes) > 1 and not any("," in name for name in classes) else []


class JudgingRequest(TargetRequest):
    """How to judge on data: as for `edgewise.evaluate`."""

    task: Annotated[
        str | None,
        option(
            "--task TASK",
            DATA,
            "classification, detection, segmentation … (default: from the YAML beside the model; of a folder per "
            "class, classification)",
            choices=choices.tasks,
            common=True,
        ),
    ] = None
    split: Annotated[
        str | None,
        option(
            "--split NAME",
            DATA,
            "Part of the data to evaluate (default: the first of test, validation, val, eval, dev, all, train)",
        ),
    ] = None
    limit: Annotated[
        Whole | None,
        option(
            "--limit N", DATA, "Number of samples to evaluate, chosen at random by --seed (default: all)", common=True
        ),
    ] = None
    strict: Annotated[bool, option("--strict", DATA, "Fail on a sample that can't be used")] = False
    data_format: Annotated[
        str | None,
        option(
            "--data-format FORMAT",
            DATA,
            "npz, folders, csv, coco, idx, wav, huggingface, text, jsonl, loader (default: found from the data)",
            choices=choices.data_formats,
        ),
    ] = None
    data_options: Annotated[
        dict[str, str], option("--data-option NAME=VALUE", DATA, "How to read the data; repeatable")
    ] = Field(default_factory=dict)
    task_options: Annotated[
        dict[str, str], option("--task-option NAME=VALUE", DATA, "How to read the outputs; repeatable")
    ] = Field(default_factory=dict)
    classes: Annotated[
        Texts | FilePath,
        option(
            "--classes F.txt",
            DATA,
            "Names of the model's classes in the order of its outputs: A,B,C, or a file with one per line",
            Path,
            read=_read_classes,
            write=_write_classes,
            common=True,
        ),
    ] = ()
    prepare: Prepare = ()
    instructions: Annotated[
        FilePath | None,
        option(
            "--instructions F.yaml",
            DATA,
            "Read this file instead of the YAML beside the model",
            Path,
            not_asked="the YAML beside the model is read",
        ),
    ] = None

    def check(self) -> None:
        """Reject a limit below one."""
        super().check()
        require_at_least(1, limit=self.limit, memory_limit=self.memory_limit)

    @property
    def fields_with_paths(self) -> tuple[str, ...]:
        """Names of classes are no paths; the file with them is one."""
        return tuple(one for one in self.PATHS if one != "classes" or isinstance(self.classes, str))


class DataRequest(JudgingRequest):
    """How to judge on data, and on which engines."""

    seed: Annotated[Seed, worded(panel=DATA)] = 0
    runtimes: Runtimes = ()


def check_cases(cases: tuple[Case, ...], models: tuple[str, ...]) -> None:
    """Reject too many cases, and cases without a function that takes them. Raises `BadField`."""
    from edgewise.model.callable_loader import is_factory

    if not 1 <= len(cases) <= MOST_CASES:
        raise BadField(f"⟦cases⟧ must be 1 to {MOST_CASES} models, not {len(cases)}")
    if cases != ({},) and not any(map(is_factory, models)):
        raise BadField(
            "⟦cases⟧ applies only to models that a function makes", advice="name the function: MODULE:FUNCTION"
        )


def check_signature(signature: str, model: str) -> None:
    """Reject a signature of what a function makes. Raises `BadField`."""
    from edgewise.model.callable_loader import is_factory

    if signature and is_factory(model):
        raise BadField("⟦signature⟧ applies only to model files", advice="leave ⟦signature⟧ out")


def check_constraints(limits: Constraints) -> None:
    """Reject limits that no program can run in. Raises `BadField`."""
    if limits.cpus is not None and not LEAST_CPUS <= limits.cpus <= MOST_CPUS:
        raise BadField(f"⟦cpus⟧ must be {LEAST_CPUS:g} to {MOST_CPUS}, not {limits.cpus:g}", advice="1 is one core")
    if limits.memory_bytes is not None and not LEAST_MEMORY <= limits.memory_bytes < 2**63:
        raise BadField(
            f"⟦memory⟧ must be at least 1 MiB and less than 8 EiB, not {limits.memory_bytes} B",
            advice="for example ⟦memory=512MiB⟧",
        )
    known = (*MECHANISMS, *CONTAINER_NAMES)
    if limits.mechanism is not None and limits.mechanism not in known:
        raise BadField(f"⟦mechanism⟧ must be one of {', '.join(known)}, not {limits.mechanism!r}")
    if limits.mechanism in CONTAINER_NAMES and limits.image is None:
        raise BadField(
            f"⟦mechanism={limits.mechanism}⟧ needs the name of an image",
            advice="exec runs a program in ⟦image⟧; for models in an engine use ⟦device=container://IMAGE⟧",
        )
    if limits.mechanism in MECHANISMS and limits.image is not None:
        raise BadField(
            f"⟦mechanism={limits.mechanism}⟧ does not run containers", advice=f"use {' or '.join(CONTAINER_NAMES)}"
        )
