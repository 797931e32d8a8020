"""OpenVINO's steps of networks of the kinds that lose their names: every one is matched, with all MACs, once."""

import statistics

import numpy as np
import pytest

from edgewise.model.cost import count
from edgewise.model.identity import read_graph
from edgewise.profiling.layers import NAMELESS, build_profile
from edgewise.runtime.base import LoadOptions
from edgewise.runtime.openvino import OpenVino
from engine.profiles import random_inputs
from litert_networks import NetworkWriter

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not OpenVino().availability(), reason="openvino is not installed"),
]


def profile(path):
    """The graph and its layers."""
    session = OpenVino().load(path, LoadOptions(provider="cpu", threads=1, profile=True))
    session.bind(random_inputs(session))
    session.invoke()
    told = session.profile_layers(3)
    graph = read_graph(path)
    layers, _ = build_profile(graph, [told], latency=statistics.median(told.inference_ns) * 1e-9)
    return graph, layers


def check(graph, layers):
    """All MACs in rows with a time, each operator in one row, no step without an operator."""
    rows = [index for layer in layers for index in layer.operators]
    assert sorted(rows) == list(range(len(graph.operators)))
    assert [layer.name for layer in layers if layer.op == NAMELESS] == []
    assert [(layer.name, layer.op) for layer in layers if layer.kind == "unmatched"] == []
    timed = sum(layer.macs or 0 for layer in layers if layer.kind == "operator")
    assert timed == sum(count(each, graph).macs or 0 for each in graph.operators) > 0
    assert all(layer.macs == 0 for layer in layers if layer.kind == "eliminated")


def partners(layers):
    """Operator → type of the engine's layer that runs it."""
    return {name: layer.engine_op.split()[0] for layer in layers if layer.kind == "operator" for name in layer.nodes}


