"""The network of an OpenVINO IR: tensors, order, packed constants, and files that do not hold together."""

from __future__ import annotations

import re
import struct

import pytest

from edgewise.errors import BadInput, BadModel
from edgewise.model.cost import count, total_of
from edgewise.model.graph import Quantization
from edgewise.model.readers.base import ReadsGraph
from edgewise.model.readers.openvino import OpenVinoReader
from messages import says
from openvino_writer import Ir, const, layer, network, parameter, port, relu, result


@pytest.fixture
def read(tmp_path):
    """Write an IR and read its graph."""
    return Ir(tmp_path).read


@pytest.fixture
def refuse(tmp_path):
    """Write an IR and say why it is refused."""
    return Ir(tmp_path).refuse


CHAIN = [parameter(0, (2, 3)), relu(1), relu(2), result(3, (2, 3))]
CHAINED = [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0)]


def test_the_reader_reads_graphs():
    assert isinstance(OpenVinoReader(), ReadsGraph)


def test_names_order_and_facts(read):
    layers = [
        relu(2, name="second"),
        result(3, (2, 3), extra=' output_names="y"'),
        layer(1, "ReLU", [port(0, (2, 3))], [port(1, (2, 3), names="zz,mid")], name="first", version="opset1"),
        parameter(0, (2, 3), names="x"),
    ]
    info = '<rt_info><info name="OpenVINO Runtime" value="2026.4"/><conversion><is_python_object value="False"/></conversion></rt_info>'
    graph = read(layers, *CHAINED, info=info)
    assert [operator.name for operator in graph.operators] == ["first", "second"]  # the file has them the other way
    assert [operator.outputs for operator in graph.operators] == [("mid",), ("y",)]
    assert (graph.inputs, graph.outputs) == (("x",), ("y",))
    assert (graph.name, graph.format, graph.version, graph.producer) == ("m", "openvino", "IR 11", "OpenVINO 2026.4")
    assert graph.tensors["mid"].shape == (2, 3)
    assert graph.operators[0].kind == "activation"
    assert graph.operators[0].attributes["version"] == "opset1"
    assert not graph.operators[0].custom


def test_ports_without_names_and_doubled_names(read):
    graph = read([parameter(0, (2, 3), name="x"), relu(1, name="a"), relu(2, name="a"), result(3, (2, 3))], *CHAINED)
    assert graph.inputs == ("x",)
    assert [(each.name, each.outputs) for each in graph.operators] == [("a", ("a:1",)), ("a#2", ("a#2:1",))]


def test_version_10_without_precisions_of_inputs(read):
    plain = '<port id="0"><dim>2</dim><dim>3</dim></port>'
    layers = [parameter(0, (2, 3)), layer(1, "ReLU", [plain], [port(1, (2, 3))]), layer(2, "Result", [plain])]
    info = '<meta_data><MO_version value="2021.4"/></meta_data>'
    graph = read(layers, (0, 0, 1, 0), (1, 1, 2, 0), version=10, info=info)
    assert (graph.version, graph.producer) == ("IR 10", "OpenVINO 2021.4")


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("FP32", "float32"), ("FP16", "float16"), ("BF16", "bfloat16"), ("I8", "int8"), ("U8", "uint8"), ("I4", "int4"),
     ("U4", "uint4"), ("U1", "uint1"), ("BOOL", "bool"), ("I64", "int64"), ("F8E4M3", "float8_e4m3fn"), ("NF4", "nf4"),
     ("STRING", "string")],
)  # fmt: skip
def test_precisions(read, precision, dtype):
    layers = [parameter(0, (2, 3)), layer(1, "Convert", [port(0, (2, 3))], [port(1, (2, 3), precision)])]
    assert read([*layers, result(2, (2, 3))], (0, 0, 1, 0), (1, 1, 2, 0)).tensors["Convert_1:1"].dtype == dtype


