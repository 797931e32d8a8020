"""The small chart of a running job: the headline after each session, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from edgewise.formatting import scale_of, with_range
from edgewise.studio.jobs.messages import Message

WIDTH, HEIGHT = 640, 190
LEFT, RIGHT, TOP, BOTTOM = 78, 16, 12, 34
TICKS = 3


def headline_chart(points: Sequence[Message], *, sessions: int) -> str:
    """Return an SVG of ``headline`` messages: dots, a band for 95 % intervals, room for `sessions` or all there are."""
    last = points[-1]
    metric, unit = last["metric"], last["unit"]
    ends: list[float] = [
        end for each in points for end in (each["low"], each["value"], each["high"]) if end is not None
    ]
    low, high = min(ends), max(ends)
    room = (high - low) * 0.08 or abs(high) * 0.01 or 1.0
    low, high = low - room, high + room
    most: int = max(sessions, last["sessions"], 2)

    def x(session: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (session - 1) / (most - 1)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    convert, name = scale_of(metric, unit, [low + room])
    places = max(0, 1 - math.floor(math.log10(abs(convert(high) - convert(low)))))
    parts = []
    for index in range(TICKS):
        tick = low + room + (high - low - 2 * room) * index / (TICKS - 1)
        parts.append(f'<path class="rule" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>')
        label = escape(f"{convert(tick):.{places}f} {name}".strip())
        parts.append(f'<text class="end" x="{LEFT - 8}" y="{y(tick) + 4:.1f}">{label}</text>')
    step = math.ceil(most / 10)
    parts += [f'<text x="{x(n):.1f}" y="{HEIGHT - 18}">{n}</text>' for n in range(1, most + 1, step)]
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 3}">sessions</text>')
    banded = [each for each in points if each["low"] is not None]
    upper = [f"{x(each['sessions']):.1f},{y(each['high']):.1f}" for each in banded]
    lower = [f"{x(each['sessions']):.1f},{y(each['low']):.1f}" for each in reversed(banded)]
    if len(banded) > 1:
        parts.append(f'<polygon class="band" points="{" ".join(upper + lower)}"/>')
    for each in banded:
        parts.append(
            f'<path class="whisker" d="M{x(each["sessions"]):.1f} {y(each["low"]):.1f}V{y(each["high"]):.1f}"/>'
        )
    line = " ".join(f"{x(each['sessions']):.1f},{y(each['value']):.1f}" for each in points)
    parts.append(f'<polyline class="line" points="{line}"/>')
    for each in points:
        told = f"{_sessions(each['sessions'])}: {with_range(metric, unit, each['value'], each['low'], each['high'])}"
        place = f'cx="{x(each["sessions"]):.1f}" cy="{y(each["value"]):.1f}"'
        parts.append(f'<circle {place} r="4"><title>{escape(told)}</title></circle>')
    words = f"After {_sessions(last['sessions'])}: {with_range(metric, unit, last['value'], last['low'], last['high'])}"
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(words)}">'
    return head + "".join(parts) + "</svg>"


def _sessions(count: int) -> str:
    return f"{count} session{'s' if count != 1 else ''}"
