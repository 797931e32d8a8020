"""Is B different from A? Ratios from replicates, their intervals, and verdicts that keep their error rate.

The unit of replication is the fresh process: samples of one process are no independent evidence of what the next
one will show. Everything here works on one number per process (its median, say) and on logarithms, so that A over B and
B over A give the same verdict.

*Pairs.* Where processes of A and B took turns, the difference of a pair is free of whatever moved slowly under both.
Student's t on those differences is exact for normal ones and conservative for heavy tails.

*Looks.* Who measures until the answer is clear looks many times, and each look is a chance to be fooled. Looks come at
`LOOKS` pairs; the probability of an error is divided by a factor such that the chance over all looks together is the
one that is quoted (Pocock, "Group sequential methods in the design and analysis of clinical trials", Biometrika, 1977).
The factors are simulated for Student's t at these looks in ``benchmarks/decisions.py``.

*Verdict.* Different needs two things: the ratio differs from 1 with an error risk of `RISK`, and a difference that
matters can't be excluded. Same needs the 95 % interval that holds over all looks inside the margin of what doesn't
matter (two one-sided tests: Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from edgewise.errors import BadInput
from edgewise.stats.between_runs import Scatter
from edgewise.stats.distributions import normal_quantile, normal_two_sided, t_quantile, t_tail
from edgewise.stats.proportions import mcnemar_exact, paired_interval

Decision = Literal["lower", "higher", "same", "inconclusive"]

RISK = 0.01
"""Probability, over all looks and metrics together, of a difference where there is none."""

LOOKS = (5, 8, 12, 18, 27, 40, 60, 90)
"""Numbers of pairs at which a running comparison is judged."""

RISK_FACTOR = 6.6
"""What an error risk of 1 % or less is divided by at each of `LOOKS`."""

INTERVAL_FACTOR = 5.5
"""The same for the 5 % of an interval that is to hold at all of `LOOKS` at once."""

STOPPED_LEVEL = 0.966
"""Nominal level of the interval that is quoted after stopping at one of `LOOKS`: where the data choose the look, a
nominal 95 % covers as little as 90 %, the interval that holds at all looks up to 99 %. This one covers 93 to 97 % but
for a few true ratios just inside the margin with much scatter (91 %) and for scatter that no look decides (97.5 %)."""

LEVEL = 0.95
_RISKS = (RISK, 1.0 - LEVEL, 1.0)
_RISKS_AT_A_LOOK = (RISK / RISK_FACTOR, 1.0 - STOPPED_LEVEL, 1.0)
"""What each of `_RISKS` is at one of `LOOKS`: that of a verdict, and that of the interval that is quoted."""
LEAST_REPLICATES = 3
"""Fewer processes tell too little of how far the next one may be."""

MOST_REPLICATES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """B over A on a logarithmic scale, with its standard error.

    Attributes:
        log_ratio: ln(B / A).
        error: standard error of it; 0 where the values are exact or don't vary, None where it can't be known.
        degrees: degrees of freedom of that error; infinite for a known one.
        replicates: pairs, or processes of the smaller side.
        sequential: whether the data decided when to stop.
        method: how all that came about, in words.
        doubt: why no verdict can rest on it; empty where one can.
        exact_p: the p-value of a ratio of 1 by an exact test, where there is one.
        exact_ends: the 95 % interval of the logarithm that belongs to `exact_p`.
        statistic, rivals: what the ratio is of, and by name the same ratio of other statistics that say something else:
            intervals then span all, and a difference needs all on one side. Empty where there is one ratio.
    """

    log_ratio: float
    error: float | None
    degrees: float
    replicates: int
    method: str
    sequential: bool = False
    doubt: str = ""
    exact_p: float | None = None
    exact_ends: tuple[float, float] | None = None
    statistic: str = ""
    rivals: tuple[tuple[str, Contrast], ...] = ()

    @property
    def ratio(self) -> float:
        """B / A."""
        return _exp(self.log_ratio)

    @property
    def p_value(self) -> float | None:
        """Two-sided, of a ratio of 1, over all looks; None without an error.

        Below 5 % exactly where `interval` leaves out 1.
        """
        return self.p_of(0.0)

    def inverse(self) -> Contrast:
        """Return A over B."""
        ends = self.exact_ends and (-self.exact_ends[1], -self.exact_ends[0])
        rivals = tuple((name, rival.inverse()) for name, rival in self.rivals)
        return replace(self, log_ratio=-self.log_ratio, exact_ends=ends, rivals=rivals)

    def p_of(self, log_ratio: float) -> float | None:
        """Two-sided p-value of a true ratio of ``e^log_ratio``, over all looks; None without an error."""
        if self.error is None:
            return None
        if self.rivals:
            every = (replace(self, rivals=()), *(rival for _, rival in self.rivals))
            if len({each.log_ratio > log_ratio for each in every}) > 1:
                return 1.0
            return max((p for each in every if (p := each.p_of(log_ratio)) is not None), default=None)
        if log_ratio == 0.0 and self.exact_p is not None:
            return self.exact_p
        distance = abs(self.log_ratio - log_ratio)
        if self.error == 0.0:
            return 1.0 if distance == 0.0 else 0.0
        raw = _two_sided(distance / self.error, self.degrees)
        return risk_over_looks(raw) if self.sequential else raw

    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the ratio that is quoted; None without an error."""
        found = self._span(1.0 - STOPPED_LEVEL if self.sequential else 1.0 - LEVEL)
        return None if found is None else (_exp(found[0]), _exp(found[1]))

    def held_interval(self, risk: float = 1.0 - LEVEL) -> tuple[float, float] | None:
        """Return an interval of the *logarithm* that holds at all looks at once with 1 − `risk`; verdicts rest
        on it.
        """
        return self._span(risk / INTERVAL_FACTOR if self.sequential else risk)

    def proof_interval(self, p_adjusted: float | None = None) -> tuple[float, float] | None:
        """Return the interval of the ratio that a verdict of a difference rests on; None without an error.

        It holds with 1 − `RISK` over all looks and metrics: it leaves out 1 exactly where `p_adjusted` is below `RISK`.

        Args:
            p_adjusted: `p_value` among those of all metrics; None where there is no other.
        """
        p_value = self.p_value
        tests = p_adjusted / p_value if p_value and p_adjusted else 1.0
        found = self._span(RISK / tests / RISK_FACTOR if self.sequential else RISK / tests)
        return None if found is None else (_exp(found[0]), _exp(found[1]))

    def _span(self, risk: float) -> tuple[float, float] | None:
        """Return the interval of the logarithm that holds with 1 − `risk`, over all statistics."""
        every = (self, *(rival for _, rival in self.rivals))
        known = [ends for each in every if (ends := each._ends(risk)) is not None]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else None

    def _ends(self, risk: float) -> tuple[float, float] | None:
        if self.error is None:
            return None
        reach = t_quantile(1.0 - risk / 2.0, self.degrees) if self.error else 0.0
        if self.exact_ends is None:
            return self.log_ratio - self.error * reach, self.log_ratio + self.error * reach
        wider = reach / normal_quantile(0.5 + LEVEL / 2.0)
        low, high = (self.log_ratio + (end - self.log_ratio) * wider for end in self.exact_ends)
        return low, high


