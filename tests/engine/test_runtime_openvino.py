"""OpenVINO on graphs whose answers are known by hand."""

import re
import subprocess
import sys

import numpy as np
import pytest

from edgewise.data import path as bundled
from edgewise.runtime.base import InvalidModel, LoadOptions, ReportsEngineLatency, RunsConcurrently, UnsupportedModel
from edgewise.runtime.openvino import OpenVino, _explain
from messages import says, wording
from patience import LIMIT_S
from tflite_writer import with_buffers_behind

onnx = pytest.importorskip("onnx")
pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not OpenVino().availability(), reason="openvino is not installed"),
]

RUNTIME = OpenVino()


def options(**given):
    return LoadOptions(**({"provider": "cpu", "threads": 1} | given))


@pytest.fixture
def write(tmp_path):
    from onnx import TensorProto, helper

    def write(*nodes, inputs, outputs, shape=("n", 2)):
        def values(names):
            return [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name in names]

        graph = helper.make_graph([helper.make_node(*node) for node in nodes], "g", values(inputs), values(outputs))
        path = tmp_path / "m.onnx"
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        path.write_bytes(model.SerializeToString())
        return path

    return write


@pytest.fixture
def difference(write):
    return write(("Sub", ["b", "a"], ["y"]), inputs=["a", "b"], outputs=["y"])


def test_inputs_stand_in_the_models_order_and_get_their_shape(difference):
    session = RUNTIME.load(difference, options(shapes={"a": (3, 2), "b": (3, 2)}))
    assert [(spec.name, spec.shape) for spec in session.inputs] == [("a", (3, 2)), ("b", (3, 2))]
    assert session.outputs[0].shape == (3, 2)
    session.bind([np.full((3, 2), 1, "float32"), np.full((3, 2), 10, "float32")])
    session.invoke()
    assert session.read_outputs()[0].tolist() == [[9, 9]] * 3


def test_shapes_go_by_position_where_names_differ(difference):
    session = RUNTIME.load(difference, options(shapes={"first": (4, 2), "second": (1, 2)}))
    assert [spec.shape for spec in session.inputs] == [(4, 2), (1, 2)]


def test_a_dynamic_model_takes_shapes_when_they_come(difference):
    session = RUNTIME.load(difference, options())
    for rows in (1, 5, 2):
        session.bind([np.zeros((rows, 2), "float32"), np.full((rows, 2), rows, "float32")])
        session.invoke()
        assert session.read_outputs()[0].tolist() == [[rows, rows]] * rows


def test_open_dimensions_are_fixed_unless_they_are_to_stay_open(difference, write):
    shapes = {"a": (3, 2), "b": (3, 2)}
    fixed = RUNTIME.load(difference, options(shapes=shapes))
    assert fixed.effective["fixed_dimensions"] == {"a": {"0": 3}, "b": {"0": 3}}
    assert "open_dimensions" not in fixed.effective
    kept = RUNTIME.load(difference, options(shapes=shapes, extra={"keep_open_dimensions": True}))
    assert [spec.shape for spec in kept.inputs] == [(None, 2), (None, 2)]
    assert kept.effective["open_dimensions"] == {"a": {"0": 3}, "b": {"0": 3}}
    assert "fixed_dimensions" not in kept.effective
    kept.bind([np.full((3, 2), 1, "float32"), np.full((3, 2), 10, "float32")])
    kept.invoke()
    assert kept.read_outputs()[0].tolist() == [[9, 9]] * 3
    with pytest.raises(UnsupportedModel, match="true or false"):
        RUNTIME.load(difference, options(shapes=shapes, extra={"keep_open_dimensions": "yes"}))


def test_a_fixed_batch_is_reshaped_where_open_dimensions_stay_open(write):
    path = write(("Relu", ["x"], ["y"]), inputs=["x"], outputs=["y"], shape=(1, 2))
    session = RUNTIME.load(path, options(shapes={"x": (4, 2)}, extra={"keep_open_dimensions": True}))
    assert session.inputs[0].shape == (4, 2)
    assert not {"open_dimensions", "fixed_dimensions"} & session.effective.keys()


def test_what_came_into_force(difference):
    effective = RUNTIME.load(difference, options(shapes={"a": (1, 2), "b": (1, 2)})).effective
    assert effective["precision"] == "f32"  # whatever the processor would like better
    own = pytest.importorskip("openvino").Core().get_property("CPU", "INFERENCE_PRECISION_HINT").get_type_name()
    assert effective["default_precision"] == own
    assert (effective["threads"], effective["streams"], effective["requests"]) == (1, 1, 1)
    assert effective["device"] == "CPU"
    assert effective["performance_hint"] == "LATENCY"
    assert effective["inputs_handed_over"] == "before the timing"
    assert effective["precision_of_operators"] == {"f32": 1}


