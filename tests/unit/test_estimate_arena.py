"""The search for the smallest arena."""

from __future__ import annotations

from itertools import product

import pytest

from case_tables import with_each
from edgewise.errors import RunFailed
from edgewise.estimating.mcu.arena import find_smallest
from messages import says


@with_each(product([1, 16, 17, 4000, 4640, 65_537], [1, 16, 3984, 4640, 70_000]))
def test_the_smallest_arena_is_found_from_every_guess(case):
    least, near = case
    assert find_smallest(lambda size: size >= least, near) == -(-least // 16) * 16


def test_a_right_guess_takes_two_runs():
    tried = []
    assert find_smallest(lambda size: tried.append(size) or size >= 24_272, 24_272) == 24_272
    assert tried == [24_272, 24_256]


def test_a_model_that_runs_in_no_arena_is_an_error():
    with pytest.raises(RunFailed, match=says("tflite-micro-executes-model-no")):
        find_smallest(lambda size: False, 4000)
