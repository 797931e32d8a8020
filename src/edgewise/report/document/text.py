"""A document on the terminal: rich, without colours where the console has none, folded into its width."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

from edgewise.report.document import Cell, Document, Section, Table, number_notes
from edgewise.report.document.names import needed_width, short_names
from edgewise.text import one_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_STYLES = {"plain": "", "good": "green", "fair": "cyan", "poor": "yellow", "bad": "bold red", "faint": "dim"}
LEAST_NAME, SHORTEST_NAME = 16, 8
"""Cells to which a name is shortened before a column is left out, and where it can't even be folded. A heading of no
more cells, such as a unit, is not folded at its parts.
"""
_FOLD = "\x1f"
"""Where a name goes on in the next line of its cell."""
_CONTINUED = " (continued)"
_MARK = "notes"
"""What the style of a footnote's mark carries: its footnotes."""
_PERCENT = "\u00a0%"
"""Behind a number, from which it is not parted."""
_PADDING = 2
GAP = _PADDING + 1
"""Between two columns: the padding and the blank that stands for the box's line."""


def print_document(document: Document, console: Console, *, details: bool = False, hint: bool = True) -> None:
    """Print `document` on `console`: answer, leading sections, tables, each with its new footnotes, sections.

    Args:
        details: whether to print sections whole that have a `brief` line, and tables that are details.
        hint: whether to print what `--details` would add.
    """
    from rich.text import Text

    for line in document.answer:
        console.print(Text(one_line(line), style="bold"))
    for section in document.lead:
        _print_section(section, console)
    numbers: dict[str, int] = {}
    tables = [table for table in document.tables if details or not table.detail]
    if tables and (document.answer or document.lead):
        console.print()
    for index, table in enumerate(tables):
        if index:
            console.print()
        told = len(numbers)
        _print_table(table, console, numbers, details=details)
        for note, number in list(numbers.items())[told:]:
            console.print(_hanging(Text(f"[{number}] ", style="dim"), Text(one_line(note), style="dim")))
    whole = [section for section in document.sections if details or section.brief is None]
    for section in whole:
        _print_section(section, console)
    left_out = [section for section in document.sections if not (details or section.brief is None)]
    if briefs := [section for section in left_out if section.brief]:
        console.print()
        for section in briefs:
            title, words = (
                Text(f"{one_line(section.title)}: ", style=_bold(section)),
                Text(one_line(section.brief or "")),
            )
            # Beside a long title the words would be a narrow column.
            is_long = title.cell_len > console.width // 2
            console.print(Text.assemble(title, words) if is_long else _hanging(title, words))
    shorter = [section.title for section in left_out if section.lines != (section.brief,)]
    if hint:
        print_hint([table.title for table in document.tables if table not in tables] + shorter, console)


def print_titled(document: Document, console: Console, *, details: bool = False, hint: bool = True) -> None:
    """Print the title of `document` in bold and then the rest, as `print_document` does."""
    from rich.text import Text

    console.print(Text(one_line(document.title), style="bold"))
    if document.tables and not (document.lead or document.answer):
        console.print()
    print_document(document, console, details=details, hint=hint)


def print_hint(left_out: Sequence[str], console: Console) -> None:
    """Print which tables and sections `--details` would add; nothing where there are none."""
    from rich.text import Text

    kinds = dict.fromkeys(
        re.split(": | for | of ", re.sub(".* minus .*", "differences", one_line(title)))[0] for title in left_out
    )
    if kinds:
        words = ", ".join(kind[:1].lower() + kind[1:] for kind in kinds)
        console.print(_hanging(Text("--details adds: ", style="dim"), Text(words, style="dim")))


