"""How results of ``compare`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.errors import EdgewiseError, RunFailed
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

    def shown(self, result: ComparisonResult) -> list[EdgewiseError]:
        """Variants that could not be measured."""
        failed = {one.label: one.run.failure for one in result.variants if one.run.status == "failed"}
        reasons = {label: each.message if each else "failed" for label, each in failed.items()} | dict(result.failures)
        return [RunFailed(f"{label}: {why}") for label, why in reasons.items()]
