"""Wilson, McNemar and Tango against formulas by hand, scipy, and published numbers."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from edgewise.stats.proportions import mcnemar_exact, paired_interval, wilson_interval
from messages import says


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (1, 1), (0, 10), (3, 10), (10, 10), (538, 540), (37_557, 50_000)])
def test_wilson_is_scipys(hits, n):
    expected = stats.binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson_interval(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_by_hand():
    # 8 of 10, z = 1.96: centre (0.8 + 0.19207) / 1.38415, half 1.96 / 1.38415 · √(0.016 + 0.0096036)
    low, high = wilson_interval(8, 10)
    assert (low, high) == pytest.approx((0.490162, 0.943318), abs=1e-6)


def test_wilson_ends_exactly_at_its_bounds():
    assert wilson_interval(0, 7)[0] == 0.0
    assert wilson_interval(7, 7)[1] == 1.0
    # z² / (n + z²) is what 0 of n leaves open.
    assert wilson_interval(0, 7)[1] == pytest.approx(1.959964**2 / (7 + 1.959964**2), abs=1e-6)


@pytest.mark.parametrize(("hits", "n"), [(0, 0), (-1, 3), (4, 3)])
def test_what_is_no_proportion_is_refused(hits, n):
    with pytest.raises(ValueError, match=says("not-proportion")):
        wilson_interval(hits, n)


@pytest.mark.parametrize(
    ("lost", "gained"), [(0, 0), (0, 1), (5, 5), (2, 7), (7, 2), (0, 12), (140, 100), (5000, 4900)]
)
def test_mcnemar_is_the_binomial_test(lost, gained):
    expected = stats.binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
    assert mcnemar_exact(lost, gained) == pytest.approx(expected, rel=1e-9)


def test_published_example():
    # Airway hyper-responsiveness before and after transplantation, 1 and 7 discordant pairs of 21 (Fagerland, Lydersen,
    # Laake, Statistics in Medicine 2014): exact p 0.0703, Tango −0.517 to −0.026.
    assert mcnemar_exact(7, 1) == pytest.approx(0.0703, abs=5e-5)
    assert paired_interval(7, 1, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)


def likelihood(lost, gained, n, difference):
    """Restricted maximum likelihood by search: the score statistic without any closed form."""

    def minus(share):
        return -(
            lost * math.log(share)
            + gained * math.log(share + difference)
            + (n - lost - gained) * math.log(1 - 2 * share - difference)
        )

    low, high = max(0.0, -difference), (1 - difference) / 2
    edge = 1e-12
    found = optimize.minimize_scalar(
        minus, bounds=(low + edge, high - edge), method="bounded", options={"xatol": 1e-13}
    )
    variance = n * (2 * found.x + difference * (1 - difference))
    return (gained - lost - n * difference) / math.sqrt(variance)


@pytest.mark.parametrize(("lost", "gained", "n"), [(3, 9, 40), (1, 1, 20), (12, 2, 30), (40, 55, 540)])
def test_tango_is_where_the_score_test_turns(lost, gained, n):
    low, high = paired_interval(lost, gained, n)
    assert likelihood(lost, gained, n, low) == pytest.approx(1.959964, abs=1e-4)
    assert likelihood(lost, gained, n, high) == pytest.approx(-1.959964, abs=1e-4)


@pytest.mark.parametrize("n", [1, 2, 17, 540])
def test_tango_at_the_edges(n):
    for lost, gained in ((0, 0), (n, 0), (0, n)):
        low, high = paired_interval(lost, gained, n)
        assert -1.0 <= low <= (gained - lost) / n <= high <= 1.0
        assert high > low
    same = paired_interval(0, 0, n)
    assert same[0] == pytest.approx(-same[1])
    assert paired_interval(0, n, n)[1] == 1.0


def test_tango_is_mirrored():
    assert paired_interval(9, 3, 40) == pytest.approx(tuple(-x for x in reversed(paired_interval(3, 9, 40))))
    with pytest.raises(ValueError, match=says("lost-gained-more-than-samples")):
        paired_interval(9, 3, 11)


def test_exact_type_one_error_is_kept():
    for total in (5, 6, 20, 100):
        chance = stats.binom.pmf(np.arange(total + 1), total, 0.5)
        alarms = sum(p for k, p in enumerate(chance) if mcnemar_exact(k, total - k) <= 0.05)
        assert alarms <= 0.05
