"""Bins of a sustained measurement → verdict on the last minute, first lasting slowdown, and its likely cause.

A slower last minute is what was observed; that the processor throttled is said only where its clock was seen to fall.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.formatting import quantity
from edgewise.record import Job, Measurement, Sustained, Window
from edgewise.record.sustained import ALWAYS, SlowdownCause
from edgewise.run.host_protocol import SessionResult
from edgewise.run.sustained.timing import COUNTED, window_of
from edgewise.run.trust import BUSY, STEAL
from edgewise.stats.comparison import contrast_intervals, decide
from edgewise.stats.diagnosis import drift
from edgewise.stats.intervals import RANKS_FROM, median_interval
from edgewise.units import long_time

MARGIN = 0.03
"""Relative difference between the last and the first minute that doesn't matter; `edgewise compare` has the same."""
SLOWDOWN = 0.05
"""A bin is slow if its median is above that of the first minute by more than this."""
SMOOTHED = 5
"""Bins whose running median decides where a slowdown begins: two disturbed ones in a row don't."""
CLOCK_FELL = 0.03
BUSIER, MORE_STEAL, MORE_PAUSES = 0.05, 0.01, 0.01
"""More processor time of others, more stolen time, more pauses by a quota than in the first minute, as shares."""
METERED = ("clock_rate", "temperature", "power")

Floats = NDArray[np.float64]
Bin = Mapping[str, float | None]


def completed(session: SessionResult) -> SessionResult:
    """`session` with what its worker could not tell before it ended, as far as its bins have it."""
    if session.bins and "steady" not in session.facts:
        elapsed = _column(session.bins, "end_s")[-1]
        paused = _mean(session.bins, "throttled_share")
        session.facts["counters"] = {name: _mean(session.bins, name) for name in COUNTED}
        session.facts["counters"]["throttled_s"] = None if paused is None else paused * elapsed
        session.facts["steady"] = {"warmup": 0, "stopped_because": f"it was ended after {long_time(elapsed)}"}
    if session.bins and session.bins[0].get("missed") is not None:
        count, missed = (int(_column(session.bins, name).sum()) for name in ("inferences", "missed"))
        session.facts["steady"] |= {"arrivals": count, "deadline_misses": missed}
    return session


def sustained_of(job: Job, session: SessionResult, *, absences: Mapping[str, str]) -> Sustained:
    """Return what the bins of a session with at least one bin show.

    Args:
        absences: metric → why no meter tells it.
    """
    bins, scenario = session.bins, job.workload.scenario
    assert scenario.sustained_s is not None
    names = list(dict.fromkeys((*ALWAYS, *(name for row in bins for name in row))))
    begins, ends, medians = (_column(bins, name) for name in ("begin_s", "end_s", "median"))
    window_s = window_of(scenario.sustained_s)
    trend = drift(medians, (len(medians),))
    found: dict[str, Any] = {
        "elapsed_s": float(ends[-1]),
        "metric": scenario.headline,
        "series": {name: tuple(row.get(name) for row in bins) for name in names},
        "absent": {name: _absence(name, session, absences) for name in METERED if name not in names},
        "drift": None if trend is None else trend.relative_change,
        "method": _method(window_s),
    }
    middles = (begins + ends) / 2
    first = [row for row, middle in zip(bins, middles, strict=True) if middle < window_s]
    last = [row for row, middle in zip(bins, middles, strict=True) if middle > ends[-1] - window_s]
    if ends[-1] < 2 * window_s * (1 - 1e-9) or min(len(first), len(last)) < RANKS_FROM:
        reason = f"only {len(bins)} bin{'' if len(bins) == 1 else 's'} in {long_time(ends[-1])}: too few for a verdict"
        return Sustained(**found, explanation=reason)
    found["first"], found["last"] = start, end = _window(first), _window(last)
    slow = medians > start.value * (1 + SLOWDOWN)
    found["slow_share"] = float(slow.mean())
    stretch = _first_slowdown(begins, ends, medians, level=start.value * (1 + SLOWDOWN), least_s=window_s)
    if stretch is not None:
        found["slowdown_from_s"], found["slowdown_until_s"] = stretch
    found |= _verdict(start, end)
    if stretch is not None or found["verdict"] == "slower":
        begin, until = stretch or (end.begin_s, None)
        after = [row for row, at in zip(bins, begins, strict=True) if begin <= at < (until or math.inf)]
        found["cause"], found["explanation"] = _cause(first, after, session.facts.get("counters", {}))
    return Sustained(**found)


def _absence(name: str, session: SessionResult, absences: Mapping[str, str]) -> str:
    """Why no bin has a reading of a metric."""
    problems = session.facts.get("meter_problems", {})
    keys = ("energy", "power") if name == "power" else (name,)
    reasons = [str(found[key]) for found in (problems, absences) for key in keys if key in found]
    return reasons[0] if reasons else "no meter gave a reading"


def without_interval(rows: Sequence[Measurement], found: Sustained) -> tuple[Measurement, ...]:
    """`rows`, the headline without interval where the latency changed while it was measured: it is not one number."""
    if found.slowdown_from_s is None and found.verdict not in ("slower", "faster"):
        return tuple(rows)
    why = "no interval, because the latency changed while it was measured"
    return tuple(
        replace(
            row,
            low=None,
            high=None,
            within_low=None,
            within_high=None,
            method=f"{row.method.partition('; 95 % interval')[0]}; {why}",
        )
        if row.metric == found.metric
        else row
        for row in rows
    )


