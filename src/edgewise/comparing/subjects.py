"""Compare models and stored runs: which jobs are measured side by side, and which runs are taken as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgewise.cancellation import Cancelled
from edgewise.comparing.assessment import assess
from edgewise.comparing.comparison import ComparisonResult, Variant
from edgewise.comparing.criteria import Criteria, check_criteria
from edgewise.comparing.divergence import with_divergence
from edgewise.comparing.files_agreement import compare_files
from edgewise.comparing.jobs import (
    AXES,
    JobSettings,
    Subject,
    find_model,
    make_job_like,
    refuse_unasked_environment,
    runs_among,
)
from edgewise.comparing.labels import label_jobs
from edgewise.comparing.metrics import choose_metrics, compare_pairs
from edgewise.comparing.trial import TrialSettings, check_all, run_trial
from edgewise.device.environments import engine_in, names_of
from edgewise.errors import BadInput
from edgewise.model.identity import format_of
from edgewise.record import Job, Run, Scenario, Stopping, TargetSpec
from edgewise.record.names import run_names
from edgewise.run.dispatch import Dispatcher, Interrupted
from edgewise.run.facts import availability_at
from edgewise.run.plan import Axes, NetworkFile, Plan, make_plan
from edgewise.run.run_builder import Sensors
from edgewise.run.variation import History
from edgewise.runtime.base import runtimes

NATIVE = {"onnx": "onnxruntime", "tflite": "litert", "openvino": "openvino"}
"""Format → the engine whose own format it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSettings:
    """Everything that a comparison needs besides the subjects.

    Attributes:
        axes, scenario, stopping, target, seed, input_data: how models are measured, as for a plan.
        stored: take the samples that runs have, even where their models are at hand.
        save: keeps what is measured.
        history: the reference times of earlier runs on this machine; None reads those in the user's own store.
        holding: the device is held inside; entered once all that can be refused before measuring was.
    """

    criteria: Criteria
    trial: TrialSettings
    save: Callable[[Run], None]
    axes: Axes = field(default_factory=Axes)
    scenario: Scenario = field(default_factory=Scenario)
    stopping: Stopping = field(default_factory=Stopping)
    target: TargetSpec = field(default_factory=TargetSpec)
    seed: int = 0
    input_data: Path | None = None
    sensors: Sensors | None = None
    stored: bool = False
    history: History | None = None
    holding: Callable[[], AbstractContextManager[None]] = nullcontext


def compare_subjects(subjects: Sequence[Subject], settings: ComparisonSettings) -> ComparisonResult:
    """Measure the models, side by side where that is possible, and compare all subjects.

    Runs alone are compared by their stored samples. A run beside a model is measured again, in turns with it, where the
    very file that the run measured is at hand.

    Raises:
        BadInput, BadModel, Unavailable: before anything was measured; what can't be compared fairly, unless forced.
    """
    if len(runs_among(subjects)) == len(subjects):
        return compare_stored(subjects, settings.criteria)
    entries, labels, notes = _make_entries(subjects, settings)
    jobs = [entry for entry in entries if isinstance(entry, Job)]
    if len(jobs) < len(entries):
        return _measure_apart(entries, labels, settings, notes=notes)
    with ExitStack() as held:

        def hold() -> AbstractContextManager[None]:
            held.enter_context(settings.holding())
            return nullcontext()

        findings = run_trial(
            jobs,
            labels=labels,
            criteria=settings.criteria,
            trial=settings.trial,
            save=settings.save,
            sensors=settings.sensors,
            history=settings.history,
            holding=hold,
        )
        # Under the same hold: given back in between, the device is somebody else's, who may keep it for minutes.
        findings = _with_outputs_compared(with_divergence(findings, settings.save), settings.save)
    return replace(findings, notes=(*findings.notes, *notes))


def _with_outputs_compared(findings: ComparisonResult, save: Callable[[Run], None]) -> ComparisonResult:
    """Hold the outputs of several files of one network against each other; the runs get how far these are apart."""
    runs = [variant.run for variant in findings.variants]
    if len({run.job.model.family for run in runs}) < 2 or findings.interrupted:
        return findings
    try:
        found = compare_files(runs, save)
    except KeyboardInterrupt:
        return replace(findings, interrupted=True)
    variants = (replace(variant, run=run) for variant, run in zip(findings.variants, found, strict=True))
    return replace(findings, variants=tuple(variants))


