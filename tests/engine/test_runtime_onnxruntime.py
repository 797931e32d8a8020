"""ONNX Runtime on graphs whose answers are known by hand."""

import re
import threading

import numpy as np
import pytest

from edgewise.cli.main import run
from edgewise.runtime.base import InvalidModel, LoadOptions, RunsConcurrently, UnsupportedModel
from edgewise.runtime.onnxruntime import OnnxRuntime, _explain, _find_provider, _split_threads, _told
from messages import has, says, wording

onnx = pytest.importorskip("onnx")
pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not OnnxRuntime().availability(), reason="onnxruntime is not installed"),
]

RUNTIME = OnnxRuntime()
ONE = LoadOptions(provider="cpu", threads=1)


@pytest.fixture
def write(tmp_path):
    from onnx import TensorProto, helper

    def write(*nodes, inputs, outputs, opset=13, ir=8, name="m.onnx", domain=None):
        def values(specs):
            return [helper.make_tensor_value_info(key, getattr(TensorProto, kind), shape) for key, kind, shape in specs]

        opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
        graph = helper.make_graph([helper.make_node(*node) for node in nodes], "g", values(inputs), values(outputs))
        model = helper.make_model(graph, opset_imports=opsets, ir_version=ir)
        path = tmp_path / name
        path.write_bytes(model.SerializeToString())
        return path

    return write


@pytest.fixture
def double(write):
    return write(("Add", ["x", "x"], ["y"]), inputs=[("x", "FLOAT", [1, 4])], outputs=[("y", "FLOAT", [1, 4])])


def infer(session, *arrays):
    session.bind(arrays)
    session.invoke()
    return [array.tolist() for array in session.read_outputs()]


def test_inputs_stand_in_the_graphs_order(write):
    path = write(
        ("Sub", ["b", "a"], ["y"]),
        inputs=[("a", "FLOAT", ["n", 2]), ("b", "FLOAT", ["n", 2])],
        outputs=[("y", "FLOAT", ["n", 2])],
    )
    session = RUNTIME.load(path, LoadOptions(provider="cpu", shapes={"a": (1, 2), "b": (1, 2)}))
    assert [(spec.name, spec.shape, spec.dtype) for spec in session.inputs] == [
        ("a", ("n", 2), "float32"),
        ("b", ("n", 2), "float32"),
    ]
    assert infer(session, np.array([[1, 2]], "float32"), np.array([[10, 20]], "float32")) == [[[9, 18]]]


@pytest.mark.parametrize(
    "dtype", ["FLOAT", "FLOAT16", "DOUBLE", "INT8", "UINT8", "INT16", "UINT16", "INT32", "INT64", "BOOL"]
)
def test_every_type_of_numpys(write, dtype):
    path = write(("Identity", ["x"], ["y"]), inputs=[("x", dtype, [3])], outputs=[("y", dtype, [3])])
    session = RUNTIME.load(path, ONE)
    array = np.array([0, 1, 1], session.inputs[0].dtype)
    assert infer(session, array) == [array.tolist()]
    assert session.read_outputs()[0].dtype == array.dtype


def test_outputs_whose_shape_depends_on_the_data(write):
    path = write(("NonZero", ["x"], ["y"]), inputs=[("x", "FLOAT", [4])], outputs=[("y", "INT64", [1, None])])
    session = RUNTIME.load(path, ONE)
    assert infer(session, np.array([1, 1, 1, 1], "float32")) == [[[0, 1, 2, 3]]]
    assert infer(session, np.array([0, 1, 0, 1], "float32")) == [[[1, 3]]]


def test_what_came_into_force(double):
    effective = RUNTIME.load(double, LoadOptions(provider="cpu", threads=2)).effective
    assert effective["threads"] == 2
    assert effective["execution_providers"] == ["CPUExecutionProvider"]
    assert effective["inputs_handed_over"] == "before the timing"
    assert effective["precision"] is None
    assert RUNTIME.load(double, LoadOptions(provider="cpu")).effective["threads"] is None


