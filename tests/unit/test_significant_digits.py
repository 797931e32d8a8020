"""A number that is rounded up to a power of ten has no digit too many."""

import pytest

from edgewise.units import significant


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (99.94, "99.9"),
        (99.96, "100"),
        (-99.96, "-100"),
        (9.996, "10.0"),
        (0.09996, "0.100"),
        (123456.0, "123000"),
        (0.0, "0"),
    ],
)
def test_three_digits(value, text):
    assert significant(value) == text
