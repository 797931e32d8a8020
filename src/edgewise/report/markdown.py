"""A document as GitHub-flavoured Markdown: pipe tables, numbered footnotes, nothing that a name could inject."""

from __future__ import annotations

import re

from edgewise.report.document import Cell, Document, Table, number_notes
from edgewise.text import one_line

_SPECIAL = re.compile(r"[\\`*<>\[\]|~$#!&]")
# GitHub makes no emphasis of an underscore between two word characters.
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LEADING = re.compile(r"^(\d+)([.)])(?=\s|$)|^([-+=])")


def render_markdown(document: Document, *, only_tables: bool = False) -> str:
    """Heading, answer, tables with footnotes, sections as lists; or the tables with their footnotes alone."""
    numbers = number_notes(document.tables)
    footnotes = "\n".join(f"[^{number}]: {escape(note)}" for note, number in numbers.items())
    if only_tables:
        return "\n\n".join(filter(None, [*(_table(table, numbers) for table in document.tables), footnotes])) + "\n"
    blocks = [f"# {escape(document.title)}"]
    blocks += ["  \n".join(map(escape, document.answer))]
    for table in document.tables:
        if table.title != document.title:
            blocks.append(f"## {escape(table.title)}")
        blocks.append(_table(table, numbers))
        if table.notes:
            blocks.append("\n".join(f"- {escape(note)}" for note in table.notes))
    for section in document.sections:
        blocks += [f"## {escape(section.title)}", "\n".join(f"- {escape(line)}" for line in section.lines)]
    blocks.append(footnotes)
    return "\n\n".join(block for block in blocks if block) + "\n"


def escape(text: str) -> str:
    """`text` as one line that Markdown shows as it is."""
    cleaned = _UNDERSCORE.sub(r"\\_", _SPECIAL.sub(lambda match: "\\" + match[0], one_line(text)))
    # GitHub turns bare addresses and @names into links even where nobody asked for one.
    cleaned = cleaned.replace("://", ":&#47;&#47;").replace("www.", "www&#46;")
    cleaned = re.sub(r"@(?=\w)", "&#64;", cleaned)
    return _LEADING.sub(lambda match: f"{match[1]}\\{match[2]}" if match[1] else f"\\{match[3]}", cleaned)


def _table(table: Table, numbers: dict[str, int]) -> str:
    shown = table.visible
    columns = [table.columns[index] for index in shown]
    lines = [
        "| " + " | ".join(escape(column.title) for column in columns) + " |",
        "|" + "|".join(" ---: " if column.numeric else " --- " for column in columns) + "|",
    ]
    lines += ["| " + " | ".join(_cell(row[index], numbers) for index in shown) + " |" for row in table.rows]
    return "\n".join(lines)


def _cell(cell: Cell, numbers: dict[str, int]) -> str:
    text = escape(cell.text)
    if cell.link:
        text = f"[{text}](<{cell.link}>)"
    return text + "".join(f"[^{numbers[note]}]" for note in cell.notes)
