"""Cells of tables from measurements: units, intervals, reasons of absent values; which metric is the accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from edgewise.formatting import DIGITS, known_within, plus_minus, scale_of, with_ends
from edgewise.metrics import METRICS, SHARES, is_score
from edgewise.record import Evaluation, Measurement, Run
from edgewise.report.document import Cell, absent
from edgewise.report.runs.provenance import how_of
from edgewise.text import one_line
from edgewise.units import format_quantity, significant

NOT_MEASURED = "not measured by this run"

Scale = Callable[[float], float]


def times(factor: float) -> Scale:
    """Return a scale that multiplies, such as ``times(1e3)`` from s to ms."""
    return lambda value: value * factor


def celsius(kelvin: float) -> float:
    """°C from K."""
    return kelvin - 273.15


def reason_of_absence(run: Run, metric: str) -> str:
    """Why `run` has no value of `metric`: its recorded reason, its failure, or that it was not measured."""
    row = run.measurement(metric)
    if row is not None and row.absent_because:
        return one_line(row.absent_because)
    if run.failure is not None:
        return failure_of(run)
    if run.status == "cancelled":
        return "the run was cancelled before this was measured"
    return NOT_MEASURED


def failure_of(run: Run) -> str:
    """One line on why `run` failed, with the phase and the advice."""
    failure = run.failure
    if failure is None:
        return f"the run was {run.status}" if run.status != "done" else ""
    where = f" in phase {one_line(failure.phase)}" if failure.phase else ""
    message = one_line(failure.message).rstrip(".")
    advice = f"; {one_line(failure.advice)}" if failure.advice else ""
    return f"the run failed{where}: {failure.cause}: {message}{advice}"


def cell_of(run: Run, metric: str, *, scale: Scale = lambda value: value, interval: bool = True) -> Cell:
    """Return the cell of `metric`, from its SI unit by `scale`; without `interval`, the text has none, the cell has."""
    row = run.measurement(metric)
    if row is None or row.value is None or not math.isfinite(row.value):
        return absent(reason_of_absence(run, metric))
    cell = cell_of_measurement(row, scale=scale, interval=interval)
    return replace(cell, notes=(*cell.notes, *mean_notes(run, metric)), how=how_of(run, metric))


def notes_of(run: Run, row: Measurement) -> tuple[str, ...]:
    """Return what limits a value of `run`: a time of other processes than the latency below it, a very wide interval,
    and a throughput that is not that of the median.
    """
    return (*engine_notes(run, row), *vague_notes(row.value, row.low, row.high), *mean_notes(run, row.metric))


def engine_notes(run: Run, row: Measurement) -> tuple[str, ...]:
    """Say why a profile's inferences take longer by the engine's clock than by ours; empty elsewhere."""
    latency = run.value("latency")
    if run.profile is None or row.metric != "latency_engine" or not latency or (row.value or 0.0) <= latency:
        return ()
    return ("above the latency because it is of other processes, measured at another time",)


def vague_notes(value: float | None, low: float | None, high: float | None) -> tuple[str, ...]:
    """Say within which factor a very wide interval leaves its value known; empty for others."""
    known = known_within(value, low, high)
    return (f"{known}, by its 95 % interval",) if known else ()


def mean_notes(run: Run, metric: str) -> tuple[str, ...]:
    """State that a throughput is of the mean latency, where the median beside it is far below; empty elsewhere."""
    latency = run.measurement("latency") if metric == "throughput" else None
    if all(each.code != "mean-above-median" for each in run.cautions):
        return ()
    if latency is None or latency.summary is None or latency.value is None:
        return ()
    mean, median = (format_quantity(value, "s") for value in (latency.summary.mean, latency.value))
    return (f"of the mean latency, {mean}; the latency of {median} is the median",)


def cell_of_measurement(row: Measurement, *, scale: Scale = lambda value: value, interval: bool = True) -> Cell:
    """Return the cell of a measurement that has a value."""
    if row.value is None:
        raise ValueError(f"{row.metric} has no value")
    value = scale(row.value)
    low = scale(row.low) if row.low is not None and math.isfinite(row.low) else None
    high = scale(row.high) if row.high is not None and math.isfinite(row.high) else None
    notes = (*basis_notes(row), *vague_notes(row.value, row.low, row.high))
    if row.metric in SHARES or is_score(row.metric):
        ends = (row.low, row.high) if interval and low is not None and high is not None else (None, None)
        text = with_ends(row.metric, row.value, *ends, digits=DIGITS)
    else:
        text = plus_minus(value, low, high) if interval else significant(value, DIGITS)
    return Cell(text=text, value=value, low=low, high=high, notes=notes)


def amount_cell(
    metric: str, value: float, low: float | None, high: float | None, scale: tuple[Scale, str], *, digits: int = DIGITS
) -> Cell:
    """Return the cell of a value of `metric` with its interval, short without it; `scale` is of `scale_of`."""
    convert, unit = scale
    known = low is not None and high is not None and low < high
    if metric in SHARES or is_score(metric):
        short = with_ends(metric, value, None, None, digits=digits, unit=unit)
        text = with_ends(metric, value, low, high, digits=digits, unit=unit)
    else:
        ends = [None if end is None else convert(end) for end in (low, high)]
        short = f"{significant(convert(value), digits)} {unit}".rstrip()
        text = f"{plus_minus(convert(value), *ends)} {unit}".rstrip()
    return Cell(text=text if known else short, short=short, value=value, low=low, high=high)


def scales_of_two(metric: str, unit: str, values: Sequence[float]) -> tuple[tuple[Scale, str], tuple[Scale, str]]:
    """Scales of two values that are read side by side: one, unless they are too far apart for one unit."""
    if len(values) == 2 and min(map(abs, values)) * 1e3 < max(map(abs, values)):
        return scale_of(metric, unit, values[:1]), scale_of(metric, unit, values[1:])
    return (scale_of(metric, unit, values),) * 2


def basis_notes(row: Measurement) -> tuple[str, ...]:
    """Return a footnote for every value that was not measured or computed from what was."""
    if row.basis in ("simulated", "estimated"):
        return (f"{row.basis}: {one_line(row.method)}",)
    return ()


def label_of(metric: str) -> str:
    """Return the label of `metric`; its id where the catalogue lacks it (a newer record)."""
    row = METRICS.get(metric)
    return row.label if row is not None else metric


_SHORT = {"accuracy_top1": "Top-1", "accuracy_top5": "Top-5", "output_max_abs_error": "Max error"}


def short_label_of(metric: str) -> str:
    """``"Top-1"``: as `label_of`, for cells that name their metric."""
    return _SHORT.get(metric) or label_of(metric)


CHIEF = (
    "accuracy_top1", "map_50_95", "miou", "exact_match", "auroc", "recall_at_1", "average_precision", "bleu",
    "perplexity", "mae", "rmse", "r2",
)  # fmt: skip
"""Metrics that can represent a run's accuracy: the first one that it has."""
_JUDGED = frozenset(
    (*CHIEF, "accuracy_top5", "error_rate", "accuracy_balanced", "precision_macro", "recall_macro", "f1_macro",
     "map_50", "map_75", "recall_100", "pixel_accuracy", "f1_tokens", "rouge_l", "bits_per_byte",
     "tokens_scored", "tokens_before", "recall_at_5", "recall_at_10")
)  # fmt: skip
_OF_AGREEMENT = ("agreement_top1", "agreement_boxes", "output_snr_worst", "output_snr", "output_max_abs_error")


