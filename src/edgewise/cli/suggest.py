"""How networks to measure next are shown; ``edgewise calibrate --suggest`` asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.cli.verb import Output, Presentation
from edgewise.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.predicting.suggestion import Suggestion


class SuggestionPresentation(Presentation["Suggestion"]):
    """How suggested networks are shown."""

    def check_file(self, path: Path, *, overwrite: bool) -> None:
        """Refuse every report: there is none."""
        raise BadInput(f"{path} can't be written: a suggestion has no report", advice="use --json")

    def show(self, result: Suggestion, console: Console, *, output: Output) -> None:
        """Networks and commands."""
        from edgewise.report.forecast import suggestion_document
        from edgewise.report.text import print_document

        print_document(suggestion_document(result), console, details=output.details)

    def finish(self, result: Suggestion, *, output: Output) -> int:
        """Nothing can fail any more."""
        return ExitCode.DONE


PRESENTATION = SuggestionPresentation()
