"""Bisection of releases: Bayes' rule on noisy ratios, and what is told of releases that can't be measured."""

from __future__ import annotations

import itertools
import json
import math
import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from edgewise.child_process import Outcome
from edgewise.device import environment_maker
from edgewise.errors import BadInput, Unavailable
from edgewise.model.identity import read_graph
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.report.document.markdown import render_markdown
from edgewise.run.agreement import NOT_FINITE, Outputs
from edgewise.run.plan import Axes, make_plan
from edgewise.testing import write_fake_model
from edgewise.verbs.bisect import work
from edgewise.verbs.bisect.outputs import OutputSearch
from edgewise.verbs.bisect.request import BisectRequest
from edgewise.verbs.bisect.result import BisectResult, Release
from edgewise.verbs.bisect.search import Search
from edgewise.verbs.context import Context
from sample_profiles import layer_of, profiled_run
from tiny_models import write_tiny_onnx

VERSIONS = [f"1.{minor}.0" for minor in range(20, 29)]


def find(chance, *, first, number=8, change=math.log(1.05), spread=0.01, told=None, most=40):
    """The first bad release that a search finds, and how many comparisons it took.

    Comparisons differ by `spread`, and `told` is the standard deviation that they tell.
    """
    told = told or spread
    while (level := chance.gauss(change, spread)) < change / 2:  # it would not be called slower
        pass
    search = Search(number=number, change=level, spread=told)
    probes = 0
    while not search.is_sure and probes < most and (at := search.next(())) is not None:
        search.update(at, chance.gauss(change if at >= first else 0.0, spread), told)
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


@pytest.mark.parametrize(("spread", "told", "least", "most"), [(0.001, 0.02, 0.99, 4.0), (0.02, 0.01, 0.9, 8.0)])
def test_how_far_comparisons_differ_is_learnt_from_them(spread, told, least, most):
    """What they tell of it is mostly assumed: twenty times too much, or half of it."""
    chance = random.Random(9)
    found = [(first, *find(chance, first=first, spread=spread, told=told, most=12)) for first in [*range(1, 9)] * 50]
    assert sum(first == told for first, told, _ in found) / len(found) >= least
    assert sum(probes for *_, probes in found) / len(found) <= most


def test_the_limit_of_probes_leaves_very_noisy_searches_the_time_to_be_sure():
    chance = random.Random(10)
    most = BisectRequest(model="m.onnx", good="1", bad="2").most_probes
    words = {"change": math.log(1.031), "spread": 0.015, "most": most}
    found = [(first, *find(chance, first=first, **words)) for first in [*range(1, 9)] * 50]
    assert sum(first == told for first, told, _ in found) / len(found) >= 0.95
    assert sum(probes == most for *_, probes in found) / len(found) <= 0.1


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
    monkeypatch.setattr(work, "releases_of", lambda package, device: VERSIONS)
    ratios: dict[str, object] = {}
    compared: list[str] = []

    def carry_out(request, context):
        version = request.environments[1].partition("==")[2]
        compared.append(version)
        told = ratios[version]
        if isinstance(told, BaseException):
            raise told
        row = SimpleNamespace(
            metric=request.until, ratio=told, verdict="slower" if told > 1.02 else "same", because="",
            rerun_sigma=None, low=told * 0.99, high=told * 1.01,
        )  # fmt: skip
        return SimpleNamespace(comparisons=[row], variants=[], failures={}, pairs=5, interrupted=False)

    monkeypatch.setattr(work, "carry_out", carry_out)
    model = write_fake_model(tmp_path / "m.fake")

    def search(values, **fields):
        ratios.update(zip(VERSIONS, values, strict=True))
        asked = {"model": model, "good": VERSIONS[0], "bad": VERSIONS[-1], "profile": False, **fields}
        return work.bisect(BisectRequest(**asked), Context())

    search.compared, search.model = compared, model
    return search


