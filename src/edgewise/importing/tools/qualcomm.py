"""Qualcomm AI Hub: the profile of a job, and ``perf.yaml`` of its models.

Formats: ``ProfileJob.download_profile`` of the package qai-hub (0.9 to 0.57; times in µs, memory in B), and
``qai_hub_models/models/*/perf.yaml`` of github.com/quic/ai-hub-models since 2025.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgewise.importing.extraction import Part
from edgewise.importing.spec import Field, Form, Rows

_STATISTIC = "AI Hub's estimate from the iterations of the job, a statistic that it does not name"
_NO_TIME = (None, "", "null", "~")
"""Times of jobs that failed; edgewise reads scalars of YAML as text."""


def perf_cells(document: Any) -> Iterator[tuple[str, str, str, str, Mapping[str, Any]]]:
    """Precision, component, device, runtime and results of every job with a time in a ``perf.yaml``.

    A job that is listed for several devices ran on one of them and comes once.

    Raises:
        KeyError, AttributeError, TypeError: the document has another structure.
    """
    jobs = set[str]()
    for precision, found in document["precisions"].items():
        for component, part in found["components"].items():
            for device, runtimes in (part.get("performance_metrics") or {}).items():
                for runtime, cell in runtimes.items():
                    job = f"{cell.get('job_id') or device} {component} {precision} {runtime}"
                    if cell.get("inference_time_milliseconds") not in _NO_TIME and job not in jobs:
                        jobs.add(job)
                        yield precision, component, device, runtime, cell


def _perf_runs(document: Any) -> list[tuple[str, dict[str, Any]]]:
    names = ("precision", "component", "device", "runtime")
    return [(", ".join(cell[:4]), {**dict(zip(names, cell, strict=False)), **cell[4]}) for cell in perf_cells(document)]


def _finish_profile(part: Part) -> None:
    """One compute unit for all layers is the provider; without single times, AI Hub's own estimate counts."""
    found = part.found
    units = {layer.provider for layer in found.layers}
    if len(units) == 1 and (unit := units.pop()):
        found.settings["provider"] = unit.lower()
    estimate = found.values.pop("latency_engine", None)
    if samples := found.samples.get("latency"):
        found.settings["iterations"] = len(samples[0])
    elif estimate is not None:
        found.values["latency_engine"] = estimate
    found.notes |= {"load_time": "first load on the device", "latency_engine": _STATISTIC}


def _finish_perf(part: Part) -> None:
    part.found.notes["latency_engine"] = _STATISTIC


class AiHub:
    """Profile JSON of a job, and ``perf.yaml``: one run per job."""

    title = "Qualcomm AI Hub"
    runtime = "ai-hub"
    absent: Mapping[str, str] = {
        "throughput": "AI Hub reports times alone",
        "latency_first": "AI Hub does not report which inference is the first",
    }
    forms = (
        Form(
            title="profile JSON",
            kind="json",
            mark=r'"execution_summary"\s*:\s*\{',
            expects="the object execution_summary with all_inference_times or estimated_inference_time, in µs",
            method="AI Hub's profiler on the device, one process",
            fields=(
                Field(name="latency", at="execution_summary.all_inference_times", unit="us", samples=True),
                Field(name="latency_engine", at="execution_summary.estimated_inference_time", unit="us"),
                Field(name="load_time", at="execution_summary.first_load_time", unit="us"),
                Field(name="memory_peak", at="execution_summary.estimated_inference_peak_memory", unit="B"),
            ),
            rows=Rows(
                at="execution_detail[*]",
                columns={"name": "name", "op": "type", "provider": "compute_unit", "time": "execution_time"},
                unit="us",
                method="AI Hub's profiler: time of each layer",
            ),
            finish=_finish_profile,
            gives=("provider", "iterations"),
        ),
        Form(
            title="perf.yaml",
            kind="yaml",
            mark=r"^precisions:",
            expects="precisions, components and performance_metrics with inference_time_milliseconds",
            method="AI Hub's profiler on the device, one process",
            items=_perf_runs,
            fields=(
                Field(name="model", at="component"),
                Field(name="device", at="device"),
                Field(name="runtime", at="runtime"),
                Field(name="precision", at="precision"),
                Field(name="provider", at="primary_compute_unit", words={"NPU": "npu", "GPU": "gpu", "CPU": "cpu"}),
                Field(name="latency_engine", at="inference_time_milliseconds", unit="ms"),
            ),
            finish=_finish_perf,
        ),
    )