@pytest.mark.parametrize(
    ("asked", "requests", "inside"),
    [
        ({}, 1, 0),
        ({"threads": 4}, 1, 4),
        ({"threads": 4, "offline": True}, 4, 1),
        ({"threads": 4, "offline": True, "requests": 1}, 1, 4),
        ({"threads": 4, "offline": True, "requests": 3}, 3, 2),
        ({"threads": 4, "offline": True, "streams": 2}, 2, 3),
        ({"threads": 2, "offline": True, "requests": 8}, 8, 1),
        ({"offline": True}, 1, 0),
        ({"threads": 4, "requests": 3}, 1, 4),
    ],
)
def test_threads_are_shared_out(asked, requests, inside):
    assert _split_threads(LoadOptions(provider="cpu", **asked)) == (requests, inside)


def test_open_dimensions_stay_open_and_are_told(write, double):
    closed = RUNTIME.load(double, LoadOptions(provider="cpu", shapes={"x": (1, 4)}))
    assert "open_dimensions" not in closed.effective
    path = write(("Relu", ["x"], ["y"]), inputs=[("x", "FLOAT", ["n", 4])], outputs=[("y", "FLOAT", ["n", 4])])
    session = RUNTIME.load(path, LoadOptions(provider="cpu", shapes={"x": (2, 4)}))
    assert session.inputs[0].shape == ("n", 4)
    assert session.effective["open_dimensions"] == {"x": {"0": 2}}


def test_requests_in_flight_run_on_threads_of_their_own(double):
    session = RUNTIME.load(double, LoadOptions(provider="cpu", threads=3, offline=True))
    assert isinstance(session, RunsConcurrently)
    session.bind([np.ones((1, 4), "float32")])
    callers = set()

    def clock():
        callers.add(threading.get_ident())
        return len(callers)

    completions = []
    session.run_many(clock=clock, until_ns=None, count=500, completions=completions)
    assert len(completions) == 500
    assert threading.get_ident() not in callers
    assert 1 <= len(callers) <= 3
    session.run_many(clock=lambda: 10, until_ns=10, count=None, completions=completions)
    assert len(completions) == 500
    with pytest.raises(ValueError, match=says("neither-end-time-nor-number")):
        session.run_many(clock=clock, until_ns=None, count=None, completions=completions)


def test_an_error_on_a_thread_is_the_callers(write):
    path = write(
        ("MatMul", ["a", "b"], ["y"]),
        inputs=[("a", "FLOAT", ["n", 2]), ("b", "FLOAT", ["n", 2])],
        outputs=[("y", "FLOAT", ["n", 2])],
    )
    session = RUNTIME.load(path, LoadOptions(provider="cpu", threads=2, offline=True))
    session.bind([np.ones((3, 2), "float32")] * 2)
    with pytest.raises(Exception, match="dimension mismatch"):
        session.run_many(clock=lambda: 0, until_ns=None, count=9, completions=[])


def test_a_fixed_shape_does_not_take_another_batch(double):
    with pytest.raises(UnsupportedModel, match=says("input-fixed-shape-not", name="x", own="1, 4", map="8, 4")):
        RUNTIME.load(double, LoadOptions(provider="cpu", shapes={"x": (8, 4)}))


@pytest.mark.parametrize(
    ("provider", "problem", "advice"),
    [
        (
            "cuda",
            wording("installed-onnx-runtime-no-provider", provider="cuda"),
            "pip install onnxruntime-gpu; it needs an NVIDIA GPU",
        ),
        ("tensorrt", wording("installed-onnx-runtime-no-provider", provider="tensorrt"), "and TensorRT"),
        ("coreml", wording("exists-only", systems="macOS"), "it needs a Mac"),
    ],
)
def test_a_known_provider_that_is_missing_says_what_it_needs(double, capsys, provider, problem, advice):
    if any(each.name == provider for each in RUNTIME.providers):
        pytest.skip(f"{provider} is installed here")
    assert run(["bench", str(double), "-r", f"onnxruntime/{provider}", "--no-store"]) == 3
    told = " ".join(capsys.readouterr().err.split())
    assert (
        re.search(says("cant-used-in-plan", name=has("onnxruntime"), word=provider), told)
        and problem in told
        and advice in told
    )
    assert RUNTIME.lacking("cuda9") is None


