"""Contrasts, corrections and verdicts: scipy, hand-made examples, and what the schedule of looks promises."""

import math

import numpy as np
import pytest
import scipy.stats

from edgewise.errors import BadInput
from edgewise.stats.between_runs import Scatter
from edgewise.stats.comparison import (
    LOOKS,
    RISK,
    RISK_FACTOR,
    Contrast,
    adjust_holm,
    contrast_exact,
    contrast_groups,
    contrast_intervals,
    contrast_outcomes,
    contrast_pairs,
    decide,
    decide_limit,
    replicates_to_decide,
)
from edgewise.stats.proportions import paired_interval
from messages import says


def values(n, *, seed, scale=1e-3, sigma=0.02):
    return scale * np.exp(sigma * np.random.default_rng(seed).standard_normal(n))


def known(log_ratio, error, *, replicates=10, sequential=False, doubt=""):
    return Contrast(
        log_ratio=log_ratio,
        error=error,
        degrees=float(replicates - 1),
        replicates=replicates,
        sequential=sequential,
        method="given",
        doubt=doubt,
    )


# Contrasts


@pytest.mark.parametrize("n", [3, 5, 12, 90])
def test_pairs_are_the_paired_t_test_on_logarithms(n):
    a, b = values(n, seed=1), values(n, seed=2, scale=1.02e-3)
    expected = scipy.stats.ttest_rel(np.log(b), np.log(a))
    found = contrast_pairs(a, b, sequential=False)
    low, high = expected.confidence_interval(0.95)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.interval() == pytest.approx((math.exp(low), math.exp(high)))
    assert found.ratio == pytest.approx(scipy.stats.gmean(b / a))
    assert (found.replicates, found.degrees, found.doubt) == (n, n - 1, "")


def test_a_larger_variance_that_other_processes_tell_is_pooled_with_that_of_the_pairs():
    a, b = [1.0] * 5, [math.exp(each) for each in (1.0, 1.1, 0.9, 1.0, 1.0)]
    own = contrast_pairs(a, b, sequential=True)
    assert (own.error, own.degrees) == (pytest.approx(math.sqrt(0.005 / 5)), 4)
    wider = contrast_pairs(a, b, sequential=True, scatter=Scatter(0.041, 8.0))
    # (4 · 0.005 + 8 · 0.041) / 12 = 0.029
    assert (wider.error, wider.degrees) == (pytest.approx(math.sqrt(0.029 / 5)), 12)
    assert wider.ratio == own.ratio and "other processes" in wider.method
    assert contrast_pairs(a, b, sequential=True, scatter=Scatter(0.004, 8.0)) == own


def test_where_a_process_draws_one_of_two_speeds_intervals_of_few_pairs_hold_with_what_others_tell():
    """A fifth of the processes is 1.8 times as slow: of five pairs a third has no such one."""
    random = np.random.default_rng(3)
    truth = 0.2 * math.log(1.8)
    held = {"alone": 0, "pooled": 0}
    for _ in range(1000):
        pairs, others = (
            math.log(1.8) * (random.random(5) < 0.2) + random.normal(0.0, 0.01, 5) for _ in ("pairs", "others")
        )
        scatter = Scatter(float(others.var(ddof=1)), 4.0)
        for name, known in (("alone", None), ("pooled", scatter)):
            low, high = contrast_pairs([1.0] * 5, np.exp(pairs), sequential=False, scatter=known).interval()
            held[name] += math.log(low) <= truth <= math.log(high)
    assert held["alone"] < 700 and held["pooled"] > 850


@pytest.mark.parametrize(("k", "m"), [(2, 2), (3, 5), (5, 5), (40, 7)])
def test_groups_are_welchs_t_test_on_logarithms(k, m):
    a, b = values(k, seed=1), values(m, seed=2, scale=1.02e-3, sigma=0.05)
    expected = scipy.stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
    found = contrast_groups(a, b)
    low, high = expected.confidence_interval(0.95)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.degrees == pytest.approx(expected.df)
    assert found.interval() == pytest.approx((math.exp(low), math.exp(high)))
    assert bool(found.doubt) == (min(k, m) < 3)