def test_the_first_slow_release_is_told_with_its_probability_and_the_way_to_see_it_again(steps):
    found = steps([1, 1, 1, 1, 1, 1.05, 1.05, 1.05, 1.05])
    assert (found.first, found.before, found.others) == ("1.25.0", "1.24.0", [])
    assert found.probability > 0.95 and len(steps.compared) <= 5
    document = found.describe()
    assert document.answer[0].startswith("onnxruntime 1.25.0 is the first release with which m.fake is slower")
    assert f"edgewise compare {steps.model} --vary onnxruntime=1.24.0,1.25.0" in document.sections[0].lines
    assert found.to_document()["first"] == "1.25.0"
    assert [row[3].text for row in document.tables[0].rows].index("← first") == 5


def test_a_report_has_the_smallest_files_of_requirements_with_the_packages_that_were_measured(steps):
    """Of 1.24.0 nothing is known: its numpy has no version. Other packages stand under the machine."""
    found = steps([1, 1, 1, 1, 1, 1.05, 1.05, 1.05, 1.05])
    assert _files(found) == {
        "before.txt": ("onnxruntime==1.24.0", "numpy"),
        "after.txt": ("onnxruntime==1.25.0", "numpy"),
    }
    packages = [{"onnxruntime": one, "numpy": numpy, "flatbuffers": "25.9"}
                for one, numpy in (("1.20.0", "2.1.0"), ("1.25.0", "2.3.5"))]  # fmt: skip
    found = replace(found, environments=[{"packages": each} for each in packages])
    assert _files(found)["after.txt"] == ("onnxruntime==1.25.0", "numpy==2.3.5")
    told = render_markdown(found.describe())
    assert "## after.txt\n\n    onnxruntime==1.25.0\n    numpy==2.3.5\n" in told
    assert "flatbuffers 25.9; " not in told and told.count("flatbuffers 25.9") == 1  # of the two releases only


def _files(found):
    return {each.title: each.drawing for each in found.describe().sections if each.title.endswith(".txt")}


def test_the_command_for_the_two_releases_has_the_model_threads_and_device_as_typed(steps, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_fake_model(tmp_path / "my m.fake")
    values = [1, 1, 1, 1, 1, 1.05, 1.05, 1.05, 1.05]
    lines = steps(values, model="my m.fake", threads=2, device="pi").describe().sections[0].lines
    assert "edgewise compare 'my m.fake' --device pi --threads 2 --vary onnxruntime=1.24.0,1.25.0" in lines


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
    found = steps([1, 1, 1, 1, 1, 1.05, KeyboardInterrupt(), 1.05, 1.05])
    assert steps.compared == ["1.28.0", "1.24.0", "1.26.0"]
    assert found.interrupted and (found.first, found.to_document()["interrupted"]) == ("1.25.0", True)
    document = found.describe()
    share = math.floor(100 * found.probability)
    assert 1 <= share < 96 and document.answer[0] == (
        "interrupted: the search is not finished; most likely onnxruntime 1.25.0 is the first release with which "
        f"m.fake is slower (probability {share}%, below the limit of 96%)"
    )
    assert [row[3].text for row in document.tables[0].rows].count("← most likely first") == 1


def test_ctrl_c_before_a_second_comparison_names_every_release(steps):
    found = steps([1, 1, 1, 1, KeyboardInterrupt(), 1.05, 1.05, 1.05, 1.05])
    assert (found.first, found.probability, found.others) == (None, None, VERSIONS[1:])
    assert (
        found.describe()
        .answer[0]
        .startswith(
            "interrupted: the search is not finished; the first release with which m.fake is slower may be 1.21.0, 1.22.0"
        )
    )


def test_the_limit_of_probes_leaves_a_search_undecided(steps):
    found = steps([1, 1, 1, 1, 1, 1.05, 1.05, 1.05, 1.05], most_probes=1)
    assert found.probability < 0.96 and not found.interrupted
    assert found.describe().answer[0].startswith("not decided; most likely onnxruntime ")


@pytest.mark.parametrize(
    ("probability", "words"),
    [(0.957, "not decided; most likely x 2 is the first release with which m is slower (probability 95%, below the "
      "limit of 96%)"), (0.96, "x 2 is the first release with which m is slower (probability 96%); 1 is not")],
)  # fmt: skip
def test_a_probability_below_the_limit_is_never_rounded_to_it(probability, words):
    releases = [Release(version="1"), Release(version="2")]
    found = BisectResult(
        model={"name": "m"}, engine="x", on="latency", releases=releases, first="2", probability=probability
    )
    assert found.describe().answer[0] == words


def test_the_part_that_is_slower_is_written_and_told(steps, monkeypatch, tmp_path):
    pytest.importorskip("onnx", reason="parts of ONNX models")
    product = read_graph(write_tiny_onnx(tmp_path / "m.onnx")).operators[0]
    runs = [replace(profiled_run(at), layers=(layer_of(0, product.name, product.op, time),))
            for at, time in enumerate((10.0, 30.0))]  # fmt: skip
    monkeypatch.setattr(work._Steps, "profile", lambda self, before, after: runs)
    place = tmp_path / "part.onnx"
    values = [1, 1, 1, 1, 1, 1.05, 1.05, 1.05, 1.05]
    found = steps(values, model=str(tmp_path / "m.onnx"), profile=True, subgraph=str(place))
    assert found.part is not None and found.part.file == str(place) and place.stat().st_size > 50
    assert found.to_document()["subgraph"]["ratio"] == 1.05
    told = " ".join(found.describe().sections[0].lines)
    assert "with random weights, ratio 1.050" in told and "from 1.24.0 to 1.25.0" in told
    with pytest.raises(BadInput, match="exists already"):
        steps(values, model=str(tmp_path / "m.onnx"), profile=True, subgraph=str(place))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"subgraph": "part.onnx"}, "needs the profiles of a search by latency"),
        ({"subgraph": "part.onnx", "profile": True}, "is no ONNX file"),
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


