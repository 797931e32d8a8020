"""What the steps of ExecuTorch's programs mean: PyTorch's operators by position of their arguments, XNNPACK's nodes.

A program keeps the arguments of an operator in the order of its schema and without names, so `ARGUMENTS` has the names
of those operators whose meaning depends on them; they are those of ``aten/src/ATen/native/native_functions.yaml``.
XNNPACK's nodes are those of backends/xnnpack/serialization/runtime_schema.fbs of ExecuTorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from edgewise.model.dialects.base import (
    RawOperator,
    Rule,
    Semantics,
    apply,
    each,
    function,
    mean,
    moving,
    per_element,
    reducing,
    shape_of,
    size_of,
    unknown,
)
from edgewise.model.dialects.torch import OPERATORS, interpret
from edgewise.model.dialects.torch_network import base_name
from edgewise.model.graph import Tensor
from edgewise.model.readers.executorch_schema import XNNPACK_NODES

ARGUMENTS = {
    "convolution": "input weight bias stride padding dilation transposed output_padding groups",
    "linear": "input weight bias",
    "addmm": "self mat1 mat2 beta alpha",
    "mm": "self mat2",
    "bmm": "self mat2",
    "add": "self other alpha",
    "sub": "self other alpha",
    "div": "self other rounding_mode",
    "mul": "self other",
    "pow": "self exponent",
    "clamp": "self min max",
    "gelu": "self approximate",
    "max_pool2d_with_indices": "self kernel_size stride padding dilation ceil_mode",
    "avg_pool2d": "self kernel_size stride padding ceil_mode count_include_pad divisor_override",
    "_adaptive_avg_pool2d": "self output_size",
    "native_layer_norm": "input normalized_shape weight bias eps",
    "native_group_norm": "input weight bias N C HxW group eps",
    "_native_batch_norm_legit_no_training": "input weight bias running_mean running_var momentum eps",
    "_to_dim_order_copy": "self",
    "max": "self dim keepdim",
    "min": "self dim keepdim",
}
"""Operator without namespace and overload → its arguments in the order of the schema, ``out`` not among them."""

_UNNAMED = unknown("edgewise does not know the order of its arguments")


class ExecuTorchMeanings:
    """What the steps of programs mean, as `edgewise.model.readers.executorch_graph.Meanings`."""

    def arguments(self, op: str) -> Sequence[str]:
        """Names of the arguments of a kernel, as far as they are known."""
        return ARGUMENTS.get(base_name(op), "").split()

    def interpret(
        self, op: str, attributes: Mapping[str, Any], inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]
    ) -> Semantics:
        """Return what a step is: a node of XNNPACK, a kernel, or a step of the program itself."""
        if op == "MoveCall":
            return moving()
        if op == "JumpFalseCall":
            return unknown("which steps follow depends on the data")
        raw = RawOperator(op=op, attributes=attributes, inputs=inputs, outputs=outputs)
        return interpret_node(raw) if op in XNNPACK_NODES else interpret_kernel(raw)


def interpret_kernel(raw: RawOperator) -> Semantics:
    """Return what a kernel of the program is: ``aten.cumsum.out``; its attributes have names where `ARGUMENTS` has
    them.
    """
    name = base_name(raw.op)
    if name in OPERATORS and name not in ARGUMENTS and not isinstance(OPERATORS[name], Semantics):
        return _UNNAMED
    return interpret(raw)


def interpret_node(raw: RawOperator) -> Semantics:
    """Return what a node of XNNPACK is; its attributes are the node's fields.

    Every constant that it takes is a parameter.
    """
    semantics = apply(XNNPACK.get(raw.op), raw)
    return Semantics(kind=semantics.kind, geometry=semantics.geometry, weights=raw.positions, why=semantics.why)


def _convolution(raw: RawOperator) -> Semantics:
    """Fused clamps are in the attribute ``activation``."""
    kernel = raw.natural("kernel_height", 0) * raw.natural("kernel_width", 0)
    transposed = raw.op == "XNNConvTranspose2d"
    channels = raw.natural("group_output_channels" if transposed else "group_input_channels", 0)
    return mean(
        "transposed-convolution" if transposed else "convolution",
        reduction=kernel * channels,
        depthwise=raw.op == "XNNDepthwiseConv2d",
        bias=raw.given(2),
        activation=raw.text("activation", "none"),
    )


def _product(raw: RawOperator) -> Semantics:
    return mean(
        "matrix-multiplication",
        reduction=size_of(raw.input(0), -1),
        bias=raw.given(2),
        activation=raw.text("activation", "none"),
    )


def _pooling(raw: RawOperator) -> Semantics:
    window = raw.natural("pooling_height", 0) * raw.natural("pooling_width", 0)
    return mean(
        "pooling", window=window, average=raw.op == "XNNAvgPooling2d", activation=raw.text("activation", "none")
    )


def _convert(raw: RawOperator) -> Semantics:
    """To and from integers, else between floating-point types."""
    source, target = raw.input(0), raw.output()
    if source is None or target is None:
        return unknown("it has no input or output")
    if target.dtype.startswith(("int", "uint")):
        return per_element(4, kind="quantize")
    return per_element(2, kind="dequantize") if source.dtype.startswith(("int", "uint")) else per_element(1)


def _arithmetic(raw: RawOperator) -> Semantics:
    return mean("elementwise", per_element=1, activation=raw.text("activation", "none"))


def _attention(raw: RawOperator) -> Semantics:
    query, key, value = (raw.input(at) for at in range(3))
    if min(len(shape_of(each)) for each in (query, key, value)) < 3:
        return unknown("its tensors have too few dimensions")
    sizes = shape_of(query)[:-2]
    closed = [size for size in sizes if isinstance(size, int)]
    batch = prod(closed) if len(closed) == len(sizes) else None
    return mean(
        "attention", batch=batch, heads=1, queries=size_of(query, -2), keys=size_of(key, -2),
        depth=size_of(query, -1), value_depth=size_of(value, -1), per_score=1,
    )  # fmt: skip


XNNPACK: dict[str, Rule] = {
    **each("XNNConv2d XNNDepthwiseConv2d XNNConvTranspose2d", _convolution),
    **each("XNNFullyConnected XNNBatchMatrixMultiply", _product),
    **each("XNNAvgPooling2d XNNMaxPooling2d", _pooling),
    **each("XNNAdd XNNSubtract XNNMultiply XNNDiv XNNMinimum XNNMaximum", _arithmetic),
    **each("XNNFloor XNNCeiling XNNNegate XNNAbs XNNSquare XNNCos", per_element(1)),
    **each(
        "XNNStaticTranspose XNNStaticConstantPad XNNStaticReshape XNNConcatenate2 XNNConcatenate3 XNNConcatenate4 "
        "XNNConcatenate5 XNNStaticSlice XNNCopy",
        moving(),
    ),
    **{
        f"XNN{name}": function(word)
        for name, word in {
            "Sigmoid": "sigmoid", "Clamp": "clamp", "Hardswish": "hard-swish", "LeakyReLU": "leaky-relu",
            "PReLU": "leaky-relu", "ELU": "elu", "SquareRoot": "sqrt", "Log": "log", "Gelu": "gelu", "Tanh": "tanh",
            "Exp": "exp", "Sin": "sin",
        }.items()
    },
    "XNNReciprocalSquareRoot": per_element(2),
    "XNNSoftmax": mean("softmax"),
    "XNNGlobalAvgPooling2d": reducing(1, 1),
    "XNNStaticResizeBilinear2D": per_element(7, kind="resize"),
    "XNNConvert": _convert,
    "XNNScaledDotProductAttention": _attention,
}  # fmt: skip
"""Node of a graph of XNNPACK → what it means."""
