"""How a machine's speed varies from run to run: learnt from earlier runs on it, otherwise assumed from its kind."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgewise.errors import StoreError
from edgewise.record import Caution, Job, Measurement, SessionRecord, Variation
from edgewise.record.reference import KERNELS, Reading, machine_key, readings_of
from edgewise.run.reference import VERSION
from edgewise.stats.between_runs import (
    LEAST_IN_BLOCK,
    BetweenRuns,
    ReadingBlocks,
    Scatter,
    add,
    estimate_between_runs,
    join_blocks,
    pool,
    scatter_of_parts,
)
from edgewise.stats.distributions import normal_quantile, t_quantile
from edgewise.stats.intervals import Interval

FLOOR = 5e-4
"""Relative standard deviation between runs of an unchanged model on the quietest machine tested (measured with
``benchmarks/repeatability.py``). Every interval of a time includes it."""

SPREAD_S = 300.0
"""Sessions spread over at least this time already show the slow part of the variation in their own scatter."""

BEYOND, BEYOND_ONE = 0.3, 1.0
"""The variance between runs, minutes apart, over that of the parts of one run; of a run with one session.

A machine that varies from second to second also wanders from minute to minute. These ratios cover 95 % in series
recorded with `benchmarks/repeatability.py`; the readings of the reference kernels within a run told nothing more."""

GUESS = 2.4
"""Degrees of freedom of what the kind of machine tells, and of what the parts of one run tell: the next runs of the
recorded series differ from them as Student's t with 2 to 3 degrees does."""

LEAST_OWN, MOST_OWN = 3, 40
"""Runs of the same job, this one included, from which on they tell more than the reference kernels; and the newest of
them that count."""

LARGEST = 50.0
"""A factor of e^50 is no interval, and larger ones are no numbers."""

UNUSUAL, LEAST_SHIFT = 3.0, 0.03
"""A reference time is unusual if it differs by more than this many standard deviations and more than this share."""

History = Callable[[str], Sequence[Reading]]
"""Function that returns the readings of earlier runs on a machine, given its `machine_key`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is assumed for a kind of machine that has no history yet.

    Attributes:
        sigma: relative standard deviation between runs, where nothing else is known.
        unseen: the part of it that no part of a run shows.
    """

    sigma: float
    unseen: float
    kind: str


VIRTUAL = Prior(sigma=0.02, unseen=0.007, kind="a virtual machine or container")
"""Six series of 12 to 14 runs on a shared virtual machine had medians that ranged over 4 to 10 %, which are standard
deviations of 1.2 to 3 %. What the parts of a run don't show was chosen on other series, 5 minutes long."""

UNKNOWN = Prior(sigma=VIRTUAL.sigma, unseen=VIRTUAL.unseen, kind="a machine that is not known")
MOVING_CLOCK = Prior(sigma=0.015, unseen=0.005, kind="a machine whose clock may change")
FIXED_CLOCK = Prior(sigma=0.005, unseen=0.002, kind="a machine with a fixed clock")
BARE_BOARD = Prior(sigma=FLOOR, unseen=FLOOR, kind="a board that runs nothing but its firmware")


def prior_of(environment: Mapping[str, Any]) -> Prior:
    """Return the prior for the machine that `environment` (`edgewise.run.environment.fingerprint`) describes."""
    if "board" in environment:
        return BARE_BOARD
    if not {"virtualisation", "clock"} <= environment.keys():
        return UNKNOWN
    virtual, clock = environment["virtualisation"], environment["clock"]
    if virtual["hypervisor"] or virtual["container"] != "none seen":
        return VIRTUAL
    return FIXED_CLOCK if clock["governor"] == "performance" and clock["boost"] is False else MOVING_CLOCK