@pytest.fixture
def outputs(monkeypatch, tmp_path):
    """Scripted outputs: version → an array, or an error; which releases were run, in order."""
    monkeypatch.setattr(work, "releases_of", lambda package, device: VERSIONS)
    told: dict[str, object] = {}
    ran: list[str] = []

    def outputs_of(self, version):
        ran.append(version)
        if isinstance(told[version], BaseException):
            raise told[version]
        value = next(told[version]) if isinstance(told[version], itertools.count) else told[version]
        return Outputs(run_id=version, label=version, arrays=(np.array([[1.0 + 0.0 * value, value]]),))

    monkeypatch.setattr(OutputSearch, "_outputs", outputs_of)
    model = write_fake_model(tmp_path / "m.fake")

    def search(values, **fields):
        told.update(zip(VERSIONS, values, strict=True))
        asked = {"model": model, "good": VERSIONS[0], "bad": VERSIONS[-1], "on": "output", **fields}
        return work.bisect(BisectRequest(**asked), Context())

    search.ran, search.model = ran, model
    return search


@pytest.mark.parametrize("first", range(1, 9))
def test_the_first_release_with_other_outputs_is_found_and_none_is_run_twice(outputs, first):
    found = outputs([0.5 + 1e-4 * (at % 2) if at < first else 0.4 for at in range(9)])
    assert (found.first, found.before) == (VERSIONS[first], VERSIONS[first - 1])
    assert (found.probability, found.others) == (1.0, [])
    assert outputs.ran[:2] == [VERSIONS[0]] * 2 and len(set(outputs.ran)) == len(outputs.ran[1:]) <= 5
    assert found.releases[first].difference == pytest.approx(0.1)
    document = found.describe()
    assert "the first release with which m.fake is different in outputs" in document.answer[0]
    assert "max abs error 0.1" in document.answer[1]
    sides = f"--environment onnxruntime=={VERSIONS[first - 1]} --environment onnxruntime=={VERSIONS[first]}"
    assert f"edgewise bench {outputs.model} -r onnxruntime {sides}" in found._again()
    json.dumps(found.to_document(), allow_nan=False)


def test_releases_that_cannot_run_may_be_the_first_with_other_outputs(outputs):
    found = outputs([0.5, 0.5, 0.5, 0.5, Unavailable("no wheel"), Unavailable("crashed"), 1, 1, 1])
    assert (found.first, found.others, found.probability) == ("1.26.0", ["1.24.0", "1.25.0"], None)
    assert (found.releases[4].skipped, found.releases[5].skipped) == ("no wheel", "crashed")
    assert "it may also be 1.24.0 and 1.25.0" in found.describe().answer
    assert found.describe().answer[0].endswith("different in outputs; 1.25.0 could not be run")