def test_a_provider_that_is_not_there(double):
    with pytest.raises(UnsupportedModel, match=says("build-onnx-runtime-no-provider", name="cuda9", known="cpu")):
        RUNTIME.load(double, LoadOptions(provider="cuda9"))


def test_the_cloud_is_no_provider():
    with pytest.raises(UnsupportedModel, match=says("build-onnx-runtime-no-provider", known="cpu")):
        _find_provider("azure", ["AzureExecutionProvider", "CPUExecutionProvider"])


class FellBack:
    """A session that was asked for CUDA and quietly took the processor."""

    def __init__(self, *providers, nodes=()):
        self.providers = providers
        self.nodes = nodes

    def get_providers(self):
        return self.providers

    def get_provider_graph_assignment_info(self):
        return self.nodes


class Part:
    def __init__(self, ep_name, count):
        self.ep_name = ep_name
        self.get_nodes = lambda: [None] * count


def test_a_silent_fall_back_is_noticed():
    from edgewise.runtime.onnxruntime import _placement

    cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    with pytest.raises(UnsupportedModel, match=says("could-not-started-onnx-runtime")):
        _placement(FellBack(cpu), cuda)
    with pytest.raises(UnsupportedModel, match=says("supports-no-operator-model-onnx")):
        _placement(FellBack(cuda, cpu, nodes=[Part(cpu, 4)]), cuda)
    assert _placement(FellBack(cuda, cpu, nodes=[Part(cpu, 4), Part(cuda, 2), Part(cuda, 1)]), cuda) == {
        cpu: 4,
        cuda: 3,
    }
    assert _placement(FellBack(cpu), cpu) is None


def test_another_precision_is_refused_not_ignored(double):
    with pytest.raises(UnsupportedModel, match=says("onnx-runtime-runs-model-own", precision="f16")):
        RUNTIME.load(double, LoadOptions(provider="cpu", precision="f16"))


def test_graph_level_and_execution_mode_by_words(double):
    import onnxruntime

    extra = {"graph_optimization_level": "basic", "execution_mode": "parallel"}
    session = RUNTIME.load(double, LoadOptions(provider="cpu", threads=2, extra=extra))
    settings = session._session.get_session_options()
    assert settings.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert settings.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert settings.inter_op_num_threads == 2
    assert infer(session, np.ones((1, 4), np.float32)) == [[[2.0] * 4]]


def test_settings_by_their_own_names(double):
    extra = {"session.intra_op.allow_spinning": 0, "enable_mem_pattern": False}
    session = RUNTIME.load(double, LoadOptions(provider="cpu", extra=extra))
    settings = session._session.get_session_options()
    assert settings.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert settings.enable_mem_pattern is False
    with pytest.raises(
        UnsupportedModel,
        match=says("onnx-runtime-cant", name="graph_optimization_level", value="most", words=has("none, basic")),
    ):
        RUNTIME.load(double, LoadOptions(provider="cpu", extra={"graph_optimization_level": "most"}))
    with pytest.raises(
        UnsupportedModel,
        match=says("setting-not-supported-supported", name="profile_file_prefix", engine="ONNX Runtime"),
    ):
        RUNTIME.load(double, LoadOptions(provider="cpu", extra={"profile_file_prefix": "/tmp/x"}))


