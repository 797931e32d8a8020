"""A classifier that may just as well be guessing is called that."""

import pytest

from edgewise.evaluating.examination import guess_notes

TEN = [[1] * 10] * 10


@pytest.mark.parametrize("low", [0.0, 0.05, 0.1])
def test_what_may_be_chance_is_called_so(low):
    (note,) = guess_notes(low, TEN)
    assert note.startswith("no better than guessing among 10 classes") and "--prepare" in note


@pytest.mark.parametrize(
    ("low", "confusion"), [(0.101, TEN), (None, TEN), (0.0, None), (0.0, [[3]]), (0.0, []), (0.51, [[1, 2], [3, 4]])]
)
def test_of_others_nothing_is_said(low, confusion):
    assert guess_notes(low, confusion) == ()
