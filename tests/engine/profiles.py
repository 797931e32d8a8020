"""What holds of every engine's profile of a small network, and that network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgewise.runtime.base import EngineProfile

OPERATORS = {
    "conv": "c", "relu": "r", "conv2": "c2", "add": "a", "pool": "p", "flat": "f", "drop": "d", "mm": "m", "bias": "y",
}  # fmt: skip
"""Name of each operator → the tensor it makes."""


def write_network(path: Path) -> Path:
    """Two convolutions of 32 channels with a sum around the second, pooling and a dense layer: x [1, 3, 32, 32]."""
    from onnx import TensorProto, helper, numpy_helper, save_model

    rng = np.random.default_rng(0)

    def weights(name: str, *sizes: int) -> Any:
        return numpy_helper.from_array(rng.standard_normal(sizes).astype("float32") * 0.1, name)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "w2"], ["c2"], name="conv2", pads=[1] * 4),
        helper.make_node("Add", ["c2", "r"], ["a"], name="add"),
        helper.make_node("GlobalAveragePool", ["a"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Dropout", ["f"], ["d"], name="drop"),
        helper.make_node("MatMul", ["d", "w3"], ["m"], name="mm"),
        helper.make_node("Add", ["m", "b3"], ["y"], name="bias"),
    ]
    constants = [weights("w1", 32, 3, 3, 3), weights("b1", 32), weights("w2", 32, 32, 3, 3), weights("w3", 32, 5)]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [*constants, weights("b3", 5)],
    )
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def random_inputs(session: Any) -> list[Any]:
    """One array per input; open dimensions are 1."""
    rng = np.random.default_rng(0)
    shapes = ([size if isinstance(size, int) else 1 for size in spec.shape] for spec in session.inputs)
    return [(rng.random(shape) * 3).astype(spec.dtype) for shape, spec in zip(shapes, session.inputs, strict=True)]


def check_profile(profile: EngineProfile) -> None:
    """Times have one length, none of a step is negative, names differ, and parts add up to the whole."""
    count = len(profile.inference_ns)
    assert count > 0
    assert len(profile.unprofiled_ns) > 0
    assert min(profile.unprofiled_ns) > 0
    assert profile.nodes
    assert all(len(part.times_ns) == count for part in (*profile.nodes, *profile.overheads))
    assert all(time >= 0 for node in profile.nodes for time in node.times_ns)
    assert len({node.name for node in profile.nodes}) == len(profile.nodes)
    assert all(node.role == "operator" or not node.kinds for node in profile.nodes)
    for at, whole in enumerate(profile.inference_ns):
        parts = sum(part.times_ns[at] for part in (*profile.nodes, *profile.overheads))
        assert abs(parts - whole) < 1  # ns; what is told was rounded to whole ones at most once


def told_of(profile: EngineProfile) -> float:
    """Share of the steps' time that is of a step with a name of the model, or not an operator of it."""
    known = sum(sum(node.times_ns) for node in profile.nodes if node.originals or node.role != "operator")
    return known / sum(sum(node.times_ns) for node in profile.nodes)
