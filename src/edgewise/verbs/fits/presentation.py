"""How results of ``fits`` are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgewise.verbs.estimate.presentation import EstimatePresentation
from edgewise.verbs.presentation import View

if TYPE_CHECKING:
    from rich.console import Console


class FitsPresentation(EstimatePresentation):
    """How the boards are shown: those that hold the model, and the number of the others with the reasons."""

    files = "FITS"
    more_files: Sequence[str] = ()

    def show(self, result: Any, console: Console, *, view: View) -> None:
        """Print the `edgewise.estimating.fits.Fits`."""
        from edgewise.report.fits import fits_document
        from edgewise.report.text import print_document

        print_document(fits_document(result), console, details=view.details)
