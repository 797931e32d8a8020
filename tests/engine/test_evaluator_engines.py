"""What real engines answer is what the judge sees: batches, integers that stand for real numbers, open shapes, text."""

from __future__ import annotations

import json

import numpy as np
import pytest

from edgewise.cli.main import run
from edgewise.errors import BadInput
from edgewise.evaluating.evaluator import run_samples
from messages import says
from small_selections import Recorder, Rows, model_under_test, rows, run_builder, selection
from tiny_models import write_tiny_onnx

WEIGHTS = np.arange(1, 9, dtype=np.float32).reshape(4, 2)


def put(path, data, *, runtime="onnxruntime", scorer=None, **settings):
    return run_samples(
        model_under_test(path, runtime=runtime, **settings), selection(data), scorer or Recorder(), builder=run_builder()
    )  # fmt: skip


def save(path, nodes, inputs, outputs, constants=()):
    onnx = pytest.importorskip("onnx")
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, list(constants))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, path)
    return path


@pytest.fixture(autouse=True)
def onnxruntime():
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def expected(data):
    return [np.maximum(row[None] @ WEIGHTS, 0.0) for row in data]


@pytest.mark.engine
@pytest.mark.parametrize("count", [1, 3, 4, 10])
def test_a_fixed_batch_is_filled_up_and_the_filling_is_not_judged(tmp_path, count):
    data = rows(count)
    answers = put(write_tiny_onnx(tmp_path / "m.onnx", batch=4), Rows(data))
    assert [entry.index for entry in answers.entries] == list(range(count)) and answers.failure is None
    for record, wanted in zip(answers.records, expected(data), strict=True):
        np.testing.assert_allclose(record[0], wanted, rtol=1e-5)


@pytest.mark.engine
def test_an_open_batch_may_be_asked_for(tmp_path):
    data = rows(10)
    answers = put(write_tiny_onnx(tmp_path / "m.onnx", batch="n"), Rows(data), batch=3)
    np.testing.assert_allclose([record[0] for record in answers.records], expected(data), rtol=1e-5)


@pytest.mark.engine
def test_a_judge_that_drives_asks_one_sample_at_a_time_of_a_batch(tmp_path):
    class Driver(Recorder):
        def run_model(self, infer, arrays, sample):
            first = infer(arrays)
            return [first[0] + infer([arrays[0] * 2])[0]]

    data = np.abs(rows(6))
    answers = put(write_tiny_onnx(tmp_path / "m.onnx", batch=4), Rows(data), scorer=Driver())
    np.testing.assert_allclose([record[0] for record in answers.records], [3 * y for y in expected(data)], rtol=1e-5)


@pytest.mark.engine
def test_an_output_without_the_batch_can_t_be_split(tmp_path):
    from onnx import TensorProto, helper

    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
    )
    with pytest.raises(BadInput, match=says("output-shape-cant-split-into")):
        put(path, Rows(rows(4, 3)))


@pytest.mark.engine
def test_outputs_whose_shape_depends_on_the_data_stay_apart(tmp_path):
    from onnx import TensorProto, helper

    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("NonZero", ["x"], ["y"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [2, None])],
    )
    data = np.array([[0, 1, 0, 2, 0, 0], [0] * 6, [1] * 6, [0, 0, 0, 0, 0, 9]] * 8, dtype=np.float32)
    answers = put(path, Rows(data))
    assert answers.failure is None
    assert [record[0] for record in answers.records] == [np.array(np.nonzero(row[None])).tolist() for row in data]


@pytest.mark.engine
def test_outputs_of_text_are_a_failure_that_says_so(tmp_path):
    from onnx import TensorProto, helper

    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [1, 4])],
    )
    try:
        answers = put(path, Rows(rows(3)))
    except BadInput as error:
        assert error.message
    else:
        assert answers.failure is not None and answers.failure.message and not answers.records


