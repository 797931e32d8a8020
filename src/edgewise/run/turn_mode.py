"""The worker's side of taking turns: inferences are timed when the host says so, a few at a time.

Several workers are alive at once and one infers at a time, so that whatever moves slowly on the machine moves all of
them alike. Standard library and numpy only, as everything that is sent to a device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgewise.run.counters import SHORTEST_WINDOW_S, Counters
from edgewise.run.timing import BRIEF_WARMUP_S, MAX_SAMPLES, Clock, Recorder, Reporter, Steady, block_size, seconds_of
from edgewise.runtime.base import Session
from edgewise.stats.warmup import warmup_length

SETTLE_BELOW_S = 0.01
"""The other worker has emptied the caches: the first inference of a turn is not timed, where inferences are short."""
WARM_S = 0.5
"""A session is warmed up alone until its steady state shows, but no longer than this."""
KEPT = ("busy_share_of_others", "steal_share", "memory_pressure_share", "throttled_s")
"""Counters of the whole time of the turns. The processor time of this process is not among them: it had the processor
for a part of that time only."""


def take_turns(
    session: Session,
    *,
    stopping: Mapping[str, Any],
    clock: Clock,
    reporter: Reporter,
    tell: Callable[..., None],
    next_order: Callable[[], Mapping[str, Any]],
    read_counters: Callable[[], Counters],
) -> Steady:
    """Warm up, say ``ready``, and time inferences in the turns that `next_order` gives, until it says ``end``.

    The host says ``count`` before the first turn and after the last one: the ``counters`` in `Steady.extra` are of the
    time between, in which the other workers had their turns, too. The host takes these out of the load of others.

    Args:
        stopping: a prescribed ``warmup`` counts the first inference, which the caller has run.
        tell: sends a message to the host.
        next_order: blocks until the host says ``turn`` (with ``seconds`` and ``most`` inferences), ``count`` or
            ``end``.
        read_counters: reads them now.
    """
    recorder = Recorder(session, clock)
    found = _warm_up(recorder, stopping, clock=clock, reporter=reporter)
    warmup = len(recorder.wall)
    tell("ready")
    turns: list[int] = []
    walls: list[int] = []
    used: list[int] = []
    counted: list[Counters] = []
    while (order := next_order())["kind"] != "end":
        if order["kind"] == "count":
            counted.append(read_counters())
            tell("counted")
            continue
        typical_s = recorder.typical_ns() * 1e-9
        if typical_s < SETTLE_BELOW_S:
            recorder.settle()
        count = int(max(1, min(order["most"], order["seconds"] // max(typical_s, 1e-9))))
        spent, begin = clock.processor and clock.processor(), clock.now()
        recorder.take(count)
        walls.append(clock.now() - begin)
        if clock.processor is not None and spent is not None:
            used.append(clock.processor() - spent)
        turns.append(count)
        reporter.beat()
        tell("turned", count=count)
    samples, warm = recorder.split(warmup)
    elapsed = sum(walls)
    processor = {"turn_wall_ns": walls, "turn_processor_ns": used} if used else {}
    return Steady(
        samples,
        warmup=warm,
        warmup_found=found,
        stopped_because=f"{len(turns)} turns",
        elapsed_ns=elapsed,
        extra={"turns": turns, **processor, "counters": _counters_of_turns(counted, elapsed * 1e-9)},
    )


def _counters_of_turns(counted: Sequence[Counters], own_s: float) -> dict[str, float | None]:
    """Return what happened between the first and the last of `counted`, as `edgewise.run.trust` reads it.

    Args:
        own_s: time of the turns of this process, in which its context switches fall, s.
    """
    if len(counted) < 2:
        return {}
    delta = counted[-1].delta(counted[0])
    switches, wall_s = delta["involuntary_per_s"], delta["wall_s"] or 0.0
    return {
        **{name: delta[name] for name in KEPT},
        "involuntary_per_s": switches * wall_s / own_s if switches is not None and own_s >= SHORTEST_WINDOW_S else None,
        "window_s": wall_s,
        "window_cpu_s": delta["process_cpu_s"],
        "window_cores": len(counted[-1].cores),
    }


def _warm_up(recorder: Recorder, stopping: Mapping[str, Any], *, clock: Clock, reporter: Reporter) -> bool:
    """As many inferences as were prescribed, else until they are steady; whether they are."""
    prescribed = stopping["warmup"]
    if prescribed is not None:
        while len(recorder.wall) < prescribed - 1:
            recorder.take(min(block_size(recorder), prescribed - 1 - len(recorder.wall)))
            reporter.beat()
        if not len(recorder.wall):
            recorder.take(1)  # what an inference takes must be known before the first turn
        return True
    begin = clock.now()
    while True:
        recorder.take(block_size(recorder))
        reporter.beat()
        elapsed = (clock.now() - begin) * 1e-9
        if elapsed < BRIEF_WARMUP_S and len(recorder.wall) < MAX_SAMPLES:
            continue
        # Steady where the second half has the level that the latest part of the first half had.
        length = warmup_length(seconds_of(recorder.wall))
        if length is not None and length <= len(recorder.wall) // 2:
            return True
        if elapsed >= WARM_S or len(recorder.wall) >= MAX_SAMPLES:
            return False
