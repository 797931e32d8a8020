"""A wrong cell of a table is named where the other models tell which it is, and nothing else is blamed."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from edgewise.errors import BadInput
from edgewise.predicting.base import Point, Subject
from edgewise.predicting.choice import choose
from edgewise.predicting.features import OperatorProfile
from edgewise.predicting.outliers import describe_misfit, find_misfit
from edgewise.predicting.points import check_points
from messages import says

HOSTS = (12.1, 11.0, 140.0, 14.0, 95.0, 61.0)
PHONE = (45.0, 41.5, 560.0, 60.0, 330.0, 230.0)
"""Milliseconds, off a multiple of those of `HOSTS` by up to 10 %."""
SLOW_CALLS = tuple(4 * host + 30 for host in HOSTS)


def points(number, values=PHONE, *, at=None, factor=1.0, on="device"):
    """The first `number` models, the one `at` with a value on one side that is wrong by `factor`."""
    return [
        Point(
            subject=Subject(name=f"m{place}", host=host / 1e3 * (factor if on == "host" and place == at else 1)),
            value=value / 1e3 * (factor if on == "device" and place == at else 1),
        )
        for place, (host, value) in enumerate(zip(HOSTS[:number], values, strict=False))
    ]


def names(number):
    return tuple(f"m{place}" for place in range(number))


PLANTED = [(factor, on) for factor in (10, 1 / 10, 3, 1 / 3) for on in ("device", "host")]


@pytest.mark.parametrize(("factor", "on"), PLANTED)
@pytest.mark.parametrize("number", [4, 5, 6])
def test_the_wrong_one_of_four_or_more_is_named_whichever_it_is(number, factor, on):
    for at in range(number):
        found = find_misfit(choose(points(number, at=at, factor=factor, on=on)))
        assert found is not None and found.candidates == (f"m{at}",)
        seen = factor if on == "device" else 1 / factor
        assert found.others_off < 0.2
        measured = points(number, at=at, factor=factor, on=on)[at].value
        assert seen / 1.25 < measured / found.expected[0] < seen * 1.25


@pytest.mark.parametrize(("factor", "on"), PLANTED)
@pytest.mark.parametrize("number", [4, 5, 6])
def test_where_a_law_has_a_constant_no_right_model_is_blamed_alone(number, factor, on):
    """A constant may hide an error of a small model; then nothing is said, or several are named."""
    for at in range(number):
        found = find_misfit(choose(points(number, SLOW_CALLS, at=at, factor=factor, on=on)))
        assert found is None or f"m{at}" in found.candidates


@pytest.mark.parametrize("values", [PHONE, SLOW_CALLS])
def test_models_that_fit_are_not_blamed(values):
    assert [find_misfit(choose(points(number, values))) for number in (3, 4, 5, 6)] == [None] * 4


def two_wrong(number, factors, one=1, other=4):
    both = points(number, at=one, factor=factors[0])
    both[other] = points(number, at=other, factor=factors[1])[other]
    return both


@pytest.mark.parametrize("factors", [(10, 10), (10, 1 / 10), (1 / 10, 10), (1 / 10, 1 / 10)])
def test_two_wrong_ones_of_six_are_named_and_no_right_one_with_them(factors):
    named = 0
    for one, other in combinations(range(6), 2):
        found = find_misfit(choose(two_wrong(6, factors, one, other)))
        assert found is None or found.candidates == (f"m{one}", f"m{other}")
        named += found is not None
    assert named >= 12  # of 15


def test_two_that_are_not_far_out_or_are_among_five_are_not_named():
    assert find_misfit(choose(two_wrong(6, (3, 1 / 3)))) is None
    assert find_misfit(choose(two_wrong(5, (10, 1 / 10)))) is None


def test_a_misfit_is_told_as_measured_against_expected_with_the_factor():
    told = describe_misfit(choose(points(6, at=1, factor=10)), "latency")
    assert re.search(
        r"Latency of m1 .*\(measured 415 ms, the others let expect 4\d\.\d ms: 9\.\d+ times as much; a wrong unit", told
    )
    told = describe_misfit(choose(points(6, at=1, factor=1 / 3)), "latency")
    assert re.search(r"\(measured 13\.8 ms, the others let expect 4\d\.\d ms: 1/3\.\d+ of it; check its values\)", told)
    assert re.search(
        r" m1 and m4 .*m1 measured .*; m4 measured ", describe_misfit(choose(two_wrong(6, (10, 10))), "latency")
    )
    assert describe_misfit(choose(points(6)), "latency") == ""


@pytest.mark.parametrize(("factor", "on"), PLANTED)
def test_of_three_models_none_is_blamed_and_the_one_that_a_slip_of_the_digit_explains_is_told(factor, on):
    """Another factor is no such slip. A law through two points may hide which it is, and then none is told."""
    told = []
    for at in range(3):
        found = find_misfit(choose(points(3, at=at, factor=factor, on=on)))
        assert found is not None and found.candidates == names(3)
        if found.repaired is not None:
            told.append(at)
            assert found.repaired == (f"m{at}", pytest.approx(factor if on == "device" else 1 / factor))
            assert found.repaired_off < 0.2
    assert bool(told) == (factor in (10, 1 / 10))
    for at in range(3):
        found = find_misfit(choose(points(3, SLOW_CALLS, at=at, factor=factor, on=on)))
        assert found is None or found.repaired is None or found.repaired[0] == f"m{at}"


@pytest.mark.parametrize("on", ["device", "host"])
@pytest.mark.parametrize("factor", [1e3, 1e-3])
@pytest.mark.parametrize("number", [3, 4, 5, 6])
def test_a_value_in_another_unit_is_named_by_four_or_more(number, factor, on):
    for at in range(number):
        wrong = points(number, at=at, factor=factor, on=on)
        places = {name: f"line {line} of t.csv" for line, name in enumerate(names(number), start=2)}
        key = "times-what-other-models-suggest" if number > 3 else "times-their-size-values-another"
        fields = {"name": f"m{at}"} if number > 3 else {"points_count": 3}
        with pytest.raises(BadInput, match=says(key, what="latency", **fields)) as refused:
            check_points(wrong, what="latency", places=places)
        told = re.findall(r"line (\d)", refused.value.marked.message)
        assert sorted(map(int, told)) == ([at + 2] if number > 3 else [2, 3, 4])


def test_models_half_of_which_are_in_another_unit_are_all_named():
    half = [point if at % 2 else points(4, at=at, factor=1e3)[at] for at, point in enumerate(points(4))]
    with pytest.raises(BadInput, match=says("times-their-size-values-another", listing="m0 and m2", points_count="4")):
        check_points(half, what="latency")


def test_models_whose_sizes_say_little_are_not_blamed():
    """Small models take mostly what calls take: by its operations, one looks 600 times as slow as the median."""
    profile = OperatorProfile(amounts=(1e6, 0, 0, 0, 0, 0))
    spread = [
        Point(subject=Subject(name=str(at), profile=profile), value=value / 1e3)
        for at, value in enumerate((1, 2, 3, 60, 1500))
    ]
    assert check_points(spread, what="latency") == []