def judged_rows(run: Run) -> tuple[Measurement, ...]:
    """Return the measurements of `run` from an evaluation on data, each metric once."""
    about_agreement = run.evaluation is not None and run.evaluation.task == "agreement"
    found = {
        row.metric: row
        for row in run.measurements
        if row.metric in _JUDGED
        or row.metric.startswith(("score:", "loss:"))
        or (about_agreement and row.metric in _OF_AGREEMENT)
    }
    return tuple(found.values())


def chief_metric(run: Run) -> str | None:
    """Return the metric that represents a run's accuracy; None without an evaluation."""
    known = [row.metric for row in judged_rows(run)]
    if not known:
        return None
    if run.evaluation is not None and run.evaluation.task == "agreement":
        return next((metric for metric in _OF_AGREEMENT if metric in known), known[0])
    return next((metric for metric in CHIEF if metric in known), known[0])


def judged_on(run: Run) -> str:
    """Return the data that accuracy was measured on, in one line; empty without an evaluation."""
    found = run.evaluation
    if found is None:
        return ""
    data = found.data
    words = f"{data.name} ({data.format}, {data.split}), {found.n} of {data.size} samples, task {found.task}"
    skipped = f", {found.skipped_count} skipped" if found.skipped_count else ""
    return one_line(f"{words}{skipped}, {data.hashes()}")


def preparation_of(evaluation: Evaluation) -> list[str]:
    """Return the steps that prepared every sample that answers were judged on."""
    done = evaluation.preprocessing.get("done", ())
    return [str(each) for each in done] if isinstance(done, list | tuple) else [str(done)]
