"""Reference networks as ONNX files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgewise.zoo.layers import INPUT, OUTPUT, Layer, Layers, Shape

OPSET, IR_VERSION = 17, 8
"""The newest operator set that has all that is needed, and its format: engines since 2022 read them."""


class _Writer:
    """The nodes and constants of a file; `outputs` are the tensors of the layers so far."""

    def __init__(self, net: Layers, *, weights: bool) -> None:
        self.net, self.has_weights = net, weights
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.further_inputs: list[Any] = []
        self.outputs: list[str] = []

    def node(self, operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add an operator; returns its output."""
        from onnx import helper

        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def integers(self, *values: int) -> str:
        """Return a constant of int64."""
        return self._constant(np.array(values, np.int64))

    def number(self, value: float) -> str:
        """Return a scalar of float32."""
        return self._constant(np.array(value, np.float32))

    def weight(self, array: Any) -> str:
        """Return a constant; where the file has no weights, an input of its shape."""
        from onnx import TensorProto, helper

        if self.has_weights:
            return self._constant(array)
        name = f"weight_{len(self.further_inputs)}"
        self.further_inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape))
        return name

    def _constant(self, array: Any) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def layer(self, layer: Layer) -> None:
        """Add the operators of a layer."""
        inputs = [self.outputs[at] for at in layer.inputs]
        done = INPUT if layer.kind in ("input", "tokens-input") else _KINDS[layer.kind](self, layer, inputs)
        self.outputs.append(_ACTIVATIONS[layer.act](self, done))

    def model(self, name: str) -> Any:
        """Return the file as a message."""
        from onnx import TensorProto, helper

        for layer in self.net.rows:
            self.layer(layer)
        self.nodes[-1].output[0] = OUTPUT
        first, last = self.net.rows[0], self.net.rows[-1]
        kind = TensorProto.INT64 if first.kind == "tokens-input" else TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes, name,
            [helper.make_tensor_value_info(INPUT, kind, (1, *first.shape)), *self.further_inputs],
            [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, (1, *last.shape))],
            self.constants,
        )  # fmt: skip
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="edgewise zoo")


def to_onnx(net: Layers, *, name: str, weights: bool = True) -> bytes:
    """Return the bytes of an ``.onnx`` file; the same network gives the same bytes.

    Args:
        weights: False makes them inputs: the file is small, and what its operators cost stays the same.
    """
    content: bytes = _Writer(net, weights=weights).model(name).SerializeToString(deterministic=True)
    return content


def _window(writer: _Writer, layer: Layer) -> dict[str, Any]:
    """Kernel, stride and padding: that of TensorFlow's SAME, whose odd element is at the end."""
    sizes, options = writer.net.shape(layer.inputs[0])[1:], layer.options
    kernel: Shape = options["kernel"]
    pads = [0] * len(sizes)
    if options["same"]:
        needed = zip(sizes, layer.shape[1:], kernel, options["stride"], strict=True)
        pads = [max((after - 1) * step + window - before, 0) for before, after, window, step in needed]
    begins = [pad // 2 for pad in pads]
    ends = [pad - begin for pad, begin in zip(pads, begins, strict=True)]
    return {"kernel_shape": kernel, "strides": options["stride"], "pads": begins + ends}


def _conv(writer: _Writer, layer: Layer, inputs: list[str]) -> str:
    weights = [writer.weight(array) for array in layer.weights]
    return writer.node("Conv", [*inputs, *weights], group=layer.options["groups"], **_window(writer, layer))


def _dense(writer: _Writer, layer: Layer, inputs: list[str]) -> str:
    matrix, bias = layer.weights
    if len(layer.shape) == 1:
        return writer.node("Gemm", [*inputs, writer.weight(matrix), writer.weight(bias)], transB=1)
    product = writer.node("MatMul", [*inputs, writer.weight(np.ascontiguousarray(matrix.T))])
    return writer.node("Add", [product, writer.weight(bias)])


def _mean(writer: _Writer, layer: Layer, inputs: list[str]) -> str:
    pooled = writer.node("GlobalAveragePool", inputs)
    return pooled if layer.options["keep"] else writer.node("Flatten", [pooled])


def _shuffle(writer: _Writer, layer: Layer, inputs: list[str]) -> str:
    channels, *sizes = layer.shape
    groups = layer.options["groups"]
    split = writer.node("Reshape", [*inputs, writer.integers(1, groups, channels // groups, *sizes)])
    order = [0, 2, 1, *range(3, 3 + len(sizes))]
    return writer.node(
        "Reshape", [writer.node("Transpose", [split], perm=order), writer.integers(1, channels, *sizes)]
    )  # fmt: skip


def _slice(writer: _Writer, layer: Layer, inputs: list[str]) -> str:
    ends = (layer.options["first"], layer.options["end"], 1)
    return writer.node("Slice", [*inputs, *map(writer.integers, ends)])


def _tokens(writer: _Writer, layer: Layer, inputs: list[str]) -> str:
    tokens, width = layer.shape
    return writer.node(
        "Transpose", [writer.node("Reshape", [*inputs, writer.integers(1, width, tokens)])], perm=[0, 2, 1]
    )  # fmt: skip


def _transpose(writer: _Writer, layer: Layer, inputs: list[str]) -> str:
    return writer.node("Transpose", inputs, perm=[0, *(at + 1 for at in layer.options["order"])])


def _gelu(writer: _Writer, x: str) -> str:
    half = writer.node("Mul", [x, writer.number(0.5)])
    erf = writer.node("Erf", [writer.node("Mul", [x, writer.number(0.5**0.5)])])
    return writer.node("Mul", [half, writer.node("Add", [erf, writer.number(1.0)])])


_KINDS: Mapping[str, Callable[[_Writer, Layer, list[str]], str]] = {
    "conv": _conv,
    "dense": _dense,
    "mean": _mean,
    "shuffle": _shuffle,
    "slice": _slice,
    "tokens": _tokens,
    "transpose": _transpose,
    "pool": lambda writer, layer, inputs: writer.node("MaxPool", inputs, **_window(writer, layer)),
    "add": lambda writer, layer, inputs: writer.node("Add", inputs),
    "multiply": lambda writer, layer, inputs: writer.node("Mul", inputs),
    "matmul": lambda writer, layer, inputs: writer.node("MatMul", inputs),
    "concat": lambda writer, layer, inputs: writer.node("Concat", inputs, axis=1),
    "softmax": lambda writer, layer, inputs: writer.node("Softmax", inputs, axis=-1),
    "offset": lambda writer, layer, inputs: writer.node("Add", [*inputs, writer.weight(layer.weights[0])]),
    "embed": lambda writer, layer, inputs: writer.node("Gather", [writer.weight(layer.weights[0]), *inputs]),
    "norm": lambda writer, layer, inputs: writer.node(
        "LayerNormalization", [*inputs, *map(writer.weight, layer.weights)]
    ),
    "reshape": lambda writer, layer, inputs: writer.node("Reshape", [*inputs, writer.integers(1, *layer.shape)]),
    "token-mean": lambda writer, layer, inputs: writer.node("ReduceMean", inputs, axes=[1], keepdims=0),
}
_ACTIVATIONS: Mapping[str, Callable[[_Writer, str], str]] = {
    "": lambda writer, x: x,
    "relu": lambda writer, x: writer.node("Relu", [x]),
    "relu6": lambda writer, x: writer.node("Clip", [x, writer.number(0.0), writer.number(6.0)]),
    "hard-swish": lambda writer, x: writer.node("HardSwish", [x]),
    "hard-sigmoid": lambda writer, x: writer.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5),
    "gelu": _gelu,
}
