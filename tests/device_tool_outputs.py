"""Output of benchmark tools as they print it, with numbers that the tests know.

Formats: benchmark_model of TensorFlow 2.4 to 2.20 (tensorflow/lite/tools/benchmark/benchmark_model.cc and
benchmark_tflite_model.cc, tensorflow/lite/profiling/profile_summarizer.cc, tsl/util/stats_calculator.cc); that of LiteRT 2
(litert/tools/benchmark_litert_model.h); messages of delegates from tensorflow/lite/core/subgraph.cc; onnxruntime_perf_test of ONNX Runtime 1.14 to 1.23
(onnxruntime/test/perftest/performance_runner.{h,cc}).
"""

from __future__ import annotations

_NOTE = (
    "INFO: Note: as the benchmark tool itself affects memory footprint, the following is only APPROXIMATE to the actual "
    "memory footprint of the model at runtime. Take the information at your discretion."
)


def benchmark_model(
    mean: str = "5000.5", count: int = 200, *, least: int = 4800, most: int = 6000, std: int = 100, init: int = 12345,
    first: int = 9000, delegate: str = "xnnpack", quantiles: str = " p5=4850 median=4990 p95=5200", profile: str = "",
    peak: str = "",
) -> str:  # fmt: skip
    """A run of a recent version: microseconds, MiB called MB. Without quantiles, one of before 2.17."""
    applied = {
        "xnnpack": "INFO: Created TensorFlow Lite XNNPACK delegate for CPU.\n"
        "VERBOSE: Replacing 9 out of 10 node(s) with delegate (TfLiteXNNPackDelegate) node, yielding 1 partitions for "
        "subgraph 0.\nINFO: Explicitly applied XNNPACK delegate, and the model graph will be partially executed by the "
        "delegate w/ 1 delegate kernels.\n",
        "gpu": "INFO: Created TensorFlow Lite delegate for GPU.\n"
        "VERBOSE: Replacing 8 out of 10 node(s) with delegate (TfLiteGpuDelegateV2) node, yielding 2 partitions for "
        "subgraph 0.\nINFO: Explicitly applied GPU delegate, and the model graph will be partially executed by the "
        "delegate w/ 1 delegate kernels.\n",
        "": "",
    }[delegate]
    memory = f"INFO: Overall peak memory footprint (MB) via periodic monitoring: {peak}\n" if peak else ""
    return (
        "INFO: STARTING!\nINFO: Log parameter values verbosely: [0]\nINFO: Min num runs: [1]\n"
        "INFO: Num threads: [1]\nINFO: #threads used for CPU inference: [1]\nINFO: Loaded model model.tflite\n"
        f"INFO: Initialized TensorFlow Lite runtime.\n{applied}"
        "INFO: The input model file size (MB): 0.25\n"
        f"INFO: Initialized session in {init / 1000}ms.\n"
        "INFO: Running benchmark for at least 1 iterations and at least 0.5 seconds but terminate if exceeding 15 seconds.\n"
        f"INFO: count=60 first={first} curr=5100 min=5000 max={first} avg=5211.1 std=500{quantiles}\n\n"
        "INFO: Running benchmark for at least 1 iterations and at least 1 seconds but terminate if exceeding 15 seconds.\n"
        f"INFO: count={count} first=5050 curr=4990 min={least} max={most} avg={mean} std={std}{quantiles}\n\n"
        f"INFO: Inference timings in us: Init: {init}, First inference: {first}, Warmup (avg): 5211.1, "
        f"Inference (avg): {mean}\n{_NOTE}\n"
        "INFO: Memory footprint delta from the start of the tool (MB): init=6.5 overall=8.25\n"
        f"{memory}{profile}"
    )


def litert_benchmark_model(delegate: str = "DispatchDelegate", mean: str = "947.132") -> str:
    """A run of LiteRT 2's tool, whose block of results is rounded to 0.01 ms."""
    at = "INFO: [./litert/tools/benchmark_litert_model.h:73]"
    return (
        "INFO: STARTING!\nINFO: Num threads: [2]\nWARN: Unconsumed cmdline flags: --use_xnnpack=false\n"
        f"VERBOSE: Replacing 2 out of 3 node(s) with delegate ({delegate}) node, yielding 3 partitions for subgraph 0 "
        "(main).\nINFO: Initialized session in 5.757ms.\n"
        "INFO: count=526 first=2125 curr=969 min=910 max=2125 avg=949.861 std=68 p5=915 median=939 p95=990\n\n"
        f"INFO: count=1054 first=1015 curr=942 min=910 max=1102 avg={mean} std=23 p5=915 median=942 p95=991\n\n"
        f"{at} \n========== BENCHMARK RESULTS ==========\n{at} Model initialization: 5.76 ms\n"
        f"{at} Warmup (first):       2.12 ms\n{at} Warmup (avg):         0.95 ms (526 runs)\n"
        f"{at} Inference (avg):      0.95 ms (1054 runs)\n{at} Throughput:           197.97 MB/s\n{at} \nMemory Usage:\n"
        f"{at} Init footprint:       4.50 MB\n{at} Overall footprint:    7.25 MB\n{at} Peak memory:          35.50 MB\n"
    )


def profile_table(rows: list[tuple[str, float, str]], *, start: bool = True) -> str:
    """The operator-wise profile; ``rows`` are type, mean in ms, name. Versions from 2.17 on print no ``[start]``."""
    names = ["[node type]", *(["[start]"] if start else []), "[first]", "[avg ms]", "[%]", "[cdf%]", "[mem KB]"]
    lines = ["\t" + "\t".join(f"{name:>12}" for name in [*names, "[times called]"]) + "\t[Name]"]
    total = sum(each for _, each, _ in rows)
    for kind, mean, name in rows:
        cells = [kind, *(["0.000"] if start else []), f"{mean:.3f}", f"{mean:.3f}", f"{100 * mean / total:.3f}%", "0%"]
        lines.append("\t" + "\t".join(f"{cell:>12}" for cell in [*cells, "0.000", "1"]) + f"\t{name}")
    table = "\n".join(lines)
    line = "=" * 30
    return (
        "INFO: Profiling Info for Benchmark Initialization:\n"
        f"{line} Run Order {line}\n{lines[0]}\n\tAllocateTensors\t0.000\t0.050\t0.050\t100%\t100%\t0.000\t1\tAllocateTensors/0\n\n"
        f"INFO: Operator-wise Profiling Info for Regular Benchmark Runs:\n{line} Run Order {line}\n{table}\n\n"
        f"{line} Top by Computation Time {line}\n{table}\n\nNumber of nodes executed: {len(rows)}\n"
        "Timings (microseconds): count=100 first=5000 curr=5001 min=4000 max=6000 avg=5000 std=10\n"
        "Memory (bytes): count=0\n"
    )


ONNXRUNTIME = """\
Setting intra_op_num_threads to 1
Session creation time cost: 0.0175 s
First inference time cost: 12 ms
Total inference time cost: 0.0251 s
Total inference requests: 5
Average inference time cost total: 5.02 ms
Total inference run time: 0.0252 s
Number of inferences per second: 198.4
Avg CPU usage: 11 %
Peak working set size: 30000000 bytes
"""


def onnxruntime_results(seconds: list[float]) -> str:
    """The file of results: model, seconds, peak of the working set, processor use, number of the run."""
    return "".join(f"model,{value},30000000,11,{index}\n" for index, value in enumerate(seconds))
