"""Accuracies in words: shares in percent, differences in points, and which number stands for a run."""

from __future__ import annotations

import math

from edgewise.amounts import ends_text, percent_of, points_text, share_text
from edgewise.metrics import SHARES
from edgewise.record import Measurement, Run
from edgewise.report.cells import quantity
from edgewise.report.document import ABSENT
from edgewise.text import one_line

CHIEF = (
    "accuracy_top1", "map_50_95", "miou", "exact_match", "auroc", "recall_at_1", "average_precision", "bleu",
    "mae", "rmse", "r2",
)  # fmt: skip
"""Metrics of which one stands for a run's accuracy: the first that it has."""
_JUDGED = frozenset(
    (*CHIEF, "accuracy_top5", "error_rate", "accuracy_balanced", "precision_macro", "recall_macro", "f1_macro",
     "map_50", "map_75", "recall_100", "pixel_accuracy", "f1_tokens", "recall_at_5", "recall_at_10")
)  # fmt: skip
_OF_AGREEMENT = ("agreement_top1", "agreement_boxes", "output_snr_worst", "output_snr", "output_max_abs_error")


def judged_rows(run: Run) -> tuple[Measurement, ...]:
    """The measurements of `run` that come from judging answers on data, each metric once."""
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
    """The metric that stands for a run's accuracy; None where its answers were not judged."""
    known = [row.metric for row in judged_rows(run)]
    if not known:
        return None
    if run.evaluation is not None and run.evaluation.task == "agreement":
        return next((metric for metric in _OF_AGREEMENT if metric in known), known[0])
    return next((metric for metric in CHIEF if metric in known), known[0])


def value_text(metric: str, unit: str, value: float | None, *, bare: bool = False) -> str:
    """`value` of `metric` as a person reads it: shares in percent, all else in its own unit.

    Args:
        bare: without the sign of percent.
    """
    if value is None or not math.isfinite(value):
        return ABSENT
    return share_text(value, unit=not bare) if metric in SHARES else quantity(value, unit)


def range_text(metric: str, unit: str, low: float | None, high: float | None, *, to: str = " to ") -> str:
    """``"97.05 % to 98.96 %"``, the ends of a share rounded outwards; empty where there is no interval."""
    if low is None or high is None:
        return ""
    if metric in SHARES:
        first, last = ends_text(percent_of(low), percent_of(high), 2)
        return f"{first} %{to}{last} %"
    return f"{quantity(low, unit)}{to}{quantity(high, unit)}"


def with_range(metric: str, unit: str, value: float | None, low: float | None, high: float | None) -> str:
    """``"98.22 % [97.05, 98.96]"``."""
    text = value_text(metric, unit, value)
    if value is None or low is None or high is None:
        return text
    if metric in SHARES:
        first, last = ends_text(percent_of(low), percent_of(high), 2)
        return f"{text} [{first}, {last}]"
    return f"{text} [{quantity(low, unit)}, {quantity(high, unit)}]"


def change_text(metric: str, difference: float | None, *, unit: bool = True) -> str:
    """``"+0.21 pt"`` for shares, ``"+0.021"`` for everything else; ``n/a`` where it is not known."""
    return ABSENT if difference is None else points_text(metric, difference, unit=unit)


def judged_on(run: Run) -> str:
    """What the answers were judged on, in one line; empty where they were not judged."""
    found = run.evaluation
    if found is None:
        return ""
    data = found.data
    words = f"{data.name} ({data.format}, {data.split}), {found.n} of {data.size} samples, task {found.task}"
    skipped = f", {found.skipped_count} skipped" if found.skipped_count else ""
    return one_line(f"{words}{skipped}, sha256 {data.sha256[:16]}")
