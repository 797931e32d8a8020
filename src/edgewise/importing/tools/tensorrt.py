"""TensorRT's ``trtexec``.

Formats of TensorRT 7 to 10: ``samples/common/sampleReporting.cpp`` of github.com/NVIDIA/TensorRT (summary,
``exportJSONTrace``, ``exportJSONProfile``) and ``samples/common/sampleOptions.cpp`` (options).
"""

from __future__ import annotations

from edgewise.importing.spec import Field, Form, Importer, LayerRows

_LATENCY = r"(?<!H2D )(?<!D2H )Latency: [^\n]{0,400}?\b"
_SEVEN = r"\[I\] Host Latency {0,300}\n(?:[^\n]{0,80}\[I\] [a-z]+: [^\n]{0,300}\n){0,5}?[^\n]{0,80}\[I\] "
"""TensorRT 7 has a block of lines; the times in brackets overlap with the next inference."""
_STATISTICS = (
    ("latency_min", "min"), ("latency_max", "max"), ("latency_mean", "mean"), ("latency", "median"),
    ("latency_p90", r"percentile\(90%\)"), ("latency_p95", r"percentile\(95%\)"), ("latency_p99", r"percentile\(99%\)"),
)  # fmt: skip


class Trtexec(Importer):
    """Text, ``--exportTimes`` and ``--exportProfile`` of ``trtexec``."""

    title = "trtexec"
    runtime = "tensorrt"
    forms = (
        Form(
            title="text", kind="text", mark=r"&&&& \w+ TensorRT\.trtexec|=== Performance summary ===",
            expects="the line 'Latency: min = …, median = …' below 'Performance summary'",
            method="from the copy of inputs to the device to the copy of outputs back (CUDA events), one process",
            each=r"^&&&& RUNNING TensorRT", failed=r"^&&&& FAILED TensorRT.{0,200}",
            # The importer of ONNX writes where it is in several lines, and only then what is wrong.
            errors=(r"(Error Code \d+: .{1,1000})$", r"^(\[\d+\] .{1,1000})$", r"\[E\] (.{1,1000})$"),
            fields=(
                Field("version", r"TensorRT version: (\S+)"),
                Field("device", r"Selected Device: (.+)$"),
                Field("model", r"\[I\] Model: (\S+)"),
                Field("model", r"--(?:onnx|loadEngine)=(\S+)"),
                Field("precision", r"\[I\] Precision: (.+)$"),
                Field("streams", r"(?:Inference Streams|\[I\] Streams|--infStreams)(?:: |=)(\S+)"),
                Field("iterations", r"Timing trace has (?!0 )(\S+) queries"),  # 0: TensorRT 7
                Field("throughput", r"[Tt]hroughput: (?!0 )(\S+) (?P<unit>qps)", per_call=True),
                Field("latency_engine", r"GPU Compute Time: min = [^\n]{0,100}?median = (\S+) (?P<unit>[a-z]+)"),
                *(Field(name, rf"{_LATENCY}{word} = (\S+) (?P<unit>[a-z]+)") for name, word in _STATISTICS),
                *(Field(name, rf"{_SEVEN}{word}: (\S+) (?P<unit>[a-z]+)") for name, word in _STATISTICS[:4]),
                Field("latency_p99", rf"{_SEVEN}percentile: (\S+) (?P<unit>[a-z]+) at 99%"),
                Field(
                    "latency_engine", rf"{_SEVEN.replace('Host Latency', 'GPU Compute')}median: (\S+) (?P<unit>[a-z]+)"
                ),
            ),
            gives=("scenario",),
        ),
        Form(
            title="JSON of --exportTimes", kind="json", mark=r'"startComputeMs"\s*:',
            expects="a list of objects with latencyMs and computeMs", one_at_a_time=False,
            method="CUDA events: latency with both copies, the engine's clock for the computation alone",
            fields=(
                Field("latency", "[*].latencyMs", unit="ms", samples=True),
                Field("latency_engine", "[*].computeMs", unit="ms", samples=True),
            ),
            gives=("iterations",),
        ),
        Form(
            title="JSON of --exportProfile", kind="json", mark=r'"averageMs"\s*:',
            expects="a list of objects with name and averageMs", fields=(Field("iterations", "[*].count", once=True),),
            rows=LayerRows(
                at="[*]",
                columns={"name": "name", "time": "averageMs"},
                unit="ms",
                method="trtexec --exportProfile: mean time of each layer over the inferences",
            ),
        ),
    )  # fmt: skip
