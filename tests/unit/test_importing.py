"""Files of other tools as runs: exact values and units, what stays absent, and files that are wrong or hostile."""

from __future__ import annotations

import csv
import json
import math
import os
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

import edgewise
from benchmark_model_files import files, message
from device_tool_outputs import litert_benchmark_model
from edgewise.comparing.comparison import Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.environments import environment_differences
from edgewise.comparing.fairness import check_fairness
from edgewise.comparing.metrics import compare_runs
from edgewise.errors import BadInput
from edgewise.importing import IMPORTERS, Told, import_file, read_any
from edgewise.importing.reading import HEAD_CHARACTERS, MOST_BYTES
from edgewise.importing.spec import SETTINGS
from edgewise.importing.tools import mlperf
from edgewise.importing.tools.executorch import describe_blocks
from edgewise.metrics import METRICS
from edgewise.record.job import Scenario
from edgewise.report.bench.ranking import comparable_groups
from edgewise.report.bench.recommendation import recommendations
from edgewise.report.files import render_report
from edgewise.report.runs.conditions import delegates_of
from edgewise.runtime.executorch_profile import Event
from edgewise.store.exchange import csv_lines, export_runs, import_runs
from messages import has, is_in, says, wording

FOLDER = Path(__file__).parents[1] / "tool_outputs"
FILES = sorted([*FOLDER.iterdir(), FOLDER.parent / "pte_programs" / "events.etdp"], key=lambda file: file.name)
BINARY = (".pb", ".etdp")

