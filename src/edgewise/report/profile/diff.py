"""Two profiled runs side by side: what of the model became faster or slower, or which work is faster in which engine.

Engines fuse differently and quantisation splits operators, so rows are not layers: they are the smallest sets of layers
that do the same work in both runs (`edgewise.profiling.layer_matching`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from edgewise.formatting import plus_minus, ratio_text
from edgewise.profiling.layer_matching import (
    LayerPair,
    are_alike,
    are_reliable,
    drift_between,
    ends,
    has_bound,
    join_pairs,
    pair_layers,
)
from edgewise.record import Layer, Run
from edgewise.report.document import DASH, Cell, Column, Table, Tone, absent
from edgewise.report.profile.cells import (
    ELSEWHERE,
    FUSED_NOTE,
    OVERHEADS,
    by_type,
    how_times,
    layers_of,
    seconds_of,
    sum_ends,
    total_cell,
)
from edgewise.report.profile.findings import BEFORE_AND_AFTER
from edgewise.report.profile.order import NOT_PROVEN, are_on_one_machine, compared_by_layer, verdict_of, why_probably
from edgewise.report.runs.conditions import are_alternatives, differ_in_engine, labels_of, provider_of, threads_words
from edgewise.report.runs.provenance import provenance_of_column
from edgewise.text import one_line
from edgewise.units import significant

MOST_ROWS = 20
BEFORE_AFTER = ["Before", "After"]
Ends = tuple[float | None, float | None]


def diff_tables(runs: Sequence[Run], *, most: int | None = MOST_ROWS) -> list[Table]:
    """Two profiles of like models by type of operator and by layer, of every engine that ran both of two files; empty
    for other runs. Args as of `diff_table`.
    """
    found = []
    for engine, pair in compared_by_layer(runs):
        if (by_layer := diff_table(pair, most=most)) is not None:
            types = _types_table(*(run for run in pair if run.profile is not None))
            found += [
                replace(each, title=each.title if engine in each.title else f"{each.title} ({engine})")
                for each in (types, by_layer)
            ]
    return found


def _types_table(first: Run, second: Run) -> Table:
    """Return the time of each type of operator, and of the engines' own work, in two runs; the longest first."""
    names, change, _ = headings_of_two(first, second)
    sides = [by_type(layers_of(run, "operator")) | {OVERHEADS: layers_of(run, "overhead")} for run in (first, second)]
    pairs = [
        LayerPair(
            name=op, op=op, kind="operator", before=tuple(sides[0].get(op, ())), after=tuple(sides[1].get(op, ()))
        )
        for op in dict.fromkeys(op for side in sides for op, layers in side.items() if layers)
    ]
    pairs.sort(key=lambda pair: (pair.name == OVERHEADS, -seconds_of((*pair.before, *pair.after))))
    columns = (
        Column(title="Type of operator", name=True),
        *_time_columns((first, second), names),
        Column(title=f"{change} (µs)", numeric=True, how=_HOW_CHANGE),
    )
    fused = any(len(layer.nodes) > 1 for run in (first, second) for layer in run.layers)
    return Table(
        title=f"By type of operator: {_title_of_two(first, second).partition(': ')[2]}",
        columns=columns,
        rows=tuple((Cell(text=pair.name), *_sums_or_none(pair), change_of_sums(pair)) for pair in pairs),
        notes=(FUSED_NOTE,) if fused else (),
    )


def _sums_or_none(pair: LayerPair) -> list[Cell]:
    sides = (pair.before, pair.after)
    return [total_cell(layers, 1e6) if layers else Cell(text="none", tone="faint", value=0.0) for layers in sides]


def change_of_sums(pair: LayerPair) -> Cell:
    """Return the change of the sums as they stand in the row (µs), without intervals."""
    if None in pair.times:
        return _change(None)
    (least, most), (low, high) = sum_ends(pair.before), sum_ends(pair.after)
    low, high = low - most, high - least
    if low == high:
        return _change(low)
    return Cell(text=f"{signed_micros(low)} to {signed_micros(high)}", low=low * 1e6, high=high * 1e6)


def _time_columns(runs: Sequence[Run], names: Sequence[str], *, interval: str = ELSEWHERE) -> list[Column]:
    return [
        Column(title=f"{name} (µs)", numeric=True, how=how_times(run, title=f"Time: {name}", interval=interval))
        for name, run in zip(names, runs, strict=True)
    ]


def _title_of_two(first: Run, second: Run) -> str:
    title = "{}: {} | {}" if are_alternatives(first, second) else "{}: {} → {}"
    return title.format(diff_title(first, second), *labels_of([first, second]))


