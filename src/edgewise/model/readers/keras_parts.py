"""Keras' layers that are made of others, or whose cost follows from their configuration: part by part.

Attention is that of `keras.layers.MultiHeadAttention` (query, key and value projections, scores, output projection);
recurrent layers count one step times the sequence's length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Protocol

from edgewise.model.cost import ACTIVATIONS, cost_of
from edgewise.model.dialects.keras import FUSED
from edgewise.model.graph import Graph, Operator
from edgewise.model.readers.keras_config import Layer, NotKnown, Outcome, Shape, Stated, Wrong, read_layer, word_of
from edgewise.model.readers.keras_rules import RULES
from edgewise.model.signature import Dimension


class Bench(Protocol):
    """Where layers are put to work: what a builder of graphs offers to layers that are made of others."""

    def shape_of(self, tensor: str) -> Shape:
        """Of a tensor by its name. Raises `NotKnown`."""

    def apply(self, layer: Layer, inputs: Sequence[str], path: str) -> tuple[str, ...]:
        """Put `layer` to work on tensors; the names of what it gives."""

    def state(
        self, layer: Layer, inputs: Sequence[str], path: str, outcome: Outcome, stated: Stated
    ) -> tuple[str, ...]:
        """One operator of the kind and geometry that are stated."""

    def repeat(self, layer: Layer, inner: Layer, inputs: Sequence[str], path: str) -> tuple[str, ...]:
        """`inner` for every step along dimension 1 of the first input."""


Part = Callable[[Layer, Sequence[str], str, Bench], tuple[str, ...]]


def _make(kind: str, name: str, dtype: Any, **options: Any) -> Layer:
    return Layer(kind=kind, module="keras.layers", name=name, options={**options, "dtype": dtype})


def _separable(layer: Layer, inputs: Sequence[str], path: str, bench: Bench) -> tuple[str, ...]:
    """A depthwise convolution without bias, then one of kernel size 1."""
    rank = layer.kind[-2]
    shared = {key: layer.options.get(key) for key in ("data_format", "dtype")}
    first = {key: layer.options.get(key) for key in ("kernel_size", "strides", "padding", "dilation_rate")}
    depthwise = Layer(
        kind=f"DepthwiseConv{rank}D", module="keras", name=layer.name,
        options={**shared, **first, "depth_multiplier": layer.options.get("depth_multiplier"), "use_bias": False},
    )  # fmt: skip
    pointwise = Layer(
        kind=f"Conv{rank}D", module="keras", name=layer.name,
        options={**shared, "filters": layer.options.get("filters"), "kernel_size": 1,
                 "use_bias": layer.options.get("use_bias"), "activation": layer.options.get("activation")},
    )  # fmt: skip
    return bench.apply(pointwise, bench.apply(depthwise, inputs, f"{path}/depthwise"), f"{path}/pointwise")


def _multi_head(layer: Layer, inputs: Sequence[str], path: str, bench: Bench) -> tuple[str, ...]:
    query, value = inputs[0], inputs[1] if len(inputs) > 1 else inputs[0]
    key = inputs[2] if len(inputs) > 2 else value
    shapes = [bench.shape_of(each) for each in (query, key, value)]
    if any(len(shape) != 3 for shape in shapes) or layer.options.get("attention_axes") not in (None, [1], 1):
        raise NotKnown("attention over several axes has no formula here")
    grouped = layer.kind == "GroupQueryAttention"
    heads = layer.whole("num_query_heads" if grouped else "num_heads", least=1)
    sources = layer.whole("num_key_value_heads", least=1) if grouped else heads
    depth = layer.whole("head_dim" if grouped else "key_dim", least=1)
    wide = depth if grouped else layer.whole("value_dim", depth, least=1)
    biased, dtype = layer.flag("use_bias", True), layer.options.get("dtype")

    def project(name: str, source: str, count: int, size: int, **options: Any) -> str:
        dense = _make(
            "EinsumDense", name, dtype, equation="abc,cde->abde", output_shape=[None, count, size],
            bias_axes="de" if biased else None, **options,
        )  # fmt: skip
        return bench.apply(dense, [source], f"{path}/{name}")[0]

    parts = [
        project("query", query, heads, depth),
        project("key", key, sources, depth),
        project("value", value, sources, wide),
    ]
    gate = project("gate", query, heads, wide, activation="sigmoid") if layer.flag("use_gate", False) else ""
    geometry = {
        "batch": shapes[0][0], "heads": heads, "queries": shapes[0][1], "keys": shapes[1][1], "depth": depth,
        "value_depth": wide,
    }  # fmt: skip
    made = (*shapes[0][:2], heads, wide)
    mixed = bench.state(layer, parts, f"{path}/attention", Outcome((made,)), Stated("attention", geometry))
    if gate:
        mixed = bench.apply(_make("Multiply", "gating", dtype), [*mixed, gate], f"{path}/gating")
    told = layer.options.get("output_shape")
    size = told if isinstance(told, int) else told[-1] if isinstance(told, list) and told else shapes[0][-1]
    output = _make(
        "EinsumDense", "attention_output", dtype, equation="abde,dec->abc", output_shape=[None, size],
        bias_axes="c" if biased else None,
    )  # fmt: skip
    return bench.apply(output, mixed, f"{path}/attention_output")


def _attention(layer: Layer, inputs: Sequence[str], path: str, bench: Bench) -> tuple[str, ...]:
    """``Attention`` without projections; ``AdditiveAttention`` has a sum and tanh in the place of each product."""
    query, value = inputs[0], inputs[1] if len(inputs) > 1 else inputs[0]
    key = inputs[2] if len(inputs) > 2 else value
    shapes = [bench.shape_of(each) for each in (query, key, value)]
    if any(len(shape) != 3 for shape in shapes):
        raise Wrong("attention takes tensors of rank 3")
    batch, queries, depth = shapes[0]
    keys, wide = shapes[1][1], shapes[2][2]
    made = (batch, queries, wide)
    weights: dict[str, Shape] = {}
    scored = layer.text("score_mode", "dot") == "concat" or layer.kind == "AdditiveAttention"
    if layer.flag("use_scale", layer.kind == "AdditiveAttention"):
        weights["scale"] = (depth,) if layer.kind == "AdditiveAttention" else ()
    if layer.kind == "Attention" and scored:
        weights["concat_score_weight"] = ()
    if not scored:
        geometry: dict[str, Any] = {
            "batch": batch, "heads": 1, "queries": queries, "keys": keys, "depth": depth, "value_depth": wide,
        }  # fmt: skip
        return bench.state(layer, inputs, path, Outcome((made,), weights), Stated("attention", geometry))
    scores = _times(batch, queries, keys)
    if scores is None or not isinstance(depth, int) or not isinstance(wide, int):
        return bench.state(layer, inputs, path, Outcome((made,), weights), Stated("counted", {}))
    # A score sums scale · tanh(query + key) over the depth; then a softmax and the weighted values.
    scaled = 1 if weights.get("scale") else 0
    macs = scores * (wide + depth * scaled)
    ops = 2 * macs + scores * (depth * (1 + ACTIVATIONS["tanh"] + (1 - scaled)) + 5)
    stated = {"macs": macs, "ops": ops + (scores if "concat_score_weight" in weights else 0)}
    return bench.state(layer, inputs, path, Outcome((made,), weights), Stated("counted", stated))


_GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}


def _recurrent(layer: Layer, inputs: Sequence[str], path: str, bench: Bench) -> tuple[str, ...]:
    """Kernel [input, gates · units], recurrent [units, gates · units], one bias; two for a GRU that resets after."""
    shape = bench.shape_of(inputs[0])
    if len(shape) != 3:
        raise Wrong("a recurrent layer takes tensors of rank 3")
    batch, steps, features = shape
    gates, units = _GATES[layer.kind], layer.whole("units", least=1)
    biased = layer.flag("use_bias", True)
    double = biased and layer.kind == "GRU" and layer.flag("reset_after", True)
    weights: dict[str, Shape] = {"kernel": (features, gates * units), "recurrent_kernel": (units, gates * units)}
    if biased:
        weights["bias"] = (2, gates * units) if double else (gates * units,)
    geometry = {
        "gates": gates, "hidden": units, "input": features, "steps": steps, "batch": batch,
        "biases": (2 if double else 1) if biased else 0,
    }  # fmt: skip
    outputs: list[Shape] = [(batch, steps, units) if layer.flag("return_sequences", False) else (batch, units)]
    if layer.flag("return_state", False):
        outputs += [(batch, units)] * (2 if layer.kind == "LSTM" else 1)
    kind, geometry = _adjust(layer, geometry)
    return bench.state(layer, inputs[:1], path, Outcome(tuple(outputs), weights), Stated(kind, geometry))


def _adjust(layer: Layer, geometry: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The formula's functions are tanh and sigmoid; with others the count is corrected by their difference."""
    inner = FUSED.get(word_of(layer.options.get("activation", "tanh")))
    gate = FUSED.get(word_of(layer.options.get("recurrent_activation", "sigmoid")))
    if inner is None or (gate is None and layer.kind != "SimpleRNN"):
        raise NotKnown("its activation has no known cost")
    tanhs, sigmoids = {"LSTM": (2, 3), "GRU": (1, 2), "SimpleRNN": (1, 0)}[layer.kind]
    more = tanhs * (ACTIVATIONS[inner] - ACTIVATIONS["tanh"])
    more += sigmoids * (ACTIVATIONS[gate or "none"] - ACTIVATIONS["sigmoid"]) if sigmoids else 0
    known = {key: value for key, value in geometry.items() if isinstance(value, int)}
    operator = Operator(index=0, name="", op="", kind="recurrent", geometry=known)
    cost = cost_of(operator, Graph(name="", format="", tensors={}, operators=(), inputs=(), outputs=()))
    if more == 0:
        return "recurrent", known
    if cost.ops is None:
        return "counted", {}
    return "counted", {"macs": cost.macs, "ops": cost.ops + more * known["steps"] * known["batch"] * known["hidden"]}


