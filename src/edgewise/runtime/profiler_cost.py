"""Profiled and ordinary inferences in turns, what profiling adds to an inference, and its part in the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import get_clock_info, monotonic_ns, process_time_ns
from typing import Any

from edgewise.stats.paired import paired_ratio
from edgewise.stats.undisturbed import undisturbed_mean

BLOCK = 5
"""Largest number of inferences of a window …"""
WINDOW_NS = 20_000_000
"""… which is no longer than this, unless one inference is: a burst of other work is to meet both windows of a pair."""
SETTLE_BELOW_NS = 20_000_000
"""The other kind has emptied the caches: the first inference of a window is not timed, where inferences are short."""
MOST_EXTRA = 1.5
"""Profiled inferences at most, for each one that is timed."""
MOST_PARTS = 2
"""How many times as long as the shortest step the record of another step may take."""


_FINE = get_clock_info("process_time").resolution <= 1e-6

Timed = tuple[int, int]
"""Of an inference its time by the clock and its processor time, ns."""


@dataclass(slots=True)
class Alternation:
    """Nanoseconds of profiled inferences (`walls`) and of ordinary ones (`plain`), which took turns in windows.

    Attributes:
        pairs: of each pair of adjacent windows, the median of the profiled and of the ordinary inferences: their
            processor time, which no other program lengthens, where `by_processor`.
        by_processor: one thread of this process does all of the work.
        processor: processor times of the inferences that `walls` are of, where `by_processor`.
        counted: which of the profiled inferences `walls` are of.
        total: profiled inferences, the first ones of windows included.
    """

    by_processor: bool = False
    walls: list[int] = field(default_factory=list)
    plain: list[int] = field(default_factory=list)
    pairs: list[tuple[float, float]] = field(default_factory=list)
    processor: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    total: int = 0

    @property
    def which(self) -> int:
        """The place of the time in `Timed` by which pairs are compared."""
        return int(self.by_processor and _FINE)

    def as_times(self) -> dict[str, Any]:
        """Return them by the fields of an `EngineProfile`."""
        return {
            "inference_ns": tuple(self.walls), "unprofiled_ns": tuple(self.plain), "pairs_ns": tuple(self.pairs),
            "processor_ns": tuple(self.processor),
        }  # fmt: skip

    def add(self, profiled: Sequence[Timed], plain: Sequence[Timed]) -> None:
        """Add a pair of windows."""
        self.walls += [wall for wall, _ in profiled]
        self.plain += [wall for wall, _ in plain]
        self.processor += [spent for _, spent in profiled] if self.which else []
        # No inference takes less than the clock can tell.
        first, second = (max(1.0, median(each[self.which] for each in window)) for window in (profiled, plain))
        self.pairs.append((first, second))

    def excess_us(self, wall_ns: float) -> float:
        """Return what profiling adds to an inference that takes `wall_ns` with it; 0 where chance explains it."""
        return wall_ns * (1.0 - paired_ratio(self.pairs)[0]) / 1e3

    def describe_cost(self, taken: Sequence[float]) -> str:
        """Return the note on the cost of profiling; `taken` has the µs that were subtracted from each step."""
        added = self.excess_us(undisturbed_mean(self.walls))
        return (
            f"profiling added {added:.1f} µs to an inference of {len(taken)} steps (by turns with ordinary ones); "
            f"{sum(taken):.1f} µs of it were inside the steps and were subtracted, at most "
            f"{max(taken, default=0.0):.2f} µs from each; the rest is between them"
        )


def take_turns(
    plain: Callable[[], object],
    profiled: Callable[[int], Sequence[Timed]],
    inferences: int,
    *,
    begun: int = 0,
    by_processor: bool = False,
    clock: Callable[[], int] = monotonic_ns,
) -> Alternation:
    """Run `inferences` profiled inferences and as many ordinary ones, in turns; the order changes with every pair.

    Args:
        plain: runs an ordinary inference.
        profiled: runs this number of profiled inferences; returns their times.
        begun: profiled inferences that were run before.
        by_processor: one thread of this process does all of the work.
        clock: times the ordinary ones, ns.
    """
    turns = Alternation(total=begun, by_processor=by_processor)
    typical = min(times[turns.which] for times in time_both(plain, 2, clock=clock))
    settle = int(typical < SETTLE_BELOW_NS)
    size = max(1 + settle, min(BLOCK, WINDOW_NS // max(1, typical)))
    while len(turns.walls) < inferences:
        count = min(size, inferences - len(turns.walls))
        first = [] if len(turns.pairs) % 2 else time_both(plain, settle + count, clock=clock)
        walls = profiled(settle + count)
        times = first or time_both(plain, settle + count, clock=clock)
        turns.counted += range(turns.total + settle, turns.total + settle + count)
        turns.total += settle + count
        turns.add(walls[settle:], times[settle:])
    return turns


def time_both(invoke: Callable[[], object], count: int, *, clock: Callable[[], int] = monotonic_ns) -> list[Timed]:
    """Return times of each of `count` calls by `clock` and by the processor time of this process."""
    times = []
    for _ in range(count):
        spent = process_time_ns()
        begin = clock()
        invoke()
        wall = clock() - begin
        times.append((wall, process_time_ns() - spent))
    return times


def share_out(cost: float, lengths: Sequence[float]) -> list[float]:
    """Of each step, what profiling adds to its time.

    An engine keeps its books of a kernel partly between two kernels and partly while the kernel's own time still runs.
    What the excess of a profiled inference is more than all the time between kernels must lie inside. It is shared out
    in equal parts, for every kernel has one record; of a step that is shorter, all is taken, and more of the others,
    but no more than `MOST_PARTS` times the shortest step took: its time is mostly its record's.

    Args:
        cost: that lies inside the steps, all of them together; nothing is shared out where it is below 0.
        lengths: of the steps, in the same unit.
    """
    left, part = max(0.0, cost), 0.0
    for at, length in enumerate(sorted(lengths)):
        part = left / (len(lengths) - at)
        if length >= part:
            break
        left -= length
    part = min(part, MOST_PARTS * min(lengths, default=0.0))
    return [min(part, length) for length in lengths]
