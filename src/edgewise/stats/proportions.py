"""Shares of samples: Wilson's interval, and the difference of two shares of the same samples.

Everything is in counts: of n samples, `successes` count. For a pair of models on the same samples, only the samples on
which they differ say anything of the difference: `gained` count for B alone, `lost` for A alone.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgewise.stats.distributions import normal_quantile

UPPER = 0.975
"""Probability below the upper end of an interval: all intervals are 95 % ones."""
POWER = 0.8
"""Share of cases in which as many samples as `samples_to_decide` names decide."""
MOST_TIMES = 10
"""How many times the samples that there are its upper end may be: beyond, they tell nothing of use."""
_NEGLIGIBLE = 1e-17
_STEPS = 60
_POINTS = 4001


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
    """Return a 95 % interval of a paired difference of proportions, (gained − lost) / n; inside [−1, 1].

    It leaves out 0 exactly where `mcnemar_exact` is below 5 %. The difference is the share of samples that differ,
    times how much more of them gained than lost; each factor has its exact interval (Clopper and Pearson's), and the
    two distributions that these intervals come from are combined. Source: M. P. Fay, K. Lumbard, "Confidence intervals
    for difference in proportions for matched pairs compatible with exact McNemar's or sign tests", Statistics in
    Medicine 40 (2021).

    Raises:
        ValueError: no samples, or more differences than samples.
    """
    _check_counts(lost, gained, n)
    return _lower_end(lost, gained, n), -_lower_end(gained, lost, n)


def _check_counts(lost: int, gained: int, n: int) -> None:
    if lost < 0 or gained < 0 or lost + gained > n or n < 1:
        raise ValueError(f"{lost} lost and {gained} gained are more than {n} samples")


def samples_to_decide(lost: int, gained: int, n: int, *, limit: float) -> tuple[int, int] | None:
    """Return how many samples put `paired_interval` on one side of a limit in 80 % of cases: at least, at most.

    It assumes that the loss stays what it is in these n. How often answers change is known from as few as changed: the
    two numbers are those for the ends of Wilson's 95 % interval of that share.

    Args:
        limit: the loss to decide about, as a share: 0.01 for one percentage point.

    Returns:
        Numbers of all samples, those n included; None where the larger one is above 10 n: too few answers changed, or
        the loss is too near the limit.

    Raises:
        ValueError: no samples, or more differences than samples.
    """
    _check_counts(lost, gained, n)
    loss = (lost - gained) / n
    least, most = (
        _samples_at(loss, max(share, abs(loss)), n, limit=limit) for share in wilson_interval(lost + gained, n)
    )
    return None if least is None or most is None else (least, most)


def _samples_at(loss: float, changing: float, n: int, *, limit: float) -> int | None:
    """Return the number of samples that decides where the share `changing` of answers changes; None above 10 `n`.

    The first guess is the normal approximation, ((z₀.₉₇₅ + z₀.₈) · σ / (limit − loss))², with σ² = p + q − (p − q)² of
    the shares p lost and q gained. Source: J. Nam, "Establishing equivalence of two treatments and sample size
    requirements in matched-pairs design", Biometrics 53 (1997). From there the number grows until the interval itself,
    which is exact and so a little wider, decides at the loss that 20 % of samplings exceed towards the limit.
    """
    spread, unlucky = math.sqrt(changing - loss**2), normal_quantile(POWER)
    towards = math.copysign(unlucky * spread, limit - loss)

    def decides(size: int) -> bool:
        net, changed = loss * size + towards * math.sqrt(size), min(changing * size, size)
        more, less = (min(max(0, round((changed + sign * net) / 2.0)), size) for sign in (1.0, -1.0))
        low, high = paired_interval(min(more, size - less), less, size)
        return -low <= limit if loss < limit else -high > limit

    first = ((normal_quantile(UPPER) + unlucky) * spread) ** 2 / max((limit - loss) ** 2, 1e-18)
    least = most = max(n, math.ceil(min(first, MOST_TIMES * n)))
    while not decides(most):
        if most >= MOST_TIMES * n:
            return None
        least, most = most, min(math.ceil(most * 1.2), MOST_TIMES * n)
    while most - least > max(1, most // 100):
        middle = (least + most) // 2
        least, most = (least, middle) if decides(middle) else (middle, most)
    return most


def _lower_end(lost: int, gained: int, n: int) -> float:
    """Return the lower end of `paired_interval`: the 2.5 % quantile of (2 · gain − 1) · share.

    Where the product is negative, `share` is the larger of the two that Clopper and Pearson's interval rests on.
    """
    differing = lost + gained
    gain, weights = _beta_points(gained, lost + 1)
    above = gained > lost and mcnemar_exact(lost, gained) < 2.0 * (1.0 - UPPER)
    excess = 2.0 * gain - 1.0
    kept = excess > 0.0 if above else excess < 0.0
    excess, weights = excess[kept], weights[kept]
    share, chances = _beta_points(differing, n - differing + 1) if above else _beta_points(differing + 1, n - differing)
    below = np.cumsum(chances) - 0.5 * chances
    wanted = UPPER if above else 1.0 - UPPER
    low, high = (0.0, 1.0) if above else (-1.0, 0.0)
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        # Of the points on this side of 0: how likely the product is farther from 0 than `middle`.
        beyond = float(weights @ (1.0 - np.interp(middle / excess, share, below, left=0.0, right=1.0)))
        if (beyond > wanted) == above:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _beta_points(a: float, b: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ascending values of a beta distribution with their probabilities: all of 0 for a = 0, of 1 for b = 0."""
    if a <= 0 or b <= 0:
        return np.array([0.0 if a <= 0 else 1.0]), np.array([1.0])
    # Evenly spaced in the logit, where the density falls at least exponentially on both sides.
    mode, spread = math.log(a / b), 9.0 * math.sqrt(1.0 / a + 1.0 / b)
    logit = np.linspace(mode - spread - 40.0 / a, mode + spread + 40.0 / b, _POINTS)
    density = -a * np.logaddexp(0.0, -logit) - b * np.logaddexp(0.0, logit)
    weights = np.exp(density - density.max())
    return 1.0 / (1.0 + np.exp(-logit)), weights / weights.sum()


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
