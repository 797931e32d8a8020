"""TensorRT's ``trtexec``.

Formats of TensorRT 8.4 to 10: ``samples/common/sampleReporting.cpp`` of github.com/NVIDIA/TensorRT (summary,
``exportJSONTrace``, ``exportJSONProfile``) and ``samples/common/sampleOptions.cpp`` (options).
"""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.importing.extraction import Part
from edgewise.importing.spec import Field, Form, Rows

_LATENCY = r"(?<!H2D )(?<!D2H )Latency: [^\n]*?\b"
_STATISTICS = (
    ("latency_min", "min"), ("latency_max", "max"), ("latency_mean", "mean"), ("latency", "median"),
    ("latency_p90", r"percentile\(90%\)"), ("latency_p95", r"percentile\(95%\)"), ("latency_p99", r"percentile\(99%\)"),
)  # fmt: skip


def _finish_text(part: Part) -> None:
    settings = part.found.settings
    if settings.get("streams", 1) > 1:
        settings["scenario"] = "offline"
    else:
        settings.pop("streams", None)


def _finish_times(part: Part) -> None:
    part.found.settings["iterations"] = sum(map(len, part.found.samples.get("latency", ())))


def _finish_profile(part: Part) -> None:
    part.found.absent |= dict.fromkeys(("latency", "throughput"), "a file of --exportProfile has times of layers alone")


class Trtexec:
    """Text, ``--exportTimes`` and ``--exportProfile`` of ``trtexec``."""

    title = "trtexec"
    runtime = "tensorrt"
    absent: Mapping[str, str] = {"memory_peak": "trtexec reports no peak of memory"}
    forms = (
        Form(
            title="text",
            kind="text",
            mark=r"&&&& \w+ TensorRT\.trtexec|=== Performance summary ===",
            expects="the line 'Latency: min = …, median = …' below 'Performance summary'",
            method="from the copy of inputs to the device to the copy of outputs back (CUDA events), one process",
            each=r"^&&&& RUNNING TensorRT",
            fields=(
                Field(name="version", at=r"TensorRT version: (\S+)"),
                Field(name="device", at=r"Selected Device: (.+)$"),
                Field(name="model", at=r"\[I\] Model: (\S+)"),
                Field(name="model", at=r"--(?:onnx|loadEngine)=(\S+)"),
                Field(name="precision", at=r"\[I\] Precision: (.+)$"),
                Field(name="streams", at=r"(?:Inference Streams|\[I\] Streams|--infStreams)(?:: |=)(\S+)"),
                Field(name="iterations", at=r"Timing trace has (\S+) queries"),
                Field(name="throughput", at=r"Throughput: (\S+) (?P<unit>qps)", per_call=True),
                Field(name="latency_engine", at=r"GPU Compute Time: min = [^\n]*?median = (\S+) (?P<unit>[a-z]+)"),
                *(Field(name=name, at=rf"{_LATENCY}{word} = (\S+) (?P<unit>[a-z]+)") for name, word in _STATISTICS),
            ),
            finish=_finish_text,
            gives=("scenario",),
        ),
        Form(
            title="JSON of --exportTimes",
            kind="json",
            mark=r'"startComputeMs"\s*:',
            expects="a list of objects with latencyMs and computeMs",
            one_at_a_time=False,
            method="CUDA events: latency with both copies, the engine's clock for the computation alone",
            fields=(
                Field(name="latency", at="[*].latencyMs", unit="ms", samples=True),
                Field(name="latency_engine", at="[*].computeMs", unit="ms", samples=True),
            ),
            finish=_finish_times,
            gives=("iterations",),
        ),
        Form(
            title="JSON of --exportProfile",
            kind="json",
            mark=r'"averageMs"\s*:',
            expects="a list of objects with name and averageMs",
            method="profiler of TensorRT, one process",
            fields=(Field(name="iterations", at="[*].count", once=True),),
            rows=Rows(
                at="[*]",
                columns={"name": "name", "time": "averageMs"},
                unit="ms",
                method="trtexec --exportProfile: mean time of each layer over the inferences",
            ),
            finish=_finish_profile,
        ),
    )
