"""The page of an inspection: totals, memory along the network, operators, support by engine, layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edgewise.model.graph import Operator
from edgewise.model.inspection import Inspection, name_kind
from edgewise.model.memory_plan import MemoryPlan, Placement
from edgewise.model.support import Support
from edgewise.report.chart_data import csv_text
from edgewise.report.document import DASH, Cell, Column, Table
from edgewise.report.document_html import section_parts, table_parts, urgent_parts
from edgewise.report.inspection import (
    bytes_cell,
    count_cell,
    inspection_document,
    layer_table,
    memory_line,
    support_table,
    totals_table,
)
from edgewise.report.page import Part, environment, is_part, render_result_page
from edgewise.report.sparsity import sparsity_tables
from edgewise.text import one_line
from edgewise.units import format_bytes, format_si

MOST_LAYERS = 500
"""Layers with a row on the page; files of data have all of them."""
MOST_DRAWN = 1500
"""Tensors in the chart of memory: the largest."""
MOST_STEPS = 800
"""Steps of the area behind the boxes; each is the most of its operators."""
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
    """The model in one line: precision, layers, MACs, parameters and weights as far as they are known."""
    total = inspection.total
    known = [f"{inspection.precision} · {len(inspection.graph.operators):,} layers"]
    known += [] if total.macs is None else [f"{format_si(total.macs, '').strip()} MACs"]
    known += [] if total.parameters is None else [f"{format_si(total.parameters, '').strip()} parameters"]
    known += [] if total.weight_bytes is None else [f"{format_bytes(total.weight_bytes)} of weights"]
    return " · ".join([*known, f"{inspection.basis} from the file"])


def operator_table(inspection: Inspection) -> Table:
    """A row per type of operator, the one with the most MACs first: how many there are, and what they cost."""
    costs, whole = inspection.costs, inspection.total.macs

    def total(at: Sequence[int], field: str) -> int | None:
        values = [getattr(costs[each], field) for each in at]
        return None if None in values else sum(values)

    def row(name: str, at: Sequence[int]) -> tuple[Cell, ...]:
        why = next((costs[each].why for each in at if costs[each].why), "a shape is open")
        macs = total(at, "macs")
        return (
            Cell(text=one_line(name)),
            Cell(text=name_kind(inspection.graph.operators[at[0]])),
            count_cell(len(at), ""),
            count_cell(macs, why),
            Cell(text=f"{macs / whole:.1%}", value=macs / whole) if macs is not None and whole else DASH,
            count_cell(total(at, "parameters"), why),
            bytes_cell(total(at, "weight_bytes"), why),
        )

    types = sorted(
        _types(inspection).items(), key=lambda each: (-(total(each[1], "macs") or 0), -len(each[1]), each[0])
    )
    numbers = ("Count", "MACs", "of all MACs", "Parameters", "Weights (B)")
    return Table(
        title="Operators",
        columns=(
            Column(title="Operator"),
            Column(title="Kind"),
            *(Column(title=each, numeric=True) for each in numbers),
        ),
        rows=tuple(row(name, at) for name, at in types),
    )


def _types(inspection: Inspection) -> dict[str, list[int]]:
    """Type of operator → indices of its operators."""
    found: dict[str, list[int]] = defaultdict(list)
    for operator in inspection.graph.operators:
        found[operator.op].append(operator.index)
    return found


def support_matrix(inspection: Inspection) -> Table | None:
    """Engines × types of operators that some engine does not support, or may not; None where there is none."""
    types = _types(inspection)
    doubtful = [name for name, at in types.items() if any(_reasons(each, at) for each in inspection.support)]
    if not doubtful:
        return None
    return Table(
        title="Support by operator",
        columns=(Column(title="Operator"), *(Column(title=each.name) for each in inspection.support)),
        rows=tuple(
            (
                Cell(text=f"{one_line(name)} ({len(types[name])})"),
                *(_support_cell(each, types[name]) for each in inspection.support),
            )
            for name in doubtful
        ),
        notes=("operators that every engine supports are left out",) if len(doubtful) < len(types) else (),
    )


def _reasons(support: Support, at: Sequence[int]) -> tuple[str, ...]:
    """Why an engine does not, or may not, support some of the operators."""
    every = {**support.unknown, **support.refusals}
    return tuple(dict.fromkeys(one_line(every[each]) for each in at if each in every))


def _support_cell(support: Support, at: Sequence[int]) -> Cell:
    reasons = _reasons(support, at)[:3]
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
        "own. The grey area is the sum of what lives, the dashed line its highest value.",
        "wide": True,
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
