"""Command lines of benchmark tools, and what their recorded output means."""

from __future__ import annotations

import math

import pytest

from device_tool_outputs import (
    ONNXRUNTIME,
    benchmark_model,
    litert_benchmark_model,
    onnxruntime_results,
    profile_table,
)
from edgewise.runtime.base import UnsupportedModel
from edgewise.runtime.device_tools import BenchmarkModel, DeviceTool, OrtPerfTest, ToolRequest
from messages import says

TOOL, ORT = BenchmarkModel(), OrtPerfTest()


def request(**fields):
    given = {"program": "/t/tool", "model": "/t/m", "results": "/t/r.csv", "provider": "xnnpack", "most_seconds": 15.0}
    return ToolRequest(**{**given, **fields})


def test_both_tools_satisfy_the_protocol_and_are_not_available_here():
    assert isinstance(TOOL, DeviceTool) and isinstance(ORT, DeviceTool)
    assert not TOOL.availability() and "adb" in ORT.availability().install_hint
    with pytest.raises(UnsupportedModel):
        TOOL.import_engine()


def test_the_command_line_of_each_provider():
    assert TOOL.command(request(threads=4, runs=50, seconds=1.5)) == [
        "/t/tool", "--graph=/t/m", "--use_xnnpack=true", "--num_threads=4", "--num_runs=50", "--min_secs=1.5",
        "--max_secs=15", "--xnnpack_force_fp16=false",
    ]  # fmt: skip
    gpu = TOOL.command(request(provider="gpu", precision="f16", mode="layers"))
    assert {
        "--use_xnnpack=false",
        "--use_gpu=true",
        "--gpu_precision_loss_allowed=true",
        "--allow_fp16=true",
        "--enable_op_profiling=true",
    } <= set(gpu)
    nnapi = TOOL.command(request(provider="nnapi", mode="memory"))
    assert {"--use_nnapi=true", "--nnapi_allow_fp16=false", "--report_peak_memory_footprint=true"} <= set(nnapi)
    npu = TOOL.command(request(provider="npu"))
    assert {"--use_npu=true", "--dispatch_library_path=/t", "--compiler_plugin_library_path=/t"} <= set(npu)


def test_shapes_are_given_only_where_one_differs():
    same = {"a": ((1, 3), (1, 3)), "b": ((1,), (1,))}
    assert not [word for word in TOOL.command(request(inputs=same)) if "input_layer" in word]
    words = TOOL.command(request(inputs={**same, "b": ((None,), (5,))}))
    assert words[-2:] == ["--input_layer=a,b", "--input_layer_shape=1,3:5"]


def test_onnxruntime_sets_open_dimensions_by_name():
    words = ORT.command(request(provider="cpu", runs=10, warmup=3, inputs={"x": (("n", 3, None), (2, 3, 1))}))
    assert words == [
        "/t/tool",
        "-I",
        "-e",
        "cpu",
        "-m",
        "times",
        "-r",
        "13",
        "-x",
        "0",
        "-f",
        "n:2",
        "/t/m",
        "/t/r.csv",
    ]
    assert ORT.command(request(provider="cpu", seconds=1.2, runs=20))[4:8] == ["-m", "duration", "-t", "2"]
    for own, shape in (((None, 3), (2, 3)), ((1, 3), (1, 4)), (None, (2,))):
        with pytest.raises(UnsupportedModel, match=says("onnxruntime-perf-test-can-set")):
            ORT.command(request(provider="cpu", inputs={"x": (own, shape)}))


def test_the_statistics_of_the_timed_inferences():
    answer = TOOL.read(benchmark_model("63743.2", 1000, least=49088, most=686105, std=60716), "", request())
    assert answer.latency_ns == (63_743_200,) and answer.load_ns == 12_345_000 and answer.first_ns == 9_000_000
    assert answer.statistics == pytest.approx({
        "count": 1000, "mean": 63743.2e-6, "min": 49088e-6, "max": 686105e-6, "std": 60716e-6, "p5": 4850e-6,
        "median": 4990e-6, "p95": 5200e-6,
    })  # fmt: skip
    assert answer.memory == {"load": 6.5 * 2**20, "delta": 8.25 * 2**20} and answer.threads == 1 and answer.applied


def test_what_litert_2_prints():
    answer = TOOL.read(litert_benchmark_model(), "", request(provider="npu"))
    assert (answer.latency_ns, answer.load_ns, answer.first_ns) == ((947_132,), 5_760_000, 2_120_000)
    assert answer.statistics == pytest.approx({
        "count": 1054, "mean": 947.132e-6, "min": 910e-6, "max": 1102e-6, "std": 23e-6, "p5": 915e-6,
        "median": 942e-6, "p95": 991e-6,
    })  # fmt: skip
    assert answer.memory == {"load": 4.5 * 2**20, "delta": 7.25 * 2**20, "peak": 35.5 * 2**20} and answer.threads == 2
    assert answer.delegates == ({"name": "DispatchDelegate", "nodes": 2, "of": 3, "partitions": 3},)
    assert answer.ignored == ""
    for flag, told in (("--xnnpack_force_fp16=true", "--xnnpack_force_fp16=true"), ("--xnnpack_force_fp16=false", "")):
        text = litert_benchmark_model().replace("--use_xnnpack=false", f"--use_xnnpack=true {flag}")
        assert TOOL.read(text, "", request(provider="npu")).ignored == told