@dataclass(frozen=True, slots=True)
class Within:
    """What the parts of one run tell of the variation between runs.

    Attributes:
        scatter: of runs, relative to the median; None where the run has too few parts.
        words: which parts.
    """

    scatter: Scatter | None
    words: str = ""

    @classmethod
    def of(cls, row: Measurement | None) -> Within:
        """Return what the samples of a measurement tell."""
        found = scatter_of_parts(row.samples, row.session_lengths) if row is not None and row.samples else None
        if row is None or found is None:
            return cls(None)
        ratio = BEYOND if len(row.session_lengths) > 1 else BEYOND_ONE
        return cls(Scatter(ratio * found.variance, GUESS), f"the scatter of {found.degrees + 1:.0f} parts of this run")

    def told(self, whole: Scatter) -> str:
        """Which parts, and whether most of the variation in `whole` is theirs: then a quiet run beside has far less."""
        most = self.scatter is not None and self.scatter.variance > whole.variance / 2.0
        return f"{self.words} (most of it)" if most else self.words

    def with_machine(self, prior: Prior, earlier: Sequence[Scatter] = ()) -> Scatter:
        """Return the variation of runs: what the machine adds, by its kind and `earlier` readings, to what the
        parts show.
        """
        sigma = prior.sigma if self.scatter is None else prior.unseen
        machine = pool([Scatter(sigma**2, GUESS), *earlier], floor=FLOOR**2) if earlier else Scatter(sigma**2, GUESS)
        return add([machine] if self.scatter is None else [machine, self.scatter])


def assumed(prior: Prior, because: str, *, row: Measurement | None = None) -> Variation:
    """Return the variation that a kind of machine and the samples of `row` suggest, with why it is not learnt."""
    within = Within.of(row)
    found = within.with_machine(prior)
    return _assumed(prior, found, [within.told(found)], because)


def _assumed(prior: Prior, found: Scatter, words: Sequence[str], because: str) -> Variation:
    basis = " and ".join(filter(None, words))
    return Variation(
        sigma=math.sqrt(found.variance),
        degrees=None if prior is BARE_BOARD else found.degrees,
        source="assumed",
        method=f"assumed for {prior.kind}{', and from ' if basis else ''}{basis}: {because}",
    )


def stored_history(url: str | None = None) -> History:
    """Return the history in the store at `url` (None: the default store)."""

    def read(machine: str) -> Sequence[Reading]:
        from edgewise.store import open_store

        with open_store(url, create=False) as store:
            return store.readings(machine)

    return read


PERIODS = (("in the last hour", 3600.0), ("in the day before it", 90000.0), ("earlier", math.inf))
"""Title of a period, and how long before now it begins, s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """How a machine's speed varied within a period: blocks of readings, and the half-width of the 95 % interval."""

    title: str
    blocks: int
    half_width: float


