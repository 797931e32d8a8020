"""The drawing of a profile, or of a model without one, as data: nodes in order, their blocks, edges and values.

A node is a layer of one run, or work that two runs have in common (`edgewise.profiling.layer_matching`). A block's
value is the sum of its parts as far as they are known, beside the number of parts that lack one; a block all of whose
parts lack it has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import takewhile
from operator import mul

from edgewise.errors import BadInput
from edgewise.profiling.layer_matching import LayerPair, join_pairs, pair_layers
from edgewise.profiling.roofline import share_of_roof
from edgewise.record import Layer, Profile, Run
from edgewise.record.facts import is_profiled
from edgewise.report.profile.cells import moved_bytes, roof_reason, with_layers_told
from edgewise.report.profile.diff import BEFORE_AFTER, NO_ENDS, headings_of_two
from edgewise.text import one_line

FIRST_VISIBLE = 120
"""Blocks are unfolded, level by level, while no more nodes than these are visible …"""
FIRST_UNFOLDED = 24
"""… and no more blocks than these are unfolded: the layout of many frames takes long."""
MOST_CHILDREN = 200
"""A block with more parts is divided in the order of execution."""
MOST_NODES = 20_000
"""Operators of a model that is drawn without a profile."""
NO_SNR = "a run has no error per layer; 'edgewise optimize --sensitivity' measures it, and an optimize job shows it"
_DEEPEST = 8
_LONGEST = 300
"""Characters of a text of the model."""

Number = float | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A value of nodes.

    Attributes:
        unit: SI unit; ``1`` is a share.
        sums: how a block's value follows: ``sum``, ``max``, ``min``, or ``mean`` weighted by time.
        why: the reason why no node has it; empty where one has.
    """

    title: str
    unit: str
    sums: str = "sum"
    why: str = ""


METRICS = {
    "time": Metric(title="Time", unit="s"),
    "share": Metric(title="Share of the latency", unit="1"),
    "memory": Metric(title="Weights and activations", unit="B"),
    "live": Metric(title="Live activations", unit="B", sums="max"),
    "macs": Metric(title="MACs", unit="MAC"),
    "roof": Metric(title="Share of the roof", unit="1", sums="mean"),
}
SNR = Metric(title="Output SNR when quantised alone", unit="dB", sums="min")
OF_MODEL = {
    "macs": METRICS["macs"],
    "parameters": Metric(title="Parameters", unit=""),
    "memory": METRICS["memory"],
    "live": METRICS["live"],
    "time": METRICS["time"],
}
_TIMES = ("time", "share", "after", "change")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """A value of operators that comes from elsewhere, such as their error.

    Attributes:
        values: name of an operator → its value.
        why: name of an operator → why it has none; `absent_because` is that of all others.
    """

    metric: Metric
    values: Mapping[str, float]
    absent_because: str
    why: Mapping[str, str] = field(default_factory=dict)

    def value(self, names: Sequence[str]) -> float | None:
        """Return the worst value of these operators."""
        known = [self.values[name] for name in names if name in self.values]
        return (min if self.metric.sums == "min" else max)(known, default=None)

    def reason(self, names: Sequence[str]) -> str:
        """Why these operators have no value."""
        return next((self.why[name] for name in names if name in self.why), self.absent_because)


