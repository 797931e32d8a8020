"""The timed loops. Between two clock readings stands the engine's call and nothing else.

All functions take the clock as an argument, so that a fake clock makes them exact. Times are integer nanoseconds.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from edgewise.run.counters import read_counters
from edgewise.run.stopping import StoppingRule
from edgewise.runtime.base import ReportsEngineLatency, RunsConcurrently, Session, SuppliesClock
from edgewise.stats.warmup import warmup_length

BLOCK_S = 0.02
"""Duration of a block of samples: long enough that the checks between blocks cost little."""
MAX_BLOCK = 4096
MAX_SAMPLES = 50_000
"""Per session: a 10 µs model reaches any precision long before, and records stay small."""
PROBE_SAMPLES = 5
BRIEF_WARMUP_S = 0.1


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock in nanoseconds, a way to wait on it, and processor time of all threads of this process (ns)."""

    now: Callable[[], int]
    sleep: Callable[[float], object]
    processor: Callable[[], int] | None = None

    @classmethod
    def of(cls, session: Session) -> Clock:
        """Return the session's own clock where it has one, else the machine's monotonic clock."""
        if isinstance(session, SuppliesClock):
            return cls(session.clock, session.sleep)
        return cls(time.perf_counter_ns, time.sleep, time.process_time_ns)


@dataclass(slots=True)
class Steady:
    """What the steady phase gave.

    Attributes:
        samples: name → ns of every timed event after warm-up, in order.
        warmup: ns of the inferences that were treated as warm-up.
        warmup_found: False where the data showed no steady state.
        elapsed_ns: duration of the timed part.
    """

    samples: dict[str, list[int]]
    warmup: list[int] = field(default_factory=list)
    warmup_found: bool = True
    stopped_because: str = ""
    elapsed_ns: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


