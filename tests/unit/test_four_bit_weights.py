"""Weights of few bits in ONNX files: parameters, bytes, precision and support as of the weights that they are."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgewise.model.identity import read_graph
from edgewise.model.inspection import inspect_graph
from edgewise.model.operator_sets import OnnxRuntimeCpu, OpenVinoOnnx
from edgewise.model.sparsity import count_zeros

RANDOM = np.random.default_rng(26)


def pack(codes, bits):
    """Codes of `bits` bits along the last dimension, the first in the lowest bits of a byte."""
    each = 8 // bits
    filled = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % each)])
    parts = [filled[..., at::each].astype(np.uint8) << (bits * at) for at in range(each)]
    return np.bitwise_or.reduce(parts).astype(np.uint8)


def write(path, node, constants, *, columns=256, rows=512, opset=21):
    graph = helper.make_graph(
        [*(node if isinstance(node, list) else [node])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, columns])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, rows])],
        [each if isinstance(each, TensorProto) else numpy_helper.from_array(each, name) for name, each in constants],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=12), path)
    return path


def facts(path):
    """Precision, MACs, parameters, bytes of weights and of scales; zeros of packed weights are not counted."""
    graph = read_graph(path)
    found = inspect_graph(graph, source={}, sets=[])
    (layer,) = count_zeros(graph, model=path).layers
    total = found.total
    assert layer.zeros is None
    assert layer.absent_because
    return found.precision, total.macs, total.parameters, total.weight_bytes, total.scale_bytes


def nbits(path, bits, *, rows=512, columns=256, block=32, zeros="", bias=False):
    """A model of one MatMulNBits."""
    blocks = -(-columns // block)
    codes = RANDOM.integers(0, 2**bits, (rows, blocks, block))
    usual = np.full((rows, blocks), 2 ** (bits - 1))
    points = RANDOM.integers(0, 2**bits, (rows, blocks)) if zeros else usual
    constants = [("w", pack(codes, bits)), ("s", RANDOM.random((rows, blocks), dtype=np.float32) + 0.1)]
    names = ["x", "w", "s"]
    if zeros:
        constants.append(("z", pack(points, bits) if zeros == "packed" else points.astype(np.float32)))
        names.append("z")
    if bias:
        names += [""] * (5 - len(names)) + ["b"]
        constants.append(("b", np.ones(rows, np.float32)))
    node = helper.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=columns, N=rows, bits=bits, block_size=block
    )
    write(path, node, constants, columns=columns, rows=rows)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_packed_products_count_as_the_float_network(tmp_path, bits):
    nbits(tmp_path / "m.onnx", bits)
    assert facts(tmp_path / "m.onnx") == (
        f"float32 with uint{bits} weights", 131_072, 131_072, 131_072 * bits // 8, 16_384
    )  # fmt: skip


def test_rows_filled_up_to_whole_blocks(tmp_path):
    """100 columns in blocks of 32: four blocks, of which the last is filled up; seven zero points in four bytes."""
    nbits(tmp_path / "m.onnx", 4, rows=8, columns=100, zeros="packed")
    assert facts(tmp_path / "m.onnx") == ("float32 with uint4 weights", 800, 800, 8 * 64, 8 * 4 * 4 + 8 * 2)
    nbits(tmp_path / "n.onnx", 4, rows=8, columns=200, zeros="packed")
    assert facts(tmp_path / "n.onnx")[3:] == (8 * 112, 8 * 7 * 4 + 8 * 4)


def test_zero_points_in_floats_and_a_bias(tmp_path):
    nbits(tmp_path / "m.onnx", 4, rows=8, columns=64, zeros="float", bias=True)
    found = read_graph(tmp_path / "m.onnx")
    layers = count_zeros(found, model=tmp_path / "m.onnx").layers
    assert [(each.weight, each.zeros) for each in layers] == [("w", None)]  # neither the scales nor the zero points
    total = inspect_graph(found, source={}, sets=[]).total
    assert (total.parameters, total.weight_bytes, total.scale_bytes) == (512 + 8, 256 + 32, 8 * 2 * 4 * 2)


@pytest.mark.parametrize("kind", [1, 0])
def test_normal_floats_of_bitsandbytes(tmp_path, kind):
    codes = RANDOM.integers(0, 16, (16, 64))
    packed = pack(codes[..., [at ^ 1 for at in range(64)]], 4).reshape(-1)  # the first of two in the upper half
    node = helper.make_node(
        "MatMulBnb4", ["x", "w", "s"], ["y"], domain="com.microsoft", K=64, N=16, block_size=32, quant_type=kind
    )
    path = write(tmp_path / "m.onnx", node, [("w", packed), ("s", np.ones(32, np.float32))], columns=64, rows=16)
    word = "nf4" if kind else "fp4"
    assert facts(path) == (f"float32 with {word} weights", 1024, 1024, 512, 128)


@pytest.mark.parametrize("signed", [True, False])
def test_gathered_blocks(tmp_path, signed):
    """A table [10, 64] in blocks of 32; bytes have 8 as their usual zero point, int4 has 0."""
    codes = RANDOM.integers(0, 16, (10, 64))
    table = helper.make_tensor("w", TensorProto.INT4, [10, 64], (codes - 8).reshape(-1)) if signed else pack(codes, 4)
    node = helper.make_node(
        "GatherBlockQuantized",
        ["w", "i", "s"],
        ["y"],
        domain="com.microsoft",
        block_size=32,
        gather_axis=0,
        quantize_axis=1,
        bits=4,
    )
    constants = [("w", table), ("i", np.array([3])), ("s", np.ones((10, 2), np.float32))]
    path = write(tmp_path / "m.onnx", node, constants, columns=64, rows=64)
    graph = read_graph(path)
    total = inspect_graph(graph, source={}, sets=[]).total
    assert (graph.tensors["w"].shape, graph.tensors["w"].dtype) == ((10, 64), "int4" if signed else "uint4")
    assert (total.parameters, total.weight_bytes, total.scale_bytes) == (640, 320, 80)


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "INT2", "UINT2"])
@pytest.mark.parametrize("shape", [(256, 512), (64, 8)], ids=["big", "small"])
@pytest.mark.parametrize("raw", [True, False])
def test_dequantised_blocks_wherever_the_numbers_lie(tmp_path, kind, shape, raw):
    """Small and big tensors, as bytes and as the varints that `make_tensor` writes, with zero points in blocks."""
    bits, signed = int(kind[-1]), kind[0] == "I"
    low = -(2 ** (bits - 1)) if signed else 0
    codes = RANDOM.integers(low, low + 2**bits, shape)
    points = RANDOM.integers(low, low + 2**bits, (shape[0] // 32, shape[1]))
    number = getattr(TensorProto, kind)

    def tensor(name, values):
        if raw:
            return helper.make_tensor(
                name, number, values.shape, pack(values.reshape(-1) % 2**bits, bits).tobytes(), raw=True
            )
        return helper.make_tensor(name, number, values.shape, values.reshape(-1).tolist())

    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=-2, block_size=32),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    scales = np.ones(points.shape, np.float32)
    constants = [("w", tensor("w", codes)), ("s", scales), ("z", tensor("z", points))]
    path = write(tmp_path / "m.onnx", nodes, constants, columns=shape[0], rows=shape[1], opset=25)
    elements = shape[0] * shape[1]
    assert facts(path) == (
        f"float32 with {kind.lower()} weights", elements, elements, elements * bits // 8,
        scales.nbytes + points.size * bits // 8,
    )  # fmt: skip


def test_four_bit_floats(tmp_path):
    values = RANDOM.choice([0.0, 0.5, 1.0, -6.0], (64, 32)).astype(np.float32)
    weight = helper.make_tensor("w", TensorProto.FLOAT4E2M1, [64, 32], values.reshape(-1).tolist())
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    path = write(
        tmp_path / "m.onnx", nodes, [("w", weight), ("s", np.ones(32, np.float32))], columns=64, rows=32, opset=23
    )
    assert facts(path) == ("float32 with float4_e2m1 weights", 2048, 2048, 1024, 128)


def test_bytes_that_do_not_fit_the_options_stay_bytes(tmp_path):
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=64, N=800, block_size=32)
    path = write(
        tmp_path / "m.onnx", node, [("w", np.zeros((8, 2, 16), np.uint8)), ("s", np.ones(16, np.float32))], columns=64
    )
    tensor = read_graph(path).tensors["w"]
    assert (tensor.dtype, tensor.shape, tensor.container) == ("uint8", (8, 2, 16), "")


def convolution(path, kind):
    weight = helper.make_tensor("w", kind, [4, 3, 3, 3], [1] * 108)
    graph = helper.make_graph(
        [helper.make_node("ConvInteger", ["x", "w"], ["y"], name="conv_quant")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 4, 6, 6])],
        [weight],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return inspect_graph(read_graph(path), source={}, sets=[OnnxRuntimeCpu(), OpenVinoOnnx()]).support


def test_a_type_that_the_operator_forbids_is_not_supported(tmp_path):
    runtime, openvino = convolution(tmp_path / "bad.onnx", TensorProto.UINT4)
    assert "ConvInteger" in runtime.refusals[0]
    assert "uint4" in runtime.refusals[0]
    assert not openvino.refusals
    assert "uint4" in openvino.unknown[0]
    good = convolution(tmp_path / "good.onnx", TensorProto.UINT8)
    assert [(each.refusals, each.unknown) for each in good] == [({}, {})] * 2


def test_inputs_of_one_type_that_differ_are_not_supported(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="mixed")]
    path = write(tmp_path / "m.onnx", nodes, [("w", np.ones((64, 32), np.float64))], columns=64, rows=32)
    (support,) = inspect_graph(read_graph(path), source={}, sets=[OnnxRuntimeCpu()]).support
    assert "float32 and float64" in support.refusals[0]


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"bits": 5}, (8, 2, 20)),
        ({"bits": -1}, (8, 2, 16)),
        ({"bits": 2**40}, (8, 2, 16)),
        ({"block_size": 0}, (8, 2, 16)),
        ({"N": 2**40, "K": 2**40}, (8, 2, 16)),
        ({"K": 0}, (8, 2, 16)),
        ({"N": 0}, (0, 2, 16)),
    ],
)
def test_options_without_sense_are_survived(tmp_path, options, shape):
    options = {"K": 64, "N": 8, "block_size": 32, **options}
    node = helper.make_node("MatMulNBits", ["x", "w", "s", "z"], ["y"], domain="com.microsoft", **options)
    constants = [("w", np.zeros(shape, np.uint8)), ("s", np.ones(16, np.float32)), ("z", np.arange(3, dtype=np.uint8))]
    path = write(tmp_path / "m.onnx", node, constants, columns=64)
    graph = read_graph(path)
    inspect_graph(graph, source={}, sets=[OnnxRuntimeCpu(), OpenVinoOnnx()])
    count_zeros(graph, model=path)


@pytest.mark.parametrize("axis", [-9, 0, 1, 9])
@pytest.mark.parametrize("block", [-1, 0, 7, 2**40])
def test_blocks_without_sense_are_survived(tmp_path, axis, block):
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=axis, block_size=block),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    constants = [
        ("w", np.ones((64, 8), np.int8)), ("s", np.ones((2, 8), np.float32)), ("z", np.arange(16, dtype=np.int8).reshape(2, 8)),
    ]  # fmt: skip
    path = write(tmp_path / "m.onnx", nodes, constants, columns=64, rows=8)
    (layer,) = count_zeros(read_graph(path), model=path).layers
    assert layer.zeros is None or axis == 0