def contrast_pairs(
    a: Sequence[float], b: Sequence[float], *, sequential: bool, scatter: Scatter | None = None
) -> Contrast:
    """From processes that took turns: ``a[i]`` and ``b[i]`` belong together.

    Args:
        a, b: one positive value per process, shape (n,) each, n ≥ 1.
        scatter: variance of a pair's log ratio as other processes tell it. Where each process draws one of two speeds
            when it starts, a few pairs may all draw the same: a larger variance than their own is pooled with it.

    Raises:
        BadInput: unequal lengths, no values, or one that is not positive and finite.
    """
    if len(a) != len(b):
        raise BadInput(f"pairs need the same number of values of A and B, not {len(a)} and {len(b)}")
    differences = _logarithms(b) - _logarithms(a)
    count = len(differences)
    variance, degrees = float(differences.var(ddof=1)) if count > 1 else 0.0, float(max(1, count - 1))
    is_pooled = scatter is not None and scatter.variance > variance
    if scatter is not None and is_pooled:
        variance = (degrees * variance + scatter.degrees * scatter.variance) / (degrees + scatter.degrees)
        degrees += scatter.degrees
    return Contrast(
        log_ratio=float(differences.mean()),
        error=math.sqrt(variance / count) if count > 1 else None,
        degrees=degrees,
        replicates=count,
        sequential=sequential,
        method=f"Student's t on the log ratios of {count} pair{'s' if count > 1 else ''} of fresh processes"
        + (", and on how much other processes of the two differed" if is_pooled else "")
        + (", corrected for several looks" if sequential else ""),
        doubt="" if count >= LEAST_REPLICATES else f"{count} pair{'s' if count > 1 else ''} of processes: too few",
    )


