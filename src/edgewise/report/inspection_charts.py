"""The memory of an inspected network along its operators, as a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewise.model.graph import Operator
from edgewise.model.inspection import Inspection
from edgewise.model.memory_plan import MemoryPlan, Placement
from edgewise.report.chart_data import csv_text
from edgewise.report.inspection_tables import memory_line
from edgewise.report.page import environment, is_part
from edgewise.text import one_line
from edgewise.units import format_bytes

MOST_DRAWN = 1500
"""Tensors in the chart of memory: the largest."""
MOST_STEPS = 800
"""Steps of the area behind the boxes; each is the most of its operators."""
COLOURS = 8
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 960, 340, 74, 12, 44
"""Of the chart of memory, px."""


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