def _print_table(table: Table, console: Console, numbers: dict[str, int], *, details: bool) -> None:
    """Print `table`; its footnotes are added to `numbers`. With details, columns without room follow below."""
    from rich.text import Text

    if table.narrow is not None and _natural_width(table, list(table.visible)) > console.width:
        table = table.narrow
    whole = table
    table, shown = fit(table, console.width)
    for note in _in_reading_order(table, shown, numbers, console):
        numbers.setdefault(note, len(numbers) + 1)
    if table.title:
        console.print(Text(one_line(table.title), style="bold"))
    console.print(_table(table, shown, numbers, width=console.width))
    left_out = [index for index in whole.visible if index not in shown]
    names = [index for index in shown if whole.columns[index].name] or [shown[0]]
    rest = [*names, *left_out]
    continues = details and len(names) < len(rest) < len(whole.visible)
    # Where all rows are of one model, the title names it; a table without a title is a listing, which has no -o.
    words = [one_line(title) for index in left_out if (title := whole.columns[index].title) != "Model"]
    missing = [f"columns left out for width: {', '.join(words)}"] if words and not continues else []
    if bare := _without_intervals(whole, table, shown):
        numeric = [index for index in shown if whole.columns[index].numeric]
        which = "" if bare == numeric else f": {', '.join(one_line(whole.columns[index].title) for index in bare)}"
        missing.append(f"intervals left out for width{which}")
    if missing:
        advice = f"use a wider terminal{' or -o' if table.title else ''}"
        console.print(Text(f"{'; '.join(missing)}; {advice}", style="dim"))
    if continues:
        # The first column stays in any case: it is folded where it is wider than the terminal.
        columns = tuple(
            replace(whole.columns[index], rank=max(place - len(names), 0)) for place, index in enumerate(rest)
        )
        rows = tuple(tuple(row[index] for index in rest) for row in whole.rows)
        console.print()
        _print_table(
            Table(title=f"{whole.title.removesuffix(_CONTINUED)}{_CONTINUED}", columns=columns, rows=rows),
            console,
            numbers,
            details=True,
        )
    for note in table.notes:
        console.print(_hanging(Text("· "), Text(one_line(note), style="dim")))


def _without_intervals(whole: Table, table: Table, shown: Sequence[int]) -> list[int]:
    """Return the columns of `table` where cells in their short forms lack intervals that those of `whole` have."""

    def lacks(cell: Cell, cut: Cell) -> bool:
        return cell.low is not None and cell.short == cut.text != cell.text

    rows = list(zip(whole.rows, table.rows, strict=True))
    return [index for index in shown if any(lacks(row[index], cut[index]) for row, cut in rows)]


def _in_reading_order(table: Table, shown: tuple[int, ...], numbers: dict[str, int], console: Console) -> list[str]:
    """Return the footnotes of `table`, line by line as they are printed: a folded cell has its mark on a later line."""
    found = list(number_notes([table], columns=shown))
    if _natural_width(table, list(shown)) <= console.width:
        return found
    provisional = numbers | {note: number for number, note in enumerate(found, len(numbers) + 1) if note not in numbers}
    drawn = console.render(_table(table, shown, provisional, width=console.width))
    marks = [segment.style.meta.get(_MARK, ()) for segment in drawn if segment.style is not None]
    return list(dict.fromkeys(note for notes in marks for note in notes if note in found))


def to_text(document: Document, *, width: int = 80, details: bool = False) -> str:
    """`document` as plain text without colours, at most `width` cells wide."""
    return plain_text(partial(print_document, document, details=details), width=width)


def plain_text(show: Callable[[Console], None], *, width: int) -> str:
    """Return what `show` prints, without colours, at most `width` cells wide, no blanks at the end of lines."""
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer, width=width, highlight=False, emoji=False, no_color=True, force_terminal=False, force_jupyter=False
    )
    show(console)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def fit(table: Table, width: int) -> tuple[Table, tuple[int, ...]]:
    """`table` for `width` cells and the positions of the columns that fit unfolded; those of rank 0 stay in any case.

    Names take their short forms first, then columns go, those of the highest rank first, until the rest fits with names
    of `LEAST_NAME` cells, those of layers of as many as keep segments whole. They get the cells that are left; in a
    column that folds they stay whole. Where the rest does not fit, names lose the endings of their files, are folded
    between their parts, and shrink to `SHORTEST_NAME` where they can't be. Other cells take their short forms where
    the columns of rank 0 don't fit without.
    """
    if _natural_width(table, list(table.visible)) <= width:
        return table, table.visible
    if _natural_width(table, [index for index in table.visible if not table.columns[index].rank]) > width:
        table = replace(table, rows=tuple(tuple(map(_short_cell, row)) for row in table.rows))
    table = _shortened(table, None)
    whole = {
        index: max((len(row[index].text) for row in table.rows), default=0)
        for index, column in enumerate(table.columns)
        if column.name and column.folds
    }
    least = whole | {
        index: needed_width([row[index].text for row in table.rows])
        for index, column in enumerate(table.columns)
        if column.name and column.ends
    }
    found = _fitted(table, width, least)
    return found if _natural_width(found[0], list(found[1])) <= width else _fitted(table, width, whole)


