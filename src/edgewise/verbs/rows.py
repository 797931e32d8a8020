"""A result in a few numbers: a mapping per run, for tables over many results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from edgewise.metrics import METRICS
from edgewise.record import Run

if TYPE_CHECKING:
    from edgewise.record import Measurement

Row = dict[str, Any]


def rows_of_runs(runs: Sequence[Run]) -> list[Row]:
    """Return a row per run, with all its values and without its samples."""
    from edgewise.report.runs.cells import chief_metric
    from edgewise.store.tables import processor_of  # it takes 0.1 s to import

    return [
        {
            "model": run.job.model.name,
            "sha256": run.job.model.sha256,
            "device": run.job.target.device,
            "processor": processor_of(run),
            "runtime": run.job.runtime.name,
            "version": run.job.runtime.version,
            "provider": run.job.runtime.provider,
            "threads": run.job.runtime.threads,
            "precision": run.job.runtime.precision,
            "run": run.id,
            "status": run.status,
            "failure": None if run.failure is None else {"cause": run.failure.cause, "message": run.failure.message},
            "grade": None if run.trust is None else run.trust.grade,
            "headlines": [run.headline, *([accuracy] if (accuracy := chief_metric(run)) else [])],
            "metrics": metrics_of(run.measurements),
        }
        for run in runs
    ]


def metrics_of(measurements: Iterable[Measurement]) -> Mapping[str, Mapping[str, Any]]:
    """Metric → value, 95 % interval, unit and basis of what is known."""
    return {row.metric: number_of(row.metric, row, row.basis) for row in measurements if row.value is not None}


class Number(Protocol):
    """A value with its 95 % interval."""

    @property
    def value(self) -> float | None:
        """In the metric's unit."""

    @property
    def low(self) -> float | None:
        """The lower end; None without an interval."""

    @property
    def high(self) -> float | None:
        """The upper end; None without an interval."""


def number_of(metric: str, number: Number, basis: str | None) -> Mapping[str, Any]:
    """Return the value of a metric as a row has it."""
    ends = {"value": number.value, "low": number.low, "high": number.high}
    return {**ends, "unit": METRICS[metric].unit, "basis": basis}


def estimated_row(
    model: Mapping[str, Any], device: str, headlines: Sequence[str], metrics: Mapping[str, Mapping[str, Any]]
) -> Row:
    """Return a row that is no run: what nothing is known of is None."""
    empty = dict.fromkeys(
        ("sha256", "processor", "runtime", "version", "provider", "threads", "precision", "run", "failure", "grade")
    )
    return {**empty, **model, "device": device, "status": "done", "headlines": list(headlines), "metrics": metrics}
