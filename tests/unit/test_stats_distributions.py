"""Quantiles against scipy."""

import math
from itertools import product

import pytest
import scipy.stats

from case_tables import with_each
from edgewise.stats.distributions import normal_quantile, normal_two_sided, t_quantile, t_tail
from messages import says


@with_each(
    product([0.5, 1, 1.5, 2, 2.7, 3, 4, 9, 30, 399, 19_999, 1e6], [1e-6, 0.01, 0.3, 0.6, 0.9, 0.975, 0.995, 0.9999])
)
def test_t_quantile_is_scipys(case):
    degrees, probability = case
    assert t_quantile(probability, degrees) == pytest.approx(scipy.stats.t.ppf(probability, degrees), rel=1e-8)


@with_each(product([0.0, 0.1, 1.0, 2.5, 40.0], [1, 2.5, 17, 500]))
def test_t_tail_is_scipys(case):
    t, degrees = case
    assert t_tail(t, degrees) == pytest.approx(scipy.stats.t.sf(t, degrees), rel=1e-9)


def test_textbook_values():
    assert t_quantile(0.975, 2.0) == pytest.approx(4.302652729911275, rel=1e-9)
    assert t_quantile(0.5, 7.0) == 0.0
    assert t_quantile(0.975, math.inf) == normal_quantile(0.975) == pytest.approx(1.959963984540054, rel=1e-12)


def test_normal_p_value_is_scipys():
    for z in (-3.0, 0.0, 0.5, 6.0):
        assert normal_two_sided(z) == pytest.approx(2 * scipy.stats.norm.sf(abs(z)), rel=1e-12)


@pytest.mark.parametrize(("probability", "degrees"), [(0.0, 3), (1.0, 3), (0.5, 0.0), (0.9, math.nan), (math.nan, 3)])
def test_out_of_range_is_refused(probability, degrees):
    with pytest.raises(ValueError, match=says("no-t-quantile-probability-degrees")):
        t_quantile(probability, degrees)
