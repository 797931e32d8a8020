"""Failures that other tools record: no number of a failed run or execution is a result."""

from __future__ import annotations

import json

import pytest

from edgewise.comparing.comparison import Variant
from edgewise.comparing.fairness import check_fairness
from edgewise.errors import BadInput
from edgewise.importing import import_file
from messages import says

TRTEXEC = """&&&& RUNNING TensorRT.trtexec [TensorRT v100300] # trtexec --onnx={model}
[11/20/2026-09:14:02] [I] Model: {model}
[11/20/2026-09:14:02] [W] [TRT] onnxOpImporters: Make sure input indices has Int64 binding.
[11/20/2026-09:14:02] [I] Selected Device: Orin
{end} TensorRT.trtexec [TensorRT v100300] # trtexec --onnx={model}
"""
SUMMARY = """[11/20/2026-09:14:40] [E] Error[2]: [tactic.cpp::run::7] Error Code 2: Internal Error (one tactic of many)
[11/20/2026-09:14:40] [I] === Performance summary ===
[11/20/2026-09:14:40] [I] Throughput: 38124.6 qps
[11/20/2026-09:14:40] [W] a warning between the lines
[11/20/2026-09:14:40] [I] Latency: min = 9.15527e-05 ms, max = 1.2e+01 ms, mean = 0.03 ms, median = 2.85645e-02 ms
[11/20/2026-09:14:40] [I] H2D Latency: min = 9.15527e-05 ms, max = 0.04 ms, mean = 0.003 ms, median = 0.00317 ms
[11/20/2026-09:14:40] [I] GPU Compute Time: min = 0.02 ms, max = 1.2 ms, mean = 0.02 ms, median = 0.0235596 ms
&&&& PASSED"""
FAILURE = """[11/20/2026-09:14:03] [E] [TRT] ModelImporter.cpp:949: While parsing node number 3 [Tile -> "/Tile"]:
[11/20/2026-09:14:03] [E] [TRT] ModelImporter.cpp:954: ERROR: ModelImporter.cpp:195 In function parseNode:
[6] Invalid Node - /Tile
ITensor::getDimensions: Error Code 4: Internal Error (/OneHot: cannot compute a shape tensor)
[11/20/2026-09:14:03] [E] Engine set up failed
&&&& FAILED"""


def read(tmp_path, text):
    path = tmp_path / "file"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return import_file(path)


def hyperfine(tmp_path, codes, **more):
    times = [1.0 + index / 100 if code == 0 else 0.01 for index, code in enumerate(codes)]
    row = {"command": "infer", "median": sorted(times)[len(times) // 2], "times": times, "exit_codes": codes}
    (run,) = read(tmp_path, {"results": [row | more]})
    return run


def values(run):
    return {row.metric: row.value for row in run.measurements if row.value is not None}


def test_failed_executions_of_hyperfine_are_counted_said_and_in_no_statistic(tmp_path):
    run = hyperfine(tmp_path, [0, 2, 0, 0, None, 2], memory_usage_byte=[10, 1, 20, 30, 1, 1])
    assert values(run) == {"total_time": 1.02, "memory_group_peak": 20}
    row = run.measurement("total_time")
    assert row.samples == (1.0, 1.02, 1.03) and row.session_lengths == (1, 1, 1) and row.summary.n == 3
    assert run.status == "done" and run.effective == {"executions": 6, "failed_executions": 3}
    told = "3 of 6 executions failed and are left out: exit code 2 (2 times) and ended by a signal"
    (caution,) = (each for each in run.cautions if each.code == "failed-executions")
    assert caution.message == told and told in row.method
    assert told in " ".join(run.trust.reasons) and run.trust.grade in "CD"
    good = hyperfine(tmp_path, [0, 0, 0])
    assert good.effective == {} and "failed-executions" not in {each.code for each in good.cautions}
    fairness = check_fairness([Variant(label="A", run=good), Variant(label="B", run=run)])
    assert f"B: {told}" in fairness.not_excluded


def test_a_command_that_always_failed_is_a_failed_run_without_times(tmp_path):
    run = hyperfine(tmp_path, [127, 127, 127], memory_usage_byte=[1, 2, 3])
    assert run.status == "failed" and values(run) == {}
    assert (run.failure.cause, run.failure.exit_code) == ("CommandFailed", 127)
    message = "all 3 executions failed: exit code 127 (the shell finds no such program, 3 times)"
    assert run.failure.message == message
    assert run.measurement("total_time").absent_because == f"the run failed: {message}"
    assert hyperfine(tmp_path, [1, 139]).failure.exit_code is None


def test_a_median_over_failed_executions_is_no_result(tmp_path):
    with pytest.raises(BadInput, match=says("results-missing-expected")):
        hyperfine(tmp_path, [0, 1, 0], times=None)
    assert values(hyperfine(tmp_path, [0, 0], times=None, median=2.0)) == {"total_time": 2.0}


@pytest.mark.parametrize("codes", [[0, 1], ["1"] * 3, [True] * 3, {"0": 1}])
def test_exit_codes_that_fit_no_times_are_an_error(codes, tmp_path):
    with pytest.raises(BadInput, match=r"results\[0\]\.exit_codes: "):
        hyperfine(tmp_path, codes, times=[1.0, 1.1, 1.2])


def test_each_run_in_a_log_of_trtexec_has_its_own_outcome(tmp_path):
    text = "".join(
        TRTEXEC.format(model=model, end=end)
        for model, end in (("a.onnx", SUMMARY), ("b.onnx", FAILURE), ("c.onnx", SUMMARY.replace("38124.6", "5")))
    )
    first, failed, last = read(tmp_path, text)
    assert values(first) == {
        "latency": 2.85645e-05, "latency_engine": 2.35596e-05, "latency_min": 9.15527e-08, "latency_max": 0.012,
        "latency_mean": 3e-05, "throughput": 38124.6,
    }  # fmt: skip
    assert (first.job.model.name, last.job.model.name, last.value("throughput")) == ("a.onnx", "c.onnx", 5)
    assert (failed.status, failed.job.model.name, failed.job.target.device) == ("failed", "b.onnx", "Orin")
    assert failed.failure.message == "Error Code 4: Internal Error (/OneHot: cannot compute a shape tensor)"
    assert failed.failure.cause == "EngineError" and values(failed) == {}
    assert failed.failure.stderr_tail.endswith("# trtexec --onnx=b.onnx")


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("[x] [E] Failed to parse onnx file\n[x] [E] Parsing model failed\n&&&& FAILED", "Failed to parse onnx file"),
        ("ERROR: a.hpp:347 In function f:\n[8] Assertion failed: axis\n[x] [E] Failed\n&&&& FAILED", "[8] Assertion"),
        ("&&&& FAILED", "&&&& FAILED TensorRT.trtexec"),
        ("[x] [E] Error Code 1: out of memory", "Error Code 1: out of memory"),  # and killed
    ],
)
def test_a_failed_log_of_trtexec_says_why_in_its_own_words(end, message, tmp_path):
    (run,) = read(tmp_path, TRTEXEC.format(model="a.onnx", end=end))
    assert run.status == "failed" and run.failure.message.startswith(message)
    assert (run.failure.cause == "OutOfMemory") == ("memory" in message)


