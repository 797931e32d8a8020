"""Finds the parts of an int8 file that would be faster in float, by the times of layers that an engine measured.

A part pays where what its layers save in float is more than the conversions at its borders cost. Both come from
profiles of the float file and of the int8 file in the same engine. Which layers to leave in float is the cheapest cut
between float and int8: each layer costs its time in the type it has, and each tensor between layers of different types
a conversion (Greig, Porteous and Seheult, Exact maximum a posteriori estimation for binary images, 1989).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from edgewise.comparing.criteria import THRESHOLD
from edgewise.errors import EdgewiseError
from edgewise.optimizing.variant import Prediction
from edgewise.profiling.layer_matching import LayerPair, pair_layers, spread_of, total
from edgewise.profiling.quantisation import is_conversion, takes_integers
from edgewise.progress import reporting_to
from edgewise.record import Job, Run, Stopping
from edgewise.run.dispatch import Dispatcher
from edgewise.run.plan import Plan
from edgewise.run.run_builder import METERS_OFF
from edgewise.text import enumerate_few
from edgewise.units import format_quantity

LEAST_S, MOST_S = 10.0, 60.0
"""Least and most time for the two profiles, s."""
_SESSIONS, _SESSION_S = 2, 1.0
_LONGEST = 40
"""Characters of a layer's name in a sentence; the provenance of the file has all of them."""
_FLOAT_SIDE, _INT8_SIDE = -1, -2
"""The two ends of the cut: what is float, or int8, in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Layers of an int8 file that would be faster in float.

    Attributes:
        layers: names of the float file's operators.
        names: of those parts' main layers, for sentences.
        saving: time that the file would save, conversions at the borders counted, s.
        noise: half-width of its interval, s.
        before, after: latency of the float file and of the int8 file, s.
    """

    layers: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    saving: float = 0.0
    noise: float = 0.0
    before: float
    after: float

    @property
    def pays(self) -> bool:
        """Whether a race could prove what it saves."""
        return self.saving > THRESHOLD * self.after

    @property
    def prediction(self) -> Prediction:
        """What the file would gain over the float file; without an interval, as the error of prices is not known."""
        return Prediction(
            speedup=self.before / (self.after - self.saving),
            because=f"{enumerate_few([_shown(name) for name in self.names])} in float, where int8 takes "
            f"{format_quantity(self.saving, 's')} of {format_quantity(self.after, 's')} more, conversions counted",
            method="the int8 file's profile less what the float file's saves; conversions at new borders cost what "
            "those of the int8 file cost per element",
        )


def profile_both(before: Job, after: Job, *, left: float) -> tuple[Run, Run] | None:
    """Time the layers of the float and the int8 file. None where there are none, or no time is left.

    Args:
        left: time limit of both, s.
    """
    if left < LEAST_S:
        return None
    stopping = Stopping(sessions=_SESSIONS, max_s=_SESSION_S, min_s=0.1)
    jobs = tuple(
        replace(job, workload=replace(job.workload, profile=True, stopping=stopping)) for job in (before, after)
    )
    dispatcher = Dispatcher(save=lambda run: None, sensors=METERS_OFF, find_peaks=_find_no_peaks)
    try:
        with reporting_to(lambda event: None):
            one, other = dispatcher.execute(Plan(jobs=jobs), budget_s=min(left, MOST_S))
    except EdgewiseError:
        return None
    return (one, other) if all(run.layers and run.value("latency") for run in (one, other)) else None


