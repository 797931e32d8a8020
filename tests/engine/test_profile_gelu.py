"""GELU as exporters write it, between convolutions: which of ONNX Runtime's kernels is which layer.

No time is compared with a number of seconds.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from edgewise.model.identity import read_graph
from edgewise.profiling.layers import build_profile
from edgewise.runtime.base import LoadOptions
from edgewise.runtime.onnxruntime import OnnxRuntime
from engine.profiles import random_inputs

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.engine

GELU = ("Div", "Erf", "Add", "Mul", "Mul")


def write_network(path, *, bias=False, copies=False, residual=False, half_first=False):
    """Two blocks of Conv → GELU → Conv on x [1, 16, 16, 16].

    Args:
        bias: an addition after each convolution.
        copies: Identity and Cast to the same type between operators, as exporters of Paddle write them.
        residual: what goes into the GELU is added to what the block makes.
        half_first: the input is halved before it is multiplied.
    """
    from onnx import TensorProto, helper, numpy_helper, save_model

    rng = np.random.default_rng(0)
    constants = [
        numpy_helper.from_array(np.array(value, "float32"), name)
        for name, value in {"root": 2**0.5, "one": 1.0, "half": 0.5}.items()
    ]
    nodes = []

    def add(op, *inputs, **attributes):
        name = f"{op}.{sum(node.op_type == op for node in nodes)}"
        nodes.append(helper.make_node(op, inputs, [f"{name}.out"], name=name, **attributes))
        return f"{name}.out"

    def keep(*shape):
        name = f"constant{len(constants)}"
        constants.append(numpy_helper.from_array(rng.standard_normal(shape).astype("float32"), name))
        return name

    def copy(tensor):
        return add("Cast", add("Identity", tensor), to=TensorProto.FLOAT) if copies else tensor

    def convolve(tensor):
        made = add("Conv", copy(tensor), keep(16, 16, 3, 3), pads=[1] * 4)
        return add("Add", copy(made), keep(1, 16, 1, 1)) if bias else made

    at = "x"
    for _ in range(2):
        before = copy(convolve(at))
        one = add("Add", add("Erf", add("Div", before, "root")), "one")
        if half_first:
            gelu = add("Mul", add("Mul", before, "half"), one)
        else:
            gelu = add("Mul", add("Mul", before, one), "half")
        at = convolve(gelu)
        at = add("Add", at, before) if residual else at
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 16, 16]) for name in ("x", at)]
    graph = helper.make_graph(nodes, "gelu", ends[:1], ends[1:], constants)
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def kernels_of(path, folder):
    """Kinds of kernels in the order of execution, as ONNX Runtime's own profile has them."""
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.enable_profiling = True
    settings.profile_file_prefix = str(folder / "own")
    session = ort.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    session.run(None, {"x": np.zeros([1, 16, 16, 16], "float32")})
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    kernels = [event for event in events if event["name"].endswith("_kernel_time")]
    return [event["args"]["op_name"] for event in kernels]


@pytest.mark.parametrize(
    "given", [{}, {"bias": True}, {"residual": True}, {"half_first": True}, {"bias": True, "copies": True},
              {"bias": True, "copies": True, "residual": True}],
)  # fmt: skip
def test_each_kernel_is_a_row_of_its_kind(tmp_path, given):
    path = write_network(tmp_path / "gelu.onnx", **given)
    session = OnnxRuntime().load(path, LoadOptions(provider="cpu", threads=1, profile=True))
    session.bind(random_inputs(session))
    session.invoke()
    told = session.profile_layers(5)
    session.close()
    graph = read_graph(path)
    layers, _ = build_profile(graph, [told], latency=1e-3)
    own = [op for op in kernels_of(path, tmp_path) if not op.startswith("Reorder") and op != "Cast"]
    assert own == ["Conv", "Gelu", "Conv"] * 2
    rows = [layer for layer in layers if layer.kind == "operator" and layer.engine_op != "Cast"]
    assert [layer.engine_op for layer in rows] == own
    assert [layer.op for layer in rows] == own
    assert {len(layer.engine_nodes) for layer in rows} == {1}
    kinds = {operator.name: operator.op for operator in graph.operators}
    for layer in rows:
        done = [kinds[name] for name in layer.nodes if kinds[name] not in ("Cast", "Identity")]
        assert sorted(done) == sorted(GELU) if layer.op == "Gelu" else set(done) <= {"Conv", "Add"} and "Conv" in done