# file → per run: (label, headline, {metric: value in SI})
EXPECTED = {
    "benchmark_app.txt": [
        ("model of benchmark_app.txt · openvino/cpu 1T f32", "latency_engine",
         {"latency_engine": 510.83e-6, "latency_mean": 530.66e-6, "latency_min": 464.09e-6, "latency_max": 847.5e-6,
          "latency_first": 2.12e-3, "throughput": 1795.84, "load_time": (14.63 + 2.27 + 48.57) * 1e-3}),
    ],
    "benchmark_app_async.txt": [
        ("model of benchmark_app_async.txt · openvino/cpu 2T batch 4 f32 offline", "throughput",
         {"throughput": 3092.0, "latency_engine": 2.13e-3, "latency_mean": 2.43e-3, "latency_min": 1.9e-3,
          "latency_max": 10.22e-3, "latency_first": 4.11e-3, "load_time": (9.67 + 1.63 + 73.67) * 1e-3}),
    ],
    "benchmark_app_pc.txt": [
        ("model of benchmark_app_pc.txt · openvino/cpu 2T f32", "latency_engine",
         {"latency_engine": 379.52e-6, "latency_mean": 389.34e-6, "latency_min": 261.14e-6, "latency_max": 537.66e-6,
          "latency_first": 1.96e-3, "throughput": 2476.67, "load_time": 44.8e-3}),
    ],
    "benchmark_app_report.json": [
        ("digits_cnn.onnx · openvino/cpu 1T", "latency_engine",
         {"latency_engine": 0.51e-3, "latency_mean": 0.53e-3, "latency_min": 0.46e-3, "latency_max": 0.85e-3,
          "latency_first": 2.12e-3, "throughput": 1795.84, "load_time": 65.47e-3}),
    ],
    "benchmark_app_report.csv": [
        ("digits_cnn.onnx · openvino/cpu batch 4 offline", "throughput",
         {"throughput": 3092.0, "latency_engine": 2.13e-3, "latency_mean": 2.43e-3, "latency_min": 1.9e-3,
          "latency_max": 10.22e-3, "latency_first": 4.11e-3, "load_time": 84.97e-3}),
    ],
    "benchmark_app_cpp_report.json": [
        ("kws.xml · openvino/cpu 2T batch 4 offline", "throughput",
         {"throughput": 3199.52, "latency_p95": 3.5e-3, "latency_mean": 2.25e-3, "latency_min": 2e-3,
          "latency_max": 9.5e-3, "latency_first": 2.5e-3, "load_time": 80e-3}),
    ],
    "benchmark_app_cpp_report.csv": [
        ("kws.xml · openvino/cpu", "latency_engine",
         {"throughput": 952.380952, "latency_engine": 1.031e-3, "latency_mean": 1.05e-3, "latency_min": 0.99e-3,
          "latency_max": 1.4e-3, "latency_first": 2.5e-3, "load_time": 80e-3}),
    ],
    "benchmark_app_average_counters.csv": [("model of benchmark_app_average_counters.csv · openvino", "latency", {})],
    "benchmark_app_sorted_report.json": [("model of benchmark_app_sorted_report.json · openvino", "latency", {})],
    "benchmark_app_detailed_counters.json": [
        ("model of benchmark_app_detailed_counters.json · openvino", "latency", {})
    ],
    "benchmark_model.txt": [
        ("model.tflite · benchmark_model/xnnpack 1T", "latency",
         {"latency": 4.99e-3, "latency_mean": 5.0005e-3, "latency_min": 4.8e-3, "latency_max": 6e-3,
          "latency_std": 100e-6, "latency_p95": 5.2e-3, "load_time": 12.345e-3, "latency_first": 9e-3,
          "memory_peak": 12.5 * 2**20}),
    ],
    "benchmark_model_results.pb": [
        ("model of benchmark_model_results.pb · benchmark_model/xnnpack", "latency",
         {"latency": 2.375e-3, "latency_mean": 2.5e-3, "latency_min": 2.25e-3, "latency_max": 4.75e-3,
          "latency_std": 0.25e-3, "latency_p95": 3.5e-3, "load_time": 12.5e-3, "latency_first": 9.75e-3,
          "memory_peak": 12.5 * 2**20, "memory_delta": 2 * 2**20}),
    ],
    "benchmark_model_runtime_info.pb": [
        ("model of benchmark_model_runtime_info.pb · benchmark_model/xnnpack", "latency", {})
    ],
    "events.etdp": [
        ("model of events.etdp · executorch", "latency_engine",
         {"latency_engine": 7.421e-6, "latency_first": 99.968e-6, "load_time": 268.248e-6}),
    ],
    "benchmark_model_profile.csv": [("model of benchmark_model_profile.csv · benchmark_model", "latency", {})],
    "litert-benchmark.json": [
        ("digits_cnn.tflite · litert/cpu 1T", "latency",
         {"latency": 0.47e-3, "latency_mean": 0.48e-3, "latency_min": 0.46e-3, "latency_max": 0.51e-3,
          "latency_std": 0.02e-3, "latency_p95": 0.51e-3, "load_time": 2.31e-3, "latency_first": 0.56e-3}),
    ],
    "litert-benchmark.txt": [
        ("digits_cnn.tflite · litert/cpu 1T", "latency",
         {"latency": 0.47e-3, "latency_mean": 0.48e-3, "latency_min": 0.46e-3, "latency_max": 0.51e-3,
          "latency_std": 0.02e-3, "latency_p95": 0.51e-3, "load_time": 2.31e-3, "latency_first": 0.56e-3}),
    ],
    "onnxruntime_perf_test.txt": [
        ("model of onnxruntime_perf_test.txt · onnxruntime 2T", "latency",
         {"latency": 5e-3, "latency_mean": 5.02e-3, "latency_min": 4.8e-3, "latency_max": 6.1e-3, "latency_p90": 5.2e-3,
          "latency_p95": 5.3e-3, "latency_p99": 5.9e-3, "load_time": 17.5e-3, "latency_first": 12e-3,
          "throughput": 198.4, "memory_peak": 3e7}),
    ],
    "onnxruntime_perf_test_results.csv": [
        ("digits · onnxruntime", "latency", {"latency": 4.9e-3, "memory_peak": 3e7})
    ],
    "onnxruntime_profile.json": [
        ("model of onnxruntime_profile.json · onnxruntime", "latency",
         {"latency": 630e-6, "latency_first": 9650e-6, "load_time": 32405e-6}),
    ],
    "trtexec.txt": [
        ("resnet.onnx · tensorrt FP32+FP16", "latency",
         {"latency": 3.11e-3, "latency_engine": 2.82e-3, "latency_mean": 3.125e-3, "latency_min": 3.01e-3,
          "latency_max": 3.41e-3, "latency_p90": 3.2e-3, "latency_p95": 3.25e-3, "latency_p99": 3.3e-3,
          "throughput": 353.015}),
    ],
    "trtexec_times.json": [
        ("model of trtexec_times.json · tensorrt", "latency", {"latency": 2.855e-3, "latency_engine": 2.555e-3})
    ],
    "trtexec_profile.json": [("model of trtexec_profile.json · tensorrt", "latency", {})],
    "benchncnn.txt": [
        ("squeezenet · ncnn/cpu 4T", "latency_mean",
         {"latency_mean": 2.2e-3, "latency_min": 2.1e-3, "latency_max": 2.4e-3}),
        ("squeezenet_int8 · ncnn/cpu 4T int8", "latency_mean",
         {"latency_mean": 1.6e-3, "latency_min": 1.5e-3, "latency_max": 1.8e-3}),
        ("squeezenet · ncnn/vulkan 1T", "latency_mean",
         {"latency_mean": 9.25e-3, "latency_min": 9e-3, "latency_max": 9.5e-3}),
    ],
    "torch-benchmark.txt": [
        ("linear: 8x8 eager · torch 2T", "latency", {"latency": 14.6e-6}),
        ("x+1 · torch 1T", "latency_mean", {"latency_mean": 5.64e-6}),
    ],
    "hyperfine.json": [
        ("sleep 0.1", "total_time", {"total_time": 0.1035, "memory_group_peak": 3.05e6}),
        ("python model.py --x", "total_time", {}),
    ],
    "pyperf.json": [
        ("forward · python", "latency", {"latency": 10.35e-3}),
        ("backward · python", "latency", {"latency": 20.5e-3}),
    ],
    "ai-hub_profile.json": [
        ("model of ai-hub_profile.json · ai-hub/npu", "latency",
         {"latency": 1.21e-3, "load_time": 0.64, "memory_peak": 25165824}),
    ],
    "ai-hub_perf.yaml": [
        ("TinyNet · tflite/npu float", "latency_engine", {"latency_engine": 0.84e-3}),
        ("TinyNet · qnn_dlc/cpu w8a8", "latency_engine", {"latency_engine": 1.5e-3}),
        ("TinyNet · onnx w8a8", "latency", {}),
    ],
    "optimum-benchmark.json": [
        ("tiny-bert · onnxruntime/cpu 4T batch 2", "latency",
         {"latency": 0.02, "load_time": 1.25, "throughput": 99.00990099, "memory_peak": 512.25e6}),
    ],
    "optimum-benchmark_report.json": [
        ("model of optimum-benchmark_report.json · optimum-benchmark", "latency", {"load_time": 2.5})
    ],
    "deepsparse.json": [
        ("pruned.onnx · deepsparse 8T batch 4 offline", "throughput",
         {"throughput": 812.5, "latency": 19.5e-3, "latency_mean": 19.68e-3, "latency_std": 1.2e-3,
          "latency_p90": 21e-3, "latency_p95": 22e-3, "latency_p99": 25e-3}),
    ],
    "deepsparse.txt": [
        ("pruned.onnx · deepsparse 2T", "latency",
         {"throughput": 161.2, "latency": 6.15e-3, "latency_mean": 6.19e-3, "latency_std": 0.25e-3}),
    ],
    "mlperf-tiny_results.txt": [
        ("model of mlperf-tiny_results.txt · mlperf_tiny", "latency",
         {"latency": 0.1651, "throughput": 6.057, "energy": 6900.5e-6, "accuracy_top1": 0.855}),
    ],
    "mlperf-tiny_log.txt": [("ic01 · mlperf_tiny", "latency", {"latency": 10.01e-3})],
    "mltk.json": [
        ("tiny_kws · tflite-micro/cpu int8", "latency",
         {"latency": 0.394165, "energy": 0.00576, "cpu_cycles": 30744893.5, "clock_rate": 78e6, "memory_arena": 46784,
          "model_size": 49392}),
    ],
    "coreml_report.json": [
        ("InventedKeywords · coreml/cpu+neural-engine f16", "latency",
         {"latency": 0.2e-3, "latency_first": 8.9e-3, "load_time": 35e-3, "compile_time": 0.3, "model_size": 1234567}),
    ],
    "llama-bench.json": [
        ("tiny-135m-q8_0.gguf · llama.cpp/cpu 4T q8_0 generate, prompt 512, 0 new tokens, depth 0", "ttft_model",
         {"ttft_model": 0.4, "prefill_rate": 512 / 0.402, "parameters": 134515008, "parameters_size": 141557760}),
        ("tiny-135m-q8_0.gguf · llama.cpp/cpu 4T q8_0 generate, prompt 0, 128 new tokens, depth 1024", "tpot",
         {"tpot": 10.5e-3, "decode_rate": 1 / 10.5e-3, "parameters": 134515008, "parameters_size": 141557760}),
        ("tiny-135m-q8_0.gguf · llama.cpp/cpu 4T q8_0 generate, prompt 64, 16 new tokens, depth 0", "tpot",
         {"parameters": 134515008, "parameters_size": 141557760}),
    ],
    "aiperf.json": [
        ("invented-135m · server generate, prompt 512", "tpot",
         {"ttft": 198.25e-3, "tpot": 8.25e-3, "decode_rate": 121.5}),
    ],
    "llm_bench.json": [
        ("tiny-invented · openvino-genai/cpu OV_FP16-4BIT generate, prompt 64, 32 new tokens, depth 0", "tpot",
         {"tpot": 10.25e-3, "decode_rate": 1 / 10.25e-3, "ttft_model": 40.5e-3, "prefill_rate": 1600, "load_time": 1.75}),
        ("tiny-invented · openvino-genai/cpu OV_FP16-4BIT generate, prompt 128, 32 new tokens, depth 0", "tpot",
         {"tpot": 11.25e-3, "decode_rate": 1 / 11.25e-3, "ttft_model": 80e-3, "prefill_rate": 1600, "load_time": 1.75}),
    ],
    "llm_bench.csv": [
        ("tiny-invented · openvino-genai/cpu OV_FP16-4BIT generate, prompt 64, 32 new tokens, depth 0", "tpot",
         {"tpot": 10.25e-3, "decode_rate": 1 / 10.25e-3, "ttft_model": 40.5e-3, "prefill_rate": 1600, "load_time": 1.75}),
    ],
    "litert-lm_benchmark.txt": [
        ("invented.litertlm · litert-lm/cpu generate, prompt 256, 64 new tokens, depth 0", "decode_rate",
         {"prefill_rate": 512.5, "decode_rate": 40.25, "load_time": 1.2345}),
    ],
    "litert_lm_main.txt": [
        ("model of litert_lm_main.txt · litert-lm generate, prompt 256, 64 new tokens, depth 0", "decode_rate",
         {"prefill_rate": 511.74, "decode_rate": 40, "load_time": 0.4505, "ttft_model": 0.53}),
    ],
    "llama-bench.jsonl": [
        ("tiny-135m-q8_0.gguf · llama.cpp/cpu 4T q8_0 generate, prompt 512, 0 new tokens, depth 0", "ttft_model",
         {"ttft_model": 0.4, "prefill_rate": 512 / 0.402, "parameters": 134515008, "parameters_size": 141557760}),
        ("tiny-135m-q8_0.gguf · llama.cpp/cpu 4T q8_0 generate, prompt 0, 128 new tokens, depth 1024", "tpot",
         {"tpot": 10.5e-3, "decode_rate": 1 / 10.5e-3, "parameters": 134515008, "parameters_size": 141557760}),
    ],
    "llama-bench.csv": [
        ("tiny-135m-q8_0.gguf · llama.cpp/cpu 4T q8_0 generate, prompt 512, 0 new tokens, depth 0", "prefill_rate",
         {"prefill_rate": 512 / 0.402, "parameters": 134515008, "parameters_size": 141557760}),
        ("tiny-135m-q8_0.gguf · llama.cpp/cpu 4T q8_0 generate, prompt 0, 128 new tokens, depth 1024", "tpot",
         {"tpot": 10.5e-3, "decode_rate": 1 / 10.5e-3, "parameters": 134515008, "parameters_size": 141557760}),
    ],
    "llama-bench.md": [
        ("llama 135M Q8_0 · llama.cpp/cpu 4T q8_0 generate, prompt 512, 0 new tokens, depth 0", "prefill_rate",
         {"prefill_rate": 1273.45}),
        ("llama 135M Q8_0 · llama.cpp/cpu 4T q8_0 generate, prompt 0, 128 new tokens, depth 1024", "decode_rate",
         {"decode_rate": 95.4}),
        ("llama 135M Q8_0 · llama.cpp/cpu 4T q8_0 generate, prompt 64, 16 new tokens, depth 0", "tpot", {}),
    ],
}  # fmt: skip
ESTIMATED = {
    "latency": "estimated", "energy": "estimated", "cpu_cycles": "estimated", "clock_rate": "simulated",
    "memory_arena": "simulated", "model_size": "measured",
}  # fmt: skip
"""Basis of the numbers in ``mltk.json``, which has energy and is therefore no measurement on a device."""

