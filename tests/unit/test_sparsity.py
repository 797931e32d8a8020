"""Zeros and patterns of weights: exact counts on planted ones, in every format whose weights can be read."""

import re
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import torch_weights
from edgewise.errors import BadModel
from edgewise.model import sparsity
from edgewise.model.identity import read_graph
from edgewise.model.sparsity import LayerSparsity, count_denormals, count_zeros
from edgewise.report.inspection.tables import sparsity_section
from exported_programs import graph as torch_graph
from exported_programs import meta, node, program
from messages import says, wording
from openvino_writer import Ir, const, layer, parameter, port, result
from tflite_writer import FLOAT, INT8, one_step

RANDOM = np.random.default_rng(7)


def weights(*shape):
    return RANDOM.uniform(0.5, 1.0, shape).astype(np.float32)


def write_onnx(path, op, tensor, *, left=False, external=False, **attributes):
    """x → `op` with one constant weight → y. `tensor`: an array or a TensorProto."""
    made = tensor if isinstance(tensor, TensorProto) else numpy_helper.from_array(tensor, "w")
    rank = 4 if op.startswith("Conv") else 2
    inputs = ["w", "x"] if left else ["x", "w"]
    body = helper.make_graph(
        [helper.make_node(op, inputs, ["y"], name="layer", **attributes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None] * rank)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)],
        [made],
    )
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save_model(model, path, save_as_external_data=external, location="w.bin", size_threshold=0)
    return path


def look(path, graph=None):
    return count_zeros(read_graph(path) if graph is None else graph, model=path)


def only(path, graph=None) -> LayerSparsity:
    (found,) = look(path, graph).layers
    return found


@pytest.mark.parametrize("external", [False, True])
def test_denormal_weights_are_counted(tmp_path, monkeypatch, external):
    monkeypatch.setattr(sparsity, "PIECE_ELEMENTS", 5)
    array = weights(4, 4)
    array[0] = [1e-39, -1e-40, 0.0, np.finfo(np.float32).tiny]
    path = write_onnx(tmp_path / "m.onnx", "MatMul", array, external=external)
    assert count_denormals(read_graph(path), model=path) == {"w": 2}
    half = write_onnx(tmp_path / "h.onnx", "MatMul", array.astype(np.float16))
    assert count_denormals(read_graph(half), model=half) == {}


@pytest.mark.parametrize("external", [False, True])
def test_two_of_four_along_the_input_channels(tmp_path, external):
    array = weights(8, 16, 3, 3)
    array[:, 0::4] = array[:, 3::4] = 0
    found = only(write_onnx(tmp_path / "m.onnx", "Conv", array, external=external))
    assert (found.zeros, found.elements, found.share) == (576, 1152, 0.5)
    assert found.at_most == {4: 2, 8: 4, 16: 8}
    assert found.patterns == ("2:4", "8 of 16 channels")
    assert (found.zero_filters, found.zero_channels, found.nan) == (0, 8, 0)


def test_the_same_zeros_along_the_filters_are_no_two_of_four(tmp_path):
    array = weights(8, 16, 3, 3)
    array[0::2] = 0
    found = only(write_onnx(tmp_path / "m.onnx", "Conv", array))
    assert found.at_most == {4: 4, 8: 8, 16: 16}
    assert found.patterns == ("4 of 8 filters",)


def test_blocks_are_told_apart(tmp_path):
    array = weights(16, 16)
    array[4:8, 8:12] = 0  # inputs 4 to 7 of the outputs 8 to 11
    found = only(write_onnx(tmp_path / "m.onnx", "MatMul", array))
    assert found.in_blocks == {"1x4": 16, "1x8": 0, "4x1": 16, "8x1": 0, "4x4": 16}
    assert found.patterns == ("4x4 blocks",)
    array[4:8, 8:16] = 0
    assert only(write_onnx(tmp_path / "n.onnx", "MatMul", array)).patterns == ("8x1 blocks", "4x4 blocks")
    array[0, 0] = 0
    assert only(write_onnx(tmp_path / "o.onnx", "MatMul", array)).patterns == ()


@pytest.mark.parametrize(
    ("op", "left", "attributes", "axis"),
    [("MatMul", False, {}, 0), ("MatMul", True, {}, 1), ("Gemm", False, {}, 0), ("Gemm", False, {"transB": 1}, 1),
     ("Gemm", True, {"transA": 1}, 0)],
)  # fmt: skip
def test_the_input_dimension_follows_from_the_operator(tmp_path, op, left, attributes, axis):
    array = weights(16, 16)
    np.moveaxis(array, axis, 0)[::4] = 0
    found = only(write_onnx(tmp_path / "m.onnx", op, array, left=left, **attributes))
    assert (found.at_most[4], found.zero_channels, found.zero_filters) == (3, 4, 0)


