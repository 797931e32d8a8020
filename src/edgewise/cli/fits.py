"""How ``edgewise estimate --fits`` shows the boards that hold a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgewise.cli.estimate import EstimatePresentation
from edgewise.cli.verb import Output

if TYPE_CHECKING:
    from rich.console import Console


class FitsPresentation(EstimatePresentation):
    """How the boards are shown: those that hold the model, and the number of the others with the reasons."""

    files = "FITS"

    def show(self, result: Any, console: Console, *, output: Output) -> None:
        """Print the `edgewise.estimating.fits.Fits`."""
        from edgewise.report.fits import fits_document
        from edgewise.report.text import print_document

        print_document(fits_document(result), console, details=output.details)


PRESENTATION = FitsPresentation()