DERIVED = {
    *product(
        ("llama-bench.json", "llama-bench.jsonl", "llama-bench.csv", "llm_bench.json", "llm_bench.csv"),
        ("prefill_rate", "decode_rate"),
    ),
    ("llama-bench.csv", "tpot"),
    ("litert_lm_main.txt", "ttft_model"),
}
"""Numbers that an importer computes from those of the file."""


FAILED = {"hyperfine.json": ["python model.py --x"], "ai-hub_perf.yaml": ["TinyNet · onnx w8a8"]}
"""Runs that the tool itself recorded as failed."""


def values(run):
    return {row.metric: row.value for row in run.measurements if row.value is not None}


def forms():
    return [(name, importer, form) for name, importer in IMPORTERS for form in importer.forms]


def test_every_file_has_expected_values_and_every_importer_has_a_file():
    assert sorted(EXPECTED) == [file.name for file in FILES]
    read = {(run.source.importer, run.source.form) for file in FILES for run in import_file(file)}
    assert read == {(name, form.title) for name, _, form in forms()}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_values_are_in_si(file):
    runs = import_file(file)
    assert [(run.job.label, run.headline) for run in runs] == [row[:2] for row in EXPECTED[file.name]]
    for run, (_, _, expected) in zip(runs, EXPECTED[file.name], strict=True):
        assert values(run) == pytest.approx(expected, rel=1e-9)
        for row in run.measurements:
            assert row.unit == METRICS[row.metric].unit
            basis = ESTIMATED[row.metric] if file.name == "mltk.json" and row.value is not None else "measured"
            basis = "derived" if (file.name, row.metric) in DERIVED and row.value is not None else basis
            assert row.basis == (basis if row.value is not None else None)
            assert re.match(says("printed-title"), row.method) if row.value is not None else row.absent_because
            assert (row.low is None) == (not row.samples or len(row.samples) < 3 or len(set(row.samples)) == 1)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_import_is_stable_and_survives_export(file, tmp_path):
    runs = import_file(file)
    assert import_file(file) == runs
    failed = [run.job.label for run in runs if run.failure is not None]
    assert failed == FAILED.get(file.name, [])
    assert [run.job.label for run in runs if run.status == "failed"] == failed
    assert all(run.trust is not None and run.trust.grade in "BCD" for run in runs)
    export_runs(runs, tmp_path / "runs.json")
    assert import_runs(tmp_path / "runs.json") == runs
    assert list(read_any(tmp_path / "runs.json")) == runs


def test_no_file_matches_two_tools():
    for file in FILES:
        is_json, is_binary = file.suffix in (".json", ".jsonl"), file.suffix in BINARY
        text = file.read_bytes().decode("latin-1" if is_binary else "utf-8")[:HEAD_CHARACTERS]
        found = [
            (name, form.title)
            for name, _, form in forms()
            if (is_json, is_binary) == (form.kind in ("json", "jsonl"), form.kind == "binary")
            and re.search(form.mark, text, re.MULTILINE)
        ]
        found = found if is_binary else {name for name, _ in found}
        assert len(found) == 1, (file.name, found)


def test_fields_have_known_names_and_patterns_compile():
    for _, importer, form in forms():
        assert importer.title and importer.runtime and form.expects
        assert bool(form.method) == any(name in METRICS for name in form.names)  # or it is a file of layers alone
        for one in form.fields:
            assert one.name in SETTINGS or one.name in METRICS
            if form.kind == "text":
                assert re.compile(one.at).groups >= 1
        assert all(metric in METRICS for metric in importer.absent)


def test_forms_declare_what_they_give():
    given = {
        (name, form.title): {*(one.name for one in form.fields), *form.gives} | ({"layers"} if form.rows else set())
        for name, _, form in forms()
    }
    for file in FILES:
        for run in import_file(file):
            declared = given[run.source.importer, run.source.form]
            assert set(values(run)) | ({"layers"} if run.layers else set()) <= declared


def test_layers_are_rows_of_the_tool():
    (run,) = import_file(FOLDER / "benchmark_model.txt")
    assert [(layer.name, layer.op, layer.time) for layer in run.layers] == [
        ("[conv1]:0", "CONV_2D", 3e-3),
        ("[probabilities]:1", "SOFTMAX", 1.5e-3),
    ]
    assert run.layers[0].share == pytest.approx(3 / 5.0005)
    assert run.profile.latency == 5.0005e-3 and run.profile.conservation == pytest.approx(4.5 / 5.0005)

    (run,) = import_file(FOLDER / "benchmark_app_detailed_counters.json")
    assert run.profile is None and run.value("latency") is None
    convolution = run.layers[2]
    assert (convolution.op, convolution.engine_op) == ("Convolution", "brgconv_avx2_f32")
    assert convolution.time == pytest.approx(20e-6)  # the mean of 0.018 and 0.022 ms
    assert {layer.kind for layer in run.layers if layer.time is None} == {"eliminated"}

    (run,) = import_file(FOLDER / "benchmark_model_profile.csv")
    assert [(layer.name, layer.time) for layer in run.layers] == [
        ("[conv1, relu1]:0", pytest.approx(90e-6)),
        ("[add]:1", pytest.approx(60e-6)),  # called twice
        ("[probabilities]:2", pytest.approx(50e-6)),
    ]


def test_a_layer_that_only_later_requests_execute_has_their_mean_time(tmp_path):
    path = tmp_path / "counters.csv"
    rows = "a;Status.{};Relu;jit;{};0\n"
    path.write_text(
        "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\n"
        + rows.format("NOT_RUN", "0") + rows.format("EXECUTED", "0.01") + rows.format("EXECUTED", "0.03")
    )  # fmt: skip
    (run,) = import_file(path)
    (layer,) = run.layers
    assert (layer.kind, layer.time, layer.time_absent_because) == ("operator", pytest.approx(20e-6), None)


def test_llama_bench_says_what_each_of_its_tests_leaves_out():
    prompt, new, both = import_file(FOLDER / "llama-bench.json")
    assert prompt.measurement("ttft_model").samples == (0.4, 0.41, 0.396)
    assert new.measurement("tpot").samples == (0.01, 0.011, 0.0105)
    assert new.measurement("ttft_model").absent_because == "not timed by the test tg128"
    assert both.measurement("tpot").absent_because == "the test pp64+tg16 times prompt and new tokens together"
    for run in (prompt, new):
        rate = run.measurement("decode_rate" if run is new else "prefill_rate")
        assert rate.method.endswith("tokenising and sampling are not in it")
    assert new.job.workload.scenario == Scenario(kind="generate", prompt_tokens=0, new_tokens=128, depth=1024)
    assert new.job.runtime.version == "7654" and new.effective["kv_cache_type"] == "f16"
    assert import_file(FOLDER / "llama-bench.md")[0].job.runtime.version == "7654"


def test_iterations_of_llm_bench_are_samples_without_the_warm_up():
    first, second = import_file(FOLDER / "llm_bench.json")
    assert first.measurement("tpot").samples == (10e-3, 10.5e-3, 10.25e-3)
    assert first.measurement("ttft_model").samples == (40.5e-3, 41.5e-3, 38e-3)
    assert second.measurement("tpot").samples == (11e-3, 11.5e-3, 11.25e-3)
    assert (first.job.workload.stopping.iterations, first.job.workload.stopping.warmup) == (3, 1)
    (table,) = import_file(FOLDER / "llm_bench.csv")
    assert values(table) == values(first)