def test_truth_values_beside_a_float32_network_are_no_int8(tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"]),
        helper.make_node("Greater", ["y", "zero"], ["mask"]),
        helper.make_node("NonZero", ["mask"], ["places"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
         helper.make_tensor_value_info("places", TensorProto.INT64, None)],
        [numpy_helper.from_array(np.ones((4, 3, 3, 3), "float32"), "w"),
         numpy_helper.from_array(np.zeros((), "float32"), "zero")],
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    effective = RUNTIME.load(path, options(shapes={"x": (1, 3, 8, 8)})).effective
    assert "u8" in effective["precision_of_operators"]
    assert effective["precision_of_products"] == {"f32": 1}


def test_the_engine_tells_its_own_time(difference):
    session = RUNTIME.load(difference, options(shapes={"a": (1, 2), "b": (1, 2)}))
    assert isinstance(session, ReportsEngineLatency)
    session.bind([np.zeros((1, 2), "float32")] * 2)
    session.invoke()
    told = session.engine_latency_ns()
    assert isinstance(told, int)
    assert 0 < told < 60e9
    assert session.engine_latency_ns() == told


class Request:
    latency = 0.0123456


def test_milliseconds_become_nanoseconds(difference):
    session = RUNTIME.load(difference, options())
    session._request = Request()
    assert session.engine_latency_ns() == 12346


@pytest.mark.parametrize(("requests", "streams", "kind"), [(2, 2, "list"), (1, 2, "list"), (3, 2, "AsyncInferQueue")])
def test_requests_in_flight(difference, requests, streams, kind):
    shapes = {"a": (1, 2), "b": (1, 2)}
    session = RUNTIME.load(
        difference, options(threads=2, offline=True, requests=requests, streams=streams, shapes=shapes)
    )
    assert isinstance(session, RunsConcurrently)
    assert (session.effective["requests"], session.effective["streams"]) == (requests, streams)
    for value in (4, 5):
        session.bind([np.zeros((1, 2), "float32"), np.full((1, 2), value, "float32")])
        for _ in range(2):
            completions = []
            session.run_many(clock=lambda: 7, until_ns=None, count=50, completions=completions)
            assert completions == [7] * 50
        session.run_many(clock=lambda: 7, until_ns=7, count=None, completions=completions)
        assert len(completions) == 50
        assert type(session._pool).__name__ == kind
        outputs = [request.get_output_tensor(0).data.tolist() for request in session._pool]
        assert len(outputs) == requests
        assert [[value, value]] in outputs  # one request may do all of the work; what another one holds is not promised
    with pytest.raises(ValueError, match=says("neither-end-time-nor-number")):
        session.run_many(clock=lambda: 7, until_ns=None, count=None, completions=[])


def test_without_streams_the_engine_chooses_for_throughput(difference):
    effective = RUNTIME.load(difference, options(threads=2, offline=True)).effective
    assert effective["performance_hint"] == "THROUGHPUT"
    assert effective["requests"] >= 1


def test_streams_that_were_asked_for(difference):
    effective = RUNTIME.load(difference, options(threads=2, offline=True, streams=2)).effective
    assert (effective["streams"], effective["requests"]) == (2, 2)


def test_a_device_that_is_not_there(difference):
    with pytest.raises(UnsupportedModel, match=says("openvino-finds-no-machine-finds", device="ABACUS", seen="CPU")):
        RUNTIME.load(difference, options(provider="abacus"))


def test_a_setting_that_is_not_there(difference):
    with pytest.raises(UnsupportedModel, match=says("setting-not-supported-supported", name="FOO", engine="OpenVINO")):
        RUNTIME.load(difference, options(extra={"FOO": 1}))
    with pytest.raises(UnsupportedModel, match=says("setting-not-text-number", name="PERFORMANCE_HINT", name_2="dict")):
        RUNTIME.load(difference, options(extra={"PERFORMANCE_HINT": {"CPU": {"CACHE_DIR": "/tmp"}}}))


def test_a_setting_by_its_own_name(difference):
    effective = RUNTIME.load(difference, options(extra={"EXECUTION_MODE_HINT": "ACCURACY"})).effective
    assert effective["execution_mode"] == "ACCURACY"


def test_shapes_that_can_not_be(write):
    path = write(("MatMul", ["a", "b"], ["y"]), inputs=["a", "b"], outputs=["y"])
    with pytest.raises(
        UnsupportedModel, match=r"^the model does not accept a=\[3, 2\], b=\[3, 2\]: Incompatible MatMul"
    ):
        RUNTIME.load(path, options(shapes={"a": (3, 2), "b": (3, 2)}))
    with pytest.raises(UnsupportedModel, match=says("input-dimensions-requested-shape", name="a", rank=2)):
        RUNTIME.load(path, options(shapes={"a": (3, 2, 1), "b": (3, 2)}))
    with pytest.raises(UnsupportedModel, match=says("model-inputs-engine", shapes_count=3, names_count=2)):
        RUNTIME.load(path, options(shapes={"a": (3, 2), "b": (3, 2), "c": (1,)}))


def test_models_that_can_not_run(write, tmp_path):
    with pytest.raises(UnsupportedModel, match=r"^No conversion rule found for operations: Nope"):
        RUNTIME.load(write(("Nope", ["a"], ["y"]), inputs=["a"], outputs=["y"]), options())
    with pytest.raises(InvalidModel, match=r"^Input tensor isn't found for node \"z\""):
        RUNTIME.load(write(("Add", ["a", "z"], ["y"]), inputs=["a"], outputs=["y"]), options())
    (tmp_path / "half.onnx").write_bytes(b"\x08\x08")
    with pytest.raises((InvalidModel, UnsupportedModel)):
        RUNTIME.load(tmp_path / "half.onnx", options())


def test_messages_lose_what_only_the_engines_authors_need():
    text = (
        "Exception from src/a.cpp:1:\nCheck 'x' failed at src/b.cpp:2:\nWhile validating node 'n'\n-- The point\nmore"
    )
    assert str(_explain(RuntimeError(text), otherwise=InvalidModel)) == "The point more"
    assert isinstance(_explain(RuntimeError("std::bad_alloc"), otherwise=InvalidModel), MemoryError)


def test_importing_sends_nothing():
    code = (
        "import sys; from edgewise.runtime.openvino import OpenVino; OpenVino().import_engine();"
        "assert sys.modules['openvino_telemetry'] is None;"
        "import openvino.tools.ovc.telemetry_utils as used; print(used.tm.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.stdout.strip() == "openvino.tools.ovc.telemetry_stub", done.stderr


def test_a_closed_session_does_not_infer(difference):
    session = RUNTIME.load(difference, options())
    with pytest.raises(RuntimeError, match=says("nothing-bound-session-closed")):
        session.invoke()
    with pytest.raises(RuntimeError, match=says("nothing-bound-session-closed")):
        session.run_many(clock=lambda: 0, until_ns=None, count=1, completions=[])
    session.close()
    session.close()


@pytest.mark.parametrize("kind", ["f16", "f32", "f64", "i8", "i32", "i64", "u8", "u32", "boolean"])
@pytest.mark.parametrize("version", [10, 11])
def test_the_reader_signs_a_file_with_the_types_that_the_engine_takes(tmp_path, version, kind):
    import openvino
    from openvino import opset1

    from edgewise.model.identity import open_model

    given = opset1.parameter([1, 4], getattr(openvino.Type, kind), name="x")
    path = tmp_path / "m.xml"
    openvino.serialize(openvino.Model([opset1.result(given, name="y")], [given], "m"), path, path.with_suffix(".bin"))
    text = re.sub(r' names="[^"]*"', "", path.read_text())  # files of that time name no tensors
    path.write_text(text.replace('version="11"', f'version="{version}"', 1))
    session = RUNTIME.load(path, options())
    signature = open_model(path).signature
    assert [spec.dtype for spec in signature.inputs] == [spec.dtype for spec in session.inputs]
    assert [spec.dtype for spec in signature.outputs] == [spec.dtype for spec in session.outputs]


@pytest.fixture
def far(tmp_path):
    pytest.importorskip("ai_edge_litert", reason="LiteRT, whose schema writes the file, is not installed")
    path = tmp_path / "far.tflite"
    path.write_bytes(with_buffers_behind(bundled("digits_cnn.tflite").read_bytes()))
    return path


def test_weights_behind_the_flatbuffer_are_unsupported_and_not_a_damaged_file(far):
    from edgewise.runtime.litert import LiteRt

    with pytest.raises(UnsupportedModel, match=says("openvino-does-not-read-weights")):
        RUNTIME.load(far, options())
    near = bundled("digits_cnn.tflite")
    outputs = []
    for path in (near, far):
        session = LiteRt().load(path, LoadOptions(provider="interpreter", threads=1))
        session.bind([np.full(session.inputs[0].shape, 0.25, "float32")])
        session.invoke()
        outputs.append(session.read_outputs()[0])
    assert np.array_equal(*outputs)


def test_weights_behind_the_flatbuffer_are_not_converted(far, tmp_path, capsys):
    from edgewise.cli.main import run

    assert run(["convert", str(far), "--to", "openvino", "-o", str(tmp_path / "far.xml")]) == 3
    told = capsys.readouterr().err
    assert wording("openvino-does-not-read-weights") in told and "replace the operator" not in told
