"""Profiles of float networks and what quantisation makes of them, on ONNX Runtime: the same work is found in both.

No time is compared with a number of seconds: which steps do the same work does not depend on how long they take.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgewise.model.identity import read_graph
from edgewise.profiling.layer_matching import pair_layers
from edgewise.profiling.layers import build_profile
from edgewise.runtime.base import LoadOptions
from edgewise.runtime.onnxruntime import OnnxRuntime
from engine.profiles import random_inputs, write_network
from sample_runs import make_run

onnx = pytest.importorskip("onnx")
quantization = pytest.importorskip("onnxruntime.quantization")
pytestmark = pytest.mark.engine


def profiled(path):
    """A run with the layers that the engine timed in a few inferences."""
    session = OnnxRuntime().load(path, LoadOptions(provider="cpu", threads=1, profile=True))
    session.bind(random_inputs(session))
    session.invoke()
    told = session.profile_layers(20)
    session.close()
    layers, profile = build_profile(read_graph(path), [told], latency=1e-3)
    return replace(make_run(1), layers=layers, profile=profile)


class Pictures(quantization.CalibrationDataReader):
    """Random inputs of `write_network`."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._left = [{"x": rng.random((1, 3, 32, 32), dtype="float32")} for _ in range(3)]

    def get_next(self):
        return self._left.pop() if self._left else None


def quantise(path, way):
    made = path.with_name(f"{way}.onnx")
    if way == "dynamic":
        quantization.quantize_dynamic(path, made, weight_type=quantization.QuantType.QUInt8)
    else:
        form = quantization.QuantFormat.QDQ if way == "qdq" else quantization.QuantFormat.QOperator
        quantization.quantize_static(path, made, Pictures(), quant_format=form)
    return made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["dynamic", "qdq", "qoperator"])
def test_every_product_is_paired_with_the_steps_that_do_its_work(tmp_path, way):
    path = write_network(tmp_path / "network.onnx")
    before, after = profiled(path), profiled(quantise(path, way))
    products = {layer.name for layer in before.layers if layer.macs}
    pairs = [pair for pair in pair_layers(before, after) if any(layer.macs for layer in (*pair.before, *pair.after))]
    assert {layer.name for pair in pairs for layer in pair.before} >= products
    assert all(pair.is_paired and (pair.is_alike or not pair.is_counted) for pair in pairs), pairs
    assert any(pair.is_alike and any("conv2" in layer.nodes for layer in pair.before) for pair in pairs)
    conversions = {"DynamicQuantizeLinear", "QuantizeLinear", "DequantizeLinear"}
    alone = [pair for pair in pair_layers(before, after) if not pair.is_paired and pair.kind == "operator"]
    # conversions of weights have no input that flows
    assert not [pair for pair in alone if pair.op in conversions and pair.after[0].inputs]
    if way == "dynamic":
        (chain,) = [pair for pair in pairs if any("conv2" in layer.nodes for layer in pair.before)]
        ops = {layer.op for layer in chain.after}
        assert {"DynamicQuantizeLinear", "ConvInteger", "Cast", "Mul"} <= ops


def write_transformer(path):
    """A feed-forward half of a transformer's layer with an open number of tokens, as exporters write it."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)

    def constant(name, *shape, value=None):
        array = np.full(shape, value) if value is not None else rng.standard_normal(shape) * 0.1
        return numpy_helper.from_array(array.astype("float32"), name)

    def node(op, inputs, output, **attributes):
        return helper.make_node(op, inputs, [output], name=f"{op}_{output}", **attributes)

    nodes = [
        node("MatMul", ["x", "w1"], "m1"), node("Add", ["b1", "m1"], "a1"),
        node("Div", ["a1", "root"], "d"), node("Erf", ["d"], "e"), node("Add", ["e", "one"], "e1"),
        node("Mul", ["a1", "e1"], "g"), node("Mul", ["g", "half"], "gelu"),
        node("MatMul", ["gelu", "w2"], "m2"), node("Add", ["b2", "m2"], "a2"), node("Add", ["a2", "x"], "s"),
        node("ReduceMean", ["s"], "mean", axes=[-1]), node("Sub", ["s", "mean"], "c"), node("Pow", ["c", "two"], "p"),
        node("ReduceMean", ["p"], "v", axes=[-1]), node("Add", ["v", "small"], "ve"), node("Sqrt", ["ve"], "sd"),
        node("Div", ["c", "sd"], "n"), node("Mul", ["n", "scale"], "ns"), node("Add", ["ns", "shift"], "ln"),
        node("Transpose", ["ln"], "t", perm=[0, 2, 1]), node("MatMul", ["ln", "t"], "y"),
    ]  # fmt: skip
    constants = [
        constant("w1", 32, 64), constant("b1", 64), constant("w2", 64, 32), constant("b2", 32),
        constant("root", value=2**0.5), constant("one", value=1), constant("half", value=0.5), constant("two", value=2),
        constant("small", value=1e-5), constant("scale", 32), constant("shift", 32),
    ]  # fmt: skip
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "tokens", 32]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "tokens", "tokens"]),
    ]
    graph = helper.make_graph(nodes, "t", ends[:1], ends[1:], constants)
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_fused_rows_have_the_name_of_what_their_step_computes(tmp_path):
    run = profiled(write_transformer(tmp_path / "transformer.onnx"))
    rows = {name: layer for layer in run.layers if layer.kind == "operator" for name in layer.nodes}
    assert rows["MatMul_y"].macs is None  # the number of tokens is open
    assert rows["MatMul_y"].op == "MatMul"
    assert rows["Erf_e"].op in ("Gelu", "BiasGelu")
    assert rows["Pow_p"].op in ("SkipLayerNormalization", "LayerNormalization")
    assert rows["Add_ln"] is rows["Pow_p"]
    assert not {layer.op for layer in run.layers if "MatMul_m1" in layer.nodes} & {"Reshape", "Add"}