def diff_table(runs: Sequence[Run], *, most: int | None = MOST_ROWS) -> Table | None:
    """Return what changed from the first of two runs to the second; None unless they are two profiles of like models.

    Args:
        most: rows; the others are folded into one. None shows all.
    """
    profiled = [run for run in runs if run.profile is not None]
    if len(profiled) != BEFORE_AND_AFTER or not are_alike(*profiled):
        return None
    pairs = [pair for pair in pair_layers(*profiled) if pair.change != 0 or pair.kind != "eliminated"]
    shown = pairs if most is None or len(pairs) <= most + 1 else pairs[:most]
    rows = [pair_row(pair) for pair in shown]
    if rest := pairs[len(shown) :]:
        rows.append(_rest_row(rest))
    rows += [*_rows_alone(pairs), *_whole_rows(*profiled)]
    verdicts = {verdict_cell(pair).text for pair in pairs}
    names, change, verdict = headings_of_two(*profiled)
    columns = (
        Column(title="Layer", name=True, ends=True),
        Column(title="Op", rank=3),
        *_time_columns(profiled, names, interval="beside each time that has one; of a sum that of its steps' ends"),
        Column(title=f"{change} (µs)", numeric=True, how=_HOW_CHANGE),
        Column(title="Ratio", numeric=True, rank=2, how=_HOW_CHANGE),
        Column(title=verdict, decides=True),
    )
    notes = (
        "a row is work that both runs do, however they fuse it; unclear: the intervals overlap or are not known. "
        f"A layer's time is scaled to the latency of its own run, so {_drift_words(*profiled)}",
        *((_HOW_ADDED,) if verdicts & {ADDED, REMOVED} else ()),
        *((_HOW_UNPAIRED,) if _UNPAIRED.text in verdicts else ()),
    )
    return Table(title=_title_of_two(*profiled), columns=columns, rows=tuple(rows), notes=notes)


def headings_of_two(first: Run, second: Run) -> tuple[list[str], str, str]:
    """Return what the two sides of a comparison of profiles are called, their difference, and its verdict."""
    if not are_alternatives(first, second):
        return BEFORE_AFTER, "Change", "Verdict"
    if not differ_in_engine(first, second):
        names = list(map(threads_words, (first, second)))
        return names, "Difference", f"With {names[1]}"
    names = [one_line(run.job.runtime.name) for run in (first, second)]
    if names[0] == names[1]:
        names = [provider_of(run) for run in (first, second)]
    return names, "Difference", f"{names[1]} is"


def diff_title(first: Run, second: Run) -> str:
    """Return what a comparison of two profiles shows: two engines, numbers of threads, or before and after a change."""
    if differ_in_engine(first, second):
        return "Engine against engine"
    return "Threads against threads" if are_alternatives(first, second) else "Before and after"


def _drift_words(first: Run, second: Run) -> str:
    """How the machine's drift between both runs is in the verdicts of layers."""
    if drift_between(first, second) is None:
        return "no layer is clear: the ratio of the latencies has no interval"
    if second.turns_against(first) is not None:
        return "the intervals of the second run are widened until they take in the ratio measured in turns"
    return "the intervals of the second run are widened by those of both latencies, measured at different times"


_HOW_CHANGE = partial(provenance_of_column, "Change", "derived", "from both times", "none: see the verdict of the row")


NO_ENDS = "a time in it is only below a bound, and another has no interval"
_UNPAIRED = Cell(text="unpaired", tone="faint")
_HOW_UNPAIRED = "unpaired: only one run has it, or has it in other rows; no claim is made for it"
ADDED, REMOVED = "added", "removed"
_HOW_ADDED = "added, removed: only one of the models has it, and one engine ran both, so its whole time is the change"
FASTER, SLOWER = Cell(text="faster", tone="good"), Cell(text="slower", tone="bad")
SAME, _UNCLEAR = Cell(text="same", tone="fair"), Cell(text="unclear", tone="faint")
_UNRELIABLE = Cell(
    text="unclear", tone="faint", notes=("the latency of one of the runs has grade D, and no turns tell their ratio",)
)


def pair_row(pair: LayerPair) -> tuple[Cell, ...]:
    """Name, type, time before and after (µs), change (µs), ratio and verdict."""
    before, after = pair.times
    return (
        Cell(text=one_line(pair.name), tone="fair" if pair.kind == "overhead" else "plain"),
        Cell(text=one_line(pair.op)),
        _micro(before, pair.before),
        _micro(after, pair.after),
        change_cell(pair),
        _ratio(before, after) if pair.is_paired and not pair.is_bounded else DASH,
        verdict_cell(pair),
    )


