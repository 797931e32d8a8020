"""Jobs: what was requested, as Model × Runtime × Target × Workload. Frozen, hashable, JSON-shaped data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from edgewise.errors import as_flag
from edgewise.units import long_time

LONGEST_LABEL = 80
UNKNOWN_DEVICE = "unknown"
"""`TargetSpec.device` of an imported run whose device is not known."""
NAME_ALONE = "name"
"""`ModelRef.format` of an imported run whose model file is not known: its hash is that of the name."""

ScenarioKind = Literal["single-stream", "offline", "paced", "cold-start", "generate"]
LoadKind = Literal["compute", "memory"]
Interleave = Literal["turns", "duet", "rounds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The network that a model file was made of, for files that a command exports from a function's network.

    Attributes:
        target: the function, ``path/to/model.py:make_model``.
        sha256: identity of the network; all files that are made of it share it.
        steps: how the file was made, in order, each with tool and version.
        lost: what the export dropped or changed.
        original: whether the file is the network as its own framework runs it: the reference for the others.
    """

    target: str
    sha256: str
    steps: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    original: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """The identity of a model file.

    Attributes:
        name: name of the file, without its path; of a file with an `origin`, the name of its network; of a file with
            several `signatures`, followed by a colon and the one that runs.
        path: absolute path on the host.
        format: ``onnx``, ``tflite``, ``openvino`` …, recognised from the content.
        sha256: hash of the model file and, in order, its weight files; of a `signature`, hash of that and its name.
        size_bytes: size of these files together.
        origin: the network that a command exported this file from; None for a file that the user gave.
        signature: the entry point that was chosen among several; "" is the default, the first of `signatures`.
        signatures: names of the entry points of a file that has several; empty for other files.
    """

    name: str
    path: str
    format: str
    sha256: str
    size_bytes: int
    origin: Origin | None = None
    signature: str = ""
    signatures: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """`name` without the signature."""
        return self.name.removesuffix(f":{self.signature or self.signatures[0]}") if self.signatures else self.name

    @property
    def signature_words(self) -> str:
        """``encode; the file also has decode (--signature decode)``; "" for a file with one entry point."""
        if len(self.signatures) < 2:
            return ""
        own = self.signature or self.signatures[0]
        others = [name for name in self.signatures if name != own]
        return f"{own}; the file also has {', '.join(others)} ({as_flag('signature')} {others[0]})"

    @property
    def is_known(self) -> bool:
        """Whether the file is known. An imported run may have the name alone."""
        return self.format != NAME_ALONE

    @property
    def family(self) -> str:
        """Identity of the network: the same for all files that a command exported from one network."""
        return self.sha256 if self.origin is None else self.origin.sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSpec:
    """An engine with the requested settings. The settings in effect are in `Run.effective`.

    Attributes:
        threads: number of inference threads; None means the engine's default.
        precision: precision of the arithmetic (``f32``, ``bf16``, ``f16``); None means f32 wherever the model has f32.
        options: further engine settings, by the engine's own names.
    """

    name: str
    version: str | None = None
    provider: str | None = None
    threads: int | None = None
    precision: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def options_in_words(self) -> str:
        """``channels_last=true mode=default``; "" where there are none."""
        words = {True: "true", False: "false"}
        return " ".join(
            f"{name}={words[value] if isinstance(value, bool) else value}" for name, value in self.options.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Limits that simulate a smaller device; the kernel holds them for all processes of the job together.

    Attributes:
        cpus: processors, 1.0 is one core; None sets no limit.
        memory_bytes: memory; None sets no limit.
        mechanism: one of `edgewise.constraints.base.MECHANISMS`; None is the best that works. With an image, a
            container runtime.
        image: of the container in which the job runs; None runs it on the machine itself.
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    mechanism: str | None = None
    image: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """The device that runs the job, and its limits.

    Attributes:
        memory_limit_bytes: memory that a worker may allocate.
        constraints: limits that simulate a smaller device; None where there are none.
        environment: the Python environment or the container with the engine (`edgewise.device.environments`); None is
            edgewise's own.
        variables: environment variables that are set for the worker, ``NAME=VALUE`` each.
    """

    device: str = "local"
    transport: str = "local"
    memory_limit_bytes: int | None = None
    constraints: Constraints | None = None
    environment: str | None = None
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """How inferences follow one another.

    Attributes:
        kind: ``single-stream`` (back to back), ``offline`` (several in flight), ``paced`` (on a schedule),
            ``cold-start`` (one inference per fresh process), ``generate`` (a language model answers prompts), or
            ``command`` (one execution of a program per session, see `Job.command`).
        fps: paced: arrivals per second.
        streams: offline: number of parallel execution streams; None means the engine's choice.
        requests: offline: number of requests in flight; None means the engine's choice.
        sustained_s: measure without a break for this time and keep the latency over time, s; None where it is not kept.
        duty_cycle: share of the time in which inferences run, 0…1, with rests in between; None sets no rests.
        drop_cache: cold-start: drop the model's files from the kernel's file cache before each start.
        background_load: number of busy processes beside the model; None for none.
        background_kind: what they do: ``compute`` or ``memory`` (copy memory); None without them.
        prompt_tokens: generate: tokens of each prompt; None takes those of a file as they are.
        new_tokens: generate: tokens that each request makes, two or more; of an import also 0 (prompts alone) or
            None (not told).
        depth: generate: tokens that are in the KV cache before the prompt; None where an import does not tell.
    """

    kind: ScenarioKind | Literal["command"] = "single-stream"
    fps: float | None = None
    streams: int | None = None
    requests: int | None = None
    sustained_s: float | None = None
    duty_cycle: float | None = None
    drop_cache: bool = False
    background_load: int | None = None
    background_kind: LoadKind | None = None
    prompt_tokens: int | None = None
    new_tokens: int | None = None
    depth: int | None = None

    @property
    def words(self) -> str:
        """``single-stream``, ``paced 30 fps``, ``single-stream, sustained for 30 min``."""
        kind = f"{self.kind} {self.fps:g} fps" if self.kind == "paced" and self.fps is not None else self.kind
        return ", ".join([kind, *self.conditions])

    @property
    def kind_in_words(self) -> str:
        """`words` without the rate of arrivals: ``paced``, ``single-stream, duty cycle 20%``."""
        return ", ".join([self.kind, *self.conditions])

    @property
    def conditions(self) -> list[str]:
        """What is unlike the scenario's usual conditions, in words."""
        words = [f"sustained for {long_time(self.sustained_s)}"] if self.sustained_s is not None else []
        if self.kind == "generate":
            prompt = "own length" if self.prompt_tokens is None else str(self.prompt_tokens)
            words += [f"prompt {prompt}"]
            words += [f"{self.new_tokens} new tokens"] if self.new_tokens is not None else []
            words += [f"depth {self.depth}"] if self.depth is not None else []
        words += [f"duty cycle {self.duty_cycle * 100:.3g}%"] if self.duty_cycle is not None else []
        words += ["file cache dropped"] if self.drop_cache else []
        busy = "busy process" if self.background_load == 1 else "busy processes"
        words += [f"{self.background_load} {busy} ({self.background_kind})"] if self.background_load else []
        return words

    @property
    def headline(self) -> str:
        """The main metric of this scenario."""
        return _HEADLINES[self.kind]


_LATER_FIELDS = (
    ("target", "environment"), ("target", "variables"), ("target", "constraints"), ("workload", "interleave"),
)  # fmt: skip
_LATER_SCENARIO_FIELDS = (
    "sustained_s", "duty_cycle", "drop_cache", "background_load", "background_kind", "prompt_tokens", "new_tokens",
    "depth",
)  # fmt: skip
"""Fields of `Scenario` that the key of a job leaves out where they are not set: earlier jobs keep their keys."""

_HEADLINES = {
    "single-stream": "latency",
    "paced": "latency_paced",
    "offline": "throughput",
    "cold-start": "startup_time",
    "command": "total_time",
    "generate": "tpot",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """When a session stops measuring. None lets edgewise decide from the data.

    Attributes:
        iterations: number of timed inferences per session.
        warmup: number of untimed inferences before them.
        duration_s: measuring time per session, s.
        sessions: number of fresh processes.
        relative_half_width: stop when the half-width of the median's 95 % interval is at most this share of it.
        min_s: least measuring time before `relative_half_width` may stop a session, s.
        max_s: time budget of a session's steady phase, s.
        timeout_s: longest time without a message from the worker, s; then the host kills it.
        spread_s: time over which session starts are spread evenly, s; None starts them one after the other.
        report_every: number of inferences between progress lines with the running average.
    """

    iterations: int | None = None
    warmup: int | None = None
    duration_s: float | None = None
    sessions: int = 5
    relative_half_width: float = 0.01
    min_s: float = 0.25
    max_s: float = 0.5
    timeout_s: float = 120.0
    spread_s: float | None = None
    report_every: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One input of the model as it is fed.

    Attributes:
        shape: sizes, none of them open.
        dtype: numpy's name of the type.
        note: what was assumed or converted.
        value: value of all elements if the input is not random, such as a sample rate.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    note: str = ""
    value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Inputs, scenario and stopping rule.

    Attributes:
        inputs: inputs in the model's order.
        input_data: sha256 of the given ``.npz`` file, or of the ``.jsonl`` file of prompts; None if inputs are random
            from `seed`.
        input_path: path of that file.
        profile: whether layers are also timed, in separate processes.
        keep_state: whether the samples of an evaluation are one sequence: each starts from the state that the one
            before left. Otherwise each starts from the model's initial state.
        interleave: how the runs of a group shared the machine: ``turns`` (short turns in random order), ``rounds``
            (one process of each after the other, in random order), ``duet`` (all at once; in runs of
            earlier versions), or None (one run after the other). Unless None, session `i` of each run belongs to the
            same round.
    """

    scenario: Scenario = field(default_factory=Scenario)
    batch: int = 1
    inputs: tuple[InputSpec, ...] = ()
    seed: int = 0
    input_data: str | None = None
    input_path: str | None = None
    profile: bool = False
    keep_state: bool = False
    interleave: Interleave | None = None
    stopping: Stopping = field(default_factory=Stopping)


class _KeepsKey:
    """A place for the key of a job, which is asked for with each reading of a history."""

    __slots__ = ("_key",)
    _key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(_KeepsKey):
    """One cell of a plan.

    Attributes:
        command: program and arguments of ``edgewise exec``; `model` is then the model that they name, otherwise the
            program's file. Empty for jobs that run a model in an engine.
    """

    model: ModelRef
    runtime: RuntimeSpec
    target: TargetSpec = field(default_factory=TargetSpec)
    workload: Workload = field(default_factory=Workload)
    command: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """16 hex digits that identify the job. Equal jobs have equal keys, whatever the paths of their files."""
        try:
            return self._key
        except AttributeError:
            object.__setattr__(self, "_key", self._make_key())
        return self._key

    def _make_key(self) -> str:
        document = asdict(self)
        del document["model"]["path"]
        del document["model"]["origin"]
        del document["model"]["signatures"]
        if not self.model.signature:
            del document["model"]["signature"]
        del document["workload"]["input_path"]
        if not self.command:
            del document["command"]
        for owner, name in _LATER_FIELDS:
            if not document[owner][name]:  # jobs of before there were these keep their keys
                del document[owner][name]
        if self.target.constraints is not None and self.target.constraints.image is None:
            del document["target"]["constraints"]["image"]
        if not self.workload.profile:  # jobs of before there were these keep their keys
            del document["workload"]["profile"]
        if not self.workload.keep_state:
            del document["workload"]["keep_state"]
        if self.workload.stopping.spread_s is None:
            del document["workload"]["stopping"]["spread_s"]
        scenario = document["workload"]["scenario"]
        for name in _LATER_SCENARIO_FIELDS:
            if not scenario[name]:
                del scenario[name]
        for spec in document["workload"]["inputs"]:
            if spec["value"] is None:
                del spec["value"]
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), default=list)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """Short name for progress lines: ``model · runtime/provider · settings``."""
        if self.command:
            line = " ".join(self.command)
            return line if len(line) <= LONGEST_LABEL else f"{line[:LONGEST_LABEL]}…"
        runtime = self.runtime
        words = [runtime.name + (f"/{runtime.provider}" if runtime.provider else "")]
        words += [f"{runtime.threads}T"] if runtime.threads else []
        words += [runtime.options_in_words] if runtime.options else []
        words += [f"batch {self.workload.batch}"] if self.workload.batch != 1 else []
        words += [runtime.precision] if runtime.precision else []
        words += [scenario.words] if (scenario := self.workload.scenario) != Scenario() else []
        return f"{self.model.name} · {' '.join(words)}"
