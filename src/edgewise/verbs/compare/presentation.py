"""How results of ``compare`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.errors import EdgewiseError
from edgewise.verbs.presentation import Presentation, View

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.comparing.comparison import ComparisonResult


class ComparePresentation(Presentation["ComparisonResult"]):
    """How a comparison is shown."""

    files = "COMPARISON"

    def show(self, result: ComparisonResult, console: Console, *, view: View) -> None:
        """Verdicts, and what they rest on."""
        from edgewise.report.comparison import comparison_document
        from edgewise.report.text import print_titled

        print_titled(comparison_document(result), console, details=view.details)

    def problems(self, result: ComparisonResult) -> tuple[EdgewiseError, ...] | None:
        """None of their own: a variant that could not be measured is in the table."""
        failed = result.failures or any(variant.run.status == "failed" for variant in result.variants)
        return () if failed else None