def test_llm_bench_in_chat_mode_has_no_time_to_first_token(tmp_path):
    document = json.loads((FOLDER / "llm_bench.json").read_text())
    for row in document["perfdata"]["results"]:
        row["first_latency"] /= row["input_size"]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(document))
    for run in import_file(path):
        assert run.value("tpot") and run.value("prefill_rate") is None
        assert "in chat mode" in run.measurement("ttft_model").absent_because


def test_llm_bench_of_images_has_no_speed_of_text(tmp_path):
    document = json.loads((FOLDER / "llm_bench.json").read_text())
    for row in document["perfdata"]["results"]:
        row |= {"output_size": "", "input_size": ""}
    path = tmp_path / "images.json"
    path.write_text(json.dumps(document))
    for run in import_file(path):
        assert values(run) == {"load_time": 1.75}
        assert run.measurement("tpot").absent_because.endswith("it is of another task")


def test_aiperf_tells_how_many_requests_ran_at_once_and_failed(tmp_path):
    (run,) = import_file(FOLDER / "aiperf.json")
    assert run.job.workload.scenario == Scenario(kind="generate", prompt_tokens=512, requests=2)
    assert "2 of 50 requests failed and are left out" in {caution.message for caution in run.cautions}
    assert run.measurement("prefill_rate").absent_because.startswith("AIPerf divides by the time to first text")
    document = json.loads((FOLDER / "aiperf.json").read_text())
    newer = {"models": {"items": [{"name": "other/tiny"}]}, "phases": []}
    del document["time_to_first_token"], document["inter_token_latency"]
    path = tmp_path / "newer.json"
    path.write_text(json.dumps(document | {"input_config": newer, "was_cancelled": True}))
    (run,) = import_file(path)
    assert run.job.model.name == "tiny" and "requests" in run.source.unknown
    assert run.measurement("ttft").absent_because == "the requests were not streamed"
    assert "cancelled" in next(caution.message for caution in run.cautions if caution.code == "failed-executions")
    path.write_text(json.dumps(document | {"request_count": [1]}))
    with pytest.raises(BadInput, match="request_count: expected an object, not list"):
        import_file(path)


def test_litert_lm_has_rates_of_one_turn_at_one_depth(tmp_path):
    (run,) = import_file(FOLDER / "litert-lm_benchmark.txt")
    assert run.measurement("ttft_model").absent_because == "LiteRT-LM gives the mean of the iterations and no median"
    assert run.effective == {"speculative_decoding": "auto"} and run.job.workload.stopping.iterations == 2
    text = (FOLDER / "litert_lm_main.txt").read_text()
    turn = "    Decode Turn 2: Processed 8 tokens in 0.4s duration.\n      Decode Speed: 20.00 tokens/sec.\n"
    path = tmp_path / "turns.txt"
    path.write_text(text + turn)
    (run,) = import_file(path)
    assert values(run) == {"load_time": 0.4505, "ttft_model": 0.53}
    assert run.measurement("decode_rate").absent_because == "the file has several turns, each at another depth"


def test_tables_may_follow_other_text_and_one_another(tmp_path):
    text = (FOLDER / "llama-bench.md").read_text()
    older = (
        "ggml: found 1 device\n\n"
        "| model                          |       size |     params | backend    | ngl | test       |      t/s |\n"
        "| ------------------------------ | ---------: | ---------: | ---------- | --: | ---------- | -------: |\n"
        "| llama 7B mostly Q4_0           |   3.56 GiB |     6.74 B | CUDA       |  99 | tg 128     | 130.5 ± 0.5 |\n"
        "\nbuild: 1234567 (1234)\n"
    )
    path = tmp_path / "both.md"
    path.write_text(older + text)
    old, *new = import_file(path)
    assert (old.value("decode_rate"), old.job.runtime.version, old.job.runtime.provider) == (130.5, "1234", "cuda")
    assert old.job.runtime.precision == "q4_0"
    assert [values(run) for run in new] == [values(run) for run in import_file(FOLDER / "llama-bench.md")]
    assert {run.job.runtime.version for run in new} == {"7654"}
    path.write_text((FOLDER / "llama-bench.csv").read_text() * 2)
    assert len(import_file(path)) == 4


def test_reasons_for_absent_numbers():
    def reasons(name):
        (run,) = import_file(FOLDER / name)
        return {row.metric: row.absent_because for row in run.measurements if row.value is None}

    assert set(reasons("trtexec_profile.json").values()) == {
        "this file has layers alone",
        "the file does not have the model; add --model FILE on import",
    }
    assert reasons("trtexec_times.json")["throughput"] == wording("not-file-in-building", title="trtexec")
    assert reasons("trtexec_times.json")["memory_peak"] == wording("does-not-report-metric", title="trtexec")
    assert reasons("benchmark_app.txt")["memory_peak"].startswith("benchmark_app reports the memory of compiling")
    assert re.match(says("reads-engine-own-clock-see", title="benchmark_app"), reasons("benchmark_app.txt")["latency"])


def test_a_log_of_trtexec_7_has_blocks_of_lines_and_counts_no_queries(tmp_path):
    lines = [
        "Timing trace has 0 queries over 3 s", "Host Latency", "min: 1.625 ms (end to end 1.75 ms)",
        "max: 6.25 ms (end to end 7.5 ms)", "mean: 1.875 ms (end to end 3 ms)", "median: 1.75 ms (end to end 3 ms)",
        "percentile: 2.5 ms at 99% (end to end 3.5 ms at 99%)", "throughput: 0 qps", "Enqueue Time", "min: 0.5 ms",
        "max: 2 ms", "median: 0.75 ms", "GPU Compute", "min: 1.5 ms", "max: 6 ms", "mean: 1.625 ms",
        "median: 1.5625 ms", "percentile: 2 ms at 99%",
    ]  # fmt: skip
    body = "".join(f"[05/10/2021-12:24:30] [I] {line}\n" for line in lines)
    name = "TensorRT.trtexec # trtexec --onnx=net.onnx"
    (tmp_path / "log.txt").write_text(f"&&&& RUNNING {name}\n{body}&&&& PASSED {name}\n")
    (run,) = import_file(tmp_path / "log.txt")
    assert run.status == "done" and run.value("throughput") is None
    found = {
        name: run.value(name) for name in ("latency", "latency_engine", "latency_min", "latency_max", "latency_p99")
    }
    assert found == {
        "latency": 0.00175, "latency_engine": 0.0015625, "latency_min": 0.001625, "latency_max": 0.00625,
        "latency_p99": 0.0025,
    }  # fmt: skip


def test_ai_hub_names_the_unit_of_each_layer_and_its_own_statistic():
    (run,) = import_file(FOLDER / "ai-hub_profile.json")
    assert [(layer.name, layer.op, layer.provider, layer.time) for layer in run.layers] == [
        ("features/conv", "CONV_2D", "NPU", 700e-6),
        ("classifier/linear", "FULLY_CONNECTED", "NPU", 310e-6),
    ]
    first, second, _ = import_file(FOLDER / "ai-hub_perf.yaml")
    assert (first.job.target.device, second.job.target.device) == ("Phone A", "Board B (Proxy)")
    assert "a statistic that it does not name" in first.measurement("latency_engine").method
    assert first.source.part == "float, TinyNet, Phone A, tflite"


