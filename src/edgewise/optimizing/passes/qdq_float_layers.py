"""Protects layers that a pass left in float: onnxruntime quantises some of them when it loads the file.

Between a DequantizeLinear with one scale and a QuantizeLinear, onnxruntime (its WeightBiasQuantization) rounds float
weights of a convolution or Gemm to 8 bits per tensor. With the same scale repeated per channel, which gives the same
numbers, it leaves the layer alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.optimizing.passes.onnx_files import sort_nodes

_LAYERS = ("Conv", "ConvTranspose", "Gemm")
_CARRIERS = ("MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten")
"""Operators across which onnxruntime moves a DequantizeLinear with one scale."""


def protect_float_layers(model: Any) -> int:
    """Make onnxruntime keep float weights behind quantised inputs in float, in place.

    Args:
        model: an ``onnx.ModelProto`` with QuantizeLinear and DequantizeLinear nodes, operator set 13 or later.

    Returns:
        The number of protected layers.
    """
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    makers = {name: node for node in model.graph.node for name in node.output}
    shapes = _known_shapes(model)
    clones: dict[str, Any] = {}
    protected = 0
    for node in model.graph.node:
        if node.op_type not in _LAYERS or not _is_float(constants.get(node.input[1])):
            continue
        taker = node
        while (source := makers.get(taker.input[0])) is not None and source.op_type in _CARRIERS:
            taker = source
        if source is None or source.op_type != "DequantizeLinear" or not _has_one_scale(source, constants):
            continue
        name = taker.input[0]
        if name not in clones:
            place = _place(shapes.get(name) or (_shape_before(node, constants) if taker is node else ()))
            if place is None:
                continue
            clones[name] = _per_channel(source, *place, model=model, constants=constants)
        taker.input[0] = clones[name].output[0]
        protected += 1
    if clones:
        model.graph.node.extend(clones.values())
        sort_nodes(model)
    return protected


def _known_shapes(model: Any) -> Mapping[str, tuple[int, ...]]:
    """Tensor → its shape, 0 for a size that is open."""
    infos = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    return {
        info.name: tuple(each.dim_value for each in info.type.tensor_type.shape.dim)
        for info in infos
        if info.type.tensor_type.HasField("shape")
    }


def _shape_before(node: Any, constants: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of a layer's input as far as the weights determine it: the size of axis 1."""
    attributes = {each.name: each.i for each in node.attribute}
    dims = tuple(constants[node.input[1]].dims)
    if node.op_type == "Conv":
        return (0, dims[1] * attributes.get("group", 1))
    if node.op_type == "ConvTranspose":
        return (0, dims[0])
    return () if attributes.get("transA") else (0, dims[1] if attributes.get("transB") else dims[0])


def _place(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return an axis with more than one value and its size; channels first."""
    axes = sorted(range(len(shape)), key=lambda axis: axis != 1)
    return next(((axis, shape[axis]) for axis in axes if shape[axis] > 1), None)


def _is_float(tensor: Any) -> bool:
    return tensor is not None and tensor.data_type == tensor.FLOAT


def _has_one_scale(dequantize: Any, constants: Mapping[str, Any]) -> bool:
    """Whether its scale is a constant number."""
    if dequantize.input[0] in constants or any(name not in constants for name in dequantize.input[1:] if name):
        return False
    return all(size == 1 for size in constants[dequantize.input[1]].dims)


def _per_channel(dequantize: Any, axis: int, size: int, *, model: Any, constants: Mapping[str, Any]) -> Any:
    """Return the same node with its scale and zero point repeated for every value of `axis`."""
    import numpy as np
    from onnx import helper, numpy_helper

    name = f"{dequantize.output[0]} per channel"
    inputs = [dequantize.input[0]]
    for role, given in zip(("scale", "zero point"), dequantize.input[1:], strict=False):
        if not given:
            continue
        value = numpy_helper.to_array(constants[given]).reshape(())
        tensor = numpy_helper.from_array(np.full((size,), value, value.dtype), f"{name}, {role}")
        model.graph.initializer.append(tensor)
        inputs.append(tensor.name)
    return helper.make_node("DequantizeLinear", inputs, [name], name=name, axis=axis)
