"""A profile on the terminal: the layer table, its sum, the memory timeline, the findings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from edgewise.record import Run
from edgewise.report.bench import caution_sections
from edgewise.report.conditions import labels_of
from edgewise.report.document import Document, Table
from edgewise.report.names import shorten
from edgewise.report.profile import (
    MOST_ROWS,
    NARROW,
    header,
    is_profiled,
    layer_table,
    method_sections,
    operator_names,
    sum_sections,
)
from edgewise.report.profile_diff import diff_table
from edgewise.report.profile_findings import finding_sections, headline_sections
from edgewise.report.text import plain_text, print_document, print_hint
from edgewise.report.timeline import HEIGHT, WIDEST, draw_timeline

if TYPE_CHECKING:
    from rich.console import Console


def render_profile_text(runs: Sequence[Run], console: Console, *, top: int = MOST_ROWS, details: bool = False) -> None:
    """Print the profiles of `runs` on `console`, one after the other, then what changed where there are two.

    Args:
        top: rows of a table of layers.
        details: whether to print how layers were timed, the memory over time and cautions in full.
    """
    from rich.text import Text

    if headline := headline_sections(runs):
        print_document(Document(title="", tables=(), sections=tuple(headline)), console)
        console.print()
    for index, (run, label) in enumerate(zip(runs, labels_of(runs), strict=True)):
        if index:
            console.print()
        console.print(Text(header(run), style="bold"), soft_wrap=False)
        if is_profiled(run):
            console.print()
        tables = (layer_table(run, top=top, width=console.width),) if is_profiled(run) else ()
        print_document(Document(title=label, tables=tables), console)
        sections = (*finding_sections(run), *method_sections(run))
        if not details:
            sections = (*sum_sections(run), *sections)
            print_document(Document(title=label, tables=(), sections=sections), console, hint=False)
            continue
        print_document(Document(title=label, tables=(), sections=tuple(sum_sections(run))), console, details=True)
        for line in memory_timeline(run, width=min(WIDEST, console.width - 2)):
            console.print(Text(f"  {line}"), no_wrap=True, crop=True)
        print_document(Document(title=label, tables=(), sections=sections), console, details=True)
    cautions = tuple(caution_sections(runs))
    print_document(Document(title="", tables=(), sections=cautions), console, details=details, hint=False)
    if not details:
        print_hint(["memory over time", "how it was timed", *(section.title for section in cautions)], console)
    if (table := diff_table(runs)) is not None:
        console.print()
        print_document(Document(title="", tables=(_narrowed(table, console.width),)), console)


def profile_text(runs: Sequence[Run], *, width: int = 80, top: int = MOST_ROWS, details: bool = False) -> str:
    """The same as plain text without colours, at most `width` cells wide."""
    return plain_text(partial(render_profile_text, runs, top=top, details=details), width=width)


def _narrowed(table: Table, width: int) -> Table:
    """`table` with its first column shortened to what the width allows."""
    from dataclasses import replace

    most = 20 if width < NARROW else 36
    rows = tuple((replace(row[0], text=shorten(row[0].text, most)), *row[1:]) for row in table.rows)
    return replace(table, rows=rows)


def memory_timeline(run: Run, *, width: int = WIDEST, height: int = HEIGHT) -> list[str]:
    """Live bytes along the model's operators as bars of text, at most `width` cells wide; nothing where not known."""
    memory = run.profile.memory if run.profile is not None else None
    live = [float(value) for value in (memory or {}).get("live_bytes") or ()]
    peak = live.index(max(live)) if live else 0
    return draw_timeline(live, peak_name=operator_names(run).get(peak, ""), width=width, height=height)