def test_ai_hub_without_single_times_keeps_its_estimate(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text('{"execution_summary": {"estimated_inference_time": 1180, "warm_load_time": null}}')
    (run,) = import_file(path)
    assert values(run) == {"latency_engine": 1180e-6}


def test_text_generation_has_no_latency_of_one_inference():
    (run,) = import_file(FOLDER / "optimum-benchmark_report.json")
    assert "prefill and decode" in run.measurement("latency").absent_because


def test_deepsparse_can_have_measured_onnxruntime(tmp_path):
    path = tmp_path / "ort.json"
    document = json.loads((FOLDER / "deepsparse.json").read_text())
    path.write_text(
        json.dumps(document | {"engine": "deepsparse.benchmark.ort_engine.ORTEngine:\n", "scenario": "sync"})
    )
    (run,) = import_file(path)
    assert run.job.label == "pruned.onnx · onnxruntime 8T batch 4"


def test_mlperf_tiny_takes_system_and_model_from_the_folders(tmp_path):
    folder = tmp_path / "results" / "BOARD_X" / "ic" / "performance"
    folder.mkdir(parents=True)
    (folder / "results.txt").write_bytes((FOLDER / "mlperf-tiny_results.txt").read_bytes())
    (run,) = import_file(folder / "results.txt")
    assert (run.job.model.name, run.job.target.device) == ("ic", "BOARD_X")
    row = run.measurement("latency")
    assert row.samples == pytest.approx([0.165, 0.1651, 0.1652])
    assert "no percentiles" in row.method


COREML = FOLDER / "coreml_report.json"
"""Written by hand after reports that developers published: all names and numbers are invented."""


def test_experiments_of_a_core_ml_report_are_sessions_and_their_first_predictions_are_cold():
    (run,) = import_file(COREML)
    latency, first = run.measurement("latency"), run.measurement("latency_first")
    assert latency.session_lengths == (7, 7, 7) and max(latency.samples) == 0.24e-3
    assert first.samples == (9.1e-3, 8.7e-3, 8.9e-3) and first.session_lengths == (1, 1, 1)
    assert run.measurement("load_time").session_lengths == (2, 2, 2)
    assert "without the first prediction of each experiment" in latency.method
    stopping = run.job.workload.stopping
    assert (stopping.sessions, stopping.iterations) == (3, 7)
    assert run.created_at == "2026-02-01T12:00:00.250+00:00" and run.source.time_from == "file"
    (spec,) = run.job.workload.inputs
    assert (spec.name, spec.shape, spec.dtype) == ("features", (1, 40, 1, 98), "float16")
    assert run.job.target.device == "Invented Tablet (M0)" and run.environment == {"os": {"name": "InventedOS 18.0.1"}}
    assert run.source.unknown == ("model file", "version", "threads", "batch")


def test_operators_of_a_core_ml_report_have_a_unit_and_an_estimated_share_but_no_time():
    (run,) = import_file(COREML)
    assert run.profile is None
    assert [(row.name, row.op, row.engine_op, row.provider, row.time, row.share) for row in run.layers] == [
        ("conv_1", "conv", "ios18.conv", "neural-engine", None, None),
        ("relu_1", "relu", "ios18.relu", "neural-engine", None, None),
        ("scores", "softmax", "ios18.softmax", "cpu", None, None),
    ]
    assert [row.attributes for row in run.layers] == [{"estimated_share_of_cost": share} for share in (0.75, 0.15, 0.1)]
    assert run.effective["preferred_units"] == {"neural-engine": 2, "cpu": 1}


def test_a_core_ml_report_gives_away_neither_the_owner_nor_the_device(tmp_path):
    bundle = tmp_path / "secret" / "Keywords.mlperf"
    bundle.mkdir(parents=True)
    (bundle / "report.json").write_bytes(COREML.read_bytes())
    (run,) = read_any(bundle)
    assert run.source.file == "Keywords.mlperf" and values(run) == values(import_file(COREML)[0])
    export_runs([run], tmp_path / "runs.json")
    stored = (tmp_path / "runs.json").read_text()
    info = json.loads(COREML.read_text())["deviceInfo"]
    for private in (info["deviceID"], info["serialNumber"], "Jane", "jane", "secret", "file:"):
        assert private in COREML.read_text() + str(bundle) and private not in stored


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["jsonVersion"], 2, "jsonVersion: jsonVersion is '2'; only 1 is known"),
        (["computeUnit"], 7, "computeUnit is '7'; expected one of 0 (cpu), 1 (cpu+gpu), 2 (all), 3 (cpu+"),
        (
            ["deviceResults", "predict", "samples"],
            [],
            says("times-predictions-experiments-predictions", times_count=has("deviceResults.predict.samples: 0")),
        ),
        (
            ["deviceResults", "predict", "samples"],
            [0.1] * 23,
            says("times-predictions-experiments-predictions", times_count=has("23"), count=8),
        ),
        (["deviceResults", "predict", "samples"], [0.1, -0.1], "deviceResults.predict.samples[1]: latency is '-0.1'"),
        (["deviceResults", "predict", "samples"], [0.1, math.nan], says("not-number-json", constant=has("NaN"))),
        (["deviceResults", "predict", "samples"], [0.1, None], "latency is 'NoneType'"),
        (
            ["deviceResults", "predict", "startTime"],
            1e15,
            wording("starttime-expected-seconds-since-2001", to_word="1000000000000000.0"),
        ),
        (
            ["deviceResults", "perfRunConfig"],
            {},
            says("times-predictions-experiments-predictions", count=says("unknown-number")),
        ),
        (["deviceResults", "perfRunConfig", "predictionCount"], 0, "iterations is '0'"),
        (["deviceResults", "modelStructure"], [], "deviceResults.modelStructure: expected an object with 'program'"),
        (["modelMetadata", "rawMetadata"], "[" * 100_000, "modelMetadata.rawMetadata: expected JSON text"),
        (["modelMetadata", "rawMetadata"], "[NaN]", "modelMetadata.rawMetadata: expected JSON text"),
    ],
)
def test_errors_in_a_core_ml_report(keys, value, message, tmp_path):
    document = json.loads(COREML.read_text())
    inner = document
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    with pytest.raises(BadInput) as caught:
        import_file(path)
    assert is_in(message, caught.value.message)


def test_core_ml_reports_without_what_is_optional(tmp_path):
    document = json.loads(COREML.read_text())
    document["deviceResults"]["perfRunConfig"]["predictionCount"] = 1
    del document["deviceResults"]["modelStructure"], document["modelMetadata"], document["deviceInfo"]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    (run,) = import_file(path)
    assert run.layers == () and run.environment == {} and run.job.target.device == "unknown"
    assert len(run.measurement("latency_first").samples) == 24 and run.value("latency") is None
    assert run.measurement("latency").absent_because.startswith("each experiment made one prediction")


def test_operators_in_blocks_of_others_are_found_in_order(tmp_path):
    document = json.loads(COREML.read_text())
    program = document["deviceResults"]["modelStructure"]["program"]["_0"]
    operations = program["functions"]["main"]["block"]["operations"]
    operations[0]["blocks"] = [{"operations": [operations.pop(3)]}, {"operations": [operations.pop(3)]}]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    assert [row.name for row in import_file(path)[0].layers] == ["relu_1", "scores", "conv_1"]


def test_conditions_of_an_import_are_compared_where_both_records_have_them():
    (run,) = import_file(COREML)
    other = replace(run, id="other", environment={"os": {"name": "InventedOS 19"}, "cpu": {"model": "M0"}})
    (found,) = environment_differences(run, other)
    assert (found.name, found.a, found.b) == ("operating system", "InventedOS 18.0.1", "InventedOS 19")


def test_an_mltk_report_without_energy_was_measured_on_a_device(tmp_path):
    path = tmp_path / "device.json"
    document = json.loads((FOLDER / "mltk.json").read_text())
    document["summary"] |= {"energy": 0, "accelerator": "MVP", "accelerator_cycles": 1e6}
    path.write_text(json.dumps(document))
    (run,) = import_file(path)
    assert {row.basis for row in run.measurements if row.value is not None} == {"measured"}
    assert (run.value("energy"), run.value("accelerator_cycles")) == (None, 1e6)
    assert run.job.runtime.provider == "MVP"


def test_samples_keep_their_processes():
    forward, backward = import_file(FOLDER / "pyperf.json")
    row = forward.measurement("latency")
    assert row.session_lengths == (3, 3, 3, 3) and len(row.samples) == 12
    assert row.low < row.value < row.high
    assert forward.created_at == "2026-01-31T11:59:00.000+00:00" and forward.source.time_from == "file"
    assert "single-session" not in {caution.code for caution in forward.cautions}
    assert {"single-session", "too-few-samples"} <= {caution.code for caution in backward.cautions}
    sleep, _ = import_file(FOLDER / "hyperfine.json")
    assert sleep.measurement("total_time").session_lengths == (1, 1, 1)


def test_threads_that_only_the_request_of_benchmark_model_tells(tmp_path):
    """Newer versions print "Num threads: [4]" alone; -1 leaves it to the engine."""
    text = (FOLDER / "benchmark_model.txt").read_text("utf-8")
    for words, threads in (("[4]", 4), ("[-1]", None)):
        told = text.replace("Num threads: [1]", f"Num threads: {words}")
        told = told.replace("INFO: #threads used for CPU inference: [1]\n", "")
        (tmp_path / "told.txt").write_text(told)
        (run,) = import_file(tmp_path / "told.txt")
        assert run.job.runtime.threads == threads


