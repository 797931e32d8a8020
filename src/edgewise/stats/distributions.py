"""Quantiles of Student's t and of the normal distribution, from the standard library alone.

Workers on a device have numpy and no scipy; a table would not cover the fractional degrees of freedom that variance
estimates from correlated samples have.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_TINY = 1e-300
_PRECISION = 1e-15
_NORMAL_ABOVE = 1e8
"""From this number of degrees of freedom on, t and normal quantiles agree to better than 1e-7."""


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by the modified Lentz method.

    Source: DLMF 8.17.22 (https://dlmf.nist.gov/8.17#v). For x < (a + 1)/(a + b + 2) it converges in
    O(√max(a, b)) steps.
    """
    c, d = 1.0, 1.0 / max(abs(1.0 - (a + b) * x / (a + 1.0)), _TINY)
    value = d
    for m in range(1, 100_000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            c = 1.0 + numerator / c
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = c if abs(c) > _TINY else _TINY
            value *= d * c
        if abs(d * c - 1.0) < _PRECISION:
            break
    return value


def _beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), 0 ≤ x ≤ 1."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    front = math.exp(log_front)
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(a, b, x) / a
    return 1.0 - front * _beta_fraction(b, a, 1.0 - x) / b


def t_tail(t: float, degrees: float) -> float:
    """P(T > t) for t ≥ 0 and T of Student's distribution: I_x(ν/2, 1/2) / 2 at x = ν/(ν + t²) (DLMF 8.17)."""
    return 0.5 * _beta(degrees / 2.0, 0.5, degrees / (degrees + t * t))


@lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees: float) -> float:
    """Return the quantile of Student's t distribution, to a relative error below 1e-9.

    Args:
        probability: strictly between 0 and 1.
        degrees: degrees of freedom, ≥ 0.5, not necessarily whole; infinity gives the normal quantile.

    Raises:
        ValueError: an argument is out of range.
    """
    if not 0.0 < probability < 1.0 or not degrees >= 0.5:
        raise ValueError(f"no t quantile at probability {probability} with {degrees} degrees of freedom")
    if degrees > _NORMAL_ABOVE:
        return normal_quantile(probability)
    if probability == 0.5:
        return 0.0
    sign = 1.0 if probability > 0.5 else -1.0
    tail = min(probability, 1.0 - probability)
    low, high = 0.0, 1.0
    while t_tail(high, degrees) > tail:
        low, high = high, high * 2.0
    # Newton's method, by halves where a step would leave the bracket.
    half = (degrees + 1.0) / 2.0
    log_peak = math.lgamma(half) - math.lgamma(degrees / 2.0) - 0.5 * math.log(degrees * math.pi)
    at, step = 0.5 * (low + high), math.inf
    while abs(step) > 1e-11 * at and high - low > 1e-11 * high:
        excess = t_tail(at, degrees) - tail
        low, high = (at, high) if excess > 0.0 else (low, at)
        density = math.exp(log_peak - half * math.log1p(at * at / degrees))
        found = at + excess / density if density > 0.0 else math.inf
        found = found if low < found < high else 0.5 * (low + high)
        step, at = found - at, found
    return sign * at


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(probability)


def normal_two_sided(z: float) -> float:
    """P(|Z| ≥ |z|) for a standard normal Z: the p-value of a two-sided test."""
    return math.erfc(abs(z) / math.sqrt(2.0))
