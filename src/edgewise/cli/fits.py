"""How ``edgewise estimate --fits`` shows the boards that hold a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.cli.console import complain
from edgewise.cli.verb import Output, Presentation
from edgewise.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.estimating.fits import Fits


class FitsPresentation(Presentation["Fits"]):
    """How the boards are shown."""

    files = "FITS"

    def show(self, result: Fits, console: Console, *, output: Output) -> None:
        """The boards that hold the model, and the number of the others with the reasons."""
        from edgewise.report.fits import fits_document
        from edgewise.report.text import print_document

        print_document(fits_document(result), console, details=output.details)

    def finish(self, result: Fits, *, output: Output) -> int:
        """No board at all has the exit code of a refusal."""
        del output
        if result.refused is None:
            return ExitCode.DONE
        complain(result.refused, "use a smaller model or raise the limits")
        return ExitCode.RUN_FAILED


PRESENTATION = FitsPresentation()