def compare_stored(subjects: Sequence[Subject], criteria: Criteria, *, notes: Sequence[str] = ()) -> ComparisonResult:
    """Compare runs by their stored samples. Raises `BadInput`."""
    runs = runs_among(subjects)
    hints = [one.word or name for one, name in zip(subjects, run_names(runs), strict=True)]
    labels = label_jobs([run.job for run in runs], [one.label for one in subjects], hints=hints)
    variants = [Variant(label=label, run=run) for label, run in zip(labels, runs, strict=True)]
    return assess(variants, criteria, notes=notes)


def compare_matched(
    pairs: Sequence[tuple[Run, Run]],
    criteria: Criteria,
    *,
    names: tuple[str | None, str | None] = (None, None),
    notes: Sequence[str] = (),
) -> ComparisonResult:
    """Compare the runs of each pair, corrected for all rows together. Raises `BadInput`.

    Args:
        names: names of the two sides; None means ``before`` and ``after``.
    """
    if len(pairs) == 1:
        sides = zip(pairs[0], names, strict=True)
        return compare_stored([Subject(thing=run, label=name) for run, name in sides], criteria, notes=notes)
    shown = label_jobs([first.job for first, _ in pairs], [None] * len(pairs))
    variants = [
        Variant(label=f"{label} ({side})", run=run)
        for label, pair in zip(shown, pairs, strict=True)
        for side, run in zip((names[0] or "before", names[1] or "after"), pair, strict=True)
    ]
    couples = [(index, index + 1) for index in range(0, len(variants), 2)]
    each = [assess([variants[a], variants[b]], criteria) for a, b in couples]
    metrics = choose_metrics(variants, criteria)

    def said(name: str) -> tuple[str, ...]:
        texts = [(label, text) for label, one in zip(shown, each, strict=True) for text in getattr(one, name)]
        return tuple(f"{label}: {text}" for label, text in texts)

    return ComparisonResult(
        variants=tuple(variants),
        comparisons=tuple(compare_pairs(variants, couples, metrics, criteria=criteria)),
        stated=said("stated"),
        obstacles=said("obstacles"),
        not_excluded=said("not_excluded"),
        environments=tuple(
            replace(row, name=f"{row.name} ({label})")
            for label, one in zip(shown, each, strict=True)
            for row in one.environments
        ),
        notes=(*said("notes"), *notes),
        failures={label: why for one in each for label, why in one.failures.items()},
        agreement={label: row for one in each for label, row in one.agreement.items()},
    )


def _make_entries(
    subjects: Sequence[Subject], settings: ComparisonSettings
) -> tuple[list[Job | Run], list[str], tuple[str, ...]]:
    """Jobs to measure and runs that can't be measured again, their labels, and notes."""
    reference = next(iter(runs_among(subjects)), None)
    entries: list[tuple[Job | Run, str | None]] = []
    notes: list[str] = []
    for one in subjects:
        if isinstance(one.thing, Run):
            again = None if settings.stored else _job_again(one.thing, settings, notes)
            entries.append((again or one.thing, one.label))
        elif reference is not None:
            asked = _asked(one, settings)
            refuse_unasked_environment(reference.job, asked)
            entries.append((make_job_like(one.thing, reference.job, asked).job, one.label))
        else:
            entries += [(job, one.label) for job in _vary(one.thing, one.settings, settings, notes)]
    shown = [entry if isinstance(entry, Job) else entry.job for entry, _ in entries]
    labels = label_jobs(shown, [label for _, label in entries])
    return [entry for entry, _ in entries], labels, tuple(dict.fromkeys(notes))


def _job_again(run: Run, settings: ComparisonSettings, notes: list[str]) -> Job | None:
    """Return the job that measures the model of `run` again, or None where its file was not found."""
    target = run.job.target
    if target.variables or target.environment:
        what = "with environment variables" if target.variables else f"in the environment {target.environment}"
        notes.append(f"{run.job.model.name} ran {what}; its stored samples are compared")
        return None
    found = find_model(run)
    name = run.job.model.name
    if found.path is None:
        notes.append(f"{name} could not be measured again ({found.because}); its stored samples are compared")
        return None
    notes.append(f"the model of the stored run, {name}, was measured again, side by side")
    return make_job_like(found.path, run.job, JobSettings(timeout_s=settings.stopping.timeout_s)).job


