"""How results of ``predict`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.errors import EdgewiseError, RunFailed
from edgewise.report.files import ResultFormat, result_format
from edgewise.verbs.presentation import Presentation
from edgewise.verbs.rows import Row, estimated_row, number_of

if TYPE_CHECKING:
    from edgewise.predicting.calibration import Calibration
    from edgewise.predicting.forecast import Forecast, Forecasts


FORMAT: ResultFormat[Forecasts] = result_format(
    "Forecasts",
    "estimates",
    "estimate.forecast:forecasts_document",
    kind="estimates",
    model_paths=lambda result: [str(result.calibration.path)] if result.calibration.path else [],
)


class ForecastPresentation(Presentation["Forecasts"]):
    """How forecasts are shown."""

    files = FORMAT

    def rows(self, result: Forecasts) -> list[Row]:
        """Return a row per model."""
        found = []
        for name in dict.fromkeys(row.subject.name for row in result.rows):
            own = {row.metric: row.prediction for row in result.rows if row.subject.name == name and row.prediction}
            metrics = {metric: number_of(metric, one, "estimated") for metric, one in own.items()}
            found.append(estimated_row({"model": name}, result.calibration.name, list(metrics), metrics))
        return found

    def problems(self, result: Forecasts) -> tuple[EdgewiseError, ...]:
        """Return a model without any prediction is a failure, and one without a value to compare with its target."""
        known = {row.subject.name for row in result.rows if row.prediction}
        refused = [
            row
            for row in result.rows
            if row.refused and (row.subject.name not in known or row.metric in result.targets)
        ]
        return tuple(
            RunFailed(f"{row.subject.name}: {row.refused}", advice="; ".join(filter(None, (row.advice, more))))
            for row in refused
            for more in [_more_for(row, result.calibration)]
        )


def _more_for(row: Forecast, calibration: Calibration) -> str:
    """Return what else helps where a model has no prediction."""
    measured = calibration.points.get(row.metric, ())
    if row.subject.host is None and not calibration.runtime and any(point.subject.host for point in measured):
        return (
            f"the table that {calibration.name} was learnt from does not name the engine of this machine's values, so "
            "stored runs are not taken: name it with ⟦host⟧ of 'edgewise calibrate', or estimate a table with the "
            "columns of these values, such as model,host_latency_ms"
        )
    return "'edgewise calibrate' learns from more models"
