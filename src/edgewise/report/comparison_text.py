"""A comparison on the terminal: the conclusion first, then tables that fit, then what they rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.report.comparison import comparison_document
from edgewise.report.text import print_document
from edgewise.text import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.comparing.comparison import Findings


def print_comparison(findings: Findings, console: Console, *, details: bool = False) -> None:
    """Print `findings` on `console`, readable at 80 columns."""
    from rich.text import Text

    document = comparison_document(findings, width=console.width)
    console.print(Text(one_line(document.title), style="bold"))
    if document.tables:
        console.print()
    print_document(document, console, details=details)
