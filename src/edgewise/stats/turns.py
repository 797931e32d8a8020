"""The ratio of two processes that took turns, also where other programs keep their inferences waiting.

The median ratio of neighbouring turns scatters least: what slows a machine comes in bursts shorter than a process
lives, and neighbours share most of it (``benchmarks/decisions.py``). Where B's times are A's times a factor, it is that
factor. They are not where other programs take the processor away every few milliseconds: a short inference mostly fits
between two interruptions and a long one does not, so the ratio of medians tells of the scheduler. The ratios of the
processor time, of the mean and of the shortest tenth of the turns each err in another way. Where one of them is not
that of the neighbours, no single one is trusted: the interval spans all, and a difference needs all on one side of 1.

Where the processor time of a turn is that of its work, it tells which turns were interrupted. Pairs of neighbours with
such a turn are left out where enough others are left: waiting says nothing of the work, and a few bursts would move the
mean for many rounds (``benchmarks/waiting.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from edgewise.stats.autocorrelation import Samples
from edgewise.stats.between_runs import Scatter
from edgewise.stats.comparison import LEAST_REPLICATES, Contrast, contrast_pairs

OF_NEIGHBOURS = "median ratio of neighbouring turns"
"""Begins the method of a ratio that is of turns, not of processes."""
NEIGHBOURS, PROCESSOR, MEAN, SHORTEST = "neighbouring turns", "processor time", "mean time", "the shortest tenth"
TENTH = 0.1
QUIET = 0.05
"""Share of the processors that others use on a machine where nothing waits: there the ratio is that of neighbours."""
APART = 0.01
"""Two ratios that differ by less are the same: the clock of processor time and the loop around inferences cost some."""
CHANCE = 0.1
"""A p-value below which two statistics are taken to differ: an interval too wide errs less than one too narrow."""
LEAST_SHARE, MOST_SHARE = 0.9, 1.1
"""Processor time over time of the turn that had most of it, where one thread does all of the work."""
UNDISTURBED = 0.95
"""A turn whose processor time over time is below this part of the largest one of its process was interrupted."""
LEAST_LEFT, LEAST_LEFT_SHARE = 8, 0.25
"""Turns that have to be left in each pair of processes, and their part of all, where interrupted ones are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The inferences of one process that took turns.

    Attributes:
        medians, means: of the inferences of each turn, s, shape (turns,).
        shares: processor time over time, of each turn; empty where it was not read.
        others: share of the processors that other programs and other virtual machines used; None where not known.
    """

    medians: Samples = field(repr=False)
    means: Samples = field(repr=False)
    shares: Samples = field(repr=False)
    others: float | None = None

    @classmethod
    def of(
        cls, samples: Samples, counts: Sequence[int], *, shares: Sequence[float] = (), others: float | None = None
    ) -> Turns:
        """Return the turns of `counts` inferences each, which are `samples` together (s, above 0)."""
        parts = np.split(samples, np.cumsum(counts)[:-1])
        return cls(
            medians=np.array([np.median(part) for part in parts]),
            means=np.array([part.mean() for part in parts]),
            shares=np.asarray(shares, dtype=np.float64),
            others=others,
        )

    @property
    def calm(self) -> npt.NDArray[np.bool_]:
        """Whether the process kept the processor, of each turn; where `shares` are known."""
        return np.asarray(self.shares >= UNDISTURBED * self.shares.max())

    def at(self, places: npt.NDArray[np.int64]) -> Turns:
        """Return the turns at `places`."""
        return replace(self, medians=self.medians[places], means=self.means[places], shares=self.shares[places])

    @property
    def processor(self) -> Samples:
        """Processor time of an inference, s, of each turn, whose share leaves out what the loop around it takes."""
        return self.means * self.shares


def contrast_turns(a: Sequence[Turns], b: Sequence[Turns], *, scatter: Scatter | None = None) -> Contrast:
    """B over A from pairs of processes that took turns.

    On a quiet machine, and where all statistics agree, by neighbouring turns; else by the processor time, or by the
    mean where that is not known, with the other statistics as its `Contrast.rivals`.

    Args:
        a, b: one per process, ``a[i]`` and ``b[i]`` of one pair.
        scatter: as `edgewise.stats.comparison.contrast_pairs` takes it.
    """
    logs = log_ratios(*without_interrupted(a, b))
    by_name = {
        name: contrast_pairs([1.0] * len(a), np.exp(each).tolist(), sequential=True, scatter=scatter)
        for name, each in logs.items()
    }
    usual = by_name.pop(NEIGHBOURS)
    usual = replace(usual, method=f"{OF_NEIGHBOURS} in each pair; {usual.method}")
    others = others_of((*a, *b))
    is_quiet = others is not None and others < QUIET
    if is_quiet or not any(_is_apart(logs[name] - logs[NEIGHBOURS]) for name in by_name):
        return usual
    name, chosen = next(iter(by_name.items()))
    del by_name[name]
    rivals = (*by_name.items(), (NEIGHBOURS, usual))
    method = f"ratio of {name} in each pair; {chosen.method}; the interval spans those of "
    return replace(chosen, statistic=name, rivals=rivals, method=method + ", ".join(rival for rival, _ in rivals))


def without_interrupted(a: Sequence[Turns], b: Sequence[Turns]) -> tuple[Sequence[Turns], Sequence[Turns]]:
    """Return both without the turns in which either side was interrupted, which says nothing of the work.

    All turns where the processor time is not the time of the work, or where too few would be left in any pair.
    """
    if not (_is_work(a) and _is_work(b)):
        return a, b
    kept = []
    for one, two in zip(a, b, strict=True):
        count = min(len(one.shares), len(two.shares))
        calm = one.calm[:count] & two.calm[:count]
        if np.count_nonzero(calm) < max(LEAST_LEFT, LEAST_LEFT_SHARE * count):
            return a, b
        places = np.flatnonzero(calm)
        kept.append((one.at(places), two.at(places)))
    return [one for one, _ in kept], [two for _, two in kept]


def others_of(turns: Sequence[Turns]) -> float | None:
    """Return the mean share of the processors that others used; None where a process does not tell."""
    known = [each.others for each in turns if each.others is not None]
    return sum(known) / len(known) if len(known) == len(turns) else None


def log_ratios(a: Sequence[Turns], b: Sequence[Turns]) -> dict[str, Samples]:
    """Statistic → logarithm of B over A in each pair; the most robust one first."""
    pairs = list(zip(a, b, strict=True))
    found = {}
    if _is_work(a) and _is_work(b):
        found[PROCESSOR] = [_of_neighbours(one.processor, two.processor) for one, two in pairs]
    # Of turns and not of inferences: a turn in a slow moment has fewer.
    found[MEAN] = [_of(np.mean, one.means, two.means) for one, two in pairs]
    found[SHORTEST] = [_of(_shortest, one.medians, two.medians) for one, two in pairs]
    found[NEIGHBOURS] = [_of_neighbours(one.medians, two.medians) for one, two in pairs]
    return {name: np.array(logs) for name, logs in found.items()}


def value_by(statistic: str, turns: Sequence[Turns]) -> float | None:
    """Time of an inference by the mean or the processor time, s: the geometric mean over the processes, whose quotient
    is the ratio by that statistic. None for other statistics, and where it is not known.
    """
    of_process = {MEAN: lambda one: one.means.mean(), PROCESSOR: lambda one: np.median(one.processor)}.get(statistic)
    if of_process is None or not turns or (statistic == PROCESSOR and not _is_work(turns)):
        return None
    return float(np.exp(np.mean([np.log(of_process(one)) for one in turns])))


def _is_work(turns: Sequence[Turns]) -> bool:
    """Whether the processor time is the time without interruptions: one thread does all of the work and never
    waits for anything but the processor.
    """
    if not all(len(each.shares) and each.shares.min() > 0.0 for each in turns):
        return False
    return LEAST_SHARE <= max(float(each.shares.max()) for each in turns) <= MOST_SHARE


def _of_neighbours(first: Samples, second: Samples) -> float:
    """Return the median over the log ratios of neighbouring turns."""
    count = min(len(first), len(second))
    return float(np.median(np.log(second[:count]) - np.log(first[:count])))


def _of(statistic: Callable[[Samples], float], first: Samples, second: Samples) -> float:
    """Return the log ratio of a statistic of the turns that have a neighbour."""
    count = min(len(first), len(second))
    return math.log(statistic(second[:count]) / statistic(first[:count]))


def _shortest(times: Samples) -> float:
    return float(np.quantile(times, TENTH))


def _is_apart(differences: Samples) -> bool:
    """Whether two log ratios of the same pairs differ by more than `APART`, and by more than `CHANCE` explains."""
    if len(differences) < LEAST_REPLICATES or abs(float(differences.mean())) < APART:
        return False
    p_value = contrast_pairs([1.0] * len(differences), np.exp(differences).tolist(), sequential=False).p_value
    return p_value is not None and p_value < CHANCE
