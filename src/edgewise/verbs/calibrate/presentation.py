"""How results of ``calibrate`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.verbs.presentation import Presentation, View

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.predicting.calibration import Calibration


class CalibrationPresentation(Presentation["Calibration"]):
    """How a calibration is shown."""

    files = "CALIBRATIONS"

    def show(self, result: Calibration, console: Console, *, view: View) -> None:
        """Laws, points and cautions."""
        from edgewise.report.forecast import calibration_document
        from edgewise.report.text import print_document

        print_document(calibration_document(result), console, details=view.details)
