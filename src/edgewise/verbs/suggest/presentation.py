"""How results of ``suggest`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.verbs.presentation import Unwritten

if TYPE_CHECKING:
    from edgewise.predicting.suggestion import Suggestion
    from edgewise.report.document import Document


class SuggestionPresentation(Unwritten["Suggestion"]):
    """How suggested networks are shown."""

    noun = "a suggestion"

    def describe(self, result: Suggestion) -> Document:
        """Networks and commands."""
        from edgewise.report.estimate.forecast import suggestion_document

        return suggestion_document(result)
