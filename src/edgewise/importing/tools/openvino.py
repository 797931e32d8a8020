"""OpenVINO's ``benchmark_app`` and, for language models, ``llm_bench``.

Formats as of OpenVINO 2026: ``openvino/tools/benchmark/main.py`` (text) and ``utils/statistics_report.py`` (statistics
and counters, CSV and JSON) of the Python tool; ``samples/cpp/benchmark_app/main.cpp`` and ``statistics_report.cpp`` of
github.com/openvinotoolkit/openvino for the C++ tool, whose text is the same. llm_bench:
``tools/llm_bench/llm_bench_utils/output_{json,csv}.py`` of github.com/openvinotoolkit/openvino.genai, 2024 to 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from edgewise.importing.extraction import Part
from edgewise.importing.reading import to_word
from edgewise.importing.spec import NUMBER, Field, Form, Importer, LayerRows

_CLOCK = "times of the engine's own clock, one process"
_ERROR = r"^\[ ?ERROR ?\] (.{1,500}(?:\n(?!\[ ?(?:INFO|WARNING|Step)|Traceback|[ \t]{0,9}$).{1,500}){0,3})"
"""What ends a run: OpenVINO's exceptions name a place of its sources first, and the reason in the next lines."""
_COUNTERS = "performance counters of the engine, time of each executed primitive"
_PROVIDERS = {"CPU": "cpu", "GPU": "gpu", "NPU": "npu", "AUTO": "auto"}
_SCENARIOS = {"sync": "single-stream", "async": "offline"}
_PRECISIONS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
_PERCENTILES = {"50": "latency_engine", "90": "latency_p90", "95": "latency_p95", "99": "latency_p99"}

_REPORT: tuple[tuple[str, str, tuple[str, ...], str, Mapping[str, str]], ...] = (
    ("model", "cmd_options", ("-m", "m"), "", {}),
    ("threads", "cmd_options", ("-nthreads", "nthreads"), "", {}),
    ("provider", "configuration_setup", ("target device", "target_device"), "", _PROVIDERS),
    ("scenario", "configuration_setup", ("API", "api"), "", _SCENARIOS),
    ("batch", "configuration_setup", ("batch size", "batch_size"), "", {}),
    ("requests", "configuration_setup", ("number of parallel infer requests", "nireq"), "", {}),
    ("iterations", "execution_results", ("total number of iterations", "iterations_num"), "", {}),
    ("latency_first", "execution_results", ("first inference time (ms)", "first_inference_time"), "ms", {}),
    ("latency_engine", "execution_results", ("latency (ms)", "Median latency (ms)", "latency_median"), "ms", {}),
    ("latency_p90", "execution_results", ("latency (90 percentile) (ms)",), "ms", {}),
    ("latency_p95", "execution_results", ("latency (95 percentile) (ms)",), "ms", {}),
    ("latency_p99", "execution_results", ("latency (99 percentile) (ms)",), "ms", {}),
    ("latency_mean", "execution_results", ("avg latency", "Average latency (ms)", "latency_avg"), "ms", {}),
    ("latency_min", "execution_results", ("min latency", "Min latency (ms)", "latency_min"), "ms", {}),
    ("latency_max", "execution_results", ("max latency", "Max latency (ms)", "latency_max"), "ms", {}),
    ("throughput", "execution_results", ("throughput",), "1/s", {}),
    ("load_time", "execution_results", ("read model time (ms)", "reshape model time (ms)", "compile model time (ms)",
                                        "read_model_time", "reshape_model_time", "load_model_time"), "ms", {}),
)  # fmt: skip
"""Field, section, keys, unit and words of the statistics: a JSON object per section, or lines ``key;value``. The first
key is that of the Python tool; the others are those of the C++ tool's CSV and JSON."""
_LOADING: Mapping[str, Any] = {"unit": "ms", "adds": True, "note": "read + reshape + compile"}


def _field(name: str, at: str, unit: str, words: Mapping[str, str]) -> Field:
    return Field(name, at, **_LOADING) if name == "load_time" else Field(name, at, unit=unit, words=words)