def test_looks_divide_the_risk():
    a, b = values(12, seed=1), values(12, seed=2, scale=1.02e-3)
    once, often = (contrast_pairs(a, b, sequential=flag) for flag in (False, True))
    assert once.p_value < often.p_value < once.p_value * RISK_FACTOR  # above 1 %, where it is that of the interval
    assert often.interval()[0] < once.interval()[0] < once.ratio == often.ratio
    assert often.held_interval()[0] < math.log(often.interval()[0])
    assert "several looks" in often.method
    assert "several looks" not in once.method


@pytest.mark.parametrize(
    ("raw", "p_value"),
    [
        (1e-6, 6.6e-6),
        (0.01 / 6.6, 0.01),  # of a verdict
        (math.sqrt(0.01 / 6.6 * 0.034), math.sqrt(0.01 * 0.05)),
        (0.034, 0.05),  # of the quoted interval
        (1.0, 1.0),
    ],
)
def test_p_values_over_all_looks_are_those_of_verdicts_and_of_the_quoted_interval(raw, p_value):
    found = known(scipy.stats.t.isf(raw / 2.0, 9), 1.0, sequential=True)
    assert found.p_value == pytest.approx(p_value)
    low, _ = found.interval()
    assert low == pytest.approx(1.0) if raw == 0.034 else (low > 1.0) == (p_value < 0.05)


def test_the_interval_of_paired_shares_is_that_of_their_test():
    # 10 lost and 2 gained of 100, 60 and 52 right: McNemar's exact p is 0.0386.
    a = [1.0] * 60 + [0.0] * 40
    b = [0.0] * 10 + [1.0] * 50 + [1.0] * 2 + [0.0] * 38
    found, swapped = contrast_outcomes(a, b), contrast_outcomes(b, a)
    low, high = paired_interval(10, 2, 100)
    assert found.p_value == pytest.approx(scipy.stats.binomtest(2, 12).pvalue)
    assert found.interval() == pytest.approx((0.52 / (0.52 - low), (0.6 + high) / 0.6)) and found.interval()[1] < 1.0
    assert found.held_interval() == pytest.approx(tuple(map(math.log, found.interval())))
    assert swapped.interval() == found.inverse().interval()
    assert swapped.interval() == pytest.approx(tuple(1.0 / end for end in reversed(found.interval())))
    wider = found.held_interval(0.01)
    assert wider[0] < math.log(found.interval()[0]) and wider[1] > math.log(found.interval()[1])


def test_the_interval_of_the_ratio_of_paired_shares_covers():
    """Of 300 samples with 30 % lost and 10 % gained: a symmetrical interval of the logarithm held it in 91 %."""
    chances, truth = (0.5, 0.3, 0.1, 0.1), 0.6 / 0.8
    held = 0
    for both, lost, gained, neither in np.random.default_rng(4).multinomial(300, chances, size=500):
        before = np.repeat([1.0, 1.0, 0.0, 0.0], [both, lost, gained, neither])
        after = np.repeat([1.0, 0.0, 1.0, 0.0], [both, lost, gained, neither])
        low, high = contrast_outcomes(before, after).interval()
        held += low <= truth <= high
    assert 0.95 - 4 * math.sqrt(0.95 * 0.05 / 500) <= held / 500 <= 0.985


def test_one_process_against_several_takes_their_variance():
    many, one = values(6, seed=3), [1.1e-3]
    logs = np.log(many)
    expected_error = logs.std(ddof=1) * math.sqrt(1 + 1 / 6)
    for a, b, sign in ((many, one, 1.0), (one, many, -1.0)):
        found = contrast_groups(a, b)
        assert found.error == pytest.approx(expected_error)
        assert found.log_ratio == pytest.approx(sign * (math.log(1.1e-3) - logs.mean()))
        assert (found.degrees, found.replicates, found.doubt) == (5.0, 1, "")


