"""Networks whose shapes, branches or repetitions depend on values, against a count of what an unoptimised run made."""

import re
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from math import prod
from pathlib import Path

import numpy as np
import pytest

from edgewise import inspect
from edgewise.cli.main import run as edgewise_cli
from edgewise.model.cost import total_of
from edgewise.model.inspection import inspect_graph
from edgewise.record import InputSpec
from edgewise.registry import Availability
from edgewise.run import observation
from edgewise.run.complexity import complexity_of
from edgewise.runtime.onnxruntime import OnnxRuntime
from edgewise.workload.inputs import make_arrays
from edgewise.workload.resolved_graph import read_resolved_graph
from messages import says
from sample_runs import same_model_runs

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.engine

FLOAT, INT, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info


def constant(name, array):
    return onnx.numpy_helper.from_array(np.asarray(array), name)


def save(path, nodes, *, inputs, outputs, constants=(), name="net"):
    graph = onnx.helper.make_graph(nodes, name, inputs, outputs, list(constants))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, path)
    return path


def weights(rows, columns, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


def write_heads(path):
    """Attention's reshapes as exporters write them: tokens [N, S, 8] → [N, 2, S, 4] by arithmetic on shapes."""
    return save(
        path,
        [
            node("Shape", ["x"], ["shape"]),
            node("Slice", ["shape", "zero", "two"], ["front"]),
            node("Concat", ["front", "tail"], ["split"], axis=0),
            node("Reshape", ["x", "split"], ["parted"]),
            node("Transpose", ["parted"], ["heads"], perm=[0, 2, 1, 3]),
            node("Transpose", ["parted"], ["keys"], perm=[0, 2, 3, 1]),
            node("MatMul", ["heads", "keys"], ["scores"]),
            node("ConstantOfShape", ["front"], ["mask"], value=constant("", np.ones(1, np.float32))),
            node("Unsqueeze", ["mask", "axes"], ["wide"]),
            node("Mul", ["scores", "wide"], ["y"]),
        ],
        inputs=[value("x", FLOAT, ["n", "s", 8])],
        outputs=[value("y", FLOAT, None)],
        constants=[
            constant("zero", np.array([0])),
            constant("two", np.array([2])),
            constant("tail", np.array([2, 4])),
            constant("axes", np.array([1, 2])),
        ],
    )


def write_selection(path):
    """Rows above a threshold only: how many there are depends on the values."""
    return save(
        path,
        [
            node("ReduceMean", ["x"], ["mean"], axes=[1], keepdims=0),
            node("Greater", ["mean", "half"], ["chosen"]),
            node("Compress", ["x", "chosen"], ["rows"], axis=0),
            node("MatMul", ["rows", "w"], ["result"]),
            node("Relu", ["result"], ["y"]),
        ],
        inputs=[value("x", FLOAT, [40, 6])],
        outputs=[value("y", FLOAT, None)],
        constants=[constant("half", np.float32(0.5)), constant("w", weights(6, 3))],
    )


def write_branches(path):
    """A wide layer where the input's sum is positive, as it is for random inputs; else a narrow one."""

    def branch(name, columns, back):
        return onnx.helper.make_graph(
            [
                node("MatMul", ["x", f"{name}_w"], [f"{name}_h"]),
                node("MatMul", [f"{name}_h", f"{name}_v"], [f"{name}_y"]),
            ],
            name,
            [],
            [value(f"{name}_y", FLOAT, None)],
            [constant(f"{name}_w", weights(6, columns)), constant(f"{name}_v", back)],
        )

    return save(
        path,
        [
            node("ReduceSum", ["x"], ["sum"], keepdims=0),
            node("Greater", ["sum", "zero"], ["positive"]),
            node(
                "If", ["positive"], ["y"],
                then_branch=branch("wide", 100, weights(100, 6)), else_branch=branch("narrow", 2, weights(2, 6)),
            ),
        ],
        inputs=[value("x", FLOAT, [4, 6])],
        outputs=[value("y", FLOAT, None)],
        constants=[constant("zero", np.float32(0))],
    )  # fmt: skip


def write_loop(path, trips="count"):
    """A layer that is repeated as often as a count of values says."""
    body = onnx.helper.make_graph(
        [node("MatMul", ["state", "w"], ["next"]), node("Identity", ["going"], ["on"])],
        "body",
        [value("step", INT, []), value("going", BOOL, []), value("state", FLOAT, [4, 6])],
        [value("on", BOOL, []), value("next", FLOAT, [4, 6])],
    )
    return save(
        path,
        [
            node("Greater", ["x", "half"], ["above"]),
            node("Cast", ["above"], ["ones"], to=INT),
            node("ReduceSum", ["ones"], ["count"], keepdims=0),
            node("Loop", [trips, "true", "x"], ["y"], body=body),
        ],
        inputs=[value("x", FLOAT, [4, 6])],
        outputs=[value("y", FLOAT, [4, 6])],
        constants=[
            constant("half", np.float32(0.5)),
            constant("true", np.array(True)),
            constant("w", weights(6, 6) / 10),
        ],
    )


def feed_of(inspection):
    """What the model is fed, as an inspection and a benchmark feed it."""
    tensors = [inspection.graph.tensors[name] for name in inspection.graph.inputs]
    specs = [InputSpec(name=each.name, shape=each.shape, dtype=each.dtype) for each in tensors]
    return dict(zip([each.name for each in specs], make_arrays(specs, seed=0), strict=True))


def run_whole(path, feed):
    """Every value of the outermost graph, from a run without optimisations that has them all as outputs."""
    model = onnx.load(path)
    known = {info.name for info in model.graph.output}
    kinds = {info.name: info for info in onnx.shape_inference.infer_shapes(model).graph.value_info}
    for each in (name for step in model.graph.node for name in step.output if name and name not in known):
        model.graph.output.append(kinds.get(each) or onnx.helper.make_empty_tensor_value_info(each))
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    arrays = dict(zip(names, session.run(names, feed), strict=True))
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    constants |= {
        step.output[0]: onnx.numpy_helper.to_array(step.attribute[0].t)
        for step in model.graph.node
        if step.op_type == "Constant" and step.attribute[0].name == "value"
    }
    return model.graph, {**constants, **feed, **arrays}


def count_products(graph, arrays):
    """Multiplications of convolutions and matrix products, from the arrays that a run took and made."""
    total = 0
    for step in graph.node:
        made = arrays.get(step.output[0])
        if step.op_type == "Conv":
            total += made.size * prod(arrays[step.input[1]].shape[1:])
        elif step.op_type == "MatMul":
            total += made.size * arrays[step.input[0]].shape[-1]
        elif step.op_type == "Gemm":
            transposed = any(each.name == "transA" and each.i for each in step.attribute)
            total += made.size * arrays[step.input[0]].shape[0 if transposed else 1]
        else:
            assert step.op_type not in ("ConvTranspose", "LSTM", "GRU", "RNN", "Einsum", "If", "Loop", "Scan")
    return total


def check_against_a_run(path, shapes=None):
    """Every shape and the MACs of an inspection against a run's; returns the inspection."""
    found = inspect(path, shapes=shapes)
    graph, arrays = run_whole(path, feed_of(found))
    for name, array in arrays.items():
        if name in found.graph.tensors and not found.graph.tensors[name].constant:
            assert found.graph.tensors[name].shape == array.shape, name
    assert found.total.macs == count_products(graph, arrays)
    assert found.total.ops is not None
    assert not found.plan.unknown
    return found


def test_arithmetic_on_shapes_is_followed_without_a_run(tmp_path):
    pytest.importorskip("sympy")
    found = check_against_a_run(write_heads(tmp_path / "heads.onnx"), {"x": (2, 5, 8)})
    assert (found.basis, found.method) == ("derived", "")
    assert found.total.macs == 2 * 2 * 5 * 5 * 4


def test_a_shape_that_depends_on_values_is_measured(tmp_path):
    found = check_against_a_run(write_selection(tmp_path / "selection.onnx"))
    assert found.basis == "measured"
    rows = int((feed_of(found)["x"].mean(axis=1) > 0.5).sum())
    assert 0 < rows < 40
    assert found.total.macs == rows * 6 * 3
    document = found.to_dict()
    assert document["totals"]["basis"] == document["memory_plan"]["basis"] == "measured"
    assert "one unoptimised run of ONNX Runtime" in document["totals"]["method"]
    assert document["totals"]["method"].endswith("; other inputs give other shapes of 'rows' and 2 more")


def inspect_run(path):
    """An inspection of what a run on these inputs alone shows, as a job has it."""
    network = read_resolved_graph(path, shapes={})
    return inspect_graph(observation.observe(network.graph, path, network.inputs), source=network.source)


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (write_branches, "which branch runs depends on the data"),
        (write_loop, "the number of repetitions depends on the data"),
    ],
)
def test_what_is_otherwise_on_other_inputs_is_unknown(tmp_path, write, why):
    found = inspect(write(tmp_path / "m.onnx"))
    assert (found.total.macs, found.total.ops) == (None, None)
    assert found.total.why.endswith(f": {why}")