@pytest.mark.parametrize(
    ("delegate", "provider"), [("DispatchDelegate", "npu"), ("LITERT_CL", "gpu"), ("TfLiteXNNPackDelegate", "xnnpack")]
)
def test_litert_2_that_ran_on_something_else_did_not_apply_the_provider(delegate, provider):
    for asked in ("npu", "gpu", "xnnpack", "nnapi", "builtin"):
        answer = TOOL.read(litert_benchmark_model(delegate), "", request(provider=asked))
        assert answer.applied == (asked == provider)


def test_versions_without_quantiles_prefixes_and_with_older_words():
    text = benchmark_model("1.23457e+06", quantiles="", delegate="").replace("INFO: ", "")
    text = text.replace("Memory footprint delta from the start of the tool", "Peak memory footprint")
    text += "VERBOSE: Replacing 29 node(s) with delegate (TfLiteXNNPackDelegate) node, yielding 4 partitions.\n"
    answer = TOOL.read(text, "", request())
    assert answer.latency_ns == (1_234_570_000,) and "median" not in answer.statistics
    assert answer.memory["delta"] == 8.25 * 2**20
    assert answer.delegates == ({"name": "TfLiteXNNPackDelegate", "nodes": 29, "of": None, "partitions": 4},)


def test_inferences_that_all_took_the_same_time():
    text = benchmark_model("120").replace(
        "count=200 first=5050 curr=4990 min=4800 max=6000 avg=120 std=100 p5=4850 median=4990 p95=5200",
        "count=50 curr=120(all same)",
    )
    same = {"count": 50, "mean": 120e-6, "min": 120e-6, "max": 120e-6, "std": 0.0}
    assert TOOL.read(text, "", request()).statistics == pytest.approx(same)
    text = text.replace("(all same)", "(all same) p5=120 median=120 p95=120")
    quantiles = {"p5": 120e-6, "median": 120e-6, "p95": 120e-6}
    assert TOOL.read(text, "", request()).statistics == pytest.approx(same | quantiles)
    assert (
        TOOL.read(text.replace("count=50 curr=120(all same)", "count=1 curr=120"), "", request()).statistics["std"]
        == 0.0
    )


@pytest.mark.parametrize("delegate", ["", "xnnpack"])
def test_a_provider_counts_as_applied_only_if_the_tool_says_so(delegate):
    text = benchmark_model(delegate=delegate)
    assert TOOL.read(text, "", request()).applied == bool(delegate)
    assert not TOOL.read(text, "", request(provider="gpu")).applied
    assert TOOL.read(text, "", request(provider="builtin")).applied == (not delegate)
    # A delegate that took its operators and failed then leaves them to the processor.
    text = f"{benchmark_model(delegate='gpu')}ERROR: Failed to apply GPU delegate.\n"
    assert not TOOL.read(text, "", request(provider="gpu")).applied


def test_layers_come_from_the_table_of_the_timed_inferences():
    rows = [("QUANTIZE", 0.25, "[a, b]:0"), ("TfLiteGpuDelegateV2", 4.0, "[c]:7"), ("SOFTMAX/x", 0.5, "[d]:3")]
    for start in (True, False):
        profile = TOOL.read(
            benchmark_model(profile=profile_table(rows, start=start)), "", request(mode="layers")
        ).profile
        assert [(node.op, node.times_ns, node.provider) for node in profile.nodes] == [
            ("QUANTIZE", (250_000.0,), "built-in"), ("TfLiteGpuDelegateV2", (4_000_000.0,), "TfLiteGpuDelegateV2"),
            ("SOFTMAX", (500_000.0,), "built-in"),
        ]  # fmt: skip
        assert profile.nodes[0].originals == ("a", "b") and profile.nodes[1].outputs == ("c",)
        assert profile.inference_ns == (5_000_500,) and profile.inferences == 200
    assert TOOL.read(benchmark_model(), "", request(mode="layers")).profile is None


def test_steps_of_xnnpack_replace_the_operator_that_contains_them():
    rows = [
        ("TfLiteXNNPackDelegate", 3.0, "[z]:9"),
        ("DelegateOpInvoke", 2.0, "Delegate/Convolution (NHWC, F32) GEMM:0"),
    ]
    (node,) = TOOL.read(benchmark_model(profile=profile_table(rows)), "", request(mode="layers")).profile.nodes
    assert (node.op, node.kinds, node.dtype) == ("Convolution (NHWC, F32) GEMM", ("convolution",), "float32")


def test_onnxruntime_gives_every_time_but_the_warm_up():
    results = onnxruntime_results([0.9, 0.8, 0.005, 0.0051])
    answer = ORT.read(ONNXRUNTIME, results, request(provider="cpu", warmup=2))
    assert answer.latency_ns == (5_000_000, 5_100_000) and not answer.statistics
    assert (answer.load_ns, answer.first_ns, answer.memory) == (17_500_000, 12_000_000, {"peak": 30_000_000})
    assert ORT.read("", results, request(provider="cpu")).load_ns is None


@pytest.mark.parametrize("output", ["", "count=5 curr=1", "INFO: count=0\nInference timings in us: Init: 1"])
def test_output_without_the_results_is_an_error(output):
    with pytest.raises(ValueError, match=says("printed-no-inference-timings")):
        TOOL.read(output, "", request())
    for results in ("", "model,x", "model,-1,0,0,0\n", f"model,{math.inf},1,1,0\n"):
        with pytest.raises((ValueError, OverflowError)):
            ORT.read(ONNXRUNTIME, results, request(provider="cpu"))
