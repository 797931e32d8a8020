"""Keep texts in charts at the width of their layout, whatever fonts the reader has.

vl-convert lays charts out with Liberation Sans, which it brings along. A browser without a font of the same widths
draws wider letters: labels would be cut off at the edge and legends run into each other. Every text therefore says how
wide it is.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

Spec = dict[str, Any]

FONT = "Arial, Liberation Sans, Arimo, Helvetica, sans-serif"
"""Fonts of one family of widths, for chart specifications and style sheets."""
FONT_SIZE = 12
#: widths of Helvetica in thousandths of the font's size (Adobe's font metrics, 1997), which Arial and Liberation share
_WIDTHS = {
    character: width / 1000
    for width, characters in (
        (191, "'"), (222, "ijl"), (260, "|"), (278, " !,./:;I[\\]ft"), (333, "()-`r·"), (334, "{}"), (355, '"'),
        (389, "*"), (469, "^"), (500, "Jckszvxy"), (556, "#$0123456789?L_abdeghnopqu–"), (584, "+<=>~×±"), (611, "FTZ"),
        (667, "&ABEKPSVXY"), (722, "CDHNRUw"), (778, "GOQ"), (833, "Mm"), (889, "%"), (944, "W"), (1000, "…→"),
        (1015, "@"),
    )
    for character in characters
}  # fmt: skip
_TEXT = re.compile(r'(<text [^>]*font-size="([\d.]+)px")([^>]*>([^<]+)</text>)')


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """How wide `text` is in pixels at a font of `size` pixels; characters outside the table are estimated."""
    return size * sum(map(_width, unicodedata.normalize("NFD", text)))


def _width(character: str) -> float:
    if character in _WIDTHS:
        return _WIDTHS[character]
    if unicodedata.combining(character):
        return 0.0
    return 1.0 if _is_wide(character) else 0.5


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def fit_texts(svg: str) -> str:
    """`svg` with the width of each text written beside it; browsers fit the letters to it."""

    def fit(match: re.Match[str]) -> str:
        begin, size, rest, text = match.groups()
        width = text_width(" ".join(html.unescape(text).split()), float(size))
        if width == 0 or "bold" in begin or "bold" in rest:
            return match[0]
        return f'{begin} textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"{rest}'

    return _TEXT.sub(fit, svg)


def row_axis(labels: Sequence[str], *, limit: int) -> Spec:
    """Return the axis of rows with names: no ticks, labels that end at `limit` pixels.

    Args:
        labels: the rows' keys; an em space and what follows it keep rows of one name apart and are not shown.
    """
    wide = [text_width(label.split("\u2003")[0]) for label in labels if any(map(_is_wide, label))]
    return {
        "labelLimit": limit,
        "ticks": False,
        "domain": False,
        "labelPadding": 10,
        "labelExpr": "split(datum.label, '\\u2003')[0]",
        # Without such a font vl-convert takes the characters of East Asia for narrow ones.
        "minExtent": round(max(wide, default=0.0)) + 10,
    }


def legend_below(labels: Sequence[str], *, width: int, limit: int = 200) -> Spec:
    """Return a legend under the plot with as many columns as fit into `width` pixels; labels end at `limit` pixels."""
    # An entry is its label and 30 pixels of symbol and gap; one under another share their column's width.
    widths = [min(limit, text_width(label)) + 30 for label in labels]
    narrow = not any(_is_wide(character) for label in labels for character in label)
    counts = range(len(labels) if narrow else 1, 1, -1)
    columns = next((n for n in counts if sum(max(widths[at::n]) for at in range(n)) <= width), 1)
    return {"orient": "bottom", "title": None, "columns": columns, "labelLimit": limit, "symbolOpacity": 1}