def test_open_dimensions_stay_open_and_given_ones_are_set(read):
    layers = [parameter(0, (None, 3), shape="?,3", name="x"), relu(1, (-1, 3)), result(2, (-1, 3))]
    ends = [(0, 0, 1, 0), (1, 1, 2, 0)]
    graph = read(layers, *ends)
    assert graph.tensors["x"].shape == (None, 3)
    assert graph.tensors[graph.outputs[0]].shape == (None, 3)
    assert "open" in count(graph.operators[0], graph).why
    given = read(layers, *ends, shapes={"x": (5, 3)})
    assert given.tensors["x"].shape == (5, 3)
    assert given.tensors[given.outputs[0]].shape == (5, 3)
    for wrong in ({"y": (5, 3)}, {"x": (5, 4)}, {"x": (5,)}, {"x": (-1, 3)}):
        with pytest.raises(BadInput):
            read(layers, *ends, shapes=wrong)
    assert read(CHAIN, *CHAINED, shapes={"Parameter_0": (2, 3)}).tensors["Parameter_0"].shape == (2, 3)


def test_options_and_notes(read):
    rest = '<rt_info><attribute name="fused_names" version="0" value="a, b"/><attribute name="long" value="' + "c" * 500
    rest += '"/></rt_info>'
    graph = read(
        [parameter(0, (2, 3)), relu(1, rest=rest, levels=256, alpha="0.5", flag="true", pads="0, 1", word="same_upper",
                                    big="1_0", bad="nan", huge="1e999"), result(3, (2, 3))],
        (0, 0, 1, 0), (1, 1, 3, 0),
    )  # fmt: skip
    assert graph.operators[0].attributes == {
        "levels": 256, "alpha": 0.5, "flag": True, "pads": [0, 1], "word": "same_upper", "big": "1_0", "bad": "nan",
        "huge": "1e999", "version": "opset1", "rt_info": {"fused_names": "a, b", "long": "500 characters"},
    }  # fmt: skip


def test_scalars_and_unknown_ranks(read):
    def shape_of(kind, *more, rank="2,3", more_dims=()):
        ports = [port(0, (2, 3) if rank == "2,3" else ()), *(port(at + 1, more_dims, "I64") for at in range(len(more)))]
        first = parameter(0, (2, 3)) if rank == "2,3" else parameter(0, (), shape=rank)
        ends = [(0, 0, 1, 0), *((9 + at, 0, 1, at + 1) for at in range(len(more))), (1, 5, 2, 0)]
        graph = read(
            [first, *more, layer(1, kind, ports, [port(5, ())]), result(2, ())], *ends, weights=struct.pack("<2q", 0, 1)
        )
        return graph.tensors[f"{kind}_1:5"].shape

    axes = const(9, (2,), 0, 16, dtype="i64", precision="I64")
    assert shape_of("ReduceSum", axes, more_dims=(2,)) == ()
    assert shape_of("ReduceSum", parameter(9, (), dtype="i64")) is None
    assert shape_of("ReLU", rank="...") is None
    assert shape_of("ReLU", rank="") == ()
    assert shape_of("Squeeze") is None  # which dimensions are 1 is for the engine to say
    assert shape_of("Frobnicate") is None
    assert shape_of("Loop") is None


F16 = [
    parameter(0, (2, 4)),
    const(1, (3, 4), 0, 24, dtype="f16", precision="FP16", name="w_compressed"),
    layer(2, "Convert", [port(0, (3, 4), "FP16")], [port(1, (3, 4))], name="w", destination_type="f32"),
    layer(3, "MatMul", [port(0, (2, 4)), port(1, (3, 4))], [port(2, (2, 3))], transpose_b="true"),
    result(4, (2, 3)),
]


def test_weights_in_16_bits_are_one_constant(read):
    graph = read(F16, (0, 0, 3, 0), (1, 0, 2, 0), (2, 1, 3, 1), (3, 2, 4, 0), weights=bytes(24))
    assert [operator.op for operator in graph.operators] == ["MatMul"]
    weights = graph.tensors["w:1"]
    assert (weights.shape, weights.dtype, weights.constant, weights.stored_bytes) == ((3, 4), "float32", True, 24)
    assert graph.operators[0].weights == ("w:1",)
    # 2 × 3 outputs of 4 products
    found = total_of(graph)
    assert (found.macs, found.ops, found.parameters, found.weight_bytes) == (24, 48, 12, 24)
    assert set(graph.tensors) == {"Parameter_0", "w:1", "MatMul_3:2"}


