"""How results of ``suggest`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.verbs.presentation import Unwritten, View

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.predicting.suggestion import Suggestion


class SuggestionPresentation(Unwritten["Suggestion"]):
    """How suggested networks are shown."""

    noun = "a suggestion"

    def show(self, result: Suggestion, console: Console, *, view: View) -> None:
        """Networks and commands."""
        from edgewise.report.forecast import suggestion_document
        from edgewise.report.text import print_document

        print_document(suggestion_document(result), console, details=view.details)
