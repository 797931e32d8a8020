"""How results of ``predict`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.errors import EdgewiseError, RunFailed
from edgewise.verbs.presentation import Presentation, View

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.predicting.forecast import Forecasts


class ForecastPresentation(Presentation["Forecasts"]):
    """How forecasts are shown."""

    files = "FORECASTS"

    def show(self, result: Forecasts, console: Console, *, view: View) -> None:
        """The models in their order."""
        from edgewise.report.forecast import forecasts_document
        from edgewise.report.text import print_document

        print_document(forecasts_document(result), console, details=view.details)

    def problems(self, result: Forecasts) -> tuple[EdgewiseError, ...]:
        """A model without any prediction is a failure, and one without a value to compare with its target."""
        known = {row.subject.name for row in result.rows if row.prediction}
        refused = [
            row
            for row in result.rows
            if row.refused and (row.subject.name not in known or row.metric in result.targets)
        ]
        more = "'edgewise calibrate' learns from more models"
        return tuple(
            RunFailed(f"{row.subject.name}: {row.refused}", advice="; ".join(filter(None, (row.advice, more))))
            for row in refused
        )
