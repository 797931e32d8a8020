"""The tables of an evaluation: one row a model, every metric of one, and one minus the first, sample by sample."""

from __future__ import annotations

from functools import partial

from edgewise.device.devices import LOCAL
from edgewise.evaluating.evaluation import EvaluationResults, ModelEvaluation
from edgewise.evaluating.scores import MetricDifference, Score
from edgewise.formatting import interval_text, p_text, points_range, points_text, value_text, with_range
from edgewise.metrics import METRICS
from edgewise.optimizing.changed_answers import ChangedAnswers
from edgewise.record import Evaluation, Run
from edgewise.record.facts import precision_of, threads_of
from edgewise.report.bench.tables import metric_column
from edgewise.report.document import (
    Cell,
    Column,
    Columns,
    Table,
    absent,
    raw_cell,
    table_by_columns,
    table_of,
    value_cell,
)
from edgewise.report.document.columns import number_column, text_column
from edgewise.report.runs.cells import label_of, reason_of_absence
from edgewise.report.runs.conditions import labels_of, names_of, provider_of
from edgewise.report.runs.provenance import facts_of_run, how_of, provenance_of_column
from edgewise.text import one_line

NO_REASON = "no reason was recorded"
NO_CHIEF = "the evaluation gave no score"


def model_labels(results: EvaluationResults) -> list[str]:
    """One short name per model; with several engines, what distinguishes them."""
    names = names_of([one.run for one in results.models])
    if len(set(names)) == len(names):
        return names
    return labels_of([one.run for one in results.models])


def chief_score(one: ModelEvaluation) -> Score | None:
    """Return the score of the metric that the task is about."""
    return next((score for score in one.scores if score.metric == one.headline), None)


def class_name(evaluation: Evaluation, index: int) -> str:
    """Return the name of a class, or its number where it has none."""
    return one_line(evaluation.classes[index]) if index < len(evaluation.classes) else f"class {index}"


def changed_models(results: EvaluationResults) -> dict[str, ChangedAnswers]:
    """Label → the samples that the model answers with another class than the reference."""
    pairs = zip(model_labels(results), results.models, strict=True)
    return {label: one.changed for label, one in pairs if one.changed is not None}


def overview_table(results: EvaluationResults) -> Table:
    """One row a model, with accuracy and latency beside each other."""
    runs = [one.run for one in results.models]
    names = names_of(runs)
    engines = [provider_of(run) for run in runs]
    model = Column(title="Model", rank=9 if len(runs) > 1 and len(set(names)) == 1 else 0, name=True)
    runtime = Column(title="Runtime", rank=1 if len({*engines}) == 1 else 0, name=True)
    columns = [
        (Column(title="Run", hidden=True), [Cell(text=run.id) for run in runs]),
        (model, [Cell(text=name) for name in names]),
        (runtime, [Cell(text=words) for words in engines]),
    ]
    for metric in dict.fromkeys(one.headline for one in results.models if one.headline):
        scores = [_score_cell(one, metric) for one in results.models]
        columns.append((Column(title=label_of(metric), numeric=True, folds=True), scores))
    timed = any(run.measurement(metric) is not None for run in runs for metric in ("latency", "decode_rate"))
    for metric, rank in _MEASURED.items():
        if metric == "inference_time" and not timed:
            continue  # times of the evaluation's own samples, which the note below would contradict
        found_in = Run.value if metric == "inference_time" else Run.measurement
        if any(found_in(run, metric) is not None for run in runs):
            columns.append(metric_column(runs, metric, rank=rank, interval=metric in ("latency", "decode_rate")))
    if any(run.trust is not None for run in runs):
        columns.append((Column(title="Grade", rank=3), [_grade(one) for one in results.models]))
    notes = () if timed else ("latency was not measured",)
    speed = "speed" if any(run.measurement("decode_rate") is not None for run in runs) else "latency"
    return table_by_columns(f"Accuracy and {speed}" if timed else "Accuracy", columns, notes=notes)


def _score_cell(one: ModelEvaluation, metric: str) -> Cell:
    score = next((each for each in one.scores if each.metric == metric), None)
    if score is None or score.value is None:
        why = (score.absent_because if score is not None else "") or reason_of_absence(one.run, metric)
        return absent(one_line(why))
    text = with_range(metric, METRICS[metric].unit, score.value, score.low, score.high)
    return Cell(text=text, value=score.value, low=score.low, high=score.high, how=how_of(one.run, score.metric))


def _grade(one: ModelEvaluation) -> Cell:
    if one.run.status == "failed":
        return Cell(text=one.run.status, tone="bad")
    return absent("the run was not graded") if one.run.trust is None else Cell(text=one.run.trust.grade)


def metrics_table(one: ModelEvaluation, label: str) -> Table | None:
    """Every metric with its interval; None where the pass failed."""
    if not one.scores:
        return None

    def value(score: Score) -> Cell:
        if score.value is None:
            return absent(one_line(score.absent_because or NO_REASON))
        text = value_text(score.metric, METRICS[score.metric].unit, score.value)
        notes, how = tuple(filter(None, [one_line(score.method)])), how_of(one.run, score.metric)
        return Cell(text=text, value=score.value, low=score.low, high=score.high, notes=notes, how=how)

    def interval(score: Score) -> Cell:
        if score.value is None:
            return Cell(text="")
        text = interval_text(score.metric, METRICS[score.metric].unit, score.value, score.low, score.high)
        return Cell(text=text) if text else absent()  # the value's own note says why there is none

    columns: Columns[Score] = [
        text_column("Metric", lambda score: label_of(score.metric)),
        (Column(title="Value", numeric=True), value),
        (Column(title="95 % interval", numeric=True, folds=True), interval),
        number_column("n", lambda score: score.n, str, rank=1),
    ]
    return table_of(f"Metrics of {label}", one.scores, columns)