def _micro(seconds: float | None, layers: Sequence[Layer]) -> Cell:
    if seconds is None:
        reasons = dict.fromkeys(
            one_line(layer.time_absent_because or "not measured") for layer in layers if layer.time is None
        )
        return Cell(text="n/a", notes=tuple(reasons), tone="faint")
    if not layers:
        return Cell(text="none", tone="faint", value=0.0)
    if has_bound(layers):
        return total_cell(layers, 1e6)
    names = ", ".join(one_line(layer.title) for layer in layers)
    notes = (f"{len(layers)} steps: {names}",) if len(layers) > 1 else ()
    return replace(_micros(seconds, *(ends(layers) or (None, None))), notes=notes)


def _change(seconds: float | None, low: float | None = None, high: float | None = None) -> Cell:
    if seconds is None:
        return Cell(text="n/a", notes=("one of the two times is not known",), tone="faint")
    return replace(_micros(seconds, low, high), text=signed_micros(seconds), short="")


def signed_micros(seconds: float) -> str:
    """In µs; a plus before what is more."""
    return f"{'+' if seconds > 0 else ''}{significant(seconds * 1e6)}"


def change_cell(pair: LayerPair) -> Cell:
    """Return the change (µs), or its ends where a time is only known to be below a bound; none of work that is
    unpaired.
    """
    if not (pair.is_paired or pair.is_added_or_removed):
        return DASH
    if not pair.is_bounded:
        return _change(pair.change, *pair.change_ends)
    low, high = pair.change_ends
    if low is None or high is None:
        return absent(NO_ENDS)
    return Cell(text=f"{signed_micros(low)} to {signed_micros(high)}", low=low * 1e6, high=high * 1e6)


def _ratio(before: float | None, after: float | None) -> Cell:
    if not before or after is None:
        return DASH
    return Cell(text=significant(after / before), value=after / before)


def verdict_cell(pair: LayerPair) -> Cell:
    """Whether the work became faster or slower, by intervals that don't overlap; else why that is not known."""
    change = pair.change
    if pair.is_added_or_removed:
        tone: Tone = "faint" if not is_proven(pair) else "good" if pair.before else "bad"
        return Cell(text=REMOVED if pair.before else ADDED, tone=tone)
    if not pair.is_paired:
        return _UNPAIRED
    if not pair.is_reliable:
        return _UNRELIABLE
    if not pair.is_alike and not pair.is_counted:
        return Cell(text="unclear", tone="faint", notes=("not all multiplications of these rows are known",))
    if not pair.is_alike:
        return Cell(text="moved", tone="faint", notes=("part of this work is in other rows of one of the runs",))
    if change is None:
        return DASH
    if not pair.is_clear:
        return _UNCLEAR
    return FASTER if change < 0 else SLOWER


def is_proven(pair: LayerPair) -> bool:
    """Whether the work became faster or slower for sure, or takes time for sure that only one model needs."""
    if pair.is_added_or_removed:
        return pair.is_reliable and pair.is_clear
    return verdict_cell(pair) in (FASTER, SLOWER)


def _rest_row(rest: Sequence[LayerPair]) -> tuple[Cell, ...]:
    whole = join_pairs(rest)
    title = Cell(text=f"… {len(rest)} more with smaller changes")
    return title, DASH, *_sums(whole), change_cell(whole), DASH, DASH


def _sums(whole: LayerPair) -> list[Cell]:
    """Return the time of all its layers in each run (µs), as far as it is known."""
    return [total_cell(layers, 1e6) for layers in (whole.before, whole.after)]


def _micros(seconds: float, low: float | None = None, high: float | None = None) -> Cell:
    value, least, most = (None if each is None else each * 1e6 for each in (seconds, low, high))
    assert value is not None
    text, short = plus_minus(value, least, most), significant(value)
    return Cell(text=text, value=value, low=least, high=most, short=short if short != text else "")


def _rows_alone(pairs: Sequence[LayerPair]) -> list[tuple[Cell, ...]]:
    """Return the sums of the operators that only one run has; they are rows of their own too, or among the smaller
    ones. One that was added or removed needs no sum.
    """
    rows = []
    for verdict in (ADDED, REMOVED, _UNPAIRED.text):
        alone = [pair for pair in pairs if pair.kind == "operator" and verdict_cell(pair).text == verdict]
        if not alone or (len(alone) == 1 and verdict != _UNPAIRED.text):
            continue
        whole = join_pairs(alone)
        title = Cell(text=f"all {len(alone)} {verdict} operators" if len(alone) > 1 else f"the {verdict} operator")
        rows.append((title, DASH, *_sums(whole), change_cell(whole), DASH, verdict_cell(whole)))
    return rows