def _finish_statistics(part: Part) -> None:
    """Name the percentile of ``-latency_percentile``, which the C++ tool calls latency_median."""
    if part.form.kind == "json":
        results = part.json.get("execution_results", {})
    else:
        results = dict(re.findall(r"^([^;\n]+);(.*)$", part.text, re.MULTILINE))
    if error := results.get("error"):
        part.fail(str(error))
        return
    percent = str(results.get("percentile_boundary", 50))
    value = part.values.pop("latency_engine", None)
    if value is not None and percent in _PERCENTILES:
        part.values[_PERCENTILES[percent]] = value


def _check_counters(part: Part) -> None:
    """Refuse the JSON of average_counters, into which statistics_report.py writes only the first layer."""
    if part.json.get("report_type") == "average" and len(part.layers) == 1:
        problem = "benchmark_app wrote only the first layer into this file"
        advice = "use detailed_counters, or the CSV without -json_stats"
        raise part.source.error("avg_performance.nodes", problem, advice)


class BenchmarkApp(Importer):
    """Text, statistics (``-report_type``, CSV or JSON) and counters of ``benchmark_app``."""

    title = "benchmark_app"
    runtime = "openvino"
    absent: Mapping[str, str] = {"memory_peak": "benchmark_app reports the memory of compiling and not of inference"}
    forms = (
        Form(
            title="text", kind="text", mark=r"^\[ ?Step \d+/\d+\]|^\[ INFO \] Throughput: ",
            expects="the lines 'Median: 1.23 ms' and 'Throughput: 812.00 FPS'", method=_CLOCK,
            each=r"^\[ ?Step 1/\d+\]", failed=_ERROR, errors=(_ERROR,),
            fields=(
                Field("version", r"Build \.+ (\S+)"),
                Field("provider", r"EXECUTION_DEVICES: \[?'?(\w+)", words=_PROVIDERS),
                Field("threads", r"INFERENCE_NUM_THREADS: (\S+)"),
                Field("streams", r"NUM_STREAMS: (\S+)"),
                Field("precision", r"INFERENCE_PRECISION_HINT: (?:<Type: ')?(\w+)", words=_PRECISIONS),
                Field("batch", r"Model batch size: (\S+)"),
                Field("scenario", r"Start inference (synchronously|asynchronously)",
                    words={"synchronously": "single-stream", "asynchronously": "offline"},
                ),
                Field("requests", r"Start inference asynchronously, (\S+) inference requests"),
                Field("iterations", r"Count: +(\S+) iterations"),
                Field("latency_first", r"First inference took (\S+) (?P<unit>\S+)"),
                Field("latency_engine", r"Median: +(\S+) (?P<unit>\S+)", once=True),
                Field("latency_mean", r"(?:Average|AVG): +(\S+) (?P<unit>\S+)", once=True),
                Field("latency_min", r"(?:Min|MIN): +(\S+) (?P<unit>\S+)", once=True),
                Field("latency_max", r"(?:Max|MAX): +(\S+) (?P<unit>\S+)", once=True),
                *(
                    Field(name, rf"\b{percent} percentile: +(\S+) (?P<unit>\S+)", once=True)
                    for percent, name in _PERCENTILES.items()
                ),
                Field("throughput", rf"Throughput: +{NUMBER} FPS", unit="1/s"),
                Field("load_time", r"(?:Read|Reshape|Compile) model took (\S+) ms", **_LOADING),
            ),
            rows=LayerRows(
                at=r"^(?P<name>\S.{0,400}?) {1,40}(?:Status\.)?(?P<status>[A-Z_]+) {1,40}layerType: (?P<op>\S+) +"
                r"execType: (?P<kernel>\S+) +realTime \(ms\): (?P<time>\S+)",
                until=r"^Total time:",
                unit="ms",
                method=f"{_COUNTERS}, first request; names cut by the tool",
            ),
        ),
        Form(
            title="JSON statistics", kind="json", mark=r'"execution_results"\s*:',
            expects="the object execution_results with 'latency (ms)' and 'throughput'", method=_CLOCK,
            fields=tuple(
                _field(name, f"{section}.{key}", unit, words)
                for name, section, keys, unit, words in _REPORT
                for key in keys
            ),
            finish=_finish_statistics,
        ),
        Form(
            title="CSV statistics",
            kind="text",
            mark=r"^(?:Command line parameters|Configuration setup|Execution results)$",
            expects="the lines 'latency (ms);1.23' and 'throughput;812.00'",
            method=_CLOCK,
            each=r"^Command line parameters$",
            fields=tuple(
                _field(name, rf"^(?:{'|'.join(map(re.escape, keys))});(.+)$", unit, words)
                for name, _, keys, unit, words in _REPORT
            ),
            finish=_finish_statistics,
        ),
        Form(
            title="CSV counters",
            kind="text",
            mark=r"^layerName[;,]execStatus[;,]layerType",
            expects="lines like 'conv1;Status.EXECUTED;Convolution;jit_avx2_f32;0.018;0.018'",
            rows=LayerRows(
                at=r"^(?P<name>[^;,\n]+)[;,](?:Status\.)?(?P<status>[A-Z_]+)[;,](?P<op>[^;,\n]*)[;,](?P<kernel>[^;,\n]*)"
                r"[;,](?P<time>[^;,\n]*)",
                unit="ms",
                averaged=True,
                method=f"{_COUNTERS}, mean over the requests in the file",
            ),
        ),
        *(
            Form(
                title=f"JSON counters ({word})",
                kind="json",
                mark=rf'"report_type"\s*:\s*"(?:{kinds})"',
                expects=f"the list {path}",
                            rows=LayerRows(
                    at=f"{path}[*]",
                    columns={"name": "name", "op": "node_type", "kernel": "exec_type", "time": "real_time",
                             "status": "status"},
                    unit="ms",
                    averaged=True,
                    method=f"{_COUNTERS}, mean over the requests in the file",
                ),
                finish=_check_counters,
            )
            for word, kinds, path in (
                ("detailed", "detailed", "detailed_performance[*].nodes"),
                ("sorted", "average|sorted", "avg_performance.nodes"),
            )
        ),
    )  # fmt: skip