def _shown(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _find_no_peaks(*_: object, **__: object) -> tuple[tuple[()], str]:
    return (), "not needed"


def find_placement(before: Run, after: Run) -> Placement:
    """Return the layers of `after` that would be faster in float.

    Args:
        before, after: profiles of the float file and of the int8 file.
    """
    network = _Network.of(before, after)
    kept: set[int] = set()
    saving, variance, shift = 0.0, 0.0, 0.0
    # The parts that pay most come first, as each is judged beside those that are kept already.
    for part in sorted(network.parts(network.cut()), key=lambda one: network.cost(one) - network.cost(set())):
        saved = network.cost(kept) - network.cost(kept | part)
        spread, drift = network.noise(part)
        if saved > spread + drift:
            kept |= part
            saving, variance, shift = saving + saved, variance + spread**2, shift + drift
    if len(kept) == len(network.costs):  # that is the float file
        kept, saving, variance, shift = set(), 0.0, 0.0, 0.0
    pairs = [network.pairs[at] for at in sorted(kept)]
    return Placement(
        layers=tuple(dict.fromkeys(name for pair in pairs for layer in pair.before for name in layer.nodes)),
        names=tuple(pair.name for pair in sorted(pairs, key=lambda pair: -(pair.change or 0.0))),
        saving=saving,
        noise=math.sqrt(variance) + shift,
        before=before.value("latency") or 0.0,
        after=after.value("latency") or 0.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Network:
    """Work of both files as nodes, with the tensors between them.

    Attributes:
        costs: node → time in float and in int8 without conversions, s; only of nodes that may have either type.
        links: two nodes, or a node and an end of the cut → price of a conversion between them, s.
    """

    pairs: Sequence[LayerPair]
    costs: Mapping[int, tuple[float, float]]
    links: Mapping[tuple[int, int], float]

    @classmethod
    def of(cls, before: Run, after: Run) -> _Network:
        pairs = [pair for pair in pair_layers(before, after) if pair.kind == "operator" and pair.before]
        costs: dict[int, tuple[float, float]] = {}
        for at, pair in enumerate(pairs):
            if not _is_float(pair):
                # What an engine merges or leaves out follows its neighbours, at no cost of its own.
                inside = total(layer for layer in pair.after if not is_conversion(layer))
                costs[at] = (total(pair.before) or 0.0, inside or 0.0)
        links, unknown = _find_links(pairs, _price_per_element(after))
        stuck = {at: (math.inf, costs[at][1]) for at in unknown & costs.keys()}
        return cls(pairs=pairs, costs=costs | stuck, links=links)

    def cost(self, floats: Set[int]) -> float:
        """Time of everything that may differ where the nodes `floats` are float and the other int8 ones int8, s."""

        def is_float(at: int) -> bool:
            return at in floats or at not in self.costs

        own = sum(times[0] if at in floats else times[1] for at, times in self.costs.items())
        return own + sum(price for (one, other), price in self.links.items() if is_float(one) != is_float(other))

    def noise(self, part: Set[int]) -> tuple[float, float]:
        """Half-width of the interval of the times of `part`, and what the machine's drift may have added to it, s."""
        layers = [layer for at in part for layer in (*self.pairs[at].before, *self.pairs[at].after)]
        drifts = [self.pairs[at].drift for at in part]
        slowed = max((math.inf if drift is None else 1.0 - drift[0] for drift in drifts), default=0.0)
        return spread_of(layers), slowed * sum(self.costs[at][1] for at in part)

    def parts(self, floats: Set[int]) -> list[set[int]]:
        """Return the nodes `floats` in connected parts."""
        left, found = set(floats), []
        near: dict[int, set[int]] = {at: set() for at in floats}
        for one, other in self.links:
            if one in left and other in left:
                near[one].add(other)
                near[other].add(one)
        while left:
            part, wanted = set(), [min(left)]
            while wanted:
                at = wanted.pop()
                if at in left:
                    left.remove(at)
                    part.add(at)
                    wanted += near[at]
            found.append(part)
        return found

    def cut(self) -> set[int]:
        """Return the nodes that are float in the cheapest placement."""
        rooms: dict[int, dict[int, float]] = {_FLOAT_SIDE: {}, _INT8_SIDE: {}}

        def join(one: int, other: int, there: float, back: float) -> None:
            for start, end, room in ((one, other, there), (other, one, back)):
                ways = rooms.setdefault(start, {})
                ways[end] = ways.get(end, 0.0) + room

        for at, (in_float, in_int8) in self.costs.items():
            join(_FLOAT_SIDE, at, in_int8, 0.0)
            join(at, _INT8_SIDE, in_float, 0.0)
        for pair, price in self.links.items():
            # Nodes that are float in both files are one with the end.
            one, other = (at if at in self.costs else _FLOAT_SIDE for at in pair)
            if one != other:
                join(one, other, price, price)
        return _reach(rooms) - {_FLOAT_SIDE}


def _reach(rooms: dict[int, dict[int, float]]) -> set[int]:
    """Fill the ways from the float end to the int8 end, and return what is still reached from the float end.

    The shortest way first (Edmonds and Karp, 1972), so that it ends for any numbers.
    """
    while True:
        origins = {_FLOAT_SIDE: _FLOAT_SIDE}
        wanted = deque([_FLOAT_SIDE])
        while wanted and _INT8_SIDE not in origins:
            at = wanted.popleft()
            for end, room in rooms[at].items():
                if room > 0.0 and end not in origins:
                    origins[end] = at
                    wanted.append(end)
        if _INT8_SIDE not in origins:
            return set(origins)
        way, at = [], _INT8_SIDE
        while at != _FLOAT_SIDE:
            way.append((origins[at], at))
            at = origins[at]
        room = min(rooms[start][end] for start, end in way)
        for start, end in way:
            rooms[start][end] -= room
            rooms[end][start] += room


def _is_float(pair: LayerPair) -> bool:
    """Whether the int8 file computes it, but not in integers of 8 bits, or the float file already does in them."""
    others = [layer for layer in pair.after if layer.kind == "operator" and layer.time and not is_conversion(layer)]
    is_float = bool(others) and not any(map(takes_integers, others))
    return is_float or any(map(takes_integers, pair.before))


def _price_per_element(after: Run) -> float | None:
    """Time that an element costs at a border between float and int8, changes of layout counted, s.

    From all borders that the int8 file has; None where none of them is known.
    """
    spent = sum(layer.time or 0.0 for layer in after.layers if is_conversion(layer) or layer.op == "change of layout")
    converted = [layer for layer in after.layers if is_conversion(layer) and layer.time is not None and layer.inputs]
    elements = sum(_count(layer.inputs[0].shape) or 0 for layer in converted)
    return spent / elements if elements else None


def _find_links(pairs: Sequence[LayerPair], price: float | None) -> tuple[dict[tuple[int, int], float], set[int]]:
    """Return what a conversion costs between nodes that share a tensor, and nodes for which that is not known.

    The network's own inputs and outputs are float.
    """
    makers: dict[str, int] = {}
    takers: dict[str, set[int]] = {}
    sizes: dict[str, int | None] = {}
    for at, pair in enumerate(pairs):
        for layer in pair.before:
            for tensor in (*layer.inputs, *layer.outputs):
                sizes[tensor.name] = _count(tensor.shape)
            makers.update((tensor.name, at) for tensor in layer.outputs)
            for tensor in layer.inputs:
                takers.setdefault(tensor.name, set()).add(at)
    found: dict[tuple[int, int], float] = {}
    unknown: set[int] = set()
    for name, size in sizes.items():
        maker = makers.get(name, _FLOAT_SIDE)
        for taker in takers.get(name, {_FLOAT_SIDE}) - {maker}:
            if size is None or price is None:
                unknown |= {maker, taker}
            else:
                found[maker, taker] = found.get((maker, taker), 0.0) + price * size
    return found, unknown


def _count(shape: Sequence[int | str | None] | None) -> int | None:
    """Return the number of elements; None where a size is open."""
    sizes = [size for size in shape or () if isinstance(size, int)]
    return None if shape is None or len(sizes) < len(shape) else math.prod(sizes)