def differences_table(one: ModelEvaluation, label: str, first: str) -> Table | None:
    """Against the first model, on the samples that both answered; None for the first, and where there are none."""
    if not one.differences:
        return None
    methods, run = "; ".join(dict.fromkeys(gap.method for gap in one.differences)), facts_of_run(one.run)
    how = partial(provenance_of_column, "Difference to the first model", "derived", methods, "beside each number", run)

    def difference(gap: MetricDifference) -> Cell:
        if gap.difference is None:
            return absent(one_line(gap.absent_because or NO_REASON))
        text, notes = points_text(gap.metric, gap.difference), tuple(filter(None, [one_line(gap.method)]))
        return Cell(text=text, value=gap.difference, low=gap.low, high=gap.high, notes=notes)

    def interval(gap: MetricDifference) -> Cell:
        text = points_range(gap.metric, gap.low, gap.high)
        return Cell(text=text) if text or gap.difference is None else absent()

    def p_value(gap: MetricDifference) -> Cell:
        return Cell(text="") if gap.difference is None else value_cell(gap.p_value, p_text)

    columns: Columns[MetricDifference] = [
        text_column("Metric", lambda gap: label_of(gap.metric)),
        (Column(title="Difference", numeric=True, how=how), difference),
        (Column(title="95 % interval", numeric=True, folds=True), interval),
        (Column(title="p", numeric=True, how=how), p_value),
        number_column("n", lambda gap: gap.n, str, rank=1),
    ]
    return table_of(f"{label} minus {first} on the same samples", one.differences, columns)


_MEASURED = {
    "latency": 0,
    "decode_rate": 0,
    "ttft": 2,
    "inference_time": 3,
    "model_size": 2,
    "memory_delta": 0,
    "memory_peak": 4,
}
"""What is measured beside the accuracy → rank of its column."""


def csv_table(results: EvaluationResults) -> Table:
    """One row per model and metric, SI units, nothing rounded, for machines; one row of a model that failed.

    What was measured beside the accuracy, such as the latency, has its rows behind those of the accuracy.
    """
    titles = ("Model", "Runtime", "Provider", "Threads", "Precision", "Metric", "Label", "Unit", "Value", "n", "Of",
              "Left out", "Method", "Difference to the first", "p", "Method of the difference", "Data", "Split",
              "Data sha256", "Status", "Run")  # fmt: skip
    numeric = {"Threads", "Value", "n", "Of", "Left out", "Difference to the first", "p"}
    columns = [Column(title=title, numeric=title in numeric) for title in titles]
    there = any(one.run.job.target.device != LOCAL for one in results.models)
    columns += [Column(title="Device")] if there else []
    rows = [
        (*_csv_row(one, name, score), *([_text(one.run.job.target.device)] if there else []))
        for one, name in zip(results.models, names_of([one.run for one in results.models]), strict=True)
        for score in (*(one.scores or (None,)), *_measured(one))
    ]
    return Table(title="Evaluation", columns=tuple(columns), rows=tuple(rows))


def _measured(one: ModelEvaluation) -> list[Score]:
    rows = [row for metric in _MEASURED if (row := one.run.measurement(metric)) is not None]
    return [
        Score(metric=row.metric, n=len(row.samples), value=row.value, low=row.low, high=row.high, method=row.method)
        for row in rows
        if row.value is not None
    ]


def _csv_row(one: ModelEvaluation, name: str, score: Score | None) -> tuple[Cell, ...]:
    evaluation, none = one.run.evaluation, absent()
    metric = one.headline if score is None else score.metric
    gap = next((each for each in one.differences if each.metric == metric), None)
    known, counts = (none, none, none), (none, none)
    if evaluation is not None:
        data = evaluation.data
        counts = raw_cell(data.size), raw_cell(evaluation.skipped_count)
        known = (_text(data.name), _text(data.split), _text(data.sha256))
    return (
        _text(name),
        _text(one.run.job.runtime.name),
        _text(one.run.job.runtime.provider or ""),
        raw_cell(threads_of(one.run)),
        _text(precision_of(one.run) or ""),
        _text(metric),
        _text(label_of(metric)) if metric else none,
        _text(METRICS[metric].unit) if metric else none,
        _value(one, score),
        none if score is None else raw_cell(score.n),
        *counts,
        none if score is None else _text(score.method),
        *_gap(gap),
        *known,
        _text(one.run.status),
        _text(one.run.id),
    )


def _value(one: ModelEvaluation, score: Score | None) -> Cell:
    if score is None:
        return absent(reason_of_absence(one.run, one.headline) if one.run.failure is not None else NO_CHIEF)
    return raw_cell(score.value, one_line(score.absent_because or NO_REASON), low=score.low, high=score.high)


def _gap(gap: MetricDifference | None) -> tuple[Cell, Cell, Cell]:
    if gap is None:
        return absent(), absent(), absent()
    why = one_line(gap.absent_because or NO_REASON)
    return raw_cell(gap.difference, why, low=gap.low, high=gap.high), raw_cell(gap.p_value), _text(gap.method)


def _text(text: str) -> Cell:
    return Cell(text=one_line(text) or "n/a")
