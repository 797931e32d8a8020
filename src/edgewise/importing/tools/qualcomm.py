"""Qualcomm AI Hub: the profile of a job, and ``perf.yaml`` of its models.

Formats: ``ProfileJob.download_profile`` of the package qai-hub (0.9 to 0.57; times in µs, memory in B), and
``qai_hub_models/models/*/perf.yaml`` of github.com/quic/ai-hub-models since 2025.
"""

from __future__ import annotations

from typing import Any

from edgewise.importing.extraction import Part
from edgewise.importing.spec import Field, Form, Importer, LayerRows
from edgewise.predicting.tables import has_time, perf_cells

_TIME = "inference_time_milliseconds"
_STATISTIC = "AI Hub's estimate from the iterations of the job, a statistic that it does not name"


def _perf_runs(document: Any) -> list[tuple[str, dict[str, Any]]]:
    names = ("precision", "component", "device", "runtime")
    found = []
    for cell in perf_cells(document):
        results = {key: value for key, value in cell[4].items() if key != _TIME or has_time(cell[4])}
        found.append((", ".join(cell[:4]), {**dict(zip(names, cell, strict=False)), **results}))
    return found


def _finish_perf(part: Part) -> None:
    """Record the failure of a job without a time; some versions write its status beside."""
    if not part.values:
        status = part.json.get("job_status")
        part.fail("the job has no time" + (f", and the status {status}" if status else ""))


def _finish_profile(part: Part) -> None:
    """Take one compute unit of all layers as the provider; without single times, AI Hub's own estimate counts."""
    units = {layer.provider for layer in part.layers}
    if len(units) == 1 and (unit := units.pop()):
        part.settings["provider"] = unit.lower()
    if "latency" in part.samples:
        part.values.pop("latency_engine", None)


class AiHub(Importer):
    """Imports Qualcomm AI Hub's results: the profile JSON of a job and ``perf.yaml``, one run per job."""

    title = "Qualcomm AI Hub"
    runtime = "ai-hub"
    forms = (
        Form(
            title="profile JSON", kind="json", mark=r'"execution_summary"\s*:\s*\{',
            expects="the object execution_summary with all_inference_times or estimated_inference_time, in µs",
            method="AI Hub's profiler on the device, one process",
            fields=(
                Field("latency", "execution_summary.all_inference_times", unit="us", samples=True),
                Field("latency_engine", "execution_summary.estimated_inference_time", unit="us", note=_STATISTIC),
                Field("load_time", "execution_summary.first_load_time", unit="us", note="first load on the device"),
                Field("memory_peak", "execution_summary.estimated_inference_peak_memory", unit="B"),
            ),
            rows=LayerRows(
                at="execution_detail[*]",
                columns={"name": "name", "op": "type", "provider": "compute_unit", "time": "execution_time"},
                unit="us",
                method="AI Hub's profiler: time of each layer",
            ),
            finish=_finish_profile, gives=("provider", "iterations"),
        ),
        Form(
            title="perf.yaml", kind="yaml", mark=r"^precisions:",
            expects="precisions, components and performance_metrics with inference_time_milliseconds",
            method="AI Hub's profiler on the device, one process", items=_perf_runs,
            fields=(
                Field("model", "component"),
                Field("device", "device"),
                Field("runtime", "runtime"),
                Field("precision", "precision"),
                Field("provider", "primary_compute_unit", words={"NPU": "npu", "GPU": "gpu", "CPU": "cpu"}),
                Field("latency_engine", _TIME, unit="ms", note=_STATISTIC),
            ),
            finish=_finish_perf,
        ),
    )  # fmt: skip
