"""How results of ``calibrate`` are shown."""

from __future__ import annotations

from typing import Any

from edgewise.verbs.presentation import Presentation


class CalibrationPresentation(Presentation[Any]):
    """How a `edgewise.predicting.calibration.Calibration` is shown."""

    files = "CALIBRATIONS"
