"""Latency over minutes or hours: statistics of short time bins, and the last minute against the first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

ALWAYS = ("begin_s", "end_s", "inferences", "median", "p99", "max")
"""Columns that every `Sustained.series` has."""
SlowdownCause = Literal["clock", "disturbance", "limit", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The bins at the beginning or at the end.

    Attributes:
        begin_s, end_s: since the measurement began, s.
        value: median over the bins of their median latency, s.
        low, high: 95 % interval of `value` that respects the correlation of neighbouring bins; None if there is none.
        readings: column of `Sustained.series` → mean over the bins.
    """

    begin_s: float
    end_s: float
    bins: int
    inferences: int
    value: float
    low: float | None = None
    high: float | None = None
    readings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """A measurement of `Scenario.sustained_s`, as far as it came.

    Attributes:
        elapsed_s: time measured, s; less than requested after Ctrl-C or if the worker ended.
        metric: what the bins are of: ``latency`` or ``latency_paced``.
        series: name → one number per bin. ``begin_s`` and ``end_s`` (since the beginning), ``inferences``, ``median``,
            ``p99`` (None with fewer than 1000 inferences) and ``max`` latency, s, are always there; ``missed`` (inputs
            that were unfinished when the next one was due) in paced runs; ``clock_rate`` (Hz), ``temperature`` (K) and
            ``power`` (W, idle power included) and other metrics with meters; ``busy_share_of_others``, ``steal_share``,
            ``involuntary_per_s`` and ``throttled_share`` (paused by a quota) as the system counts them.
        absent: column of a meter that is not there → the reason.
        first, last: the first and the last minute; None with too few bins.
        ratio, low, high: latency of `last` over `first`, with its 95 % interval.
        verdict: what that says of the last minute.
        slowdown_from_s, slowdown_until_s: the first time that was slower than the first minute for a minute or more;
            None where there was none, and as the end where it lasted to the end of the measurement.
        slow_share: share of bins that were slower than the first minute by more than the margin.
        cause: the likely cause of a slowdown; None without one.
        explanation: the observations behind `cause`, in words.
        drift: change of the latency from beginning to end relative to its median, by Theil and Sen's slope.
        method: how all that was determined.
    """

    elapsed_s: float
    metric: Literal["latency", "latency_paced"]
    series: dict[str, tuple[float | None, ...]]
    absent: dict[str, str] = field(default_factory=dict)
    first: Window | None = None
    last: Window | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: Literal["slower", "faster", "same", "inconclusive"] = "inconclusive"
    slowdown_from_s: float | None = None
    slowdown_until_s: float | None = None
    slow_share: float | None = None
    cause: SlowdownCause | None = None
    explanation: str = ""
    drift: float | None = None
    method: str = ""
