"""Two profiled runs side by side: what of the model became faster or slower.

Engines fuse differently, so rows are not layers: they are the smallest sets of layers that execute the same operators
of the model in both runs. A set's times are sums, and nothing is counted twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.record import Layer, Run
from edgewise.report.conditions import labels_of
from edgewise.report.document import Cell, Column, Table
from edgewise.text import one_line
from edgewise.units import significant

MOST_ROWS = 20
BEFORE_AND_AFTER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The layers of two runs that do the same work.

    Attributes:
        name: of the dearest layer in it.
        before, after: layers of the first and the second run; empty where a run has none for this work.
    """

    name: str
    op: str
    kind: str
    before: tuple[Layer, ...]
    after: tuple[Layer, ...]

    @property
    def times(self) -> tuple[float | None, float | None]:
        """Sums, s; 0 where a run does nothing for it, None where a time is not known."""
        return _total(self.before), _total(self.after)

    @property
    def change(self) -> float | None:
        """After less before, s."""
        before, after = self.times
        return None if before is None or after is None else after - before

    @property
    def is_clear(self) -> bool:
        """Whether the two intervals have nothing in common (sums of ends: wider than the interval of the sum)."""
        first, second = _ends(self.before), _ends(self.after)
        return first is not None and second is not None and (first[1] < second[0] or second[1] < first[0])


def _total(layers: Sequence[Layer]) -> float | None:
    times = [layer.time for layer in layers if layer.kind != "eliminated"]
    known = [time for time in times if time is not None and math.isfinite(time)]
    return sum(known) if len(known) == len(times) else None


def _ends(layers: Sequence[Layer]) -> tuple[float, float] | None:
    """Where the sum lies; None where a layer has no interval."""
    timed = [layer for layer in layers if layer.kind != "eliminated"]
    lows = [layer.low for layer in timed if layer.low is not None]
    highs = [layer.high for layer in timed if layer.high is not None]
    return (sum(lows), sum(highs)) if len(lows) == len(highs) == len(timed) else None


def pair_layers(before: Run, after: Run) -> list[Pair]:
    """The work of both runs, the largest change first; layers that share no operator with the other run stand alone."""
    owners: dict[object, int] = {}
    parents: list[int] = []
    members: list[tuple[int, Layer]] = [
        (side, layer) for side, run in enumerate((before, after)) for layer in run.layers
    ]

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    for index, (_, layer) in enumerate(members):
        parents.append(index)
        # An overhead has no operators; the same name in both runs is the same overhead.
        keys = [("overhead", layer.name)] if layer.kind == "overhead" else [*layer.nodes] or [layer.name]
        for key in keys:
            parents[root(index)] = root(owners.setdefault(key, index))
    sets: dict[int, tuple[list[Layer], list[Layer]]] = {}
    for index, (side, layer) in enumerate(members):
        sets.setdefault(root(index), ([], []))[side].append(layer)
    pairs = [_pair(*found) for found in sets.values()]
    return sorted(pairs, key=lambda pair: (pair.change is None, -abs(pair.change or 0.0)))


def _pair(before: list[Layer], after: list[Layer]) -> Pair:
    chief = max([*before, *after], key=lambda layer: (layer.kind == "operator", layer.time or 0.0))
    return Pair(name=chief.name, op=chief.op, kind=chief.kind, before=tuple(before), after=tuple(after))


def are_alike(before: Run, after: Run) -> bool:
    """Whether the two runs have operators with the same names, without which nothing can be paired."""
    names = [
        {node for layer in run.layers if layer.kind != "overhead" for node in layer.nodes} for run in (before, after)
    ]
    return bool(names[0] & names[1])


