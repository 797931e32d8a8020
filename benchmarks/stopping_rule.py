"""The running comparison of `edgewise.stats.comparison` on thousands of trials at once, and how it errs.

A trial is a row of log ratios, one per pair of fresh processes. `judge` does to all rows what `contrast_pairs` and
`decide` do to one; `disagreements` checks that they agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgewise.stats import comparison
from edgewise.stats.comparison import LEVEL, LOOKS, RISK, contrast_pairs, decide
from edgewise.stats.distributions import t_quantile

UNDECIDED = 9
MARGIN = 0.03
BATCH = 50_000
WORDS = {"lower": -1, "same": 0, "higher": 1, "inconclusive": UNDECIDED}

Generator = np.random.Generator
Draw = Callable[[Generator, tuple[int, int]], np.ndarray]


@dataclass(frozen=True)
class Judged:
    """What each trial came to; arrays of shape (trials,).

    Attributes:
        verdict: −1 lower, 0 same, 1 higher, `UNDECIDED`.
        pairs: at which it was said, or the last look.
        centre, error: of the log ratio, then.
    """

    verdict: np.ndarray
    pairs: np.ndarray
    centre: np.ndarray
    error: np.ndarray

    def share(self, *verdicts: int) -> float:
        """Of the trials with one of these verdicts."""
        return float(np.isin(self.verdict, verdicts).mean())

    def covered(self, truth: float, level: float) -> float:
        """Share of trials whose interval at a nominal level holds the true log ratio."""
        reach = np.zeros(len(self.pairs))
        for count in np.unique(self.pairs):
            reach[self.pairs == count] = t_quantile((1.0 + level) / 2.0, int(count) - 1)
        return float((np.abs(self.centre - truth) <= reach * self.error).mean())


def looks_within(most: int) -> tuple[int, ...]:
    """Return the looks of who can afford `most` pairs: a last one where the budget ends."""
    return (*(look for look in LOOKS if look < most), most)


def moments(log_ratios: np.ndarray, looks: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Means and their standard errors at every look; shape (trials, looks) each."""
    counts = np.asarray(looks)
    sums, squares = (np.cumsum(values, axis=1)[:, counts - 1] for values in (log_ratios, log_ratios**2))
    means = sums / counts
    return means, np.sqrt(np.maximum(squares / counts - means**2, 0.0) / (counts - 1))


def judge(log_ratios: np.ndarray, *, margin: float = MARGIN, tests: int = 1) -> Judged:
    """Look after look until something can be said.

    Args:
        log_ratios: shape (trials, pairs); the pairs are all that can be afforded.
        tests: metrics tested together, of which this one is the most significant (Holm).
    """
    looks = looks_within(log_ratios.shape[1])
    means, errors = moments(log_ratios, looks)
    held, critical = (
        np.array([t_quantile(1.0 - risk / 2.0, look - 1) for look in looks])
        for risk in ((1.0 - LEVEL) / comparison.INTERVAL_FACTOR, RISK / comparison.RISK_FACTOR / tests)
    )
    same = np.abs(means) + held * errors <= math.log1p(margin)
    different = (np.abs(means) > critical * errors) & ~same
    decided = same | different
    at = np.where(decided.any(axis=1), decided.argmax(axis=1), len(looks) - 1)
    rows = np.arange(len(means))
    centre = means[rows, at]
    verdict = np.where(different[rows, at], np.sign(centre), np.where(same[rows, at], 0, UNDECIDED)).astype(int)
    return Judged(verdict, np.asarray(looks)[at], centre, errors[rows, at])


def disagreements(log_ratios: np.ndarray, *, tests: int = 1) -> int:
    """Trials on which `judge` and the product's own code part."""
    fast = judge(log_ratios, tests=tests)
    parted = 0
    for row, verdict, pairs in zip(log_ratios, fast.verdict, fast.pairs, strict=True):
        for look in looks_within(len(row)):
            contrast = contrast_pairs(np.ones(look), np.exp(row[:look]), sequential=True)
            raw = contrast.p_value
            said = decide(contrast, margin=MARGIN, p_adjusted=None if raw is None else raw * tests)
            if said != "inconclusive":
                break
        parted += (WORDS[said], look) != (verdict, pairs)
    return parted


def factor_for(risk: float, *, trials: int, seed: int, looks: Sequence[int] = LOOKS) -> float:
    """Return what `risk` must be divided by at each look so that it is the risk over all of them, for normal
    differences.
    """
    generator = np.random.default_rng(seed)
    extremes = []
    for begin in range(0, trials, BATCH):
        means, errors = moments(generator.standard_normal((min(BATCH, trials - begin), looks[-1])), looks)
        extremes.append(np.abs(means / errors))
    scores = np.concatenate(extremes)
    # The nominal risk at which the share of trials that cross at some look is `risk`, by halving.
    low, high = risk / 50.0, risk
    while high / low > 1.0005:
        middle = math.sqrt(low * high)
        critical = [t_quantile(1.0 - middle / 2.0, look - 1) for look in looks]
        crossed = float((scores > critical).any(axis=1).mean())
        low, high = (low, middle) if crossed > risk else (middle, high)
    return risk / high


def _standard(values: np.ndarray, sd: float) -> np.ndarray:
    return values / sd


def _balanced(generator: Generator, shape: tuple[int, int]) -> np.ndarray:
    """+1 and −1 in random order within each two pairs."""
    first = np.where(generator.random((shape[0], (shape[1] + 1) // 2, 1)) < 0.5, 1.0, -1.0)
    return np.concatenate([first, -first], axis=2).reshape(shape[0], -1)[:, : shape[1]]


PAIR_NOISE: dict[str, Draw] = {
    "normal": lambda generator, shape: generator.standard_normal(shape),
    "heavy (t, 3 degrees)": lambda generator, shape: _standard(generator.standard_t(3, shape), math.sqrt(3.0)),
    "two modes on each side": lambda generator, shape: _standard(
        (generator.random(shape) < 0.5) * 1.0
        - (generator.random(shape) < 0.5)
        + 0.1 * generator.standard_normal(shape),
        math.sqrt(0.51),
    ),
    "rare modes (10 %)": lambda generator, shape: _standard(
        (generator.random(shape) < 0.1) * 1.0
        - (generator.random(shape) < 0.1)
        + 0.1 * generator.standard_normal(shape),
        math.sqrt(0.19),
    ),
    "places (± 1)": lambda generator, shape: _standard(
        np.where(generator.random(shape) < 0.5, 1.0, -1.0) + 0.1 * generator.standard_normal(shape), math.sqrt(1.01)
    ),
    "places, balanced": lambda generator, shape: _standard(
        _balanced(generator, shape) + 0.1 * generator.standard_normal(shape), math.sqrt(1.01)
    ),
    "skewed (log-normal)": lambda generator, shape: _standard(
        np.exp(0.5 * generator.standard_normal(shape)) - math.exp(0.125),
        math.sqrt((math.exp(0.25) - 1.0) * math.exp(0.25)),
    ),
    "very skewed (exponential)": lambda generator, shape: generator.exponential(1.0, shape) - 1.0,
}
"""Differences of a pair, mean 0, standard deviation 1. Where A and B differ only in scale, they are symmetrical; the
skewed ones are B whose processes scatter in another way than A's. Places: of the two processes of a pair, one is
started first (or gets the slower core) and suffers for it; balanced where two successive pairs have opposite orders."""
