"""Merge several runs into one row of a table: values that a run lacks are taken from another run.

A number is taken only from a run of the same model. Unless it is counted in the graph, engine, version, provider,
precision and kind of machine must be the same too, and, unless it is an accuracy, shapes, threads, batch and scenario.
Nothing that a run knows itself is replaced, but an accuracy that another order of the classes explains far better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgewise.evaluating.class_order import doubt_order
from edgewise.grouping import by_key
from edgewise.record import Measurement, Run
from edgewise.record.facts import precision_of, threads_of
from edgewise.record.reference import machine_key
from edgewise.report.runs.cells import chief_metric, judged_on, judged_rows, label_of
from edgewise.report.runs.conditions import engine_of
from edgewise.run.complexity import COUNTED
from edgewise.store.preference import preference_of
from edgewise.text import one_line

ACCURACY = "accuracy"
"""Stands for all metrics of one evaluation, which are taken together or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRun:
    """A run with values of others, and the trust in the run of its latency; `sources` maps a metric, or `ACCURACY`, to
    the run it was taken from.
    """

    run: Run
    sources: Mapping[str, Run] = field(default_factory=dict)

    def origins(self) -> list[tuple[str, Run, str]]:
        """Which values were taken from which run, and what an accuracy was judged on; one a run."""
        runs = {source.id: source for source in self.sources.values()}
        labelled = (
            (source.id, "Accuracy" if metric == ACCURACY else label_of(metric))
            for metric, source in self.sources.items()
        )
        return [
            (", ".join(labels), runs[name], judged_on(runs[name]) if "Accuracy" in labels else "")
            for name, labels in by_key(labelled).items()
        ]


def name_run(run: Run) -> str:
    """``"run 0195f0c0-0000 of 2026-03-04"``."""
    return f"run {run.id[:13]} of {one_line(run.created_at[:10])}"


def is_lacking(run: Run, metric: str) -> bool:
    """Whether `run` has no value of `metric`, or, of `ACCURACY`, none for which the order of the classes is right."""
    if metric == ACCURACY:
        return chief_metric(run) is None or bool(doubt_order(run.evaluation))
    return run.value(metric) is None


def merge_runs(runs: Sequence[Run], metrics: Sequence[str], *, known: Sequence[Run] = ()) -> list[MergedRun]:
    """Return the runs with what they lack of `metrics`, from one another and from `known`.

    The newest accuracy counts, and of other metrics the one of the run of the best grade, then the newest.

    A run that has no result but an accuracy, and gave that to another one of `runs`, has no row of its own.
    """
    others = {run.id: run for run in (*known, *runs) if run.status == "done"}
    newest = sorted(others.values(), key=lambda run: run.created_at, reverse=True)
    best = sorted(others.values(), key=preference_of)
    found = [_join(run, metrics, newest, best) for run in runs]
    given = {each.sources[ACCURACY].id for each in found if ACCURACY in each.sources}
    kept = [each for run, each in zip(runs, found, strict=True) if run.id not in given or run.value(run.headline)]
    return kept or found


def _join(run: Run, metrics: Sequence[str], newest: Sequence[Run], best: Sequence[Run]) -> MergedRun:
    added: list[Measurement] = []
    sources: dict[str, Run] = {}
    for metric in metrics:
        # What did not end here has no times, whatever an earlier run says.
        if not is_lacking(run, metric) or (run.status != "done" and metric not in COUNTED):
            continue
        candidates = newest if metric == ACCURACY else best
        source = next((each for each in candidates if _tells(each, metric, run)), None)
        if source is None:
            continue
        sources[metric] = source
        rows = judged_rows(source) if metric == ACCURACY else (source.measurement(metric),)
        added += [row for row in rows if row is not None]
    if not sources:
        return MergedRun(run=run)
    names = {row.metric for row in (*added, *(judged_rows(run) if ACCURACY in sources else ()))}
    kept = tuple(row for row in run.measurements if row.metric not in names)
    evaluation = sources[ACCURACY].evaluation if ACCURACY in sources else run.evaluation
    trust = sources.get("latency", run).trust
    return MergedRun(
        run=replace(run, measurements=(*kept, *added), evaluation=evaluation, trust=trust), sources=sources
    )


def _tells(other: Run, metric: str, run: Run) -> bool:
    """Whether `other` has `metric` and its value is valid for `run`."""
    if other.id == run.id or other.job.model.sha256 != run.job.model.sha256 or is_lacking(other, metric):
        return False
    if metric == ACCURACY and other.evaluation is not None and other.evaluation.task == "agreement":
        return False
    shapes = [[(spec.name, spec.shape) for spec in each.job.workload.inputs] for each in (run, other)]
    if metric in COUNTED:
        return metric not in ("macs", "ops") or shapes[0] == shapes[1]
    if not _same_place(run, other):
        return False
    if metric == ACCURACY:
        return True
    return shapes[0] == shapes[1] and _settings(run) == _settings(other)


def _same_place(a: Run, b: Run) -> bool:
    """Whether both ran on one engine, in one precision, on one kind of machine, as far as recorded."""
    engines = [(engine_of(run), run.job.runtime.provider, run.job.runtime.options) for run in (a, b)]
    precisions = {word for run in (a, b) if (word := precision_of(run)) is not None}
    machine = machine_key(a.environment)
    return (
        engines[0] == engines[1]
        and len(precisions) < 2
        and a.job.target.device == b.job.target.device
        and a.job.target.constraints == b.job.target.constraints
        and machine is not None
        and machine == machine_key(b.environment)
    )


def _settings(run: Run) -> tuple[object, ...]:
    return threads_of(run), run.job.workload.batch, run.job.workload.scenario
