"""A network as exporters of Paddle write it: flat names, and hard-swish as four element-wise operators.

No time is compared with a number of seconds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgewise.model.identity import read_graph
from edgewise.profiling.findings import find
from edgewise.profiling.layers import build_profile
from edgewise.report.graph import make_graph
from edgewise.runtime.base import LoadOptions
from edgewise.runtime.onnxruntime import OnnxRuntime
from engine.profiles import random_inputs
from sample_runs import make_run

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.engine

CONVOLUTIONS = 60


def write_detector(path):
    """`CONVOLUTIONS` pointwise convolutions of 8 channels, each with a hard-swish behind it: x [1, 8, 32, 32]."""
    from onnx import TensorProto, helper, numpy_helper, save_model

    rng = np.random.default_rng(0)
    scalars = {"three": 3.0, "zero": 0.0, "six": 6.0}
    constants = [numpy_helper.from_array(np.array(value, "float32"), name) for name, value in scalars.items()]
    nodes, at = [], "x"

    def add(op, *inputs):
        name = f"p2o.{op}.{sum(node.op_type == op for node in nodes)}"
        nodes.append(helper.make_node(op, inputs, [f"{name}.out"], name=name))
        return f"{name}.out"

    for number in range(CONVOLUTIONS):
        constants.append(numpy_helper.from_array(rng.standard_normal((8, 8, 1, 1)).astype("float32"), f"w{number}"))
        made = add("Conv", at, f"w{number}")
        at = add("Div", add("Mul", made, add("Clip", add("Add", made, "three"), "zero", "six")), "six")
    shape = [1, 8, 32, 32]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", at)]
    graph = helper.make_graph(nodes, "detector", ends[:1], ends[1:], constants)
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_chains_are_found_and_no_type_is_a_block(tmp_path):
    path = write_detector(tmp_path / "detector.onnx")
    session = OnnxRuntime().load(path, LoadOptions(provider="cpu", threads=1, profile=True))
    session.bind(random_inputs(session))
    session.invoke()
    told = session.profile_layers(10)
    session.close()
    layers, profile = build_profile(read_graph(path), [told], latency=1e-3)
    assert [layer.nodes for layer in layers if layer.op == "Conv"] == [(f"p2o.Conv.{at}",) for at in range(60)]
    # A fast machine's clock may tell no time of a step: which steps are a chain does not depend on how long they take.
    known = {"time": 1e-6, "low": 0.9e-6, "high": 1.1e-6}
    layers = tuple(replace(layer, **known) if layer.kind == "operator" else layer for layer in layers)
    chains = [each for each in find(layers, profile, graph=read_graph(path)) if each.code == "element-wise-chains"]
    assert [(each.evidence["operators"], each.evidence["chains"]) for each in chains] == [(240, 60)]
    names = [block.name for block in make_graph([replace(make_run(1), layers=layers, profile=profile)]).blocks]
    assert not {"Conv", "Add", "Clip", "Mul", "Div"} & set(names)