class SpeedHistory:
    """The variation of this machine's speed, learnt from earlier runs. Reads the store on first use."""

    def __init__(self, environment: Mapping[str, Any], history: History) -> None:
        self._environment = environment
        self._history = history
        self._read: Sequence[Reading] | None = None
        self._levels: Mapping[str, BetweenRuns] | None = None

    def variation(
        self, job: Job, sessions: Sequence[SessionRecord], *, headline: Measurement | None = None, always: bool = False
    ) -> Variation | None:
        """Return the variation between runs like this one.

        None if no session timed the reference kernels, except for machines on which none ever does (`always`).

        Args:
            headline: the headline of this run so far: how its sessions differ tells of how runs do.
        """
        if not always and not any("reference" in session.facts for session in sessions):
            return None
        spread = job.workload.stopping.spread_s
        if spread is not None and spread >= SPREAD_S and len(sessions) > 2:
            method = f"session starts were spread over {spread / 60:g} min, so the interval already includes it"
            return Variation(sigma=FLOOR, degrees=None, source="spread", method=method)
        return self._variation(readings_of(sessions), job=job, headline=headline)

    def usual(self) -> Variation:
        """Return the variation between runs of any model on this machine."""
        return self._variation(())

    def periods(self, now: float) -> list[Period]:
        """How the machine's speed varied in the last hour, the day before it and earlier, as far as that is known.

        Args:
            now: s since 1970.
        """
        known = [reading for reading in self._earlier() if reading.version == VERSION]
        found, end = [], math.inf
        for title, age in PERIODS:
            begin = now - age
            parts = _of_kernels([reading for reading in known if begin <= reading.at < end]).values()
            end = begin
            if parts:
                worst = max(parts, key=lambda part: _reach(part.scatter))
                half = math.expm1(min(_reach(worst.scatter), LARGEST))
                found.append(Period(title=title, blocks=worst.blocks, half_width=half))
        return found

    def _variation(
        self, readings: Sequence[Reading], *, job: Job | None = None, headline: Measurement | None = None
    ) -> Variation:
        """Return the variation that is learnt, or else what is known so far; `readings` are those of this run."""
        prior, within = prior_of(self._environment), Within.of(headline)
        known = [reading for reading in self._earlier() if reading.version == VERSION]
        own = _own_runs(self._earlier(), job, headline, readings)
        if own is not None:
            part, found, words = own, pool([within.with_machine(prior), own.scatter], floor=FLOOR**2), within.words
            basis = f"{own.blocks} runs of this job over {long_time(own.span_s)}"
        elif kernels := _of_kernels([*known, *readings]) if known else {}:
            choices = {kernel: within.with_machine(prior, [part.scatter]) for kernel, part in kernels.items()}
            kernel, found = max(choices.items(), key=lambda choice: _reach(choice[1]))
            part, words = kernels[kernel], within.told(found)
            basis = f"the reference kernel '{kernel}': {part.blocks} blocks of sessions over {long_time(part.span_s)}"
        else:
            return assumed(prior, TOO_FEW, row=headline)
        if part.is_learnt:
            method = f"learnt from {' and '.join(filter(None, (basis, words)))}"
            variation = Variation(
                sigma=math.sqrt(found.variance), degrees=found.degrees, source="learnt", method=method
            )
        else:
            variation = _assumed(prior, found, [words, basis], TOO_FEW)
        return replace(variation, shift=_shift(self._usual(), readings))

    def _earlier(self) -> Sequence[Reading]:
        """Return the readings of earlier runs."""
        if self._read is None:
            machine = machine_key(self._environment)
            self._read = ()
            with suppress(StoreError):  # a store that can't be read tells nothing
                self._read = self._history(machine) if machine is not None else ()
        return self._read

    def _usual(self) -> Mapping[str, BetweenRuns]:
        """Return the kernels' usual levels; empty if there is too little history."""
        if self._levels is None:
            parts = _of_kernels(self._earlier())
            self._levels = {kernel: part for kernel, part in parts.items() if part.is_learnt}
        return self._levels


TOO_FEW = "the machine has too few earlier runs to learn it"


def _reach(scatter: Scatter) -> float:
    return t_quantile(0.975, scatter.degrees) * math.sqrt(scatter.variance)


def _own_runs(
    earlier: Sequence[Reading], job: Job | None, headline: Measurement | None, readings: Sequence[Reading]
) -> BetweenRuns | None:
    """Return what runs of the same job differ by, this one included; None while there are too few."""
    if job is None or headline is None or (headline.value or 0.0) <= 0.0 or not readings:
        return None
    values = {each.run: (each.at, each.value) for each in earlier if each.job == job.key and (each.value or 0.0) > 0.0}
    newest = [*sorted(values.values())[1 - MOST_OWN :], (readings[0].at, headline.value)]
    if len(newest) < LEAST_OWN:
        return None
    times, levels = np.array(newest).T
    return estimate_between_runs(ReadingBlocks(levels=np.log(levels), noise=0.0, starts=times, ends=times))


def _of_kernels(readings: Sequence[Reading]) -> dict[str, BetweenRuns]:
    """Return the slow part of each kernel's variation; a kernel with less than two blocks is left out."""
    parts = {kernel: estimate_between_runs(_blocks(readings, kernel)) for kernel in KERNELS}
    return {kernel: part for kernel, part in parts.items() if part is not None}


