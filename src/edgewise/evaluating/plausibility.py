"""Detects scores so low that samples are probably prepared wrongly, or labels numbered differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.evaluating.class_order import is_clear
from edgewise.evaluating.evaluator import SampleResults
from edgewise.evaluating.scores import Score, split_table
from edgewise.evaluating.task import MetricTable
from edgewise.evaluating.tasks.classification import ClassificationTable
from edgewise.formatting import share_text
from edgewise.metrics import METRICS, SHARES
from edgewise.record import Caution
from edgewise.units import significant

CODE = "implausible-accuracy"


def check_plausible(
    scores: Sequence[Score], table: MetricTable, *, headline: str, results: SampleResults, settings: Mapping[str, Any]
) -> Caution | None:
    """Return a caution where a model is no better than guessing, with what it was fed and how labels were read.

    Args:
        headline: the metric that the task is about.
        settings: of the scorer: how outputs and labels were read.
    """
    score = next((one for one in scores if one.metric == headline), None)
    # Agreement with a reference is low for other reasons: both were fed the same.
    if score is None or score.value is None or headline not in SHARES or headline == "agreement_top1":
        return None
    classified = next((part for part in split_table(table) if isinstance(part, ClassificationTable)), None)
    found = f"{METRICS[headline].label} {share_text(score.value)} on {score.n} sample{'s' if score.n != 1 else ''}"
    if headline == "accuracy_top1" and classified is not None:
        chance = 1.0 / max(classified.classes, 1)
        among = f" among {classified.classes} classes"
    else:
        chance, among = getattr(table, "chance", 0.5 if headline == "auroc" else 0.0), ""
    least = score.value if score.low is None else score.low
    # Where all is right, few samples may not tell it from guessing, but nothing is doubtful.
    if score.value == 1.0 or chance == 1.0 or least > chance or (not chance and score.value > 0.0):
        return None
    found += f": no better than guessing{among}" if chance else ": nothing was right"
    clues = [] if classified is None else _find_clues(classified)
    fed = [
        f"values fed to {name}: {significant(low)} to {significant(high)}" for name, (low, high) in results.fed.items()
    ]
    done = [f"prepared as {note}" for note in results.notes]
    labels = [str(settings["labels"])] if "labels" in settings else []
    return Caution.of(CODE, "; ".join([found, *clues, *fed, *done, *labels]))


def _find_clues(table: ClassificationTable) -> list[str]:
    """Return evidence in the answers that labels are numbered differently."""
    shifts = {by: table.accuracy_shifted(by) for by in (1, -1)}
    best = max(shifts, key=lambda by: shifts[by])
    if is_clear(shifts[best], table.n):
        share = share_text(shifts[best])
        if best > 0:
            return [
                f"{share} of the answers are the label plus 1: is there an output before the first class (offset=1)?"
            ]
        return [f"{share} of the answers are the label minus 1: do the labels of the data count from 1?"]
    if (only := table.only_answer()) is not None:
        return [f"every sample is answered with class {only}"]
    renumbered = table.accuracy_renumbered()
    if renumbered is not None and is_clear(renumbered, table.n):
        return [
            f"{share_text(renumbered)} would be right if classes were numbered otherwise: are they in another order?"
        ]
    return []
