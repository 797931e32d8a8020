"""Markdown for the generated pages."""

from __future__ import annotations

import re
import textwrap
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


def wrapped(page: str) -> str:
    """`page` with its prose wrapped at 120 columns; rows of tables, headings and code stay as they are."""
    parts = re.split(r"(^```.*?^```$)", page, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else _wrap_lines(part) for part in parts)


def _wrap_lines(text: str) -> str:
    return re.sub(
        r"^[^|#<\n].{120,}$",
        lambda line: textwrap.fill(line.group(), 120, break_on_hyphens=False),
        text,
        flags=re.MULTILINE,
    )