class Landmarks(NetworkWriter):
    """A landmark network in small: float16 weights, separable convolutions with PReLU, two heads."""

    def half_convolution(self, source, name, shape, filters, *, kernel=1, stride=1, bias=None):
        schema = self.schema
        weight = self.weight(f"{name}/w", (filters, kernel, kernel, shape[3]), half=True)
        bias = self.weight(f"{name}/b", (filters,), half=True) if bias is None else bias
        options = schema.Conv2DOptionsT(strideW=stride, strideH=stride, dilationWFactor=1, dilationHFactor=1)
        size = (1, shape[1] // stride, shape[2] // stride, filters)
        return self.operator("CONV_2D", [source, weight, bias], self.tensor(name, size), options), size

    def depthwise(self, source, name, shape, *, bias):
        weight = self.weight(f"{name}/w", (1, 3, 3, shape[3]), half=True)
        options = self.schema.DepthwiseConv2DOptionsT(
            strideW=1, strideH=1, depthMultiplier=1, dilationWFactor=1, dilationHFactor=1
        )
        return self.operator("DEPTHWISE_CONV_2D", [source, weight, bias], self.tensor(name, shape), options)

    def prelu(self, source, name, shape):
        slope = self.weight(f"{name}/slope", (1, 1, shape[3]), half=True)
        return self.operator("PRELU", [source, slope], self.tensor(name, shape))

    def add(self, first, second, name, shape):
        return self.operator("ADD", [first, second], self.tensor(name, shape), self.schema.AddOptionsT())

    def block(self, source, name, shape, *, bias):
        """x + pointwise(depthwise(x)), PReLU; the bias of the depthwise convolution is another's too."""
        deep = self.depthwise(source, f"{name}/dw", shape, bias=bias)
        wide, _ = self.half_convolution(deep, f"{name}/pw", shape, shape[3])
        return self.prelu(self.add(source, wide, f"{name}/add", shape), f"{name}/prelu", shape)

    def build(self, path):
        schema = self.schema
        x = self.tensor("x", (1, 32, 32, 3))
        stem, shape = self.half_convolution(x, "stem", (1, 32, 32, 3), 16, kernel=3, stride=2)
        trunk = self.prelu(stem, "stem/prelu", shape)
        shared = self.weight("shared/b", (16,), half=True)
        for at in range(2):
            trunk = self.block(trunk, f"block{at}", shape, bias=shared)
        # half the size and twice the channels: pooled and padded beside a convolution
        small = (1, 8, 8, 16)
        options = schema.Pool2DOptionsT(
            padding=schema.Padding.VALID, strideW=2, strideH=2, filterWidth=2, filterHeight=2
        )
        pooled = self.operator("MAX_POOL_2D", [trunk], self.tensor("pool", small), options)
        widths = self.tensor("widths", (4, 2), dtype="int32", data=np.array([[0, 0], [0, 0], [0, 0], [0, 16]]))
        padded = self.operator("PAD", [pooled, widths], self.tensor("pad", (1, 8, 8, 32)))
        down, shape = self.half_convolution(trunk, "down", shape, 32, kernel=2, stride=2)
        trunk = self.prelu(self.add(down, padded, "add", shape), "prelu", shape)
        # two heads, whose operators stand in turns in the file
        again = self.weight("again/b", (32,), half=True)
        heads = [self.depthwise(trunk, f"head{at}/dw", shape, bias=again) for at in range(2)]
        heads = [self.prelu(head, f"head{at}/prelu", shape) for at, head in enumerate(heads)]
        points = self.half_convolution(heads[0], "points", shape, 6, kernel=8, stride=8)[0]
        up = self.tensor("size", (2,), dtype="int32", data=np.array([16, 16]))
        resized = self.operator(
            "RESIZE_BILINEAR",
            [heads[1], up],
            self.tensor("resize", (1, 16, 16, 32)),
            schema.ResizeBilinearOptionsT(halfPixelCenters=True),
        )
        mask = self.half_convolution(resized, "mask", (1, 16, 16, 32), 1)[0]
        mask = self.operator("LOGISTIC", [mask], self.tensor("probability", (1, 16, 16, 1)))
        return self.save(path, inputs=[x], outputs=[points, mask])


def test_a_landmark_network_of_tflite(tmp_path):
    pytest.importorskip("ai_edge_litert")
    graph, layers = profile(Landmarks().build(tmp_path / "landmarks.tflite"))
    check(graph, layers)
    ran = partners(layers)
    for name in ("stem", "block0/dw", "block1/pw", "down", "head0/dw", "head1/dw", "points", "mask"):
        assert ran[name].endswith("Convolution"), name
    assert ran["pool"] == "Pooling"
    assert ran["resize"] == "Interpolate"
    assert {layer.op for layer in layers if layer.kind == "eliminated"} == {"DEQUANTIZE"}


def voice_network(path):
    """Voice activity in small: a filter bank, magnitudes of its two halves, a convolution, an LSTM, a head."""
    from onnx import TensorProto, helper, numpy_helper, save_model

    rng = np.random.default_rng(0)

    def weights(name, *sizes):
        return numpy_helper.from_array(rng.standard_normal(sizes).astype("float32") * 0.1, name)

    def whole(name, *numbers):
        return numpy_helper.from_array(np.array(numbers, "int64"), name)

    node = helper.make_node
    nodes = [
        node("Conv", ["x", "bank"], ["c"], name="bank", strides=[64]),
        node("Slice", ["c", "zero", "middle", "one"], ["re"], name="re"),
        node("Slice", ["c", "middle", "end", "one"], ["im"], name="im"),
        node("Pow", ["re", "two"], ["re2"], name="re2"),
        node("Pow", ["im", "two"], ["im2"], name="im2"),
        node("Add", ["re2", "im2"], ["sum"], name="sum"),
        node("Sqrt", ["sum"], ["magnitude"], name="magnitude"),
        node("Conv", ["magnitude", "w", "b"], ["e"], name="encoder", pads=[1, 1]),
        node("Relu", ["e"], ["r"], name="relu"),
        node("Transpose", ["r"], ["t"], name="turn", perm=[2, 0, 1]),
        node("LSTM", ["t", "wx", "wh", "bx", "", "h", "s"], ["l", "hn", "sn"], name="lstm", hidden_size=32),
        node("Squeeze", ["l", "one"], ["q"], name="squeeze"),
        node("Relu", ["q"], ["r2"], name="relu2"),
        node("Transpose", ["r2"], ["t2"], name="back", perm=[1, 2, 0]),
        node("Conv", ["t2", "wo", "bo"], ["o"], name="head"),
        node("Sigmoid", ["o"], ["y"], name="sigmoid"),
    ]
    constants = [
        *(weights("bank", 66, 1, 128), weights("w", 32, 33, 3), weights("b", 32)),
        *(weights("wx", 1, 128, 32), weights("wh", 1, 128, 32), weights("bx", 1, 256)),
        *(weights("wo", 1, 32, 1), weights("bo", 1), numpy_helper.from_array(np.array(2, "float32"), "two")),
        *(whole("zero", 0), whole("one", 1), whole("middle", 33), whole("end", 66)),
    ]

    def value(name, *sizes):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)

    graph = helper.make_graph(
        nodes,
        "voice",
        [value("x", 1, 1, 1024), value("h", 1, 1, 32), value("s", 1, 1, 32)],
        [value("y", 1, 1, 15), value("hn", 1, 1, 32), value("sn", 1, 1, 32)],
        constants,
    )
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_voice_network_with_an_lstm(tmp_path):
    pytest.importorskip("onnx")
    graph, layers = profile(voice_network(tmp_path / "voice.onnx"))
    check(graph, layers)
    ran = partners(layers)
    assert ran["lstm"] == "RNNSeq"
    assert ran["head"] == "Convolution"
    assert {"re", "im", "relu2"} <= ran.keys()
