"""Runs single layers of an ONNX model on the right inputs: what error each adds by itself.

A layer is cut out between tensors whose values the reference has, with its own weights and its own quantisation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgewise.converting.onnx_part import part_of
from edgewise.stats.differences import Sums, to_real
from edgewise.verbs.diff.engines import ENGINES, onnx_session

if TYPE_CHECKING:
    from edgewise.verbs.diff.engines import Array

MOST_NODES = 64
"""Operators of one layer."""


def run_alone(request: Mapping[str, Any], feeds: Iterable[Sequence[Array]]) -> list[dict[str, Any] | None]:
    """Return the sums of each layer in ``request["alone"]``; None where it can't run alone.

    Args:
        request: as in `edgewise.verbs.diff.tensor_worker.compare`; each of ``alone`` has ``inputs`` and ``output``,
            which name the tensor of the reference with its scale, its axes in the layout of the other, and the other's.
    """
    import onnx

    wanted = request["alone"]
    tensors = {end["first"]: end["scale"] for each in wanted for end in (*each["inputs"], each["output"])}
    one, two = request["models"]
    reference = ENGINES[one["engine"]](Path(one["path"]), list(tensors))
    model = onnx.shape_inference.infer_shapes(onnx.load(two["path"], load_external_data=False))
    layers = [_Layer(model, each, Path(two["path"]).parent) for each in wanted]
    for feed in feeds:
        found = reference.run(feed, list(tensors))
        real = {name: value for name in found if (value := to_real(found[name], tensors[name])) is not None}
        for layer in layers:
            layer.add(real)
    return [layer.told() for layer in layers]


class _Layer:
    """One layer of the other model with its sums."""

    def __init__(self, model: Any, wanted: Mapping[str, Any], folder: Path) -> None:
        self._inputs, self._output = wanted["inputs"], wanted["output"]
        self._sums, self._session = Sums(), None
        if (cut := cut_out(model, [each["second"] for each in self._inputs], self._output["second"])) is not None:
            with suppress(Exception):  # what the engine does not take alone is left out
                self._session = onnx_session(cut, folder)

    def add(self, real: Mapping[str, Array]) -> None:
        """Run one sample, if the reference has the layer's tensors."""
        ends = [*self._inputs, self._output]
        if self._session is None or any(each["first"] not in real for each in ends):
            return
        values = [_moved(real[each["first"]], each["axes"]) for each in ends]
        fed = {each["second"]: value.astype("float32") for each, value in zip(self._inputs, values[:-1], strict=True)}
        right, made = values[-1], None
        with suppress(Exception):  # whatever the engine refuses
            (made,) = self._session.run(None, fed)
        if made is not None and made.size == right.size and np.isfinite(made).all():
            self._sums.add(right.ravel(), made.astype("float64").ravel(), made)
        else:
            self._session, self._sums = None, Sums()

    def told(self) -> dict[str, Any] | None:
        """Return the sums of the signal and the noise."""
        return {"signal": self._sums.signal, "noise": self._sums.noise} if self._sums.count else None


def _moved(array: Array, axes: Sequence[int]) -> Array:
    return array.transpose(axes) if axes else array


def cut_out(model: Any, inputs: Collection[str], output: str) -> bytes | None:
    """Return the part of an ONNX `model` between float `inputs` and `output`; None where it needs more, or is large."""
    import onnx

    graph = model.graph
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output}
    stored = {each.name for each in graph.initializer}
    places, waiting = set[int](), [output]
    while waiting:
        name = waiting.pop()
        if not name or name in inputs or name in stored:
            continue
        if (place := makers.get(name)) is None or any(each.HasField("g") for each in graph.node[place].attribute):
            return None
        elif place not in places:
            places.add(place)
            waiting += graph.node[place].input
    if not places or len(places) > MOST_NODES:
        return None
    typed = {each.name: each for each in (*graph.value_info, *graph.input, *graph.output)}
    if any(name not in typed or typed[name].type.tensor_type.elem_type != onnx.TensorProto.FLOAT for name in inputs):
        return None
    ends = [onnx.ValueInfoProto(name=output)]
    made: bytes = part_of(model, places, inputs=[typed[name] for name in inputs], outputs=ends).SerializeToString()
    return made