@pytest.mark.parametrize(
    ("nodes", "opset", "ir", "domain", "kind", "words"),
    [
        (("Nope", ["x"], ["y"]), 13, 8, None, UnsupportedModel, "No Op registered for Nope"),
        (("Add", ["x", "x"], ["y"]), 13, 99, None, UnsupportedModel, "^Unsupported model IR version: 99"),
        (("Add", ["x", "x"], ["y"]), 99, 8, None, UnsupportedModel, "^ONNX Runtime only"),
        (("Add", ["x", "z"], ["y"]), 13, 8, None, InvalidModel, "'z' is not a graph input"),
    ],
)
def test_models_that_can_not_run(write, nodes, opset, ir, domain, kind, words):
    path = write(nodes, inputs=[("x", "FLOAT", [1])], outputs=[("y", "FLOAT", [1])], opset=opset, ir=ir, domain=domain)
    with pytest.raises(kind, match=words):
        RUNTIME.load(path, ONE)


def test_text(write):
    path = write(("Identity", ["x"], ["y"]), inputs=[("x", "STRING", ["n"])], outputs=[("y", "STRING", ["n"])])
    session = RUNTIME.load(path, ONE)
    assert infer(session, np.array(["a", "bcd"])) == [["a", "bcd"]]
    assert session.effective["call"] == "run"  # text can't be bound
    assert session.effective["inputs_handed_over"] == "with each call"
    with pytest.raises(ValueError, match=says("input-takes-not", dtype="string")):
        session.bind([np.zeros(1, "float32")])


def test_a_sequence_is_no_array(write):
    from onnx import TensorProto, helper, load_model, save_model

    path = write(("SplitToSequence", ["x"], ["s"]), ("Neg", ["x"], ["y"]), inputs=[("x", "FLOAT", [2])],
                 outputs=[("s", "FLOAT", None), ("y", "FLOAT", [2])])  # fmt: skip
    model = load_model(path)
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    model.graph.output[0].type.CopyFrom(kind)
    save_model(model, path)
    session = RUNTIME.load(path, ONE)
    session.bind([np.array([1, 2], "float32")])
    session.invoke()
    sequence, array = session.read_outputs()
    assert sequence is None and array.tolist() == [-1, -2]


def test_weights_outside_the_models_folder_are_not_read(write, tmp_path):
    path = write(("Add", ["x", "w"], ["y"]), inputs=[("x", "FLOAT", [4])], outputs=[("y", "FLOAT", [4])])
    model = onnx.load(path)
    weight = model.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=1)
    weight.external_data.add(key="location", value="../secret")
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(16))
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InvalidModel, match="escapes model directory"):
        RUNTIME.load(folder / "m.onnx", ONE)


def test_messages_lose_what_only_the_engines_authors_need():
    assert _told("[ONNXRuntimeError] : 1 : FAIL : Load model from /a b/m.onnx failed:Fatal error: x\nmore") == (
        "Fatal error: x more"
    )
    place = "/onnxruntime_src/core/framework/op_kernel.cc:87 virtual OrtValue* onnxruntime::Context::Output(int, const Shape&) "
    deep = "Non-zero status code returned while running If node. Name:'a' Status Message: " * 40
    told = _told(f"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : {deep}{place}Input X must have 3 dimensions")
    assert told.startswith("Non-zero status") and told.endswith("Input X must have 3 dimensions")
    assert "op_kernel.cc" not in told and len(told) < 2000
    assert isinstance(_explain(RuntimeError("std::bad_alloc")), MemoryError)
    error = RuntimeError("but not a store of edgewise")
    assert _explain(error) is error


def test_a_closed_session_does_not_infer(double):
    session = RUNTIME.load(double, ONE)
    with pytest.raises(RuntimeError, match=says("nothing-bound-session-closed")):
        session.invoke()
    infer(session, np.ones((1, 4), "float32"))
    session.close()
    with pytest.raises(RuntimeError, match=says("nothing-bound-session-closed")):
        session.invoke()
