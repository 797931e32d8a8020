"""How results of ``calibrate`` are shown."""

from __future__ import annotations

from typing import Any

from edgewise.report.files import ResultFormat, result_format
from edgewise.verbs.presentation import Presentation

FORMAT: ResultFormat[Any] = result_format(
    "Calibration",
    "calibration",
    "estimate.forecast:calibration_document",
    kind="calibration",
    model_paths=lambda result: [str(result.path)] if result.path else [],
)


class CalibrationPresentation(Presentation[Any]):
    """How a `edgewise.predicting.calibration.Calibration` is shown."""

    files = FORMAT
