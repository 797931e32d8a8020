"""The content of a report, independent of its format: tables of cells, footnotes and short sections.

Every renderer takes a `Document` and nothing else, so that Markdown, CSV, the terminal and the page say the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from edgewise.formatting import ABSENT
from edgewise.text import one_line

if TYPE_CHECKING:
    from edgewise.report.graph import Graph

T = TypeVar("T")
Tone = Literal["plain", "good", "fair", "poor", "bad", "faint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        title: heading, with the unit where the cells have none.
        numeric: aligned to the right and sorted by `Cell.value`.
        rank: columns of the highest rank are left out first on a narrow terminal; those of rank 0 always stay.
        unit: of `Cell.value`, written into the heading of a CSV file where it is not in `title`.
        in_si: heading and factor to SI units, which a CSV file has where the shown unit depends on the values.
        hidden: only in files for machines (CSV), such as a run's id.
        folds: whether its cells are wrapped at blanks first on a narrow terminal; its names are not shortened.
        name: whether its cells are shortened, on a narrow terminal, before a column is left out.
        decides: whether it answers what the table is for: on a page it stands behind the names of the rows.
        ends: whether the ends of its names tell most, as those of layers do: their beginnings are left out.
        whole: whether a terminal folds the other columns before this one, whose words are there to be copied.
        how: works out how those numbers of the column are known whose cells have no `how`; its heading opens it, too.
    """

    title: str
    numeric: bool = False
    rank: int = 0
    unit: str = ""
    in_si: tuple[str, float] | None = None
    hidden: bool = False
    folds: bool = False
    name: bool = False
    ends: bool = False
    decides: bool = False
    whole: bool = False
    how: How = field(default=None, compare=False, repr=False)


class Provenance(NamedTuple):
    """How one number is known: a heading with the number, and pairs of label and text; pages leave empty ones out."""

    title: str
    facts: list[tuple[str, str]]


How = partial[Provenance] | None
"""Works out how a number is known, when a page needs it; None where that is not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell.

    Attributes:
        text: as a person reads it.
        notes: footnotes, each a sentence.
        value: the number at full precision, in the unit of the column; None where there is none.
        low, high: its 95 % interval, same unit.
        link: an http(s) address that the text leads to.
        links: pairs of a text and the id of an element of the page that it leads to, instead of `text`.
        tone: how a renderer with colours may tint it; the text has the same meaning without it.
        short: a shorter form of the text for narrow terminals; empty where there is none.
        short_notes: footnotes that the short form needs besides `notes`.
        how: works out how the number is known; a page shows that where the number is pressed. None where the cell has
            no number, or where its column has a `how` for all of them.
    """

    text: str
    notes: tuple[str, ...] = ()
    value: float | None = None
    low: float | None = None
    high: float | None = None
    link: str | None = None
    links: tuple[tuple[str, str], ...] = ()
    tone: Tone = "plain"
    short: str = ""
    short_notes: tuple[str, ...] = ()
    how: How = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a page tells of a row beside its cells.

    Attributes:
        id: of the row's element, which charts and findings lead to.
        facts: pairs of label and text that the row shows when it is opened.
        words: what the filter of the table searches, in lower case.
        tip: lines of the hint at a mark that stands for the row in a chart.
    """

    id: str
    facts: tuple[tuple[str, str], ...]
    words: str
    tip: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table. Raises ValueError where a row has another number of cells than there are columns.

    Attributes:
        detail: the terminal shows it only where details are asked for (``--details``); files always have it.
        pictures: of the rows, as ``data:`` addresses, None for a row without one; a page makes it a gallery.
        about: what a page tells of the first rows, in whose second column they open; a page filters such a table.
        foot: number of rows at the end that stay there when a page sorts the others.
        narrow: what a terminal shows instead that has no room for all columns whole; None for as much as there is room.
        environment: machine, versions and threads, for a file with nothing but tables.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    detail: bool = False
    pictures: tuple[str | None, ...] = field(default=(), repr=False)
    about: tuple[About, ...] = field(default=(), repr=False)
    foot: int = 0
    narrow: Table | None = None
    environment: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {self.title!r} has {len(row)} cells for {len(self.columns)} columns")

    @property
    def visible(self) -> tuple[int, ...]:
        """Positions of the columns that people see."""
        return tuple(index for index, column in enumerate(self.columns) if not column.hidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with one-line statements.

    Attributes:
        brief: what the terminal shows in one line instead, unless details are asked for; empty for nothing, None where
            the section is always shown whole.
        drawing: lines of text whose blanks matter, such as bars, above `lines`.
    """

    title: str
    lines: tuple[str, ...]
    drawing: tuple[str, ...] = ()
    tone: Tone = "plain"
    brief: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The answer first, then what comes before the tables, then tables, then sections.

    Attributes:
        answer: the conclusion, one sentence a line, where `title` does not say it.
        lead: sections that stand before the tables.
        graph: makes the graph that pages draw above the tables; None for no graph.
        charts: makes what a page draws of it: a `Chart` or `Matrix` of `report.charts` each, None for no data.
        parts: makes what a page has in folded parts below it: headings, each with documents.
        id: of the element of a page that has it as a part.
    """

    title: str
    tables: tuple[Table, ...]
    sections: tuple[Section, ...] = field(default=())
    answer: tuple[str, ...] = ()
    lead: tuple[Section, ...] = ()
    graph: Callable[[], Graph] | None = field(default=None, compare=False, repr=False)
    charts: Callable[[], Iterable[Any]] = field(default=tuple, compare=False, repr=False)
    parts: Callable[[], Iterable[tuple[str, Sequence[Document]]]] = field(default=tuple, compare=False, repr=False)
    id: str = ""

    def led_by(self, first: Sequence[str]) -> Document:
        """Return the same with lines above its answer."""
        return replace(self, answer=(*first, *self.answer))


def lines_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return `texts` as the lines of a section: each in one line, without empty ones and repetitions."""
    return tuple(dict.fromkeys(filter(None, map(one_line, texts))))


