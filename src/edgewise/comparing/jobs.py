"""Subjects of a comparison, jobs that measure one with the settings of another job, and where its model file is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.device.environments import names_of
from edgewise.errors import BadInput, BadModel, as_flag
from edgewise.model.identity import open_model
from edgewise.model.signature import Signature, shapes_fit
from edgewise.record import Job, Run, RuntimeSpec, Scenario, Stopping, TargetSpec
from edgewise.runtime.base import TakesSettings, UnsupportedModel, check_settings, runtimes

if TYPE_CHECKING:
    from edgewise.run.plan import NetworkFile

AXES = {
    "runtime": "runtimes", "provider": "providers", "threads": "threads", "precision": "precisions", "batch": "batches",
    "signature": "signatures", "environment": "environments",
}  # fmt: skip
"""Setting of one job → the axis of a plan that varies it."""

_SHOWN = 12
"""Digits of a hash that are enough to tell files apart by eye."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model to be measured, or a run that was.

    Attributes:
        label: the name that was given; None leaves it to `edgewise.comparing.labels`.
        settings: of a model: keys of `AXES`; they win over the settings of the request.
        argument: the position of the argument that named it, from 0: an argument may name several runs.
        file: of a run, the exported file that it was read from.
        word: of a run, the tag, the file or ``last`` that named it alone; "" where an id did, or it is one of several.
    """

    thing: Path | NetworkFile | Run
    label: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    argument: int = 0
    file: Path | None = None
    word: str = ""


def runs_among(subjects: Sequence[Subject]) -> list[Run]:
    """Return the runs among `subjects`."""
    return [one.thing for one in subjects if isinstance(one.thing, Run)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Settings given by the user; None or empty takes the other job's, or a default.

    Attributes:
        runtime: a name, or ``name/provider``.
        shapes: input name → shape; "" is the only input.
        settings: of the engine, as in `edgewise.run.plan.Axes`; added to those of the other job.
        variables: environment variables, ``NAME=VALUE`` each.
        stopping: used where there is no other job to take it from.
        timeout_s: how long a worker may be silent.
    """

    runtime: str | None = None
    provider: str | None = None
    threads: int | None = None
    batch: int | None = None
    precision: str | None = None
    signature: str | None = None
    environment: str | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    variables: Sequence[str] = ()
    scenario: Scenario | None = None
    input_data: Path | None = None
    seed: int | None = None
    stopping: Stopping = field(default_factory=Stopping)
    timeout_s: float | None = None
    target: TargetSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job, and notes on settings that were chosen by default."""

    job: Job
    notes: tuple[str, ...] = ()


def make_job(model: Path | NetworkFile, asked: JobSettings) -> PlannedJob:
    """Return the one job that measures `model`; where several engines could, the first.

    Raises:
        BadInput, BadModel: a setting or a model that can't be used.
        Unavailable: no engine for it.
    """
    from edgewise.run.plan import Axes, make_plan  # imports numpy

    given = {axis: (getattr(asked, name),) for name, axis in AXES.items() if getattr(asked, name) not in (None, "")}
    plan = make_plan(
        [model],
        axes=Axes(**given, shapes=asked.shapes, settings=asked.settings, variables=asked.variables),
        scenario=asked.scenario or Scenario(),
        stopping=replace(asked.stopping, timeout_s=asked.timeout_s or asked.stopping.timeout_s),
        target=asked.target or TargetSpec(),
        seed=asked.seed or 0,
        input_data=asked.input_data,
    )
    job = plan.jobs[0]
    notes: tuple[str, ...] = ()
    if len(plan.jobs) > 1:
        others = f"{as_flag('runtime')} takes {', '.join(dict.fromkeys(one.runtime.name for one in plan.jobs[1:]))}"
        notes = (f"measured on {job.runtime.name}, the first runtime that reads {job.model.name} ({others})",)
    return PlannedJob(job=job, notes=notes)


def make_job_like(model: Path | NetworkFile, other: Job, asked: JobSettings) -> PlannedJob:
    """Return the job that measures `model` with the settings of `other`, except for those in `asked`.

    Where the engine of `other` does not read the model, its provider and options mean nothing and another is chosen.

    Raises as `make_job` does, and `BadInput` where the input data of `other` is not at hand, or its record has settings
    that its runtime does not list, or environment variables that are not in `asked`: records may come from anybody, and
    some settings write files or run code.
    """
    if unset := sorted(names_of(other.target.variables) - names_of(asked.variables)):
        raise BadInput(
            f"the record sets environment variables, which are not taken from records: {', '.join(unset)}",
            advice="give them with the model, env.NAME=VALUE, or compare stored runs",
        )
    signature = asked.signature or other.model.signature
    opened = open_model(model, signature)
    runtime, workload = other.runtime, other.workload
    readable = opened.ref.format in runtimes().get(runtime.name).formats
    same_engine = asked.runtime is None and readable
    like = replace(
        asked,
        runtime=asked.runtime or (runtime.name if readable else None),
        provider=asked.provider or (runtime.provider if same_engine else None),
        threads=asked.threads if asked.threads is not None else runtime.threads,
        batch=asked.batch if asked.batch is not None else workload.batch,
        precision=asked.precision or (runtime.precision if same_engine else None),
        signature=signature,
        shapes=asked.shapes if "" in asked.shapes else {**_shapes_like(opened.signature, other, asked), **asked.shapes},
        scenario=asked.scenario or workload.scenario,
        input_data=asked.input_data or _input_data(other),
        seed=asked.seed if asked.seed is not None else workload.seed,
        stopping=workload.stopping,
        target=asked.target or other.target,
    )
    made = make_job(model, like)
    spec = made.job.runtime
    if same_engine:
        _check_options(runtime)
        # Threads left to the engine, and settings by the engine's own names, are no axes of a plan.
        threads = spec.threads if asked.threads is not None else runtime.threads
        spec = replace(spec, threads=threads, options={**runtime.options, **spec.options})
    return replace(made, job=replace(made.job, runtime=spec))


def refuse_unasked_environment(record: Job, asked: JobSettings) -> None:
    """Raise `BadInput` where the record names an environment that is not in `asked`.

    To make one installs packages, runs an image or starts a Python, and records may come from anybody.
    """
    wanted = record.target.environment
    if asked.target is None and wanted and asked.environment != wanted:
        raise BadInput(
            f"the record ran in the environment {wanted}, which is not taken from records",
            advice="give it with the model, such as onnxruntime=1.31.0 or python=PATH, or compare stored runs",
        )


def _check_options(spec: RuntimeSpec) -> None:
    runtime = runtimes().get(spec.name)
    settings = runtime.settings if isinstance(runtime, TakesSettings) else ()
    try:
        check_settings(runtime.title, settings, spec.options)
    except UnsupportedModel as error:
        raise BadInput(
            f"the settings in the baseline's record can't be used: {error}",
            advice="measure its model here, and compare with that run",
        ) from None


def _shapes_like(signature: Signature, other: Job, asked: JobSettings) -> dict[str, tuple[int, ...]]:
    """Shapes of `other` for inputs whose own are open; fixed shapes need none."""
    known = {spec.name: spec.shape for spec in other.workload.inputs}
    alone = len(signature.inputs) == len(known) == 1
    found = {}
    for spec in signature.inputs:
        shape = next(iter(known.values())) if alone else known.get(spec.name)
        if shape is None or spec.shape is None or all(isinstance(size, int) for size in spec.shape):
            continue
        if shapes_fit(spec.shape, shape):
            rebatched = asked.batch is not None and shape[:1] == (other.workload.batch,)
            found[spec.name] = (asked.batch or 1, *shape[1:]) if rebatched else shape
    return found


def _input_data(other: Job) -> Path | None:
    """Return the file that `other` was fed with. Raises `BadInput` where it is not here any more, or has changed."""
    from hashlib import file_digest

    wanted, path = other.workload.input_data, other.workload.input_path
    if wanted is None:
        return None
    try:
        same = False
        if Path(path or "").is_file():  # a device or a pipe would never end
            with Path(path or "").open("rb") as file:
                same = file_digest(file, "sha256").hexdigest() == wanted
    except (OSError, ValueError):
        same = False
    if not same:
        raise BadInput(
            f"the input data of the baseline (sha256 {wanted[:12]}…) is not at {path or 'a known place'}",
            advice="give the same file with ⟦input_data⟧",
        )
    return Path(path or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedModel:
    """Path of the model file, or why it was not found.

    Attributes:
        path: None where no file with the baseline's hash is at hand.
    """

    path: Path | None
    because: str


def find_model(baseline: Run, *, given: Path | None = None, beside: Path | None = None) -> LocatedModel:
    """Return the model of `baseline` on this machine.

    Args:
        given: where the user says it is.
        beside: a folder to look in, by the model's own name.

    Raises:
        BadModel: `given` can't be read.
        BadInput: `given` is another model.
    """
    wanted = baseline.job.model
    if given is not None:
        actual = open_model(given, wanted.signature).ref.sha256
        if actual != wanted.sha256:
            raise BadInput(
                f"{given} is not the baseline's model: its sha256 begins {actual[:_SHOWN]}, "
                f"that of {wanted.name} {wanted.sha256[:_SHOWN]}",
                advice="give the file that the baseline was measured with, or make a new baseline",
            )
        return LocatedModel(path=given, because=f"{given} has its sha256")
    reasons = []
    for place in _places(baseline, beside):
        try:
            same = open_model(place, wanted.signature).ref.sha256 == wanted.sha256
        except (BadInput, BadModel):
            reasons.append(f"none at {place}")
            continue
        if same:
            return LocatedModel(path=place, because=f"{place} has its sha256")
        reasons.append(f"{place} has changed since")
    return LocatedModel(path=None, because="; ".join(reasons) or "the record does not say where it was")


def _places(baseline: Run, beside: Path | None) -> Iterator[Path]:
    """Where to look, each once. A record's names are not trusted to stay in a folder."""
    seen: set[Path] = set()
    recorded = Path(baseline.job.model.path) if baseline.job.model.path else None
    name = Path(baseline.job.model.file_name).name
    for place in (recorded, beside / name if beside is not None and name else None):
        if place is not None and place not in seen:
            seen.add(place)
            yield place
