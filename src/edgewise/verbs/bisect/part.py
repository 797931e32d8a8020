"""The smallest part of an ONNX model that still shows a slowdown: the layer that slowed most, and what is around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.converting.onnx_part import Network
from edgewise.errors import EdgewiseError, Unavailable
from edgewise.folders import job_folder
from edgewise.profiling.layer_matching import pair_layers
from edgewise.record import Run
from edgewise.workload.resolved_graph import read_resolved_graph

if TYPE_CHECKING:
    from edgewise.comparing.comparison import Comparison

MOST_PARTS = 6
"""Parts that are compared; the last one is the whole network."""


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
    ratio: float | None
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
    slowest = max(pairs, key=lambda pair: pair.change or 0.0, default=None)
    layers = (*slowest.before, *slowest.after) if slowest is not None else ()
    begin = network.places_of({name for layer in layers for node in layer.nodes for name in tensors.get(node, ())})
    if not begin:
        return None, "the profiles name no operator of the file that is slower"
    tried, why = set[int](), ""
    with job_folder() as scratch:
        file = scratch / "part.onnx"
        for number in range(MOST_PARTS):
            steps = network.count if number == MOST_PARTS - 1 else (0, 1, 2, 4, 8)[number]
            places = network.around(begin, steps)
            if places == tried:
                continue
            tried = places
            try:
                part = network.cut(places)
                file.write_bytes(part.SerializeToString())
                row = compare(str(file))
            except EdgewiseError as error:
                why = error.message
                continue
            if row is not None and row.verdict == "slower":
                _keep(file, to)
                operators = [node.op_type for node in part.graph.node]
                return Part(file=str(to), operators=operators, of=network.count, ratio=row.ratio, low=row.low,
                            high=row.high), ""  # fmt: skip
    return None, why or "no part with random weights is slower, nor is the whole network with them"


def _keep(file: Path, to: Path) -> None:
    try:
        to.write_bytes(file.read_bytes())
    except OSError as error:
        raise Unavailable(f"{to} can't be written: {error.strerror}", advice="name another place") from error
