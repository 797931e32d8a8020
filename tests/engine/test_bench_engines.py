"""`edgewise bench` on real engines: what a user types, from the file to the exit code."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgewise
from edgewise.cancellation import CancelToken, cancellable
from edgewise.cli.main import run
from edgewise.data import path as bundled
from edgewise.progress import SessionStarted
from edgewise.record import Run
from edgewise.run.dispatch import Interrupted
from edgewise.run.run_builder import _mixed_precisions
from edgewise.runtime.base import runtimes
from messages import says

pytestmark = [pytest.mark.engine]
QUICK = {"iterations": 10, "warmup": 2, "sessions": 1, "meters": False}


def need(*names):
    for name in names:
        availability = runtimes().get(name).availability()
        if not availability:
            pytest.skip(f"{name}: {availability.reason}")


@pytest.fixture(autouse=True)
def private_store(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", f"sqlite:///{tmp_path}/store.db")


@pytest.mark.cold
def test_one_onnx_model_on_two_runtimes_as_one_json_document(capsys):
    need("onnxruntime", "openvino")
    assert run(["bench", str(bundled("digits_cnn.onnx")), "--iterations", "20", "--json", "-q"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [record["job"]["runtime"]["name"] for record in document["runs"]] == ["onnxruntime", "openvino"]
    for record in document["runs"]:
        rows = {row["metric"]: row for row in record["measurements"]}
        for metric in (
            "latency", "latency_first", "throughput", "import_time", "load_time", "startup_time", "memory_baseline",
            "memory_load", "memory_peak", "memory_delta", "model_size", "cpu_utilization",
        ):  # fmt: skip
            assert rows[metric]["value"] > 0, metric
        assert rows["memory_peak"]["value"] >= rows["memory_baseline"]["value"]
        assert (rows["output_max_rel_error"]["value"] or 0.0) < 1e-4
        assert rows["agreement_top1"]["value"] in (1.0, None)
        assert record["effective"]["engine_version"]


def test_ctrl_c_keeps_the_finished_session_of_a_model_whose_operators_are_not_counted_yet():
    need("onnxruntime")
    token = CancelToken()

    def progress(event):
        if isinstance(event, SessionStarted) and event.index == 1:
            token.cancel("enough")

    with cancellable(token), pytest.raises(Interrupted) as stopped:
        path = bundled("digits_cnn.onnx")
        edgewise.bench(path, runtimes=["onnxruntime"], **QUICK | {"sessions": 3}, progress=progress)
    (cancelled,) = stopped.value.runs
    assert cancelled.status == "cancelled" and len(cancelled.sessions) == 1
    assert cancelled.value("latency") > 0 and cancelled.value("macs") > 0


@pytest.mark.long
def test_every_shared_model_is_measured_on_both_engines(shared_models):
    need("litert", "openvino")
    models = sorted(shared_models.glob("*.tflite"))
    measured = edgewise.bench(models, **QUICK)
    assert len(models) == 9 and len(measured) == 18
    assert [record.status for record in measured] == ["done"] * 18
    assert all(record.value("latency") for record in measured)


@pytest.mark.long
def test_the_nine_architectures_of_the_onnx_package(tmp_path):
    need("onnxruntime", "openvino")
    import onnx

    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    models = sorted(light.glob("light_*.onnx"))
    measured = edgewise.bench(models, iterations=1, warmup=1, meters=False)
    assert len(measured) == 2 * len(models) == 18
    assert {record.status for record in measured} == {"done"}


def test_openvino_is_pinned_to_f32_and_says_so():
    need("openvino")
    (default,) = edgewise.bench(bundled("digits_cnn.onnx"), runtimes=["openvino"], **QUICK)
    assert default.effective["precision"] == "f32"
    asked = edgewise.bench(bundled("digits_cnn.onnx"), runtimes=["openvino"], precisions=["f32", "bf16"], **QUICK)
    assert [record.job.runtime.precision for record in asked] == ["f32", "bf16"]
    assert asked[0].effective["precision"] == "f32"
    assert asked[1].effective["precision"] in ("bf16", "f32")  # a processor without bf16 stays at f32 …
    ignored = any(caution.code == "settings-ignored" for caution in asked[1].cautions)
    assert ignored == (asked[1].effective["precision"] == "f32")  # … and then says that it was ignored
    # Precisions side by side are named unless they were asked for.
    assert not any(caution.code == "precision-differs" for record in asked for caution in record.cautions)
    unasked: list[Run] = [
        replace(record, job=replace(record.job, runtime=replace(record.job.runtime, precision=None)))
        for record in asked
    ]
    expected = len({record.effective["precision"] for record in asked}) > 1
    assert bool(_mixed_precisions(unasked)) == expected


def test_openvino_auto_keeps_to_one_thread_and_f32():
    need("openvino")
    cpu, auto = edgewise.bench(
        bundled("digits_cnn.onnx"),
        runtimes=["openvino"],
        providers=["cpu", "auto"],
        iterations=200,
        warmup=20,
        meters=False,
    )
    assert auto.effective["precision"] == cpu.effective["precision"] == "f32"
    assert auto.value("cpu_utilization") < 1.3  # two threads were seen to make 1.85
    assert auto.value("output_max_rel_error") < 1e-4


def test_outputs_that_are_no_numbers_are_never_recommended(tmp_path, capsys):
    need("onnxruntime", "openvino")
    from onnx import TensorProto, helper, save_model

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Log", ["n"], ["y"])]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save_model(model, tmp_path / "nan.onnx")
    assert run(["bench", str(tmp_path / "nan.onnx"), "--iterations", "20", "--json", "-q"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["recommendation"] is None
    for record in document["runs"]:
        assert "output-not-finite" in [caution["code"] for caution in record["cautions"]]


def write_strided(path, stride, size="side"):
    """``x + resize(max_pool(x))``: needs sides that are multiples of `stride`."""
    from onnx import TensorProto, helper, numpy_helper, save_model

    def value(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[stride, stride], strides=[stride, stride]),
        helper.make_node("Resize", ["p", "", "scales"], ["u"], mode="nearest"),
        helper.make_node("Add", ["x", "u"], ["y"]),
    ]
    scales = numpy_helper.from_array(np.array([1, 1, stride, stride], np.float32), "scales")
    values = value("x", [1, 3, size, size]), value("y", [1, 3, None, None])
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [scales])
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_the_next_plausible_size_where_an_engine_refuses_the_first(tmp_path):
    need("onnxruntime", "openvino")
    records = edgewise.bench(write_strided(tmp_path / "m.onnx", 64), **QUICK)
    assert [record.status for record in records] == ["done", "done"]
    for record in records:
        assert record.job.workload.inputs[0].shape == (1, 3, 256, 256)
        (assumed,) = [caution for caution in record.cautions if caution.code == "assumed-shape"]
        assert "the engine rejected [1, 3, 224, 224]" in assumed.message
        assert record.effective["inputs"][0]["shape"] == [1, 3, 256, 256]
        assert 0 <= record.effective["inputs"][0]["low"] < record.effective["inputs"][0]["high"] < 1


@pytest.mark.long
def test_compare_tries_the_next_plausible_size_for_all(tmp_path, capsys):
    need("onnxruntime")
    paths = [write_strided(tmp_path / f"{name}.onnx", stride) for name, stride in (("a", 32), ("b", 64))]
    words = ["--rounds", "1", "--time-budget", "600s", "-r", "onnxruntime", "-q", "--json"]
    assert run(["compare", *map(str, paths), *words]) == 0
    document = json.loads(capsys.readouterr().out)
    assert not document["failures"]
    with edgewise.open_store() as store:
        runs = [store.get(each["run"]) for each in document["variants"]]
    assert [record.job.workload.inputs[0].shape for record in runs] == [(1, 3, 256, 256)] * 2


@pytest.mark.long
def test_refused_sizes_are_blamed_on_the_assumption(tmp_path, capsys):
    need("onnxruntime", "openvino")
    records = edgewise.bench(write_strided(tmp_path / "m.onnx", 59), **QUICK)
    assert records[0].failure.message.endswith("177 by 224")  # the reason
    for record in records:
        assert record.status == "failed"
        assert "the input sizes were assumed" in record.failure.advice
        assert "--shape x=1x3x224x224" in record.failure.advice
        assert "convert" not in record.failure.advice
    words = ["bench", str(tmp_path / "m.onnx"), "--shape", "1x3x118x118", "--iterations", "10", "-q"]
    assert run([*words, "--sessions", "1"]) == 0
    assert "Inputs: all runs: x float32 1×3×118×118 from " in capsys.readouterr().out


def test_a_decoder_with_a_cache(tmp_path):
    need("onnxruntime", "openvino")
    from onnx import TensorProto, helper, save_model

    def value(name, kind, *shape):
        return helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape)

    past, now = "past_sequence_length", "sequence_length"
    inputs = [
        value("input_ids", "INT64", "batch", now),
        value("attention_mask", "INT64", "batch", f"{past} + {now}"),
        value("past_key_values.0.key", "FLOAT", "batch", 1, past, 1),
    ]
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["tokens"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Squeeze", ["past_key_values.0.key", "axes"], ["remembered"]),
        helper.make_node("Concat", ["remembered", "tokens"], ["all"], axis=1),
        helper.make_node("Mul", ["all", "mask"], ["y"]),
    ]
    axes = helper.make_tensor("axes", TensorProto.INT64, [2], [1, 3])
    graph = helper.make_graph(nodes, "g", inputs, [value("y", "FLOAT", None, None)], [axes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save_model(model, tmp_path / "decoder.onnx")
    for record in edgewise.bench(tmp_path / "decoder.onnx", **QUICK):
        assert record.status == "done"
        assert [spec.shape for spec in record.job.workload.inputs] == [(1, 1), (1, 129), (1, 1, 128, 1)]


def test_a_scalar_output_is_compared_between_engines(tmp_path):
    need("onnxruntime", "openvino")
    from onnx import TensorProto, helper, save_model

    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 8]), ("y", []))
    ]
    graph = helper.make_graph([helper.make_node("ReduceMean", ["x"], ["y"], keepdims=0)], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save_model(model, tmp_path / "mean.onnx")
    _, other = edgewise.bench(tmp_path / "mean.onnx", **QUICK)
    assert other.value("output_max_rel_error") < 1e-6
    assert "output-mismatch" not in {caution.code for caution in other.cautions}


@pytest.fixture
def changing_rank(tmp_path):
    """Its output is x, or its sum: of rank 2 or 0, drawn anew in every run."""
    from onnx import TensorProto, helper, numpy_helper, save_model

    def value(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    branches = {
        "then_branch": helper.make_graph([helper.make_node("Identity", ["x"], ["a"])], "t", [], [value("a", None)]),
        "else_branch": helper.make_graph(
            [helper.make_node("ReduceSum", ["x"], ["b"], keepdims=0)], "e", [], [value("b", None)]
        ),
    }
    nodes = [
        helper.make_node("RandomUniform", [], ["r"], shape=[1], seed=1.0),
        helper.make_node("Less", ["r", "half"], ["c"]),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    half = numpy_helper.from_array(np.array([0.5], np.float32), "half")
    graph = helper.make_graph(nodes, "g", [value("x", [1, 8])], [value("y", None)], [half])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save_model(model, tmp_path / "rank.onnx")
    return tmp_path / "rank.onnx"


@pytest.mark.parametrize("scenario", ["single-stream", "offline", "paced"])
def test_an_output_that_changes_its_rank_from_run_to_run(changing_rank, scenario):
    need("onnxruntime")
    settings = {"iterations": 50, "warmup": 20, "meters": False, "fps": 1000 if scenario == "paced" else None}
    (record,) = edgewise.bench(changing_rank, runtimes=["onnxruntime"], scenario=scenario, **settings)
    assert record.status == "done"
    assert record.effective["call"] == "run"
    (caution,) = [caution for caution in record.cautions if caution.code == "slower-call"]
    assert "the timed call is run, because run_with_iobinding failed" in caution.message
    assert "shape {" in caution.message  # the engine's reason
    if scenario == "single-stream":
        (still,) = edgewise.bench(bundled("digits_cnn.onnx"), runtimes=["onnxruntime"], **QUICK)
        assert still.effective["call"] == "run_with_iobinding"


def test_layers_of_a_network_whose_output_changes_its_rank(changing_rank):
    need("onnxruntime")
    (record,) = edgewise.profile(changing_rank, runtimes=["onnxruntime"], sessions=1)
    assert record.effective["call"] == "run"
    assert "If" in {layer.op for layer in record.layers}


@pytest.mark.cold
def test_litert_providers_agree():
    need("litert")
    providers = ["interpreter", "compiled", "interpreter-reference"]
    measured = edgewise.bench(bundled("digits_cnn.tflite"), runtimes=["litert"], providers=providers, **QUICK)
    assert [record.job.runtime.provider for record in measured] == providers
    assert all((record.value("output_max_rel_error") or 0.0) < 1e-4 for record in measured)
    assert not any(caution.code == "output-mismatch" for record in measured for caution in record.cautions)


def test_runtime_and_provider_may_be_one_word():
    need("litert")
    (record,) = edgewise.bench(bundled("digits_cnn.tflite"), runtimes=["litert/compiled"], **QUICK)
    assert record.job.runtime.provider == "compiled"


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "litert"])
def test_offline_gives_throughput_on_every_engine(name):
    need(name)
    model = bundled("digits_cnn.tflite" if name == "litert" else "digits_cnn.onnx")
    (record,) = edgewise.bench(model, runtimes=[name], scenario="offline", duration=0.3, meters=False)
    assert record.status == "done", record.failure
    throughput = record.measurement("throughput")
    assert throughput.value > 0 and throughput.low < throughput.value < throughput.high
    assert "offline" in throughput.method


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "litert"])
def test_paced_on_every_engine(name):
    need(name)
    model = bundled("digits_cnn.tflite" if name == "litert" else "digits_cnn.onnx")
    (record,) = edgewise.bench(model, runtimes=[name], scenario="paced", fps=100, iterations=30, meters=False)
    assert record.status == "done", record.failure
    assert record.value("latency_paced") > 0
    assert record.value("idle_gap_penalty") > 0
    assert 0 <= record.value("deadline_miss_rate") <= 1


def test_batches_count_in_the_throughput():
    need("onnxruntime")
    one, eight = edgewise.bench(bundled("digits_cnn.onnx"), runtimes=["onnxruntime"], batches=[1, 8], **QUICK)
    assert [record.job.workload.inputs[0].shape for record in (one, eight)] == [(1, 1, 32, 32), (8, 1, 32, 32)]
    mean = np.mean(eight.measurement("latency").samples)
    assert eight.value("throughput") == pytest.approx(8 / mean, rel=1e-6)


def test_an_open_shape_can_be_given_and_is_the_batch(tiny_onnx):
    need("onnxruntime")
    (record,) = edgewise.bench(tiny_onnx(batch="n"), runtimes=["onnxruntime"], shapes={"": (4, 4)}, **QUICK)
    assert record.job.workload.batch == 4


def test_given_data_reaches_the_model(tiny_onnx, tmp_path):
    """The outputs of two engines on the same given data agree, and other data has another identity."""
    need("onnxruntime", "openvino")
    np.savez(tmp_path / "in.npz", x=np.array([[1, 2, 3, 4]], dtype=np.float32))
    measured = edgewise.bench(tiny_onnx(), input_data=tmp_path / "in.npz", **QUICK)
    assert len({record.job.workload.input_data for record in measured}) == 1
    assert all((record.value("output_max_abs_error") or 0.0) < 1e-4 for record in measured)


def test_sizes_come_from_the_data(tmp_path):
    need("onnxruntime", "openvino")
    np.savez(tmp_path / "in.npz", x=np.ones((1, 3, 128, 192), np.float32))
    for record in edgewise.bench(
        write_strided(tmp_path / "m.onnx", 64, size=None), input_data=tmp_path / "in.npz", **QUICK
    ):
        assert record.status == "done"
        assert record.job.workload.inputs[0].shape == (1, 3, 128, 192)
        assert record.effective["inputs"] == [
            {"name": "x", "shape": [1, 3, 128, 192], "dtype": "float32", "low": 1.0, "high": 1.0}
        ]
        assert "assumed-shape" not in {caution.code for caution in record.cautions}


def test_a_classifier_as_scikit_learn_exports_it(tmp_path):
    """Text in, a label that is text and a map of probabilities out."""
    need("onnxruntime")
    from onnx import TensorProto, helper, save_model

    domain, labels = "ai.onnx.ml", ["no", "yes"]
    nodes = [
        helper.make_node("LabelEncoder", ["x"], ["n"], domain=domain, keys_strings=["a", "b"], values_floats=[1.0, 2.0]),
        helper.make_node("LinearClassifier", ["n"], ["label", "raw"], domain=domain, classlabels_strings=labels,
                         coefficients=[1.0, 0.0, 0.0, 1.0], intercepts=[0.0, 0.0]),
        helper.make_node("ZipMap", ["raw"], ["p"], domain=domain, classlabels_strings=labels),
    ]  # fmt: skip
    map_type = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.STRING, [None]),
        helper.make_value_info("p", helper.make_sequence_type_proto(map_type)),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.STRING, [None, 2])]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 3)]
    save_model(
        helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=opsets, ir_version=8),
        tmp_path / "m.onnx",
    )
    with pytest.raises(edgewise.EdgewiseError, match=says("input-needs-text-random-text")) as caught:
        edgewise.bench(tmp_path / "m.onnx", runtimes=["onnxruntime"], **QUICK)
    assert "input_data" in caught.value.advice
    np.savez(tmp_path / "in.npz", x=np.array([["a", "b"], ["b", "b"], ["a", "a"]]))
    (record,) = edgewise.bench(tmp_path / "m.onnx", runtimes=["onnxruntime"], input_data=tmp_path / "in.npz", **QUICK)
    assert record.status == "done" and record.job.workload.batch == 3
    label, probabilities = record.effective["outputs"]
    assert label["shape"] == [3]
    assert "seq(map(string" in probabilities["absent_because"]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"y": np.zeros((1, 4), np.float32), "z": np.zeros((1, 4), np.float32)}, "x"),
        ({"x": np.zeros((1, 5), np.float32)}, "shape"),
        ({"x": np.array([["a"] * 4])}, "x"),
    ],
)
def test_wrong_data_is_one_clear_error(tiny_onnx, tmp_path, capsys, arrays, words):
    np.savez(tmp_path / "in.npz", **arrays)
    assert run(["bench", str(tiny_onnx()), "--input-data", str(tmp_path / "in.npz")]) == 2
    err = capsys.readouterr().err
    assert words in err and "try: " in err


def test_content_counts_not_the_extension(tmp_path):
    need("onnxruntime", "openvino", "litert")
    onnx_file, tflite_file = tmp_path / "a.tflite", tmp_path / "b.onnx"
    shutil.copy(bundled("digits_cnn.onnx"), onnx_file)
    shutil.copy(bundled("digits_cnn.tflite"), tflite_file)
    measured = edgewise.bench([onnx_file, tflite_file], **QUICK)
    found = [(record.job.model.format, record.job.runtime.name, record.status) for record in measured]
    assert found == [
        ("onnx", "onnxruntime", "done"), ("onnx", "openvino", "done"),
        ("tflite", "litert", "done"), ("tflite", "openvino", "done"),
    ]  # fmt: skip


def test_openvino_ir_needs_its_weights(tmp_path, capsys):
    need("openvino")
    code = "import sys; import openvino as ov;ov.save_model(ov.Core().read_model(sys.argv[1]), sys.argv[2])"
    file = tmp_path / "net.xml"
    subprocess.run([sys.executable, "-c", code, str(bundled("digits_cnn.onnx")), str(file)], check=True)
    (record,) = edgewise.bench(file, **QUICK)
    assert (record.job.model.format, record.job.runtime.name, record.status) == ("openvino", "openvino", "done")
    assert record.value("model_size") == file.stat().st_size + file.with_suffix(".bin").stat().st_size
    file.with_suffix(".bin").unlink()
    assert run(["bench", str(file)]) == 2
    assert "net.bin" in capsys.readouterr().err


def test_an_unsupported_operator_is_a_failed_run_that_names_it(tmp_path):
    need("onnxruntime")
    from onnx import TensorProto, helper, save_model

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    node = helper.make_node("Conjure", ["x"], ["y"], domain="nowhere")
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)]
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    save_model(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "m.onnx")
    (record,) = edgewise.bench(tmp_path / "m.onnx", runtimes=["onnxruntime"], **QUICK)
    assert record.failure.cause == "Unsupported"
    assert "Conjure" in record.failure.message or "nowhere" in record.failure.message


def test_an_opset_of_the_future_is_a_failed_run(tiny_onnx):
    need("onnxruntime")
    (record,) = edgewise.bench(tiny_onnx(opset=999), runtimes=["onnxruntime"], **QUICK)
    assert record.status == "failed"
    assert record.failure.cause in ("Unsupported", "BadModel")


@pytest.mark.parametrize("cut", [100, 10_000])
@pytest.mark.parametrize("name", ["digits_cnn.onnx", "digits_cnn.tflite"])
def test_a_truncated_model_never_gives_a_number(tmp_path, capsys, name, cut):
    path = tmp_path / name
    path.write_bytes(bundled(name).read_bytes()[:-cut])
    code = run(["bench", str(path), "--iterations", "1", "-q"])
    assert code in (2, 4)
    assert "Traceback" not in capsys.readouterr().err


def test_external_data_outside_the_folder_is_refused(tmp_path, capsys):
    from onnx import TensorProto, helper, save_model

    (tmp_path / "outside.bin").write_bytes(b"\0" * 64)
    (tmp_path / "inner").mkdir()
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 4], np.zeros(16, np.float32).tobytes(), raw=True)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    entry = weight.external_data.add()
    entry.key, entry.value = "location", "../outside.bin"
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", value[:1], value[1:], [weight])
    save_model(helper.make_model(graph, ir_version=8), tmp_path / "inner" / "m.onnx")
    assert run(["bench", str(tmp_path / "inner" / "m.onnx")]) == 2
    assert "outside" in capsys.readouterr().err


@pytest.mark.cold
def test_a_memory_limit_that_is_too_small_is_a_failed_run():
    need("onnxruntime")
    (record,) = edgewise.bench(bundled("digits_cnn.onnx"), runtimes=["onnxruntime"], memory_limit=30 * 2**20, **QUICK)
    assert record.status == "failed"
    assert "the memory limit of 30 MiB" in record.failure.message + record.failure.advice, record.failure


def test_python_sees_the_same_engine_as_the_command_line():
    need("onnxruntime")
    code = (
        "import edgewise, sys; from edgewise.data import path;"
        "runs = edgewise.bench(path('digits_cnn.onnx'), runtimes=['onnxruntime'], threads=[1, 2], iterations=5, sessions=1, meters=False);"
        "assert [run.job.runtime.threads for run in runs] == [1, 2];"
        "assert 'onnxruntime' not in sys.modules and 'openvino' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.cold
@pytest.mark.long
def test_memory_of_the_model_does_not_grow_with_the_samples(tiny_onnx):
    """A one-operator model adds next to nothing; a hundred thousand samples are ours and not its."""
    need("onnxruntime")
    few, many = (
        edgewise.bench(tiny_onnx(), runtimes=["onnxruntime"], iterations=count, warmup=1, meters=False)[0]
        for count in (20, 100_000)
    )
    assert many.value("memory_delta") < few.value("memory_delta") + 2e6


def test_a_name_that_is_not_utf8_is_one_clear_line(tmp_path):
    need("onnxruntime")
    path = os.fsencode(tmp_path / "mod") + b"\xe9l.onnx"
    shutil.copy(bundled("digits_cnn.onnx"), path)
    (record,) = edgewise.bench(os.fsdecode(path), runtimes=["onnxruntime"], **QUICK)
    assert record.failure.cause == "Unsupported"
    assert "UTF-8" in record.failure.message
