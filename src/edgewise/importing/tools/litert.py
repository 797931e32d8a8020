"""LiteRT's ``benchmark_model`` and ``litert-benchmark``, and the benchmark of LiteRT-LM.

Formats: for ``benchmark_model`` see `edgewise.runtime.device_tools`, whose parser is used; its CSV is that of
``ProfileSummaryCSVFormatter`` (``tensorflow/lite/profiling/profile_summary_formatter.cc``). The messages of its binary
files: ``benchmark_result.proto`` in ``tensorflow/lite/tools/benchmark/proto`` and ``model_runtime_info.proto`` in
``tensorflow/lite/profiling/proto``, the same in LiteRT. ``litert-benchmark`` is a
script of the package ai-edge-litert 2 (``ai_edge_litert/tools``), run for the golden files. LiteRT-LM, 2026:
``python/litert_lm_cli/commands/benchmark.py`` and ``runtime/engine/io_types.cc`` (``BenchmarkInfo``) of
github.com/google-ai-edge/LiteRT-LM.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from edgewise.importing.extraction import MOST_ROWS, Part, decode_binary, make_layer
from edgewise.importing.protobuf import Layouts, decode_message
from edgewise.importing.reading import read_source, to_word
from edgewise.importing.spec import NUMBER, Field, Form, Importer, LayerRows
from edgewise.runtime.device_tools import BenchmarkModel as BenchmarkModelTool
from edgewise.runtime.device_tools import ToolMode, ToolRequest

_STATISTICS = {
    "mean": "latency_mean", "min": "latency_min", "max": "latency_max", "std": "latency_std", "median": "latency",
    "p95": "latency_p95",
}  # fmt: skip
_OTHERS = ("load_time", "latency_first", "memory_peak", "provider", "threads", "iterations", "layers")
_DELEGATES = {
    "TfLiteXNNPackDelegate": "xnnpack", "TfLiteGpuDelegateV2": "gpu", "LITERT_CL": "gpu", "DispatchDelegate": "npu",
    "TfLiteNnapiDelegate": "nnapi",
}  # fmt: skip
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
    if delegates:
        part.effective["delegates"] = [dict(each) for each in answer.delegates]
    if len(delegates) == 1:
        part.set("provider", delegates.pop(), at=part.where, words=_DELEGATES)
    if answer.profile is not None:
        part.layers_method = answer.profile.method
        part.layers = [
            make_layer(node.name, node.op, provider=node.provider, time=node.times_ns[0] * 1e-9)
            for node in answer.profile.nodes
        ]


_RESULT: Layouts = {
    "BenchmarkResult": {2: "latency:LatencyMetrics", 3: "memory:MemoryMetrics", 4: "misc:MiscMetrics"},
    "LatencyMetrics": {
        1: "avg_ms:float", 2: "min_ms:float", 3: "max_ms:float", 4: "stddev_ms:float", 5: "median_ms:float",
        7: "p95_ms:float", 8: "init_ms:float", 9: "first_inference_ms:float",
    },
    "MemoryMetrics": {2: "overall_footprint_kb:int", 3: "peak_mem_mb:float"},
    "MiscMetrics": {2: "num_runs:int", 3: "num_warmup_runs:int"},
}  # fmt: skip
_RUNTIME_INFO: Layouts = {
    "ModelRuntimeDetails": {1: "model_name:text", 2: "subgraphs:[RuntimeSubgraph]"},
    "RuntimeSubgraph": {3: "nodes:[Node]"},
    "Node": {1: "id:int", 2: "name:text", 8: "delegate:DelegateNodeDetails", 9: "delegated_to:int"},
    "DelegateNodeDetails": {1: "delegate_name:text"},
}


def _decode_runtime_info(content: bytes) -> Any:
    document = decode_message(content, _RUNTIME_INFO, "ModelRuntimeDetails")
    if not 0 < sum(len(graph.get("nodes", ())) for graph in document.get("subgraphs", ())) <= MOST_ROWS:
        raise ValueError(f"it has no operators, or more than {MOST_ROWS}")
    return document


def _describe_delegates(part: Part, document: Any) -> None:
    """Take what runs each operator. A delegate's node replaces operators, which stay and name it."""
    delegates, partitions = list[dict[str, Any]](), 0
    for graph in document["subgraphs"]:
        nodes = graph.get("nodes", ())
        takers = {each.get("id"): each["delegate"].get("delegate_name", "") for each in nodes if "delegate" in each}
        own = [each for each in nodes if "delegate" not in each]
        taken = [each["delegated_to"] for each in own if "delegated_to" in each]
        partitions += len(set(taken))
        counts = Counter(to_word(takers.get(number) or "a delegate without a name") for number in taken)
        delegates += [{"name": name, "nodes": count, "of": len(own)} for name, count in counts.items()]
        for each in own:
            ran = takers.get(each["delegated_to"]) if "delegated_to" in each else "built-in"
            op = each.get("name", "")
            part.layers.append(make_layer(f"{op}:{each.get('id', 0)}", op, provider=ran, time=None))
    part.effective |= {
        "operators": len(part.layers), "operators_delegated": sum(each["nodes"] for each in delegates),
        "delegate_partitions": partitions, "delegates": delegates,
    }  # fmt: skip
    names = {each["name"] for each in delegates}
    if len(names) == 1:
        part.set("provider", names.pop(), at=part.where, words=_DELEGATES)


