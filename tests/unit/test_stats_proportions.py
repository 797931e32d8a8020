"""Wilson, McNemar and the paired interval against formulas by hand, scipy, and published numbers."""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from edgewise.stats.proportions import (
    MOST_TIMES,
    POWER,
    _samples_at,
    mcnemar_exact,
    paired_interval,
    samples_to_decide,
    wilson_interval,
)
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
    # Laake, Statistics in Medicine 2014): exact p 0.0703, so that the interval holds 0.
    assert mcnemar_exact(7, 1) == pytest.approx(0.0703, abs=5e-5)
    assert paired_interval(7, 1, 21)[1] > 0.0


def lower_end(lost, gained, n):
    """The lower end of the paired interval by scipy: the product's distribution integrated, its quantile searched."""
    gain = stats.beta(gained, lost + 1)
    less = stats.beta(lost + gained, n - lost - gained + 1)
    more = stats.beta(lost + gained + 1, n - lost - gained)

    def excess(end):
        if end <= 0.0:
            part = integrate.quad(lambda x: gain.pdf(x) * more.sf(end / (2 * x - 1)), 0.0, 0.5, limit=500)[0]
            return part - 0.025
        return 0.975 - integrate.quad(lambda x: gain.pdf(x) * less.sf(end / (2 * x - 1)), 0.5, 1.0, limit=500)[0]

    return optimize.brentq(excess, -0.9999, (gained - lost) / n)


@pytest.mark.parametrize(("lost", "gained", "n"), [(7, 1, 21), (3, 9, 40), (1, 12, 100), (0, 4, 472), (40, 55, 540)])
def test_paired_interval_is_the_quantile_of_the_product(lost, gained, n):
    assert paired_interval(lost, gained, n)[0] == pytest.approx(lower_end(lost, gained, n), abs=1e-5)


def test_paired_interval_leaves_out_0_where_the_exact_test_rejects():
    for differing in range(33):
        for gained in range(differing + 1):
            low, high = paired_interval(differing - gained, gained, 200)
            assert (low > 0.0 or high < 0.0) == (mcnemar_exact(differing - gained, gained) < 0.05), (differing, gained)


def test_paired_interval_covers_the_truth():
    """Over all outcomes of 20 samples, however often the models differ."""
    n = 20
    ends = {(lost, gained): paired_interval(lost, gained, n) for lost in range(n + 1) for gained in range(n + 1 - lost)}
    for gain in (0.01, 0.05, 0.1, 0.2, 0.3, 0.5):
        for loss in (0.001, 0.01, 0.05, 0.1, 0.2, 0.5):
            covered = sum(
                stats.multinomial.pmf([lost, gained, n - lost - gained], n, [loss, gain, 1.0 - loss - gain])
                for (lost, gained), (low, high) in ends.items()
                if low <= gain - loss <= high
            )
            assert covered >= 0.95, (gain, loss)


@pytest.mark.parametrize("n", [1, 2, 17, 540])
def test_paired_interval_at_the_edges(n):
    for lost, gained in ((0, 0), (n, 0), (0, n)):
        low, high = paired_interval(lost, gained, n)
        assert -1.0 <= low <= (gained - lost) / n <= high <= 1.0
        assert high > low
    # What 0 of n leaves open at 97.5 %, either way.
    open_ = 1.0 - 0.025 ** (1.0 / n)
    assert paired_interval(0, 0, n) == pytest.approx((-open_, open_), rel=1e-3)
    assert paired_interval(0, n, n)[1] == 1.0


def test_paired_interval_is_mirrored():
    assert paired_interval(9, 3, 40) == pytest.approx(tuple(-x for x in reversed(paired_interval(3, 9, 40))))
    with pytest.raises(ValueError, match=says("lost-gained-more-than-samples")):
        paired_interval(9, 3, 11)


def test_exact_type_one_error_is_kept():
    for total in (5, 6, 20, 100):
        chance = stats.binom.pmf(np.arange(total + 1), total, 0.5)
        alarms = sum(p for k, p in enumerate(chance) if mcnemar_exact(k, total - k) <= 0.05)
        assert alarms <= 0.05


@pytest.mark.parametrize(
    ("lost", "gained", "n", "limit"),
    [(1, 2, 300, 0.01), (0, 0, 300, 0.01), (1, 0, 400, 0.01), (16, 8, 400, 0.04), (8, 2, 200, 0.005)],
)
def test_as_many_samples_as_named_decide_in_four_of_five_cases(lost, gained, n, limit):
    """Samples are drawn at the rates that were assumed; 400 cases tell the share within 4 points (two sigma)."""
    loss, sizes = (lost - gained) / n, samples_to_decide(lost, gained, n, limit=limit)
    for size, end in zip(sizes, wilson_interval(lost + gained, n), strict=True):
        changing = max(end, abs(loss))
        p, q = (changing + loss) / 2, (changing - loss) / 2
        drawn = np.random.default_rng(4).multinomial(size, [p, q, 1.0 - p - q], 400)
        cases, counts = np.unique(drawn[:, :2], axis=0, return_counts=True)
        ends = [paired_interval(int(down), int(up), size) for down, up in cases]
        decided = [-low <= limit if loss < limit else -high > limit for low, high in ends]
        told = sum(counts[decided]) / 400
        # Where all answers that change are lost, or none changes, the same number decides more often.
        assert size == n or (told == pytest.approx(POWER, abs=0.07) if size == sizes[1] else told > POWER - 0.07)


def test_the_numbers_hold_for_every_rate_within_its_interval():
    """1 of 400 changed: whatever share within Wilson's interval changes, the number that decides is between the two."""
    least, most = samples_to_decide(1, 0, 400, limit=0.01)
    assert (least, most) == (877, 2391)
    for share in np.linspace(*wilson_interval(1, 400), 7):
        assert least <= _samples_at(0.0025, max(share, 0.0025), 400, limit=0.01) <= most


def test_the_interval_of_the_numbers_covers_where_the_loss_is_known():
    """200 draws of 1 % changed answers, as many lost as gained: the number of that rate is within those told."""
    counts = np.random.default_rng(5).binomial(500, 0.01, size=200)
    right = _samples_at(0.0, 0.01, 500, limit=0.01)
    ends = [
        [_samples_at(0.0, share, 500, limit=0.01) for share in wilson_interval(changed, 500)] for changed in set(counts)
    ]
    held = {changed: least <= right <= most for changed, (least, most) in zip(set(counts), ends, strict=True)}
    assert 0.9 <= np.mean([held[changed] for changed in counts]) <= 1.0


def test_fewer_samples_decide_where_the_loss_is_farther_from_the_limit_or_fewer_answers_change():
    sizes = [samples_to_decide(6, 5, 2000, limit=limit) for limit in (0.003, 0.004, 0.005)]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 3
    assert samples_to_decide(6, 5, 2000, limit=0.004) < samples_to_decide(21, 20, 2000, limit=0.004)


def test_no_number_of_samples_is_named_for_a_loss_at_the_limit_or_where_it_spans_too_much():
    assert samples_to_decide(16, 8, 400, limit=0.02) is None
    assert samples_to_decide(1, 0, 300, limit=0.01) is None
    near = samples_to_decide(12, 11, 1000, limit=0.01)
    assert near is not None and 1000 <= near[0] < near[1] <= MOST_TIMES * 1000
    with pytest.raises(ValueError, match=says("lost-gained-more-than-samples")):
        samples_to_decide(3, 3, 5, limit=0.01)
