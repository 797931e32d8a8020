"""Networks that OpenVINO wrote, held against what it reads back itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise import data
from edgewise.model.cost import count, total_of
from edgewise.model.readers.openvino import OpenVinoReader

pytestmark = pytest.mark.engine


def convert(source: Path, target: Path, *, compress: bool):
    """An IR of `source` by OpenVINO itself, and its operators as OpenVINO reads them back: name → (type, shapes)."""
    openvino = pytest.importorskip("openvino")
    openvino.save_model(openvino.convert_model(source), target, compress_to_fp16=compress)
    told = {}
    for node in openvino.Core().read_model(target).get_ordered_ops():
        shapes = [
            tuple(d.get_length() if d.is_static else None for d in each.get_partial_shape()) for each in node.outputs()
        ]
        told[node.get_friendly_name()] = (node.get_type_name(), shapes, "decompression_0" in node.get_rt_info())
    return told


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("name", ["digits_cnn.onnx", "digits_cnn.tflite"])
def test_layers_and_shapes_are_those_openvino_sees(tmp_path, name, compress):
    told = convert(data.path(name), tmp_path / "m.xml", compress=compress)
    graph = OpenVinoReader().read_graph(tmp_path / "m.xml")
    folded = {"Constant", "Parameter", "Result"}
    expected = {each: shapes for each, (kind, shapes, packed) in told.items() if kind not in folded and not packed}
    found = {each.name: [graph.tensors[name].shape for name in each.outputs] for each in graph.operators}
    assert found == expected
    # five convolutions of 3 × 3 and one linear layer, each with a bias
    weights = 32 * 1 * 9 + 32 * 32 * 9 + 64 * 32 * 9 + 64 * 64 * 9 + 64 * 64 * 9 + 10 * 64
    assert total_of(graph).parameters == weights + 32 + 32 + 64 + 64 + 64 + 10


def test_costs_of_a_network_that_openvino_wrote(tmp_path):
    convert(data.path("digits_cnn.tflite"), tmp_path / "m.xml", compress=True)
    graph = OpenVinoReader().read_graph(tmp_path / "m.xml")
    products = [each.weights for each in graph.operators if each.kind in ("convolution", "matrix-multiplication")]
    assert len(products) == 6
    # outputs × filter elements: 32² places, 32²; then 16², 8², 8² with strides; a linear layer of 64 to 10
    macs = [32 * 32**2 * 9, 32 * 32**2 * 288, 64 * 16**2 * 288, 64 * 8**2 * 576, 64 * 8**2 * 576, 640]
    assert [count(each, graph).macs for each in graph.operators if each.weights and count(each, graph).macs] == macs
    assert total_of(graph).macs == sum(macs)
    assert total_of(graph).weight_bytes == 2 * (102_304 + 266)


def test_tiny_network(tmp_path, tiny_onnx):
    told = convert(tiny_onnx(batch=3), tmp_path / "m.xml", compress=False)
    graph = OpenVinoReader().read_graph(tmp_path / "m.xml")
    assert {each.name for each in graph.operators} == {
        each for each, (kind, *_) in told.items() if kind not in ("Constant", "Parameter", "Result")
    }
    # 3 × 2 outputs of 4 products, then as many comparisons
    found = total_of(graph)
    assert (found.macs, found.ops, found.parameters, found.weight_bytes) == (24, 54, 8, 32)
    assert (graph.inputs, graph.outputs) == (("x",), ("y",))


def test_a_real_network_has_its_known_size(tmp_path):
    """SqueezeNet 1.1: 1,235,496 parameters and 349 million multiply-accumulates (https://github.com/forresti/SqueezeNet)."""
    onnx = pytest.importorskip("onnx")
    told = convert(
        Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx", tmp_path / "m.xml", compress=True
    )
    graph = OpenVinoReader().read_graph(tmp_path / "m.xml")
    assert (total_of(graph).macs, total_of(graph).parameters) == (349_151_936, 1_235_496)
    # The weights of this file are made up and many of them equal: OpenVINO stores those once.
    assert total_of(graph).weight_bytes <= (tmp_path / "m.bin").stat().st_size < 2 * 1_235_496
    assert all([graph.tensors[name].shape for name in each.outputs] == told[each.name][1] for each in graph.operators)
