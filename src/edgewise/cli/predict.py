"""How predictions for calibrated devices are shown; ``edgewise estimate -d NAME`` asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.cli.console import complain
from edgewise.cli.verb import Output, Presentation
from edgewise.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.predicting.forecast import Forecasts


class ForecastPresentation(Presentation["Forecasts"]):
    """How forecasts are shown."""

    files = "FORECASTS"

    def show(self, result: Forecasts, console: Console, *, output: Output) -> None:
        """The models in their order."""
        from edgewise.report.forecast import forecasts_document
        from edgewise.report.text import print_document

        print_document(forecasts_document(result), console, details=output.details)

    def finish(self, result: Forecasts, *, output: Output) -> int:
        """A model without any prediction is a failure, and one without a value to compare with its target."""
        del output
        known = {row.subject.name for row in result.rows if row.prediction}
        refused = [
            row
            for row in result.rows
            if row.refused and (row.subject.name not in known or row.metric in result.targets)
        ]
        for row in refused:
            complain(f"{row.subject.name}: {row.refused}", "'edgewise calibrate' learns from more models")
        return ExitCode.RUN_FAILED if refused else ExitCode.DONE


PRESENTATION = ForecastPresentation()