def _blocks(readings: Sequence[Reading], kernel: str) -> ReadingBlocks:
    known = [reading for reading in readings if reading.version == VERSION]
    return join_blocks([reading.at for reading in known], [getattr(reading, kernel) for reading in known])


def shift_from(earlier: Sequence[Reading], readings: Sequence[Reading], *, risk: float) -> float | None:
    """How far the kernels are from their usual times, as the largest logarithm that is unusual; 0 if none is.

    None where `earlier` is too little to learn what is usual, or `readings` too few.

    Args:
        risk: of a machine that is as usual, to be called unusual.
    """
    usual = {kernel: part for kernel, part in _of_kernels(earlier).items() if part.is_learnt}
    if len(usual) < len(KERNELS) or not len(_blocks(readings, KERNELS[0]).levels):
        return None
    return _shift(usual, readings, risk=risk)


def _shift(usual: Mapping[str, BetweenRuns], readings: Sequence[Reading], *, risk: float | None = None) -> float:
    """Return the largest unusual difference of a kernel's time from its usual one, as a logarithm; 0 if none.

    Args:
        risk: as of `shift_from`, shared by the kernels; None means beyond `UNUSUAL` standard deviations.
    """
    shifts = [0.0]
    for kernel, part in usual.items():
        blocks = _blocks(readings, kernel)
        if len(readings) < LEAST_IN_BLOCK or not len(blocks.levels):
            continue
        shift = float(blocks.levels.mean()) - part.level
        scatter = math.sqrt(part.sigma**2 + max(blocks.noise, part.noise) / len(blocks.levels))
        width = UNUSUAL if risk is None else t_quantile(1.0 - risk / (2.0 * len(usual)), part.degrees)
        if abs(shift) > max(width * scatter, LEAST_SHIFT):
            shifts.append(shift)
    return max(shifts, key=abs)


def _quantile(degrees: float | None) -> float:
    return normal_quantile(0.975) if degrees is None else t_quantile(0.975, degrees)


def long_time(seconds: float) -> str:
    """Return a duration in words, such as "3 h"."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def half_width_of(variation: Variation | None) -> float:
    """Return the half-width of the 95 % interval from the variation alone, relative to the value."""
    return math.expm1(min(reach_of(variation), LARGEST))


def reach_of(variation: Variation | None) -> float:
    """Return the same as a logarithm: half the width of the interval of the value's logarithm."""
    if variation is None:
        return normal_quantile(0.975) * FLOOR
    return math.hypot(_quantile(variation.degrees) * variation.sigma, variation.shift, normal_quantile(0.975) * FLOOR)


def widen(interval: Interval, value: float, variation: Variation | None) -> Interval:
    """Return the interval for a re-run on this machine: the variation is added in quadrature to both sides.

    On a scale of logarithms where all is above 0, as a machine gets slower by a factor.
    """
    reach = reach_of(variation)
    if interval.low > 0.0:
        ends = (math.hypot(math.log(end / value), reach) for end in (interval.low, interval.high))
        below, above = (math.exp(min(end, LARGEST)) for end in ends)
        low, high = value / below, min(value * above, sys.float_info.max)
    else:
        reach *= abs(value)
        low, high = value - math.hypot(value - interval.low, reach), value + math.hypot(interval.high - value, reach)
    sigma = FLOOR if variation is None else max(variation.sigma, FLOOR)
    return replace(interval, low=low, high=high, method=f"{interval.method}; {sigma:.2%} (1 σ) between runs is added")


def cautions_about(variation: Variation | None) -> tuple[Caution, ...]:
    """Return the cautions that follow from the variation."""
    if variation is None:
        return ()
    found = []
    if variation.source == "assumed":
        message = f"the variation between runs, ± {half_width_of(variation):.1%}, is {variation.method}"
        found.append(Caution.of("variation-assumed", message))
    if variation.shift:
        factor = math.exp(abs(variation.shift))
        word = "slower" if variation.shift > 0 else "faster"
        message = f"the reference kernel ran {factor:.2f}× {word} than usual on its machine"
        found.append(Caution.of("unusual-speed", message))
    return tuple(found)