def diff_table(runs: Sequence[Run], *, most: int | None = MOST_ROWS) -> Table | None:
    """What changed from the first of two runs to the second; None unless they are two profiles of like models.

    Args:
        most: rows; the others are folded into one. None shows all.
    """
    profiled = [run for run in runs if run.profile is not None]
    if len(profiled) != BEFORE_AND_AFTER or not are_alike(*profiled):
        return None
    pairs = [pair for pair in pair_layers(*profiled) if pair.change != 0 or pair.kind != "eliminated"]
    shown = pairs if most is None or len(pairs) <= most + 1 else pairs[:most]
    rows = [_row(pair) for pair in shown]
    if rest := pairs[len(shown) :]:
        rows.append(_rest_row(rest))
    rows.append(_whole_row(*profiled))
    columns = (
        Column(title="Layer"),
        Column(title="Op", rank=3),
        Column(title="Before (µs)", numeric=True),
        Column(title="After (µs)", numeric=True),
        Column(title="Change (µs)", numeric=True),
        Column(title="Ratio", numeric=True, rank=2),
        Column(title="Verdict", rank=1),
    )
    notes = ("a row is work that both runs do, however they fuse it; unclear: the intervals overlap or are not known",)
    title = "Before and after: {} → {}".format(*labels_of(profiled))
    return Table(title=title, columns=columns, rows=tuple(rows), notes=notes)


def _row(pair: Pair) -> tuple[Cell, ...]:
    before, after = pair.times
    names = one_line(pair.name)
    return (
        Cell(text=names, tone="fair" if pair.kind == "overhead" else "plain"),
        Cell(text=one_line(pair.op)),
        _micro(before, pair.before),
        _micro(after, pair.after),
        _change(pair.change),
        _ratio(before, after),
        _verdict(pair),
    )


def _micro(seconds: float | None, layers: Sequence[Layer]) -> Cell:
    if seconds is None:
        reasons = dict.fromkeys(
            one_line(layer.time_absent_because or "not measured") for layer in layers if layer.time is None
        )
        return Cell(text="n/a", notes=tuple(reasons), tone="faint")
    if not layers:
        return Cell(text="none", tone="faint", value=0.0)
    names = ", ".join(one_line(layer.name) for layer in layers)
    notes = (f"{len(layers)} steps: {names}",) if len(layers) > 1 else ()
    return Cell(text=significant(seconds * 1e6), value=seconds * 1e6, notes=notes)


def _change(seconds: float | None) -> Cell:
    if seconds is None:
        return Cell(text="n/a", notes=("one of the two times is not known",), tone="faint")
    return Cell(text=f"{'+' if seconds > 0 else ''}{significant(seconds * 1e6)}", value=seconds * 1e6)


def _ratio(before: float | None, after: float | None) -> Cell:
    if not before or after is None:
        return Cell(text="–", tone="faint")
    return Cell(text=significant(after / before), value=after / before)


def _verdict(pair: Pair) -> Cell:
    change = pair.change
    if change is None or not pair.is_clear:
        return Cell(text="unclear" if change is not None else "–", tone="faint")
    return Cell(text="faster", tone="good") if change < 0 else Cell(text="slower", tone="bad")


def _rest_row(rest: Sequence[Pair]) -> tuple[Cell, ...]:
    sums = [sum(pair.times[side] or 0.0 for pair in rest) for side in (0, 1)]
    title = Cell(text=f"… {len(rest)} more with smaller changes")
    dash = Cell(text="–", tone="faint")
    values = [Cell(text=significant(each * 1e6), value=each * 1e6) for each in sums]
    return (title, dash, *values, _change(sums[1] - sums[0]), dash, dash)


def _whole_row(before: Run, after: Run) -> tuple[Cell, ...]:
    ends = [run.value("latency") or math.nan for run in (before, after)]
    dash = Cell(text="–", tone="faint")
    values = [Cell(text=significant(each * 1e6), value=each * 1e6) for each in ends]
    return (
        Cell(text="end to end"),
        dash,
        *values,
        _change(ends[1] - ends[0]),
        _ratio(*ends),
        _whole_verdict(before, after),
    )


def _whole_verdict(before: Run, after: Run) -> Cell:
    rows = [run.measurement("latency") for run in (before, after)]
    ends = [(row.low, row.high) for row in rows if row is not None and row.low is not None and row.high is not None]
    if len(ends) != BEFORE_AND_AFTER:
        return Cell(text="–", tone="faint")
    (first_low, first_high), (second_low, second_high) = ends
    if second_high is not None and first_low is not None and second_high < first_low:
        return Cell(text="faster", tone="good")
    if first_high is not None and second_low is not None and first_high < second_low:
        return Cell(text="slower", tone="bad")
    return Cell(text="unclear", tone="faint")
