"""Whole searches on fake models: what is chosen is proven, and everything else says why it is not."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import fake_passes as scripted
import warm_start
from edgewise.cancellation import CancelToken, cancellable
from edgewise.evaluating.task import tasks
from edgewise.optimizing import result_builder
from edgewise.optimizing.accuracy import PART
from edgewise.optimizing.base import passes
from edgewise.optimizing.planning import read_words
from edgewise.optimizing.search_settings import Limits, make_bounds
from edgewise.progress import SessionStarted, VariantTested
from edgewise.run.host import LiveSession
from messages import says, wording
from search_bench import CLASSES, COUNT, Watching, labelled, original
from small_selections import Rows, rows, selection
from threaded_workers import living

pytestmark = pytest.mark.usefixtures("few_turns")


def whys(result):
    return {one.id.removesuffix(" @ fake"): one.why for one in result.candidates}


@pytest.mark.slow
def test_the_faster_one_is_chosen_and_the_slower_one_is_not(bench):
    progress = Watching()
    result = bench.search(scripted.Faster, scripted.Slower, scripted.Fastest, progress=progress)
    assert result.chosen == "faster @ fake" and result.headline == "accuracy_top1"
    memory = result.candidate("faster @ fake").metrics["memory_reduction"]
    assert memory.low <= memory.value <= memory.high
    found = whys(result)
    assert found["faster"].startswith("faster: 2.0") and "Top-1 accuracy +0.00 pt" in found["faster"]
    assert found["slower"].startswith("slower: 0.50")
    # 54 of 60 are the last class, 6 the first.
    assert found["fastest"].startswith("Top-1 accuracy −80.00 pt [") and "a drop of 80.0 pt is over" in found["fastest"]
    # The samples whose class changed, with their labels.
    assert list(result.changed) == ["faster @ fake", "slower @ fake", "fastest @ fake"]
    assert result.changed["faster @ fake"].changed == 0 and result.changed_most == "fastest @ fake"
    fastest = result.changed["fastest @ fake"]
    assert (fastest.n, fastest.counts, len(fastest.samples)) == (60, {"lost": 54, "gained": 6, "other": 0}, 24)
    assert all((one.label, one.before, one.after, one.after_score) == (2, 2, 0, 0.0) for one in fastest.samples)
    scores = [one.before_score for one in fastest.samples]
    assert scores == sorted(scores, reverse=True) and scores[0] > 0.0
    first = fastest.samples[0].name
    assert result.thumbnails == ({}, f"No pictures: {first}: samples of float32 [4] are no pictures")
    baseline = result.baseline.metrics
    assert baseline["accuracy_top1"].value == pytest.approx(0.9) and baseline["latency"].value == pytest.approx(4e-3)
    chosen = result.candidate(result.chosen).metrics
    assert chosen["latency"].value == pytest.approx(2e-3) and chosen["accuracy_drop"].value == 0.0
    assert {"original", "faster @ fake", "slower @ fake", "fastest @ fake"} <= set(progress.tested_ids)

    file, provenance = Path(result.files["chosen"]), json.loads(Path(result.files["provenance"]).read_text())
    assert file.parent == bench.folder / "out" and file.name == "net.faster.fake"
    assert provenance["parent"]["sha256"] == result.baseline.model.sha256
    assert provenance["model"]["sha256"] == result.candidate(result.chosen).model.sha256
    assert [one["name"] for one in provenance["passes"]] == ["faster"]
    assert provenance["passes"][0]["versions"] == {"scripted": "1.0"}
    words = shlex.split(result.command)
    assert words[:2] == ["edgewise", "optimize"]
    assert read_words([words[words.index("--passes") + 1]], passes()) == {"faster": []}

    raced = {run.job.model.sha256: run for run in bench.saved if run.artifacts}
    assert len(raced) == 3  # the original and the two that raced
    # Lists of runs and progress lines tell variants apart by these names.
    assert {run.job.model.name for run in raced.values()} == {"net.fake", "net.faster.fake", "net.slower.fake"}
    artifact = raced[result.candidate(result.chosen).model.sha256].artifacts[-1]
    assert artifact["accepted"] and artifact["files"]["chosen"] == str(file)
    assert set(result.front) >= {"faster @ fake"}


@pytest.mark.slow
def test_everything_that_can_go_wrong_goes_wrong_alone(bench):
    result = bench.search(
        scripted.Failing, scripted.Crashing, scripted.Filling, scripted.Broken, scripted.Nan, scripted.Narrow,
        scripted.Unloadable, scripted.Dying, scripted.Copied, scripted.Unchanged, scripted.Same,
    )  # fmt: skip
    found = whys(result)
    assert result.chosen is None and result.unmet == "" and not result.interrupted
    assert found["failing"].startswith("the pass failed: OddError: first")
    assert found["crashing"] == "the pass failed: the pass crashed (SIGABRT)"
    assert found["filling"] == "the disk is full: No space left on device"
    assert found["broken"].startswith("the pass failed: its result can't be read: ")
    assert found["nan"].startswith("broken: output 0 is not finite for 16 of 16 samples")
    assert found["narrow"].startswith("broken: output 0 has the shape (1, 2)")
    assert found["unloadable"].startswith("fake can't run it: ") and "SIGABRT" in found["unloadable"]
    assert re.match(says("failed-data"), found["dying"]) and "SIGSEGV" in found["dying"]
    assert found["copied"] == wording("same-file", same="original")
    assert "unchanged" not in found and any(note.startswith("unchanged: ") for note in result.notes)
    assert found["same"].startswith(
        ("no difference that matters: ", "not proven faster: ", "probably faster, not proven: ")
    )
    stages = {one.id.removesuffix(" @ fake"): one.stage for one in result.candidates}
    assert stages["failing"] == "planned" and stages["narrow"] == "loaded" and stages["same"] == "raced"
    assert warm_start.children() == [] == living()


def test_all_checks_of_a_model_share_one_worker(bench, monkeypatch):
    """The few samples, the part and all of the data: three checks of each model."""
    started, start = [], LiveSession.start
    monkeypatch.setattr(LiveSession, "start", lambda self, target: (started.append(self), start(self, target))[1])
    count = 2 * PART + 8
    data = Rows(rows(count), [CLASSES - 1 if index % 10 else 0 for index in range(count)])
    result = bench.search(scripted.Faster, data=data, progress=Watching(interrupt="Race"))
    assert result.interrupted and result.candidate("faster @ fake").stage == "judged"
    assert result.candidate("faster @ fake").metrics["accuracy_drop"].value == 0.0
    assert len(started) == 2  # the original and the variant


def test_a_search_without_races_makes_and_judges_variants_and_times_none(bench):
    data = Rows(rows(COUNT), labelled().labels)
    result = bench.search(scripted.Faster, data=data, races=False)
    one = result.candidate("faster @ fake")
    assert (result.chosen, one.stage, one.predicted) == (None, "judged", None)
    assert "latency" not in {*one.metrics, *result.baseline.metrics} and not bench.saved
    assert len((bench.folder / "out" / "made.jsonl").read_text().splitlines()) == 1


@pytest.mark.slow
def test_what_dies_in_the_race_is_not_chosen(bench):
    result = bench.search(scripted.Tiring, scripted.Slower)
    found = whys(result)
    assert result.chosen is None and re.match(says("failed-race"), found["tiring"]), found


@pytest.mark.slow
@pytest.mark.long
def test_an_earlier_search_is_used_again_unless_it_is_not_to_be(bench):
    first = bench.search(scripted.Faster, scripted.Same)
    journal = (bench.folder / "out" / "made.jsonl").read_text()
    reads = Rows(rows(COUNT), labelled().labels)
    second = bench.search(data=reads)
    assert second.chosen == first.chosen and (bench.folder / "out" / "made.jsonl").read_text() == journal
    again = len(reads.read_numbers)
    assert again < COUNT  # the first look only: what was judged is known
    fresh = Rows(rows(COUNT), labelled().labels)
    bench.search(data=fresh, fresh=True)
    assert len(fresh.read_numbers) >= again + 3 * COUNT
    assert len((bench.folder / "out" / "made.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_other_labels_are_judged_anew_in_the_same_folder(bench):
    bench.search(scripted.Faster)
    other = bench.search(data=Rows(rows(COUNT), [0] * COUNT, mark="mended"))
    assert other.baseline.metrics["accuracy_top1"].value == 0.0


@pytest.mark.slow
def test_only_slower_ones_are_no_recommendation(bench):
    result = bench.search(scripted.Slower)
    assert result.chosen is None and result.unmet == "" and whys(result)["slower"].startswith("slower: ")


@pytest.mark.slow
@pytest.mark.parametrize("limit", [pytest.param(1.5e-3, marks=pytest.mark.long), 3e-3])
def test_a_bound_that_nothing_meets_names_what_comes_closest(bench, limit):
    result = bench.search(scripted.Faster, scripted.Slower, limits=Limits(latency_s=limit))
    if limit == 3e-3:
        assert result.chosen == "faster @ fake"
        return
    assert result.chosen is None and result.closest == "faster @ fake"
    assert result.unmet == "Latency 2.00 ms is over --max-latency 1.50 ms"
    assert "but Latency 2.00 ms is over --max-latency 1.50 ms" in whys(result)["faster"]


@pytest.mark.slow
def test_the_original_may_come_closest(bench):
    result = bench.search(scripted.Slower, limits=Limits(latency_s=3.9e-3))
    assert (result.chosen, result.closest) == (None, "original")
    assert result.unmet == "Latency 4.00 ms is over --max-latency 3.90 ms"


@pytest.mark.slow
def test_an_original_that_meets_the_bounds_is_measured_where_nothing_else_runs(bench):
    result = bench.search(scripted.Failing, limits=Limits(latency_s=5e-3))
    assert (result.chosen, result.unmet, result.closest) == (None, "", None)
    assert result.baseline.metrics["latency"].value == pytest.approx(4e-3)


@pytest.mark.slow
def test_a_size_that_nothing_has_is_told_without_a_race(bench):
    result = bench.search(scripted.Failing, limits=Limits(size_bytes=10))
    assert result.closest == "original" and "over --max-size 10 B" in result.unmet


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["Variants", "Race"])
def test_ctrl_c_keeps_what_was_found(bench, stage):
    result = bench.search(scripted.Faster, scripted.Failing, progress=Watching(interrupt=stage))
    assert result.interrupted and result.chosen is None and result.stopped_because == "interrupted"
    if stage == "Race":
        assert {one.stage for one in result.candidates} == {"judged", "planned"}
        assert whys(result)["faster"] == "not raced: interrupted" and result.candidate("faster @ fake").unreached
    again = bench.search()
    assert again.chosen == "faster @ fake" and not again.interrupted


@pytest.mark.slow
def test_ctrl_c_in_the_midst_of_a_race_leaves_no_process(bench):
    """Pressed where the second round begins; a real signal would end the process that these tests share."""

    def press(event):
        if isinstance(event, SessionStarted) and event.index == 1:
            raise KeyboardInterrupt

    result = bench.search(scripted.Faster, progress=press)
    assert result.interrupted
    assert warm_start.children() == [] == living()


@pytest.mark.parametrize("stage", ["Variants", "Race"])
def test_the_cancel_token_ends_a_pass_or_a_race_at_once_and_keeps_what_is_finished(bench, clock, stage):
    token, pressed = CancelToken(), []
    clock.silent_when = lambda: any(bench.folder.rglob("hangs"))

    def stop():
        pressed.append(clock.now())
        token.cancel()

    def press(event):
        if stage == "Variants" and isinstance(event, VariantTested) and event.id == "faster @ fake":
            clock.after(0.5, stop)  # in the midst of the pass that hangs
        if stage == "Race" and isinstance(event, SessionStarted) and event.index == 1 and not pressed:
            stop()

    passes = [scripted.Faster, *([scripted.Hanging] if stage == "Variants" else [])]
    with cancellable(token):
        result = bench.search(*passes, progress=press)
    assert pressed == [clock.now()]
    assert result.interrupted and result.stopped_because == "interrupted"
    assert warm_start.children() == [] == living()
    made = {one.id: one.stage for one in result.candidates}
    assert made["faster @ fake"] in ("judged", "raced")
    assert not any("time budget" in why for why in whys(result).values())


def test_a_hanging_pass_is_given_up_and_others_are_tried(bench, clock):
    clock.silent_when = lambda: any(bench.folder.rglob("hangs"))
    begin = clock.now()
    # Its recipes come in the order of names: `faster` is made first.
    result = bench.search(scripted.Faster, scripted.Hanging, budget_s=200.0)
    assert whys(result)["hanging"].startswith("gave up: it took longer than ")
    assert result.chosen == "faster @ fake" and clock.now() - begin < 200.0


def late(budget):
    return (
        f"not tried: the 60% of the time budget of {budget} that are for making variants were used up; the rest is for "
        "races"
    )


def test_with_no_time_nothing_is_tried_and_it_says_so(bench, clock):
    result = bench.search(scripted.Faster, scripted.Slower, budget_s=0.5, progress=lambda event: clock.let_pass(1.0))
    assert result.chosen is None and result.stopped_because == "the time budget"
    assert set(whys(result).values()) == {late("0.5 s")}


def _search_int8(bench, clock, *classes, budget_s, each_s):
    """Search on samples to calibrate with; each test of a variant takes `each_s` seconds. Ids in order of their tests."""
    tested = []

    def watch(event):
        if isinstance(event, VariantTested) and event.id != "original":
            tested.append(event.id.removesuffix(" @ fake"))
            clock.let_pass(each_s)

    samples = replace(selection(labelled()), indices=tuple(range(8)))
    return bench.search(*classes, budget_s=budget_s, calibration=samples, races=False, progress=watch), tested


def test_of_a_budget_for_two_variants_one_is_int8(bench, clock):
    """Conversions and other passes come before quantisation where there is time for all."""
    result, tested = _search_int8(bench, clock, scripted.Converted, scripted.Int8, budget_s=100.0, each_s=31.0)
    assert tested[:2] == ["int8", "converted"]
    assert result.candidate("int8 @ fake").stage == "judged"
    assert whys(result)["converted second"] == late("1.67 min")


def test_int8_comes_first_once_and_nothing_else_changes(bench, clock):
    result, tested = _search_int8(bench, clock, scripted.Converted, scripted.Int8, budget_s=3000.0, each_s=0.0)
    assert tested == ["int8", "converted", "converted second", "converted third"]
    assert set(whys(result)) == {"int8", "converted", "converted second", "converted third"}


def test_int8_that_fails_is_followed_by_the_next_int8(bench, clock):
    passes = scripted.Converted, scripted.FailingInt8, scripted.Int8
    result, tested = _search_int8(bench, clock, *passes, budget_s=100.0, each_s=31.0)
    assert whys(result)["a-failing-int8"].startswith("the pass failed: ")
    assert tested == ["a-failing-int8", "int8"]
    assert whys(result)["converted"] == late("1.67 min")


def test_of_every_pass_something_comes_before_more_of_one(bench, monkeypatch):
    monkeypatch.setattr(scripted.Faster, "labels", ("", "more"))
    monkeypatch.setattr(scripted.Faster, "capabilities", scripted.Scripted.capabilities)
    result = bench.search(scripted.Faster, scripted.Slower, budget_s=0.01)
    assert list(whys(result)) == ["faster", "slower", "faster more", "slower more"]


@pytest.mark.slow
def test_without_data_outputs_must_be_like_the_original_s(bench):
    result = bench.search(scripted.Faster, scripted.Fastest, data=False)
    found = whys(result)
    assert result.chosen == "faster @ fake" and result.headline == ""
    assert "outputs" in found["fastest"] and not result.candidate("fastest @ fake").accepted
    assert result.candidate("fastest @ fake").stage != "raced"


@pytest.mark.slow
@pytest.mark.parametrize("drop", ["1pt", pytest.param("2%", marks=pytest.mark.long)])
def test_without_labels_the_original_is_right(bench, drop):
    result = bench.search(
        scripted.Faster, scripted.Fastest, data=Rows(rows(COUNT)), labels=False, limits=Limits(accuracy_drop=drop),
        task_name="classification",
    )  # fmt: skip
    found = whys(result)
    assert result.chosen == "faster @ fake" and result.headline == "agreement_top1"
    assert found["fastest"].startswith("Top-1 agreement −100.00 pt"), found
    assert result.judged_by["outputs"] == "classes" and result.data.name == "rows"
    assert result.changed["faster @ fake"].counts == {"other": 0}
    fastest = result.changed["fastest @ fake"]
    assert (fastest.n, fastest.counts) == (COUNT, {"other": COUNT})
    assert {(one.label, one.before, one.after) for one in fastest.samples} == {(None, CLASSES - 1, 0)}


@pytest.mark.slow
def test_without_labels_values_are_judged_by_their_signal_to_noise_ratio(bench):
    """Their best class means nothing: a landmark network's int8 variants all lost 60 points of it, and were right."""
    data = Rows(rows(COUNT))
    result = bench.search(scripted.Faster, scripted.Fastest, data=data, labels=False)
    found = whys(result)
    assert result.headline == "output_snr_worst" and result.judged_by["outputs"] == "values"
    assert [bound.words for bound in result.bounds] == ["--min-snr 20dB"]
    assert found["faster"].startswith("faster: 2.0") and found["faster"].endswith("; outputs are the same")
    assert found["fastest"] == "SNR 0.0 dB: an SNR of 0.0 dB is under --min-snr 20dB"
    assert result.chosen == "faster @ fake"
    assert any("judged by the signal-to-noise ratio" in note for note in result.notes)
    # Data was given, and says so.
    assert result.data.name == "rows" and result.judged == COUNT
    for run in bench.saved:
        assert run.measurement("agreement_top1") is None


