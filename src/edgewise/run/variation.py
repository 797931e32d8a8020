"""How a machine's speed varies from run to run: learnt from earlier runs on it, otherwise assumed from its kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from edgewise.errors import StoreError
from edgewise.record import Caution, Job, SessionRecord, Variation
from edgewise.record.reference import KERNELS, Reading, machine_key, readings_of
from edgewise.run.reference import VERSION
from edgewise.stats.between_runs import LEAST_IN_BLOCK, BetweenRuns, ReadingBlocks, estimate_between_runs, join_blocks
from edgewise.stats.distributions import normal_quantile, t_quantile
from edgewise.stats.intervals import Interval

FLOOR = 5e-4
"""Relative standard deviation between runs of an unchanged model on the quietest machine tested (measured with
``benchmarks/repeatability.py``). Every interval of a time includes it."""

SPREAD_S = 300.0
"""Sessions spread over at least this time already show the slow part of the variation in their own scatter."""

UNUSUAL, LEAST_SHIFT = 3.0, 0.03
"""A reference time is unusual if it differs by more than this many standard deviations and more than this share."""

History = Callable[[str], Sequence[Reading]]
"""Function that returns the readings of earlier runs on a machine, given its `machine_key`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Relative standard deviation assumed for a kind of machine that has no history yet."""

    sigma: float
    kind: str


VIRTUAL = Prior(sigma=0.02, kind="a virtual machine or container")
"""Six series of 12 to 14 runs on a shared virtual machine had medians that ranged over 4 to 10 %, which are standard
deviations of 1.2 to 3 %."""

UNKNOWN = Prior(sigma=VIRTUAL.sigma, kind="a machine that is not known")
MOVING_CLOCK = Prior(sigma=0.015, kind="a machine whose clock may change")
FIXED_CLOCK = Prior(sigma=0.005, kind="a machine with a fixed clock")
BARE_BOARD = Prior(sigma=FLOOR, kind="a board that runs nothing but its firmware")


def prior_of(environment: Mapping[str, Any]) -> Prior:
    """Return the prior for the machine that `environment` (`edgewise.run.environment.fingerprint`) describes."""
    if "board" in environment:
        return BARE_BOARD
    virtual, clock = environment["virtualisation"], environment["clock"]
    if virtual["hypervisor"] or virtual["container"] != "none seen":
        return VIRTUAL
    return FIXED_CLOCK if clock["governor"] == "performance" and clock["boost"] is False else MOVING_CLOCK


def assumed(prior: Prior, because: str) -> Variation:
    """Return the variation that a prior assumes, with the reason that it is not learnt."""
    method = f"assumed for {prior.kind}: {because}"
    return Variation(sigma=prior.sigma, degrees=None, source="assumed", method=method)


def stored_history(url: str | None = None) -> History:
    """Return the history in the store at `url` (None: the default store)."""

    def read(machine: str) -> Sequence[Reading]:
        from edgewise.store import open_store

        with open_store(url, create=False) as store:
            return store.readings(machine)

    return read


class SpeedHistory:
    """The variation of this machine's speed, learnt from earlier runs. Reads the store on first use."""

    def __init__(self, environment: Mapping[str, Any], history: History) -> None:
        self._environment = environment
        self._history = history
        self._found: dict[str, BetweenRuns] | None = None

    def variation(self, job: Job, sessions: Sequence[SessionRecord], *, always: bool = False) -> Variation | None:
        """Return the variation between runs like this one.

        None if no session timed the reference kernels, except for machines on which none ever does (`always`).
        """
        if not always and not any("reference" in session.facts for session in sessions):
            return None
        spread = job.workload.stopping.spread_s
        if spread is not None and spread >= SPREAD_S and len(sessions) > 2:
            method = f"session starts were spread over {spread / 60:g} min, so the interval already includes it"
            return Variation(sigma=FLOOR, degrees=None, source="spread", method=method)
        return self._variation(readings_of(sessions))

    def usual(self) -> Variation:
        """Return the variation between runs of any model on this machine."""
        return self._variation(())

    def _variation(self, readings: Sequence[Reading]) -> Variation:
        """Return the variation of the kernel that varies most; `readings` are those of this run."""
        slow = self._slow_parts()
        if not slow:
            return assumed(prior_of(self._environment), "this machine has too few earlier runs to learn it")
        kernel, part = max(slow.items(), key=lambda item: _quantile(item[1].degrees) * item[1].sigma)
        method = (
            f"learnt from the reference kernel '{kernel}': {part.blocks} blocks of sessions over {_long(part.span_s)}"
        )
        return Variation(
            sigma=max(part.sigma, FLOOR),
            degrees=part.degrees,
            source="learnt",
            method=method,
            shift=_shift(slow, readings),
        )

    def _slow_parts(self) -> dict[str, BetweenRuns]:
        """Return the slow part of each kernel's variation; empty if there is too little history."""
        if self._found is None:
            machine = machine_key(self._environment)
            readings: Sequence[Reading] = ()
            with suppress(StoreError):  # a store that can't be read tells nothing
                readings = self._history(machine) if machine is not None else ()
            readings = [reading for reading in readings if reading.version == VERSION]
            parts = {kernel: estimate_between_runs(_blocks(readings, kernel)) for kernel in KERNELS} if readings else {}
            self._found = {kernel: part for kernel, part in parts.items() if part is not None}
        return self._found


