"""Which layers of two profiles do the same work, be it one operator in one run and a chain of operators in the other.

Layers that execute operators of the same name belong together. Quantisation renames operators. So layers that make a
tensor of the same name belong together too, then products whose multiplications agree in number and order. Steps that a
quantised model has around its products (`edgewise.profiling.quantisation`) go with them. What is left stands alone. The
time of a set is the sum of its layers' times, and nothing is counted twice.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgewise.profiling.quantisation import find_wrapping
from edgewise.record import Layer, Run

_SUFFIX = "_quant"
"""What ONNX Runtime's quantiser puts behind the name of an operator."""
LOADED, NEAR = 1.2, 1.1
"""The machine's speed between two runs matters beyond the first factor; a layer's factor is that speed, or 1, within
the second."""
LEAST_BOUND = 0.01
"""Bounds that add a smaller part to a sum of times leave it a value."""
_ALIKE = 0.01
"""How far the multiplications of two runs may be apart (paddings, strides) and still be the same work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPair:
    """The layers of two runs that do the same work.

    Attributes:
        name: of the layer in it that takes the most time.
        before, after: layers of the first and the second run; empty where a run has none for this work.
        is_reliable: neither latency has the lowest grade, or turns tell their ratio.
        drift: `drift_between` the runs.
        is_one_engine: `have_one_engine` of the runs.
    """

    name: str
    op: str
    kind: str
    before: tuple[Layer, ...]
    after: tuple[Layer, ...]
    is_reliable: bool = True
    drift: tuple[float, float] | None = (1.0, 1.0)
    is_one_engine: bool = False

    @property
    def times(self) -> tuple[float | None, float | None]:
        """Sums, s; 0 where a run does nothing for it, None where a time is not known."""
        return total(self.before), total(self.after)

    @property
    def change(self) -> float | None:
        """After less before, s."""
        before, after = self.times
        return None if before is None or after is None else after - before

    @property
    def change_ends(self) -> tuple[float | None, float | None]:
        """The least and the largest change that the intervals of both sides allow, s; None where one is not known."""
        before, after = ends(self.before), self._ends_after()
        return (None, None) if before is None or after is None else (after[0] - before[1], after[1] - before[0])

    @property
    def is_clear(self) -> bool:
        """Whether the two intervals have nothing in common (sums of ends: wider than the interval of the sum)."""
        first, second = ends(self.before), self._ends_after()
        return first is not None and second is not None and (first[1] < second[0] or second[1] < first[0])

    def _ends_after(self) -> tuple[float, float] | None:
        """Where the time of the second run lies at the time of the first, s."""
        found = ends(self.after)
        return None if found is None or self.drift is None else (found[0] * self.drift[0], found[1] * self.drift[1])

    @property
    def is_of_load(self) -> bool:
        """Whether the machine's speed between two models' runs changed a layer of both: no change of the model did."""
        before, after = self.times
        if not self.is_one_engine or self.drift is None or not self.is_alike or not before or not after:
            return False
        low, high = self.drift
        return (
            max(high, 1.0 / low if low else math.inf) > LOADED
            and low / NEAR <= before / after <= high * NEAR
            and (max(after / before, before / after) > NEAR)
        )

    @property
    def is_bounded(self) -> bool:
        """Whether a time in it is only known to be below a bound: its change has ends, but no value of its own."""
        return has_bound(self.before) or has_bound(self.after)

    @property
    def is_paired(self) -> bool:
        """Whether both runs have layers for it."""
        return bool(self.before and self.after)

    @property
    def is_added_or_removed(self) -> bool:
        """Whether only one of two models has these operators: their whole time is the change."""
        alone = (*self.before, *self.after)
        is_named = self.kind == "operator" and all(layer.nodes for layer in alone)
        return self.is_one_engine and not self.is_paired and is_named

    @property
    def is_counted(self) -> bool:
        """Whether all its multiplications are known."""
        return all(layer.macs is not None for layer in (*self.before, *self.after) if layer.kind == "operator")

    @property
    def is_alike(self) -> bool:
        """Whether both do the same multiplications; else part of the work is in other layers of one run."""
        first, second = macs_of(self.before), macs_of(self.after)
        return self.is_paired and abs(first - second) <= _ALIKE * max(first, second)


def join_pairs(pairs: Sequence[LayerPair]) -> LayerPair:
    """`pairs` as one piece of work."""
    before = tuple(layer for pair in pairs for layer in pair.before)
    return replace(pairs[0], kind="operator", before=before, after=tuple(one for pair in pairs for one in pair.after))


def total(layers: Iterable[Layer]) -> float | None:
    """Sum of the times, s; None where one is not known."""
    # An operator that was not matched was computed all the same, by a step that could not be told.
    times = [layer.time for layer in layers if layer.kind != "eliminated"]
    known = [time for time in times if time is not None and math.isfinite(time)]
    return sum(known) if len(known) == len(times) else None


def has_bound(layers: Iterable[Layer]) -> bool:
    """Whether the sum of their times is only bounded: those that are may add more than `LEAST_BOUND` to the others."""
    bounded = rest = 0.0
    for layer in layers:
        bounded += (layer.high or 0.0) if layer.is_bounded else 0.0
        rest += 0.0 if layer.is_bounded else layer.time or 0.0
    return bounded > LEAST_BOUND * rest


def ends(layers: Iterable[Layer]) -> tuple[float, float] | None:
    """Where the sum lies, s; None where a layer has no interval."""
    timed = [layer for layer in layers if layer.kind != "eliminated"]
    lows = [layer.low for layer in timed if layer.low is not None]
    highs = [layer.high for layer in timed if layer.high is not None]
    return (sum(lows), sum(highs)) if len(lows) == len(highs) == len(timed) else None


def spread_of(layers: Iterable[Layer]) -> float:
    """Half-width of the interval of a sum or difference, s; each layer's is a part of its own."""
    return math.hypot(*(max(layer.high - layer.time, layer.time - layer.low) for layer in layers
                        if layer.time is not None and layer.low is not None and layer.high is not None))  # fmt: skip