def filled(sections: Iterable[Section]) -> list[Section]:
    """Return the sections that have a line."""
    return [section for section in sections if section.lines]


Columns = list[tuple[Column, Callable[[T], Cell]]]
"""Columns, each with the function that makes its cell of the thing that a row is about."""


def table_of(
    title: str,
    things: Iterable[T],
    columns: Sequence[tuple[Column, Callable[[T], Cell]]],
    *,
    notes: Sequence[str] = (),
    detail: bool = False,
) -> Table:
    """Return a table with a row for each of `things`."""
    rows = tuple(tuple(cell(thing) for _, cell in columns) for thing in things)
    return Table(
        title=title, columns=tuple(column for column, _ in columns), rows=rows, notes=tuple(notes), detail=detail
    )


def table_by_columns(
    title: str, columns: Sequence[tuple[Column, Sequence[Cell]]], *, notes: Sequence[str] = (), detail: bool = False
) -> Table:
    """Return a table of columns, each with its cells from the first row to the last."""
    heads, cells = zip(*columns, strict=True)
    return Table(title=title, columns=heads, rows=tuple(zip(*cells, strict=True)), notes=tuple(notes), detail=detail)


def pairs_table(title: str, pairs: Iterable[tuple[str, Any]]) -> Table:
    """Two columns without headings: what, and how it is; pairs without a text are left out."""
    rows = tuple((text_cell(name), text_cell(text)) for name, text in pairs if text)
    return Table(title=title, columns=(Column(title=""),) * 2, rows=rows)


def absent(*reasons: str) -> Cell:
    """Return the cell of a value that is not known, with the reasons as footnotes."""
    return Cell(text=ABSENT, notes=reasons, tone="faint")


def text_cell(text: object) -> Cell:
    """Return the cell of a name or text, wherever it comes from, in one line."""
    return Cell(text=one_line(str(text)))


def value_cell(value: float | None, show: Callable[[Any], str], *reasons: str) -> Cell:
    """Return the cell of a number as `show` writes it; where there is none, an absent one with `reasons`."""
    return absent(*reasons) if value is None else Cell(text=show(value), value=value)


def raw_cell(value: float | None, *reasons: str, low: float | None = None, high: float | None = None) -> Cell:
    """Return the cell of a number for machines, as it is; where there is none, an absent one with `reasons`."""
    return absent(*reasons) if value is None else Cell(text="", value=value, low=low, high=high)


DASH = Cell(text="–", tone="faint")
"""A cell that has no value by its nature: nothing is missing."""


def number_notes(tables: Iterable[Table], *, columns: Sequence[int] | None = None) -> dict[str, int]:
    """Footnote → number from 1, in reading order, a sentence once; of `columns` by position, else the visible ones."""
    numbers: dict[str, int] = {}
    for table in tables:
        shown = table.visible if columns is None else columns
        for row in table.rows:
            for index in shown:
                for note in row[index].notes:
                    numbers.setdefault(note, len(numbers) + 1)
    return numbers


def json_text(document: object) -> str:
    """`document` as the text of a file: NaN and infinity are not JSON and become null."""
    return json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


described = methodcaller("describe")
"""Returns the document of a result that describes itself."""
