"""The installed benchmark tools themselves, run on the bundled network: what they write today is what is imported."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.importing import Told, import_file
from patience import LIMIT_S

pytestmark = pytest.mark.engine
MODELS = Path(__file__).parents[2] / "src" / "edgewise" / "data"


def program(name):
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def execute(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


def test_benchmark_app(tmp_path):
    shape = "[1,1,32,32]"
    text = execute(
        program("benchmark_app"), "-m", MODELS / "digits_cnn.onnx", "-shape", shape, "-hint", "none", "-nthreads", "1",
        "-api", "sync", "-niter", "50", "-report_type", "detailed_counters", "-report_folder", tmp_path, "-json_stats",
    )  # fmt: skip
    (tmp_path / "app.txt").write_text(text)
    statistics = json.loads((tmp_path / "benchmark_report.json").read_text())["execution_results"]
    told = Told(model=MODELS / "digits_cnn.onnx", device="local")
    (run,) = import_file(tmp_path / "app.txt", told=told)
    (same,) = import_file(tmp_path / "benchmark_report.json", told=told)
    assert run.source.unknown == () and run.job.runtime.threads == same.job.runtime.threads == 1
    assert run.job.workload.stopping.iterations == 50 and run.job.workload.scenario.kind == "single-stream"
    for metric, key in (("latency_engine", "latency (ms)"), ("latency_mean", "avg latency")):
        assert same.value(metric) == pytest.approx(float(statistics[key]) / 1e3)
        assert run.value(metric) == pytest.approx(same.value(metric), abs=5.1e-6)  # the JSON has two digits of ms
    assert run.value("throughput") == same.value("throughput") == float(statistics["throughput"])
    (layers,) = import_file(tmp_path / "benchmark_detailed_counters_report.json")
    assert any(layer.op == "Convolution" and layer.time for layer in layers.layers)


def test_litert_benchmark(tmp_path):
    result = tmp_path / "result.json"
    words = ("--model", MODELS / "digits_cnn.tflite", "--num_runs", "20", "--num_threads", "1", "--result_json", result)
    (tmp_path / "out.txt").write_text(execute(program("litert-benchmark"), *words))
    (run,) = import_file(result)
    (same,) = import_file(tmp_path / "out.txt")
    told = json.loads(result.read_text())["latency"]
    assert run.value("latency") == pytest.approx(told["median_ms"] / 1e3)
    assert {row.metric: row.value for row in run.measurements} == {row.metric: row.value for row in same.measurements}