@pytest.mark.slow
def test_a_metric_of_its_own_unit_has_a_bound_of_its_own(bench):
    model = original(bench.folder, outputs=[{"name": "y", "shape": [1, 1], "dtype": "float32"}])
    targets = [float(row.sum()) + 0.001 for row in rows(COUNT)]
    result = bench.search(
        scripted.Faster, scripted.Fastest, model=model, data=Rows(rows(COUNT), targets), task=tasks().get("regression"),
        bounds=make_bounds(Limits(accuracy_drop="0.01"), headline="mae"),
    )  # fmt: skip
    assert result.chosen == "faster @ fake" and result.baseline.metrics["mae"].value == pytest.approx(0.001, rel=1e-3)
    found = whys(result)["fastest"]
    assert found.startswith("MAE +") and " pt" not in found and "is over --max-accuracy-drop 0.01" in found


def test_the_provenance_of_each_variant_is_made_once(bench, monkeypatch):
    """That of the chosen one was made twice, and each hashed the file that the user gave."""
    made: list[str] = []
    build = result_builder.provenance_of
    monkeypatch.setattr(
        result_builder, "provenance_of",
        lambda result, one, *parent, **more: made.append(one.id) or build(result, one, *parent, **more),
    )  # fmt: skip
    result = bench.search(scripted.Faster)
    assert result.chosen is not None and sorted(made) == sorted({*made}) and result.chosen in made
    chosen, beside = Path(result.files["provenance"]), Path(result.candidate(result.chosen).model.path)
    assert chosen.read_text() == beside.with_name(f"{beside.name}.provenance.json").read_text()
