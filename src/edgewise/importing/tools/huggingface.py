"""Hugging Face's optimum-benchmark.

Format of 0.5 and 0.6: ``benchmark.json`` (``config`` and ``report``) and ``benchmark_report.json`` (the report alone),
written by ``optimum_benchmark/benchmark/{base,report}.py``; units as in ``optimum_benchmark/trackers``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgewise.importing.spec import Field, Form, Importer

_LOADS, _CALLS = ("load", "load_model"), ("forward", "call")


def _list_fields(prefix: str) -> Sequence[Field]:
    """Return the fields of a report: times of loading and of one call of the model."""
    return (
        *(Field("load_time", f"{prefix}{load}.latency.mean", unit="s") for load in _LOADS),
        *(Field("latency", f"{prefix}{call}.latency.values", unit="s", samples=True) for call in _CALLS),
        *(Field("iterations", f"{prefix}{call}.latency.count") for call in _CALLS),
        *(Field("throughput", f"{prefix}{call}.throughput.value", unit="1/s") for call in _CALLS),
        *(Field("memory_peak", f"{prefix}{call}.memory.max_ram", unit="MB") for call in _CALLS),
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
                Field("model", "config.backend.model"),
                Field("runtime", "config.backend.name", words={"pytorch": "torch"}),
                Field("version", "config.backend.version"), Field("provider", "config.backend.device"),
                Field("precision", "config.backend.dtype"), Field("precision", "config.backend.torch_dtype"),
                Field("threads", "config.backend.intra_op_num_threads"),
                Field("batch", "config.scenario.input_shapes.batch_size"),
                Field("warmup", "config.scenario.warmup_runs"), Field("device", "config.environment.cpu"),
                *_list_fields("report."),
            ),
        ),
        Form(
            title="benchmark_report.json", kind="json", mark=r'\A\s*\{\s*"(?:load|load_model)"\s*:[\s\S]*"stdev_"\s*:',
            expects="the object forward.latency with 'values'", method="Python's clock around each call, one process",
            fields=_list_fields(""),
        ),
    )  # fmt: skip
