"""Criteria of a comparison: which metrics, and which differences matter."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from edgewise.errors import BadInput
from edgewise.metrics import METRICS

THRESHOLD = 0.03
"""A relative difference up to this doesn't matter unless the user says otherwise."""

FLOORS: dict[str, float] = {
    **dict.fromkeys(("latency", "latency_paced", "latency_engine", "latency_mean"), 0.2e-6),
    **dict.fromkeys(("latency_p99", "response_time"), 1e-6),
    "latency_first": 10e-6,
    "load_time": 1e-3,
    **dict.fromkeys(("import_time", "startup_time"), 10e-3),
    **dict.fromkeys(("memory_baseline", "memory_load", "memory_peak", "memory_delta", "memory_group_peak"), 2**20),
}
"""Metric → absolute difference (SI) that doesn't matter whatever its share: below it lie the resolution of clocks, one
page table more or less, and the disk cache's moods."""

METRICS_COMPARED = (
    "latency", "latency_p99", "latency_paced", "tpot", "ttft", "throughput", "cpu_time", "memory_peak",
    "memory_group_peak", "model_size", "energy", "accuracy_top1", "accuracy_top5", "error_rate", "map_50_95", "miou",
    "auroc", "exact_match", "bleu", "perplexity", "bits_per_byte", "mae", "rmse", "recall_at_1",
)  # fmt: skip
"""Compared where one of the runs tells them; others by name."""

FRONT_METRICS = ("latency", "tpot", "memory_peak", "model_size", "energy", "accuracy_top1")
"""What the Pareto front is over, of those that every variant has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What a comparison looks at.

    Attributes:
        metrics: ids of the metric catalogue; empty means `METRICS_COMPARED`, as far as one of the runs has them.
        threshold: relative difference that doesn't matter, 0.03 for 3 %.
        floors: metric → absolute difference that doesn't matter, SI; what is not named has that of `FLOORS`, or none.
        front: metrics of the Pareto front; empty means `FRONT_METRICS`.
        force: compare what can't be compared fairly.
    """

    metrics: tuple[str, ...] = ()
    threshold: float = THRESHOLD
    floors: Mapping[str, float] = field(default_factory=dict)
    front: tuple[str, ...] = ()
    force: bool = False

    def margin_of(self, metric: str, value: float | None) -> float:
        """Return the relative difference that doesn't matter where the smaller side is `value`: the wider of
        the two.
        """
        floor = self.floors.get(metric, FLOORS.get(metric, 0.0))
        return max(self.threshold, floor / value) if value else self.threshold


def check_metric(metric: str) -> str:
    """`metric`, an id of the catalogue that is better one way. Raises `BadInput` with advice for any other word."""
    row = METRICS.get(metric)
    if row is None:
        near = difflib.get_close_matches(metric, METRICS, n=3)
        known = f"did you mean: {', '.join(near)}?" if near else f"one of: {', '.join(METRICS)}"
        raise BadInput(f"unknown metric {metric!r}", advice=known)
    if row.better == "none":
        raise BadInput(f"{metric} is neither better high nor low", advice="it can't be compared")
    return metric


def check_criteria(criteria: Criteria) -> None:
    """Check the criteria before anything is measured. Raises `BadInput`."""
    for metric in (*criteria.metrics, *criteria.front):
        check_metric(metric)
    if not 0.0 <= criteria.threshold < math.inf:
        raise BadInput(
            f"the threshold must be a number of at least 0, not {criteria.threshold:g}", advice="0.03 is 3 %"
        )
    for metric, floor in criteria.floors.items():
        if check_metric(metric) and not 0.0 <= floor < math.inf:
            raise BadInput(
                f"the floor of {metric} must be a number of at least 0, not {floor:g}", advice="it is in SI units"
            )