def test_a_transposed_convolution_in_groups_has_no_matrix_of_filters(tmp_path):
    array = weights(4, 2, 3, 3)
    array[:2, 1] = 0  # the second filter of the first group
    found = only(write_onnx(tmp_path / "m.onnx", "ConvTranspose", array, group=2))
    assert (found.zeros, found.filters, found.patterns) == (18, None, ())
    assert found.patterns_absent_because == "a weight of ConvTranspose has no matrix of filters and input channels"
    assert only(write_onnx(tmp_path / "m.onnx", "ConvTranspose", array)).filters == 2


def test_nan_is_no_zero_and_negative_zero_is_one(tmp_path):
    array = weights(4, 4)
    array[0, 0], array[1, 1], array[2, 2] = np.nan, -0.0, 0.0
    found = only(write_onnx(tmp_path / "m.onnx", "MatMul", array))
    assert (found.zeros, found.nan) == (2, 1)


def test_all_zero(tmp_path):
    found = only(write_onnx(tmp_path / "m.onnx", "MatMul", np.zeros((32, 32), np.float32)))
    assert (found.zeros, found.patterns) == (1024, ("all zero",))


@pytest.mark.parametrize(
    ("dtype", "bits", "zeros", "nan"),
    [("BFLOAT16", [0x0000, 0x8000, 0x3F80, 0x7FC0], 2, 1), ("FLOAT16", [0x0000, 0x8000, 0x3C00, 0x7E00], 2, 1)],
)  # fmt: skip
def test_narrow_floats(tmp_path, dtype, bits, zeros, nan):
    raw = np.array(bits, "<u2").tobytes()
    tensor = TensorProto(name="w", data_type=TensorProto.DataType.Value(dtype), dims=[2, 2], raw_data=raw)
    found = only(write_onnx(tmp_path / "m.onnx", "MatMul", tensor))
    assert (found.zeros, found.nan) == (zeros, nan)


@pytest.mark.parametrize(("dtype", "name"), [("INT4", "int4"), ("FLOAT8E4M3FN", "float8_e4m3fn")])
def test_zeros_of_narrower_types_are_not_counted(tmp_path, dtype, name):
    tensor = TensorProto(
        name="w",
        data_type=TensorProto.DataType.Value(dtype),
        dims=[4, 4],
        raw_data=bytes(8 if dtype[-1] == "4" else 16),
    )
    found = only(write_onnx(tmp_path / "m.onnx", "MatMul", tensor))
    assert (found.zeros, found.elements) == (None, 16)
    assert re.search(says("edgewise-cant-read-weights-type", dtype=name), found.absent_because)


def quantised(points, array, axis):
    """x → MatMul with an int8 weight behind a DequantizeLinear with these zero points."""
    count = len(points)
    scale = numpy_helper.from_array(np.full(count, 0.5, np.float32) if count > 1 else np.float32(0.5), "s")
    zero = numpy_helper.from_array(np.array(points, np.int8) if count > 1 else np.int8(points[0]), "z")
    body = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=axis), helper.make_node("MatMul", ["x", "d"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, array.shape[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, array.shape[1]])],
        [numpy_helper.from_array(array, "w"), scale, zero],
    )  # fmt: skip
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_a_zero_is_the_zero_point(tmp_path):
    array = RANDOM.integers(10, 100, (8, 8)).astype(np.int8)
    array[0], array[1] = 3, 0
    onnx.save(quantised([3], array, 0), tmp_path / "m.onnx")
    found = only(tmp_path / "m.onnx")
    assert (found.index, found.zeros, found.zero_channels) == (1, 8, 1)  # index 1: the product, not the dequantise


def test_zero_points_per_channel(tmp_path):
    array = RANDOM.integers(50, 100, (8, 4)).astype(np.int8)
    array[2], array[5, 3] = [1, 2, 3, 4], 0
    onnx.save(quantised([1, 2, 3, 4], array, 1), tmp_path / "m.onnx")
    assert (only(tmp_path / "m.onnx").zeros, only(tmp_path / "m.onnx").zero_channels) == (4, 1)


