"""Bars of text, and live bytes along a network drawn with them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgewise.model.memory_plan import MemoryPlan
from edgewise.report.document.names import keep_end, shorten
from edgewise.text import one_line
from edgewise.units import format_bytes

BLOCKS = " ▁▂▃▄▅▆▇█"
HEIGHT = 4
WIDEST = 72


def draw_timeline(live: Sequence[float], *, peak_name: str = "", width: int = WIDEST) -> list[str]:
    """Bars of `live` bytes per operator, then what they show; at most `width` cells wide, nothing where nothing lives.

    Args:
        peak_name: of the operator at the highest bar.
    """
    highest = max(live, default=0.0)
    if highest <= 0:
        return []
    bars = _columns(live, width)
    each = "" if len(bars) >= len(live) else f", each bar the highest of {math.ceil(len(live) / len(bars))}"
    found = f"highest: {format_bytes(highest)} at operator {list(live).index(highest)}"
    where = f" ({keep_end(peak_name, max(width - len(found) - 3, 8))})" if peak_name else ""
    return [
        *draw_bars(bars),
        shorten(f"live bytes along operators 0 to {len(live) - 1}{each}", width),
        shorten(found + where, width),
    ]


def describe_memory(plan: MemoryPlan, peak: str) -> str:
    """Size of the arena, and the most that lives at one time; `peak` is the kind of the operator where that is."""
    arena = "–" if plan.arena_bytes is None else format_bytes(plan.arena_bytes)
    persistent = f", {format_bytes(plan.persistent_bytes)} of it persistent" if plan.persistent_bytes else ""
    folded = f"; {format_bytes(plan.folded_bytes)} follow from constants alone" if plan.folded_bytes else ""
    folded += f"; {format_bytes(plan.fused_bytes)} of float tensors stay quantised" if plan.fused_bytes else ""
    return (
        f"arena {arena} (greedy by size, offsets on {plan.alignment} B){persistent}; at least "
        f"{format_bytes(plan.lower_bound_bytes)} live at once, at operator {plan.peak_operator or 0} "
        f"({one_line(peak)}){folded}"
    )


def draw_bars(values: Sequence[float]) -> list[str]:
    """`HEIGHT` lines of text with a bar per value, the highest as high as all of them; one value must be above 0."""
    highest, steps = max(values), len(BLOCKS) - 1
    levels = [math.ceil(value / highest * HEIGHT * steps) for value in values]
    return [
        "".join(BLOCKS[min(max(level - row * steps, 0), steps)] for level in levels).rstrip()
        for row in reversed(range(HEIGHT))
    ]


def _columns(live: Sequence[float], width: int) -> list[float]:
    """One bar per operator, several cells wide where there is room; else one per group, the group's highest."""
    if len(live) <= width:
        wide = max(1, min(4, width // len(live)))
        return [value for value in live for _ in range(wide)]
    size = math.ceil(len(live) / width)
    return [max(live[first : first + size]) for first in range(0, len(live), size)]