def contrast_groups(a: Sequence[float], b: Sequence[float], *, error: float = 0.0) -> Contrast:
    """From processes of A and of B that were measured apart.

    Welch's t with Satterthwaite's degrees of freedom. With one process on a side, its error is taken from the other
    side (three processes at least); with one on both, nothing is known of how processes differ: there is no interval.

    Args:
        a, b: one positive value per process, shapes (k,) and (m,).
        error: a standard error of the logarithm that more processes do not reduce; added in quadrature.

    Raises:
        BadInput: no values, or one that is not positive and finite.
    """
    first, second = _logarithms(a), _logarithms(b)
    centre, counts = float(second.mean() - first.mean()), (len(first), len(second))
    few = min(counts)
    if few >= 2:
        parts = [float(values.var(ddof=1)) / len(values) for values in (first, second)]
        variance = sum(parts)
        bottom = sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
        degrees = variance**2 / bottom if bottom > 0.0 else float(sum(counts) - 2)
        method = f"Welch's t on the logarithms of {counts[0]} and {counts[1]} fresh processes"
        side = "each side" if max(counts) == few else "one side"
        doubt = "" if few >= LEAST_REPLICATES else f"only two processes on {side}: too few"
    elif max(counts) >= LEAST_REPLICATES:
        rich = first if len(first) > 1 else second
        variance = float(rich.var(ddof=1)) * (1.0 + 1.0 / len(rich))
        degrees = float(len(rich) - 1)
        method = f"Student's t: one fresh process against {len(rich)}, whose variance is used for both sides"
        doubt = ""
    else:
        return Contrast(
            log_ratio=centre,
            error=None,
            degrees=math.inf,
            replicates=few,
            method="one fresh process on one side",
            doubt="too few processes on both sides, so the difference between processes is unknown",
        )
    if variance > 0.0:  # Satterthwaite again: the part that is known weighs against the one that was estimated
        degrees *= ((variance + error**2) / variance) ** 2
    return Contrast(
        log_ratio=centre,
        error=math.sqrt(variance + error**2),
        degrees=degrees,
        replicates=few,
        method=method,
        doubt=doubt,
    )


def contrast_intervals(a: tuple[float, float, float], b: tuple[float, float, float]) -> Contrast:
    """From two numbers with 95 % intervals, taken as independent: half-widths of the logarithms in quadrature.

    Args:
        a, b: (value, low, high), all positive.

    Raises:
        BadInput: a value that is not positive and finite.
    """
    (first, first_low, first_high), (second, second_low, second_high) = _logarithms(a), _logarithms(b)
    z = normal_quantile(0.975)
    halves = [
        max(first - first_low, first_high - first) / z,
        max(second - second_low, second_high - second) / z,
    ]
    return Contrast(
        log_ratio=float(second - first),
        error=float(math.hypot(*halves)),
        degrees=math.inf,
        replicates=1,
        method="the two 95 % intervals in quadrature",
    )


def contrast_exact(a: float, b: float) -> Contrast:
    """From two numbers that are known exactly, such as sizes of files. Raises `BadInput` unless both are positive."""
    first, second = _logarithms([a, b])
    return Contrast(
        log_ratio=float(second - first), error=0.0, degrees=math.inf, replicates=1, method="both values are exact"
    )


def contrast_outcomes(a: Sequence[float], b: Sequence[float]) -> Contrast:
    """From the outcomes of the same samples on both sides: shares, paired.

    The p-value is McNemar's exact one. The interval is Fay and Lumbard's of the difference of the two shares, which
    leaves out 0 where that p-value is below 5 %. The lower end of the ratio takes B's share as known and the upper end
    A's, so that the intervals of B over A and of A over B are reciprocals.

    Args:
        a, b: 1.0 or 0.0 per sample, in the same order.

    Raises:
        BadInput: no samples, unequal numbers of them, or a share of 0, which has no ratio.
    """
    first, second = np.asarray(a, dtype=np.float64) > 0.5, np.asarray(b, dtype=np.float64) > 0.5
    if len(first) != len(second):
        raise BadInput(f"{len(first)} outcomes and {len(second)}", advice="use the same samples for both")
    count = len(first)
    lost, gained = int((first & ~second).sum()), int((~first & second).sum())
    before, after = _logarithms([first.sum(), second.sum()])
    low, high = (end * count for end in paired_interval(lost, gained, count))
    ends = -math.log1p(-low / float(second.sum())), math.log1p(high / float(first.sum()))
    return Contrast(
        log_ratio=float(after - before),
        error=(ends[1] - ends[0]) / (2.0 * normal_quantile(0.5 + LEVEL / 2.0)),
        degrees=math.inf,
        replicates=count,
        method=f"McNemar's exact test and Fay and Lumbard's interval on the same {count} samples: {gained} gained, "
        f"{lost} lost",
        exact_p=mcnemar_exact(lost, gained),
        exact_ends=ends,
    )