_COLUMNS = {
    "1st_latency(ms)": "first_latency", "2nd_avg_latency(ms)": "second_avg_latency", "pretrain_time(s)": "compile_time",
    "generation_time(s)": "generation_time",
}  # fmt: skip
"""Columns of llm_bench's CSV → keys of its JSON."""
_OF_TEXT = ("tpot", "ttft_model", "prefill_rate", "decode_rate")


def _list_prompts_of_rows(rows: Any) -> list[tuple[str, Any]]:
    """Return the iterations of each prompt of llm_bench's CSV, which ends with statistics and comments."""
    rows = [{_COLUMNS.get(name, name): cell for name, cell in row.items()} for row in rows]
    rows = [row for row in rows if str(row.get("iteration", "")).isascii() and row.get("iteration", "").isdigit()]
    return _group_by_prompt(rows, rows[0] if rows else {})


def _group_by_prompt(rows: Any, common: Mapping[str, Any]) -> list[tuple[str, Any]]:
    prompts: dict[str, list[Any]] = {}
    for row in rows:
        prompts.setdefault(str(row["prompt_idx"]), []).append({**row})
    return [
        (f"prompt {number}", {**common, "results": iterations}) for number, iterations in enumerate(prompts.values(), 1)
    ]


def _finish_llm_bench(part: Part) -> None:
    """Take the iterations behind the warm-up, which is iteration 0."""
    rows, batch = part.json["results"], part.settings.get("batch", 1)
    timed = [row for row in rows if str(row.get("iteration")) != "0"]
    part.settings["warmup"] = len(rows) - len(timed)
    if not timed:
        raise part.source.error(part.where, "it has the warm-up iteration alone; run llm_bench with -n 1 or more")
    for name, key in (("prompt_tokens", "input_size"), ("new_tokens", "output_size")):
        sizes = {_read_value(part, row, key, "1") for row in timed}
        size = next(iter(sizes)) if len(sizes) == 1 else None
        if size and size % batch == 0:
            part.set(name, size / batch, at=f"{part.path}.{key}")
    if not all(_read_value(part, row, "output_size", "1") for row in timed):
        part.reasons |= dict.fromkeys(_OF_TEXT, "the file has no number of new tokens: it is of another task")
        return
    part.settings["depth_tokens"] = 0
    part.effective["num_beams"] = to_word(part.json.get("num_beams", "not told"))
    gaps = [_read_value(part, row, "second_avg_latency", "ms") for row in timed]
    firsts = [_read_value(part, row, "first_latency", "ms") for row in timed]
    if all(gaps):
        part.samples["tpot"] = [[gap for gap in gaps if gap]]
        part.notes["tpot"] = "each is the mean of an iteration"
        part.values["decode_rate"], part.basis["decode_rate"] = len(gaps) / sum(gap for gap in gaps if gap), "derived"
        part.notes["decode_rate"] = "1 / mean time per token"
    if not all(_is_first(part, row, first, gap) for row, first, gap in zip(timed, firsts, gaps, strict=True)):
        why = "it does not add up with the other times: in chat mode llm_bench divides it by the length of the prompt"
        part.reasons |= dict.fromkeys(("ttft_model", "prefill_rate"), why)
    elif all(firsts):
        part.samples["ttft_model"] = [[first for first in firsts if first]]
        part.notes["ttft_model"] = "the prompt is tokenised before; llm_bench of 2024 could tokenise within"
        if batch == 1 and "prompt_tokens" in part.settings:
            tokens = part.settings["prompt_tokens"] * len(firsts)
            part.values["prefill_rate"] = tokens / sum(first for first in firsts if first)
            part.basis["prefill_rate"] = "derived"
            part.notes["prefill_rate"] = "tokens of the prompts / time to first token"
    part.settings["iterations"] = len(timed)


