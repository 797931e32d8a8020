"""The field's tables of a real model on a real engine, filled by bench and evaluate together."""

from __future__ import annotations

import numpy as np
import pytest

import edgewise
from edgewise.data import path
from edgewise.report.runs.field_tables import Options, field_document
from messages import wording

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.engine


def test_a_run_that_failed_has_them_too(tmp_path):
    model = tmp_path / "model.onnx"
    model.write_bytes(path("digits_cnn.onnx").read_bytes())
    (run,) = edgewise.bench(model, runtimes=["onnxruntime"], memory_limit=2**20, iterations=1, sessions=1, meters=False)
    assert run.status == "failed"
    assert run.value("parameters") == 102_570


def evaluate(model="digits_cnn.onnx", **settings):
    return edgewise.evaluate(path(model), data=path("digits_test.npz"), limit=60, latency=False, **settings).models[0]


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The bundled network on 60 of the bundled images."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEWISE_STORE", str(tmp_path_factory.mktemp("store") / "runs.db"))
        # What was interrupted on this machine before is none of this.
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return evaluate().run


def test_inference_time_has_preparing_and_reading_the_answer(judged):
    row = judged.measurement("inference_time")
    assert row.basis == "measured"
    assert len(row.samples) == 60
    assert 0 < row.low <= row.value <= row.high
    for part in ("around the engine (", "around preparing the sample in memory (", "reading the answer ("):
        assert part in row.method


def test_the_best_classes_of_one_sample_are_told(judged):
    with np.load(path("digits_test.npz")) as data:
        images, labels = data["x"], data["y"]
    example = judged.evaluation.example
    index = int(example["sample"].strip("x[]"))
    session = onnxruntime.InferenceSession(str(path("digits_cnn.onnx")), providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {session.get_inputs()[0].name: (images[index : index + 1] / np.float32(255))})[0]
    assert example["label"] == labels[index]
    assert [number for number, _ in example["top"]] == np.argsort(-scores)[:3].tolist()
    assert [score for _, score in example["top"]] == pytest.approx(np.sort(scores)[::-1][:3].tolist(), rel=1e-4)


def test_there_is_no_inference_time_where_no_task_reads_the_outputs():
    run = evaluate(reference=path("digits_cnn.onnx")).run
    assert run.measurement("inference_time").absent_because.startswith(wording("no-task-reads-outputs-answers"))
    assert run.evaluation.example is None


def test_the_watch_table_is_filled_by_bench_and_evaluate_together(judged):
    (benched,) = edgewise.bench(path("digits_cnn.onnx"), runtimes=["onnxruntime"], iterations=20, sessions=1)
    tables = field_document("watch", [benched], options=Options(known=[judged])).tables
    cells = {row[0].text: row[1] for table in tables for row in table.rows}
    unknown = {name for name, cell in cells.items() if cell.text == "n/a"}
    assert unknown <= {
        "Deployment Time (s)", "Network Bandwidth (MB/s)",  # it ran here
        "Computing Speed (MHz)", "Energy Consumption (mWh)", "Temperature (°C)",  # sensors that a machine may not have
    }  # fmt: skip
    assert cells["Inference Time (ms)"].value == pytest.approx(judged.value("inference_time") * 1e3)