def test_repetitions_that_an_input_decides_are_unknown(tmp_path):
    """The trip count goes through a Squeeze from the model's input into the loop."""
    model = onnx.load(write_loop(tmp_path / "m.onnx"))
    del model.graph.node[:3]
    model.graph.input.append(value("times", INT, [1]))
    model.graph.node.insert(0, node("Squeeze", ["times"], ["count"]))
    onnx.save(model, tmp_path / "m.onnx")
    found = inspect(tmp_path / "m.onnx")
    assert (found.total.macs, found.total.why) == (None, "y: the number of repetitions is decided by the input 'times'")
    once = observation.observe(
        found.graph,
        tmp_path / "m.onnx",
        [
            InputSpec(name="x", shape=(4, 6), dtype="float32"),
            InputSpec(name="times", shape=(1,), dtype="int64", value=3),
        ],
    )
    assert total_of(once).macs == 3 * 4 * 6 * 6


def test_a_branch_that_an_input_decides_is_unknown(tmp_path):
    model = onnx.load(write_branches(tmp_path / "m.onnx"))
    del model.graph.node[:2]
    model.graph.input.append(value("positive", BOOL, []))
    onnx.save(model, tmp_path / "m.onnx")
    found = inspect(tmp_path / "m.onnx")
    assert (found.total.macs, found.total.why) == (None, "y: the branch that runs is decided by the input 'positive'")


