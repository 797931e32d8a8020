"""ONNX Runtime's ``onnxruntime_perf_test``.

Formats of ONNX Runtime 1.14 to 1.23: ``onnxruntime/test/perftest/performance_runner.{h,cc}`` (text, file of results),
``onnxruntime/core/common/profiler.cc`` (the profile of ``-p``, also that of a session with profiling switched on).
"""

from __future__ import annotations

from statistics import median

from edgewise.importing.extraction import Part, make_layer
from edgewise.importing.spec import NUMBER, Field, Form, Importer
from edgewise.runtime.base import CannotProfile
from edgewise.runtime.onnxruntime_trace import parse_trace

_LOADING = ("model_loading_uri", "model_loading_array", "model_loading_from_saved_proto", "session_initialization")


def _finish_profile(part: Part) -> None:
    """Take times of inferences and of nodes; the first inference is cold and counts apart."""
    runs, loading = list[float](), list[float]()
    for index, event in enumerate(part.json):
        if not isinstance(event, dict):
            raise part.source.error(f"[{index}]", f"expected an event, not {type(event).__name__}")
        if event.get("cat") == "Session" and event.get("name") in ("model_run", *_LOADING):
            times = runs if event["name"] == "model_run" else loading
            times.append(part.number(event.get("dur"), "us", at=f"[{index}].dur", what="dur"))
    if not runs:
        raise part.source.error("the document", f"no event is called model_run; expected {part.form.expects}")
    part.values["latency_first"] = runs[0]
    if sum(loading):
        part.values["load_time"] = sum(loading)
        part.notes["load_time"] = "loading of the model + initialisation of the session"
    if len(runs) == 1:
        return
    part.samples["latency"] = [runs[1:]]
    part.settings["iterations"] = len(runs) - 1
    part.notes["latency"] = "with the profiler on"
    try:
        trace = parse_trace(part.source.text.encode().splitlines(), inferences=len(runs) - 1)
    except (CannotProfile, KeyError, TypeError, ValueError, AttributeError):
        return  # the steps differ between inferences, or lack fields: the latency still holds
    part.layers_method = "ONNX Runtime's profiler: median time of each kernel over the inferences, whole microseconds"
    part.layers = [
        make_layer(step.name, step.op, provider=step.provider, time=median(step.durations) * 1e-6)
        for step in trace.steps
    ]


class PerfTest(Importer):
    """Text, file of results, and profile of ``onnxruntime_perf_test``."""

    title = "onnxruntime_perf_test"
    runtime = "onnxruntime"
    forms = (
        Form(
            title="text", kind="text", mark=r"^Session creation time cost: |^Average inference time cost",
            expects="the line 'Average inference time cost total: 5.02 ms'", one_at_a_time=False,
            method="its own timer around each run, one process", failed=r"^Run failed:",
            errors=(r"^Run failed: ?(.{1,1000})$",),
            each=r"^(?:Setting intra_op_num_threads .*\n(?:(?!Session creation).*\n){0,8})?Session creation time cost",
            fields=(
                Field("threads", r"Setting intra_op_num_threads to (\S+)"),
                Field("load_time", r"Session creation time cost: (\S+) (?P<unit>\S+)"),
                Field("latency_first", r"First inference time cost: (\S+) (?P<unit>\S+)"),
                Field("iterations", r"Total inference requests: (\S+)"),
                Field("latency_mean", r"Average inference time cost(?: total)?: (\S+) (?P<unit>\S+)"),
                Field("throughput", rf"Number of inferences per second: {NUMBER}$", unit="1/s", per_call=True),
                Field("memory_peak", r"Peak working set size: (\S+) (?P<unit>bytes)"),
                *(
                    Field(name, rf"{word} Latency: (\S+) (?P<unit>\S+)")
                    for name, word in (
                        ("latency", "P50"), ("latency_min", "Min"), ("latency_max", "Max"), ("latency_p90", "P90"),
                        ("latency_p95", "P95"), ("latency_p99", "P99"),
                    )
                ),
            ),
        ),
        Form(
            title="file of results", kind="text", mark=r"\A[^,\n]+,[0-9][0-9.e+-]*,\d+,\d+,\d+$",
            expects="lines like 'model,0.00502,30000000,11,0': model, seconds, bytes, % and number of the run",
            one_at_a_time=False, method="its own timer around each run",
            fields=(
                Field("model", r"\A([^,\n]+),"),
                Field("latency", r"^(?=.)(?:[^,\n]*,)?([^,\n]*)", unit="s", samples=True),
                Field("memory_peak", r"^[^,\n]*,[^,\n]*,(\d+),\d+,\d+$", unit="B"),
            ),
            gives=("iterations",),
        ),
        Form(
            title="JSON of -p", kind="json",
            mark=r'"name"\s*:\s*"(?:model_loading_\w+|session_initialization|model_run)"',
            expects="a list of events, one of them called model_run per inference", one_at_a_time=False,
            method="duration of the session's run by the engine's own profiler, with the profiler on",
            finish=_finish_profile, gives=("latency", "latency_first", "load_time", "iterations", "layers"),
        ),
    )  # fmt: skip