def test_one_process_each_has_no_error():
    found = contrast_groups([1e-3], [1.2e-3])
    assert found.ratio == pytest.approx(1.2)
    assert (found.error, found.p_value, found.interval(), found.held_interval()) == (None, None, None, None)
    assert "too few" in found.doubt
    assert contrast_pairs([1e-3], [1.2e-3], sequential=True).error is None
    assert contrast_groups([1e-3], [1e-3, 1.1e-3]).error is None


def test_an_error_that_more_processes_do_not_reduce_is_added_in_quadrature():
    a, b = values(5, seed=1), values(5, seed=2)
    assert contrast_groups(a, b, error=0.03).error == pytest.approx(math.hypot(contrast_groups(a, b).error, 0.03))


def test_equal_processes_have_no_error():
    found = contrast_groups([2.0, 2.0, 2.0], [2.0, 2.0, 2.0])
    assert (found.error, found.p_value, found.interval()) == (0.0, 1.0, (1.0, 1.0))
    assert found.p_of(0.1) == 0.0


def test_intervals_in_quadrature():
    found = contrast_intervals((1.0, math.exp(-0.03), math.exp(0.03)), (2.0, 2 * math.exp(-0.04), 2 * math.exp(0.02)))
    assert found.error * 1.959963984540054 == pytest.approx(0.05)
    low, high = found.interval()
    assert (low, high) == pytest.approx((2 * math.exp(-0.05), 2 * math.exp(0.05)))
    assert found.p_value == pytest.approx(2 * scipy.stats.norm.sf(math.log(2) / found.error))


def test_exact_values_are_a_ratio_without_an_error():
    found = contrast_exact(1000.0, 1250.0)
    assert (found.ratio, found.error) == (pytest.approx(1.25), 0.0)
    assert found.interval() == pytest.approx((1.25, 1.25))
    assert contrast_exact(3.0, 3.0).p_value == 1.0


def test_ratios_beyond_floating_point_stay_finite():
    found = contrast_groups([1e-300, 2e-300, 3e-300], [1e300, 2e300, 1e299])
    assert all(map(math.isfinite, (found.ratio, *found.interval())))


@pytest.mark.parametrize("bad", [0.0, -1e-3, math.nan, math.inf])
def test_what_is_no_positive_number_is_refused(bad):
    good, wrong = [1e-3, 1e-3, 1e-3], [1e-3, bad, 1e-3]
    for make in (
        lambda: contrast_pairs(good, wrong, sequential=True),
        lambda: contrast_groups(wrong, good),
        lambda: contrast_exact(1.0, bad),
        lambda: contrast_intervals((1.0, 0.9, 1.1), (1.0, bad, 1.1)),
    ):
        with pytest.raises(BadInput, match=says("ratios-need-positive-finite-values")):
            make()


def test_values_that_do_not_match_are_refused():
    with pytest.raises(BadInput, match=says("pairs-need-same-number-values", a_count=2, b_count=3)):
        contrast_pairs([1.0, 1.0], [1.0, 1.0, 1.0], sequential=False)
    with pytest.raises(BadInput, match=says("ratios-need-positive-finite-values")):
        contrast_groups([], [1.0])


# Corrections and verdicts


def test_holm_by_hand():
    # sorted: .005 x 4 = .02, .01 x 3 = .03, .03 x 2 = .06, .04 x 1 = .04 but never below the one before
    assert adjust_holm([0.01, 0.04, None, 0.03, 0.005]) == pytest.approx([0.03, 0.06, None, 0.06, 0.02])
    assert adjust_holm([0.6, 0.5]) == [1.0, 1.0]
    assert adjust_holm([None]) == [None]
    assert adjust_holm([]) == []