_RUNTIME_INFO_FORM = Form(
    title="runtime_info.pb", kind="binary", mark=r"\A(?:\n[^\x12]{1,1000})?\x12[\x80-\xff]{0,4}[\0-\x7f]\x08",
    expects="a file of --model_runtime_info_output_file", decode=_decode_runtime_info,
    fields=(Field("model", "model_name"),), finish=lambda part: _describe_delegates(part, part.json),
    gives=("provider", "layers"),
)  # fmt: skip


def _finish_result(part: Part) -> None:
    """Take the delegates from the file of ``--model_runtime_info_output_file`` beside this one, where there is one."""
    beside = part.source.path.with_name(part.source.path.name.replace("results", "runtime_info"))
    if beside != part.source.path and beside.is_file():
        source = read_source(beside)
        _describe_delegates(part, decode_binary(source, _RUNTIME_INFO_FORM))
        part.beside = source.sha256


class BenchmarkModel(Importer):
    """Files of ``benchmark_model``: text with the table of ``--enable_op_profiling``, its CSV, and binary files."""

    title = "benchmark_model"
    runtime = "benchmark_model"
    absent: Mapping[str, str] = {"memory_peak": "benchmark_model reports it with --report_peak_memory_footprint"}
    forms = (
        Form(
            title="text", kind="text",
            mark=r"Inference timings in us: |Min num runs: \[|#threads used for CPU inference: \[|=== BENCHMARK RES",
            expects="the line 'Inference timings in us: Init: …' after 'count=50 first=… avg=…'",
            method="its own timer in whole microseconds, one process", each=r"^(?:INFO: )?STARTING!",
            # The tool goes on after an inference that failed, and prints statistics of all.
            failed=r"Benchmarking failed\.",
            # "Following operations are not supported by GPU delegate": the CPU takes them, which is no failure.
            errors=(r"ERROR: (?!Benchmarking failed|Following operations)(.{1,1000})$",),
            fields=(
                Field("model", r"Graph: \[([^\]\n]{1,1000})\]"),
                Field("model", r"Loaded model (\S+)"),
                Field("warmup", r"Min warmup runs: \[(\S+)\]"),
            ),
            finish=_finish_benchmark_model, gives=(*_STATISTICS.values(), *_OTHERS),
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
        Form(
            title="results.pb", kind="binary", mark=r"\A(?:\n[^\x12]{1,1000})?\x12[\x05-\x7f]\r",
            expects="a file of --result_file_path",
            decode=lambda content: decode_message(content, _RESULT, "BenchmarkResult"),
            method="its own timer in whole microseconds, one process",
            fields=(
                *(
                    Field(name, f"latency.{key}_ms", unit="ms")
                    for name, key in (
                        ("latency", "median"), ("latency_mean", "avg"), ("latency_min", "min"), ("latency_max", "max"),
                        ("latency_std", "stddev"), ("latency_p95", "p95"), ("latency_first", "first_inference"),
                        ("load_time", "init"),
                    )
                ),
                Field("memory_peak", "memory.peak_mem_mb", unit="MiB"),
                Field("memory_delta", "memory.overall_footprint_kb", unit="KiB", note="growth since the tool's start"),
                Field("iterations", "misc.num_runs"),
                Field("warmup", "misc.num_warmup_runs"),
            ),
            finish=_finish_result, gives=("provider", "layers"),
        ),
        _RUNTIME_INFO_FORM,
    )  # fmt: skip


_STATISTICS_OF_LITERT = (
    ("load_time", "init_ms", r"Model initialization"), ("latency_first", "warmup_first_ms", r"Warmup \(first\)"),
    ("latency", "median_ms", r"Inference \(median\)"), ("latency_mean", "avg_ms", r"Inference \(avg\)"),
    ("latency_min", "min_ms", r"Inference \(min\)"), ("latency_max", "max_ms", r"Inference \(max\)"),
    ("latency_std", "std_ms", r"Inference \(std\)"), ("latency_p95", "p95_ms", r"Inference \(p95\)"),
)  # fmt: skip


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
            title="text", kind="text", mark=r"^ BENCHMARK RESULTS$|benchmark_litert_model: ",
            expects="the line 'Inference (median):    0.47 ms' below BENCHMARK RESULTS",
            method="Python's clock around each run, rounded to 0.01 ms, one process",
            each=r"^.{0,60}benchmark_litert_model: Model: ", errors=(r"ERROR benchmark_litert_model: (.{1,1000})$",),
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
    )  # fmt: skip


