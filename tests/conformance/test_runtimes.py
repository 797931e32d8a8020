"""Every built-in runtime against the contract, and breaches of it are found."""

import importlib.util
from pathlib import Path

import broken_runtimes as broken
import pytest

from edgewise.runtime.base import Runtime, runtimes
from edgewise.runtime.fake import FakeRuntime, FakeSession
from edgewise.testing import check_runtime, write_fake_model
from messages import says

TINY = Path(__file__).parents[2].parent / "shared" / "models" / "mlperf_tiny"
EVERYTHING = {"import", "effective", "outputs", "wrong inputs", "close", "threads", "bad files"}


def tiny(name):
    path = TINY / name
    if not path.exists():
        pytest.skip(f"the model {name} of MLPerf Tiny is not beside the repository")
    return path


def write_onnx(path):
    """y = 2b − a over an open first dimension."""
    from onnx import TensorProto, helper, save

    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4])

    nodes = [helper.make_node("Sub", ["b", "a"], ["d"]), helper.make_node("Add", ["d", "b"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("a"), value("b")], [value("y")])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def engine(name):
    runtime = runtimes().get(name)
    if not runtime.availability():
        pytest.skip(f"{name}: {runtime.availability().reason}")
    return runtime


def test_the_registered_runtimes_are_runtimes():
    for name, runtime in runtimes():
        assert runtime.name == name
        assert {attribute for attribute in Runtime.__annotations__ if not hasattr(runtime, attribute)} == set()


def test_fake(tmp_path):
    assert set(check_runtime(FakeRuntime(), write_fake_model(tmp_path / "m.fake"))) >= EVERYTHING


@pytest.mark.parametrize("kind", ["float16", "int8", "uint8", "int64", "bool"])
def test_fake_of_other_types(tmp_path, kind):
    path = write_fake_model(
        tmp_path / "m.fake",
        inputs=[{"name": "x", "shape": ["n", 3], "dtype": kind}],
        outputs=[{"name": "y", "shape": ["n"], "dtype": "int32"}, {"name": "z", "shape": [], "dtype": "float64"}],
        requests=2,
        engine_latency_ns=[5],
    )
    assert set(check_runtime(FakeRuntime(), path, shapes={"x": (3, 3)}, dtypes={"x": kind})) >= EVERYTHING


@pytest.mark.engine
@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_onnx(name, tmp_path):
    path = write_onnx(tmp_path / "m.onnx")
    shapes = {"a": (2, 4), "b": (2, 4)}
    assert set(check_runtime(engine(name), path, shapes=shapes)) >= EVERYTHING


@pytest.mark.engine
@pytest.mark.parametrize("model", ["kws_ref_model.tflite", "kws_ref_model_float32.tflite"])
@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("litert", "interpreter"),
        ("litert", "compiled"),
        ("litert", "interpreter-noxnnpack"),
        ("litert", "interpreter-reference"),
        ("openvino", "cpu"),
    ],
)
def test_tflite(name, provider, model):
    path = tiny(model)
    shapes = {"input_1": (1, 49, 10, 1)}
    assert set(check_runtime(engine(name), path, shapes=shapes, provider=provider)) >= EVERYTHING


@pytest.mark.engine
def test_openvino_of_its_own_format(tmp_path):
    runtime = engine("openvino")
    runtime.import_engine()
    import openvino

    openvino.save_model(openvino.Core().read_model(write_onnx(tmp_path / "m.onnx")), tmp_path / "m.xml")
    check_runtime(runtime, tmp_path / "m.xml", shapes={"a": (2, 4), "b": (2, 4)})


@pytest.mark.parametrize(
    ("session", "message"),
    [
        (broken.KeepsNoCopy, says("outputs-second-inference-same-inputs")),
        (broken.HandsOutItsOwn, says("outputs-they-no-copies-later")),
        (broken.IgnoresInputs, says("outputs-other-inputs-give-same")),
        (broken.TakesAnything, "bind takes too many arrays"),
        (broken.RaisesSomethingElse, says("wrong-inputs-raises-not-valueerror", name="KeyError")),
        (broken.WrongType, "is float64, not float32"),
        (broken.NoEffective, "effective: it lacks 'precision'"),
    ],
)
def test_a_broken_session_is_found(session, message, tmp_path):
    broken.Broken.session = session
    try:
        with pytest.raises(AssertionError, match=message):
            check_runtime(broken.Broken(), write_fake_model(tmp_path / "m.fake"))
    finally:
        broken.Broken.session = FakeSession


def test_a_close_that_works_once_is_found(tmp_path):
    broken.Broken.session = broken.ClosesOnce
    try:
        with pytest.raises(AttributeError):
            check_runtime(broken.Broken(), write_fake_model(tmp_path / "m.fake"))
    finally:
        broken.Broken.session = FakeSession


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (broken.NeverSaysWhy, says("availability-not-available-says-not")),
        (broken.WrongVersion, "the engine is version 1, availability\\(\\) says 2"),
        (broken.Vanished, says("runtime-import-cant-imported-says")),
        (broken.LoadsAnything, says("bad-files-loaded", what=says("empty-file"))),
        (broken.ShoutsName, says("name-not-one-lower-case")),
    ],
)
def test_a_broken_runtime_is_found(kind, message, tmp_path):
    with pytest.raises(AssertionError, match=message):
        check_runtime(kind(), write_fake_model(tmp_path / "m.fake"))


@pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="the package onnx stands for a heavy engine here")
def test_an_early_import_is_found(tmp_path):
    with pytest.raises(AssertionError, match=r"imports .*onnx"):
        check_runtime(broken.ImportsEarly(), write_fake_model(tmp_path / "m.fake"))


def test_an_engine_that_is_not_there_is_no_breach(tmp_path):
    assert "outputs" not in check_runtime(broken.Never(), write_fake_model(tmp_path / "m.fake"))


def test_open_dimensions_need_shapes(tmp_path):
    path = write_onnx(tmp_path / "m.onnx")
    with pytest.raises(AssertionError, match=says("inputs-open-dimensions-call-shapes", name="a")):
        check_runtime(engine("onnxruntime"), path)
