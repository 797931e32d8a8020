"""Changes of the mean: exact steps, mixtures whose median is the same, and orders that are random."""

import random

import pytest

from edgewise.stats.mean_changes import mean_changes


@pytest.mark.parametrize(("first", "second"), [(6, 6), (3, 37), (37, 3), (20, 40)])
@pytest.mark.parametrize("unit", [1e-6, 1.0])
def test_an_exact_step_is_found_where_it_is(first, second, unit):
    assert mean_changes([unit] * first + [2 * unit] * second, chance=0.01) == [first]


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 5, [0.0] * 40, [1.0] * 4 + [2.0] * 5])
def test_too_few_or_equal_values_prove_nothing(values):
    assert mean_changes(values, chance=0.01) == []


def test_a_smaller_chance_needs_more_values():
    """Of the 924 orders of six values and six others, two have all of a kind together: 0.2 %."""
    values = [1.0] * 6 + [2.0] * 6
    assert mean_changes(values, chance=0.01) == [6]
    assert mean_changes(values, chance=0.001) == []


def test_several_changes():
    assert mean_changes([1.0] * 12 + [2.0] * 10 + [1.0] * 14 + [3.0] * 8, chance=0.01) == [12, 22, 36]


def test_stretches_are_found_where_steps_of_an_interval_are_not():
    """Between 3 of 53 values and what is on one side of them, no interval of the steps proves anything."""
    around = [1.0 + 0.001 * (at * 7919 % 13) for at in range(25)]
    assert mean_changes([*around, 2.0, 2.0, 2.0, *around], chance=0.01) == []
    assert mean_changes([*around, 2.0, 2.0, 2.0, *around], chance=0.01, stretches=True) == [25, 28]


@pytest.mark.parametrize("values", [[1.0] * 6 + [2.0] * 6, [1.0] * 20 + [2.0] * 4 + [1.0] * 8 + [3.0] * 8])
def test_stretches_at_an_end_are_steps(values):
    found = [at for at in range(1, len(values)) if values[at] != values[at - 1]]
    assert mean_changes(values, chance=0.01, stretches=True) == found


def test_a_mixture_changes_though_its_median_does_not():
    """Every fifth value is high on one side, every second or third on the other: 3 of 15, then 12 of 30."""
    values = [4.0 if at % 5 == 2 else 1.0 for at in range(15)] + [4.0 if at % 5 in (1, 3) else 1.0 for at in range(150)]
    sums = [sum(values[at : at + 5]) for at in range(0, len(values), 5)]
    assert mean_changes(sums, chance=0.01) == [3]


def test_one_value_far_off_is_no_change_and_hides_none():
    draw = random.Random(1)
    values = [draw.gauss(1, 0.05) for _ in range(40)]
    values[20] = 1000.0
    assert mean_changes(values, chance=0.01) == []
    for at in range(25, 40):
        values[at] *= 1.5
    assert mean_changes(values, chance=0.01) == [25]


@pytest.mark.parametrize(("number", "stretches"), [(10, False), (40, False), (40, True)])
@pytest.mark.parametrize("law", ["normal", "t3", "mixture"])
def test_a_random_order_is_rarely_a_change(law, number, stretches):
    """At most 8 of 300: more have a probability of 0.4 % where 1 % of series have one."""
    draw = random.Random(f"{law} {number}")
    laws = {
        "normal": lambda: draw.gauss(0, 1),
        "t3": lambda: draw.gauss(0, 1) / (sum(draw.gauss(0, 1) ** 2 for _ in range(3)) / 3) ** 0.5,
        "mixture": lambda: draw.gauss(0, 1) + 100 * (draw.random() < 0.2),
    }
    series = [[laws[law]() for _ in range(number)] for _ in range(300)]
    found = [mean_changes(each, chance=0.01, stretches=stretches) for each in series]
    assert sum(map(bool, found)) <= 8
