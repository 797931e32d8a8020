"""A result in a few numbers: a mapping per run, for tables over many results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgewise.record import Run

if TYPE_CHECKING:
    from edgewise.record import Measurement

Row = dict[str, Any]


def rows_of_runs(runs: Sequence[Run]) -> list[Row]:
    """A row per run, with all its values and without its samples."""
    from edgewise.report.accuracy import chief_metric

    return [
        {
            "model": run.job.model.name,
            "sha256": run.job.model.sha256,
            "device": run.job.target.device,
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
    return {
        row.metric: {"value": row.value, "low": row.low, "high": row.high, "unit": row.unit, "basis": row.basis}
        for row in measurements
        if row.value is not None
    }


def estimated_row(
    model: Mapping[str, Any], device: str, headlines: Sequence[str], metrics: Mapping[str, Mapping[str, Any]]
) -> Row:
    """A row that is no run: what nothing is known of is None."""
    empty = dict.fromkeys(
        ("sha256", "runtime", "version", "provider", "threads", "precision", "run", "failure", "grade")
    )
    return {**empty, **model, "device": device, "status": "done", "headlines": list(headlines), "metrics": metrics}