@dataclass(slots=True, kw_only=True)
class Block:
    """A block of nodes.

    Attributes:
        children: indices of nodes, and blocks, in the order of execution.
        is_part: it is no module but some of the many parts of one.
    """

    name: str
    is_part: bool = False
    children: list[int | Block] = field(default_factory=list)
    inside: dict[str, Block] = field(default_factory=dict)

    def add(self, path: Sequence[str], node: int) -> None:
        """Put a node into the block of `path`."""
        at = self
        for part in path:
            if part not in at.inside:
                at.inside[part] = Block(name=part)
                at.children.append(at.inside[part])
            at = at.inside[part]
        at.children.append(node)

    def settle(self) -> None:
        """Dissolve blocks of one part, and divide those of too many."""
        found = []
        for child in self.children:
            if isinstance(child, Block):
                child.settle()
                if len(child.children) == 1:
                    (only,) = child.children
                    if isinstance(only, Block):
                        only.name = f"{child.name}/{only.name}"
                    found.append(only)
                    continue
            found.append(child)
        if len(found) > MOST_CHILDREN:
            size = max(10, -(-len(found) // (MOST_CHILDREN // 2)))
            parts = [found[at : at + size] for at in range(0, len(found), size)]
            found = [Block(name=f"part {at}", is_part=True, children=part) for at, part in enumerate(parts, 1)]
        self.children = found


@dataclass(slots=True, kw_only=True)
class Graph:
    """A profile, or two, or a model that was not profiled, to draw.

    Attributes:
        runs: one, or the one before and the one after; none of a model.
        sides: the layers of each run, or those of the model.
        live: bytes of activations at each operator of the only side; empty where they are not known.
        overlays: metric → values of operators from elsewhere; none of two runs.
        pairs: the work of each node, in the order of execution; of one run each has one layer before and none after.
        parents: of each node, then of each block: the number of its block, which is `len(pairs)` plus its place in
            `blocks`; -1 at the top.
        blocks: each before the blocks inside it.
        inside: the nodes of each block, and of the blocks inside it.
        opened: numbers of the blocks that are unfolded at first.
        edges: pairs of nodes: one takes a tensor that the other makes.
        order: pairs of nodes of which one has no known tensors, and is drawn after the one executed before it.
        metrics: what nodes can be coloured by.
        values: metric → value of each node, then of each block; ``low`` and ``high`` are those of the first metric.
        lacking: metric → block → how many of its nodes should have a value and have none.
        why: metric → node → why it has no value.
    """

    runs: tuple[Run, ...]
    sides: tuple[Sequence[Layer], ...]
    pairs: list[LayerPair]
    live: Sequence[int] = ()
    overlays: Mapping[str, Overlay] = field(default_factory=dict)
    parents: list[int] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    inside: list[list[int]] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    order: list[tuple[int, int]] = field(default_factory=list)
    metrics: dict[str, Metric] = field(default_factory=dict)
    values: dict[str, list[Number]] = field(default_factory=dict)
    lacking: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    why: dict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def is_diff(self) -> bool:
        """Whether two runs are drawn."""
        return len(self.sides) > 1

    @property
    def headings(self) -> tuple[list[str], str, str]:
        """What two runs are called, after their engines or files, their difference, and its verdict."""
        names, change, verdict = headings_of_two(*self.runs)
        files = [one_line(run.job.model.name) for run in self.runs]
        return files if names == BEFORE_AFTER and files[0] != files[1] else names, change, verdict

    @property
    def works(self) -> list[LayerPair]:
        """The work of each node, then of each block as one piece of work."""
        return [*self.pairs, *(join_pairs([self.pairs[node] for node in nodes]) for nodes in self.inside)]

    def only_in(self, work: LayerPair) -> str:
        """Which of two runs alone has this work, in words; empty where both have it."""
        return "" if not self.is_diff or work.is_paired else f"only in {self.headings[0][not work.before]}"

    def unpaired(self, work: LayerPair) -> str:
        """As `only_in`, where that is no change of the model; what was added or removed is one."""
        return "" if work.is_added_or_removed else self.only_in(work)

    @property
    def profile(self) -> Profile:
        """The profile of the first run."""
        profile = self.runs[0].profile
        assert profile is not None
        return profile

    @property
    def first(self) -> str:
        """The metric that nodes are coloured by at first; it has an interval."""
        return next(iter(self.metrics))


def make_graph(runs: Sequence[Run], *, snr: Mapping[str, float] | None = None) -> Graph:
    """Return the graph of a profiled run, or of two of like models.

    Args:
        snr: operator → SNR of the network's outputs where it alone is quantised, dB.

    Raises:
        BadInput: a run without a profile; two without work in common.
    """
    runs = [_numbered(run) for run in runs]
    for run in runs:
        if not is_profiled(run):
            why = one_line(run.profile_absent_because or "it was not profiled")
            raise BadInput(f"run {run.id} has no layers: {why}", advice="profile its model, then open that run")
    if len(runs) == 1:
        runs = [with_layers_told(runs[0])]
        found = _alone(runs[0].layers)
    else:
        found = pair_layers(*runs)
        if not any(pair.is_paired and pair.kind != "overhead" for pair in found):
            raise BadInput(
                "the two runs have no layers in common", advice="compare profiles of one model, or of its variants"
            )
        found = _in_order(found)
    graph = Graph(runs=tuple(runs), sides=tuple(run.layers for run in runs), pairs=found)
    graph.live = (graph.profile.memory or {}).get("live_bytes") or ()
    if not graph.is_diff:
        absent_because = "this layer was not quantised alone" if snr else NO_SNR
        graph.overlays = {"snr": Overlay(metric=SNR, values=snr or {}, absent_because=absent_because)}
    return _filled(graph)


def make_model_graph(
    layers: Sequence[Layer], live: Sequence[int] = (), *, overlays: Mapping[str, Overlay] | None = None
) -> Graph:
    """Return the graph of a model of which no profile is known.

    Args:
        layers: its operators, in order (`edgewise.profiling.layers.layers_without_times`).
        live: bytes of activations that live at each of them.
        overlays: what nodes are coloured by first; each node by the worst of its operators.

    Raises:
        BadInput: no operators, or too many.
    """
    if not layers:
        raise BadInput("the model has no operators to draw", advice="check the file that exported it")
    if len(layers) > MOST_NODES:
        raise BadInput(
            f"the model has {len(layers):,} operators, and a graph shows at most {MOST_NODES:,}",
            advice="'edgewise inspect MODEL --json' lists them all",
        )
    return _filled(Graph(runs=(), sides=(layers,), pairs=_alone(layers), live=live, overlays=overlays or {}))


def _alone(layers: Sequence[Layer]) -> list[LayerPair]:
    return [LayerPair(name=one.title, op=one.op, kind=one.kind, before=(one,), after=()) for one in layers]


def _filled(graph: Graph) -> Graph:
    _add_blocks(graph)
    _add_edges(graph)
    _add_values(graph)
    return graph


def _numbered(run: Run) -> Run:
    """`run` with layers whose index is their place: a record that was made elsewhere may have others."""
    if all(layer.index == at for at, layer in enumerate(run.layers)):
        return run
    return replace(run, layers=tuple(replace(layer, index=at) for at, layer in enumerate(run.layers)))


def _in_order(pairs: Sequence[LayerPair]) -> list[LayerPair]:
    """Pairs as the first run executes them; what only the second has, after what it executes before."""
    places = {id(pair): (pair.before[0].index, 0) for pair in pairs if pair.before}
    last = -1
    for index, pair in sorted((layer.index, at) for at, one in enumerate(pairs) for layer in one.after):
        last = places.setdefault(id(pairs[pair]), (last, index + 1))[0]
    return sorted(pairs, key=lambda pair: places[id(pair)])


def chief_of(pair: LayerPair) -> Layer:
    """Return the layer that a node is called after."""
    return max(pair.before or pair.after, key=lambda layer: (layer.kind == "operator", layer.time or 0.0))


def short_line(text: str) -> str:
    """`text` of a model in one line of bounded length."""
    # Most names are clean: looking is faster than cleaning.
    clean = text if text.isprintable() and "  " not in text else one_line(text)
    return clean if len(clean) <= _LONGEST else f"{clean[: _LONGEST - 1]}…"


def scopes_of(name: str, types: Collection[str] = ()) -> list[str]:
    """``"a/b/conv"`` → ``["a", "b"]``: the modules that a name tells; of names joined by ``;`` the first counts.

    Args:
        types: types of the network's operators (`plain_type`). ``p2o.Conv.58`` is the 58th Conv, not part 58 of a
            module "Conv": exporters number operators by type where they know no modules.
    """
    name = name.partition(";")[0][: _LONGEST * 4]
    sign = "/" if "/" in name else "."
    head, _, last = name.rpartition(sign)
    parts = _parts(head, sign) if last.strip() else _parts(name, sign)[:-1]
    if parts and last.strip().isdecimal() and plain_type(parts[-1]) in types:
        parts = parts[:-1]
    return list(parts[:_DEEPEST])


def plain_type(op: str) -> str:
    """Return a type of operators as names are compared with it: ``DEPTHWISE_CONV_2D`` → ``depthwiseconv2d``."""
    return op.lower().replace("_", "")


@lru_cache(4096)  # most layers share their block with others
def _parts(text: str, sign: str) -> tuple[str, ...]:
    return tuple(short_line(part) for part in text.split(sign) if part.strip())


def _paths(layers: Sequence[Layer]) -> list[list[str]]:
    """Return the blocks that each layer is in. Work between two layers is in the blocks that both are in."""
    types = frozenset(plain_type(layer.op) for layer in layers if layer.kind != "overhead")
    own = [None if layer.kind == "overhead" else scopes_of(layer.title, types) for layer in layers]
    following: list[list[str]] = []
    upcoming: list[str] = []
    for path in reversed(own):
        upcoming = upcoming if path is None else path
        following.append(upcoming)
    found: list[list[str]] = []
    before: list[str] = []
    for layer, path, after in zip(layers, own, reversed(following), strict=True):
        before = before if path is None else path
        shared = [one for one, _ in takewhile(lambda two: two[0] == two[1], zip(before, after, strict=False))]
        found.append(path if path is not None else shared if layer.start is not None else [])
    return found


def _add_blocks(graph: Graph) -> None:
    root = Block(name="")
    for node, path in enumerate(_paths([chief_of(pair) for pair in graph.pairs])):
        root.add(path, node)
    root.settle()
    while len(root.children) == 1 and isinstance(root.children[0], Block):
        root = root.children[0]
    count = len(graph.pairs)
    graph.parents = [-1] * count

    def number(block: Block, own: int) -> None:
        for child in block.children:
            if isinstance(child, Block):
                graph.parents.append(own)
                graph.blocks.append(child)
                number(child, count + len(graph.blocks) - 1)
            else:
                graph.parents[child] = own

    number(root, -1)
    graph.inside = [[] for _ in graph.blocks]
    for node in range(count):
        above = graph.parents[node]
        while above >= 0:
            graph.inside[above - count].append(node)
            above = graph.parents[above]
    level, visible = [child for child in root.children if isinstance(child, Block)], len(root.children)
    places = {id(block): count + at for at, block in enumerate(graph.blocks)}
    while level and len(graph.opened) + len(level) <= FIRST_UNFOLDED:
        visible += sum(len(block.children) - 1 for block in level)
        if visible > FIRST_VISIBLE:
            break
        graph.opened += [places[id(block)] for block in level]
        level = [child for block in level for child in block.children if isinstance(child, Block)]
    _open_hottest(graph)


def _open_hottest(graph: Graph) -> None:
    """Name parts after their most expensive layers, and unfold those around the most expensive layer of all."""

    def weight(node: int) -> float:
        layers = (*graph.pairs[node].before, *graph.pairs[node].after)
        return sum((layer.time if graph.runs else layer.macs) or 0.0 for layer in layers)

    count = len(graph.pairs)
    for block, nodes in zip(graph.blocks, graph.inside, strict=True):
        if block.is_part:
            block.name = f"{block.name}: {short_line(graph.pairs[max(nodes, key=weight)].name)}"
    above = graph.parents[max(range(count), key=weight)]
    while above >= 0:
        if graph.blocks[above - count].is_part and above not in graph.opened:
            graph.opened.append(above)
        above = graph.parents[above]


def _add_edges(graph: Graph) -> None:
    edges: dict[tuple[int, int], None] = {}
    for side, layers in enumerate(graph.sides):
        node_of = {
            layer.index: node
            for node, pair in enumerate(graph.pairs)
            for layer in (pair.before if side == 0 else pair.after)
        }
        makers = {tensor.name: layer.index for layer in reversed(layers) for tensor in layer.outputs}
        latest: dict[str, int] = {}
        for layer in layers:
            for tensor in layer.inputs:
                maker = latest.get(tensor.name, makers.get(tensor.name))
                if maker is None or node_of[maker] == node_of[layer.index]:
                    continue
                edge = (node_of[maker], node_of[layer.index])
                # Of the second run only what leads to its own work: the other edges are the first run's.
                if side == 0 or not all(graph.pairs[end].before for end in edge):
                    edges[edge] = None
            latest.update((tensor.name, layer.index) for tensor in layer.outputs)
    graph.edges = list(edges)
    linked = {end for edge in edges for end in edge}
    graph.order = [(node - 1, node) for node in range(1, len(graph.pairs)) if node not in linked]


def _add_values(graph: Graph) -> None:
    """Values of the nodes, then of the blocks, and why some have none."""
    added = {key: overlay.metric for key, overlay in graph.overlays.items()}
    wanted = _metrics_of_two(graph) if graph.is_diff else METRICS | added if graph.runs else added | OF_MODEL
    graph.values = {key: [] for key in (*wanted, "low", "high")}
    for node, pair in enumerate(graph.pairs):
        found = _values_of(pair, graph)
        for key, column in graph.values.items():
            column.append(found[key])
            if found[key] is None and key in wanted:
                graph.why[key][node] = _reason(pair, key, graph) or "not known"
    for key, metric in wanted.items():
        lost = all(value is None for value in graph.values[key])
        lacking = [_should_have(pair, key) for pair in graph.pairs]
        reasons = graph.why.pop(key, {}) if lost else {}
        # The reason why the engine's work has no MACs is not the reason why no layer has them.
        own = dict.fromkeys(why for node, why in reasons.items() if lacking[node]) or dict.fromkeys(reasons.values())
        graph.metrics[key] = replace(metric, why="; ".join(list(own)[:3]))
        _sum_up(graph, key, metric.sums, wanted=lacking)
    known = [value is not None for value in graph.values[graph.first][: len(graph.pairs)]]
    for end in ("low", "high"):
        _sum_up(graph, end, "all", wanted=known)
    if graph.is_diff:
        _drop_changes(graph)


def _metrics_of_two(graph: Graph) -> dict[str, Metric]:
    (first, second), change, _ = graph.headings
    return {
        "change": Metric(title=f"{change} of time", unit="s"),
        "time": Metric(title=f"Time: {first}", unit="s"),
        "after": Metric(title=f"Time: {second}", unit="s"),
        "memory": Metric(title=f"Weights and activations: {first}", unit="B"),
        "macs": Metric(title=f"MACs: {first}", unit="MAC"),
    }


def _drop_changes(graph: Graph) -> None:
    """Remove changes that are none: of work that is unpaired, and where a bounded time leaves no ends."""
    for at, work in enumerate(graph.works):
        if why := graph.unpaired(work) or (NO_ENDS if work.is_bounded and work.change_ends[0] is None else ""):
            graph.why["change"][at] = why
            for key in ("change", "low", "high"):
                graph.values[key][at] = None


def _values_of(pair: LayerPair, graph: Graph) -> dict[str, Number]:
    """All values of a node: of the work that two runs share, or of a layer."""
    if graph.is_diff:
        change = pair.change if pair.kind != "eliminated" else None
        low, high = pair.change_ends if change is not None else (None, None)
        return {
            "change": change,
            "low": low,
            "high": high,
            "time": _sum_of(pair.before, lambda layer: layer.time),
            "after": _sum_of(pair.after, lambda layer: layer.time),
            "memory": _sum_of(pair.before, moved_bytes),
            "macs": _sum_of(pair.before, lambda layer: layer.macs),
        }
    (layer,) = pair.before
    share = share_of_roof(layer, graph.profile.peaks) if graph.runs else None
    return {
        "time": layer.time,
        "low": layer.low,
        "high": layer.high,
        "share": layer.share,
        "memory": moved_bytes(layer),
        "live": max((graph.live[at] for at in layer.operators if 0 <= at < len(graph.live)), default=None),
        "macs": layer.macs,
        "parameters": layer.parameters,
        "roof": None if share is None else share.possible,
        **{key: overlay.value(layer.nodes) for key, overlay in graph.overlays.items()},
    }


def _sum_of(layers: Sequence[Layer], get: Callable[[Layer], Number]) -> Number:
    """Return the sum of what is executed; None where a part is not known, or nothing is executed."""
    values = [get(layer) for layer in layers if layer.kind != "eliminated"]
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _should_have(pair: LayerPair, key: str) -> bool:
    """Whether a node without a value lacks one: the engine's work has no MACs, what is not executed no time."""
    if pair.kind == "eliminated" or not (pair.after if key == "after" else pair.before or key == "change"):
        return False
    return pair.kind != "overhead" or key in _TIMES


def _reason(pair: LayerPair, key: str, graph: Graph) -> str:
    """Why a node has no value."""
    layers = pair.after if key == "after" else (*pair.before, *pair.after) if key == "change" else pair.before
    if not layers:
        return graph.only_in(pair)
    if key in _TIMES or pair.kind == "eliminated":
        return "; ".join(filter(None, dict.fromkeys(layer.time_absent_because for layer in layers)))
    if pair.kind == "overhead":
        return "work of the engine, which is no operator of the model"
    if key == "live":
        return (graph.profile.memory_absent_because if graph.runs else "") or ""
    if key in graph.overlays:
        return graph.overlays[key].reason(layers[0].nodes)
    if key == "roof":
        return roof_reason(layers[0], graph.profile)
    return "; ".join(filter(None, dict.fromkeys(layer.cost_unknown_because for layer in layers)))


def _sum_up(graph: Graph, key: str, how: str, *, wanted: Sequence[bool]) -> None:
    """Append the value of each block to a column.

    Args:
        how: as in `Metric.sums`; ``all`` is a sum that is None where one is missing.
        wanted: whether a node without a value lacks one.
    """
    column, times, count = graph.values[key], graph.values["time"], len(graph.pairs)
    for at, nodes in enumerate(graph.inside):
        known = [node for node in nodes if column[node] is not None and (how != "mean" or times[node])]
        lacking = sum(wanted[node] for node in nodes if column[node] is None)
        values = [column[node] or 0 for node in known]
        if not known or (how == "all" and lacking):
            column.append(None)
        elif how == "mean":
            weights = [times[node] or 0 for node in known]
            # Time at the roof over time: what a block attains of what the roofs of its layers allow.
            column.append(sum(map(mul, values, weights)) / sum(weights))
        else:
            column.append(max(values) if how == "max" else min(values) if how == "min" else sum(values))
        if lacking and how != "all":
            graph.lacking[key][count + at] = lacking