def macs_of(layers: Iterable[Layer]) -> int:
    """Multiplications of the layers as far as they are known."""
    return sum(layer.macs or 0 for layer in layers)


def are_alike(before: Run, after: Run) -> bool:
    """Whether the two runs have work in common that can be told."""
    return any(
        any(layer.kind != "overhead" for layer in pair.before) and pair.is_paired for pair in pair_layers(before, after)
    )


def are_reliable(*runs: Run) -> bool:
    """Whether a verdict may rest on the latencies of `runs`: none of them has grade D."""
    return all(run.trust is None or run.trust.grade != "D" for run in runs)


def have_one_engine(before: Run, after: Run) -> bool:
    """Whether one engine ran two models with the same settings on one device, and all its operators are known.

    Then work that only one run has is no fusion: its operators are in one model alone.
    """
    one, two = before.job, after.job
    versions = {run.effective.get("engine_version") for run in (before, after)}
    is_same = one.runtime == two.runtime and one.target == two.target and len(versions) == 1 and not one.command
    operators = [layer for run in (before, after) for layer in run.layers if layer.kind == "operator"]
    return is_same and one.model.sha256 != two.model.sha256 and all(layer.nodes for layer in operators)


def drift_between(before: Run, after: Run) -> tuple[float, float] | None:
    """Return what the machine's drift between two runs may have changed: factors, around 1, for the times of the
    second one.

    Layers are scaled to the latency of their own run. Where both runs took turns, the factors take in 1 and the ratio
    of the turns, with its interval, over the quotient of the latencies; otherwise they are that quotient's own
    interval. None where that has none.
    """
    first, second = before.measurement("latency"), after.measurement("latency")
    if first is None or second is None or not first.value or not second.value:
        return None
    turns, quotient = after.turns_against(before), second.value / first.value
    low, high = (turns.low, turns.high) if turns is not None else (None, None)
    if turns is None and first.low and first.high and second.low and second.high:
        low, high = second.low / first.high, second.high / first.low
    return None if low is None or high is None else (min(1.0, low / quotient), max(1.0, high / quotient))


def speed_between(before: Run, after: Run) -> float | None:
    """Return by what factor the second run's own latency is longer against the first's than their turns found.

    None where they took no turns.
    """
    turns, first, second = after.turns_against(before), before.value("latency"), after.value("latency")
    return second / first / turns.ratio if turns is not None and turns.ratio and first and second else None


def pair_layers(before: Run, after: Run) -> list[LayerPair]:
    """Return the work of both runs, the largest change first, but last where the load of the machine explains it;
    layers that share no work with the other run stand alone.
    """
    sets = _LayerSets([(side, layer) for side, run in enumerate((before, after)) for layer in run.layers])
    sets.join_by_name()
    sets.join_wrapping()
    sets.join_by_tensor()
    sets.join_by_order()
    facts: dict[str, Any] = {
        "is_reliable": after.turns_against(before) is not None or are_reliable(before, after),
        "drift": drift_between(before, after),
        "is_one_engine": have_one_engine(before, after),
    }  # fmt: skip
    pairs = [replace(_pair(*found), **facts) for found in sets.found()]
    return sorted(pairs, key=lambda pair: (pair.change is None, pair.is_of_load, -abs(pair.change or 0.0)))


