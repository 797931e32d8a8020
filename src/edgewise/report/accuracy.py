"""Which metric represents the accuracy of a run, and on which data it was measured."""

from __future__ import annotations

from edgewise.record import Evaluation, Measurement, Run
from edgewise.text import one_line

CHIEF = (
    "accuracy_top1", "map_50_95", "miou", "exact_match", "auroc", "recall_at_1", "average_precision", "bleu",
    "mae", "rmse", "r2",
)  # fmt: skip
"""Metrics that can represent a run's accuracy: the first one that it has."""
_JUDGED = frozenset(
    (*CHIEF, "accuracy_top5", "error_rate", "accuracy_balanced", "precision_macro", "recall_macro", "f1_macro",
     "map_50", "map_75", "recall_100", "pixel_accuracy", "f1_tokens", "recall_at_5", "recall_at_10")
)  # fmt: skip
_OF_AGREEMENT = ("agreement_top1", "agreement_boxes", "output_snr_worst", "output_snr", "output_max_abs_error")


def judged_rows(run: Run) -> tuple[Measurement, ...]:
    """The measurements of `run` from an evaluation on data, each metric once."""
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
    """The metric that represents a run's accuracy; None without an evaluation."""
    known = [row.metric for row in judged_rows(run)]
    if not known:
        return None
    if run.evaluation is not None and run.evaluation.task == "agreement":
        return next((metric for metric in _OF_AGREEMENT if metric in known), known[0])
    return next((metric for metric in CHIEF if metric in known), known[0])


def judged_on(run: Run) -> str:
    """The data that accuracy was measured on, in one line; empty without an evaluation."""
    found = run.evaluation
    if found is None:
        return ""
    data = found.data
    words = f"{data.name} ({data.format}, {data.split}), {found.n} of {data.size} samples, task {found.task}"
    skipped = f", {found.skipped_count} skipped" if found.skipped_count else ""
    return one_line(f"{words}{skipped}, sha256 {data.sha256[:16]}")


def preparation_of(evaluation: Evaluation) -> list[str]:
    """The steps that prepared every sample that answers were judged on."""
    done = evaluation.preprocessing.get("done", ())
    return [str(each) for each in done] if isinstance(done, list | tuple) else [str(done)]
