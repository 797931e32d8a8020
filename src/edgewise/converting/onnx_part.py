"""A part of an ONNX model as a model of its own, with its weights or with random ones that disclose nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from edgewise.errors import Unavailable

Array = np.ndarray[Any, np.dtype[Any]]

STRUCTURE = 8
"""Integers up to this many are shapes, axes and indices, which stay."""


def part_of(model: Any, places: Collection[int], *, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """Return the nodes at `places` of an ONNX model, with the stored tensors that they take, as a model.

    `inputs`, `outputs`: ``ValueInfoProto`` of the part; an output may lack its type.
    """
    import onnx

    nodes = [model.graph.node[place] for place in sorted(places)]
    taken = {name for node in nodes for name in node.input}
    stored = [each for each in model.graph.initializer if each.name in taken]
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.graph.CopyFrom(onnx.helper.make_graph(nodes, "part", inputs, outputs, stored))
    return made


class Network:
    """An ONNX model of which parts are cut out.

    Args:
        model: with its weights.
        shapes: tensor → shape, as far as they are known.
    """

    def __init__(self, model: Any, shapes: Mapping[str, Sequence[int]]) -> None:
        self._model, self._shapes = model, shapes
        nodes = model.graph.node
        self._makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
        self._takers: dict[str, list[int]] = {}
        stored = {each.name for each in model.graph.initializer}
        self._fed = {each.name for each in model.graph.input} - stored
        """Tensors that depend on the inputs."""
        for place, node in enumerate(nodes):
            for name in node.input:
                self._takers.setdefault(name, []).append(place)
            if not self._fed.isdisjoint(node.input):
                self._fed.update(node.output)

    @property
    def count(self) -> int:
        """Number of nodes."""
        return len(self._model.graph.node)

    def places_of(self, tensors: Collection[str]) -> set[int]:
        """Return the nodes that make these tensors."""
        return {self._makers[name] for name in tensors if name in self._makers}

    def around(self, places: Collection[int], steps: int) -> set[int]:
        """Return `places`, the nodes within `steps` edges of them, and the nodes that compute their constants."""
        found = set(places)
        for _ in range(steps):
            nodes = [self._model.graph.node[place] for place in found]
            found |= self.places_of({name for node in nodes for name in node.input if name in self._fed})
            found |= {place for node in nodes for name in node.output for place in self._takers.get(name, ())}
        waiting = list(found)
        while waiting:
            taken = set(self._model.graph.node[waiting.pop()].input) - self._fed
            more = self.places_of(taken) - found
            found |= more
            waiting += more
        return found

    def cut(self, places: Collection[int], *, seed: int = 0) -> Any:
        """Return the nodes at `places` as a model with random weights and names of its own. Raises `Unavailable`."""
        import onnx

        nodes = [self._model.graph.node[place] for place in sorted(places)]
        functions = {(each.domain, each.name) for each in self._model.functions}
        if any((node.domain, node.op_type) in functions for node in nodes):
            raise Unavailable("a part with functions of the model's own can't be cut out")
        if any(attribute.HasField("g") or attribute.graphs for node in nodes for attribute in node.attribute):
            raise Unavailable("a part with branches or loops can't be cut out")
        made = [name for node in nodes for name in node.output if name]
        inside = set(made)
        taken = dict.fromkeys(name for node in nodes for name in node.input if name in self._fed - inside)
        ends = {each.name for each in self._model.graph.output}
        used = [name for name in made if name in ends or set(self._takers.get(name, ())) - set(places)]
        typed = {each.name: each.type.tensor_type.elem_type for each in (
            *self._model.graph.value_info, *self._model.graph.input, *self._model.graph.output
        )}  # fmt: skip
        if unknown := next((name for name in taken if not typed.get(name) or name not in self._shapes), None):
            raise Unavailable(f"type and shape of the tensor {unknown!r} are not known")
        inputs = [onnx.helper.make_tensor_value_info(name, typed[name], list(self._shapes[name])) for name in taken]
        outputs = [onnx.ValueInfoProto(name=name) for name in used or made[-1:]]
        part = part_of(self._model, places, inputs=inputs, outputs=outputs)
        _disclose_nothing(part, np.random.default_rng(seed))
        return onnx.shape_inference.infer_shapes(part)


def _disclose_nothing(model: Any, chance: np.random.Generator) -> None:
    """Draw the weights at random, and drop names and notes. Raises `Unavailable`."""
    import onnx

    plain = (onnx.AttributeProto.FLOAT, onnx.AttributeProto.INT, onnx.AttributeProto.INTS, onnx.AttributeProto.STRING)
    for field in ("doc_string", "metadata_props", "functions", "training_info", "producer_name", "producer_version",
                  "model_version", "domain"):  # fmt: skip
        model.ClearField(field)
    names: dict[str, str] = {"": ""}
    for tensor in model.graph.initializer:
        _draw(tensor, chance)
    for place, node in enumerate(model.graph.node):
        node.name, node.doc_string = f"n{place}", ""
        node.ClearField("metadata_props")
        for attribute in node.attribute:
            attribute.doc_string = ""
            if attribute.type == onnx.AttributeProto.TENSOR:
                _draw(attribute.t, chance)
                attribute.t.name = ""
            elif attribute.type == onnx.AttributeProto.FLOATS:
                attribute.floats[:] = _like(np.array(attribute.floats), chance).tolist()
            elif attribute.type not in plain:
                raise Unavailable(f"the attribute {attribute.name} of {node.op_type} may disclose the model")
    for each in (*model.graph.input, *model.graph.initializer, *model.graph.output):
        each.doc_string = ""
        each.name = names.setdefault(each.name, f"t{len(names)}")
    for node in model.graph.node:
        for side in (node.input, node.output):
            side[:] = [names.setdefault(name, f"t{len(names)}") for name in side]


def _draw(tensor: Any, chance: np.random.Generator) -> None:
    """Replace the values of a stored tensor by random ones of the same type and about the same size."""
    import onnx

    name, values = tensor.name, onnx.numpy_helper.to_array(tensor)
    drawn = onnx.numpy_helper.from_array(_like(values, chance), name)
    tensor.CopyFrom(drawn)


def _like(values: Array, chance: np.random.Generator) -> Array:
    """Random values like these; numbers that stand alone, and few integers, stay. Raises `Unavailable`."""
    if values.dtype.kind not in "fiub":
        raise Unavailable(f"stored tensors of {values.dtype} can't be drawn at random")
    if values.size <= (1 if values.dtype.kind == "f" else STRUCTURE):
        return values
    drawn: Any
    if values.dtype.kind == "b":
        drawn = chance.integers(0, 1, size=values.shape, endpoint=True)
    elif values.dtype.kind != "f":
        drawn = chance.integers(values.min(), values.max(), size=values.shape, endpoint=True)
    elif (values > 0).all():  # scales and variances
        drawn = values.astype(np.float64).mean() * chance.uniform(0.5, 1.5, values.shape)
    else:
        drawn = chance.normal(0.0, float(values.astype(np.float64).std()) or 1.0, values.shape)
    return np.asarray(drawn, dtype=values.dtype)
