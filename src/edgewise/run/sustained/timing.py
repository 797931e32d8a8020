"""The worker's side of a sustained measurement: inferences for minutes or hours, kept as statistics of short time bins.

Memory does not grow with the time: a bin is sent to the host as soon as it is complete, with every k-th of its times.
What was sent remains where the worker or the host is interrupted. Standard library and numpy only, as everything that
is sent to a device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgewise.run.counters import read_counters
from edgewise.run.metering import OF_ENERGY, MeterThread, mean_watts
from edgewise.run.meters.base import COVERAGES, Meter
from edgewise.run.timing import Clock, Recorder, Reporter, Steady, block_size

WINDOW_S = 60.0
"""What is called the first and the last minute."""
BINS_PER_WINDOW = 20
"""Enough medians for an interval that respects their correlation."""
MOST_BINS = 7200
"""Of one measurement: longer ones than 6 h have longer bins and windows."""
LEAST_PER_BIN = 5
P99_FROM = 1000
"""Inferences of a bin from which its 99th percentile is given: 10 / (1 − 0.99), as for runs."""
MOST_SAMPLES = 50_000
"""Times that are kept beside the bins."""
METERS_EVERY_S = 0.25
"""Often enough for every counter and integral, rarely enough to leave the latencies alone."""
COUNTED = ("busy_share_of_others", "steal_share", "involuntary_per_s")
"""Counters that tell a disturbance from a slower processor; each bin also has ``throttled_share``."""


def window_of(duration_s: float) -> float:
    """Length of the first and the last window: a minute; a quarter of short measurements, 1/360 of very long ones."""
    return max(min(WINDOW_S, duration_s / 4), duration_s * BINS_PER_WINDOW / MOST_BINS)


def measure_sustained(
    recorder: Recorder,
    *,
    scenario: Mapping[str, Any],
    clock: Clock,
    reporter: Reporter,
    meters: Sequence[Meter],
    tell: Callable[..., None],
) -> Steady:
    """Run inferences for ``scenario["sustained_s"]`` and send a ``bin`` message for every bin. No warm-up is left out.

    Meters are sampled in threads of their own. Of a remainder of less than half a bin the last bin becomes longer.
    """
    duration_ns = round(scenario["sustained_s"] * 1e9)
    bin_ns = round(window_of(scenario["sustained_s"]) / BINS_PER_WINDOW * 1e9)
    threads = [MeterThread(meter, every_s=METERS_EVERY_S) for meter in meters]
    begin = clock.now()
    done = stride = 0
    while (opened := clock.now()) - begin < duration_ns:
        close_at = opened + bin_ns
        if begin + duration_ns - close_at < bin_ns / 2:
            close_at = begin + duration_ns
        before = read_counters()
        for thread in threads:
            thread.begin()
        recorder.clear()
        while clock.now() < close_at or len(recorder.wall) < LEAST_PER_BIN:
            recorder.take(1 if scenario["fps"] else block_size(recorder))
            reporter.beat()
        closed = clock.now()
        counts = read_counters().delta(before)
        readings, problems = end_windows(threads)
        # The first bin decides which of the times are kept in all of them.
        stride = stride or max(1, math.ceil(len(recorder.wall) / (closed - opened) * duration_ns / MOST_SAMPLES))
        tell(
            "bin",
            begin_s=(opened - begin) / 1e9,
            end_s=(closed - begin) / 1e9,
            **_statistics(recorder),
            counters={name: counts[name] for name in COUNTED} | {"throttled_share": _throttled_share(counts)},
            readings=values_of(readings, (closed - opened) / 1e9),
            problems=problems,
            values_ns=list(recorder.wall[-done % stride :: stride]),
        )
        done += len(recorder.wall)
    for thread in threads:
        thread.close()
    elapsed = clock.now() - begin
    reason = f"{elapsed / 1e9:g} s of measuring"
    return Steady({}, stopped_because=reason, elapsed_ns=elapsed)


def _statistics(recorder: Recorder) -> dict[str, Any]:
    import numpy as np

    times = np.frombuffer(recorder.wall, dtype=np.int64) * 1e-9
    found: dict[str, Any] = {
        "inferences": len(times),
        "median": float(np.median(times)),
        "p99": float(np.percentile(times, 99)) if len(times) >= P99_FROM else None,
        "max": float(times.max()),
    }
    return found if recorder.missed is None else found | {"missed": recorder.missed}


def _throttled_share(counts: Mapping[str, float | None]) -> float | None:
    """Part of the time in which a quota paused this process; None where that is not counted."""
    throttled, wall = counts["throttled_s"], counts["wall_s"]
    return None if throttled is None or not wall else throttled / wall


def end_windows(threads: Sequence[MeterThread]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return readings of all meters, and per metric why a meter of it has none."""
    readings: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    for thread in threads:
        found, problem = thread.end()
        readings += found
        if problem:
            problems |= dict.fromkeys(thread.traits["metrics"], f"{thread.traits['name']}: {problem}")
    return readings, problems


def values_of(readings: Sequence[Mapping[str, Any]], seconds: float) -> dict[str, float]:
    """Metric → value of the first reading of it; ``power``, W, is that of the meter that sees the most of the device.

    Args:
        readings: of one window, as `edgewise.run.metering.MeterThread.end` returns them.
        seconds: duration of the window.
    """
    powered = [each for each in readings if each["metric"] in OF_ENERGY]
    found: dict[str, float] = {}
    for each in readings:
        if each not in powered:
            found.setdefault(each["metric"], each["value"])
    if powered:
        best = min(powered, key=lambda each: COVERAGES.index(each["covers"]))
        found["power"] = mean_watts(best, best["seconds"] or seconds)
    return found