@pytest.mark.parametrize(
    ("log_ratio", "error", "verdict"),
    [
        (0.10, 0.005, "higher"),
        (-0.10, 0.005, "lower"),
        (0.0, 0.005, "same"),  # t(9) = 2.262 times 0.005 is 0.0113 of 0.0296
        (0.012, 0.001, "same"),  # surely different, and too little to matter
        (0.0, 0.02, "inconclusive"),
        (0.05, 0.02, "inconclusive"),  # p = 0.034
        (0.04, 0.005, "higher"),  # not surely beyond the margin, surely different, and may matter
    ],
)
def test_a_verdict_needs_proof(log_ratio, error, verdict):
    found = known(log_ratio, error)
    assert decide(found, margin=0.03, p_adjusted=found.p_value) == verdict


def test_what_is_in_doubt_decides_nothing():
    surely = known(0.5, 0.001, doubt="only two processes on one side: too few")
    assert decide(surely, margin=0.03, p_adjusted=0.0) == "inconclusive"
    assert decide(known(0.5, None), margin=0.03, p_adjusted=None) == "inconclusive"
    assert decide(known(0.5, 0.001), margin=0.03, p_adjusted=None) == "inconclusive"
    assert decide_limit(surely, limit=0.03) == "inconclusive"
    assert decide_limit(known(0.0, None), limit=0.03) == "inconclusive"


@pytest.mark.parametrize(
    ("log_ratio", "error", "limit", "answer"),
    [
        (0.0, 0.005, 0.03, "within"),
        (-0.10, 0.02, 0.03, "within"),
        (0.02, 0.01, 0.03, "inconclusive"),
        (0.10, 0.01, 0.03, "beyond"),
        (0.05, 0.01, 0.03, "inconclusive"),
        (-0.02, 0.001, -0.05, "beyond"),  # an improvement was required
        (-0.08, 0.001, -0.05, "within"),
    ],
)
def test_a_limit_is_kept_or_not(log_ratio, error, limit, answer):
    assert decide_limit(known(log_ratio, error), limit=limit) == answer


def test_more_questions_need_more_proof():
    close = known(0.0, 0.0128)
    assert decide_limit(close, limit=0.03) == "within"
    assert decide_limit(close, limit=0.03, tests=10) == "inconclusive"
    beyond = known(0.0296 + 4.0 * 0.01, 0.01)  # p of t(9) = 4 is 0.0031
    assert decide_limit(beyond, limit=0.03) == "beyond"
    assert decide_limit(beyond, limit=0.03, tests=10) == "inconclusive"


@pytest.mark.parametrize("log_ratio", [0.0, 0.05, 0.1])
def test_so_many_replicates_decide_and_hardly_fewer(log_ratio):
    now = known(log_ratio, 0.1 / math.sqrt(6), replicates=6, sequential=True)
    needed = replicates_to_decide(now, margin=0.03, tests=4)

    def verdict_at(n):
        later = known(log_ratio, 0.1 / math.sqrt(n), replicates=n, sequential=True)
        return decide(later, margin=0.03, p_adjusted=later.p_value * 4)

    assert verdict_at(needed) != "inconclusive"
    assert verdict_at(int(needed / 1.06) - 1) == "inconclusive"


def test_replicates_that_can_not_be_told():
    assert replicates_to_decide(known(0.1, None), margin=0.03) is None
    assert replicates_to_decide(known(0.1, 0.1, replicates=1), margin=0.03) is None
    assert replicates_to_decide(known(0.0, 300.0), margin=0.03) is None  # a million would not do


# The schedule of looks, simulated: logarithmic ratios of up to 90 pairs, judged at each look


def looks_of(trials, *, effect, sigma, seed):
    """Mean and standard error at each look, shapes (looks, trials)."""
    draws = effect + sigma * np.random.default_rng(seed).standard_normal((trials, LOOKS[-1]))
    means = np.stack([draws[:, :n].mean(axis=1) for n in LOOKS])
    errors = np.stack([draws[:, :n].std(axis=1, ddof=1) / math.sqrt(n) for n in LOOKS])
    return means, errors


