"""Neural Magic's ``deepsparse.benchmark``.

Formats of DeepSparse 0.8 to 1.8: ``src/deepsparse/benchmark/benchmark_model.py`` (text, JSON of ``--export_path``) and
``stream_benchmark.py`` (the statistics) of github.com/neuralmagic/deepsparse.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.importing.extraction import Part
from edgewise.importing.spec import Field, Form

_SCENARIOS = {
    "sync": "single-stream", "singlestream": "single-stream", "async": "offline", "multistream": "offline",
    "elastic": "offline",
}  # fmt: skip
_METHOD = "Python's clock around each call after two seconds of warm-up, one process"
_PERCENTILES = {"90.0%": "latency_p90", "95.0%": "latency_p95", "99.0%": "latency_p99"}


def _finish(part: Part) -> None:
    """Percentiles have a dot in their names; ``-e onnxruntime`` measures ONNX Runtime; one stream is none."""
    settings = part.found.settings
    if part.form.kind == "json":
        result = part.value.get("benchmark_result") or {}
        for key, metric in _PERCENTILES.items():
            if result.get(key) is not None:
                part.set(metric, result[key], at=f"benchmark_result.{key}", unit="ms")
    if "onnxruntime" in settings.get("runtime", "").lower() or "ORTEngine" in settings.get("runtime", ""):
        settings["runtime"] = "onnxruntime"
    else:
        settings.pop("runtime", None)
    if settings.get("scenario") == "single-stream":
        settings.pop("streams", None)


class DeepSparse:
    """Text and ``--export_path`` of ``deepsparse.benchmark``."""

    title = "DeepSparse"
    runtime = "deepsparse"
    absent: Mapping[str, str] = {
        "load_time": "deepsparse.benchmark does not time the compilation",
        "latency_first": "deepsparse.benchmark leaves out its warm-up",
        "memory_peak": "deepsparse.benchmark does not measure memory",
    }
    forms = (
        Form(
            title="JSON of --export_path",
            kind="json",
            mark=r'"orig_model_path"\s*:',
            expects="the object benchmark_result with 'median' and 'items_per_sec'",
            method=_METHOD,
            fields=(
                Field(name="model", at="orig_model_path"),
                Field(name="runtime", at="engine"),
                Field(name="version", at="version"),
                Field(name="batch", at="batch_size"),
                Field(name="threads", at="num_cores"),
                Field(name="scenario", at="scenario", words=_SCENARIOS),
                Field(name="streams", at="num_streams"),
                Field(name="iterations", at="benchmark_result.iterations"),
                Field(name="throughput", at="benchmark_result.items_per_sec", unit="1/s"),
                Field(name="latency", at="benchmark_result.median", unit="ms"),
                Field(name="latency_mean", at="benchmark_result.mean", unit="ms"),
                Field(name="latency_std", at="benchmark_result.std", unit="ms"),
            ),
            finish=_finish,
            gives=tuple(_PERCENTILES.values()),
        ),
        Form(
            title="text",
            kind="text",
            mark=r"^Latency Median \(ms/batch\): ",
            expects="the line 'Latency Median (ms/batch): 15.7850'",
            method=_METHOD,
            fields=(
                Field(name="version", at=r"DeepSparse\b.* version: (\S+)"),
                Field(name="threads", at=r"num_cores: (\d+)"),
                Field(name="model", at=r"Original Model Path: (.+)$"),
                Field(name="batch", at=r"Batch Size: (\S+)"),
                Field(name="scenario", at=r"Scenario: (\S+)", words=_SCENARIOS),
                Field(name="streams", at=r"num_streams (?:set to|default value chosen of) (\d+)"),
                Field(name="throughput", at=r"Throughput \(items/sec\): (\S+)", unit="1/s"),
                Field(name="latency_mean", at=r"Latency Mean \(ms/batch\): (\S+)", unit="ms"),
                Field(name="latency", at=r"Latency Median \(ms/batch\): (\S+)", unit="ms"),
                Field(name="latency_std", at=r"Latency Std \(ms/batch\): (\S+)", unit="ms"),
                Field(name="iterations", at=r"Iterations: (\S+)"),
            ),
            finish=_finish,
        ),
    )
