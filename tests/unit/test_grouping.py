"""Things put together by what they share, and in levels of an order that leaves some undecided."""

from __future__ import annotations

import pytest

from edgewise.grouping import by_key, in_levels


def test_values_are_collected_by_key_in_order_of_appearance():
    assert by_key([("b", 1), ("a", 2), ("b", 3)]) == {"b": [1, 3], "a": [2]}
    assert list(by_key([("b", 1), ("a", 2)])) == ["b", "a"]


@pytest.mark.parametrize(
    ("ahead", "levels"),
    [
        ({"a": set(), "b": set(), "c": {"a"}}, [["a", "b"], ["c"]]),
        ({"a": {"b"}, "b": {"c"}, "c": set()}, [["c"], ["b"], ["a"]]),
        ({"a": {"c"}, "b": {"a"}, "c": {"b"}}, [["a"], ["b"], ["c"]]),  # a circle: the first leads
        ({"a": {"x"}, "b": set(), "c": {"b"}}, [["a", "b"], ["c"]]),  # x is none of them
    ],
)
def test_in_a_level_nobody_is_ahead_of_another(ahead, levels):
    assert in_levels("abc", ahead) == levels


def test_nothing_has_no_level():
    assert in_levels([], {}) == []
