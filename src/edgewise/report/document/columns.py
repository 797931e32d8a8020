"""Columns of `edgewise.report.document.table_of` that are words or numbers of each thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgewise.report.document import Cell, Column, T, text_cell, value_cell


def text_column(title: str, words: Callable[[T], object], **settings: Any) -> tuple[Column, Callable[[T], Cell]]:
    """Return a column for `table_of` with what `words` says of each thing, in one line; `settings` as `Column` has."""
    return Column(title=title, **settings), lambda thing: text_cell(words(thing))


def number_column(
    title: str,
    number: Callable[[T], float | None],
    show: Callable[[Any], str],
    *,
    why: str | Callable[[T], str | None] = "",
    **settings: Any,
) -> tuple[Column, Callable[[T], Cell]]:
    """Return a column for `table_of` with what `number` gives as `show` writes it; `why` says why it is not known."""

    def cell(thing: T) -> Cell:
        return value_cell(number(thing), show, *filter(None, [why if isinstance(why, str) else why(thing)]))

    return Column(title=title, numeric=True, **settings), cell