def test_repetitions_that_no_input_changes_are_counted(tmp_path):
    """As often as the input has elements, 24 times."""
    model = onnx.load(write_loop(tmp_path / "m.onnx"))
    del model.graph.node[:3]
    model.graph.node.insert(0, node("Size", ["x"], ["count"]))
    onnx.save(model, tmp_path / "m.onnx")
    found = inspect(tmp_path / "m.onnx")
    assert (found.basis, found.total.macs) == ("measured", 24 * 4 * 6 * 6)


def test_repetitions_stay_unknown_where_the_other_run_fails(tmp_path, monkeypatch):
    ran, once = [], observation._run

    def run_once(*given):
        ran.append(given)
        if len(ran) > 1:
            raise observation._Unobserved("no")
        return once(*given)

    monkeypatch.setattr(observation, "_run", run_once)
    found = inspect(write_loop(tmp_path / "m.onnx"))
    assert len(ran) == 2 and found.total.macs is None
    assert found.method.endswith("; a run on other inputs failed, so branches and repetitions stay unknown")


def test_the_branch_that_runs_is_counted(tmp_path):
    found = inspect_run(write_branches(tmp_path / "branches.onnx"))
    assert (found.basis, found.total.macs) == ("measured", 4 * 6 * 100 * 2)
    # While the branch runs its own activation [4, 100] lives beside the input and the output.
    branch = next(each for each in found.plan.placements if each.tensor.startswith("inside "))
    assert branch.size_bytes == 4 * 4 * 100
    assert found.plan.lower_bound_bytes >= 4 * (4 * 100 + 2 * 4 * 6)


def test_repetitions_are_counted(tmp_path):
    found = inspect_run(write_loop(tmp_path / "loop.onnx"))
    count = int((feed_of(found)["x"] > 0.5).sum())
    assert count > 1
    assert (found.basis, found.total.macs) == ("measured", count * 4 * 6 * 6)


def test_counts_and_layers_rest_on_one_run(tmp_path, monkeypatch):
    path = write_selection(tmp_path / "selection.onnx")
    data = tmp_path / "data.npz"
    np.savez(data, x=np.repeat([[0.0], [1.0]], [37, 3], axis=0).repeat(6, axis=1).astype(np.float32))
    run = same_model_runs()[0]
    fed = (InputSpec(name="x", shape=(40, 6), dtype="float32"),)
    workload = replace(run.job.workload, inputs=fed, input_data="0" * 64, input_path=str(data))
    job = replace(run.job, model=replace(run.job.model, path=str(path), format="onnx"), workload=workload)
    ran, once = [], observation._run
    monkeypatch.setattr(observation, "_run", lambda *given, **named: ran.append(1) or once(*given, **named))
    rows = {row.metric: row for row in complexity_of(job)}
    graph = observation.read_run_graph(job)
    assert ran == [1] and rows["macs"].value == 3 * 6 * 3 and rows["macs"].basis == "measured"
    assert graph.tensors["rows"].shape == (3, 6)
    assert total_of(graph).macs == 3 * 6 * 3
    assert "the data in data.npz" in graph.metadata["observed"]


