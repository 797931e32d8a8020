"""The graph of a Keras model, from what Keras itself says of its layers (`edgewise.model.readers.keras_isolated`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.keras import FUSED, interpret, word_of
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.readers.archive import SHORT_TEXT, shorten
from edgewise.model.readers.base import MAX_DIMENSION, damaged
from edgewise.model.readers.isolated import parse_shape
from edgewise.model.readers.unique_names import UniqueNames

#: Training's own affair.
_DULL = (
    "initializer", "regularizer", "constraint", "seed", "trainable", "lora", "name", "dtype", "quantization_config"
)  # fmt: skip


def build_graph(path: Path, description: Mapping[str, Any], version: str) -> Graph:
    """Return the graph of a model.

    Args:
        path: the file it is from, for messages.
        description: what `describe_model` gives.
        version: of Keras, where it is known.

    Raises:
        BadModel: a size is absurd.
    """
    tensors = {name: _tensor(path, name, spec) for name, spec in description["tensors"].items()}
    tensors |= {name: _tensor(path, name, spec, constant=True) for name, spec in description["weights"].items()}
    operators: list[Operator] = []
    names = UniqueNames()
    for layer in description["layers"]:
        for operator in _operators(layer, tensors):
            operators.append(replace(operator, index=len(operators), name=names.take(operator.name)))
    return Graph(
        name=description["name"], format="keras", producer=f"Keras {version}".strip(), tensors=tensors,
        operators=tuple(operators), inputs=tuple(description["inputs"]), outputs=tuple(description["outputs"]),
        metadata={"class": description["class"]},
    )  # fmt: skip


def _tensor(path: Path, name: str, spec: tuple[Any, Any], *, constant: bool = False) -> Tensor:
    tensor = Tensor(name=name, shape=parse_shape(spec[0]), dtype=str(spec[1])[:40], constant=constant)
    if (tensor.elements or 0) > MAX_DIMENSION:
        raise damaged(path, f"{name[:40]!r} has more elements than any tensor can have")
    return tensor


def _operators(layer: Mapping[str, Any], tensors: dict[str, Tensor]) -> Iterator[Operator]:
    """One operator, and a second one for an activation that has to be a step of its own."""
    options = {key: value for key, value in layer["config"].items() if not any(dull in key for dull in _DULL)}
    outputs, own = list(layer["outputs"]), ""
    if "activation" in options:
        word = options["activation"] = word_of(options["activation"])
        separate = layer["op"] != "Activation" and word not in FUSED and "cell" not in options and bool(outputs)
        own = word if separate and layer["op"] not in ("LSTM", "GRU", "SimpleRNN") else ""
    if own:
        inner = f"{layer['path']}/linear"
        tensors[inner] = replace(tensors[outputs[0]], name=inner)
        outputs = [inner]
    given = [*layer["inputs"], *layer["weights"]]
    built_in = layer["module"].startswith("keras.")
    raw = RawOperator(
        op=layer["op"], domain="keras", attributes={**options, "weights": len(layer["weights"])},
        inputs=[tensors[each] for each in given], outputs=[tensors[each] for each in outputs],
    )  # fmt: skip
    semantics = _interpret(raw, layer) if built_in else Semantics(why="its class is not one of Keras' own")
    yield Operator(
        index=0,
        name=layer["path"],
        op=layer["op"],
        kind=semantics.kind,
        inputs=tuple(given),
        outputs=tuple(outputs),
        weights=tuple(dict.fromkeys(given[at] for at in semantics.weights)) or tuple(layer["weights"]),
        geometry=semantics.geometry,
        attributes={
            **{str(key)[:SHORT_TEXT]: shorten(value) for key, value in options.items()}, "layer": layer["path"],
        },
        custom=not built_in,
        unknown_because=semantics.why,
    )  # fmt: skip
    if own:
        options = {"activation": own}
        step = {**layer, "path": f"{layer['path']}/activation", "op": "Activation", "config": options, "weights": []}
        yield from _operators({**step, "inputs": outputs}, tensors)


def _interpret(raw: RawOperator, layer: Mapping[str, Any]) -> Semantics:
    if "_from_" in word_of(layer["config"].get("dtype")):
        return Semantics(why="quantised Keras layers have their own weight formats")
    return interpret(raw)
