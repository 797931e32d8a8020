"""A table as CSV (RFC 4180, UTF-8): the table's own columns, then the intervals at full precision, then the notes."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from edgewise.formatting import ABSENT
from edgewise.grouping import by_key
from edgewise.report.document import Cell, Column, Document, Table
from edgewise.text import for_csv


def render_csv(shown: Table | Document) -> str:
    """One header line and one line per row of a table; of a document, of its last one.

    Numbers are at full precision in the unit of the heading, which does not depend on the values; a value that is not
    known is ``n/a`` and its reason is in ``Notes``. Each column with an interval is followed, after the last of the
    table's own columns, by ``… low`` and ``… high``.
    """
    table = shown if isinstance(shown, Table) else shown.tables[-1]
    ranged = [index for index in range(len(table.columns)) if any(row[index].low is not None for row in table.rows)]
    titles = [heading(column) for column in table.columns]
    header = [*titles, *(f"{titles[index]} {end}" for index in ranged for end in ("low", "high")), "Notes"]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(header)
    for row in table.rows:
        own = [_value(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        ends = [_number(end, table.columns[index]) for index in ranged for end in (row[index].low, row[index].high)]
        writer.writerow([*own, *ends, _notes(row, table.columns)])
    return buffer.getvalue()


def heading(column: Column) -> str:
    """Return a column's title with the unit of its numbers in the file."""
    if column.in_si is not None:
        return column.in_si[0]
    return f"{column.title} ({column.unit})" if column.unit and "(" not in column.title else column.title


def _value(cell: Cell, column: Column) -> str:
    if column.numeric and cell.value is not None:
        return _number(cell.value, column)
    if cell.link:
        return for_csv(f"{cell.text} {cell.link}" if cell.text != cell.link else cell.link)
    return for_csv(ABSENT if cell.text == "–" else cell.text)


def _number(value: float | None, column: Column) -> str:
    if value is None:
        return ABSENT
    rounded = float(f"{value * (1.0 if column.in_si is None else column.in_si[1]):.12g}")
    return str(int(rounded)) if rounded.is_integer() and abs(rounded) < 2**53 else repr(rounded)


def _notes(row: Sequence[Cell], columns: Sequence[Column]) -> str:
    noted = (
        (note, heading(column) if column.in_si else column.title)
        for cell, column in zip(row, columns, strict=True)
        for note in cell.notes
    )
    return for_csv("; ".join(f"{', '.join(titles)}: {note}" for note, titles in by_key(noted).items()))