BENCHMARK_MODEL = """INFO: STARTING!
INFO: Min num runs: [1]
INFO: Graph: [a.tflite]
{}INFO: count=200 first=5050 curr=4990 min=4800 max=6000 avg=5000.5 std=100 p5=4850 median=4990 p95=5200
INFO: Inference timings in us: Init: 12345, First inference: 9000, Warmup (avg): 5211.1, Inference (avg): 5000.5
{}"""
SOFT = "ERROR: Following operations are not supported by GPU delegate:\n"
NCNN = """loop_count = 8
num_threads = 4
gpu_device = -1
          squeezenet  min =    2.10  max =    2.40  avg =    2.20
{}          other_int8  min =    0.00  max =    0.01  avg =    0.01
           resnet18  min =    4.10  max =    4.40  avg =    4.20
"""
APP = "[Step 1/11] Parsing\n[ INFO ] Parsing input parameters\n{}"


@pytest.mark.parametrize(
    ("text", "outcomes"),
    [
        (
            BENCHMARK_MODEL.format("ERROR: Node number 57 (ADD) failed to invoke.\n", "ERROR: Benchmarking failed.\n"),
            ["Node number 57 (ADD) failed to invoke."],
        ),
        (BENCHMARK_MODEL.format(SOFT + "ERROR: it broke\n", "ERROR: Benchmarking failed.\n"), ["it broke"]),
        (BENCHMARK_MODEL.format(SOFT, ""), [None]),
        (
            NCNN.format("layer Mish not exists or registered\nnetwork graph not ready\n"),
            [None, "layer Mish not exists or registered", None],
        ),
        (NCNN.format("") + "fopen last.param failed\n", [None, None, None, "fopen last.param failed"]),
        (
            APP.format(
                "[ ERROR ] Exception from a.cpp:1:\n[ GENERAL_ERROR ] Exception from b.cpp:2:\nno such device\n\n"
                "Traceback (most recent call last):\n  File x\nRuntimeError: y\n"
            ),
            ["Exception from a.cpp:1: [ GENERAL_ERROR ] Exception from b.cpp:2: no such device"],
        ),
        (
            APP.format("Traceback (most recent call last):\n  File x\n    f()\nValueError: no model\n"),
            ["ValueError: no model"],
        ),
        ({"execution_results": {"error": "no device"}}, ["no device"]),
        ("Execution results\nlatency (ms);1.0\nerror;no device\n", ["no device"]),
        (
            "x INFO benchmark_litert_model: Model: a.tflite\nx ERROR benchmark_litert_model: Signature not found.\n",
            ["Signature not found."],
        ),
        ("Session creation time cost: 0.01 s\nRun failed:Non-zero status code\n", ["Non-zero status code"]),
        ("m-infer-start-10\nm-lap-us-5\ne-[unknown command]\n", ["the board reports an error in a window of 10 infer"]),
        (
            "precisions:\n  float:\n    components:\n      Net:\n        performance_metrics:\n          Phone:\n"
            "            tflite:\n              job_status: Failed\n              inference_time_milliseconds: null\n",
            ["the job has no time, and the status Failed"],
        ),
    ],
    ids=(
        "benchmark_model", "benchmark_model with a soft error", "benchmark_model with a soft error alone", "benchncnn",
        "benchncnn at the end", "benchmark_app", "benchmark_app of Python", "benchmark_app's JSON", "benchmark_app's CSV",
        "litert-benchmark", "perf_test", "MLPerf Tiny", "AI Hub",
    ),
)  # fmt: skip
def test_runs_that_a_tool_records_as_failed_have_no_numbers(text, outcomes, tmp_path):
    runs = read(tmp_path, text)
    assert len(runs) == len(outcomes)
    for run, message in zip(runs, outcomes, strict=True):
        assert (run.status == "failed") == (message is not None) == (not values(run))
        assert message is None or run.failure.message.startswith(message)


def test_the_name_of_a_network_is_not_that_of_the_one_before(tmp_path):
    *_, failed = read(tmp_path, NCNN.format("") + "fopen last.param failed\n")
    assert failed.job.model.name == "model of file" and failed.job.runtime.threads == 4
