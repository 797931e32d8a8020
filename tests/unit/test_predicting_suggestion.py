"""Which models to measure next on a device."""

from __future__ import annotations

import pytest

from edgewise.errors import BadInput
from edgewise.predicting.base import Subject
from edgewise.predicting.features import OperatorProfile
from edgewise.predicting.suggestion import MOST_WORK, select
from messages import says


def model(name: str, *, pointwise: float = 0.0, spatial: float = 0.0, dense: float = 0.0) -> Subject:
    """A network of MACs of three kinds, its own family."""
    profile = OperatorProfile(amounts=(pointwise, spatial, 0.0, dense, 0.0, 0.0))
    return Subject(name=name, family=name, profile=profile)


SMALL, LARGE = model("small", pointwise=1e6), model("large", pointwise=2.5e8)
BETWEEN, MIDDLE = model("between", pointwise=2.9e7), model("middle", pointwise=3.1e7)
MIXED, OTHER = model("mixed", pointwise=1.5e7, spatial=1.5e7), model("other", spatial=3e7)


def names(found: tuple[Subject, ...]) -> list[str]:
    return [one.name for one in found]


def test_extremes_of_size_and_kinds_come_before_what_lies_between():
    found = select([BETWEEN, SMALL, MIDDLE, MIXED, LARGE, OTHER], [], 3)
    assert sorted(names(found)) == ["large", "other", "small"]


def test_what_is_measured_is_not_asked_for_again():
    (found,) = select([SMALL, LARGE, OTHER, MIXED], [SMALL, LARGE, MIDDLE], 1)
    assert found.name == "other"
    (found,) = select([MIDDLE, MIXED, LARGE], [OTHER, MIDDLE, SMALL], 1)
    assert found.name == "large"


def test_a_measured_device_limits_the_size():
    huge = model("huge", spatial=3e9)
    assert names(select([huge, MIXED], [], 1)) == ["huge"]
    assert names(select([huge, MIXED], [MIDDLE], 1)) == ["mixed"]
    with pytest.raises(BadInput, match=says("suggest-reference-networks-suit-device", number=2, families=1)):
        select([huge, MIXED], [MIDDLE], 2)
    with pytest.raises(BadInput):
        select([model("giant", dense=MOST_WORK)], [], 1)  # dense MACs weigh more than others


def test_the_choice_does_not_depend_on_the_order():
    candidates = [BETWEEN, SMALL, MIXED, LARGE, OTHER]
    assert names(select(candidates, [], 4)) == names(select(candidates[::-1], [], 4))