def _bidirectional(layer: Layer, inputs: Sequence[str], path: str, bench: Bench) -> tuple[str, ...]:
    forward = read_layer(layer.options.get("layer"))
    backward = read_layer(layer.options.get("backward_layer")) if layer.options.get("backward_layer") else forward
    if forward.kind not in PARTS or backward.kind not in PARTS:
        raise NotKnown(f"a {forward.kind[:40]} in both directions has no formula")
    there = bench.apply(forward, inputs[:1], f"{path}/forward")
    back = bench.apply(backward, inputs[:1], f"{path}/backward")
    states = (*there[1:], *back[1:])
    mode = layer.options.get("merge_mode", "concat")
    if mode is None:
        return (there[0], back[0], *states)
    kinds = {"concat": "Concatenate", "sum": "Add", "mul": "Multiply", "ave": "Average"}
    if mode not in kinds:
        raise Wrong(f"its merge mode is {str(mode)[:40]!r}")
    merge = _make(kinds[str(mode)], "merge", layer.options.get("dtype"), axis=-1)
    return (*bench.apply(merge, [there[0], back[0]], f"{path}/merge"), *states)


def _cells(layer: Layer, inputs: Sequence[str], path: str, bench: Bench) -> tuple[str, ...]:
    """``RNN`` of one of Keras' cells, or of a stack of them: a recurrent layer for each."""
    cell = read_layer(layer.options.get("cell"))
    cells = [cell]
    if cell.kind == "StackedRNNCells":
        listed = cell.options.get("cells")
        cells = [read_layer(each) for each in listed] if isinstance(listed, list) and listed else []
    kinds = [each.kind.removesuffix("Cell") for each in cells]
    if not cells or len(cells) > 100 or not set(kinds) <= set(_GATES) or layer.flag("return_state", False):
        raise NotKnown(f"the cell {cell.kind[:40]} has no formula")
    given = tuple(inputs[:1])
    for at, (kind, each) in enumerate(zip(kinds, cells, strict=True)):
        last = at == len(cells) - 1
        kept = layer.flag("return_sequences", False) if last else True
        options = {**each.options, "return_sequences": kept, "return_state": False}
        suffix = f"/{at}" if len(cells) > 1 else ""
        given = bench.apply(replace(each, kind=kind, options=options), given, f"{path}{suffix}")
    return given