def _is_first(part: Part, row: Mapping[str, Any], first: float | None, gap: float | None) -> bool:
    """Return whether a time to first token is most of what the other tokens leave of the whole time, if it is told."""
    whole, count = _read_value(part, row, "generation_time", "s"), _read_value(part, row, "infer_count", "1")
    return not (whole and count and first and gap) or 2 * first >= whole - gap * (count - 1)


def _read_value(part: Part, row: Mapping[str, Any], key: str, unit: str) -> float | None:
    """Return a number of an iteration; None where llm_bench has none, which it writes as -1, NA or nothing."""
    raw = row.get(key)
    if raw in (None, "", "NA", -1, "-1"):
        return None
    return part.number(raw, unit, at=f"{part.path}.{key}", what=key)


_OF_LLM_BENCH: Mapping[str, Any] = {
    "method": "its own clock around each iteration, one process, the warm-up left out",
    "fields": (
        Field("model", "model"), Field("provider", "device", words=_PROVIDERS), Field("precision", "precision"),
        Field("batch", "batch_size"), Field("load_time", "compile_time", unit="s", note="read + compile"),
        Field("runtime", "framework", words={"ov": "openvino-genai", "pt": "torch"}),
    ),
    "finish": _finish_llm_bench,
    "gives": (*_OF_TEXT, "prompt_tokens", "new_tokens", "depth_tokens", "iterations", "warmup"),
    "scenario": "generate",
}  # fmt: skip


class LlmBench(Importer):
    """JSON and CSV of openvino.genai's ``llm_bench``: one run per prompt."""

    title = "llm_bench"
    runtime = "openvino-genai"
    absent: Mapping[str, str] = {
        "ttft": "llm_bench times the first token from the tokens of the prompt, and tokenising apart",
        "memory_peak": "llm_bench's memory is that of the whole tool",
    }
    forms = (
        Form(
            title="JSON", kind="json", mark=r'"perfdata"\s*:\s*\{\s*"compile_time"\s*:',
            expects="the objects metadata and perfdata with 'results'",
            items=lambda root: _group_by_prompt(root["perfdata"]["results"], {**root["metadata"], **root["perfdata"]}),
             **_OF_LLM_BENCH,
        ),
        Form(
            title="CSV", kind="table", mark=r"^iteration,model,framework,device,pretrain_time\(s\),",
            expects="rows with iteration, prompt_idx and 2nd_avg_latency(ms)", items=_list_prompts_of_rows,
            **_OF_LLM_BENCH,
        ),
    )  # fmt: skip