def test_without_the_engine_the_reason_is_told(tmp_path, monkeypatch):
    absent = Availability(available=False, reason="onnxruntime is not installed", install_hint="pip install it")
    monkeypatch.setattr(OnnxRuntime, "availability", lambda self: absent)
    found = inspect(write_selection(tmp_path / "selection.onnx"))
    assert (found.basis, found.total.macs) == ("derived", None)
    assert found.method == "a run of the model would show it, but onnxruntime is not installed (pip install it)"
    assert found.plan.unknown


def test_a_model_that_never_ends_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(observation, "TIMEOUT_S", 0.5)  # real time: it has to end, on any machine
    found = inspect(write_loop(tmp_path / "forever.onnx", trips=""))
    assert (found.total.macs, found.method) == (None, "a run of the model took longer than 0.5 s")


def test_a_run_that_takes_too_long_or_too_much_is_ended(tmp_path, monkeypatch):
    path = save(
        tmp_path / "wide.onnx",
        [
            node("ReduceMax", ["x"], ["most"], keepdims=0),
            node("Ceil", ["most"], ["one"]),
            node("Cast", ["one"], ["whole"], to=INT),
            node("Mul", ["whole", "huge"], ["size"]),
            node("Unsqueeze", ["size", "axis"], ["shape"]),
            node("Expand", ["x", "shape"], ["y"]),
        ],
        inputs=[value("x", FLOAT, [1])],
        outputs=[value("y", FLOAT, None)],
        constants=[constant("huge", np.int64(2**44)), constant("axis", np.array([0]))],
    )
    found = inspect(path)
    assert re.match(says("shape-gives-others", refused=says("model-could-not-run-inputs")), found.method)
    monkeypatch.setattr(observation, "TIMEOUT_S", 0.01)  # real time: it has to end, on any machine
    assert inspect(path).method == "a run of the model took longer than 0.01 s"


def test_the_model_never_runs_in_this_process(tmp_path):
    path = write_selection(tmp_path / "selection.onnx")
    code = f"import sys, edgewise; print(edgewise.inspect({str(path)!r}).basis, 'onnxruntime' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["measured", "False"]


@pytest.mark.parametrize(
    ("package", "file", "shapes"),
    [
        ("rapidocr", "models/PP-OCRv6_rec_small.onnx", {"x": (1, 3, 48, 160)}),
        ("rapidocr", "models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", {"x": (1, 3, 48, 192)}),
    ],
)
def test_real_models_with_open_shapes(package, file, shapes):
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    check_against_a_run(Path(next(iter(spec.submodule_search_locations))) / file, shapes)


def test_the_command_says_what_was_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    path = write_selection(tmp_path / "selection.onnx")
    assert edgewise_cli(["inspect", str(path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Measured shapes, branches and repetitions observed in one unoptimised run of ONNX Runtime" in told
    monkeypatch.setattr(observation, "TIMEOUT_S", 0.01)  # real time: it has to end, on any machine
    assert edgewise_cli(["inspect", str(path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Not measured a run of the model took longer than 0.01 s" in told
    assert "MACs n/a" in told


def test_other_plausible_sizes_are_asked_where_the_engine_refuses_the_assumed_ones(tmp_path):
    """Pictures of 224 pixels don't split into rows of 256; those of 256 do."""
    path = save(
        tmp_path / "m.onnx",
        [
            node("NonZero", ["x"], ["places"]),
            node("Reshape", ["x", "rows"], ["split"]),
            node("MatMul", ["split", "w"], ["y"]),
        ],
        inputs=[value("x", FLOAT, [1, 3, "height", "width"])],
        outputs=[value("y", FLOAT, None), value("places", INT, None)],
        constants=[constant("rows", np.array([1, 3, 256, -1])), constant("w", weights(256, 4))],
    )
    found = inspect(path)
    assert found.graph.tensors["x"].shape == (1, 3, 256, 256)
    assert (found.total.macs, found.basis) == (3 * 256 * 256 * 4, "measured")
    assert any("256" in note for note in found.source["assumed"])
    assert inspect(path, shapes={"x": (1, 3, 224, 224)}).total.macs is None
