"""Change points: exact steps, noise without a change, and steps within what the intervals say."""

import random
from itertools import pairwise
from statistics import median

import pytest

from edgewise.stats.level_changes import LEAST, LevelChange, level_changes


def noisy(levels: list[tuple[float, int]], *, seed: int, sigma: float) -> list[float]:
    """Values around each level, as many as its number, with normal noise relative to the level."""
    draw = random.Random(seed)
    return [level * (1 + draw.gauss(0, sigma)) for level, number in levels for _ in range(number)]


@pytest.mark.parametrize("sizes", [(3, 3), (3, 20), (20, 3), (40, 40), (1000, 4)])
def test_an_exact_step_is_found_where_it_is(sizes):
    first, second = sizes
    found = level_changes([0.25] * first + [0.5] * second)
    assert found == [LevelChange(index=first, before=0.25, after=0.5)]


def test_several_steps_of_exact_values():
    values = [1.0] * 5 + [2.0] * 7 + [1.0] * 4 + [-3.0] * 6
    assert [(one.index, one.before, one.after) for one in level_changes(values)] == [
        (5, 1.0, 2.0), (12, 2.0, 1.0), (16, 1.0, -3.0),
    ]  # fmt: skip


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0, 4.0, 5.0], [0.0] * 50, [7.0] * 6])
def test_nothing_changes_in_few_or_equal_values(values):
    assert level_changes(values) == []


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_noisy_steps_are_found_close_to_where_they_are(seed, unit):
    values = noisy([(1.0, 30), (1.2, 12), (1.0, 30)], seed=seed, sigma=0.02)
    found = level_changes([value * unit for value in values])
    assert [one.index for one in found] == [pytest.approx(30, abs=2), pytest.approx(42, abs=2)]
    ends = [0, *(one.index for one in found), len(values)]
    levels = [median(values[start:stop]) * unit for start, stop in pairwise(ends)]
    assert [one.before for one in found] == pytest.approx(levels[:-1])
    assert [one.after for one in found] == pytest.approx(levels[1:])


def test_a_few_outliers_are_no_change():
    values = noisy([(1.0, 40)], seed=1, sigma=0.01)
    for place in (5, 12, 20, 39):
        values[place] *= 3
    assert level_changes(values) == []


def test_a_step_within_the_intervals_is_no_change_until_many_runs_show_it():
    few = noisy([(1.0, 5), (1.06, 5)], seed=2, sigma=0.002)
    wide = [value * 0.95 for value in few], [value * 1.05 for value in few]
    narrow = [value * 0.99 for value in few], [value * 1.01 for value in few]
    assert [one.index for one in level_changes(few)] == [5]
    assert [one.index for one in level_changes(few, *narrow)] == [5]
    assert level_changes(few, *wide) == []
    many = noisy([(1.0, 100), (1.06, 100)], seed=2, sigma=0.002)
    found = level_changes(many, [value * 0.95 for value in many], [value * 1.05 for value in many])
    assert [one.index for one in found] == [100]
    assert level_changes(few, [None] * 10, [None] * 10) == level_changes(few)


@pytest.mark.parametrize(
    ("number", "series", "most"),
    # `most`: the largest number of false alarms that 1 % of the series make with a probability above 0.1 %.
    [(6, 600, 15), (12, 400, 11), (40, 100, 5), (150, 25, 3)],
)
@pytest.mark.parametrize("law", ["normal", "laplace", "t3"])
def test_noise_without_a_change_is_rarely_one(number, series, most, law):
    draw = random.Random(f"{number} {law}")
    laws = {
        "normal": lambda: draw.gauss(0, 1),
        "laplace": lambda: draw.expovariate(1) - draw.expovariate(1),
        "t3": lambda: draw.gauss(0, 1) / (sum(draw.gauss(0, 1) ** 2 for _ in range(3)) / 3) ** 0.5,
    }
    alarms = sum(bool(level_changes([laws[law]() for _ in range(number)])) for _ in range(series))
    assert alarms <= most


def test_each_side_has_enough_values():
    for seed in range(50):
        values = noisy([(1.0, 4), (2.0, 2), (1.5, 5), (9.0, 1)], seed=seed, sigma=0.01)
        ends = [0, *(one.index for one in level_changes(values)), len(values)]
        assert all(later - earlier >= LEAST for earlier, later in pairwise(ends))
