"""Shares of samples: Wilson's interval, and the difference of two shares of the same samples.

Everything is in counts: of n samples, `successes` count. For a pair of models on the same samples, only the samples on
which they differ say anything of the difference: `gained` count for B alone, `lost` for A alone.
"""

from __future__ import annotations

import math

from edgewise.stats.distributions import normal_quantile

UPPER = 0.975
"""Probability below the upper end of an interval: all intervals are 95 % ones."""
_NEGLIGIBLE = 1e-17
_STEPS = 200


def wilson_interval(successes: int, n: int) -> tuple[float, float]:
    """Return the 95 % score interval of a proportion; inside [0, 1], and of some width even at 0 of n and n of n.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).

    Raises:
        ValueError: no samples, or more successes than samples.
    """
    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"{successes} of {n} is not a proportion")
    z = normal_quantile(UPPER)
    share, square = successes / n, z * z
    centre = (share + square / (2.0 * n)) / (1.0 + square / n)
    half = z / (1.0 + square / n) * math.sqrt(share * (1.0 - share) / n + square / (4.0 * n * n))
    # At the ends the formula gives exactly 0 and 1; floating point does not quite.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def mcnemar_exact(lost: int, gained: int) -> float:
    """Return the two-sided p-value of no difference: of `lost` + `gained` fair coins, so few or fewer on one side.

    Never above its level, whatever the numbers. Source: Q. McNemar, "Note on the sampling error of the difference
    between correlated proportions or percentages", Psychometrika 12 (1947); exact form: binomial with 1/2.
    """
    return min(1.0, 2.0 * _tail(min(lost, gained), lost + gained))


def paired_interval(lost: int, gained: int, n: int) -> tuple[float, float]:
    """Return Tango's 95 % score interval of a paired difference of proportions, (gained − lost) / n; inside [−1, 1].

    All differences d that the score test of "the difference is d" does not reject. Source: T. Tango, "Equivalence test
    and confidence interval for the difference in proportions for the paired-sample design", Statistics in Medicine 17
    (1998).

    Raises:
        ValueError: no samples, or more differences than samples.
    """
    if lost < 0 or gained < 0 or lost + gained > n or n < 1:
        raise ValueError(f"{lost} lost and {gained} gained are more than {n} samples")
    z = normal_quantile(UPPER)
    found = (gained - lost) / n
    low = _cross(-1.0, found, z, lost=lost, gained=gained, n=n)
    high = _cross(1.0, found, -z, lost=lost, gained=gained, n=n)
    return low, high


def _cross(outer: float, inner: float, z: float, *, lost: int, gained: int, n: int) -> float:
    """Return where between `inner` (the difference found) and `outer` (±1) the score statistic is z."""
    if inner == outer:
        return outer
    for _ in range(_STEPS):
        middle = 0.5 * (outer + inner)
        if middle in {outer, inner}:
            break
        if abs(_score_statistic(middle, lost=lost, gained=gained, n=n)) > abs(z):
            outer = middle
        else:
            inner = middle
    return 0.5 * (outer + inner)


def _score_statistic(difference: float, *, lost: int, gained: int, n: int) -> float:
    """Return how far the counts are from `difference`, in standard errors under it."""
    a = 2.0 * n
    b = -lost - gained + (2.0 * n - gained + lost) * difference
    c = -lost * difference * (1.0 - difference)
    # The most likely share of `lost` among all if the difference were this one.
    share = (math.sqrt(max(b * b - 4.0 * a * c, 0.0)) - b) / (2.0 * a)
    variance = n * (2.0 * share + difference * (1.0 - difference))
    distance = gained - lost - n * difference
    if variance <= 0.0:
        return 0.0 if distance == 0.0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def _tail(count: int, total: int) -> float:
    """P(X ≤ count) for X of `total` fair coins, for count ≤ total / 2."""
    logarithm = math.lgamma(total + 1) - math.lgamma(count + 1) - math.lgamma(total - count + 1)
    term = math.exp(logarithm - total * math.log(2.0))  # P(X = count)
    parts = [term]
    for k in range(count, 0, -1):
        term *= k / (total - k + 1)
        parts.append(term)
        if term < _NEGLIGIBLE * parts[0]:
            break
    return math.fsum(parts)
