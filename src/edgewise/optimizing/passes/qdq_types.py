"""Rewrites a QDQ model of another tool so that onnxruntime runs all of it in integers."""

from __future__ import annotations

from typing import Any

from edgewise.model.readers.onnx_blocks import replace_nodes

_THROUGH = (
    "Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "MaxPool", "AveragePool", "GlobalAveragePool",
)  # fmt: skip
"""Operators whose outputs are in the range of their input, so the input's scale is valid for the outputs."""


def fit_for_onnxruntime(model: Any) -> str:
    """Apply all rewrites in place. Returns a note on the changes; "" where there are none."""
    carried, unsigned, biases = carry_through(model), make_unsigned(model), quantize_biases(model)
    told = [
        f"{carried} poolings and reshapes quantised with their input's scale" if carried else "",
        f"{unsigned} activations made unsigned" if unsigned else "",
        f"{biases} biases made int32" if biases else "",
    ]
    return "for onnxruntime's integer kernels: " + ", ".join(filter(None, told)) if any(told) else ""


def carry_through(model: Any) -> int:
    """Quantise the outputs of poolings and reshapes with the scale of their quantised inputs.

    Tools leave these steps in float between a DequantizeLinear and the next layer. onnxruntime then runs that layer in
    float too, and dequantises its weights in every inference. Only averages are rounded again.

    Returns:
        The number of changed nodes.
    """
    from onnx import helper

    makers = {name: node for node in model.graph.node for name in node.output}
    quantized = {node.input[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    results = {info.name for info in model.graph.output}
    nodes: list[Any] = []
    carried = 0
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type not in _THROUGH or len(node.output) != 1:
            continue
        source, name = makers.get(node.input[0]), node.output[0]
        if source is None or source.op_type != "DequantizeLinear" or name in quantized | results:
            continue
        if _is_weight(source, makers) or any(each.name == "axis" for each in source.attribute):
            continue
        inner, rest = f"{name} before quantisation", list(source.input[1:])
        node.output[0] = inner
        nodes.append(helper.make_node("QuantizeLinear", [inner, *rest], [f"{name} quantized"], name=f"{name} quantize"))
        nodes.append(
            helper.make_node("DequantizeLinear", [f"{name} quantized", *rest], [name], name=f"{name} dequantize")
        )
        makers[name] = nodes[-1]
        carried += 1
    if carried:
        replace_nodes(model.graph, nodes)
    return carried


def _is_weight(dequantize: Any, makers: dict[str, Any]) -> bool:
    """Whether the node dequantises a constant."""
    maker = makers.get(dequantize.input[0])
    return maker is None or maker.op_type != "QuantizeLinear"


def make_unsigned(model: Any) -> int:
    """Turn activations from int8 into uint8, zero points shifted by 128: the same real numbers in every inference.

    onnxruntime runs a convolution in integers only if its input and its output have the same type, and tools mix
    types: unsigned after a ReLU, signed elsewhere.

    Returns:
        The number of changed QuantizeLinear nodes.
    """
    import numpy as np
    from onnx import numpy_helper

    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    takers: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            takers.setdefault(name, []).append(node)
    results = {info.name for info in model.graph.output}
    changed = 0
    for node in model.graph.node:
        if node.op_type != "QuantizeLinear" or len(node.input) < 3 or node.input[0] in constants:
            continue
        zero = constants.get(node.input[2])
        users = takers.get(node.output[0], [])
        if zero is None or zero.data_type != zero.INT8 or node.output[0] in results:
            continue
        if not users or any(user.op_type != "DequantizeLinear" or len(user.input) < 3 for user in users):
            continue
        name = f"{zero.name}_unsigned"
        if name not in constants:
            shifted = np.asarray(numpy_helper.to_array(zero).astype(np.int16) + 128).astype(np.uint8)
            constants[name] = numpy_helper.from_array(shifted, name)
            model.graph.initializer.append(constants[name])
        for each in (node, *users):
            each.input[2] = name
        changed += 1
    _forget_types(model)
    return changed


def quantize_biases(model: Any) -> int:
    """Turn float biases of Gemm nodes with quantised inputs into int32, which onnxruntime requires for integers.

    The scale is the product of the inputs' scales, as ONNX defines it for QLinearConv
    (https://onnx.ai/onnx/operators/onnx__QLinearConv.html). Biases that do not fit into int32 stay float.

    Returns:
        The number of changed biases.
    """
    from onnx import helper

    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    makers = {name: node for node in model.graph.node for name in node.output if node.op_type == "DequantizeLinear"}
    added: list[tuple[int, Any]] = []
    for index, node in enumerate(model.graph.node):
        factors = {each.name: each.f for each in node.attribute if each.name in ("alpha", "beta")}
        if node.op_type != "Gemm" or len(node.input) < 3 or any(factor != 1 for factor in factors.values()):
            continue
        scales = [constants.get(makers[name].input[1]) for name in node.input[:2] if name in makers]
        bias = constants.get(node.input[2])
        if bias is None or len(scales) < 2 or scales[0] is None or scales[1] is None:
            continue
        tensors = _as_integers(bias, scales[0], scales[1], name=f"{bias.name} of {node.name}")
        if tensors is None:
            continue
        model.graph.initializer.extend(tensors)
        names = [tensor.name for tensor in tensors]
        dequantize = helper.make_node(
            "DequantizeLinear", names, [f"{names[0]}_dequantized"], name=f"{names[0]}_dequantize", axis=0
        )
        node.input[2] = dequantize.output[0]
        added.append((index, dequantize))
    for index, dequantize in reversed(added):
        model.graph.node.insert(index, dequantize)
    return len(added)


def _as_integers(bias: Any, data_scale: Any, weight_scale: Any, *, name: str) -> list[Any] | None:
    """Return the bias as int32, its scale and its zero point; None where it can't be represented."""
    import numpy as np
    from onnx import numpy_helper

    values = numpy_helper.to_array(bias).astype(np.float64)
    scale = numpy_helper.to_array(data_scale).astype(np.float64) * numpy_helper.to_array(weight_scale)
    if values.ndim != 1 or scale.size not in (1, values.size) or not np.all(scale > 0):
        return None
    integers = np.round(values / scale)
    if np.abs(integers).max(initial=0) > np.iinfo(np.int32).max:
        return None
    scale = scale.reshape(-1) if scale.size > 1 else scale.reshape(())
    return [
        numpy_helper.from_array(integers.astype(np.int32), f"{name}_quantized"),
        numpy_helper.from_array(scale.astype(np.float32), f"{name}_scale"),
        numpy_helper.from_array(np.zeros(scale.shape, np.int32), f"{name}_zero_point"),
    ]


def _forget_types(model: Any) -> None:
    """Remove the declared types of outputs of QuantizeLinear, which are wrong now."""
    made = {name for node in model.graph.node if node.op_type == "QuantizeLinear" for name in node.output}
    kept = [info for info in model.graph.value_info if info.name not in made]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