def test_a_shared_weight_counts_once_in_the_totals(tmp_path):
    array = weights(4, 4)
    array[0] = 0
    body = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(array, "w")],
    )
    onnx.save(helper.make_model(body, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    found = look(tmp_path / "m.onnx")
    assert [each.index for each in found.layers] == [0, 1]
    assert found.to_dict()["totals"] == {
        "zeros": 4, "elements": 16, "share": 0.25, "weights": 1, "weights_not_counted": 0
    }  # fmt: skip


def test_pieces_do_not_change_the_result(tmp_path, monkeypatch):
    array = weights(64, 32)
    array[RANDOM.random(array.shape) < 0.6] = 0
    array[16:20, 4:8] = 0
    path = write_onnx(tmp_path / "m.onnx", "Gemm", array, transB=1)
    whole = only(path)
    monkeypatch.setattr(sparsity, "PIECE_ELEMENTS", 1)
    assert only(path) == whole


def test_a_weight_file_that_became_shorter_is_a_bad_model(tmp_path):
    path = write_onnx(tmp_path / "m.onnx", "MatMul", weights(32, 32), external=True)
    graph = read_graph(path)
    (tmp_path / "w.bin").write_bytes(b"\0" * 100)
    with pytest.raises(BadModel, match=says("truncated-weight-ends")):
        look(path, graph)


def test_a_weight_file_outside_the_folder_is_refused(tmp_path):
    (tmp_path / "model").mkdir()
    path = write_onnx(tmp_path / "model" / "m.onnx", "MatMul", weights(32, 32), external=True)
    graph = read_graph(path)
    (tmp_path / "model" / "w.bin").rename(tmp_path / "w.bin")
    (tmp_path / "model" / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(BadModel, match=says("weights-outside-model-folder-through")):
        look(path, graph)


def tflite_dense(path, array, kind, packed=None, **quantization):
    data = one_step(
        "FULLY_CONNECTED",
        lambda w: [
            w.tensor("x", [1, array.shape[1]]),
            w.tensor("w", [*array.shape], kind, 1, **quantization),
            w.tensor("y", [1, array.shape[0]]),
        ],
        [0, 1], [2], buffers=[array.tobytes() if packed is None else packed], FullyConnected={},
    )  # fmt: skip
    path.write_bytes(data)
    return path


def test_tflite_int8_zero_is_the_zero_point(tmp_path):
    array = RANDOM.integers(20, 100, (8, 8)).astype(np.int8)
    array[:, 4:] = 5
    array[0, 0] = 0
    found = only(tflite_dense(tmp_path / "m.tflite", array, INT8, scale=[0.1], zero=5))
    assert (found.zeros, found.zero_channels, found.at_most) == (32, 4, {4: 4, 8: 4})
    assert found.patterns == ("4:8", "4 of 8 channels")


def test_tflite_float(tmp_path):
    array = weights(4, 8)
    array[0] = 0
    assert only(tflite_dense(tmp_path / "m.tflite", array, FLOAT)).patterns == ("1 of 4 filters",)


def test_openvino_with_half_floats_behind_a_conversion(tmp_path):
    array = weights(4, 8).astype(np.float16)
    array[:, 1::2] = 0
    layers = [
        parameter(0, (1, 8)),
        const(1, (4, 8), 0, 64, dtype="f16", precision="FP16"),
        layer(2, "Convert", [port(0, (4, 8), "FP16")], [port(1, (4, 8))], destination_type="f32"),
        layer(3, "MatMul", [port(0, (1, 8)), port(1, (4, 8))], [port(2, (1, 4))], transpose_a="false", transpose_b="true"),
        result(4, (1, 4)),
    ]  # fmt: skip
    ends = [(0, 0, 3, 0), (1, 0, 2, 0), (2, 1, 3, 1), (3, 2, 4, 0)]
    ir = Ir(tmp_path)
    found = only(ir.path, ir.read(layers, *ends, weights=array.tobytes()))
    assert (found.zeros, found.at_most, found.zero_channels) == (16, {4: 2, 8: 4}, 4)


def test_a_pytorch_export_with_plain_weights(tmp_path):
    array = weights(5, 8)
    array[:, ::2] = 0
    body = torch_graph(
        [node("aten.linear.default", {"input": "x", "weight": "p_w"}, "y")],
        {"x": meta(1, 8), "p_w": meta(5, 8), "y": meta(1, 5)},
        ["p_w", "x"],
        ["y"],
    )
    path = torch_weights.write(
        tmp_path / "m.pt2", program(body, parameters={"p_w": "head.weight"}), {"head.weight": array}
    )
    found = only(path)
    assert (found.weight, found.zeros, found.at_most) == ("head.weight", 20, {4: 2, 8: 4})
    packed = torch_weights.write(
        tmp_path / "p.pt2",
        program(body, parameters={"p_w": "head.weight"}),
        {"head.weight": array},
        zipfile.ZIP_DEFLATED,
    )
    assert only(packed).absent_because == wording("edgewise-cant-read-weight-files", format="torch")


def test_the_summary_of_a_network_without_weights():
    assert sparsity_section(sparsity.Sparsity(layers=())).lines == (
        "no weights with two or more dimensions were found",
    )


def test_the_summary_has_the_total(tmp_path):
    found = look(write_onnx(tmp_path / "m.onnx", "MatMul", np.zeros((4, 4), np.float32)))
    assert sparsity_section(found).lines == ("16 of 16 weights are zero (100.0 %)",)