def _convolutional_recurrent(layer: Layer, inputs: Sequence[str], path: str, bench: Bench) -> tuple[str, ...]:
    """Four gates, each a convolution of the input and one, of stride 1 and the same size, of the state."""
    shape, rank = bench.shape_of(inputs[0]), int(layer.kind[-2])
    if len(shape) != rank + 3:
        raise Wrong(f"it takes tensors of rank {rank + 3}")
    filters, kernel = layer.whole("filters", least=1), layer.sizes("kernel_size", rank, least=1)
    plain = replace(layer, kind=f"Conv{rank}D", options={**layer.options, "groups": 1})
    outcome = RULES[plain.kind](plain, [(shape[0], *shape[2:])])
    made = outcome.outputs[0]
    channels = outcome.weights["kernel"][-2]
    weights: dict[str, Shape] = {
        "kernel": (*kernel, channels, 4 * filters),
        "recurrent_kernel": (*kernel, filters, 4 * filters),
    }
    if layer.flag("use_bias", True):
        weights["bias"] = (4 * filters,)
    inner = FUSED.get(word_of(layer.options.get("activation", "tanh")))
    gate = FUSED.get(word_of(layer.options.get("recurrent_activation", "sigmoid")))
    if inner is None or gate is None:
        raise NotKnown("its activation has no known cost")
    geometry: dict[str, Any] = {}
    cells = _times(shape[1], *made)
    if cells is not None and isinstance(channels, int):
        macs = cells * 4 * prod(kernel) * (channels + filters)
        # Three gates and two functions of the state; four sums of both convolutions; f∘c + i∘g, o∘…
        each = 3 * ACTIVATIONS[gate] + 2 * ACTIVATIONS[inner] + 4 + 4 + (4 if "bias" in weights else 0)
        geometry = {"macs": macs, "ops": 2 * macs + cells * each}
    outputs: list[Shape] = [(made[0], shape[1], *made[1:]) if layer.flag("return_sequences", False) else made]
    if layer.flag("return_state", False):
        outputs += [made, made]
    return bench.state(layer, inputs[:1], path, Outcome(tuple(outputs), weights), Stated("counted", geometry))


def _time_distributed(layer: Layer, inputs: Sequence[str], path: str, bench: Bench) -> tuple[str, ...]:
    return bench.repeat(layer, read_layer(layer.options.get("layer")), inputs, path)


def _times(*sizes: Dimension) -> int | None:
    whole = [size for size in sizes if isinstance(size, int)]
    return prod(whole) if len(whole) == len(sizes) else None


PARTS: dict[str, Part] = {
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), _separable),
    **dict.fromkeys(("MultiHeadAttention", "GroupQueryAttention"), _multi_head),
    **dict.fromkeys(("Attention", "AdditiveAttention"), _attention),
    **dict.fromkeys(_GATES, _recurrent),
    **{f"ConvLSTM{rank}D": _convolutional_recurrent for rank in (1, 2, 3)},
    "Bidirectional": _bidirectional,
    "RNN": _cells,
    "TimeDistributed": _time_distributed,
}
"""Class → how it is put together."""
