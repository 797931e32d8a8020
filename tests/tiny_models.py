"""Small models for tests, written on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


def write_tiny_onnx(
    path: Path,
    *,
    batch: int | str | None = 1,
    opset: int = 17,
    extra_inputs: Sequence[str] = (),
    external: bool = False,
) -> Path:
    """``y = relu(x @ w)``: x float32 [batch, 4], w [4, 2] of 1 … 8, y float32 [batch, 2].

    Args:
        batch: a size, a name, or None for an open dimension without one.
        extra_inputs: ``"z"`` (float32 like x, added to it) and ``"ids"`` (int64 [batch, 2], added to the product).
        external: keep w in a file ``weights.bin`` beside the model.
    """
    from onnx import TensorProto, helper, numpy_helper, save_model

    def value(name: str, kind: int, *sizes: int | str | None) -> Any:
        return helper.make_tensor_value_info(name, kind, list(sizes))

    inputs = [value("x", TensorProto.FLOAT, batch, 4)]
    nodes, fed = [], "x"
    if "z" in extra_inputs:
        inputs.append(value("z", TensorProto.FLOAT, batch, 4))
        nodes.append(helper.make_node("Add", [fed, "z"], ["xz"]))
        fed = "xz"
    nodes.append(helper.make_node("MatMul", [fed, "w"], ["result"]))
    result = "result"
    if "ids" in extra_inputs:
        inputs.append(value("ids", TensorProto.INT64, batch, 2))
        nodes.append(helper.make_node("Cast", ["ids"], ["ids_float"], to=TensorProto.FLOAT))
        nodes.append(helper.make_node("Add", [result, "ids_float"], ["sum"]))
        result = "sum"
    nodes.append(helper.make_node("Relu", [result], ["y"]))
    weights = numpy_helper.from_array(np.arange(1, 9, dtype=np.float32).reshape(4, 2), "w")
    graph = helper.make_graph(nodes, "tiny", inputs, [value("y", TensorProto.FLOAT, batch, 2)], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    save_model(model, path, save_as_external_data=external, location="weights.bin", size_threshold=0)
    return path
