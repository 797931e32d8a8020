"""The measurements of a run whose sessions were executions of a benchmark tool on a device.

A tool that tells every time is measured like any engine. One that tells only statistics has one value per session, the
mean: the interval then comes from the differences between sessions, and there are no percentiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgewise.record import Job, Measurement, Variation
from edgewise.record.run import Summary
from edgewise.run.host_protocol import SessionResult
from edgewise.run.measurements import deployment, distribution
from edgewise.runtime.device_tools import DeviceTool


def tool_measurements_of(
    job: Job,
    tool: DeviceTool,
    sessions: Sequence[SessionResult],
    *,
    meter_absences: Mapping[str, str],
    variation: Variation | None,
) -> tuple[Measurement, ...]:
    """Every measurement that complete sessions support, latency first.

    Args:
        meter_absences: metric → why no sensor tells it here.
        variation: what runs on this device differ by; it is in every interval of a time or a rate.
    """
    count = f"{len(sessions)} session{'s' if len(sessions) > 1 else ''}"
    latency = _latency(tool, sessions, count, variation)
    rows = [latency, _throughput(job, sessions, latency)]
    for metric, values, method in (
        (
            "latency_first",
            [[value * 1e-9 for value in session.samples.get("latency_first", ())] for session in sessions],
            f"{tool.name}'s own timer, first inference after loading, {count}",
        ),
        (
            "load_time",
            [[session.phases[name] for name in ("load",) if name in session.phases] for session in sessions],
            f"{tool.name}'s own timer, from the model file to a session ready for inference, {count}",
        ),
    ):
        known = [each for each in values if each]
        rows.append(
            distribution(metric, known, method, variation=variation)
            if known
            else Measurement.absent(metric, f"{tool.name} does not tell it")
        )
    rows += _memory(tool, sessions)
    unknown = f"{tool.name} does not tell it"
    rows += [
        Measurement.absent(name, unknown)
        for name in ("import_time", "startup_time", "cpu_utilization", "memory_baseline", "memory_load")
    ]
    method = "size of the model's files on disk, weight files included"
    rows.append(Measurement.of("model_size", job.model.size_bytes, method))
    rows += [
        Measurement.absent(name, meter_absences.get(name, f"no meter for {name} works through adb"))
        for name in ("energy", "power", "clock_rate")
    ]
    rows.append(_temperature(sessions))
    return (*rows, *deployment(sessions))


def _latency(
    tool: DeviceTool, sessions: Sequence[SessionResult], count: str, variation: Variation | None
) -> Measurement:
    per_session = [[value * 1e-9 for value in session.samples["latency"]] for session in sessions]
    statistics = [session.facts["tool"]["statistics"] for session in sessions]
    if not all(statistics):
        method = f"{tool.clock}, back to back, random inputs, {count}"
        return distribution("latency", per_session, method, variation=variation)
    inferences = sum(int(each["count"]) for each in statistics)
    method = (
        f"{tool.clock}: {inferences} inferences on random inputs in {count}; the value is the median of the means. "
        "The tool gives no single times, so there are no percentiles"
    )
    row = distribution("latency", per_session, method, variation=variation)
    return replace(row, summary=_pooled(row, statistics))


def _pooled(row: Measurement, statistics: Sequence[Mapping[str, float]]) -> Summary | None:
    """The tool's figures of all inferences; what it does not tell is not a number."""
    if row.summary is None:
        return None
    count = sum(each["count"] for each in statistics)
    mean = sum(each["count"] * each["mean"] for each in statistics) / count
    squares = sum(each["count"] * (each["std"] ** 2 + (each["mean"] - mean) ** 2) for each in statistics)
    return replace(
        row.summary,
        n=int(count),
        mean=mean,
        std=math.sqrt(squares / count),
        min=min(each["min"] for each in statistics),
        max=max(each["max"] for each in statistics),
        median=math.nan,
        mad=math.nan,
        percentiles={},
        outliers=0,
        autocorrelation=None,
    )


def _throughput(job: Job, sessions: Sequence[SessionResult], latency: Measurement) -> Measurement:
    """Samples per second, from the mean time of an inference; the interval is that of the latency."""
    batch, summary = job.workload.batch, latency.summary
    if summary is None or not summary.mean:
        return Measurement.absent("throughput", "the latency is unknown")
    value = batch / summary.mean
    ends = {
        new: None if not (end := getattr(latency, old)) else extreme(value, batch / end)
        for new, old, extreme in (
            ("low", "high", min), ("high", "low", max), ("within_low", "within_high", min),
            ("within_high", "within_low", max),
        )
    }  # fmt: skip
    method = f"batch / mean latency: {batch} / {summary.mean:.6g} s, {len(sessions)} session(s)"
    return Measurement.of("throughput", value, method, basis="derived", **ends)


def _memory(tool: DeviceTool, sessions: Sequence[SessionResult]) -> list[Measurement]:
    rows = []
    for metric, name, method in (
        ("memory_peak", "peak", "highest resident memory of the tool's process, loading included"),
        ("memory_delta", "delta", "growth of the tool's resident memory from its start to its end"),
    ):
        values = [[float(told[name])] for each in sessions if name in (told := each.facts["tool"]["memory"])]
        rows.append(
            distribution(metric, values, f"{method}, by {tool.name}")
            if values
            else Measurement.absent(metric, f"{tool.name} does not tell it")
        )
    return rows


def _temperature(sessions: Sequence[SessionResult]) -> Measurement:
    found = [each.facts["conditions"]["after"]["battery_temperature"] for each in sessions]
    known = [[value] for value in found if value is not None]
    if not known:
        return Measurement.absent("temperature", "the device does not tell the temperature of its battery")
    return distribution("temperature", known, "battery, by dumpsys battery after each session, in steps of 0.1 K")
