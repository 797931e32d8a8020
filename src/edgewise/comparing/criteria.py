"""Criteria of a comparison: which metrics, and which differences matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

THRESHOLD = 0.03
"""A relative difference up to this doesn't matter unless the user says otherwise."""

FLOORS: dict[str, float] = {
    "latency": 0.2e-6,
    "latency_paced": 0.2e-6,
    "latency_engine": 0.2e-6,
    "latency_mean": 0.2e-6,
    "latency_p99": 1e-6,
    "latency_first": 10e-6,
    "response_time": 1e-6,
    "load_time": 1e-3,
    "import_time": 10e-3,
    "startup_time": 10e-3,
    "memory_baseline": 2**20,
    "memory_load": 2**20,
    "memory_peak": 2**20,
    "memory_delta": 2**20,
}
"""Metric → absolute difference (SI) that doesn't matter whatever its share: below it lie the resolution of clocks, one
page table more or less, and the disk cache's moods."""

METRICS_COMPARED = (
    "latency",
    "latency_p99",
    "latency_paced",
    "throughput",
    "memory_peak",
    "model_size",
    "energy",
    "accuracy_top1",
    "accuracy_top5",
    "error_rate",
    "map_50_95",
    "miou",
    "auroc",
    "exact_match",
    "bleu",
    "mae",
    "rmse",
    "recall_at_1",
)
"""Compared where one of the runs tells them; others by name."""

FRONT_METRICS = ("latency", "memory_peak", "model_size", "energy", "accuracy_top1")
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
        """The relative difference that doesn't matter for a metric whose baseline is `value`: the wider of the two."""
        floor = self.floors.get(metric, FLOORS.get(metric, 0.0))
        return max(self.threshold, floor / value) if value else self.threshold