def test_the_benchmark_model_of_litert_2_and_a_delegate_that_is_given_up(tmp_path):
    path = tmp_path / "f.txt"
    path.write_text(litert_benchmark_model())
    (run,) = import_file(path)
    delegate = {"name": "DispatchDelegate", "nodes": 2, "of": 3, "partitions": 3}
    assert run.effective["delegates"] == [delegate]
    assert run.job.runtime.provider == "npu" and run.value("latency_mean") == pytest.approx(947.132e-6)
    assert "nnapi-deprecated" not in {each.code for each in run.cautions}
    path.write_text(litert_benchmark_model("TfLiteNnapiDelegate"))
    (run,) = import_file(path)
    assert run.job.runtime.provider == "nnapi" and "nnapi-deprecated" in {each.code for each in run.cautions}


def test_binary_files_are_as_protobuf_writes_them():
    assert {name: (FOLDER / name).read_bytes() for name in files()} == files()


def test_results_take_the_delegates_from_the_file_beside_them(tmp_path):
    for name, content in files().items():
        (tmp_path / name.removeprefix("benchmark_model_")).write_bytes(content)
    (run,) = import_file(tmp_path / "results.pb")
    assert run.effective == {
        "operators": 4, "operators_delegated": 3, "delegate_partitions": 2,
        "delegates": [{"name": "TfLiteXNNPackDelegate", "nodes": 3, "of": 4}],
    }  # fmt: skip
    assert delegates_of(run) == ["TfLiteXNNPackDelegate took 3 of 4 operators"]
    (latency, *_) = csv.DictReader("".join(csv_lines([run])).splitlines())
    counts = [latency[name] for name in ("operators", "operators_delegated", "delegate_partitions")]
    assert (latency["metric"], counts) == ("latency", ["4", "3", "2"])
    stopping = run.job.workload.stopping
    assert (run.job.runtime.provider, stopping.iterations, stopping.warmup) == ("xnnpack", 343, 135)
    layers = [(layer.name, layer.op, layer.provider, layer.time) for layer in run.layers]
    assert layers == [
        ("CONV_2D:0", "CONV_2D", "TfLiteXNNPackDelegate", None), ("CUMSUM:1", "CUMSUM", "built-in", None),
        ("CONV_2D:2", "CONV_2D", "TfLiteXNNPackDelegate", None), ("SOFTMAX:3", "SOFTMAX", "TfLiteXNNPackDelegate", None),
    ]  # fmt: skip
    (told,) = import_file(tmp_path / "runtime_info.pb")
    assert told.effective == run.effective and told.value("latency") is None

    (tmp_path / "runtime_info.pb").write_bytes(b"")
    with pytest.raises(BadInput, match=says("no-operators-more-than", most_rows=100000)) as caught:
        import_file(tmp_path / "results.pb")
    assert caught.value.message.startswith(f"{tmp_path / 'runtime_info.pb'}, the document: ")
    (tmp_path / "runtime_info.pb").unlink()
    (alone,) = import_file(tmp_path / "results.pb")
    assert alone.effective == {} and alone.layers == () and alone.id != run.id
    assert alone.value("latency") == run.value("latency")


def test_a_float_of_32_bits_has_seven_digits(tmp_path):
    metrics = {"avg_ms": 3.71, "median_ms": 2.92}
    path = tmp_path / "f"
    path.write_bytes(message("tflite.tools.benchmark", "BenchmarkResult", name="gpu", latency_metrics=metrics))
    (run,) = import_file(path)
    assert values(run) == {"latency": 2.92e-3, "latency_mean": 3.71e-3}


def test_several_delegates_are_no_provider(tmp_path):
    nodes = [
        {"id": 0, "name": "A", "delegated_to_node_id": 2}, {"id": 1, "name": "B", "delegated_to_node_id": 3},
        {"id": 2, "delegate_node_details": {"delegate_name": "LITERT_CL"}},
        {"id": 3, "delegate_node_details": {"delegate_name": "TfLiteXNNPackDelegate"}},
    ]  # fmt: skip
    path = tmp_path / "f"
    graphs = [{"subgraph_id": 0, "nodes": nodes}, {"subgraph_id": 1, "nodes": [{"id": 0, "name": "C"}]}]
    path.write_bytes(message("tflite.profiling", "ModelRuntimeDetails", model_name="/m/net.tflite", subgraphs=graphs))
    (run,) = import_file(path)
    assert run.job.runtime.provider is None and run.job.model.name == "net.tflite"
    assert [layer.provider for layer in run.layers] == ["LITERT_CL", "TfLiteXNNPackDelegate", "built-in"]
    assert run.effective["delegates"] == [
        {"name": "LITERT_CL", "nodes": 1, "of": 2},
        {"name": "TfLiteXNNPackDelegate", "nodes": 1, "of": 2},
    ]


def test_steps_of_executorch_are_layers():
    (run,) = import_file(FOLDER.parent / "pte_programs" / "events.etdp")
    assert [(layer.name, layer.provider, layer.time) for layer in run.layers] == [
        ("Transpose (ND, X32) #1 [0]", "a delegate", None), ("Convolution (NHWC, F32) IGEMM #1 [0]", "a delegate", None),
        ("Transpose (ND, X32) #2 [0]", "a delegate", None), ("cumsum.out [1]", "ExecuTorch's kernels", 611e-9),
        ("mean.out [2]", "ExecuTorch's kernels", 841e-9), ("Fully Connected (NC, F32) GEMM #1 [3]", "a delegate", None),
    ]  # fmt: skip
    assert run.layers[1].op == "Convolution (NHWC, F32) IGEMM"
    assert run.measurement("latency_engine").samples == (7.421e-6,)
    assert run.profile.conservation == pytest.approx((611 + 841) / 7421)


def test_methods_of_executorch_are_runs_and_without_loading_no_inference_is_the_first():
    def inference(*names, length=100):
        steps = [
            Event(name=f"native_call_{name}", instruction=at, delegated=False, start=0, length=40)
            for at, name in enumerate(names)
        ]
        return [*steps, Event(name="Method::execute", instruction=0, delegated=False, start=0, length=length)]

    load = [Event(name="Program::load_method", instruction=0, delegated=False, start=0, length=9)]
    step = {"provider": "ExecuTorch's kernels", "time": 40}
    add, mul = ({"name": f"{name} [0]", "op": name, **step} for name in ("add", "mul"))
    assert describe_blocks([inference("add"), inference("mul"), inference("add", length=60)]) == {
        "methods": [
            {"first": None, "times": [100, 60], "load": None, "steps": [add]},
            {"first": None, "times": [100], "load": None, "steps": [mul]},
        ]
    }
    assert describe_blocks([load, inference("add")]) == {
        "methods": [{"first": 100, "times": [], "load": 9, "steps": [add]}]
    }
    with pytest.raises(ValueError, match=wording("no-inference")):
        describe_blocks([load])


def test_what_the_user_tells_is_marked_and_must_not_contradict(tmp_path):
    model = tmp_path / "model.tflite"
    model.write_bytes((Path(__file__).parents[2] / "src/edgewise/data/digits_cnn.tflite").read_bytes())
    told = Told(model=model, device="phone", settings={"threads": 1, "precision": "f32"})
    (run,) = import_file(FOLDER / "benchmark_model.txt", "benchmark_model", told)
    assert run.job.model.format == "tflite" and run.value("model_size") == model.stat().st_size
    assert run.job.target.device == "phone" and run.job.runtime.precision == "f32"
    assert run.source.told == {"threads": 1, "precision": "f32", "model": "model.tflite", "device": "phone"}
    assert run.source.unknown == ("version", "batch")
    assert run.id != import_file(FOLDER / "benchmark_model.txt")[0].id
    delegate = {"name": "TfLiteXNNPackDelegate", "nodes": 9, "of": 10, "partitions": 1}
    assert run.effective == {"delegates": [delegate]}
    other = model.rename(tmp_path / "other.tflite")
    (run,) = import_file(FOLDER / "benchmark_model.txt", told=Told(model=other))
    assert run.job.model.name == "other.tflite" and run.effective == {
        "delegates": [delegate],
        "model_in_file": "model.tflite",
    }
    with pytest.raises(BadInput, match=says("set-says", name="threads", settings=1, value=8)):
        import_file(FOLDER / "benchmark_model.txt", told=Told(settings={"threads": 8}))
    with pytest.raises(BadInput, match=says("results-several-models-model-names")):
        import_file(FOLDER / "benchncnn.txt", told=Told(model=other))


