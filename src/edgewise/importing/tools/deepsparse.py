"""Neural Magic's ``deepsparse.benchmark``.

Formats of DeepSparse 0.8 to 1.8: ``src/deepsparse/benchmark/benchmark_model.py`` (text, JSON of ``--export_path``) and
``stream_benchmark.py`` (the statistics) of github.com/neuralmagic/deepsparse.
"""

from __future__ import annotations

from edgewise.importing.extraction import Part
from edgewise.importing.spec import Field, Form, Importer

_SCENARIOS = {
    "sync": "single-stream", "singlestream": "single-stream", "async": "offline", "multistream": "offline",
    "elastic": "offline",
}  # fmt: skip
_METHOD = "Python's clock around each call after two seconds of warm-up, one process"
_PERCENTILES = {"90.0%": "latency_p90", "95.0%": "latency_p95", "99.0%": "latency_p99"}
_FIELDS = (
    ("version", "version", r"DeepSparse\b.{0,200} version: (\S+)", ""),
    ("threads", "num_cores", r"num_cores: (\d+)", ""),
    ("model", "orig_model_path", r"Original Model Path: (.+)$", ""),
    ("batch", "batch_size", r"Batch Size: (\S+)", ""),
    ("scenario", "scenario", r"Scenario: (\S+)", ""),
    ("streams", "num_streams", r"num_streams (?:set to|default value chosen of) (\d+)", ""),
    ("throughput", "benchmark_result.items_per_sec", r"Throughput \(items/sec\): (\S+)", "1/s"),
    ("latency_mean", "benchmark_result.mean", r"Latency Mean \(ms/batch\): (\S+)", "ms"),
    ("latency", "benchmark_result.median", r"Latency Median \(ms/batch\): (\S+)", "ms"),
    ("latency_std", "benchmark_result.std", r"Latency Std \(ms/batch\): (\S+)", "ms"),
    ("iterations", "benchmark_result.iterations", r"Iterations: (\S+)", ""),
)
"""Name, path in JSON, pattern in text, unit."""


def _field(name: str, at: str, unit: str) -> Field:
    return Field(name, at, unit=unit, words=_SCENARIOS if name == "scenario" else {})


def _finish_json(part: Part) -> None:
    """Find the engine in the text of a Python object: ``-e onnxruntime`` measures ONNX Runtime."""
    engine = part.settings.pop("runtime", "")
    if "onnxruntime" in engine.lower() or "ORTEngine" in engine:
        part.settings["runtime"] = "onnxruntime"


class DeepSparse(Importer):
    """Text and ``--export_path`` of ``deepsparse.benchmark``."""

    title = "DeepSparse"
    runtime = "deepsparse"
    forms = (
        Form(
            title="JSON of --export_path", kind="json", mark=r'"orig_model_path"\s*:',
            expects="the object benchmark_result with 'median' and 'items_per_sec'", method=_METHOD,
            fields=(
                Field("runtime", "engine"),
                *(_field(name, path, unit) for name, path, _, unit in _FIELDS),
                *(Field(name, f"benchmark_result.'{key}'", unit="ms") for key, name in _PERCENTILES.items()),
            ),
            finish=_finish_json,
        ),
        Form(
            title="text", kind="text", mark=r"^Latency Median \(ms/batch\): ",
            expects="the line 'Latency Median (ms/batch): 15.7850'", method=_METHOD,
            fields=tuple(_field(name, pattern, unit) for name, _, pattern, unit in _FIELDS),
        ),
    )  # fmt: skip
