"""A profile on the terminal: the layer table, its sum, the memory timeline, the findings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from edgewise.record import Run
from edgewise.report.bench import caution_sections
from edgewise.report.document import Document, Section
from edgewise.report.profile import (
    MOST_ROWS,
    header,
    is_profiled,
    layer_table,
    method_sections,
    operator_names,
    sum_sections,
)
from edgewise.report.profile_diff import diff_table
from edgewise.report.profile_findings import finding_sections, headline_sections
from edgewise.report.text import plain_text, print_document, print_hint, print_titled
from edgewise.report.timeline import timeline_sections

if TYPE_CHECKING:
    from rich.console import Console


def render_profile_text(runs: Sequence[Run], console: Console, *, top: int = MOST_ROWS, details: bool = False) -> None:
    """Print the profiles of `runs` on `console`, one after the other, then what changed where there are two.

    Args:
        top: rows of a table of layers.
        details: whether to print how layers were timed, the memory over time and cautions in full.
    """
    if headline := headline_sections(runs):
        print_document(Document(title="", tables=(), sections=tuple(headline)), console)
        console.print()
    hidden = []
    for index, run in enumerate(runs):
        if index:
            console.print()
        tables = (layer_table(run, top=top),) if is_profiled(run) else ()
        memory = memory_sections(run, width=console.width)
        sections = (*sum_sections(run), *memory, *finding_sections(run), *method_sections(run))
        hidden += [section.title for section in (*memory, *method_sections(run))]
        print_titled(
            Document(title=header(run), tables=tables, sections=sections), console, details=details, hint=False
        )
    cautions = tuple(caution_sections(runs))
    print_document(Document(title="", tables=(), sections=cautions), console, details=details, hint=False)
    if not details:
        print_hint([*hidden, *(section.title for section in cautions)], console)
    if (table := diff_table(runs)) is not None:
        console.print()
        print_document(Document(title="", tables=(table,)), console)


def profile_text(runs: Sequence[Run], *, width: int = 80, top: int = MOST_ROWS, details: bool = False) -> str:
    """The same as plain text without colours, at most `width` cells wide."""
    return plain_text(partial(render_profile_text, runs, top=top, details=details), width=width)


def memory_sections(run: Run, *, width: int | None = None) -> list[Section]:
    """Live bytes along the model's operators as bars of text, fit for `width` cells; nothing where not known."""
    memory = run.profile.memory if run.profile is not None else None
    live = [float(value) for value in (memory or {}).get("live_bytes") or ()]
    peak = live.index(max(live)) if live else 0
    name = operator_names(run).get(peak, "")
    return timeline_sections(live, peak_name=name, title="Memory over time", width=width)