def test_a_packed_constant_that_others_take_too_stays_as_it_is(read):
    more = layer(5, "Result", [port(0, (3, 4), "FP16")])
    ends = [(0, 0, 3, 0), (1, 0, 2, 0), (2, 1, 3, 1), (3, 2, 4, 0), (1, 0, 5, 0)]
    graph = read([*F16, more], *ends, weights=bytes(24))
    assert [operator.op for operator in graph.operators] == ["Convert", "MatMul"]
    assert (graph.operators[0].weights, graph.operators[1].weights) == (("w_compressed:0",), ())
    assert total_of(graph).parameters == 12


@pytest.mark.parametrize("blocks", [1, 2])
def test_quantized_weights_are_one_constant(read, blocks):
    """4-bit weights [3, blocks, 4 / blocks] with scales and zero points [3, blocks, 1], laid out as [3, 4]."""
    stored, scales = (3, blocks, 4 // blocks), (3, blocks, 1)
    count_ = 3 * blocks
    weights = (
        bytes(6) + bytes([0xA7]) + bytes(2) + struct.pack(f"<{count_}f", *([0.25] * count_)) + struct.pack("<2q", 3, 4)
    )
    at = 9 + 4 * count_
    layers = [
        parameter(0, (2, 4)),
        const(1, stored, 0, 6, dtype="u4", precision="U4"),
        layer(2, "Convert", [port(0, stored, "U4")], [port(1, stored)], destination_type="f32"),
        const(3, scales, 6, (count_ + 1) // 2, dtype="u4", precision="U4"),
        layer(4, "Convert", [port(0, scales, "U4")], [port(1, scales)], destination_type="f32"),
        layer(5, "Subtract", [port(0, stored), port(1, scales)], [port(2, stored)]),
        const(6, scales, 9, 4 * count_),
        layer(7, "Multiply", [port(0, stored), port(1, scales)], [port(2, stored)]),
        const(8, (2,), at, 16, dtype="i64", precision="I64"),
        layer(9, "Reshape", [port(0, stored), port(1, (2,), "I64")], [port(2, (3, 4), names="weights")]),
        layer(10, "MatMul", [port(0, (2, 4)), port(1, (3, 4))], [port(2, (2, 3))], transpose_b="true"),
        result(11, (2, 3)),
    ]
    ends = [(0, 0, 10, 0), (1, 0, 2, 0), (2, 1, 5, 0), (3, 0, 4, 0), (4, 1, 5, 1), (5, 2, 7, 0), (6, 0, 7, 1), (7, 2, 9, 0),
            (8, 0, 9, 1), (9, 2, 10, 1), (10, 2, 11, 0)]  # fmt: skip
    graph = read(layers, *ends, weights=weights)
    assert [operator.op for operator in graph.operators] == ["MatMul"]
    found = graph.tensors["weights"]
    assert (found.shape, found.dtype, found.stored_bytes) == ((3, 4), "uint4", None)
    total = total_of(graph)
    assert (total.weight_bytes, total.scale_bytes) == (6, (count_ + 1) // 2 + 4 * count_)
    block = 2 if blocks == 2 else None
    axis = 1 if blocks == 2 else 0
    assert found.quantization == Quantization(scale=0.25, zero_point=7, channels=count_, axis=axis, block=block)
    assert total_of(graph).parameters == 12


def test_arithmetic_on_constants_is_no_packing(read):
    """A Convert without a Multiply behind it, and integers that stay integers, are operators."""
    layers = [
        const(0, (2, 3), 0, 6, dtype="i8", precision="I8"),
        layer(1, "Convert", [port(0, (2, 3), "I8")], [port(1, (2, 3))], destination_type="f32"),
        result(2, (2, 3)),
    ]
    graph = read(layers, (0, 0, 1, 0), (1, 1, 2, 0), weights=bytes(6))
    assert [operator.op for operator in graph.operators] == ["Convert"]
    assert graph.operators[0].weights == ("Const_0:0",)


def test_constants(read):
    layers = [
        const(0, (3,), 0, 2, dtype="u4", precision="U4", name="packed"),
        const(1, (0, 3), 2, 1, name="empty"),
        const(2, (2,), 3, 30, dtype="string", precision="STRING", name="words"),
        *(result(9 - at, dims) for at, dims in ((0, (3,)), (1, (0, 3)), (2, (2,)))),
    ]
    graph = read(layers, (0, 0, 9, 0), (1, 0, 8, 0), (2, 0, 7, 0), weights=bytes(33))
    assert graph.outputs == ("packed:0", "empty:0", "words:0")
    sizes = {name: (each.constant, each.size_bytes, each.stored_bytes) for name, each in graph.tensors.items()}
    assert sizes == {"packed:0": (True, 2, None), "empty:0": (True, 0, None), "words:0": (True, None, 30)}


@pytest.mark.parametrize(
    ("layers", "ends", "reason"),
    [
        (CHAIN, [(0, 0, 1, 0), (2, 1, 3, 0), (1, 1, 2, 0), (2, 1, 1, 0)], says("two-edges-feed-port-layer")),
        (CHAIN, [(2, 1, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0)], "cycle"),
        (CHAIN, CHAINED[:2], says("port-layer-not-connected")),
        (CHAIN, [*CHAINED, (9, 0, 1, 0)], says("edge-goes-layer-port-which", known="from", layer="9")),
        (CHAIN, [*CHAINED[:2], (2, 9, 3, 0)], says("edge-goes-layer-port-which", known="from", layer="2", port="9")),
        (CHAIN, [*CHAINED, (0, 0, 1, 5)], says("edge-goes-layer-port-which", known="to", layer="1", port="5")),
        ([*CHAIN, relu(1)], CHAINED, says("two-layers-id")),
        ([parameter(0, (2, 3)), relu(1, (2, 4)), relu(2), result(3, (2, 3))], CHAINED, says("port-layer-shape-differs-tensor")),
        ([parameter(0, (2, 3)), relu(1, (2,)), relu(2), result(3, (2, 3))], CHAINED, says("port-layer-shape-differs-tensor")),
        ([parameter(0, (2, 3), shape="2,4"), *CHAIN[1:]], CHAINED, says("port-layer-shape-differs-tensor")),
        ([layer(0, "Parameter", (), [port(0, (2, 3))]), *CHAIN[1:]], CHAINED, says("input-no-shape-element-type")),
        ([parameter(0, (2**62, 2**62), dtype="f32"), *CHAIN[1:3], result(3, (2, 3))], CHAINED, "elements"),
        ([parameter(0, (2, 3)), relu(1), relu(2)], CHAINED[:2], says("no-outputs")),
        ([const(0, (2, 3), 0, 23), *CHAIN[1:]], CHAINED, says("constant-bytes-fewer-than-shape")),
        ([const(0, (2, 3), 100, 24), *CHAIN[1:]], CHAINED, "truncated"),
        ([layer(0, "Const", (), [port(0, (2, 3))], shape="2,?", element_type="f32", offset=0, size=24), *CHAIN[1:]],
         CHAINED, says("constant-open-shape")),
        ([layer(0, "Const", (), [port(0, (2, 3))]), *CHAIN[1:]], CHAINED, says("constant-no-shape-element-type")),
        ([parameter(0, (2, 3)), layer(1, "ReLU", [port(0, ["x"])], [port(1, (2, 3))]), *CHAIN[2:]], CHAINED, says("not-size")),
        ([parameter(0, (1,) * 65), *CHAIN[1:]], CHAINED, says("port-more-than-dimensions", max_rank=64)),
        ([relu(0, name="n" * 5000), *CHAIN[1:]], CHAINED, says("layer-name-more-than-characters", max_name_characters=4096)),
    ],
)  # fmt: skip
def test_what_does_not_fit_together(refuse, layers, ends, reason):
    assert re.search(reason, refuse(layers, *ends, weights=bytes(24)))


def test_missing_weights(tmp_path):
    path = tmp_path / "m.xml"
    path.write_text(
        f'<net name="m" version="11">{network([const(0, (1,), 0, 4), result(1, (1,))], (0, 0, 1, 0))}</net>'
    )
    with pytest.raises(BadModel, match=says("cant-used-weight-file-missing", name_2="m.bin")):
        OpenVinoReader().read_graph(path)


def test_a_long_chain_is_no_deep_recursion(read):
    layers = [parameter(0, (2, 3)), *(relu(at) for at in range(1, 3000)), result(3000, (2, 3))]
    graph = read(layers, (0, 0, 1, 0), *((at, 1, at + 1, 0) for at in range(1, 3000)))
    assert total_of(graph).depth == 2999
