"""Outlines of model files read from their bytes."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.errors import BadModel
from edgewise.runtime import protowire
from edgewise.runtime.openvino_mapping import outline_of_tflite
from edgewise.runtime.operator_mapping import Outline
from edgewise.wire import Damaged
from messages import says
from tiny_models import write_tiny_onnx


def test_an_onnx_file(tmp_path):
    pytest.importorskip("onnx")
    found = protowire.read_outline(write_tiny_onnx(tmp_path / "m.onnx", extra_inputs=("z",)))
    assert [(node.op, node.inputs, node.outputs) for node in found.nodes] == [
        ("Add", ("x", "z"), ("xz",)),
        ("MatMul", ("xz", "w"), ("result",)),
        ("Relu", ("result",), ("y",)),
    ]
    assert found.constants == {"w"}


def test_names_and_attributes_of_onnx_operators(tmp_path):
    onnx = pytest.importorskip("onnx")
    nodes = [
        onnx.helper.make_node("LeakyRelu", ["x"], ["a"], name="one", alpha=0.1),
        onnx.helper.make_node("LeakyRelu", ["x"], ["b"], name="two", alpha=0.1),
        onnx.helper.make_node("LeakyRelu", ["x"], ["c"], name="three", alpha=0.2),
        onnx.helper.make_node("Clip", ["a", "", "b"], ["y"]),
    ]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [], []))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    one, two, three, four = protowire.read_outline(path).nodes
    assert [one.name, two.name, three.name, four.name] == ["one", "two", "three", ""]
    assert one.signature == two.signature != three.signature
    assert four.inputs == ("a", "", "b")


def test_sparse_constants_of_an_onnx_file():
    onnx = pytest.importorskip("onnx")
    graph = onnx.GraphProto()
    graph.sparse_initializer.add().values.name = "s"
    model = onnx.ModelProto(graph=graph)
    assert protowire.parse_outline(memoryview(model.SerializeToString())).constants == {"s"}


def field(number, content):
    """A field of a protobuf message that has a length."""
    length, left = b"", len(content)
    while left > 127:
        length, left = length + bytes([left & 127 | 128]), left >> 7
    return bytes([number << 3 | 2]) + length + bytes([left]) + content


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x3a\x05\x0a", says("field-longer-than-what-holds")),
        (b"\x3a\x02\x0a\x05", says("field-longer-than-what-holds")),
        (b"\x3a\xff\xff", "cut off"),
        (b"\xff" * 20, says("number-too-long")),
        (b"\x02\x00", says("field-number-0")),
        (b"\x0b", says("field-unknown-type", wire=3)),
        (b"\x39\x00", "cut off"),
        (field(7, field(1, field(3, b"a" * 65_537))), says("name-more-than-bytes", max_text_bytes=65536)),
    ],
)
def test_damaged_onnx_bytes(data, reason):
    with pytest.raises(Damaged, match=reason):
        protowire.parse_outline(memoryview(data))


def test_an_empty_file(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"")
    with pytest.raises(Damaged, match=says("empty")):
        protowire.read_outline(path)


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_outline_or_damaged(data):
    try:
        assert isinstance(protowire.parse_outline(memoryview(data)), Outline)
    except Damaged:
        pass


def test_a_tflite_file(shared_models):
    tflite = pytest.importorskip("tflite")
    path = shared_models / "vww_96_int8.tflite"
    graph = tflite.Model.GetRootAs(path.read_bytes()).Subgraphs(0)
    names = [graph.Tensors(at).Name().decode() for at in range(graph.TensorsLength())]
    found = outline_of_tflite(path)
    assert len(found.nodes) == graph.OperatorsLength() == 31
    for node, at in zip(found.nodes, range(31), strict=True):
        operator = graph.Operators(at)
        assert node.inputs == tuple(names[index] for index in operator.InputsAsNumpy())
        assert node.outputs == tuple(names[index] for index in operator.OutputsAsNumpy())
    assert {node.op for node in found.nodes} == {
        "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "RESHAPE", "SOFTMAX",
    }  # fmt: skip
    assert found.nodes[0].inputs[1] in found.constants
    assert found.nodes[0].inputs[0] not in found.constants


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_tflite_file_with_any_word_changed(shared_models, tmp_path_factory, data):
    content = bytearray((shared_models / "ad01_int8.tflite").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) // 4 - 1)) * 4
        struct.pack_into(
            "<I", content, at, data.draw(st.sampled_from([0, 1, 2**31, 2**32 - 1, len(content), 8, 2**16]))
        )
    path = tmp_path_factory.getbasetemp() / "changed.tflite"
    path.write_bytes(content)
    try:
        assert isinstance(outline_of_tflite(path), Outline)
    except BadModel:
        pass
