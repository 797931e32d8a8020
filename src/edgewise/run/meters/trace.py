"""What becomes of the samples of one window: the integral of a power, the difference of a counter, a mean."""

from __future__ import annotations

import math
from statistics import fmean

from edgewise.run.meters.base import Coverage, NoReading, Reading

LONGEST_GAP_S = 1.0
"""Samples further apart than this say too little about the power between them."""


class PowerTrace:
    """Power samples of one window, integrated by the trapezoid rule over their own time stamps.

    Args:
        longest_gap_s: longest time between two samples, in s. A longer one is a gap, or a clock that jumped.

    Attributes:
        joules: the integral so far.
        seconds: from the first sample to the last one.
        low, high: smallest and largest sample, W.
    """

    def __init__(self, *, longest_gap_s: float = LONGEST_GAP_S) -> None:
        self._longest_gap_s = longest_gap_s
        self._last: tuple[float, float] | None = None
        self.joules = self.seconds = 0.0
        self.low, self.high = float("inf"), float("-inf")

    def add(self, at_s: float, watts: float) -> None:
        """Add a sample taken at `at_s` on the meter's clock, in s.

        Raises:
            NoReading: the clock went back, the last sample is too long ago, or `watts` is not finite; the window has no
                energy then.
        """
        if not math.isfinite(watts):
            raise NoReading(f"a power sample of {watts} W")
        if self._last is not None:
            step, (_, before) = at_s - self._last[0], self._last
            if step < 0:
                raise NoReading(f"the time stamps of the power samples went back by {-step:.3g} s")
            if step > self._longest_gap_s:
                limit = f"the limit is {self._longest_gap_s:g} s"
                raise NoReading(f"{step:.3g} s between two power samples, or their clock jumped; {limit}")
            self.joules += (before + watts) / 2 * step
            self.seconds += step
        self._last = (at_s, watts)
        self.low, self.high = min(self.low, watts), max(self.high, watts)

    def reading(self, method: str, *, part: str = "", covers: Coverage = "") -> Reading:
        """Return the energy of the window. Raises `NoReading` with fewer than two samples or no energy above 0."""
        if self.seconds <= 0:
            raise NoReading("fewer than two power samples in the window")
        if self.joules <= 0:
            raise NoReading(f"the power samples add up to {self.joules:.3g} J")
        method = f"{method}, sampled and integrated by the trapezoid rule"
        return Reading(
            metric="energy", value=self.joules, method=method, seconds=self.seconds, part=part, covers=covers
        )


class EnergyCounter:
    """A counter of energy that only grows, from the first to the last reading of a window."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)

    def add(self, at_s: float, joules: float) -> None:
        """Add a reading of the counter. Raises `NoReading` where it went back: it wrapped around or was reset."""
        if self._first is None:
            self._first = (at_s, joules)
        elif joules < self._last[1]:
            raise NoReading(f"the energy counter went back by {self._last[1] - joules:.3g} J")
        self._last = (at_s, joules)

    def reading(self, method: str, *, part: str = "", covers: Coverage = "") -> Reading:
        """Return the energy of the window. Raises `NoReading` where the counter stood still."""
        begin_s, first = self._first or self._last
        end_s, last = self._last
        if last <= first or end_s <= begin_s:
            raise NoReading("the energy counter stood still in the window")
        method = f"{method}, difference of a counter"
        seconds = end_s - begin_s
        return Reading(metric="energy", value=last - first, method=method, seconds=seconds, part=part, covers=covers)


class MeanShare:
    """The mean of samples of a utilisation, 0 to 1."""

    def __init__(self) -> None:
        self._samples: list[float] = []

    def add(self, at_s: float, share: float) -> None:
        """Add a sample."""
        del at_s  # samples come at an even pace
        self._samples.append(share)

    def reading(self, method: str, *, part: str = "", covers: Coverage = "") -> Reading:
        """Return the mean with the smallest and the largest sample. Raises `NoReading` without samples."""
        del covers  # only an energy has one
        if not self._samples:
            raise NoReading("no sample in the window")
        low, high = min(self._samples), max(self._samples)
        value = min(max(fmean(self._samples), low), high)  # rounding may leave the range
        method = f"{method}, mean over samples"
        return Reading(metric="gpu_utilization", value=value, low=low, high=high, method=method, part=part)


Window = type[PowerTrace | EnergyCounter | MeanShare]
"""What becomes of the samples of a rail."""
