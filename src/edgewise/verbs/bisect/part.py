"""The smallest part of an ONNX model that still shows a slowdown: the layer that slowed most, and what is around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.converting.onnx_part import Network
from edgewise.errors import EdgewiseError
from edgewise.folders import job_folder
from edgewise.profiling.layer_matching import pair_layers
from edgewise.record import Run
from edgewise.workload.resolved_graph import read_resolved_graph

if TYPE_CHECKING:
    from edgewise.comparing.comparison import Comparison

MOST_PARTS = 12
"""Parts that are compared at most, the whole network with random weights among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a network with random weights.

    Attributes:
        file: where it was written.
        operators: their types, in order.
        of: number of operators of the network.
        ratio, low, high: its time with the first bad release over that with the release before.
    """

    file: str
    operators: Sequence[str]
    of: int
    ratio: float
    low: float | None
    high: float | None


def smallest_part(
    model: str, runs: Sequence[Run], *, to: Path, compare: Callable[[str], Comparison | None]
) -> tuple[Part | None, str]:
    """Write the smallest part that `compare` finds slower to the file `to`; or None, and why there is none.

    Args:
        runs: profiles of the release before and of the first bad one.
        compare: a file in both releases.
    """
    import onnx

    graph = read_resolved_graph(model, shapes={}).graph
    shapes = {name: each.shape for name, each in graph.tensors.items() if each.elements is not None}
    found = onnx.load(model)
    network = Network(onnx.shape_inference.infer_shapes(found), shapes)  # type: ignore[arg-type]  # sizes are known
    tensors = {each.name: each.outputs for each in graph.operators}
    pairs = [pair for pair in pair_layers(*runs) if pair.kind == "operator" and (pair.change or 0.0) > 0.0]
    slowest = max(pairs, key=lambda pair: (pair.is_clear, pair.change or 0.0), default=None)
    layers = (*slowest.before, *slowest.after) if slowest is not None else ()
    begin = network.places_of({name for layer in layers for node in layer.nodes for name in tensors.get(node, ())})
    clear = bool(begin) and slowest is not None and slowest.is_clear
    best, why = _search(network, begin, compare, clear=clear)
    if best is None or best[1].ratio is None:
        return None, why or "the network with random weights is not slower, nor is a part of it"
    part, row = best
    ratio = best[1].ratio
    try:
        to.write_bytes(part.SerializeToString())
    except OSError as error:
        return None, f"{to} can't be written: {error.strerror}"
    operators = [node.op_type for node in part.graph.node]
    return Part(file=str(to), operators=operators, of=network.count, ratio=ratio, low=row.low, high=row.high), ""


def _search(
    network: Network, begin: set[int], compare: Callable[[str], Comparison | None], *, clear: bool
) -> tuple[tuple[Any, Comparison] | None, str]:
    """Return the smallest part that is slower, with its comparison; and why a part could not be compared.

    Around the operator whose time grew clearly, else by halves of the network.

    Args:
        begin: the nodes of that operator.
    """
    best: tuple[Any, Comparison] | None = None
    why, left = "", MOST_PARTS

    def is_slower(places: set[int]) -> bool:
        nonlocal best, why, left
        if left == 0:
            return False
        left -= 1
        with job_folder() as scratch:
            file = scratch / "part.onnx"
            try:
                part = network.cut(places)
                file.write_bytes(part.SerializeToString())
                row = compare(str(file))
            except EdgewiseError as error:
                why = error.message
                return False
        if row is None or row.ratio is None or row.verdict != "slower":
            return False
        best = part, row
        return True

    if clear and any(is_slower(network.around(begin, steps)) for steps in (0, 1, 2, 4)):
        return best, why
    kept = set(range(network.count))
    if not is_slower(kept):
        return None, why
    while len(kept) > 1:
        order = sorted(kept)
        halves = [network.around(half, 0) for half in (order[: len(order) // 2], order[len(order) // 2 :])]
        halves.sort(key=lambda half: -len(half & begin))
        smaller = next((half for half in halves if len(half) < len(kept) and is_slower(half)), None)
        if smaller is None:
            break
        kept = smaller
    return best, why
