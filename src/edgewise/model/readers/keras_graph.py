"""Putting Keras' layers to work, one after the other: operators, tensors and parameters of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.model.dialects.base import Meaning, Question
from edgewise.model.dialects.keras import FUSED, read_meaning
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.readers.archive import SHORT_TEXT, shorten
from edgewise.model.readers.base import MAX_DIMENSION, MAX_RANK
from edgewise.model.readers.keras_config import (
    Layer,
    NotKnown,
    Outcome,
    Shape,
    Stated,
    Wrong,
    read_policy,
    word_of,
)
from edgewise.model.readers.keras_operations import OPERATIONS, Call
from edgewise.model.readers.keras_parts import PARTS
from edgewise.model.readers.keras_rules import RULES
from edgewise.model.readers.unique_names import UniqueNames

MAX_CALLS = 50_000
"""Of layers, in a graph with everything inside it: models in models can multiply. The largest have some thousands."""
MAX_NESTING = 30

_FLOATS = ("float", "bfloat")
#: Training's own affair.
_DULL = (
    "initializer",
    "regularizer",
    "constraint",
    "seed",
    "trainable",
    "lora",
    "name",
    "dtype",
    "quantization_config",
)

Models = Callable[["Workshop", Layer, Sequence[str], str], tuple[str, ...]]
"""Puts the layers of a model that is a layer to work."""

Told = Mapping[int, tuple[Shape | None, str]]
"""Which output → the shape and type that the file states elsewhere."""


@dataclass
class Workshop:
    """Where a graph's layers are put to work.

    Attributes:
        models: turns a model that is a layer into its operators.
        budget: how many layers may still be called, shared with inner graphs.
    """

    models: Models
    budget: list[int] = field(default_factory=lambda: [MAX_CALLS])
    depth: int = 0
    tensors: dict[str, Tensor] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    subgraphs: dict[str, Graph] = field(default_factory=dict)
    weights: dict[tuple[str, str], str] = field(default_factory=dict)
    _names: UniqueNames = field(default_factory=UniqueNames)
    _graph_names: UniqueNames = field(default_factory=UniqueNames)
    _tensor_names: UniqueNames = field(default_factory=UniqueNames)

    def shape_of(self, tensor: str) -> Shape:
        """Of a tensor by its name. Raises `NotKnown`."""
        shape = self.tensors[tensor].shape
        if shape is None:
            raise NotKnown("the shape of its input is not known")
        return shape

    def add_input(self, name: str, shape: Shape, dtype: str) -> str:
        """An input of the graph; its name in the graph."""
        return self._add_tensor(Tensor(name=name, shape=shape, dtype=dtype))

    def apply(
        self,
        layer: Layer,
        inputs: Sequence[str],
        path: str,
        *,
        call: Call | None = None,
        told: Told | None = None,
    ) -> tuple[str, ...]:
        """Put `layer` to work on tensors; the names of what it gives. Raises `Wrong`."""
        if self.depth > MAX_NESTING:
            raise Wrong(f"layers are nested more than {MAX_NESTING} deep")
        self.budget[0] -= 1
        if self.budget[0] < 0:
            raise Wrong(f"models in models make more than {MAX_CALLS} steps")
        self.depth += 1
        try:
            return self._apply(layer, inputs, path, call)
        except NotKnown as lack:
            return self._leave_unknown(layer, inputs, path, why=str(lack), told=told or {})
        finally:
            self.depth -= 1

    def _apply(self, layer: Layer, inputs: Sequence[str], path: str, call: Call | None) -> tuple[str, ...]:
        if isinstance(layer.options.get("layers"), list):
            return self.models(self, layer, inputs, path)
        if layer.kind == "Lambda":
            raise NotKnown("a Lambda layer is Python code, which is never run here")
        if not layer.built_in:
            raise NotKnown("its class is not one of Keras' own; its code is never run here")
        if not inputs:
            raise NotKnown("it is given no tensor")
        if call is not None:
            return self._operate(layer, inputs, path, call)
        read_policy(layer.options.get("dtype"))
        if layer.kind in PARTS:
            return PARTS[layer.kind](layer, inputs, path, self)
        if layer.kind not in RULES:
            raise NotKnown(f"no rule for the layer {layer.kind[:60]}")
        outcome = RULES[layer.kind](layer, [self.shape_of(each) for each in inputs])
        return self.emit(layer, inputs, path, outcome)

    def _operate(self, layer: Layer, inputs: Sequence[str], path: str, call: Call) -> tuple[str, ...]:
        rule = OPERATIONS.get(layer.kind)
        if rule is None:
            raise NotKnown(f"no rule for the operation {layer.kind[:60]}")
        shapes = [self.shape_of(each) for each in inputs]
        shape = rule(replace(call, shapes=shapes))
        return self.emit(replace(layer, options=call.options), inputs, path, Outcome((shape,)))

    def emit(
        self, layer: Layer, inputs: Sequence[str], path: str, outcome: Outcome, stated: Stated | None = None
    ) -> tuple[str, ...]:
        """One operator, and a second one for an activation that has to be a step of its own."""
        given = [*inputs, *(self._add_weight(layer, path, name, shape) for name, shape in outcome.weights.items())]
        options = {key: value for key, value in layer.options.items() if not any(dull in key for dull in _DULL)}
        own = ""
        if "activation" in options:
            word = options["activation"] = word_of(options["activation"])
            own = "" if layer.kind == "Activation" or word in FUSED or stated is not None else word
        meaning = self._ask(layer, given, outcome, options, stated)
        made = self._add_operator(layer, given, outcome.outputs, path, meaning=meaning, options=options, stated=stated)
        if own:
            step = replace(layer, kind="Activation", options={"activation": own, "dtype": layer.options.get("dtype")})
            return self.emit(step, made, f"{path}/activation", Outcome(outcome.outputs))
        return made

    def state(
        self, layer: Layer, inputs: Sequence[str], path: str, outcome: Outcome, stated: Stated
    ) -> tuple[str, ...]:
        """One operator of the kind and geometry that are stated."""
        return self.emit(layer, inputs, path, outcome, stated)

    def repeat(self, layer: Layer, inner: Layer, inputs: Sequence[str], path: str) -> tuple[str, ...]:
        """`inner` for every step along dimension 1 of the first input: a graph of its own that runs that often."""
        shape = self.shape_of(inputs[0])
        if len(shape) < 3:
            raise Wrong("it has no steps to go through")
        shop = Workshop(models=self.models, budget=self.budget, depth=self.depth)
        source = shop.add_input("step", (shape[0], *shape[2:]), self.tensors[inputs[0]].dtype)
        made = shop.apply(inner, [source], f"{path}/{inner.name}")
        name = self._graph_names.take(path)
        self.subgraphs[name] = Graph(
            name=name, format="keras", tensors=shop.tensors, operators=tuple(shop.operators), inputs=(source,),
            outputs=made, subgraphs=shop.subgraphs,
        )  # fmt: skip
        outputs = []
        for each in made:
            inside = shop.shape_of(each)
            outputs.append((inside[0] if inside else shape[0], shape[1], *inside[1:]))
        stated = Stated("loop", {"trips": shape[1]}, (name,))
        return self.emit(layer, inputs[:1], path, Outcome(tuple(outputs)), stated)

    def _ask(
        self, layer: Layer, given: Sequence[str], outcome: Outcome, options: Mapping[str, Any], stated: Stated | None
    ) -> Meaning:
        """What the dialect says of an operator; its outputs do not exist yet."""
        dtype = self._type_of(layer, given)
        said = {"kind": stated.kind, "geometry": stated.known()} if stated is not None else {}
        outputs = [Tensor(name="", shape=shape, dtype=dtype) for shape in outcome.outputs]
        return read_meaning(
            Question(
                op=layer.kind,
                domain="keras",
                attributes={**options, **said, "weights": len(outcome.weights)},
                inputs=[self.tensors[each] for each in given],
                outputs=outputs,
            )
        )

    def _add_operator(
        self, layer: Layer, given: Sequence[str], outputs: Sequence[Shape | None], path: str, *, meaning: Meaning,
        options: Mapping[str, Any], stated: Stated | None = None, dtypes: Sequence[str] = (),
    ) -> tuple[str, ...]:  # fmt: skip
        name = self._names.take(path)
        dtype = self._type_of(layer, given)
        made = []
        for at, shape in enumerate(outputs):
            kept = dtypes[at] if at < len(dtypes) and dtypes[at] else dtype
            made.append(self._add_tensor(Tensor(name=f"{name}:{at}" if at else name, shape=shape, dtype=kept)))
        self.operators.append(
            Operator(
                index=len(self.operators),
                name=name,
                op=layer.kind,
                kind=meaning.kind,
                inputs=tuple(given),
                outputs=tuple(made),
                weights=tuple(dict.fromkeys(given[at] for at in meaning.weights)),
                geometry=meaning.geometry,
                attributes={**{str(key)[:SHORT_TEXT]: shorten(value) for key, value in options.items()}, "layer": path},
                custom=not layer.built_in or layer.kind == "Lambda",
                subgraphs=stated.subgraphs if stated is not None else (),
                unknown_because=meaning.why,
            )
        )
        return tuple(made)

    def _leave_unknown(
        self, layer: Layer, inputs: Sequence[str], path: str, *, why: str, told: Told
    ) -> tuple[str, ...]:
        """An operator of unknown cost; what it gives has the shapes that the file states, or unknown ones."""
        said = [told.get(at, (None, "")) for at in range(max(told, default=0) + 1)]
        shapes, dtypes = [shape for shape, _ in said], [dtype for _, dtype in said]
        return self._add_operator(layer, inputs, shapes, path, meaning=Meaning(why=why), options={}, dtypes=dtypes)

    def _type_of(self, layer: Layer, given: Sequence[str]) -> str:
        """Layers compute in their policy's type; what only moves integers leaves them what they are."""
        if layer.kind in ("Argmax", "Argmin"):
            return "int32"
        if layer.kind == "Cast":
            return str(layer.options.get("dtype") or layer.options.get("x_dtype") or "float32")[:40]
        source = self.tensors[given[0]].dtype if given else "float32"
        try:
            compute = read_policy(layer.options["dtype"])[1] if layer.options.get("dtype") else source
        except NotKnown:
            compute = "float32"
        moving = layer.kind not in ("Embedding", "CategoryEncoding", "Rescaling")
        return source if moving and not source.startswith(_FLOATS) else compute

    def _add_weight(self, layer: Layer, path: str, name: str, shape: Shape) -> str:
        """A parameter; a layer that is used twice has it once."""
        if (path, name) not in self.weights:
            dtype = "int32" if name == "count" else read_policy(layer.options.get("dtype"))[0]
            tensor = Tensor(name=f"{path}/{name}", shape=shape, dtype=dtype, constant=True)
            self.weights[path, name] = self._add_tensor(tensor)
        return self.weights[path, name]

    def _add_tensor(self, tensor: Tensor) -> str:
        if tensor.shape is not None and len(tensor.shape) > MAX_RANK:
            raise Wrong(f"a tensor has more than {MAX_RANK} dimensions")
        if (tensor.elements or 0) > MAX_DIMENSION:
            raise Wrong("a tensor has more elements than any tensor can have")
        name = self._tensor_names.take(tensor.name)
        self.tensors[name] = replace(tensor, name=name)
        return name