def _method(window_s: float) -> str:
    minute = long_time(window_s)
    return (
        f"median over the bins of the last {minute} over that of the first {minute}, whose 95 % intervals respect the "
        f"correlation of neighbouring bins; same within ± {MARGIN:.0%}. A slowdown begins at the first bin from which "
        f"on the running median of {SMOOTHED} bins is more than {SLOWDOWN:.0%} above the first {minute} for at least "
        f"{minute}"
    )


def _column(bins: Sequence[Bin], name: str) -> Floats:
    """One number per bin, NaN where there is none."""
    return np.array([math.nan if (value := row.get(name)) is None else value for row in bins], dtype=np.float64)


def _mean(bins: Sequence[Bin], name: str) -> float | None:
    known = (values := _column(bins, name))[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _window(bins: Sequence[Bin]) -> Window:
    medians = _column(bins, "median")
    interval = median_interval(medians, (len(medians),))
    told = dict.fromkeys(name for row in bins for name in row if name not in (*ALWAYS, "missed"))
    means = {name: _mean(bins, name) for name in told}
    return Window(
        begin_s=float(_column(bins, "begin_s")[0]),
        end_s=float(_column(bins, "end_s")[-1]),
        bins=len(bins),
        inferences=int(_column(bins, "inferences").sum()),
        value=float(np.median(medians)),
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        readings={name: value for name, value in means.items() if value is not None},
    )


def _verdict(first: Window, last: Window) -> dict[str, Any]:
    """Ratio of the last over the first window with its interval, and the verdict."""
    if not first.low or not last.low or first.high is None or last.high is None:
        return {"verdict": "inconclusive", "explanation": "the clock is too coarse for these times"}
    contrast = contrast_intervals((first.value, first.low, first.high), (last.value, last.low, last.high))
    decision = decide(contrast, margin=MARGIN, p_adjusted=contrast.p_value)
    low, high = contrast.interval() or (None, None)
    words = {"lower": "faster", "higher": "slower"}
    return {"ratio": contrast.ratio, "low": low, "high": high, "verdict": words.get(decision, decision)}


def _first_slowdown(
    begins: Floats, ends: Floats, medians: Floats, *, level: float, least_s: float
) -> tuple[float, float | None] | None:
    """Begin and end of the first stretch of `least_s` above `level`, s; None as the end if it lasts to the last bin."""
    padded = np.pad(medians, SMOOTHED // 2, mode="edge")
    smooth = np.median(np.lib.stride_tricks.sliding_window_view(padded, SMOOTHED), axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], smooth > level, [False]))))
    for start, stop in edges.reshape(-1, 2):
        if ends[stop - 1] - begins[start] >= least_s * (1 - 1e-9):
            return float(begins[start]), None if stop == len(ends) else float(ends[stop - 1])
    return None


def _cause(first: Sequence[Bin], after: Sequence[Bin], whole: Bin) -> tuple[SlowdownCause, str]:
    """Return the likely cause of a slowdown, and the observations that it rests on.

    Args:
        whole: counters of the whole measurement. Other work that did not increase may still be the cause, and bins
            below 0.1 s have no shares of their own.
    """
    words: list[str] = []

    def both(name: str) -> tuple[float, float] | None:
        pair = _mean(first, name), _mean(after, name)
        return None if pair[0] is None or pair[1] is None else (pair[0], pair[1])

    def grew(name: str, by: float, text: str) -> bool:
        pair = both(name)
        if pair is None or pair[1] - pair[0] <= by:
            return False
        words.append(f"{text} rose from {pair[0]:.1%} to {pair[1]:.1%}")
        return True

    clock = both("clock_rate")
    fell = clock is not None and clock[1] < clock[0] * (1 - CLOCK_FELL)
    if clock is not None and fell:
        words.append(f"clock fell from {quantity(clock[0], 'Hz')} to {quantity(clock[1], 'Hz')}")
    elif clock is not None:
        words.append(f"clock did not fall ({quantity(clock[1], 'Hz')})")
    if (heat := both("temperature")) is not None and heat[1] > heat[0]:
        words.append(f"temperature rose from {quantity(heat[0], 'K')} to {quantity(heat[1], 'K')}")
    disturbed = [
        grew("busy_share_of_others", BUSIER, "processor time of other processes"),
        grew("steal_share", MORE_STEAL, "processor time taken by other virtual machines"),
    ]
    for name, least, text in (
        ("busy_share_of_others", BUSY, "other processes"),
        ("steal_share", STEAL, "other virtual machines"),
    ):
        if not any(disturbed) and not fell and (share := whole.get(name) or 0.0) > least:
            disturbed.append(True)
            words.append(f"{text} used {share:.0%} of the processor time over the whole measurement")
    limited = grew("throttled_share", MORE_PAUSES, "time in which a quota paused the worker")
    if clock is None:
        words.append("clock not readable")
    cause: SlowdownCause = "clock" if fell else "limit" if limited else "disturbance" if any(disturbed) else "unknown"
    return cause, "; ".join([*words, *(["cause unknown"] if cause == "unknown" else [])])
