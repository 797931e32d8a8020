"""A document on the terminal: rich, without colours where the console has none, folded into its width."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from edgewise.report.document import Document, Section, Table, number_notes
from edgewise.text import one_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_STYLES = {
    "plain": "",
    "good": "green",
    "fair": "cyan",
    "poor": "yellow",
    "bad": "bold red",
    "faint": "dim",
}
_PADDING = 2
_GAP = _PADDING + 1
"""Between two columns: the padding and the blank that stands for the box's line."""


def print_document(document: Document, console: Console) -> None:
    """Print `document` on `console`: table, footnotes, sections."""
    from rich.text import Text

    numbers: dict[str, int] = {}
    for index, table in enumerate(document.tables):
        if index:
            console.print()
        shown = fitting_columns(table, console.width)
        for note in number_notes([table], columns=shown):
            numbers.setdefault(note, len(numbers) + 1)
        console.print(Text(one_line(table.title), style="bold"))
        console.print(_table(table, shown, numbers, width=console.width))
        left_out = [
            column.title for index, column in enumerate(table.columns) if index in set(table.visible) - set(shown)
        ]
        # Where all rows are of one model, the title names it.
        if words := [title for title in left_out if title != "Model"]:
            console.print(Text(f"no room for: {', '.join(words)} (a wider terminal or -o shows them)", style="dim"))
        for note in table.notes:
            console.print(_hanging(Text("· "), Text(one_line(note), style="dim")))
    for note, number in numbers.items():
        console.print(_hanging(Text(f"[{number}] ", style="dim"), Text(one_line(note), style="dim")))
    for section in document.sections:
        _print_section(section, console)


def to_text(document: Document, *, width: int = 80) -> str:
    """`document` as plain text without colours, at most `width` cells wide."""
    return plain_text(partial(print_document, document), width=width)


def plain_text(show: Callable[[Console], None], *, width: int) -> str:
    """What `show` prints, without colours, at most `width` cells wide, no blanks at the end of lines."""
    from rich.console import Console

    buffer = io.StringIO()
    show(Console(file=buffer, width=width, highlight=False, no_color=True, force_terminal=False))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def fitting_columns(table: Table, width: int) -> tuple[int, ...]:
    """Positions of the columns that fit into `width` cells unfolded; those of rank 0 stay whatever happens."""
    shown = list(table.visible)
    while _natural_width(table, shown) > width:
        highest = max(table.columns[index].rank for index in shown)
        if highest == 0:
            break
        shown.remove(max(index for index in shown if table.columns[index].rank == highest))
    return tuple(shown)


def _natural_width(table: Table, shown: list[int]) -> int:
    """Cells of a line of these columns, headings on two lines, nothing else folded."""
    from rich.cells import cell_len

    numbers = number_notes([table], columns=shown)
    total = -_GAP
    for index in shown:
        texts = [one_line(row[index].text) + _marks(row[index].notes, numbers) for row in table.rows]
        total += max(map(cell_len, [*_heading(table.columns[index].title), *texts])) + _GAP
    return total


def _heading(title: str) -> list[str]:
    """A heading on up to three lines: the unit, and each part of a run's label, begins a new one."""
    return title.replace(" (", "\n(").replace(" · ", "\n").split("\n")


def _marks(notes: tuple[str, ...], numbers: dict[str, int]) -> str:
    return "".join(f" [{numbers[note]}]" for note in notes if note in numbers)


def _narrowest(table: Table, index: int, numbers: dict[str, int]) -> int:
    """Cells of the longest word of a column."""
    from rich.cells import cell_len

    texts = [f"{one_line(row[index].text)}{_marks(row[index].notes, numbers)}" for row in table.rows]
    return max(map(cell_len, [word for text in texts for word in text.split()] + _heading(table.columns[index].title)))


def _table(table: Table, shown: tuple[int, ...], numbers: dict[str, int], *, width: int) -> RenderableType:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    rich_table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _PADDING, 0, 0), show_edge=False)
    # Cells of several lines begin on one line; headings still end on one.
    crowded = _natural_width(table, list(shown)) > width and any(table.columns[index].folds for index in shown)
    headings = {index: _heading(one_line(table.columns[index].title)) for index in shown}
    tallest = max(map(len, headings.values()))
    for index in shown:
        column = table.columns[index]
        above = "\n" * (tallest - len(headings[index])) if crowded else ""
        rich_table.add_column(
            Text(above + "\n".join(headings[index])),
            justify="right" if column.numeric else "left",
            overflow="fold",
            vertical="top" if crowded else "bottom",
            width=_narrowest(table, index, numbers) if crowded and column.folds else None,
        )
    for row in table.rows:
        cells = []
        for index in shown:
            cell = row[index]
            text = Text(one_line(cell.text), style=_STYLES[cell.tone])
            text.append(_marks(cell.notes, numbers), style="dim")
            cells.append(text)
        rich_table.add_row(*cells)
    return rich_table


def _print_section(section: Section, console: Console) -> None:
    from rich.text import Text

    console.print()
    console.print(Text(one_line(section.title), style=f"bold {_STYLES[section.tone]}".strip()))
    for line in section.lines:
        console.print(_hanging(Text("  "), Text(one_line(line))))


def _hanging(mark: RenderableType, text: RenderableType) -> RenderableType:
    """`text` folded to the right of `mark`."""
    from rich.table import Table as RichTable

    grid = RichTable.grid(padding=0)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(mark, text)
    return grid