def test_a_rate_of_calls_becomes_a_rate_of_samples():
    (run,) = import_file(FOLDER / "onnxruntime_perf_test.txt", told=Told(settings={"batch": 8}))
    assert run.value("throughput") == 8 * 198.4


@pytest.mark.parametrize("file", [file for file in FILES if file.suffix == ".txt"], ids=lambda file: file.name)
def test_outputs_after_one_another_are_runs_of_their_own(file, tmp_path):
    path = tmp_path / file.name
    path.write_bytes(file.read_bytes() * 2)
    once, runs = import_file(file), import_file(path)
    (form,) = (
        form for name, _, form in forms() if (name, form.title) == (once[0].source.importer, once[0].source.form)
    )
    # A tool that writes a file of its own for each run appends nothing.
    assert [values(run) for run in runs] == [values(run) for run in once] * (2 if form.each else 1)
    assert len({run.id for run in runs}) == len(runs)


def test_two_results_without_a_beginning_are_refused(tmp_path):
    path = tmp_path / "f"
    path.write_text("Average inference time cost: 5 ms\nAverage inference time cost: 6 ms\n")
    with pytest.raises(
        BadInput,
        match=says("name-word-r-here-word", name=has("line 1: latency_mean"), to_word="5", to_word_2="6", at="line 2"),
    ):
        import_file(path)


def test_more_samples_than_are_read(tmp_path):
    path = tmp_path / "f.json"
    path.write_text(json.dumps({"results": [{"command": "a", "times": [1.0] * 10_001}]}))
    with pytest.raises(
        BadInput,
        match=says("values-processes", metric=has("results[0]: total_time"), count=10001, processes_count=10001),
    ):
        import_file(path)


