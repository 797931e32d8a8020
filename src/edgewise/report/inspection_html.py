"""The page of an inspection: totals, memory along the network, operators, support by engine, layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgewise.formatting import quantity
from edgewise.model.graph import Operator
from edgewise.model.inspection import Inspection, name_kind
from edgewise.model.memory_plan import MemoryPlan, Placement
from edgewise.model.support import Support
from edgewise.report.document import DASH, Cell, Column, Table, table_of
from edgewise.report.document_html import section_parts, table_parts, urgent_parts
from edgewise.report.inspection import inspection_document, layer_table, memory_line, support_table, totals_table
from edgewise.report.page import Part, environment, render_result_page
from edgewise.report.sparsity import sparsity_tables
from edgewise.text import one_line
from edgewise.units import format_bytes, format_si

MOST_LAYERS = 500
"""Layers with a row on the page; files of data have all of them."""
MOST_DRAWN = 1500
"""Tensors in the chart of memory: the largest."""
COLOURS = 8
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 960, 340, 74, 12, 44
"""Of the chart of memory, px."""


def render_inspection_html(inspection: Inspection, *, title: str = "") -> str:
    """The page of one inspected model.

    Args:
        title: heading; empty for the model's name.
    """
    document = inspection_document(inspection)
    memory, *sections = reversed(document.sections)
    support = [support_table(inspection.support, inspection)] if inspection.support else []
    matrix = support_matrix(inspection)
    totals, *others = table_parts(
        [
            replace(totals_table(inspection), title="Totals"),
            operator_table(inspection),
            *support,
            *([matrix] if matrix else []),
            layer_table(inspection, top=MOST_LAYERS),
            *sparsity_tables(inspection, top=MOST_LAYERS),
        ]
    )
    chart = memory_chart(inspection)
    blocks = [("charts", [chart] if chart else []), ("statements", memory.lines)]
    return render_result_page(
        "inspection",
        one_line(title or str(inspection.source.get("name", ""))) or "Model",
        [
            *urgent_parts(sections),
            totals,
            Part(id="memory", title=memory.title, nav="Memory", blocks=blocks),
            *others,
            *section_parts(sections[::-1]),
        ],
        evidence=summary(inspection),
    )


def summary(inspection: Inspection) -> str:
    """The model in one line: precision, MACs, parameters, weights."""
    total = inspection.total
    amounts = [
        ("MACs", None if total.macs is None else format_si(total.macs, "").strip()),
        ("parameters", None if total.parameters is None else format_si(total.parameters, "").strip()),
        ("of weights", None if total.weight_bytes is None else format_bytes(total.weight_bytes)),
    ]
    count = len(inspection.graph.operators)
    known = [f"{text} {noun}" for noun, text in amounts if text is not None]
    return " · ".join([inspection.precision, f"{count:,} layers", *known, f"{inspection.basis} from the file"])


def operator_table(inspection: Inspection) -> Table:
    """A row per type of operator, the one with the most MACs first: how many there are, and what they cost."""
    groups: dict[str, list[int]] = defaultdict(list)
    for operator in inspection.graph.operators:
        groups[operator.op].append(operator.index)

    def total(name: str, field: str) -> int | None:
        values = [getattr(inspection.costs[at], field) for at in groups[name]]
        return None if None in values else sum(values)

    def cell(field: str, *, share: bool = False) -> Any:
        whole = sum(getattr(cost, field) or 0 for cost in inspection.costs)

        def make(name: str) -> Cell:
            value = total(name, field)
            if value is None:
                why = next((inspection.costs[at].why for at in groups[name] if inspection.costs[at].why), "")
                return Cell(text="n/a", notes=(why or "a shape is open",), tone="faint")
            if share:
                return Cell(text=f"{value / whole:.1%}", value=value / whole) if whole else DASH
            return Cell(text=quantity(value, "B") if "bytes" in field else f"{value:,}", value=value)

        return make

    order = sorted(groups, key=lambda name: (-(total(name, "macs") or 0), -len(groups[name]), name))
    kinds = {operator.op: name_kind(operator) for operator in inspection.graph.operators}
    return table_of(
        "Operators",
        order,
        [
            (Column(title="Operator", name=True), lambda name: Cell(text=one_line(name))),
            (Column(title="Kind"), lambda name: Cell(text=kinds[name])),
            (
                Column(title="Count", numeric=True),
                lambda name: Cell(text=f"{len(groups[name]):,}", value=len(groups[name])),
            ),
            (Column(title="MACs", numeric=True), cell("macs")),
            (Column(title="of all MACs", numeric=True), cell("macs", share=True)),
            (Column(title="Parameters", numeric=True), cell("parameters")),
            (Column(title="Weights", numeric=True), cell("weight_bytes")),
        ],
    )


def support_matrix(inspection: Inspection) -> Table | None:
    """Engines × types of operators that some engine does not support, or may not; None where there is none."""
    groups: dict[str, list[int]] = defaultdict(list)
    for operator in inspection.graph.operators:
        groups[operator.op].append(operator.index)
    doubtful = [name for name, at in groups.items() if any(_reasons(each, at) for each in inspection.support)]
    if not doubtful:
        return None

    def column(support: Support) -> tuple[Column, Any]:
        return Column(title=support.name), lambda name: _support_cell(support, groups[name])

    columns = [(Column(title="Operator"), lambda name: Cell(text=f"{one_line(name)} ({len(groups[name])})"))]
    notes = ["operators that every engine supports are left out"] if len(doubtful) < len(groups) else []
    columns += [*map(column, inspection.support)]
    return table_of("Support by operator", doubtful, columns, notes=notes)


def _reasons(support: Support, at: Sequence[int]) -> dict[int, str]:
    every: Mapping[int, str] = {**support.unknown, **support.refusals}
    return {each: every[each] for each in at if each in every}


def _support_cell(support: Support, at: Sequence[int]) -> Cell:
    reasons = tuple(dict.fromkeys(map(one_line, _reasons(support, at).values())))[:3]
    refused = sum(each in support.refusals for each in at)
    if refused:
        return Cell(text="no" if refused == len(at) else f"{len(at) - refused} of {len(at)}", notes=reasons, tone="bad")
    return Cell(text="unknown" if reasons else "yes", notes=reasons, tone="faint" if reasons else "good")


def memory_chart(inspection: Inspection) -> dict[str, Any] | None:
    """The arena along the network as a chart for a page: a box per tensor; None where there is no plan.

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
        "own. The dashed line is the most that lives at one time.",
        "wide": True,
        "svg": svg,
    }


def _drawing(plan: MemoryPlan, operators: Sequence[Operator]) -> dict[str, Any]:
    """What the template draws."""
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

    largest = sorted(plan.placements, key=lambda each: -each.size_bytes)[:MOST_DRAWN]
    shown = sorted(largest, key=lambda each: (each.first, each.offset))
    every = max(1, -(-len(operators) // 10))
    return {
        "size": {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - 8, "base": HEIGHT - BOTTOM},
        "boxes": [box(each, number) for number, each in enumerate(shown)],
        "bound": HEIGHT - BOTTOM - plan.lower_bound_bytes * down,
        "rows": [(HEIGHT - BOTTOM - top * part / 4 * down, format_bytes(top * part / 4)) for part in range(5)],
        "columns": [(LEFT + (at + 0.5) * across, at) for at in range(0, len(operators), every)],
    }