def _pair(before: list[Layer], after: list[Layer]) -> LayerPair:
    chief = max([*before, *after], key=lambda layer: (layer.kind == "operator", layer.time or 0.0))
    return LayerPair(name=chief.title, op=chief.op, kind=chief.kind, before=tuple(before), after=tuple(after))


class _LayerSets:
    """Layers of two runs, in growing sets.

    Attributes:
        members: side and layer, the first run's first, in the order of execution.
    """

    def __init__(self, members: Sequence[tuple[int, Layer]]) -> None:
        self.members = members
        self._parents = list(range(len(members)))

    def _root(self, index: int) -> int:
        while self._parents[index] != index:
            self._parents[index] = self._parents[self._parents[index]]
            index = self._parents[index]
        return index

    def _join(self, one: int, other: int) -> None:
        self._parents[self._root(one)] = self._root(other)

    def groups(self) -> list[list[int]]:
        """Return indices of the members of each set."""
        found: dict[int, list[int]] = {}
        for index in range(len(self.members)):
            found.setdefault(self._root(index), []).append(index)
        return list(found.values())

    def found(self) -> list[tuple[list[Layer], list[Layer]]]:
        """Return the layers of each set, per side."""
        found = [[self.members[at] for at in group] for group in self.groups()]
        return [
            ([layer for side, layer in each if side == 0], [layer for side, layer in each if side == 1])
            for each in found
        ]

    def join_by_name(self) -> None:
        """Layers that execute an operator of the same name."""
        owners: dict[tuple[bool, str], int] = {}
        for index, (_, layer) in enumerate(self.members):
            # An overhead has no operators; the same name in both runs is the same overhead.
            is_overhead = layer.kind == "overhead"
            names = [layer.name] if is_overhead or not layer.nodes else [*layer.nodes]
            for name in dict.fromkeys([*names, *(each.removesuffix(_SUFFIX) for each in names)]):
                self._join(index, owners.setdefault((is_overhead, name), index))

    def join_wrapping(self) -> None:
        """Join steps that exist for the sake of quantised products with those products."""
        for side in (0, 1):
            places = [index for index, (own, _) in enumerate(self.members) if own == side]
            for at, partners in find_wrapping([self.members[index][1] for index in places]).items():
                for partner in partners:
                    self._join(places[at], places[partner])

    def join_by_tensor(self) -> None:
        """Join sets of both sides that make the same tensor."""
        makers: tuple[dict[str, int], dict[str, int]] = ({}, {})
        for index, (side, layer) in enumerate(self.members):
            if layer.kind == "operator":
                makers[side].update((tensor.name, index) for tensor in layer.outputs)
        alone = {index for group in self.groups() if not self._is_whole(group) for index in group}
        for name in makers[0].keys() & makers[1].keys():
            if {makers[0][name], makers[1][name]} & alone:
                self._join(makers[0][name], makers[1][name])

    def join_by_order(self) -> None:
        """Join sets with multiplications in order, where the sides have as many of them."""
        sides: tuple[list[list[int]], list[list[int]]] = ([], [])
        for group in self.groups():
            counts = [macs_of(self.members[at][1] for at in group if self.members[at][0] == side) for side in (0, 1)]
            if counts[0] and not counts[1]:
                sides[0].append(group)
            elif counts[1] and not counts[0]:
                sides[1].append(group)
        work = [[self._work(group, side) for group in sides[side]] for side in (0, 1)]
        numbers = [Counter(macs for _, macs in work[side]) for side in (0, 1)]
        # Of each number as many on either side, or which is whose can't be told.
        order = [
            sorted((place, at) for at, (place, macs) in enumerate(work[side]) if numbers[0][macs] == numbers[1][macs])
            for side in (0, 1)
        ]
        if [work[0][at][1] for _, at in order[0]] == [work[1][at][1] for _, at in order[1]]:
            for (_, one), (_, other) in zip(*order, strict=True):
                self._join(sides[0][one][0], sides[1][other][0])

    def _work(self, group: Sequence[int], side: int) -> tuple[int, int]:
        """Place of its first product in the order of execution, and the multiplications of all."""
        own = [self.members[at][1] for at in group if self.members[at][0] == side]
        return min(layer.index for layer in own if layer.macs), macs_of(own)

    def _is_whole(self, group: Sequence[int]) -> bool:
        return len({self.members[at][0] for at in group}) > 1
