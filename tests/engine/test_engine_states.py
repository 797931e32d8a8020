"""Models that keep a state, on the engines that keep it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgewise
from edgewise.model.identity import read_graph
from edgewise.runtime.base import LoadOptions, UnsupportedModel, reset_state, states_of
from edgewise.runtime.litert import LiteRt
from edgewise.runtime.openvino import OpenVino
from litert_networks import write_subgraphs

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("states")


@pytest.fixture(scope="module")
def memory(folder) -> Path:
    """An IR with ``y = x + 0.5 memory``, where the memory is the last y."""
    openvino = pytest.importorskip("openvino")
    from openvino import opset13 as op
    from openvino.op.util import Variable, VariableInfo

    info = VariableInfo()
    info.data_shape, info.data_type, info.variable_id = openvino.PartialShape([1, 3]), openvino.Type.f32, "memory"
    variable = Variable(info)
    x = op.parameter([1, 3], np.float32, name="x")
    read = op.read_value(op.constant(np.zeros((1, 3), np.float32)), variable)
    y = op.add(x, op.multiply(read, op.constant(np.float32(0.5))))
    model = openvino.Model([op.result(y)], [op.assign(y, variable)], [x], "memory")
    model.inputs[0].tensor.set_names({"x"})
    model.outputs[0].tensor.set_names({"y"})
    openvino.save_model(model, folder / "memory.xml", compress_to_fp16=False)
    return folder / "memory.xml"


@pytest.fixture(scope="module")
def filter_in_time(folder) -> Path:
    """SVDF, whose state is a variable tensor: on ones, each output is 2 more than the last one, up to 10."""

    def build(schema, graph, tensor, step):
        main = graph()
        x, features = tensor(main, "x", (1, 4)), tensor(main, "features", (3, 4), 1)
        times, state = tensor(main, "times", (3, 5), 0.5), tensor(main, "state", (1, 15), isVariable=True)
        y = tensor(main, "y", (1, 3))
        step(main, "SVDF", [x, features, times, -1, state], [y], schema.SVDFOptionsT(rank=1))
        main.inputs, main.outputs = [x], [y]

    return write_subgraphs(folder / "svdf.tflite", build)


@pytest.fixture(scope="module")
def resource(folder) -> Path:
    """``y = x + memory``, where the memory is a resource variable that begins with 0.5 and is the last y."""

    def build(schema, graph, tensor, step):
        main, first = graph(), graph()
        kind = schema.TensorType.RESOURCE

        def handle(place):
            made = tensor(place, "handle", (1,), kind=kind)
            step(place, "VAR_HANDLE", [], [made], schema.VarHandleOptionsT(sharedName="memory", container=""))
            return made

        step(first, "ASSIGN_VARIABLE", [handle(first), tensor(first, "begin", (1, 4), 0.5)], [],
             schema.AssignVariableOptionsT())  # fmt: skip
        step(main, "CALL_ONCE", [], [], schema.CallOnceOptionsT(initSubgraphIndex=1))
        x, own, read = tensor(main, "x", (1, 4)), handle(main), tensor(main, "read", (1, 4))
        step(main, "READ_VARIABLE", [own], [read], schema.ReadVariableOptionsT())
        y = tensor(main, "y", (1, 4))
        step(main, "ADD", [x, read], [y], schema.AddOptionsT())
        step(main, "ASSIGN_VARIABLE", [own, y], [], schema.AssignVariableOptionsT())
        main.inputs, main.outputs = [x], [y]

    return write_subgraphs(folder / "resource.tflite", build)


CASES = [
    (OpenVino, "cpu", "memory", [1, 1.5, 1.75], "memory", True),
    (LiteRt, "interpreter", "filter_in_time", [2, 4, 6], "state", True),
    (LiteRt, "interpreter-noxnnpack", "filter_in_time", [2, 4, 6], "state", True),
    (LiteRt, "interpreter", "resource", [1.5, 2.5, 3.5], "memory", False),
    (LiteRt, "compiled", "resource", [1.5, 2.5, 3.5], "memory", False),
]


@pytest.mark.parametrize("model", ["filter_in_time", "resource"])
def test_states_of_tflite_files_are_no_damage_to_openvino(request, model):
    pytest.importorskip("openvino")
    with pytest.raises(UnsupportedModel):
        OpenVino().load(request.getfixturevalue(model), LoadOptions(provider="cpu"))


@pytest.mark.parametrize(("runtime", "provider", "model", "expected", "name", "resets"), CASES)
def test_a_session_names_its_states_and_resets_them_where_the_engine_can(
    request, runtime, provider, model, expected, name, resets
):
    path = request.getfixturevalue(model)
    session = runtime().load(path, LoadOptions(provider=provider))

    def infer():
        session.bind([np.ones(spec.shape, np.float32) for spec in session.inputs])
        session.invoke()
        return float(session.read_outputs()[0].ravel()[0])

    assert [infer() for _ in range(3)] == pytest.approx(expected)
    assert states_of(session) == (name,) == read_graph(path).states
    assert reset_state(session) is resets
    if resets:
        assert infer() == pytest.approx(expected[0])


@pytest.mark.parametrize(
    ("model", "runtime", "how"),
    [
        ("memory", "openvino/cpu", "the model keeps a state (memory); reset before each sample"),
        (
            "resource",
            "litert/interpreter",
            "the model keeps a state (memory); the engine can't reset it, so the model was loaded again before each sample",
        ),
    ],
)
def test_an_evaluation_resets_the_state_before_each_sample(request, tmp_path, model, runtime, how):
    """The input itself is the answer. With the state of earlier samples, every later answer is that of the first."""
    path = request.getfixturevalue(model)
    size = read_graph(path).tensors["x"].shape[-1]
    labels = [0, 1, 2, 1, 2, 0]
    scores = np.eye(size, dtype=np.float32)[labels] / 4 ** np.arange(6, dtype=np.float32)[:, None]
    np.savez(tmp_path / "d.npz", x=scores, y=labels)
    given = {"data": tmp_path / "d.npz", "task": "classification", "prepare": ["none"], "runtimes": [runtime]}
    given |= {"latency": False, "store": str(tmp_path / "runs.db")}

    def accuracy(**more):
        (one,) = edgewise.evaluate(path, **given, **more).models
        return {score.metric: score.value for score in one.scores}["accuracy_top1"], one

    reset, one = accuracy()
    kept, sequence = accuracy(keep_state=True)
    assert (reset, kept) == (1.0, pytest.approx(1 / 3))
    assert one.notes[-1] == how and how in [each.message for each in one.run.cautions]
    assert sequence.run.job.workload.keep_state
    assert "kept from sample to sample as one sequence" in sequence.notes[-1]


def test_engines_are_compared_from_the_same_state(resource, tmp_path):
    """They make different numbers of inferences before their outputs are read."""
    runs = edgewise.bench(
        resource, runtimes=["litert/interpreter", "litert/compiled"], sessions=1, duration=0.05,
        store=str(tmp_path / "runs.db"),
    )  # fmt: skip
    assert [run.effective["states"] for run in runs] == [["memory"], ["memory"]]
    codes = [[each.code for each in run.cautions] for run in runs]
    assert all("keeps-state" in each and "output-mismatch" not in each for each in codes)
    assert [run.value("output_max_abs_error") for run in runs] == [None, 0.0]
