"""A document as GitHub-flavoured Markdown: pipe tables, numbered footnotes, with all names escaped."""

from __future__ import annotations

from edgewise.report.document import Cell, Document, Section, Table, number_notes
from edgewise.text import for_markdown


def render_markdown(document: Document, *, only_tables: bool = False) -> str:
    """Heading, answer, leading sections, tables with footnotes, sections; or the tables with their footnotes and their
    environment alone.
    """
    numbers = number_notes(document.tables)
    footnotes = "\n".join(f"[^{number}]: {for_markdown(note)}" for note, number in numbers.items())
    if only_tables:
        several = len(document.tables) > 1  # what each is about is not said by a heading above them
        titles = [f"**{for_markdown(table.title)}**\n\n" if several else "" for table in document.tables]
        tables = [title + _table(table, numbers) for title, table in zip(titles, document.tables, strict=True)]
        lines = dict.fromkeys(line for table in document.tables for line in table.environment)
        environment = "  \n".join(map(for_markdown, lines))
        return "\n\n".join(filter(None, [*tables, environment, footnotes])) + "\n"
    blocks = [f"# {for_markdown(document.title)}"]
    blocks += ["  \n".join(map(for_markdown, document.answer))]
    blocks += [block for section in document.lead for block in _section(section)]
    for table in document.tables:
        if table.title != document.title:
            blocks.append(f"## {for_markdown(table.title)}")
        blocks.append(_table(table, numbers))
        if table.notes:
            blocks.append("\n".join(f"- {for_markdown(note)}" for note in table.notes))
    for section in document.sections:
        blocks += _section(section)
    blocks.append(footnotes)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _section(section: Section) -> list[str]:
    """Heading, drawing and lines of a section, each a block."""
    drawing = "\n".join(f"    {line}" for line in section.drawing)
    return [
        f"## {for_markdown(section.title)}",
        drawing,
        "\n".join(f"- {for_markdown(line)}" for line in section.lines),
    ]


def _table(table: Table, numbers: dict[str, int]) -> str:
    shown = table.visible
    columns = [table.columns[index] for index in shown]
    lines = [
        "| " + " | ".join(for_markdown(column.title) for column in columns) + " |",
        "|" + "|".join(" ---: " if column.numeric else " --- " for column in columns) + "|",
    ]
    lines += ["| " + " | ".join(_cell(row[index], numbers) for index in shown) + " |" for row in table.rows]
    return "\n".join(lines)


def _cell(cell: Cell, numbers: dict[str, int]) -> str:
    text = for_markdown(cell.text)
    if cell.link:
        text = f"[{text}](<{cell.link}>)"
    return text + "".join(f"[^{number}]" for number in sorted({numbers[note] for note in cell.notes}))