def reaches():
    """Per look, in standard errors: |t| of a proven difference, half-widths of the held and of the quoted interval."""
    unit = [known(0.0, 1.0, replicates=n, sequential=True) for n in LOOKS]
    critical = np.array([scipy.stats.t.isf(RISK / RISK_FACTOR / 2, n - 1) for n in LOOKS])
    for one, t in zip(unit, critical, strict=True):
        assert one.p_of(t) == pytest.approx(RISK)  # what is simulated is what the product computes
    held = np.array([one.held_interval()[1] for one in unit])
    quoted = np.array([math.log(one.interval()[1]) for one in unit])
    return critical[:, None], held[:, None], quoted[:, None]


def test_false_alarms_over_all_looks_are_within_the_risk():
    trials = 40_000
    means, errors = looks_of(trials, effect=0.0, sigma=1.0, seed=5)
    alarms = (np.abs(means) > reaches()[0] * errors).any(axis=0).mean()
    slack = 3 * math.sqrt(RISK * (1 - RISK) / trials)
    assert RISK / 3 < alarms <= RISK + slack
    naive = (np.abs(means) > np.array([scipy.stats.t.isf(RISK / 2, n - 1) for n in LOOKS])[:, None] * errors).any(
        axis=0
    )
    assert naive.mean() > 3 * RISK  # looking often without a correction


def test_the_held_interval_covers_at_all_looks_at_once():
    trials = 20_000
    means, errors = looks_of(trials, effect=0.0, sigma=1.0, seed=6)
    missed = (np.abs(means) > reaches()[1] * errors).any(axis=0).mean()
    assert missed <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


@pytest.mark.parametrize(
    ("effect", "sigma"), [(0.0, 0.02), (0.0, 0.06), (0.03, 0.02), (0.03, 0.06), (0.1, 0.05), (0.1, 0.2), (0.0, 0.3)]
)
def test_the_quoted_interval_covers_after_stopping(effect, sigma):
    trials = 20_000
    means, errors = looks_of(trials, effect=effect, sigma=sigma, seed=7)
    critical, held, quoted = reaches()
    margin = math.log1p(0.03)
    same = np.abs(means) + held * errors <= margin
    decided = same | (np.abs(means) > critical * errors)
    decided[-1] = True  # the last look ends it
    stopped = decided.argmax(axis=0)
    chosen = stopped, np.arange(trials)
    covered = np.abs(means[chosen] - effect) <= (quoted * errors)[chosen]
    assert 0.93 <= covered.mean() <= 0.97
    for trial in range(50):  # the arrays agree with what the product decides
        at = stopped[trial], trial
        found = known(float(means[at]), float(errors[at]), replicates=LOOKS[stopped[trial]], sequential=True)
        verdict = decide(found, margin=0.03, p_adjusted=found.p_value)
        differs = abs(means[at]) > critical[stopped[trial], 0] * errors[at]
        assert verdict == (
            "same" if same[at] else "inconclusive" if not differs else "higher" if means[at] > 0 else "lower"
        )


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("tests", [1, 4])
@pytest.mark.parametrize("scatter", [0.01, 0.05, 0.09, 0.13, 0.2])
def test_the_interval_of_a_proof_leaves_1_out_exactly_where_a_difference_is_decided(sequential, tests, scatter):
    ratios = [math.exp(0.2 + scatter * off) for off in (-1.2, -0.4, 0.1, 0.5, 1.0)]
    found = contrast_pairs([1.0] * 5, ratios, sequential=sequential)
    p_adjusted = min(1.0, tests * found.p_value)
    low, high = found.proof_interval(p_adjusted)
    assert low < found.ratio < high
    assert (low > 1.0) == (decide(found, margin=0.03, p_adjusted=p_adjusted) == "higher") == (p_adjusted < RISK)


def test_of_one_test_alone_a_proof_takes_99_percent():
    found = contrast_pairs([1.0] * 5, [1.1, 1.2, 1.3, 1.25, 1.15], sequential=False)
    half = found.error * scipy.stats.t.ppf(0.995, 4)
    assert found.proof_interval() == pytest.approx((found.ratio * math.exp(-half), found.ratio * math.exp(half)))
    assert contrast_pairs([1.0], [1.2], sequential=False).proof_interval() is None
