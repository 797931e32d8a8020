"""The small charts of a running job: the headline after each session, with its interval, and a speed over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from edgewise.formatting import scale_of, with_range
from edgewise.metrics import METRICS
from edgewise.studio.jobs.messages import Message
from edgewise.text import plural
from edgewise.units import long_time

WIDTH, HEIGHT = 640, 190
LEFT, RIGHT, TOP, BOTTOM = 78, 16, 12, 34
TICKS = 3
MOST_SPREAD = 2.0
"""An interval is drawn up to this factor from its value; arrows mark where it goes on."""


def headline_chart(points: Sequence[Message], *, sessions: int) -> str:
    """Return an SVG of ``headline`` messages: dots, a band for 95 % intervals, room for `sessions` or all there are."""
    most: int = max(sessions, points[-1]["sessions"], 2)
    ticks = range(1, most + 1, math.ceil(most / 10))
    placed = [(each["sessions"], f"after {plural(each['sessions'], 'session')}", each) for each in points]
    return _chart(placed, ticks=ticks, until=most, of="sessions")


def speed_chart(metric: str, points: Sequence[tuple[float, float]]) -> str:
    """Return an SVG of a speed over time: (s, value in the unit of `metric`), in the order of time."""
    told = {"metric": metric, "unit": METRICS[metric].unit, "low": None, "high": None}
    placed = [(at_s, f"at {long_time(at_s)}", {**told, "value": value}) for at_s, value in points]
    end = points[-1][0]
    return _chart(placed, ticks=[float(f"{end * part / 4:.2g}") for part in range(4)], until=end, of="s of requests")


def _chart(points: Sequence[tuple[float, str, Message]], *, ticks: Sequence[float], until: float, of: str) -> str:
    """Return an SVG of values with their intervals, at their places between the first of `ticks` and `until`.

    Args:
        points: place, the place in words, and value.
        of: what the places are.
    """
    from edgewise.report.charts import cut_interval  # the first page of the studio needs none of it

    _, last_words, last = points[-1]
    metric, unit = last["metric"], last["unit"]
    ends: list[float] = [end for *_, each in points for end in _shown_ends(each)]
    low, high = min(ends), max(ends)
    room = (high - low) * 0.08 or abs(high) * 0.01 or 1.0
    low, high = low - room, high + room

    def x(place: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (place - ticks[0]) / (until - ticks[0])

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
    parts += [f'<text x="{x(tick):.1f}" y="{HEIGHT - 18}">{tick:g}</text>' for tick in ticks]
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 3}">{of}</text>')
    banded = [(place, cut_interval(each, low, high, "")) for place, _, each in points if each["low"] is not None]
    upper = [f"{x(place):.1f},{y(each['high']):.1f}" for place, each in banded]
    lower = [f"{x(place):.1f},{y(each['low']):.1f}" for place, each in reversed(banded)]
    if len(banded) > 1:
        parts.append(f'<polygon class="band" points="{" ".join(upper + lower)}"/>')
    for place, each in banded:
        parts.append(f'<path class="whisker" d="M{x(place):.1f} {y(each["low"]):.1f}V{y(each["high"]):.1f}"/>')
        if each["high"] == high:
            parts.append(f'<path class="beyond" d="M{x(place):.1f} {TOP}l5 9h-10z"/>')
        if each["low"] == low:
            parts.append(f'<path class="beyond" d="M{x(place):.1f} {HEIGHT - BOTTOM}l5 -9h-10z"/>')
    line = " ".join(f"{x(place):.1f},{y(each['value']):.1f}" for place, _, each in points)
    parts.append(f'<polyline class="line" points="{line}"/>')
    for place, words, each in points:
        told = f"{words}: {with_range(metric, unit, each['value'], each['low'], each['high'])}"
        centre = f'cx="{x(place):.1f}" cy="{y(each["value"]):.1f}"'
        parts.append(f'<circle {centre} r="4"><title>{escape(told)}</title></circle>')
    words = f"{last_words.capitalize()}: {with_range(metric, unit, last['value'], last['low'], last['high'])}"
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(words)}">'
    return head + "".join(parts) + "</svg>"


def _shown_ends(point: Message) -> Sequence[float]:
    """Return the value, and the ends of its interval up to a factor of 2: that of few sessions may be far wider."""
    value = point["value"]
    if point["low"] is None:
        return (value,)
    return max(point["low"], value / MOST_SPREAD), value, min(point["high"], value * MOST_SPREAD)