def _fitted(table: Table, width: int, least: dict[int, int]) -> tuple[Table, tuple[int, ...]]:
    """Return the columns that fit, and `table` with names as long as there is room, at least `least` of a column."""
    tight, tightest = _shortened(table, LEAST_NAME, least), _shortened(table, SHORTEST_NAME, least)
    shown = list(table.visible)
    while highest := max(table.columns[index].rank for index in shown):
        if _natural_width(tight, shown) <= width or (highest == 1 and _folded(table, shown, width) is not None):
            break
        shown.remove(max(index for index in shown if table.columns[index].rank == highest))
    longest = {
        index: max((len(row[index].text) for row in table.rows), default=0)
        for index in shown
        if table.columns[index].name
    }
    for size in range(max(longest.values(), default=0), SHORTEST_NAME, -1):
        roomy = _shortened(table, size, least)
        fits = _natural_width(roomy, shown) <= width
        if fits:
            # Names of other columns may be so short that a column has room for its whole names.
            for index in sorted(longest, key=longest.__getitem__):
                wider = least | {index: longest[index]}
                if _natural_width(roomier := _shortened(table, size, wider), shown) <= width:
                    roomy, least = roomier, wider
        whole = fits and not any("…" in row[index].text[:-1] for row in roomy.rows for index in longest)
        if size < LEAST_NAME and not whole and (folded := _folded(table, shown, width)) is not None:
            return folded, tuple(shown)
        if fits:
            return roomy, tuple(shown)
    return tightest, tuple(shown)


def _folded(table: Table, shown: Sequence[int], width: int) -> Table | None:
    """`table` with names folded between their parts; None where a part has no room, and for layers."""
    numbers = number_notes([table], columns=tuple(shown))
    names = [index for index in shown if table.columns[index].name and not table.columns[index].folds]
    texts = {index: [row[index].short or row[index].text for row in table.rows] for index in names}
    least = {index: max((len(part) for text in texts[index] for part in _parts(text)), default=0) for index in names}
    marks = [max((len(_marks(row[index].notes, numbers)) for row in table.rows), default=0) for index in names]
    rest = [
        _narrowest(table, index, numbers) if table.columns[index].folds else _natural_width(table, [index])
        for index in shown
        if index not in names
    ]
    room = width - sum((*rest, *least.values(), *marks)) - GAP * (len(shown) - 1)
    if room < 0 or any(table.columns[index].ends for index in names):
        return None
    rows = [list(row) for row in table.rows]
    # Columns that need the least to stay unfolded get it first.
    for index in sorted(names, key=lambda index: max(map(len, texts[index]), default=0) - least[index]):
        most = least[index] + room
        for row, text in zip(rows, texts[index], strict=True):
            row[index] = replace(row[index], text=_fold(text, most), short="")
        room -= max(len(line) for row in rows for line in row[index].text.split(_FOLD)) - least[index]
    return replace(table, rows=tuple(map(tuple, rows)))


def _parts(name: str) -> list[str]:
    """Return the parts of a name, each with the mark at its end."""
    return re.findall(r"[^/ _-]*[/ _-]+|[^/ _-]+", one_line(name))