_PREFILL = "the prompt alone, without the first new token"
_RATES = "mean of the iterations' own values"
_OF_FIRST = "time of the prompt + mean time of a new token, which LiteRT-LM adds up"


def _finish_turns(part: Part) -> None:
    """Take the only turn: later turns have another depth, and their numbers are told apart by their number alone."""
    part.settings["batch"] = 1
    part.settings["depth_tokens"] = 0
    part.basis["ttft_model"] = "derived"
    if part.settings.get("iterations", 1) > 1:
        part.values.pop("ttft_model", None)
        part.reasons["ttft_model"] = "LiteRT-LM gives the mean of the iterations and no median"
    if speculative := re.search(r"Speculative decoding +: (\w{1,20})", part.text):
        part.effective["speculative_decoding"] = speculative[1]
    if max(len(re.findall(rf"{kind} Turn \d+: ", part.text)) for kind in ("Prefill", "Decode")) > 1:
        for metric in ("prefill_rate", "decode_rate"):
            part.values.pop(metric, None)
            part.reasons[metric] = "the file has several turns, each at another depth"
        part.settings.pop("prompt_tokens", None)
        part.settings.pop("new_tokens", None)


class LiteRtLm(Importer):
    """Text of ``litert-lm benchmark`` and of ``litert_lm_main --benchmark``."""

    title = "LiteRT-LM"
    runtime = "litert-lm"
    absent: Mapping[str, str] = {
        "ttft": "LiteRT-LM's time to first token is without tokenising",
        "tpot": "LiteRT-LM prints the rate of new tokens",
    }
    forms = (
        Form(
            title="text of litert-lm benchmark", kind="text",
            mark=r"^Benchmarking model: .{1,1000}$|^----- Results -----$",
            expects="lines like 'Decode speed:         41.25 tokens/s'", method="the engine's own clock",
            each=r"^Benchmarking model: ",
            fields=(
                Field("model", r"Benchmarking model: .{0,500}\(([^()\n]{1,500})\)$"),
                Field("provider", r"Backend {1,40}: (\S+)"),
                Field("prompt_tokens", r"Number of tokens in prefill: (\S+)"),
                Field("new_tokens", r"Number of tokens in decode {0,9}: (\S+)"),
                Field("iterations", r"Running iteration \d{1,9} of (\d{1,9})"),
                Field("prefill_rate", rf"Prefill speed: +{NUMBER} tokens/s", unit="1/s", note=f"{_PREFILL}; {_RATES}"),
                Field("decode_rate", rf"Decode speed: +{NUMBER} tokens/s", unit="1/s", note=_RATES),
                Field("load_time", rf"Init time: +{NUMBER} s$", unit="s"),
                Field("ttft_model", rf"Time to first token: +{NUMBER} s$", unit="s", note=_OF_FIRST),
            ),
            finish=_finish_turns, gives=("batch", "depth_tokens"), scenario="generate",
        ),
        Form(
            title="text of litert_lm_main", kind="text", mark=r"^BenchmarkInfo:$",
            expects="lines like 'Decode Speed: 41.25 tokens/sec.'", method="the engine's own clock",
            each=r"^BenchmarkInfo:$",
            fields=(
                Field("prompt_tokens", r"Prefill Turn 1: Processed (\S+) tokens", once=True),
                Field("new_tokens", r"Decode Turn 1: Processed (\S+) tokens", once=True),
                Field("prefill_rate", rf"Prefill Speed: {NUMBER} tokens/sec", unit="1/s", once=True, note=_PREFILL),
                Field("decode_rate", rf"Decode Speed: {NUMBER} tokens/sec", unit="1/s", once=True),
                Field("load_time", rf"Init Total: {NUMBER} ms$", unit="ms"),
                Field("ttft_model", rf"Time to first token: {NUMBER} s$", unit="s", note=f"{_OF_FIRST}, first turn"),
            ),
            finish=_finish_turns, gives=("batch", "depth_tokens"), scenario="generate",
        ),
    )  # fmt: skip