class Recorder:
    """Preallocated buffers of one session: wall time of each call, and the engine's own time where it tells one.

    Attributes:
        missed: inputs that were unfinished when the next one was due; None where inputs don't arrive on a schedule.
    """

    missed: int | None = None

    def __init__(self, session: Session, clock: Clock) -> None:
        self.wall = array("q")
        self.engine = array("q")
        self._invoke = session.invoke
        self._now = clock.now
        self._engine_latency = session.engine_latency_ns if isinstance(session, ReportsEngineLatency) else None

    def take(self, count: int) -> None:
        """Time `count` inferences, back to back."""
        now, invoke, start = self._now, self._invoke, len(self.wall)
        # Growing before the loop keeps allocation out of the timed region.
        self.wall.frombytes(bytes(8 * count))
        wall = self.wall
        if self._engine_latency is None:
            for index in range(start, start + count):
                begin = now()
                invoke()
                wall[index] = now() - begin
            return
        self.engine.frombytes(bytes(8 * count))
        engine, engine_latency = self.engine, self._engine_latency
        for index in range(start, start + count):
            begin = now()
            invoke()
            wall[index] = now() - begin
            engine[index] = engine_latency()

    def typical_ns(self) -> int:
        """Return the median of the latest calls, at least 1; 0 calls have none, which is 1 too."""
        recent = sorted(self.wall[-PROBE_SAMPLES:])
        return max(1, recent[len(recent) // 2]) if recent else 1

    def settle(self) -> None:
        """One inference that is not timed."""
        self._invoke()

    def clear(self) -> None:
        """Forget the times so far."""
        self.wall, self.engine = array("q"), array("q")

    def split(self, warmup: int) -> tuple[dict[str, list[int]], list[int]]:
        """Return samples after the first `warmup`, by name, and the wall times of the warm-up."""
        samples = {"latency": list(self.wall[warmup:])}
        if self._engine_latency is not None:
            samples["latency_engine"] = list(self.engine[warmup:])
        return samples, list(self.wall[:warmup])


class PacedRecorder(Recorder):
    """Inputs arrive every 1/fps s, from the first call of `take` on, whether or not the last inference is done."""

    def __init__(self, session: Session, clock: Clock, fps: float) -> None:
        super().__init__(session, clock)
        self._clock = clock
        self._period = round(1e9 / fps)
        self._due: int | None = None
        self.missed: int = 0

    def take(self, count: int) -> None:
        """Time `count` inferences, each at its arrival or as soon as the one before it ends."""
        for _ in range(count):
            due = self._clock.now() if self._due is None else self._due
            if (wait := due - self._clock.now()) > 0:
                self._clock.sleep(wait / 1e9)
            super().take(1)
            self._due = due + self._period
            self.missed += self._clock.now() > self._due

    def clear(self) -> None:
        """Forget the times and misses so far; the schedule goes on."""
        super().clear()
        self.missed = 0


class RestingRecorder(Recorder):
    """Rests after each call of `take`, so that inferences take `duty_cycle` of the time."""

    def __init__(self, session: Session, clock: Clock, duty_cycle: float) -> None:
        super().__init__(session, clock)
        self._clock = clock
        self._rest_share = 1.0 / duty_cycle - 1.0
        self._busy_ns = self._elapsed_ns = 0

    @property
    def achieved(self) -> float | None:
        """The share of the time so far in which inferences ran; None before the first one."""
        return self._busy_ns / self._elapsed_ns if self._elapsed_ns else None

    def take(self, count: int) -> None:
        """Time `count` inferences, back to back, and rest."""
        begin = self._clock.now()
        super().take(count)
        busy = sum(self.wall[len(self.wall) - count :])
        self._clock.sleep(busy * self._rest_share / 1e9)
        self._busy_ns += busy
        self._elapsed_ns += self._clock.now() - begin


def recorder_of(session: Session, clock: Clock, scenario: Mapping[str, Any]) -> Recorder:
    """Return the recorder that times inferences as `scenario` has them follow one another."""
    if scenario["duty_cycle"]:
        return RestingRecorder(session, clock, scenario["duty_cycle"])
    if scenario["fps"]:
        return PacedRecorder(session, clock, scenario["fps"])
    return Recorder(session, clock)


class Reporter(Protocol):
    """Told between blocks, never inside a timed region."""

    def lines(self, done: int, average_s: float) -> None:
        """Another ``report_every`` inferences are done; their mean in s."""

    def beat(self) -> None:
        """Tell the host that the worker is alive."""


def single_stream(
    session: Session,
    *,
    stopping: Mapping[str, Any],
    clock: Clock,
    reporter: Reporter,
    recorder: Recorder | None = None,
) -> Steady:
    """Back-to-back inferences until the stopping rules say enough; `recorder` may rest between them.

    The caller has run the first inference. It is the first of a prescribed warm-up. Where only the iterations are
    prescribed, the warm-up lasts `BRIEF_WARMUP_S`; where nothing is, the warm-up is found in the samples afterwards.
    """
    recorder = recorder or Recorder(session, clock)
    begin = clock.now()
    if stopping["warmup"] is not None:
        while len(recorder.wall) < stopping["warmup"] - 1:
            recorder.take(min(block_size(recorder), stopping["warmup"] - 1 - len(recorder.wall)))
            reporter.beat()
    elif stopping["iterations"] is not None:
        while len(recorder.wall) < PROBE_SAMPLES or clock.now() - begin < BRIEF_WARMUP_S * 1e9:
            recorder.take(block_size(recorder))
            reporter.beat()
    if stopping["iterations"] is not None or stopping["duration_s"] is not None or stopping["warmup"] is not None:
        return _prescribed(recorder, stopping, clock=clock, reporter=reporter)
    return _adaptive(recorder, stopping, clock=clock, reporter=reporter)


def _prescribed(recorder: Recorder, stopping: Mapping[str, Any], *, clock: Clock, reporter: Reporter) -> Steady:
    """Measure as prescribed, whatever the data show; `recorder` holds the warm-up."""
    offset, step, count = len(recorder.wall), stopping["report_every"], stopping["iterations"]
    rule = StoppingRule(stopping)
    begin, done = clock.now(), 0
    reason: str | None = None
    while reason is None:
        block = block_size(recorder)
        block = block if count is None else min(block, count - done)
        block = block if step is None else min(block, step - done % step)
        recorder.take(block)
        done += block
        elapsed = clock.now() - begin
        reporter.beat()
        if step and done % step == 0:
            reporter.lines(done, sum(recorder.wall[-step:]) / step / 1e9)
        reason = rule.reason(done, elapsed / 1e9, lambda: seconds_of(recorder.wall[offset:]))
    warmup: int | None = 0
    if stopping["warmup"] is None and count is None:  # only the duration was prescribed
        warmup = warmup_length(seconds_of(recorder.wall))
    samples, warm = recorder.split(offset + (warmup or 0))
    return Steady(
        samples,
        warmup=warm,
        warmup_found=warmup is not None,
        stopped_because=reason,
        elapsed_ns=elapsed,
    )


def _adaptive(recorder: Recorder, stopping: Mapping[str, Any], *, clock: Clock, reporter: Reporter) -> Steady:
    """Warm-up is found in the data; precision, stable noise or the time budget ends it."""
    rule = StoppingRule(stopping)
    begin = clock.now()
    check_at = 2 * PROBE_SAMPLES
    reason: str | None = None
    warmup: int | None = None
    while reason is None:
        recorder.take(block_size(recorder))
        elapsed = (clock.now() - begin) / 1e9
        reporter.beat()
        # Looking costs time and cools the caches, so it happens at geometrically growing counts …
        if len(recorder.wall) < check_at and elapsed < stopping["max_s"]:
            continue
        check_at = int(len(recorder.wall) * 1.15) + 1
        warmup = warmup_length(seconds_of(recorder.wall))
        kept = recorder.wall[warmup or 0 :]
        reason = rule.reason(len(kept), elapsed, lambda kept=kept: seconds_of(kept))  # type: ignore[misc]
        if reason is None and len(recorder.wall) >= MAX_SAMPLES:
            reason = f"{MAX_SAMPLES} samples"
        # … and the inference after a look is not timed, where that matters.
        if reason is None and block_size(recorder) > 1:
            recorder.settle()
    samples, warm = recorder.split(warmup or 0)
    return Steady(
        samples,
        warmup=warm,
        warmup_found=warmup is not None,
        stopped_because=reason,
        elapsed_ns=clock.now() - begin,
    )


def block_size(recorder: Recorder) -> int:
    """How many inferences fill a block, from the latest ones; at least 1."""
    if not len(recorder.wall):
        return 1
    return int(min(MAX_BLOCK, max(1, BLOCK_S * 1e9 // recorder.typical_ns()), max(1, 2 * len(recorder.wall))))


def seconds_of(nanoseconds: array[int]) -> Any:
    """Integer nanoseconds as a numpy array of s."""
    import numpy as np

    return np.frombuffer(nanoseconds, dtype=np.int64) * 1e-9


def arrivals(stopping: Mapping[str, Any], fps: float) -> int:
    """Return number of inputs in the paced scenario: as prescribed, else those of 2 s, and 30 if 10 s have that
    many.
    """
    if stopping["iterations"] is not None:
        return int(stopping["iterations"])
    if stopping["duration_s"] is not None:
        return max(1, round(float(stopping["duration_s"]) * fps))
    return max(round(PACED_S * fps), min(MIN_PACED, max(3, round(PATIENT_PACED_S * fps))))


def paced(session: Session, *, fps: float, stopping: Mapping[str, Any], clock: Clock, reporter: Reporter) -> Steady:
    """Return inputs arrive every 1/fps s whether or not the last inference is done; the worker sleeps in between.

    Afterwards a short back-to-back pass in the same process shows the cost of the idle gaps.
    """
    period = round(1e9 / fps)
    count = arrivals(stopping, fps)
    warmup = stopping["warmup"] if stopping["warmup"] is not None else PACED_WARMUP
    invoke, now, sleep = session.invoke, clock.now, clock.sleep
    engine_latency = session.engine_latency_ns if isinstance(session, ReportsEngineLatency) else None
    latency, response, missed = [], [], 0
    engine: list[int] = []
    for _ in range(warmup):
        invoke()
    before = read_counters()
    begin = now()
    # Prescribed arrivals are all served; otherwise a late worker stops one second after the last was due.
    last = begin + count * period + 1_000_000_000 if stopping["iterations"] is None else math.inf
    for index in range(count):
        arrival = begin + index * period
        wait = arrival - now()
        if wait > 0:
            sleep(wait / 1e9)
        started = now()
        invoke()
        ended = now()
        latency.append(ended - started)
        if engine_latency is not None:
            engine.append(engine_latency())
        response.append(ended - arrival)
        missed += ended > arrival + period
        reporter.beat()
        if ended > last:
            break  # overloaded: the queue only grows, and the misses are plain by now
    elapsed = now() - begin
    counters = read_counters().delta(before)
    recorder = Recorder(session, clock)
    typical = max(1, sorted(latency)[len(latency) // 2])
    recorder.take(min(len(latency), max(PROBE_SAMPLES, int(0.2e9 // typical))))
    return Steady(
        {"latency_paced": latency, "response_time": response, "latency": list(recorder.wall)}
        | ({"latency_engine": engine} if engine else {}),
        warmup=[0] * warmup,
        stopped_because=f"{len(latency)} arrivals",
        elapsed_ns=elapsed,
        extra={"deadline_misses": missed, "arrivals": len(latency), "period_s": period / 1e9, "counters": counters},
    )


MIN_PACED, PACED_S, PATIENT_PACED_S, PACED_WARMUP = 30, 2.0, 10.0, 5
OFFLINE_S, OFFLINE_WARMUP_S = 0.6, 0.2
FIRST_STRETCH, STRETCH_S = 16, 2.0


def offline(session: Session, *, stopping: Mapping[str, Any], clock: Clock, reporter: Reporter) -> Steady:
    """As many inferences as the engine takes at once; completions are time-stamped, latency is not the question."""
    run_many = session.run_many if isinstance(session, RunsConcurrently) else _one_by_one(session)
    count = stopping["iterations"]
    seconds = stopping["duration_s"] or OFFLINE_S
    warm: list[int] = []
    if stopping["warmup"] is not None:
        if stopping["warmup"]:
            _run_counted(run_many, stopping["warmup"], clock=clock, completions=warm, reporter=reporter)
    else:
        run_many(clock=clock.now, until_ns=clock.now() + int(OFFLINE_WARMUP_S * 1e9), count=None, completions=warm)
    reporter.beat()
    completions: list[int] = []
    begin = clock.now()
    if count is not None:
        _run_counted(run_many, count, clock=clock, completions=completions, reporter=reporter)
    else:
        run_many(clock=clock.now, until_ns=begin + int(seconds * 1e9), count=None, completions=completions)
    completions.sort()
    reason = f"{count} iterations" if count is not None else f"{seconds:g} s of measuring"
    return Steady(
        {"completions": [stamp - begin for stamp in completions]},
        warmup=[0] * len(warm),
        stopped_because=reason,
        elapsed_ns=(completions[-1] if completions else clock.now()) - begin,
    )


def _run_counted(
    run_many: Callable[..., None], count: int, *, clock: Clock, completions: list[int], reporter: Reporter
) -> None:
    """`count` inferences in stretches of about `STRETCH_S`, with an `alive` message after each."""
    stretch, done = FIRST_STRETCH, 0
    while done < count:
        begin, size = clock.now(), min(stretch, count - done)
        run_many(clock=clock.now, until_ns=None, count=size, completions=completions)
        done += size
        reporter.beat()
        stretch = max(size, int(size * STRETCH_S * 1e9 / max(1, clock.now() - begin)))


def _one_by_one(session: Session) -> Callable[..., None]:
    """`run_many` for an engine that takes one request at a time."""

    def run_many(*, clock: Callable[[], int], until_ns: int | None, count: int | None, completions: list[int]) -> None:
        invoke = session.invoke
        started = 0
        while (count is None or started < count) and (until_ns is None or clock() < until_ns):
            invoke()
            started += 1
            completions.append(clock())

    return run_many
