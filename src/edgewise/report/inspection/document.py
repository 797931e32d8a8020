"""What `inspect` prints, and its page: a model's cost in total and by layer, its memory over time, who supports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from edgewise.model.graph import Operator
from edgewise.model.inspection import Inspection
from edgewise.model.memory_plan import MemoryPlan, Placement
from edgewise.report.document import Columns, Document, Section, table_of
from edgewise.report.document.bars import WIDEST, draw_timeline
from edgewise.report.document.columns import number_column, text_column
from edgewise.report.document.page import environment, is_part
from edgewise.report.inspection.tables import (
    NO_SHAPE,
    NO_SIZE,
    count_text,
    layer_table,
    memory_line,
    operator_table,
    sparsity_section,
    sparsity_tables,
    support_matrix,
    support_table,
    totals_table,
)
from edgewise.text import csv_text, one_line
from edgewise.units import format_bytes, format_si

MOST_DRAWN = 1500
"""Tensors in the chart of memory: the largest."""
MOST_STEPS = 800
"""Steps of the area behind the boxes; each is the most of its operators."""
COLOURS = 8
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 960, 340, 74, 12, 44
"""Of the chart of memory, px."""


def memory_chart(inspection: Inspection) -> dict[str, Any] | None:
    """Return the arena along the network as a chart for a page: a box per tensor; None where there is no plan.

    A box reaches over the operators between which its tensor lives, and over the addresses that it takes.
    """
    plan, operators = inspection.plan, inspection.graph.operators
    if plan.unknown or not plan.arena_bytes or not operators:
        return None
    svg = environment().get_template("memory_plan.svg.jinja").render(**_drawing(plan, operators))
    drawn = min(len(plan.placements), MOST_DRAWN)
    left = f"; the {drawn:,} largest of {len(plan.placements):,} tensors" if drawn < len(plan.placements) else ""
    return {
        "title": "Which tensors live when, and where in the arena",
        "description": f"Memory plan: {memory_line(inspection)}",
        "caption": f"Placed greedy by size, {inspection.basis}{left}; engines add scratch buffers and copies of their "
        "own. The grey area is the sum of what lives, the dashed line its highest value.",
        "wide": True,
        "rows": "",
        "svg": svg,
        "data": _placements_csv(plan, operators) if is_part() else "",
    }


def _placements_csv(plan: MemoryPlan, operators: Sequence[Operator]) -> str:
    """One row per tensor: where it lies, and between which operators it lives."""
    heads = ("tensor", "offset (B)", "size (B)", "first operator", "last operator")
    rows = [
        (each.tensor, each.offset, each.size_bytes, operators[each.first].title, operators[each.last].title)
        for each in plan.placements
    ]
    return csv_text(heads, rows)


def _drawing(plan: MemoryPlan, operators: Sequence[Operator]) -> dict[str, Any]:
    """Return what the template draws."""
    top = float(plan.arena_bytes or 1)
    across, down = (WIDTH - LEFT - 8) / len(operators), (HEIGHT - TOP - BOTTOM) / top

    def box(each: Placement, colour: int) -> dict[str, Any]:
        first, last = (one_line(operators[at].title)[:80] for at in (each.first, each.last))
        lives = f"lives from operator {each.first} ({first}) to {each.last} ({last})"
        return {
            "x": LEFT + each.first * across,
            "y": HEIGHT - BOTTOM - (each.offset + each.size_bytes) * down,
            "width": (each.last - each.first + 1) * across,
            "height": each.size_bytes * down,
            "colour": colour % COLOURS + 1,
            "title": f"{one_line(each.tensor)[:200]}: {format_bytes(each.size_bytes)} at {each.offset:,}; {lives}",
        }

    # Of tensors of one size, those that are drawn are spread over the network.
    largest = sorted(plan.placements, key=lambda each: (-each.size_bytes, each.first * 7919 % 10007))[:MOST_DRAWN]
    step = -(-len(operators) // MOST_STEPS)
    live = [max(plan.live_bytes[at : at + step]) for at in range(0, len(operators), step)]
    shown = sorted(largest, key=lambda each: (each.first, each.offset))
    every = max(1, -(-len(operators) // 10))
    return {
        "size": {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - 8, "base": HEIGHT - BOTTOM},
        "live": [(HEIGHT - BOTTOM - each * down, LEFT + (at + 1) * step * across) for at, each in enumerate(live)],
        "boxes": [box(each, number) for number, each in enumerate(shown)],
        "bound": HEIGHT - BOTTOM - plan.lower_bound_bytes * down,
        "rows": [(HEIGHT - BOTTOM - top * part / 4 * down, format_bytes(top * part / 4)) for part in range(5)],
        "columns": [(LEFT + (at + 0.5) * across, at) for at in range(0, len(operators), every)],
    }


MOST_LAYERS = 500
"""Layers with a row on a page; files of data have all of them."""


def inspection_document(inspection: Inspection, *, top: int | None = None, width: int | None = None) -> Document:
    """Tables and lines of one inspected model.

    Args:
        top: number of layers, by MACs, with a row of their own; the rest is folded into one. None shows all in order.
        width: cells of the terminal on which the memory is drawn; None for no drawing.
    """
    tables = [totals_table(inspection), layer_table(inspection, top=top)]
    tables += sparsity_tables(inspection, top=top)
    if inspection.support:
        tables.append(support_table(inspection.support, inspection))
    tables += [table for table in (operator_table(inspection), support_matrix(inspection)) if table is not None]
    sections = []
    if assumed := inspection.source.get("assumed"):
        sections.append(Section(title="Assumed", lines=tuple(assumed), tone="poor"))
    if inspection.total.unknown:
        names = ", ".join(map(one_line, inspection.total.unknown[:5]))
        more = "" if len(inspection.total.unknown) <= 5 else f" and {len(inspection.total.unknown) - 5} more"
        line = f"{len(inspection.total.unknown)} operator(s) have no known cost: {names}{more}. {inspection.total.why}"
        sections.append(Section(title="Not known", lines=(line,), tone="poor"))
    if inspection.method:
        ran = inspection.basis == "measured"
        title, lines = "Measured" if ran else "Not measured", (one_line(inspection.method),)
        sections.append(Section(title=title, lines=lines, tone="plain" if ran else "poor"))
    if inspection.sparsity is not None:
        sections.append(sparsity_section(inspection.sparsity))
    sections.append(_memory_section(inspection, width))
    title = f"Inspection of {one_line(str(inspection.source.get('name', '')))}"
    return Document(
        title=title, tables=tuple(tables), sections=tuple(sections), charts=lambda: [memory_chart(inspection)]
    )


def inspection_page(inspection: Inspection, *, title: str = "") -> Document:
    """Return what the page of `inspection` has, long tables last; the heading is `title`, or the model's name."""
    document = inspection_document(inspection, top=MOST_LAYERS)
    totals, layers, *others = document.tables
    tables = [replace(totals, title="Totals"), *(replace(each, detail=False) for each in others)]
    name = one_line(title or str(inspection.source.get("name", ""))) or "Model"
    return replace(document, title=name, tables=(*tables, replace(layers, detail=True)), answer=(summary(inspection),))