def _fold(name: str, width: int) -> str:
    """`name` with `_FOLD` between the lines of at most `width` cells that its parts fill."""
    lines = [""]
    for part in _parts(name):
        if lines[-1] and len((lines[-1] + part).rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return _FOLD.join(map(str.rstrip, lines))


def _short_cell(cell: Cell) -> Cell:
    return replace(cell, text=cell.short, notes=(*cell.notes, *cell.short_notes)) if cell.short else cell


def _shortened(table: Table, most: int | None, least: Mapping[int, int] = MappingProxyType({})) -> Table:
    """`table` with headings folded to its cells, and names in at most `most` cells each, or `least` of the column."""
    from rich.cells import cell_len

    columns, cells = list(table.columns), [[row[index] for row in table.rows] for index in range(len(table.columns))]
    for index, column in enumerate(columns):
        if column.name:
            names = short_names(
                [cell.short or cell.text for cell in cells[index]],
                None if most is None else max(most, least.get(index, 0)),
                ends=column.ends,
            )
            cells[index] = [replace(cell, text=name) for cell, name in zip(cells[index], names, strict=True)]
        if cells[index]:
            room = max(cell_len(cell.text) for cell in cells[index])
            lines = _heading(column.title)
            if column.numeric:
                lines = [textwrap.fill(line, max(room, 1), break_long_words=False) for line in lines]
            words = [_fold(line, max(room, SHORTEST_NAME)) for line in "\n".join(lines).split("\n")]
            columns[index] = replace(column, title="\n".join(words).replace(_FOLD, "\n"))
    return replace(table, columns=tuple(columns), rows=tuple(zip(*cells, strict=True)))


def _natural_width(table: Table, shown: list[int]) -> int:
    """Cells of a line of these columns, headings on two lines, nothing else folded."""
    from rich.cells import cell_len

    numbers = number_notes([table], columns=shown)
    total = -GAP
    for index in shown:
        texts = [_text(row[index]) + _marks(row[index].notes, numbers) for row in table.rows]
        lines = [line for text in texts for line in text.split("\n")]
        total += max(map(cell_len, [*_heading(table.columns[index].title), *lines])) + GAP
    return total


def _text(cell: Cell) -> str:
    """Return the text of a cell; only a folded name has several lines."""
    return "\n".join(map(one_line, cell.text.split(_FOLD)))


def _heading(title: str) -> list[str]:
    """Return a heading on up to three lines: the unit, and each part of a run's label, begins a new one."""
    return title.replace(" (", "\n(").replace(" · ", "\n").replace(" %", _PERCENT).split("\n")


def _at_slashes(line: str) -> list[str]:
    return line.replace("/", "/\n").split("\n") if len(line) > SHORTEST_NAME else [line]


def _marks(notes: tuple[str, ...], numbers: dict[str, int]) -> str:
    found = ",".join(map(str, sorted(numbers[note] for note in notes if note in numbers)))
    return found and f" [{found}]"


def _narrowest(table: Table, index: int, numbers: dict[str, int]) -> int:
    """Cells of the longest word of a column."""
    from rich.cells import cell_len

    texts = [f"{one_line(row[index].text)}{_marks(row[index].notes, numbers)}" for row in table.rows]
    return max(map(cell_len, [word for text in texts for word in text.split()] + _heading(table.columns[index].title)))


def _table(table: Table, shown: tuple[int, ...], numbers: dict[str, int], *, width: int) -> RenderableType:
    from rich import box
    from rich.style import Style
    from rich.table import Table as RichTable
    from rich.text import Text

    rich_table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _PADDING, 0, 0), show_edge=False)
    # Where a cell is folded, all cells of its row begin on one line; headings still end on one.
    crowded = _natural_width(table, list(shown)) > width
    stands_on_top = crowded or any(_FOLD in row[index].text for row in table.rows for index in shown)
    headings = {index: [one_line(line) for line in _heading(table.columns[index].title)] for index in shown}
    if crowded:  # what has no room is folded where the parts of a name end rather than within one
        headings = {index: [part for line in lines for part in _at_slashes(line)] for index, lines in headings.items()}
    tallest = max(map(len, headings.values()))
    for index in shown:
        column = table.columns[index]
        above = "\n" * (tallest - len(headings[index])) if stands_on_top else ""
        rich_table.add_column(
            Text(above + "\n".join(headings[index]).replace(_PERCENT, " %")),
            justify="right" if column.numeric else "left",
            overflow="fold",
            no_wrap=column.whole,
            vertical="top" if stands_on_top or tallest == 1 else "bottom",
            width=_narrowest(table, index, numbers) if crowded and column.folds else None,
        )
    for row in table.rows:
        cells = []
        for index in shown:
            cell = row[index]
            text = Text(_text(cell), style=_STYLES[cell.tone])
            text.append(_marks(cell.notes, numbers), style=Style(dim=True, meta={_MARK: cell.notes}))
            cells.append(text)
        rich_table.add_row(*cells)
    return rich_table


_PATH = re.compile(r"[\w.~@+-]*(/[\w.~@+-]+)+")
"""A path as passes and searches write it; names of the user may hold anything."""


def _print_section(section: Section, console: Console) -> None:
    from rich.cells import cell_len
    from rich.text import Text

    console.print()
    console.print(Text(one_line(section.title), style=_bold(section)))
    for line in section.drawing:
        console.print(Text(f"  {line}"), no_wrap=True, crop=True)
    for line in map(one_line, section.lines):
        words = line.split(" ")
        # A path wider than the terminal has a line of its own, which the terminal folds, so that it can be copied.
        room = console.width - 2
        for is_wide, some in groupby(words, key=lambda word: bool(_PATH.fullmatch(word)) and cell_len(word) > room):
            text = Text(" ".join(some))
            if is_wide:
                console.print(text, soft_wrap=True)
            else:
                console.print(_hanging(Text("  "), text))


def _bold(section: Section) -> str:
    return f"bold {_STYLES[section.tone]}".strip()


def _hanging(mark: RenderableType, text: RenderableType) -> RenderableType:
    """`text` folded to the right of `mark`."""
    from rich.table import Table as RichTable

    grid = RichTable.grid(padding=0)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(mark, text)
    return grid