def whole_row(before: Run, after: Run) -> tuple[Cell, ...]:
    """Return the same of the latencies end to end."""
    rows = [run.measurement("latency") for run in (before, after)]
    sides = [_micros(row.value, row.low, row.high) if row and row.value else _micros(math.nan) for row in rows]
    ends = [run.value("latency") or math.nan for run in (before, after)]
    whole, verdict, ratio = change_of_whole(before, after), whole_verdict(before, after), _ratio(*ends)
    change = _change(None) if whole is None else _change(whole.value, whole.low, whole.high)
    if (turns := after.turns_against(before)) is not None:
        ratio = Cell(text=significant(turns.ratio), value=turns.ratio, low=turns.low, high=turns.high)
    return Cell(text="end to end"), DASH, *sides, change, ratio, verdict


def _whole_rows(before: Run, after: Run) -> list[tuple[Cell, ...]]:
    """Return `whole_row`; where turns were taken in two rows, as their ratio is not that of the times of each alone."""
    name, op, *cells = whole_row(before, after)
    if after.turns_against(before) is None:
        return [(name, op, *cells)]
    alone, turns = (Cell(text=f"{name.text}, {how}") for how in ("each alone", "in turns"))
    return [(alone, op, *cells[:2], DASH, DASH, DASH), (turns, op, DASH, DASH, *cells[2:])]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeChange:
    """How much the latency differs, by turns where both runs took them.

    Attributes:
        value, low, high: after less before with its 95 % interval, s.
        verdict: in the words of the table's last row.
    """

    value: float
    low: float | None
    high: float | None
    verdict: str
    in_turns: bool

    def share_text(self, change: float, ends: Ends = (None, None)) -> str:
        """``"76.9 [66.1, 89.5] %"``: the share that `change` (s) has in this one, as far as the ends of both allow."""
        low, high = ends
        shares: tuple[float, ...] = ()
        if low is not None and high is not None and self.low and self.high and self.low * self.high > 0:
            shares = tuple(end / whole * 100 for end in ends if end is not None for whole in (self.low, self.high))
        return f"{plus_minus(change / self.value * 100, min(shares, default=None), max(shares, default=None))} %"


def change_of_whole(before: Run, after: Run) -> WholeChange | None:
    """Return how much the latency differs; None where one is not known."""
    first, second = before.measurement("latency"), after.measurement("latency")
    if first is None or second is None or first.value is None or second.value is None:
        return None
    verdict, turns = whole_verdict(before, after).text, after.turns_against(before)
    if turns is not None:
        low, high = (None if end is None else first.value * (end - 1.0) for end in (turns.low, turns.high))
        change = first.value * (turns.ratio - 1.0)
        return WholeChange(value=change, low=low, high=high, verdict=verdict, in_turns=True)
    low = None if second.low is None or first.high is None else second.low - first.high
    high = None if second.high is None or first.low is None else second.high - first.low
    return WholeChange(value=second.value - first.value, low=low, high=high, verdict=verdict, in_turns=False)


def whole_verdict(before: Run, after: Run) -> Cell:
    """By the ratio of their turns; of runs on several machines by intervals that don't overlap."""
    if (turns := after.turns_against(before)) is not None:
        verdict, ratio = verdict_of(turns), ratio_text(turns.ratio, turns.low, turns.high)
        open_ = replace(_UNCLEAR, text=verdict) if verdict.startswith("probably") else _UNCLEAR
        cell = {"faster": FASTER, "slower": SLOWER, "same": SAME}.get(verdict, open_)
        note = (
            f"measured in turns: ratio {ratio}, and the change is the first run's own time by it; the times of turns "
            "are not kept, and the two shown are of each run alone"
        )
        return replace(cell, notes=(note, *([why_probably(turns)] if cell is open_ is not _UNCLEAR else ())))
    if are_on_one_machine([before, after]):
        return Cell(text="not proven", tone="faint", notes=(NOT_PROVEN,))
    rows = [run.measurement("latency") for run in (before, after)]
    ends = [(row.low, row.high) for row in rows if row is not None and row.low is not None and row.high is not None]
    if len(ends) != BEFORE_AND_AFTER:
        return DASH
    if not are_reliable(before, after):
        return _UNRELIABLE
    (first_low, first_high), (second_low, second_high) = ends
    if second_high < first_low:
        return FASTER
    return SLOWER if first_high < second_low else _UNCLEAR
