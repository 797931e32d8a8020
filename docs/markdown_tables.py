"""Markdown for the generated pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

NOTE = "<!-- Written by docs/generate.py from the code; edit there. -->\n\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def plain(text: str) -> str:
    """`text` without the terminal's markup and with Markdown's own characters escaped."""
    text = re.sub(r"\[/?(?:bold|dim|red|green|yellow|cyan|italic)[^\]]*\]", "", text)
    return re.sub(r"([<>*_\[\]])", r"\\\1", text)