@pytest.mark.engine
def test_integers_that_stand_for_real_numbers_are_fed_and_read_by_their_scales(tmp_path, shared_models):
    interpreter_module = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    path = shared_models / "kws_ref_model.tflite"
    if not path.exists():
        pytest.skip("the keyword model is not here")
    interpreter = interpreter_module.Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    (entry,), (exit_,) = interpreter.get_input_details(), interpreter.get_output_details()
    (scale_in, zero_in), (scale_out, zero_out) = entry["quantization"], exit_["quantization"]
    shape = tuple(int(size) for size in entry["shape"])
    data = np.random.default_rng(0).uniform(-100, 100, (6, *shape[1:])).astype(np.float32)
    answers = put(path, Rows(data), runtime="litert")
    assert answers.failure is None and "round(x" in answers.notes[0]
    for row, record in zip(data, answers.records, strict=True):
        # To the nearest, halves to even, and no further than int8 reaches.
        whole = np.clip(np.rint(row[None].astype(np.float64) / scale_in) + zero_in, -128, 127).astype(np.int8)
        interpreter.set_tensor(entry["index"], whole)
        interpreter.invoke()
        wanted = (interpreter.get_tensor(exit_["index"]).astype(np.float64) - zero_out) * scale_out
        np.testing.assert_allclose(record[0], wanted, rtol=0, atol=1e-12)


@pytest.mark.engine
def test_two_engines_that_agree_give_the_same_answers(tmp_path):
    pytest.importorskip("openvino", reason="openvino is not installed")
    data = rows(10)
    path = write_tiny_onnx(tmp_path / "m.onnx", batch=4)
    one, other = (put(path, Rows(data), runtime=name) for name in ("onnxruntime", "openvino"))
    np.testing.assert_allclose(
        [record[0] for record in one.records], [record[0] for record in other.records], rtol=1e-4, atol=1e-5
    )


def write_mean(path):
    """``y = mean(x) over the last axis, times 2``, of any length: what a network with a pooled sequence does."""
    from onnx import TensorProto, helper

    return save(
        path,
        [
            helper.make_node("ReduceMean", ["x"], ["m"], axes=[1], keepdims=1),
            helper.make_node("Concat", ["m", "m"], ["y"], axis=1),
        ],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
    )


@pytest.mark.engine
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_samples_of_different_length_are_run_unpadded(tmp_path, runtime):
    pytest.importorskip(runtime, reason=f"{runtime} is not installed")
    lengths = [3, 17, 5, 17, 3, 9, 30, 31, 3]
    data = [np.arange(length, dtype=np.float32) for length in lengths]
    answers = put(write_mean(tmp_path / "m.onnx"), Rows(data), runtime=runtime)
    assert answers.failure is None
    assert [record[0] for record in answers.records] == [[[(n - 1) / 2] * 2] for n in lengths]
    assert "[1, ?], each sample in its own size, unpadded" in answers.notes[0]


@pytest.mark.engine
def test_samples_of_different_length_share_no_batch(tmp_path):
    data = [np.ones(length, np.float32) for length in (3, 4)]
    with pytest.raises(BadInput, match=says("samples-different-sizes-cant-share")):
        put(write_mean(tmp_path / "m.onnx"), Rows(data), batch=2)


@pytest.mark.engine
@pytest.mark.long
def test_the_latency_is_of_the_first_samples_size(tmp_path):
    path = write_mean(tmp_path / "m.onnx")
    source = tmp_path / "data.py"
    source.write_text(
        "import numpy as np\ndef make():\n    return [(np.full(n, n % 2, 'float32'), n % 2) for n in (7, 4, 12)]\n"
    )
    out = tmp_path / "out.json"
    words = ["evaluate", str(path), "--data", f"{source}:make", "--task", "classification", "-q", "--no-store"]
    assert run([*words, "-o", str(out)]) == 0
    record = json.loads(out.read_text())["run"]
    (spec,) = record["job"]["workload"]["inputs"]
    assert spec["shape"] == [1, 7] and "is 7, as in" in spec["note"]
    assert "assumed-shape" not in {caution["code"] for caution in record["cautions"]}
