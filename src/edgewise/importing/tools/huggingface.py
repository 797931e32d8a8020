"""Hugging Face's optimum-benchmark.

Format of 0.5 and 0.6: ``benchmark.json`` (``config`` and ``report``) and ``benchmark_report.json`` (the report alone),
written by ``optimum_benchmark/benchmark/{base,report}.py``; units as in ``optimum_benchmark/trackers``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgewise.importing.spec import Field, Form, Importer

_LOADS, _CALLS = ("load", "load_model"), ("forward", "call")


def _report(prefix: str) -> Sequence[Field]:
    """Fields of a report: what loading and one call of the model took."""
    return (
        *(Field(name="load_time", at=f"{prefix}{load}.latency.mean", unit="s") for load in _LOADS),
        *(Field(name="latency", at=f"{prefix}{call}.latency.values", unit="s", samples=True) for call in _CALLS),
        *(Field(name="iterations", at=f"{prefix}{call}.latency.count") for call in _CALLS),
        *(Field(name="throughput", at=f"{prefix}{call}.throughput.value", unit="1/s") for call in _CALLS),
        *(Field(name="memory_peak", at=f"{prefix}{call}.memory.max_ram", unit="MB") for call in _CALLS),
    )


class OptimumBenchmark(Importer):
    """``benchmark.json`` and ``benchmark_report.json`` of optimum-benchmark."""

    title = "optimum-benchmark"
    runtime = "optimum-benchmark"
    absent: Mapping[str, str] = {
        "memory_peak": "the benchmark ran without memory: true",
        **dict.fromkeys(
            ("latency", "throughput"),
            "a benchmark of text generation times its stages, prefill and decode, and no single inference",
        ),
    }
    forms = (
        Form(
            title="benchmark.json",
            kind="json",
            mark=r'"config"\s*:[\s\S]*"optimum_benchmark_version"\s*:',
            expects="the objects config and report.forward.latency with 'values'",
            method="Python's clock around each call, one process",
            fields=(
                Field(name="model", at="config.backend.model"),
                Field(name="runtime", at="config.backend.name", words={"pytorch": "torch"}),
                Field(name="version", at="config.backend.version"),
                Field(name="provider", at="config.backend.device"),
                Field(name="precision", at="config.backend.dtype"),
                Field(name="precision", at="config.backend.torch_dtype"),
                Field(name="threads", at="config.backend.intra_op_num_threads"),
                Field(name="batch", at="config.scenario.input_shapes.batch_size"),
                Field(name="warmup", at="config.scenario.warmup_runs"),
                Field(name="device", at="config.environment.cpu"),
                *_report("report."),
            ),
        ),
        Form(
            title="benchmark_report.json",
            kind="json",
            mark=r'\A\s*\{\s*"(?:load|load_model)"\s*:[\s\S]*"stdev_"\s*:',
            expects="the object forward.latency with 'values'",
            method="Python's clock around each call, one process",
            fields=_report(""),
        ),
    )