def binary_mutations(content: bytes):
    for at in range(0, len(content), max(1, len(content) // 100)):
        yield f"cut at {at}", content[:at]
        for byte in (0, 1, 0x7F, 0xFF):  # 0x80 begins a pickle
            yield f"byte {at} is {byte}", content[:at] + bytes([byte]) + content[at + 1 :]
    yield "twice", content + content


def mutations(content: bytes):
    yield "cut in half", content[: len(content) // 2]
    yield "cut early", content[:300]
    yield "CRLF", content.replace(b"\n", b"\r\n")
    yield "UTF-16", content.decode().encode("utf-16")
    yield "negative", re.sub(rb"(?<![\w.-])(\d+\.\d+)", rb"-\1", content)
    yield "huge", re.sub(rb"(?<![\w.-])\d+\.\d+", b"1e400", content)
    yield "NaN", re.sub(rb"(?<![\w.-])\d+\.\d+", b"NaN", content)
    yield "words", re.sub(rb"(?<![\w.-])\d+\.\d+", b"many", content)
    yield "strings", re.sub(rb"(?<![\w.-])(\d+\.\d+)", rb'"\1"', content)
    yield "nulls", re.sub(rb"(?<![\w.-])\d+(\.\d+)?(?=[,\s\]}])", b"null", content)
    yield "lists", re.sub(rb"(?<![\w.-])(\d+\.\d+)(?=[,\s\]}])", rb"[\1]", content)
    yield "reversed lines", b"\n".join(reversed(content.splitlines()))
    yield "every other line", b"\n".join(content.splitlines()[::2])
    yield "colours", re.sub(rb"(?m)^(?=\w)", b"\x1b[31m", content)
    yield "NUL", content[:200] + b"\0" + content[200:]
    yield "Latin-1", content[:200] + b"\xe9" + content[200:]
    yield "wide digits", content.replace(b"1", "１".encode())
    yield "twice", content + content


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_damaged_files_give_runs_or_one_error_with_a_place(file, tmp_path):
    name = import_file(file)[0].source.importer
    content = file.read_bytes()
    for what, damaged in binary_mutations(content) if file.suffix in BINARY else mutations(content):
        path = tmp_path / "damaged"
        path.write_bytes(damaged)
        try:
            runs = import_file(path, name)
        except BadInput as error:
            assert re.match(r".*?, (line \d+|lines \d+–\d+|the document|the file|[\w.\[\]* ()-]+): .", error.message), (
                what,
                error.message,
            )
            assert error.advice, what
            continue
        for run in runs:
            assert all(value >= 0 for value in values(run).values()), what
        if what in ("CRLF", "UTF-16"):
            assert [values(run) for run in runs] == [values(run) for run in import_file(file)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", wording("not-recognised-export-edgewise-output")),
        (b"\n\nhello\n", "line 3: not recognised"),
        (b"\x80\x04\x95", "a pickle"),
        (b"PK\x03\x04", wording("zip-archive")),
        (b"[Step 1/11]\n[ INFO ]    Median:   x ms\n", "line 2: latency_engine is 'x'"),
        (
            b"[Step 1/11]\n[ INFO ]    Median:   1 parsecs\n",
            says("unit-expected-one", what=has("line 2: latency_engine"), to_word="parsecs"),
        ),
        (
            b"[Step 1/11]\n[ INFO ] INFERENCE_NUM_THREADS: 1.5\n",
            says("expected-whole-number", name=has("line 2: threads"), to_word="1.5"),
        ),
        (b"[Step 1/11]\nand nothing\n", "line 2: the results are missing; expected the lines 'Median: 1.23 ms'"),
        (b'{"execution_results": {\n"latency (ms)": NaN}}', says("not-number-json", constant=has("line 2: NaN"))),
        (b'{"execution_results": {\n"latency (ms)": }}', "line 2: not JSON: Expecting value"),
        (b'{"execution_results": {"latency (ms)": 1e400}}', "execution_results.latency (ms): latency_engine is 'inf'"),
        (
            b'{"execution_results": {"latency (ms)": -1}}',
            says("expected-number", what=has("latency_engine"), shown="-1", least=0),
        ),
        (b'{"execution_results": {"latency (ms)": true}}', "latency_engine is 'True'"),
        (b'{"execution_results": [1]}', "execution_results: expected an object with"),
        (
            b'{"report_type": "average", "avg_performance": {"nodes": [{"name": "x"}]}}',
            wording("benchmark-app-wrote-only-first"),
        ),
        (b'{"execution_results": ' + b"[" * 100_000, wording("json-nested-too-deeply")),
        (b'{"execution_results": ' + b"9" * 5000 + b"}", "not JSON: Exceeds the limit"),
        (b'{"benchmarks": [{"runs": [{"values": [1, "x"]}]}]}', "benchmarks[0].runs[0].values[1]: latency is 'x'"),
        (b'{"benchmarks": [{"metadata": {"unit": "byte"}, "runs": []}]}', "benchmarks[0].metadata.unit"),
        (b'{"execution_summary": {"all_inference_times": [1, "x"]}}', "execution_summary.all_inference_times[1]"),
        (b'{"execution_summary": {"compile_time": 1}}', "the document: the results are missing"),
        (b"precisions:\n  float: 1\n", "the document: a part of it has another type"),
        (b"precisions:\n  float:\n    parts: {}\n", "the document: it lacks 'components'"),
        (b"precisions: &a\n  float: *a\n", says("anchor-alias-line", line=1)),
        (b"m-infer-start-10\nm-lap-us-5\n", "line 1: a window of 10 inferences with the times [5]"),
        (b"m-infer-start-10\nm-lap-us-5\nm-lap-us-5\n", says("window-inferences-times-expected-two")),
        (b"# Inferences : 0\nRuntime : 1 sec\nMedian throughput is 1 inf./sec.", "line 1: a window without"),
        (b'{"orig_model_path": "m", "benchmark_result": {"99.0%": "x"}}', "benchmark_result.99.0%: latency_p99 is"),
        (b'{"orig_model_path": "m", "scenario": "as!nc"}', "scenario: the scenario is 'as!nc'; expected one of sync, "),
        (b"build_commit,build_number,n_prompt,n_gen,avg_ns\na,1,5,0,0\n", "line 2: avg_ns is 0"),
        (b"build_commit,build_number,n_prompt,n_gen,avg_ns\na,1,5,0\n", "line 2: 4 cells in a table of 5 columns"),
        (b"build_commit,build_number,n_prompt,n_gen,avg_ns\na,1,0,0,5\n", "line 2: n_prompt and n_gen are 0"),
        (b"build_commit,build_number,n_prompt,n_gen,avg_ns\na,1,5,,5\n", "line 2: new_tokens is missing; expected"),
        (b'build_commit,build_number,n_prompt,n_gen,avg_ns\n"a\n', "line 2: not CSV: "),
        (b'{"build_commit": "a", "n_prompt": 1, "n_gen": 0, "samples_ns": [1]}\n{"a": NaN}\n', "line 2: NaN is not"),
        (b'{"build_commit": "a", "samples_ns": [1]}\n[1]\n', "line 2: expected an object, not list"),
        (b'{"build_commit": "a", "n_prompt": 1, "n_gen": 0, "samples_ns": 5}\n', "line 1.samples_ns: expected a list"),
        (
            b"Configuration setup\nAPI;both\nlatency (ms);1",
            "line 2: the scenario is 'both'; expected one of sync, async",
        ),
    ],
)
def test_errors_name_the_place(content, message, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        import_file(path)
    assert is_in(message, caught.value.message) and caught.value.advice


def test_hostile_names_are_one_short_line(tmp_path):
    path = tmp_path / "h.json"
    evil = "\x1b[2J\u202e" + "a\r\nb" * 100_000
    path.write_text(json.dumps({"results": [{"command": evil, "times": [1.0, 2.0]}]}))
    (run,) = import_file(path)
    assert len(run.job.model.name) <= 200 and run.job.model.name.isprintable()


def test_wildcards_between_words_have_a_bound():
    """Without one, a line of megabytes that repeats the first word takes time in proportion to its square."""
    unbounded = re.compile(r"(?<!\\)\.[*+]|\[\^\S*?\\n\][*+]")
    patterns = [mlperf._WINDOW.pattern]
    for _, _, form in forms():
        if form.kind == "text":
            patterns += [form.mark, form.each, form.failed, *form.errors, *(one.at for one in form.fields)]
    for pattern in patterns:
        # A pattern that begins with a line is tried once per line; a last wildcard needs nothing behind it.
        inner = pattern.replace("(.+)$", "")
        assert pattern.startswith(("^", r"\A")) or not unbounded.search(inner), pattern


def test_a_file_that_is_too_large_is_refused(tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.seek(2**30)
        file.write(b"x")
    with pytest.raises(BadInput, match=says("larger-than", format_bytes="32.0 MiB")):
        import_file(path)
    assert path.stat().st_size > MOST_BYTES
    with pytest.raises(BadInput, match=says("cant-read-in-reading")):
        import_file(tmp_path / "missing")
    with pytest.raises(BadInput, match=says("cant-read-in-reading")):
        import_file(tmp_path)


def test_an_unknown_tool_and_a_file_of_another_tool():
    with pytest.raises(BadInput, match="--from hyperfin: unknown importer 'hyperfin'"):
        import_file(FOLDER / "hyperfine.json", "hyperfin")
    with pytest.raises(BadInput, match="line 1: no output of pyperf"):
        import_file(FOLDER / "hyperfine.json", "pyperf")


def test_benchmarks_of_other_tools_are_not_taken_for_those_of_pyperf(tmp_path):
    rows = {"pytest-benchmark": {"group": None, "stats": {"data": [0.1]}}, "Google Benchmark": {"name": "BM_a"}}
    for name, row in rows.items():
        (tmp_path / name).write_text(json.dumps({"benchmarks": [row]}))
        with pytest.raises(BadInput, match=says("not-recognised-export-edgewise-output")):
            import_file(tmp_path / name)


def imported(name, **told):
    return import_file(FOLDER / name, told=Told(**told))


def compared(a, b):
    rows = compare_runs([Variant(label="A", run=a), Variant(label="B", run=b)], Criteria())
    return {row.metric: row for row in rows}


def test_without_an_interval_the_ratio_is_given_and_the_verdict_is_inconclusive():
    four, _, one = imported("benchncnn.txt")
    row = compared(four, one)["latency_mean"]
    assert row.verdict == "inconclusive" and row.ratio == pytest.approx(9.25 / 2.2)
    assert "has no interval" in row.because


def test_a_mean_is_compared_with_the_mean_of_samples_and_not_with_their_median():
    (mean,) = imported("onnxruntime_perf_test.txt")
    mean = replace(mean, measurements=tuple(row for row in mean.measurements if row.metric != "latency"))
    (samples,) = imported("onnxruntime_perf_test_results.csv")
    assert mean.headline == "latency_mean"
    row = compared(samples, mean)["latency_mean"]
    assert row.before.value == pytest.approx(4.9e-3) and row.after.value == pytest.approx(5.02e-3)
    assert row.verdict == "inconclusive"


def test_what_an_import_does_not_know_is_no_difference_but_not_ruled_out():
    four, _, one = imported("benchncnn.txt")
    found = check_fairness([Variant(label="A", run=four), Variant(label="B", run=one)])
    assert found.obstacles == ()
    assert "another machine: no device in the record of A, B" in found.not_excluded
    assert "another model of the same name: no model file in the record of A, B" in found.not_excluded
    assert not any("scenario" in text for text in found.not_excluded)
    (perf_test,) = imported("onnxruntime_perf_test.txt")
    found = check_fairness([Variant(label="A", run=four), Variant(label="B", run=perf_test)])
    assert "several inferences at once: no scenario in the record of B" in found.not_excluded
    assert not any("input data" in text or "warm-up" in text for text in found.stated)
    (phone,) = imported("trtexec.txt")
    assert check_fairness([Variant(label="A", run=four), Variant(label="B", run=phone)]).obstacles == ()
    assert environment_differences(four, phone) == ()


def test_runs_with_different_headlines_are_not_ranked_together():
    (median,) = imported("litert-benchmark.json")
    (engine,) = imported("benchmark_app_report.json")
    engine = replace(engine, job=replace(engine.job, model=median.job.model))
    assert [[run.headline for run in group] for group in comparable_groups([median, engine])] == [
        ["latency"],
        ["latency_engine"],
    ]
    (found,) = recommendations([engine])
    assert found.why[0] == wording("only-run-can-recommended", noun="latency", quantity="(engine's clock) 510 µs")
    assert found.group == "digits_cnn.tflite, single-stream, batch 1, by latency (engine's clock)"


def test_no_table_invents_the_size_of_a_model_whose_file_is_not_known():
    run = imported("benchncnn.txt")[0]
    for table in ("zoo", "long", "watch"):
        text = render_report([run], ".csv", table=table)
        assert wording("file-does-not-model-add") in text
    assert "squeezenet, file not known" in render_report([run], ".md", table="platform")
    page = render_report([run], ".html")
    assert "squeezenet (file not known)" in page and run.job.model.sha256 not in page
    (known,) = imported("coreml_report.json")
    assert "| InventedKeywords | 1.23 |" in render_report([known], ".md", table="long")


def test_python_reads_and_saves(tmp_path):
    files = [FOLDER / "benchncnn.txt", FOLDER / "hyperfine.json"]
    runs = edgewise.import_runs(files, device="pi", settings={"batch": 1}, store=str(tmp_path / "s.db"))
    assert [run.job.target.device for run in runs] == ["pi"] * 5
    assert edgewise.import_runs(files, device="pi", settings={"batch": 1}, store=str(tmp_path / "s.db")) == runs
    with edgewise.open_store(str(tmp_path / "s.db")) as store:
        assert {run.id for run in store.list()} == {run.id for run in runs}
        assert {row.metric for row in store.rows()} == {"latency_mean", "total_time", None}


def test_a_copy_of_a_file_is_the_same_run(tmp_path):
    copy = tmp_path / "app.txt"
    copy.write_bytes((FOLDER / "benchmark_app.txt").read_bytes())
    os.utime(copy, (1e9, 1e9))
    first, second = import_file(FOLDER / "benchmark_app.txt"), import_file(copy)
    assert first[0].id == second[0].id and second[0].created_at == "2001-09-09T01:46:40.000+00:00"
