"""Probabilistic bisection: where a series of releases changed, from noisy comparisons with the first of them.

The releases are numbered from 0, which is good, to n, which is bad; the first bad one is one of 1 … n, each as likely
before anything is measured. A comparison of release i with release 0 gives the logarithm of a ratio, with a standard
deviation: about 0 where release i is good, and about that of release n where it is bad. Bayes' rule gives the
probabilities, and the release that halves them is measured next (Burnashev & Zigangirov 1974, Horstein 1963).

What comparisons differ by beyond their own intervals is mostly assumed, and may be wrong by a factor. So the factor is
unknown, too, and the comparisons of one search tell it: ratios that repeat closely decide sooner, others later.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]

SURE = 0.96
"""The search ends where one release has this probability: 95 % and what a wrong standard deviation takes off it."""
FAR = 3.0
"""A ratio this many standard deviations from both levels is of neither."""
DOUBT = 0.6
"""Standard deviation of the logarithm of the factor: that of a variance with `edgewise.run.variation.GUESS` degrees."""
FACTORS = np.exp(np.linspace(-4 * DOUBT, 2 * DOUBT, 19))
STEPS = np.linspace(-2.8, 2.8, 15)
"""Factors, and levels of the bad releases in standard deviations from the measured one, that are summed over."""
MOST = 16.0
"""Squared deviations count as this one at most: no single comparison is beyond doubt."""


@dataclass(slots=True, kw_only=True)
class Search:
    """What is known of the first bad release.

    Attributes:
        number: n.
        change: logarithm of the ratio of release n to release 0.
        spread: its standard deviation between comparisons.
        within: the part of it that the comparison's own interval tells; 0 where all of it is assumed.
        probabilities: of each of the releases 1 … n being the first bad one.
        between: releases whose ratio is far from both levels.
        compared: release, change, spread and part within, of each comparison so far.
    """

    number: int
    change: float
    spread: float
    within: float = 0.0
    probabilities: list[float] = field(init=False)
    between: list[int] = field(default_factory=list)
    compared: list[tuple[int, float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.probabilities = [1.0 / self.number] * self.number

    def update(self, release: int, change: float, spread: float, within: float = 0.0) -> None:
        """Take in a comparison of `release` with release 0."""
        if min(abs(change), abs(change - self.change)) > FAR * math.hypot(spread, self.spread):
            self.between.append(release)
        self.compared.append((release, change, spread, within))
        releases, changes, spreads, parts = np.array(self.compared).T
        deviations = _deviations(spreads, parts)  # (factors, comparisons)
        own = _deviations(np.array([self.spread]), np.array([self.within]))
        # What changed nothing would be found nowhere: the bad releases have at least half of what was measured.
        levels = np.maximum(self.change + STEPS * own, 0.5 * self.change)  # (factors, steps)
        good = _log_likelihood(changes, deviations)
        bad = _log_likelihood(changes - levels[:, :, None], deviations[:, None, :])
        is_bad = np.arange(1, self.number + 1)[:, None] <= releases  # (first bad one, comparisons)
        likelihood = np.einsum("nm,fsm->nfs", is_bad, bad) + np.einsum("nm,fm->nf", ~is_bad, good)[:, :, None]
        prior = -0.5 * (np.log(FACTORS)[:, None] / DOUBT) ** 2 - 0.5 * STEPS**2
        weights = np.exp(likelihood + prior - (likelihood + prior).max()).sum(axis=(1, 2))
        self.probabilities = (weights / weights.sum()).tolist()

    @property
    def first(self) -> tuple[int, float]:
        """The most likely first bad release, and its probability."""
        best = max(range(self.number), key=lambda at: self.probabilities[at])
        return best + 1, self.probabilities[best]

    @property
    def is_sure(self) -> bool:
        """Whether one release is likely enough."""
        return self.first[1] >= SURE

    def next(self, unmeasurable: Collection[int]) -> int | None:
        """Return the release whose comparison halves the probabilities; None where none can tell more."""
        cumulative = 0.0
        halves = []
        for release in range(1, self.number):
            cumulative += self.probabilities[release - 1]
            if release not in unmeasurable and 1e-3 < cumulative < 1 - 1e-3:
                halves.append((abs(cumulative - 0.5), release))
        return min(halves)[1] if halves else None

    def candidates(self, least: float = 0.05) -> Sequence[int]:
        """Return the releases that may be the first bad one, the likeliest first."""
        order = sorted(range(self.number), key=lambda at: -self.probabilities[at])
        return [at + 1 for at in order if self.probabilities[at] >= least]


def _deviations(spreads: Array, parts: Array) -> Array:
    """Return standard deviations with each factor, shape (factors, comparisons): the part within a comparison is
    measured.
    """
    beyond = np.maximum(spreads**2 - parts**2, 0.0)
    found: Array = np.sqrt(parts**2 + FACTORS[:, None] ** 2 * beyond)
    return found


def _log_likelihood(differences: Array, deviations: Array) -> Array:
    """Of normal distributions whose tails are cut off."""
    found: Array = -np.log(deviations) - 0.5 * np.minimum((differences / deviations) ** 2, MOST)
    return found
