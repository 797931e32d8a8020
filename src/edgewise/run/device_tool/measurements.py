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
from edgewise.run.measurements import deployment, throughput
from edgewise.run.rates import distribution
from edgewise.runtime.device_tools import DeviceTool


def tool_measurements_of(
    job: Job,
    tool: DeviceTool,
    sessions: Sequence[SessionResult],
    *,
    variation: Variation | None,
) -> tuple[Measurement, ...]:
    """Every measurement that complete sessions support, latency first.

    Args:
        variation: what runs on this device differ by; it is in every interval of a time or a rate.
    """
    count = f"{len(sessions)} session{'s' if len(sessions) > 1 else ''}"
    untold = f"{tool.name} does not tell it"
    first = [value * 1e-9 for session in sessions for value in session.samples.get("latency_first", ())]
    load = [session.phases["load"] for session in sessions if "load" in session.phases]
    memory = [session.facts["tool"]["memory"] for session in sessions]
    heat = [session.facts["conditions"]["after"]["battery_temperature"] for session in sessions]
    rows = [_latency(tool, sessions, count, variation)]
    rows += [
        replace(row, method="batch / mean latency of all sessions") for row in throughput(job, sessions, variation)
    ]
    for metric, values, method, because in (
        ("latency_first", first, f"{tool.name}'s own timer, first inference after loading", untold),
        ("load_time", load, f"{tool.name}'s own timer, from the model file to a session ready for inference", untold),
        ("memory_peak", [float(each["peak"]) for each in memory if "peak" in each],
         f"highest resident memory of the process, loading included, by {tool.name}", untold),
        ("memory_delta", [float(each["delta"]) for each in memory if "delta" in each],
         f"growth of the process's resident memory from its start to its end, by {tool.name}", untold),
        ("temperature", [each for each in heat if each is not None],
         "battery, by dumpsys battery after each session, in steps of 0.1 K", "the device does not tell it"),
    ):  # fmt: skip
        found = [[value] for value in values]
        rows.append(
            distribution(metric, found, f"{method}, {len(found)} session(s)", variation=variation)
            if found
            else Measurement.absent(metric, because)
        )
    rows += [
        Measurement.absent(metric, untold)
        for metric in ("import_time", "startup_time", "cpu_utilization", "memory_baseline", "memory_load")
    ]
    method = "size of the model's files on disk, weight files included"
    rows.append(Measurement.of("model_size", job.model.size_bytes, method))
    rows += [
        Measurement.absent(metric, "benchmark tools are measured without meters")
        for metric in ("energy", "power", "clock_rate")
    ]
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
    """Return the tool's figures of all inferences; what it does not tell is not a number."""
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