def _blocks(readings: Sequence[Reading], kernel: str) -> ReadingBlocks:
    return join_blocks([reading.at for reading in readings], [getattr(reading, kernel) for reading in readings])


def _shift(slow: Mapping[str, BetweenRuns], readings: Sequence[Reading]) -> float:
    """Return the largest unusual difference of a kernel's time from its usual one, as a logarithm; 0 if none."""
    shifts = [0.0]
    for kernel, part in slow.items():
        blocks = _blocks(readings, kernel)
        if len(readings) < LEAST_IN_BLOCK or not len(blocks.levels):
            continue
        shift = float(blocks.levels.mean()) - part.level
        usual = math.sqrt(part.sigma**2 + max(blocks.noise, part.noise) / len(blocks.levels))
        if abs(shift) > max(UNUSUAL * usual, LEAST_SHIFT):
            shifts.append(shift)
    return max(shifts, key=abs)


def _quantile(degrees: float | None) -> float:
    return normal_quantile(0.975) if degrees is None else t_quantile(0.975, degrees)


def _long(seconds: float) -> str:
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def reach_of(variation: Variation | None) -> float:
    """Return the half-width of the 95 % interval from the variation alone, relative to the value."""
    if variation is None:
        return normal_quantile(0.975) * FLOOR
    return math.hypot(_quantile(variation.degrees) * variation.sigma, variation.shift, normal_quantile(0.975) * FLOOR)


def widen(interval: Interval, value: float, variation: Variation | None) -> Interval:
    """Return the interval for a re-run on this machine: the variation is added in quadrature to both sides."""
    reach = reach_of(variation) * abs(value)
    low, high = value - math.hypot(value - interval.low, reach), value + math.hypot(interval.high - value, reach)
    if low <= 0.0 < interval.low:
        low = value * value / high  # a time stays above 0: the same factor on both sides
    sigma = FLOOR if variation is None else max(variation.sigma, FLOOR)
    return replace(interval, low=low, high=high, method=f"{interval.method}; {sigma:.2%} (1 σ) between runs is added")


def cautions_about(variation: Variation | None) -> tuple[Caution, ...]:
    """Return the cautions that follow from the variation."""
    if variation is None:
        return ()
    found = []
    if variation.source == "assumed":
        message = f"the variation between runs, ± {reach_of(variation):.1%}, is {variation.method}"
        found.append(Caution.of("variation-assumed", message))
    if variation.shift:
        factor = math.exp(abs(variation.shift))
        word = "slower" if variation.shift > 0 else "faster"
        message = f"the reference kernel ran {factor:.2f}× {word} than usual on this machine"
        found.append(Caution.of("unusual-speed", message))
    return tuple(found)