def _asked(one: Subject, settings: ComparisonSettings) -> JobSettings:
    """Return the given settings, for a job that takes the others from a run.

    Raises `BadInput` for several values of one.
    """
    given = {name: tuple(getattr(settings.axes, axis)) for name, axis in AXES.items()}
    if several := [AXES[name] for name, values in given.items() if len(values) > 1]:
        raise BadInput(
            f"several {several[0]} and a stored run can't be compared at once", advice="give one value, or models only"
        )
    single = {name: values[0] for name, values in given.items() if values and (name, values) != ("batch", (1,))}
    asked = JobSettings(
        shapes=settings.axes.shapes,
        settings=settings.axes.settings,
        variables=settings.axes.variables,
        scenario=settings.scenario if settings.scenario != Scenario() else None,
        input_data=settings.input_data,
        seed=settings.seed or None,
        timeout_s=settings.stopping.timeout_s,
        target=settings.target if settings.target != TargetSpec() else None,
    )
    return replace(asked, **{**single, **one.settings})


def _vary(
    model: Path | NetworkFile, own: Mapping[str, Any], settings: ComparisonSettings, notes: list[str]
) -> list[Job]:
    """All combinations of the axes for one model; its own settings leave nothing to vary."""
    fixed: dict[str, Any] = {AXES[name]: (value,) for name, value in own.items() if name in AXES}
    given = own.get("variables", ())
    others = [text for text in settings.axes.variables if not names_of([text]) & names_of(given)]
    fixed["variables"] = (*others, *given)
    chosen = replace(settings.axes, **fixed)
    if not chosen.runtimes and not any(engine_in(one or "") for one in chosen.environments):
        place = replace(settings.target, environment=next(iter(chosen.environments), settings.target.environment))
        chosen = replace(chosen, runtimes=native_runtime(model, place))
    jobs: list[Job] = []
    for batch in chosen.batches:
        plan = make_plan(
            [model],
            axes=replace(chosen, batches=(batch,)),
            scenario=settings.scenario,
            stopping=settings.stopping,
            target=settings.target,
            seed=settings.seed,
            input_data=settings.input_data,
        )
        jobs += plan.jobs
        notes += [f"not measured: {reason}" for reason in plan.skipped]
    return jobs


def native_runtime(path: Path | NetworkFile, target: TargetSpec) -> tuple[str, ...]:
    """Return the engine on `target` whose own format the model has, else the first that reads it.

    Empty leaves the error to the plan.
    """
    form = format_of(path)[0]
    registry = runtimes()
    names = [NATIVE[form]] if form in NATIVE else []
    names += [name for name, runtime in registry if form in runtime.formats]
    for name in names:
        if name in registry.names() and availability_at(target, name, registry.get(name)):
            return (name,)
    return ()


def _measure_apart(
    entries: Sequence[Job | Run], labels: Sequence[str], settings: ComparisonSettings, *, notes: Sequence[str]
) -> ComparisonResult:
    """Models beside runs that can't be measured again: the models as `bench` does, the runs as they are."""
    check_criteria(settings.criteria)
    shown = [entry if isinstance(entry, Job) else entry.job for entry in entries]
    check_all(shown, labels, force=settings.criteria.force)
    dispatcher = Dispatcher(save=settings.save, sensors=settings.sensors, history=settings.history)
    rounds = settings.trial.rounds
    jobs = [entry for entry in entries if isinstance(entry, Job)]
    jobs = jobs if rounds is None else [_with_sessions(job, rounds) for job in jobs]
    interrupted = False
    try:
        with settings.holding():
            measured = list(dispatcher.execute(Plan(jobs=tuple(jobs)), budget_s=settings.trial.budget_s))
    except Interrupted as stop:
        measured, interrupted = list(stop.runs), True
    fresh = iter(measured)
    found = [(label, next(fresh, None) if isinstance(entry, Job) else entry)
             for label, entry in zip(labels, entries, strict=True)]  # fmt: skip
    variants = [Variant(label=label, run=run) for label, run in found if run is not None]
    if len(variants) < 2:
        raise Cancelled("interrupted before two variants were measured")
    findings = assess(variants, settings.criteria, notes=notes)
    return replace(findings, interrupted=interrupted)


def _with_sessions(job: Job, sessions: int) -> Job:
    stopping = replace(job.workload.stopping, sessions=sessions)
    return replace(job, workload=replace(job.workload, stopping=stopping))
