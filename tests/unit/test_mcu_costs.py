"""Costs of operators."""

from __future__ import annotations

import pytest

from edgewise.estimating.mcu.costs import OperatorCosts, sum_costs, typical_costs
from messages import says


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((-1,), says("costs-must-least-0")),
        ((3, {"load": 4, "other": -1}), says("costs-must-least-0")),
        ((3, None, -1), says("costs-must-least-0")),
        ((3, {"loads": 3}), says("unknown-classes-instructions", unknown="loads")),
        ((3, {"load": 1, "other": 1}), says("classes-add-up-not-instructions", sum=2, instructions=3)),
    ],
)
def test_costs_that_can_not_be_are_an_error(arguments, what):
    with pytest.raises(ValueError, match=what):
        OperatorCosts(*arguments)


def test_a_sum_lacks_what_one_operator_lacks():
    known = OperatorCosts(3, {"load": 1, "other": 2}, 8)
    both = sum_costs([known, known])
    assert (both.instructions, both.classes["load"], both.classes["other"], both.flash_bytes) == (6, 2, 4, 16)
    assert sum_costs([known, OperatorCosts(1)]) == OperatorCosts(4)


def test_typical_costs_are_those_of_the_run_with_the_median_number_of_instructions():
    runs = [[OperatorCosts(one), OperatorCosts(other)] for one, other in ((1, 9), (3, 8), (2, 7))]
    assert typical_costs(runs) == [OperatorCosts(1), OperatorCosts(9)]
    assert typical_costs(runs[:2]) == [OperatorCosts(1), OperatorCosts(9)]
