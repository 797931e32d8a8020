"""What may be compared: intended differences, those that make it unfair, and other possible causes."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Generic, TypeVar

from edgewise.comparing.comparison import Variant
from edgewise.comparing.environments import engine_version, environment_differences, same_hardware
from edgewise.formatting import quantity
from edgewise.grouping import by_key
from edgewise.record import ABOUT_DATA, Constraints, Job, Run, Stopping
from edgewise.record.facts import floats_of, precision_of, threads_of, uses_int8, variable_words
from edgewise.record.job import UNKNOWN_DEVICE
from edgewise.record.names import model_names
from edgewise.store.codec import parse_time
from edgewise.text import listing, one_line
from edgewise.units import format_bytes, format_limit

MODEL = "model"
"""Begins the statement that two files differ."""
_MOST_NAMED = 8
_CLASSES_NAMED = 3

T = TypeVar("T")
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """How fair a comparison is, in texts of one line each.

    Attributes:
        stated: intended differences, such as another engine, precision or thread count.
        obstacles: what makes it unfair.
        not_excluded: other possible causes of a difference.
        notes: what else is worth knowing, such as that two files are identical.
    """

    stated: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()
    not_excluded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Aspect(Generic[T]):
    """One thing that may differ.

    Attributes:
        key: equal where nothing differs; None where it is not known, which counts as no difference.
        why: why a difference is an obstacle.
    """

    name: str
    key: Callable[[T], Hashable]
    words: Callable[[T], str]
    why: str = ""


def check_fairness(variants: Sequence[Variant]) -> Fairness:
    """How fair a comparison of `variants` with the first of them is."""
    runs = [(one_line(variant.label), variant.run) for variant in variants]
    names = model_names([run.job.model for _, run in runs], hashed=False)
    named = [(label, _with_name(run, name)) for (label, run), name in zip(runs, names, strict=True)]
    jobs = [(label, run.job) for label, run in runs]
    later = [(runs[0], other) for other in runs[1:]]
    # What else differs where the shapes do is no layout; and a run that failed early tells no precision.
    stated = _differences([_LAYOUT], runs) if not _differences([_INPUTS], jobs) else []
    stated += _differences(_PRECISIONS, [(label, run) for label, run in runs if run.effective])
    apart = [text for first, other in later for text in _not_excluded(first, other)]
    stated += _differences([replace(_LIMITS, why="")], jobs) if _is_one_program(jobs) else []
    return Fairness(
        stated=tuple(dict.fromkeys((*_differences(_STATED, named), *stated))),
        obstacles=(*_find_obstacles(jobs), *_differences([_TASK], runs)),
        not_excluded=(*apart, *_left_out(runs), *_unchecked(runs)),
        notes=tuple(_notes(runs)),
    )


def _with_name(run: Run, name: str) -> Run:
    """Return `run` with its model called `name`."""
    return replace(run, job=replace(run.job, model=replace(run.job.model, name=name)))


def check_jobs(a: Job, b: Job, *, labels: tuple[str, str] = ("A", "B")) -> list[str]:
    """Return the obstacles that are known before anything is measured; empty where `a` and `b` may be compared."""
    return _find_obstacles([(one_line(labels[0]), a), (one_line(labels[1]), b)])


def is_one_task(runs: Sequence[Run]) -> bool:
    """Return whether inputs and outputs of all `runs` have the same sizes, as far as the records tell.

    Otherwise their models can't replace each other, and `check_fairness` finds an obstacle.
    """
    inputs = _differences([_INPUTS], [("", run.job) for run in runs])
    return not (inputs or _differences([_TASK], [("", run) for run in runs]))


def _find_obstacles(jobs: Sequence[tuple[str, Job]]) -> list[str]:
    """Return the aspects that must not differ; of one program under several limits these are what is compared."""
    left_out = [_LIMITS] if _is_one_program(jobs) else []
    return _differences([each for each in _OBSTACLES if each not in left_out], jobs)


def _is_one_program(jobs: Sequence[tuple[str, Job]]) -> bool:
    """Return whether all jobs are of ``exec`` and run the same command."""
    commands = {job.command for _, job in jobs}
    return len(commands) == 1 and all(commands)


def is_together(a: Run, b: Run) -> bool:
    """Whether session i of `a` belongs to session i of `b`: they took turns."""
    ways = {run.job.workload.interleave for run in (a, b)}
    return a.group is not None and a.group == b.group and ways in ({"turns"}, {"rounds"})


def describe_apart(a: Run, b: Run) -> str:
    """``"measured 28 s apart, not in turns"``: of two runs that took no turns."""
    is_one_call = a.group is not None and a.group == b.group
    return f"measured {'one after the other' if is_one_call else f'{_gap(a, b)} apart'}, not in turns"


def describe_unused_limit(a: Run, b: Run) -> str:
    """Return why two runs of one program can't differ by their processor limits, all else equal; "" where they can.

    The kernel counted no pause in any execution, and each used fewer processors than its limit.
    """
    first, second = ((run.job.target.constraints or Constraints()).cpus for run in (a, b))
    if first == second or not a.job.command or _settings(_lift_limit(a)) != _settings(_lift_limit(b)):
        return ""
    if not (_is_never_held(a) and _is_never_held(b)):
        return ""
    used = [quantity(value, "s") for run in (a, b) if (value := run.value("cpu_time")) is not None]
    told = f": {' and '.join(used)} of processor time" if len(used) == 2 else ""
    return f"the processor limit never held the program back{told}"


def _lift_limit(run: Run) -> Run:
    """Return `run` as if its processors had no limit."""
    target = run.job.target
    limits = replace(target.constraints or Constraints(), cpus=None, mechanism=None)
    return replace(run, job=replace(run.job, target=replace(target, constraints=limits)))


def _is_never_held(run: Run) -> bool:
    """Return whether the record says that the processor limit, if there is one, was never reached."""
    cpus = run.job.target.constraints.cpus if run.job.target.constraints is not None else None
    if cpus is None:
        return True
    paused, used = (run.measurement(metric) for metric in ("throttled_time", "cpu_utilization"))
    if paused is None or paused.value is None or used is None or used.value is None:
        return False
    return max(paused.samples or (paused.value,)) == 0.0 and max(used.samples or (used.value,)) < cpus


def _left_out(runs: Sequence[tuple[str, Run]]) -> list[str]:
    """Return executions that are not in the numbers: those that succeed may be other ones than in another run."""
    code = "failed-executions"
    return [f"{label}: {each.message}" for label, run in runs for each in run.cautions if each.code == code]


def _differences(aspects: Sequence[_Aspect[T]], things: Sequence[tuple[str, T]]) -> list[str]:
    """One text per aspect in which not all `things` agree: ``threads: A 1, B 2``."""
    found = []
    for aspect in aspects:
        told = [(label, thing) for label, thing in things if aspect.key(thing) is not None]
        if len({aspect.key(thing) for _, thing in told}) > 1:
            values = ", ".join(_named(label, one_line(aspect.words(thing))) for label, thing in told)
            found.append(f"{aspect.name}: {values}" + (f" ({aspect.why})" if aspect.why else ""))
    return found


def _named(label: str, words: str) -> str:
    """Return ``A 1``; where the label says it already, as in ``1 thread``, the label alone."""
    return label if words in (label, *label.split(), *label.split(" · ")) else f"{label} {words}"


def _sizes(shape: Sequence[int], batch: int) -> Shape:
    """Return the dimensions that hold something, sorted: neither the batch, nor ones, nor their order count."""
    return tuple(sorted(size for size in _without_batch(shape, batch) if size != 1))


def _without_batch(shape: Sequence[int], batch: int) -> Shape:
    return tuple(shape[1:] if shape and shape[0] == batch else shape)


def _input_sizes(job: Job) -> Hashable:
    return tuple(sorted(_sizes(spec.shape, job.workload.batch) for spec in job.workload.inputs)) or None


def _input_layout(run: Run) -> Hashable:
    workload = run.job.workload
    return tuple(sorted(_without_batch(spec.shape, workload.batch) for spec in workload.inputs)) or None


def _inputs_in_words(job: Job) -> str:
    return " and ".join("×".join(map(str, spec.shape)) or "a number" for spec in job.workload.inputs)


def _scenario_in_words(job: Job) -> str:
    scenario = job.workload.scenario
    words = [scenario.words]
    words += [f"{scenario.streams} streams"] if scenario.streams is not None else []
    words += [f"{scenario.requests} requests"] if scenario.requests is not None else []
    return " ".join(words)


def _prompts(job: Job) -> str | None:
    """Return the file whose prompts have their own lengths; None for other jobs."""
    scenario = job.workload.scenario
    return job.workload.input_data if scenario.kind == "generate" and scenario.prompt_tokens is None else None


def _prompts_in_words(job: Job) -> str:
    return f"file {(job.workload.input_data or '')[:8]}"


def _kind_in_words(job: Job) -> str:
    return "a command" if job.command else "a model in an engine"


def limits_text(job: Job, *, unit: str = "processor", size: Callable[[float], str] = format_limit) -> str:
    """``0.5 processors, 200 MB (191 MiB), container of IMAGE``, or ``none``; `size` words the memory."""
    limits = job.target.constraints
    cpus, memory = (limits.cpus, limits.memory_bytes) if limits else (None, None)
    words = [f"{cpus:g} {unit}{'' if cpus == 1 else 's'}"] if cpus else []
    words += [size(memory)] if memory else []
    words += [f"container of {limits.image}"] if limits and limits.image else []
    return ", ".join(words) or "none"


def _outputs(run: Run) -> list[Shape] | None:
    """Return the shapes of the outputs in force; None where the record lacks one."""
    told = run.effective.get("outputs")
    if not isinstance(told, list | tuple) or not told:
        return None
    shapes = [row.get("shape") if isinstance(row, Mapping) else None for row in told]
    if not all(isinstance(shape, list | tuple) and all(type(size) is int for size in shape) for shape in shapes):
        return None
    return [tuple(shape) for shape in shapes if shape is not None]


def _output_sizes(run: Run) -> Hashable:
    shapes = _outputs(run)
    return None if shapes is None else tuple(sorted(_sizes(shape, run.job.workload.batch) for shape in shapes))


def _outputs_in_words(run: Run) -> str:
    return " and ".join("×".join(map(str, shape)) or "a number" for shape in _outputs(run) or ())


def _requests(run: Run) -> int | None:
    """Return requests in flight chosen by the engine; those given by the user belong to the scenario."""
    scenario, value = run.job.workload.scenario, run.effective.get("requests")
    return value if scenario.kind == "offline" and scenario.requests is None and type(value) is int else None


def _engine_in_words(run: Run) -> str:
    runtime = run.job.runtime
    words = [runtime.name, engine_version(run) or "", f"({runtime.provider})" if runtime.provider else ""]
    return " ".join(word for word in words if word)


def _options_in_words(run: Run) -> str:
    options = run.job.runtime.options
    return json.dumps(options, sort_keys=True, default=str) if options else "none"


def _model_in_words(run: Run) -> str:
    model = run.job.model
    if not model.is_known:
        return f"{model.name} (file not known)"
    return f"{model.name} ({model.format}, {format_bytes(model.size_bytes)}, sha256 {model.sha256[:8]})"


def _data_in_words(run: Run) -> str:
    workload = run.job.workload
    return f"file {workload.input_data[:8]}" if workload.input_data else f"random (seed {workload.seed})"


def _warmup_in_words(run: Run) -> str:
    count = run.job.workload.stopping.warmup
    return "until the times are stable" if count is None else f"{count} inferences"


def _device(job: Job) -> str | None:
    return None if job.target.device == UNKNOWN_DEVICE else job.target.device


_INPUTS: _Aspect[Job] = _Aspect("input shapes", _input_sizes, _inputs_in_words, "a different amount of input data")
_LIMITS: _Aspect[Job] = _Aspect(
    "limits", lambda job: job.target.constraints or "none", limits_text, "a different device"
)
_OBSTACLES: tuple[_Aspect[Job], ...] = (
    _INPUTS,
    _Aspect("batch", lambda job: job.workload.batch, lambda job: str(job.workload.batch), "a different amount of work"),
    _Aspect("scenario", lambda job: job.workload.scenario, _scenario_in_words, "a different scenario"),
    _Aspect("prompts", _prompts, _prompts_in_words, "prompts of other lengths"),
    _Aspect("device", _device, lambda job: job.target.device, "a different machine"),
    _LIMITS,
    _Aspect("kind of job", lambda job: bool(job.command), _kind_in_words, "a different kind of work"),
)
_TASK: _Aspect[Run] = _Aspect("outputs", _output_sizes, _outputs_in_words, "a different task")
_LAYOUT: _Aspect[Run] = _Aspect("layout of the inputs", _input_layout, lambda run: _inputs_in_words(run.job))
_PRECISIONS: tuple[_Aspect[Run], ...] = (
    _Aspect("precision", floats_of, lambda run: precision_of(run) or ""),
    _Aspect("precision", uses_int8, lambda run: precision_of(run) or "no 8-bit products"),
)
"""Two aspects, as an engine may report one and not the other."""


def has_unsure_classes(run: Run) -> bool:
    """Whether the order of the classes was assumed where the accuracy of `run` was measured."""
    settings = {} if run.evaluation is None else run.evaluation.settings
    return "class_order" in settings and "outputs_of_labels" not in settings


def _steps(run: Run) -> str | None:
    """Return the preparation steps of the samples, which are equal where nothing differs; None without an accuracy."""
    if run.evaluation is None or "done" not in run.evaluation.preprocessing:
        return None
    return json.dumps(run.evaluation.preprocessing.get("inputs"), sort_keys=True)


def _steps_in_words(run: Run) -> str:
    return "; ".join(map(str, run.evaluation.preprocessing["done"])) if run.evaluation is not None else ""


def _classes_in_words(run: Run) -> str:
    names = () if run.evaluation is None else run.evaluation.classes
    words = f"{', '.join(names[:_CLASSES_NAMED])}{' …' * (len(names) > _CLASSES_NAMED)}"
    return f"{words} (the data's order, assumed)" if has_unsure_classes(run) else words


_EVALUATED_TASK: _Aspect[Run] = _Aspect(
    "tasks",
    lambda run: run.evaluation and run.evaluation.task,
    lambda run: "" if run.evaluation is None else run.evaluation.task,
)
_CLASSES: _Aspect[Run] = _Aspect(
    "classes", lambda run: (run.evaluation and run.evaluation.classes) or None, _classes_in_words
)
_STEPS: _Aspect[Run] = _Aspect("preparation of samples", _steps, _steps_in_words)


def describe_unlike(a: tuple[str, Run], b: tuple[str, Run], *, steps: bool = False) -> str:
    """Return why the accuracies of two labelled runs can't be compared; "" where they can.

    Two models may have their classes in different orders, each its own, but an order that was assumed proves nothing.

    Args:
        steps: whether other steps of preparation are a reason, too, where both are from flags and so may be of one
            model; those beside a model are what it needs.
    """
    assumed = has_unsure_classes(a[1]) or has_unsure_classes(b[1])
    told_apart = all(
        run.evaluation is not None and run.evaluation.preprocessing_from.endswith("flags") for _, run in (a, b)
    )
    aspects = [_EVALUATED_TASK, *([_CLASSES] if assumed else []), *([_STEPS] if steps and told_apart else [])]
    found = _differences(aspects, [a, b])
    return f"can't be compared: different {'; different '.join(found)}" if found else ""


def differences_of_judging(a: tuple[str, Run], b: tuple[str, Run]) -> list[str]:
    """Return in what the accuracies of two labelled runs were judged differently."""
    return _differences([_EVALUATED_TASK, _CLASSES, _STEPS], [a, b])


_STATED: tuple[_Aspect[Run], ...] = (
    _STEPS,
    _CLASSES,
    _Aspect(MODEL, lambda run: run.job.model.sha256, _model_in_words),
    _Aspect("command", lambda run: run.job.command or None, lambda run: run.job.label),
    _Aspect("engine", _engine_in_words, _engine_in_words),
    _Aspect("engine settings", _options_in_words, _options_in_words),
    _Aspect(
        "environment variables",
        lambda run: run.job.target.variables,
        lambda run: variable_words(run.job.target.variables),
    ),
    _Aspect("threads", threads_of, lambda run: str(threads_of(run))),
    _Aspect("requests in flight", _requests, lambda run: str(_requests(run))),
    _Aspect(
        "types of the inputs",
        lambda run: tuple(sorted(spec.dtype for spec in run.job.workload.inputs)) or None,
        lambda run: " and ".join(spec.dtype for spec in run.job.workload.inputs),
    ),
    _Aspect("input data", lambda run: None if run.source else _data_in_words(run), _data_in_words),
    _Aspect(
        "memory limit",
        lambda run: run.job.target.memory_limit_bytes or 0,
        lambda run: format_limit(limit) if (limit := run.job.target.memory_limit_bytes) else "none asked for",
    ),
    _Aspect("warm-up", lambda run: None if run.source else _warmup_in_words(run), _warmup_in_words),
)


def _not_excluded(first: tuple[str, Run], other: tuple[str, Run]) -> list[str]:
    """Other causes that may have affected one of two runs measured apart."""
    (label, a), (other_label, b) = first, other
    if is_together(a, b) or a.id == b.id:
        return []
    both = f"{label} and {other_label}"
    if a.group is not None and a.group == b.group and a.job.workload.interleave == b.job.workload.interleave == "duet":
        return [f"{both} were measured at the same time: each slows the other, so only their ratios count"]
    if b.turns_against(a) is not None:
        found = [f"{both} took turns for their {b.headline} alone: for the rest drift of the machine and other load"]
    else:
        found = [f"{both} were {describe_apart(a, b)}: drift of the machine and other load"]
    same, reasons = same_hardware(a, b)
    if same is False:
        found.append(f"{both} ran on different hardware: {_list(reasons)}")
    elif same is None:
        found.append(f"{both} may have run on different hardware: {_list(reasons)}")
    names = [difference.name for difference in environment_differences(a, b)]
    return found + ([f"{both} ran under other conditions: {_list(names)}"] if names else [])


def _list(words: Sequence[str]) -> str:
    more = len(words) - _MOST_NAMED
    return ", ".join(words[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _gap(a: Run, b: Run) -> str:
    """Return the time between two runs' beginnings, in words."""
    seconds = abs((parse_time(a.created_at) - parse_time(b.created_at)).total_seconds())
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _unchecked(runs: Sequence[tuple[str, Run]]) -> list[str]:
    """Return what could not be checked because the record lacks it; a failed run has its own reason."""
    found = []
    for what, names in (
        ("another machine: no device", {"device"}),
        ("another model of the same name: no model file", {"model", "model file"}),
        ("another amount of work: no batch", {"batch"}),
        ("several inferences at once: no scenario", {"scenario"}),
    ):
        unknown = [label for label, run in runs if run.source is not None and names & set(run.source.unknown)]
        if unknown:
            found.append(f"{what} in the record of {', '.join(unknown)}")
    # Neither a program nor a language model is fed with arrays.
    runs = [(a, run) for a, run in runs if not run.job.command and run.job.workload.scenario.kind != "generate"]
    silent = [label for label, run in runs if not run.job.workload.inputs]
    if silent:
        found.append(f"other inputs: no input shapes in the record of {', '.join(silent)}")
    silent = [label for label, run in runs if run.status == "done" and _outputs(run) is None]
    if silent and len({run.job.model.sha256 for _, run in runs}) > 1:
        found.append(f"another task: no output shapes in the record of {', '.join(silent)}")
    return found


