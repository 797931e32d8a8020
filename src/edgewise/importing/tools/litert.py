"""LiteRT's ``benchmark_model`` and ``litert-benchmark``.

Formats: for ``benchmark_model`` see `edgewise.runtime.device_tools`, whose parser is used; its CSV is that of
``ProfileSummaryCSVFormatter`` (``tensorflow/lite/profiling/profile_summary_formatter.cc``). ``litert-benchmark`` is a
script of the package ai-edge-litert 2 (``ai_edge_litert/tools``), run for the golden files.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.importing.extraction import Part, make_layer
from edgewise.importing.spec import Field, Form, Importer, LayerRows
from edgewise.runtime.device_tools import BenchmarkModel as BenchmarkModelTool
from edgewise.runtime.device_tools import ToolMode, ToolRequest

_STATISTICS = {
    "mean": "latency_mean", "min": "latency_min", "max": "latency_max", "std": "latency_std", "median": "latency",
    "p95": "latency_p95",
}  # fmt: skip
_OTHERS = ("load_time", "latency_first", "memory_peak", "provider", "threads", "iterations", "layers")
_DELEGATES = {"TfLiteXNNPackDelegate": "xnnpack", "TfLiteGpuDelegateV2": "gpu", "TfLiteNnapiDelegate": "nnapi"}
_PROFILE = "Operator-wise Profiling Info for Regular Benchmark Runs:"


def _finish_benchmark_model(part: Part) -> None:
    mode: ToolMode = "layers" if _PROFILE in part.text else "measure"
    request = ToolRequest(program="", model="", results="", provider="builtin", most_seconds=0.0, mode=mode)
    try:
        answer = BenchmarkModelTool().read(part.text, "", request)
    except (ValueError, KeyError, OverflowError) as error:
        problem = f"the results are missing or damaged; expected {part.form.expects}"
        raise part.source.error(part.end, problem) from error
    numbers: dict[str, tuple[float | None, str]] = {
        **{_STATISTICS[name]: (value, "s") for name, value in answer.statistics.items() if name in _STATISTICS},
        "iterations": (answer.statistics["count"], ""),
        "load_time": (answer.load_ns, "ns"),
        "latency_first": (answer.first_ns, "ns"),
        "memory_peak": (answer.memory.get("peak"), "B"),
        "threads": (answer.threads, ""),
    }
    for name, (number, unit) in numbers.items():
        if number is not None:
            part.set(name, number, at=part.where, unit=unit)
    delegates = {str(each["name"]) for each in answer.delegates}
    if len(delegates) == 1:
        part.set("provider", delegates.pop(), at=part.where, words=_DELEGATES)
    if answer.profile is not None:
        part.layers_method = answer.profile.method
        part.layers = [
            make_layer(node.name, node.op, provider=node.provider, time=node.times_ns[0] * 1e-9)
            for node in answer.profile.nodes
        ]


class BenchmarkModel(Importer):
    """Text of ``benchmark_model``, with the table of ``--enable_op_profiling``, and the CSV of that table."""

    title = "benchmark_model"
    runtime = "benchmark_model"
    absent: Mapping[str, str] = {"memory_peak": "benchmark_model reports it with --report_peak_memory_footprint"}
    forms = (
        Form(
            title="text",
            kind="text",
            mark=r"Inference timings in us: |Min num runs: \[|#threads used for CPU inference: \[",
            expects="the line 'Inference timings in us: Init: …' after 'count=50 first=… avg=…'",
            method="its own timer in whole microseconds, one process",
            each=r"^(?:INFO: )?STARTING!",
            # The tool goes on after an inference that failed, and prints statistics of all.
            failed=r"Benchmarking failed\.",
            # "Following operations are not supported by GPU delegate": the CPU takes them, which is no failure.
            errors=(r"ERROR: (?!Benchmarking failed|Following operations)(.{1,1000})$",),
            fields=(
                Field("model", r"Graph: \[([^\]\n]{1,1000})\]"),
                Field("model", r"Loaded model (\S+)"),
                Field("warmup", r"Min warmup runs: \[(\S+)\]"),
            ),
            finish=_finish_benchmark_model,
            gives=(*_STATISTICS.values(), *_OTHERS),
        ),
        Form(
            title="CSV of the operator profile",
            kind="text",
            mark=r"^node type, (?:start, )?first, avg_ms, ",
            expects="lines like 'CONV_2D, 0, 0.11, 0.093, 44.9%, 44.9%, 0, 1, [conv1]:0'",
            rows=LayerRows(
                at=r"^(?P<op>[A-Za-z][^,\n]{0,200}), (?:[^,\n]+, )?[^,\n]+, (?P<time>[^,\n]+), [^,%\n]+%, [^,%\n]+%, "
                r"[^,\n]+, (?P<calls>\d+), (?P<name>.+)$",
                begin=rf"^{_PROFILE}",
                until=r"=+ Top by Computation Time =+",
                unit="ms",
                method="benchmark_model --enable_op_profiling: mean time of each operator over the inferences",
            ),
        ),
    )


_STATISTICS_OF_LITERT = (
    ("load_time", "init_ms", r"Model initialization"),
    ("latency_first", "warmup_first_ms", r"Warmup \(first\)"),
    ("latency", "median_ms", r"Inference \(median\)"),
    ("latency_mean", "avg_ms", r"Inference \(avg\)"),
    ("latency_min", "min_ms", r"Inference \(min\)"),
    ("latency_max", "max_ms", r"Inference \(max\)"),
    ("latency_std", "std_ms", r"Inference \(std\)"),
    ("latency_p95", "p95_ms", r"Inference \(p95\)"),
)


class LiteRtBenchmark(Importer):
    """Text and ``--result_json`` of ``litert-benchmark``."""

    title = "litert-benchmark"
    runtime = "litert"
    absent: Mapping[str, str] = {"throughput": "litert-benchmark reports bytes per second, which is no rate of samples"}
    forms = (
        Form(
            title="JSON of --result_json",
            kind="json",
            mark=r'"accelerators"\s*:[^{]*"latency"\s*:',
            expects="the object latency with 'median_ms' and 'avg_ms'",
            method="Python's clock around each run, rounded to 0.01 ms, one process",
            fields=(
                Field("model", "model"),
                Field("threads", "num_threads"),
                Field("provider", "accelerators[*]", words={"CPU": "cpu", "GPU": "gpu", "NPU": "npu"}),
                Field("iterations", "latency.num_runs"),
                Field("warmup", "latency.num_warmup_runs"),
                *(Field(name, f"latency.{key}", unit="ms") for name, key, _ in _STATISTICS_OF_LITERT),
            ),
        ),
        Form(
            title="text",
            kind="text",
            mark=r"^ BENCHMARK RESULTS$|benchmark_litert_model: ",
            expects="the line 'Inference (median):    0.47 ms' below BENCHMARK RESULTS",
            method="Python's clock around each run, rounded to 0.01 ms, one process",
            each=r"^.{0,60}benchmark_litert_model: Model: ",
            errors=(r"ERROR benchmark_litert_model: (.{1,1000})$",),
            fields=(
                Field("model", r"benchmark_litert_model: Model: +(.+)$"),
                Field("threads", r"benchmark_litert_model: Num threads: +(\S+)"),
                Field(
                    "provider",
                    r"benchmark_litert_model: Accelerators: +(.+)$",
                    words={"CPU": "cpu", "GPU": "gpu", "NPU": "npu"},
                ),
                Field("warmup", r"benchmark_litert_model: Warmup runs: +(\S+)"),
                Field("iterations", r"Inference \(avg\): .{0,100}\((\S+) runs\)"),
                *(Field(name, rf"{words}: +(\S+) (?P<unit>\S+)") for name, _, words in _STATISTICS_OF_LITERT),
            ),
        ),
    )