def test_ctrl_c_in_a_search_of_outputs_names_no_release_and_does_not_call_them_the_same(outputs):
    found = outputs([0.5, 0.5, 0.5, 0.5, KeyboardInterrupt(), 1, 1, 1, 1])
    assert found.interrupted and found.first is None
    told = found.describe().answer[0]
    assert found.others == VERSIONS[1:] and told.startswith(
        "interrupted: the search is not finished; the first release with which m.fake is different in outputs may be "
    )


def test_the_same_outputs_up_to_rounding_end_it(outputs):
    found = outputs([0.5] * 8 + [0.5001])
    assert found.first is None and outputs.ran == ["1.20.0", "1.20.0", "1.28.0"]
    assert found.describe().answer[0].startswith("m.fake gives the same outputs with onnxruntime 1.28.0 as with 1.20.0")


def test_outputs_with_infinity_differ_without_a_number(outputs):
    found = outputs([0.5] * 4 + [math.nan] * 5)
    assert found.first == "1.24.0" and found.releases[4].difference is None
    assert "NaN or infinity in different places" in found.describe().answer[1]
    json.dumps(found.to_document(), allow_nan=False)


def test_releases_whose_outputs_are_no_numbers_can_t_be_told_apart(outputs):
    with pytest.raises(BadInput, match=NOT_FINITE):
        outputs([math.nan] * 9)


@pytest.mark.parametrize("broken", [0, 8])
def test_an_end_that_cannot_run_ends_a_search_of_outputs(outputs, broken):
    values = [0.5] * 9
    values[broken] = Unavailable("no wheel")
    with pytest.raises(Unavailable, match="no wheel"):
        outputs(values)


def test_outputs_that_cannot_be_repeated_tell_no_release(outputs):
    with pytest.raises(BadInput, match=r"differ between two runs of 1\.20\.0"):
        outputs([itertools.count(), *[0.5] * 8])


def test_workers_compute_the_outputs_and_one_that_crashes_is_told(monkeypatch, tmp_path):
    scripts = {"1.20.0": {}, "1.21.0": {"behaviour": {"at": "load", "do": "segfault"}}, "1.22.0": {"outputs_value": 3}}
    monkeypatch.setattr(work, "releases_of", lambda package, device: [*scripts])

    def job(self, version):
        path = write_fake_model(tmp_path / f"{version}.fake", **scripts[version])
        plan = make_plan([path], axes=Axes(), scenario=Scenario(), stopping=Stopping(), target=TargetSpec())
        return plan.jobs[0]

    monkeypatch.setattr(OutputSearch, "_job", job)
    asked = BisectRequest(model=write_fake_model(tmp_path / "m.fake"), good="1.20.0", bad="1.22.0", on="output")
    found = work.bisect(asked, Context())
    assert (found.first, found.others) == ("1.22.0", ["1.21.0"])
    assert found.releases[1].skipped.startswith("onnxruntime 1.21.0: ")
    with pytest.raises(Unavailable, match=r"onnxruntime 1\.21\.0 can't be compared: onnxruntime 1\.21\.0: "):
        work.bisect(asked.model_copy(update={"bad": "1.21.0"}), Context())


def test_final_releases_are_read_from_pip_in_order(monkeypatch):
    answer = b"x (1.10.0)\nAvailable versions: 1.10.0, 1.9.1, 1.9.0.post1, 1.9.0, 1.9.0rc1, 1.8.0.dev2\n"
    monkeypatch.setattr(environment_maker, "run_child", lambda *words, **more: Outcome(output=answer))
    assert work.releases_of("x") == ["1.9.0", "1.9.0.post1", "1.9.1", "1.10.0"]
    monkeypatch.setattr(
        environment_maker, "run_child", lambda *words, **more: Outcome(tail="ERROR: no index", failure="ended")
    )
    with pytest.raises(Unavailable, match="can't list the releases of x: ERROR: no index"):
        work.releases_of("x")