def summary(inspection: Inspection) -> str:
    """Return the model in one line: precision, layers, MACs, parameters and weights as far as they are known."""
    total = inspection.total
    known = [f"{inspection.precision} · {len(inspection.graph.operators):,} layers"]
    known += [] if total.macs is None else [f"{format_si(total.macs, '').strip()} MACs"]
    known += [] if total.parameters is None else [f"{format_si(total.parameters, '').strip()} parameters"]
    known += [] if total.weight_bytes is None else [f"{format_bytes(total.weight_bytes)} of weights"]
    return " · ".join([*known, f"{inspection.basis} from the file"])


def _memory_section(inspection: Inspection, width: int | None) -> Section:
    """How much memory activations take, with bars of the memory that lives along the network on a terminal."""
    at, bars = inspection.plan.peak_operator, []
    name = "" if at is None else inspection.graph.operators[at].title
    if width is not None and not inspection.plan.unknown:
        bars = draw_timeline(inspection.plan.live_bytes, peak_name=name, width=min(WIDEST, width - 2))
    return Section(title="Memory of activations", lines=(memory_line(inspection),), drawing=tuple(bars))


def _given(inspection: Inspection) -> dict[str, object]:
    """Return the arguments of the factory."""
    return dict(inspection.source.get("built", {}).get("parameters", {}))


def sweep_document(inspections: Sequence[Inspection]) -> Document:
    """One row per model of a sweep over the arguments of a factory."""
    names = list(dict.fromkeys(name for each in inspections for name in _given(each)))

    def given(name: str) -> Callable[[Inspection], object]:
        return lambda each: _given(each).get(name, "")

    def arena(each: Inspection) -> int | None:
        return None if each.plan.unknown else each.plan.arena_bytes

    columns: Columns[Inspection] = [
        *(text_column(name, given(name)) for name in names),
        number_column("MACs", lambda each: each.total.macs, count_text, why=lambda each: each.total.why),
        number_column("Ops", lambda each: each.total.ops, count_text, why=lambda each: each.total.why),
        number_column("Params", lambda each: each.total.parameters, count_text, why=NO_SHAPE),
        number_column("Weights (B)", lambda each: each.total.weight_bytes, format_bytes, why=NO_SIZE, unit="B"),
        number_column("Arena (B)", arena, format_bytes, why="the size of a tensor is open", unit="B"),
        number_column("Depth", lambda each: each.total.depth, "{:,}".format),
    ]
    return Document(title="What if", tables=(table_of(f"{len(inspections)} variants", inspections, columns),))
