"""Bisection of releases: Bayes' rule on noisy ratios, and what is told of releases that can't be measured."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace

import pytest

from edgewise.child_process import Outcome
from edgewise.errors import BadInput, Unavailable
from edgewise.testing import write_fake_model
from edgewise.verbs.bisect import work
from edgewise.verbs.bisect.request import BisectRequest
from edgewise.verbs.bisect.search import Search
from edgewise.verbs.context import Context

VERSIONS = [f"1.{minor}.0" for minor in range(20, 29)]


def find(chance, *, first, number=8, change=math.log(1.05), spread=0.01):
    """The first bad release that a search finds, and how many comparisons it took."""
    search = Search(number=number, change=chance.gauss(change, spread), spread=spread)
    probes = 0
    while not search.is_sure and (at := search.next(())) is not None:
        search.update(at, chance.gauss(change if at >= first else 0.0, spread), spread)
        probes += 1
    return search.first[0], probes


def test_of_eight_releases_the_right_one_is_found_with_four_probes_on_average():
    chance = random.Random(7)
    found = [(first, *find(chance, first=first)) for first in range(1, 9) for _ in range(125)]
    right = sum(first == told for first, told, _ in found) / len(found)
    assert right >= 0.95 and sum(probes for *_, probes in found) / len(found) <= 4.0


def test_noise_as_large_as_the_change_takes_more_probes_and_stays_as_sure():
    chance = random.Random(8)
    found = [(first, *find(chance, first=first, spread=0.025)) for first in range(1, 9) for _ in range(50)]
    assert sum(first == told for first, told, _ in found) / len(found) >= 0.9


def test_a_release_between_two_that_differ_cannot_be_told_from_the_next_where_it_is_not_measured():
    search = Search(number=4, change=0.1, spread=0.01)
    search.update(1, 0.0, 0.01)
    search.update(3, 0.1, 0.01)
    assert search.next({2}) is None and sorted(search.candidates()) == [2, 3]
    assert search.first[1] == pytest.approx(0.5, abs=0.01) and search.between == []
    search.update(2, 0.05, 0.01)
    assert search.between == [2]


@pytest.fixture
def steps(monkeypatch, tmp_path):
    """Scripted comparisons: version → ratio to the good release, or an error; what was compared, in order."""
    monkeypatch.setattr(work, "releases_of", lambda package: VERSIONS)
    ratios: dict[str, object] = {}
    compared: list[str] = []

    def carry_out(request, context):
        version = request.environments[1].partition("==")[2]
        compared.append(version)
        told = ratios[version]
        if isinstance(told, BaseException):
            raise told
        row = SimpleNamespace(
            metric=request.until, ratio=told, verdict="slower" if told > 1.02 else "same", because="", rerun_low=None,
            rerun_high=None, low=told * 0.99, high=told * 1.01,
        )  # fmt: skip
        return SimpleNamespace(comparisons=[row], variants=[], failures={}, pairs=5, interrupted=False)

    monkeypatch.setattr(work, "carry_out", carry_out)
    model = write_fake_model(tmp_path / "m.fake")

    def search(values, **fields):
        ratios.update(zip(VERSIONS, values, strict=True))
        asked = {"model": model, "good": VERSIONS[0], "bad": VERSIONS[-1], "profile": False, **fields}
        return work.bisect(BisectRequest(**asked), Context())

    search.compared = compared
    return search


def test_the_first_slow_release_is_told_with_its_probability_and_the_way_to_see_it_again(steps):
    found = steps([1, 1, 1, 1, 1, 1.05, 1.05, 1.05, 1.05])
    assert (found.first, found.before, found.others) == ("1.25.0", "1.24.0", [])
    assert found.probability > 0.95 and len(steps.compared) <= 5
    document = found.describe()
    assert document.answer[0].startswith("onnxruntime 1.25.0 is the first release with which m.fake is slower")
    assert "edgewise compare MODEL --vary onnxruntime=1.24.0,1.25.0" in document.sections[0].lines
    assert found.to_document()["first"] == "1.25.0"
    assert [row[3].text for row in document.tables[0].rows].index("← first") == 5


def test_releases_that_cannot_be_measured_are_left_out_and_may_be_the_first(steps):
    broken = Unavailable("no wheel")
    found = steps([1, 1, 1, 1, broken, 1.05, 1.05, 1.05, 1.05])
    assert {found.first, *found.others} == {"1.24.0", "1.25.0"} and found.probability == pytest.approx(0.5, abs=0.05)
    assert found.releases[4].skipped == "no wheel"
    assert "it may also be" in " ".join(found.describe().answer)


def test_two_changes_are_said(steps):
    found = steps([1, 1, 1, 1.1, 1.1, 1.1, 1.2, 1.2, 1.2])
    assert found.between and "more than one release changed it" in " ".join(found.describe().answer)


def test_where_the_last_release_is_no_slower_nothing_is_searched(steps):
    found = steps([1.0] * 9)
    assert found.first is None and steps.compared == ["1.28.0"]
    assert found.describe().answer[0].startswith("m.fake is not shown to be slower with onnxruntime 1.28.0")


def test_ctrl_c_leaves_what_is_known(steps):
    found = steps([1, 1, 1, 1, KeyboardInterrupt(), 1.05, 1.05, 1.05, 1.05])
    assert found.interrupted and found.first is not None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"good": "9.9"}, "the index has no onnxruntime 9.9"),
        ({"good": "1.28.0", "bad": "1.20.0"}, "1.28.0 is newer than 1.20.0"),
        ({"good": "1.20.0", "bad": "1.20.0"}, "the same release"),
        ({"engine": "numpy"}, "'numpy' is not known"),
        ({"most_probes": 0}, "most_probes"),
    ],
)
def test_what_cannot_be_searched_is_refused(steps, fields, words):
    with pytest.raises(BadInput) as caught:
        steps([1.0] * 9, **fields)
    assert words in caught.value.message and not steps.compared


@pytest.mark.parametrize("bad", [Unavailable("no wheel"), BadInput("it can't be read")])
def test_a_last_release_that_cannot_be_measured_ends_it(steps, bad):
    with pytest.raises(Unavailable, match=r"onnxruntime 1\.28\.0 can't be compared: "):
        steps([*[1.0] * 8, bad])


def test_final_releases_are_read_from_pip_in_order(monkeypatch):
    answer = b"x (1.10.0)\nAvailable versions: 1.10.0, 1.9.1, 1.9.0.post1, 1.9.0, 1.9.0rc1, 1.8.0.dev2\n"
    monkeypatch.setattr(work, "run_child", lambda *words, **more: Outcome(output=answer))
    assert work.releases_of("x") == ["1.9.0", "1.9.0.post1", "1.9.1", "1.10.0"]
    monkeypatch.setattr(work, "run_child", lambda *words, **more: Outcome(tail="ERROR: no index", failure="ended"))
    with pytest.raises(Unavailable, match="can't list the releases of x: ERROR: no index"):
        work.releases_of("x")