def _notes(runs: Sequence[tuple[str, Run]]) -> list[str]:
    """Accuracies on less than all samples as stored, and variants that are one run or one file with one setting."""
    told = by_key((each.message, label) for label, run in runs for each in run.cautions if each.code in ABOUT_DATA)
    found = [f"accuracy of {listing(labels)}: {message}" for message, labels in told.items()]
    for (label, a), (other_label, b) in combinations(runs, 2):
        if a.id == b.id:
            found.append(f"{label} and {other_label} are the same run: it is compared with itself")
    settings = [_settings(run) for _, run in runs]
    known = [(settings.index(own), one) for own, one in zip(settings, runs, strict=True) if one[1].job.model.is_known]
    for alike in by_key(known).values():
        each = {run.id: (label, run) for label, run in alike}
        if len(each) > 1:
            cause = "noise" if all(is_together(alike[0][1], run) for _, run in alike[1:]) else "noise or the conditions"
            who = listing([label for label, _ in each.values()])
            found.append(f"{who} are the same file with the same settings: what differs is {cause}")
    return found


def is_same_job(one: Run, other: Run) -> bool:
    """Whether two runs took turns as the same file with the same settings."""
    return _settings(one) == _settings(other) and one.job.model.is_known and is_together(one, other)


def _settings(run: Run) -> tuple[Any, ...]:
    job = run.job
    runtime = replace(job.runtime, version=engine_version(run), threads=threads_of(run), precision=precision_of(run))
    workload = replace(job.workload, interleave=None, profile=False, input_path=None, stopping=Stopping())
    return job.model.sha256, job.command, runtime, job.target, workload
