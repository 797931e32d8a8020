"""How results of ``fits`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.errors import EdgewiseError, RunFailed
from edgewise.report.files import ResultFormat, path_in, result_format
from edgewise.verbs.presentation import Presentation

if TYPE_CHECKING:
    from edgewise.estimating.fits import Fits


FORMAT: ResultFormat[Fits] = result_format(
    "Fits",
    "list of boards",
    "estimate.fits:fits_document",
    table="estimate.fits:csv_table",
    kind="fits",
    model_paths=path_in("model"),
)


class FitsPresentation(Presentation["Fits"]):
    """How the boards are shown: those that hold the model, and the number of the others with the reasons."""

    files = FORMAT

    def problems(self, result: Fits) -> tuple[EdgewiseError, ...]:
        """Why no board holds the model."""
        return () if result.refused is None else (RunFailed(result.refused, advice=result.advice),)