def adjust_holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values, in the order given; None stays None and counts for nothing.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statistics 6 (1979).
    """
    known = sorted((value, index) for index, value in enumerate(p_values) if value is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (value, index) in enumerate(known):
        highest = max(highest, min(1.0, value * (len(known) - rank)))
        adjusted[index] = highest
    return adjusted


def decide(contrast: Contrast, *, margin: float, p_adjusted: float | None) -> Decision:
    """Return what can be said of B against A.

    Args:
        margin: relative difference that doesn't matter, 0.03 for 3 %.
        p_adjusted: the contrast's p-value among those of all metrics.
    """
    if contrast.doubt or contrast.error is None or p_adjusted is None:
        return "inconclusive"
    reach = math.log1p(margin)
    held = contrast.held_interval() if abs(contrast.log_ratio) <= reach else None
    if held is not None and -reach <= held[0] and held[1] <= reach:
        return "same"
    if p_adjusted < RISK:
        return "higher" if contrast.log_ratio > 0.0 else "lower"
    return "inconclusive"


def decide_limit(contrast: Contrast, *, limit: float, tests: int = 1) -> Literal["within", "beyond", "inconclusive"]:
    """Return whether the true ratio is at most ``1 + limit`` (of a metric where less is better).

    Args:
        limit: 0.03 for 3 %; may be negative, where an improvement is required.
        tests: how many such questions are asked together.
    """
    held = contrast.held_interval((1.0 - LEVEL) / tests)
    p_value = contrast.p_of(math.log1p(limit))
    if contrast.doubt or held is None or p_value is None:
        return "inconclusive"
    if held[1] <= math.log1p(limit):
        return "within"
    return "beyond" if contrast.log_ratio > math.log1p(limit) and p_value * tests < RISK else "inconclusive"


def replicates_to_decide(contrast: Contrast, *, margin: float, tests: int = 1) -> int | None:
    """Return how many pairs, or processes a side, would decide if the ratio and the scatter stay what they are.

    Args:
        tests: how many metrics are tested, for the correction.

    Returns:
        None where nothing is known of the scatter, statistics say different things, or a million would not do.
    """
    if contrast.error is None or contrast.replicates < 2 or contrast.rivals:
        return None
    scatter, count = contrast.error * math.sqrt(contrast.replicates), contrast.replicates
    while count < MOST_REPLICATES:
        count = max(count + 1, int(count * 1.05), LEAST_REPLICATES)
        degrees = contrast.degrees * (count - 1) / max(1, contrast.replicates - 1)
        later = replace(
            contrast, error=scatter / math.sqrt(count), degrees=degrees, replicates=count, doubt="", exact_p=None,
            exact_ends=None,
        )  # fmt: skip
        p_value = later.p_value
        if decide(later, margin=margin, p_adjusted=None if p_value is None else p_value * tests) != "inconclusive":
            return count
    return None


def _logarithms(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    array = np.asarray(values, dtype=np.float64)
    if not len(array) or not np.isfinite(array).all() or (array <= 0.0).any():
        raise BadInput(
            "ratios need positive, finite values", advice=("measure again: a time of zero is not a measurement")
        )
    return np.asarray(np.log(array))


def risk_over_looks(risk: float) -> float:
    """Return the risk over all looks of a risk at one: in logarithms, linear between that of verdicts and of intervals.

    Up to `RISK` it holds at whichever look; above, at the look at which measuring ended.
    """
    if risk <= _RISKS_AT_A_LOOK[0]:
        return risk * RISK_FACTOR
    return float(np.exp(np.interp(math.log(risk), np.log(_RISKS_AT_A_LOOK), np.log(_RISKS))))


def _two_sided(t: float, degrees: float) -> float:
    return normal_two_sided(t) if math.isinf(degrees) else min(1.0, 2.0 * t_tail(t, degrees))


def _exp(value: float) -> float:
    return math.exp(max(-700.0, min(700.0, value)))
