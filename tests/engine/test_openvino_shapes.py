"""Shapes behind open dimensions of an OpenVINO IR, which OpenVINO itself infers in a process with limits."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from edgewise import data
from edgewise.errors import BadInput, BadModel
from edgewise.model.cost import count, total_of
from edgewise.model.readers import isolated
from edgewise.model.readers.onnx import OnnxReader
from edgewise.model.readers.openvino import OpenVinoReader
from edgewise.model.readers.tflite import TfliteReader
from messages import has, says
from openvino_writer import Ir, const, layer, network, parameter, port, relu, result

ov = pytest.importorskip("openvino")
pytestmark = pytest.mark.engine

U = None


def tell(path, shapes):
    """What OpenVINO infers: name of an operation → shapes of its outputs. Raises what OpenVINO raises."""
    model = ov.Core().read_model(path)
    model.reshape(dict(zip((each.any_name for each in model.inputs), map(list, shapes), strict=True)))
    return {
        node.get_friendly_name(): [
            tuple(size.get_length() if size.is_static else None for size in each.get_partial_shape())
            for each in node.outputs()
        ]
        for node in model.get_ordered_ops()
    }


def read(path, shapes):
    reader = OpenVinoReader()
    names = [each.name for each in reader.read_signature(path).inputs]
    return reader.read_graph(path, shapes=dict(zip(names, map(tuple, shapes), strict=True)))


# -- whole networks ----------------------------------------------------------------------------------------------------


MLPERF = ("kws_ref_model", "pretrainedResnet_quant", "vww_96_int8")
FIXED = {"light_shufflenet.onnx", "digits_cnn.tflite"}
"""A Reshape in them has the batch in its target, so that they take no other."""


def count_source(source: Path) -> int:
    """Multiply-accumulates of the original with a batch of 1, by the reader of its own format."""
    reader = TfliteReader() if source.suffix == ".tflite" else OnnxReader()
    shapes = {each.name: (1, *each.shape[1:]) for each in reader.read_signature(source).inputs}
    return total_of(reader.read_graph(source, shapes=shapes)).macs


def hold(source: Path, folder: Path) -> None:
    """Open the batch of a network, and compare every operation and the sum of all with batches of 1 and 3."""
    macs = count_source(source)
    model = ov.convert_model(source)
    sizes = [[size.get_length() for size in list(each.get_partial_shape())[1:]] for each in model.inputs]
    model.reshape({each.any_name: [-1, *rest] for each, rest in zip(model.inputs, sizes, strict=True)})
    path = folder / "open.xml"
    ov.save_model(model, path, compress_to_fp16=True)
    assert source.name in FIXED or total_of(OpenVinoReader().read_graph(path)).macs is None
    for batch in (1, 3):
        shapes = [(batch, *rest) for rest in sizes]
        if batch > 1 and source.name in FIXED:
            with pytest.raises(BadInput, match=says("network-does-not-support", error=has("Reshape"))):
                read(path, shapes)
            continue
        told, graph = tell(path, shapes), read(path, shapes)
        # OpenVINO folds some of the operations that compute shapes while it takes the new ones.
        folded = {each.op for each in graph.operators if each.name not in told}
        assert folded <= {"ShapeOf", "Gather", "Concat", "Convert"}
        assert len(graph.operators) - len(folded) > 10
        found = {each.name: [graph.tensors[name].shape for name in each.outputs] for each in graph.operators}
        assert {name: shapes for name, shapes in found.items() if name in told} == {
            name: told[name] for name in found if name in told
        }
        assert total_of(graph).macs == batch * macs


@pytest.mark.parametrize("name", MLPERF)
def test_networks_from_tflite(tmp_path, shared_models, name):
    hold(shared_models / f"{name}.tflite", tmp_path)


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_networks_from_onnx(tmp_path, name):
    onnx = pytest.importorskip("onnx")
    hold(Path(onnx.__file__).parent / "backend/test/data/light" / f"light_{name}.onnx", tmp_path)


@pytest.mark.parametrize("name", ["digits_cnn.onnx", "digits_cnn.tflite"])
def test_the_networks_of_the_package(tmp_path, name):
    hold(Path(data.path(name)), tmp_path)


# -- small networks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def ir(tmp_path):
    return Ir(tmp_path)


def i64(number, *dims):
    return port(number, dims, "I64")


FLATTEN = [
    parameter(0, (U, 3, 4), shape="?,3,4", names="x"),
    layer(1, "ShapeOf", [port(0, (-1, 3, 4))], [i64(1, 3)], version="opset3", output_type="i64"),
    const(2, (1,), 0, 8, dtype="i64", precision="I64"),
    const(3, (), 8, 8, dtype="i64", precision="I64"),
    layer(4, "Gather", [i64(0, 3), i64(1, 1), i64(2)], [i64(3, 1)], version="opset8"),
    const(5, (1,), 16, 8, dtype="i64", precision="I64"),
    layer(6, "Concat", [i64(0, 1), i64(1, 1)], [i64(2, 2)], axis=0),
    layer(7, "Reshape", [port(0, (-1, 3, 4)), i64(1, 2)], [port(2, (-1, -1))], special_zero="false"),
    const(8, (5, 12), 24, 240, name="w"),
    layer(9, "MatMul", [port(0, (-1, -1)), port(1, (5, 12))], [port(2, (-1, 5))], transpose_b="true"),
    result(10, (-1, 5)),
]  # fmt: skip
FLATTENED = [(0, 0, 1, 0), (1, 1, 4, 0), (2, 0, 4, 1), (3, 0, 4, 2), (4, 3, 6, 0), (5, 0, 6, 1), (0, 0, 7, 0), (6, 2, 7, 1),
             (7, 2, 9, 0), (8, 0, 9, 1), (9, 2, 10, 0)]  # fmt: skip
FLATTEN_BYTES = struct.pack("<3q", 0, 0, -1) + bytes(240)


def test_a_target_that_is_computed(ir):
    graph = ir.read(FLATTEN, *FLATTENED, weights=FLATTEN_BYTES)
    assert graph.tensors["Reshape_7:2"].shape == (U, U)
    assert total_of(graph).macs is None
    graph = ir.read(FLATTEN, *FLATTENED, weights=FLATTEN_BYTES, shapes={"x": (7, 3, 4)})
    assert graph.tensors["Reshape_7:2"].shape == (7, 12)
    assert total_of(graph).macs == 7 * 12 * 5
    assert "unobserved" not in graph.metadata


def test_shapes_that_a_sound_network_can_not_take(ir):
    layers = [*FLATTEN[:8], relu(9, (-1, -1)), result(10, (-1, -1))]
    ends = [*FLATTENED[:8], (7, 2, 9, 0), (9, 1, 10, 0)]
    weights = struct.pack("<3q", 0, 0, 6) + FLATTEN_BYTES[24:]  # [N, 6], which the 12 values of a row are not
    with pytest.raises(
        BadInput, match=says("network-does-not-support", words="'x'", error=has("[7, 3, 4]: "))
    ) as caught:
        ir.read(layers, *ends, weights=weights, shapes={"x": (7, 3, 4)})
    assert not isinstance(caught.value, BadModel)
    assert "\n" not in caught.value.message


def test_what_openvino_infers_wins_over_stale_shapes(ir):
    layers = [parameter(0, (U, 3), shape="?,3", names="x"), relu(1, (1, 3)), result(2, (1, 3))]
    graph = ir.read(layers, (0, 0, 1, 0), (1, 1, 2, 0), shapes={"x": (2, 3)})
    assert graph.tensors["ReLU_1:1"].shape == (2, 3)


def test_an_unknown_rank(ir):
    layers = [
        parameter(0, (), shape="...", names="x"),
        relu(1, ()),
        layer(2, "NonZero", [port(0, ())], [port(1, (), "I64")], version="opset3", output_type="i64"),
        result(3, ()),
    ]
    ends = [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0)]
    graph = ir.read(layers, *ends)
    assert [graph.tensors[name].shape for name in ("x", "ReLU_1:1", "NonZero_2:1")] == [U, U, U]
    graph = ir.read(layers, *ends, shapes={"x": (2, 3)})
    assert [graph.tensors[name].shape for name in ("x", "ReLU_1:1", "NonZero_2:1")] == [(2, 3), (2, 3), (2, U)]
    assert count(graph.operators[0], graph).ops == 6


def test_elements_beyond_63_bits(ir):
    layers = [parameter(0, (U, 1), shape="?,1", names="x"), parameter(1, (1, U), shape="1,?", names="y"),
              layer(2, "Add", [port(0, (-1, 1)), port(1, (1, -1))], [port(2, (-1, -1))]), result(3, (-1, -1))]  # fmt: skip
    ends = [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]
    with pytest.raises(BadInput, match=says("name-r-elements-elements")):
        ir.read(layers, *ends, shapes={"x": (2**40, 1), "y": (1, 2**40)})
    with pytest.raises(BadInput, match=says("input-impossible-size")):
        ir.read(layers, *ends, shapes={"x": (2**63, 1)})


def test_shapes_inside_a_branch(ir):
    def branch(kind):
        return network([parameter(0, (-1, 3), shape="?,3"), layer(1, kind, [port(0, (-1, 3))], [port(1, (-1, 3))]),
                        result(2, (-1, 3))], (0, 0, 1, 0), (1, 1, 2, 0))  # fmt: skip

    ends = '<input external_port_id="1" internal_layer_id="0"/><output external_port_id="2" internal_layer_id="2"/>'
    rest = f"<then_port_map>{ends}</then_port_map><else_port_map>{ends}</else_port_map>"
    rest += f"<then_body>{branch('ReLU')}</then_body><else_body>{branch('Exp')}</else_body>"
    cell = layer(2, "If", [port(0, (), "BOOL"), port(1, (-1, 3))], [port(2, (-1, 3))], rest=rest, version="opset8")
    layers = [
        parameter(0, (), shape="", dtype="boolean"),
        parameter(1, (-1, 3), shape="?,3", names="x"),
        cell,
        result(3, (-1, 3)),
    ]
    graph = ir.read(layers, (0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), shapes={"x": (5, 3)})
    assert total_of(graph).ops == 15


# -- when OpenVINO tells nothing ---------------------------------------------------------------------------------------


def test_without_openvino_the_reason_names_the_extra(ir, monkeypatch):
    monkeypatch.setattr(isolated, "find_spec", lambda name: None)
    graph = ir.read(FLATTEN, *FLATTENED, weights=FLATTEN_BYTES, shapes={"x": (7, 3, 4)})
    assert graph.tensors["x"].shape == (7, 3, 4)
    assert total_of(graph).macs is None
    assert graph.metadata["unobserved"] == (
        "shapes behind open dimensions need OpenVINO (pip install 'edgewise[openvino]')"
    )


def test_a_closed_file_needs_no_process(ir, monkeypatch):
    monkeypatch.setattr(isolated, "run_child", None)
    layers = [parameter(0, (2, 3), names="x"), relu(1), result(2, (2, 3))]
    assert total_of(ir.read(layers, (0, 0, 1, 0), (1, 1, 2, 0), shapes={"x": (2, 3)})).ops == 6


def test_a_layer_that_openvino_does_not_know(ir):
    layers = [parameter(0, (U, 3), shape="?,3", names="x"), layer(1, "Mine", [port(0, (-1, 3))], [port(1, (-1, 3))], version="custom"),
              result(2, (-1, 3))]  # fmt: skip
    graph = ir.read(layers, (0, 0, 1, 0), (1, 1, 2, 0), shapes={"x": (2, 3)})
    assert graph.tensors["x"].shape == (2, 3)
    assert graph.metadata["unobserved"].startswith("shapes behind open dimensions are not known: OpenVINO can't read")


def test_a_process_that_dies_is_a_reason(ir, monkeypatch, tmp_path):
    (tmp_path / "crashing.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr("edgewise.model.readers.isolated.SHAPE_WORKER", "crashing")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    graph = ir.read(FLATTEN, *FLATTENED, weights=FLATTEN_BYTES, shapes={"x": (7, 3, 4)})
    assert graph.metadata["unobserved"].endswith("OpenVINO's process crashed (SIGSEGV)")
