"""Races that follow one another: what one proved, the next does not forget; and what a speed-up is made of."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.comparing.comparison import Comparison, ComparisonResult, Ranked, Ranking, Side, Variant
from edgewise.evaluating.instructions import Instructions
from edgewise.optimizing import factors, selection
from edgewise.optimizing.base import Capabilities, EngineSettings, Recipe
from edgewise.optimizing.planning import PlannedTask, Source
from edgewise.optimizing.race import Screening
from edgewise.optimizing.search_settings import SearchSettings
from edgewise.optimizing.selection import Selection, Standings
from edgewise.optimizing.variant import ORIGINAL, AppliedPass, Candidate, MetricValue, Prediction
from sample_runs import make_run

RUN = make_run(1)


class Int8:
    name = "ort-static"
    capabilities = Capabilities(kind="quantisation", reads=("onnx",), writes="onnx")


class Static:
    name = "ort-static"
    capabilities = Capabilities(kind="quantisation", reads=("onnx",), writes="onnx", calibrates=True, arithmetic="int8")


class Tuning:
    name = "tune"
    capabilities = Capabilities(kind="tuning", reads=("onnx",), writes="")


SOURCE = Source(variant=ORIGINAL, facts=None, model="m", format="onnx", digest="")


def judged(name, *, engine="litert", parent=ORIGINAL, task=None, passes=(), **facts):
    job = replace(RUN.job, runtime=replace(RUN.job.runtime, name=engine))
    return Candidate(
        id=name, parent=None if name == ORIGINAL else parent, runtime=job.runtime, model=RUN.job.model,
        passes=passes, stage="judged", metrics={"model_size": MetricValue(value=10.0)}, task=task, job=job, **facts,
    )  # fmt: skip


def tuning(*labels):
    recipes = [Recipe(label=label, settings=EngineSettings(threads=int(label[0]))) for label in labels]
    return [PlannedTask(one=Tuning(), recipe=recipe, source=SOURCE) for recipe in recipes]


class Checks:
    def check(self, one):
        job = replace(RUN.job, runtime=replace(RUN.job.runtime, threads=one.runtime.threads))
        return replace(one, job=job).advance("judged", {"model_size": MetricValue(value=10.0)})


class Course:
    """A selection and the standings that it has come to."""

    def __init__(self, selection, standings):
        self.selection, self.standings = selection, standings

    def race(self):
        self.standings = self.selection.race(self.standings)

    def tune(self, *labels):
        self.standings = self.selection.tune(self.standings, tuning(*labels), Checks())

    def choose(self):
        return self.selection.choose(self.standings)

    def __getitem__(self, name):
        return self.standings.everything[name]


@pytest.fixture
def course(monkeypatch):
    """Selection whose races give, one after the other, scripted speed-ups: id → (value, low, high)."""

    def install(candidates, *races):
        original, *others = candidates
        asked, script = [], iter(races)

        def race(original, candidates, **settings):
            known = next(script)
            names = [ORIGINAL, *(name for name, _ in candidates)]
            asked.append(names)
            assert set(names) == {ORIGINAL, *known}
            rows = tuple(row(name, *known[name]) for name in names[1:])
            places = sorted(names[1:], key=lambda name: -known[name][0])
            ranking = Ranking(metric="latency", places=tuple(
                Ranked(label=name, place=place, groups="a", value=1.0) for place, name in enumerate(places, start=1)
            ))  # fmt: skip
            run = make_run(10 + len(asked))
            return ComparisonResult(variants=tuple(Variant(label=name, run=run) for name in names), comparisons=rows,
                            ranking=ranking)  # fmt: skip

        monkeypatch.setattr(selection, "race", race)
        settings = SearchSettings(model="m", format="onnx", folder=Path(), instructions=Instructions())
        chosen = Selection(settings=settings, headline="", save=lambda run: None, end_by=time.monotonic() + 300)
        return asked, Course(chosen, Standings(original=original, candidates={one.id: one for one in others}))

    return install


def row(name, speed, low, high):
    empty = Side(value=None)
    verdict = "faster" if low > 1.0 else "slower" if high < 1.0 else "inconclusive"
    return Comparison(a=ORIGINAL, b=name, metric="latency", before=empty, after=empty, verdict=verdict,
                      ratio=1 / speed, low=1 / high, high=1 / low, method="pairs")  # fmt: skip


INT8 = "ort-static @ litert"
TWO, ONE = f"{INT8}, 2 threads", f"{INT8}, 1 thread"


def test_what_a_second_race_proved_counts_though_it_did_not_prove_the_first_again(course):
    """Two threads were accepted at 1.99× and forgotten for 1.075×, which that race had been too short to prove again."""
    asked, one = course(
        [judged(ORIGINAL), judged(INT8)],
        {INT8: (1.075, 1.04, 1.11)},
        {INT8: (1.06, 0.97, 1.16), TWO: (1.99, 1.9, 2.1)},
    )
    one.race()
    assert one.choose() == INT8
    one.tune("2 threads")
    assert one.choose() == TWO and one[TWO].accepted
    # What the first race proved stays proven, too.
    kept = one[INT8]
    assert kept.accepted and kept.metrics["speedup"].value == pytest.approx(1.075)
    assert [len(names) for names in asked] == [2, 3]
    # The original's numbers are those beside which the chosen one was timed.
    assert one[ORIGINAL].run == one[TWO].run != kept.run


def test_a_second_race_that_proves_nothing_changes_nothing(course):
    _, one = course(
        [judged(ORIGINAL), judged(INT8)],
        {INT8: (1.075, 1.04, 1.11)},
        {INT8: (1.06, 0.97, 1.16), TWO: (1.2, 0.9, 1.5)},
    )
    one.race()
    before = (one[INT8], one.standings.ranked)
    one.tune("2 threads")
    assert one.choose() == INT8 and (one[INT8], one.standings.ranked) == before
    assert one[ORIGINAL].run == before[0].run


def test_where_nothing_is_proven_the_original_stands_beside_the_nearest(course):
    """10.2 ms of one race stood beside 9.58 ms of another, with 1.54× between them."""
    asked, one = course(
        [judged(ORIGINAL), judged(INT8)], {INT8: (1.54, 0.9, 1.75)}, {f"{ORIGINAL}, 2 threads": (1.1, 0.8, 1.5)}
    )
    one.race()
    one.tune("2 threads")
    assert one.choose() is None and len(asked) == 2
    assert one[ORIGINAL].run == one[INT8].run


def test_where_nothing_is_proven_the_original_stands_beside_the_best_int8_variant(course):
    task = PlannedTask(one=Static(), recipe=Recipe(), source=SOURCE)
    _, one = course(
        [judged(ORIGINAL), judged(INT8, task=task)],
        {INT8: (0.98, 0.9, 1.1)},
        {f"{ORIGINAL}, 2 threads": (1.0, 0.8, 1.5)},
    )
    one.race()
    one.tune("2 threads")
    assert one[ORIGINAL].run == one[INT8].run != one[f"{ORIGINAL}, 2 threads"].run


def test_a_variant_of_the_first_race_that_the_second_has_nothing_faster_than_is_chosen(course):
    other = "litert-weights @ litert"
    _, one = course(
        [judged(ORIGINAL), judged(INT8), judged(other)],
        {INT8: (2.0, 1.95, 2.05), other: (1.9, 1.85, 1.95)},
        {INT8: (1.4, 1.3, 1.5), TWO: (1.5, 1.4, 1.6)},
    )
    one.race()
    one.tune("2 threads")
    assert one.choose() == other


def test_a_speed_up_is_taken_apart(course, monkeypatch):
    plain, int8 = f"{ORIGINAL} @ openvino", "ort-static @ openvino"
    two = f"{int8}, 2 threads"
    applied = AppliedPass(name="ort-static")
    task = PlannedTask(one=Int8(), recipe=Recipe(), source=SOURCE, engines=("openvino",))
    known = {plain: (1.5, 1.4, 1.6), int8: (3.0, 2.9, 3.1), two: (4.5, 4.4, 4.6)}
    asked, one = course(
        [judged(ORIGINAL), judged(plain, engine="openvino"),
         judged(int8, engine="openvino", task=task, passes=(applied,))],
        {name: known[name] for name in (plain, int8)}, known,
    )  # fmt: skip
    one.race()
    one.tune("2 threads")
    # The file as it is in that engine takes part again, so that one race tells all factors.
    assert one.choose() == two and asked[1] == [ORIGINAL, plain, int8, two]

    def compare_pairs(variants, pairs, metrics, *, criteria):
        ((a, b),) = pairs
        before, after = (known.get(variants[place].label, (1.0, 1.0, 1.0))[0] for place in (a, b))
        return [row("v", after / before, 1.0, 9.0)]

    monkeypatch.setattr(factors, "compare_pairs", compare_pairs)
    found = factors.find_factors(two, one.standings.everything, one.standings.races)
    assert [(each.kind, each.what, round(each.number.value, 6)) for each in found] == [
        ("engine", "openvino", 1.5), ("precision", "ort-static", 2.0), ("threads", "2 threads", 1.5)
    ]  # fmt: skip
    assert found[0].to_document()["basis"] == "derived"
    # Where the links were in no race, nothing is guessed: two steps are one factor, and one factor has no parts.
    unlinked = [
        replace(each, variants=tuple(variant for variant in each.variants if variant.label != plain))
        for each in one.standings.races
    ]
    found = factors.find_factors(two, one.standings.everything, unlinked)
    assert [(each.kind, each.what, each.before, round(each.number.value, 6)) for each in found] == [
        ("engine + precision", "openvino, ort-static", ORIGINAL, 3.0), ("threads", "2 threads", int8, 1.5)
    ]  # fmt: skip
    assert factors.find_factors(two, one.standings.everything, []) == ()
    # Where nothing but the original raced beside it, all steps are one factor.
    alone = [
        replace(each, variants=tuple(variant for variant in each.variants if variant.label in (ORIGINAL, two)))
        for each in one.standings.races
    ]
    (whole,) = factors.find_factors(two, one.standings.everything, alone)
    assert (whole.kind, whole.before, whole.after) == ("engine + precision + threads", ORIGINAL, two)
    # A speed-up of one piece has no parts.
    assert factors.find_factors(plain, one.standings.everything, one.standings.races) == ()


def test_each_int8_file_is_set_against_the_unchanged_one_in_its_engine(course, monkeypatch):
    """Verdicts are adjusted for all of these comparisons, so a race compares them at once."""
    plain, int8, other = f"{ORIGINAL} @ openvino", "ort-static @ openvino", "nncf-ptq @ openvino"
    task = PlannedTask(one=Int8(), recipe=Recipe(), source=SOURCE, engines=("openvino",))
    made = {"engine": "openvino", "task": task, "passes": (AppliedPass(name="ort-static"),)}
    known = {plain: (1.5, 1.4, 1.6), int8: (1.2, 1.1, 1.3), other: (1.5, 1.4, 1.6)}
    late = replace(judged("late @ openvino", engine="openvino", task=task), model=None)
    _, one = course(
        [judged(ORIGINAL), judged(plain, engine="openvino"), judged(int8, **made), judged(other, **made)], known
    )
    one.race()
    asked = []

    def compare_pairs(variants, pairs, metrics, *, criteria):
        labels = [(variants[a].label, variants[b].label) for a, b in pairs]
        asked.append(labels)
        return [row("v", known[after][0] / known[before][0], 0.5, 2.0) for before, after in labels]

    monkeypatch.setattr(factors, "compare_pairs", compare_pairs)
    everything = {**one.standings.everything, late.id: late}
    found = factors.find_precision_steps(everything, one.standings.races)
    assert asked == [[(plain, int8), (plain, other)]]
    assert [(each.kind, each.what, each.before, each.after, round(each.number.value, 6)) for each in found] == [
        ("quantisation", "ort-static", plain, int8, 0.8), ("quantisation", "nncf-ptq", plain, other, 1.0)
    ]  # fmt: skip
    assert {each.number.verdict for each in found} == {row("v", 1.0, 0.5, 2.0).verdict}
    assert factors.find_precision_steps(everything, []) == ()


def test_int8_files_are_also_set_against_the_chosen_file_in_another_precision(course, monkeypatch):
    """The best int8 was 1.60× and the unchanged file in bf16, which was chosen, 1.65×: no line said that int8 lost."""
    plain, int8 = f"{ORIGINAL} @ openvino", "ort-static @ openvino"
    fast, tuned = f"{plain}, bf16", f"{int8}, 2 threads"
    task = PlannedTask(one=Int8(), recipe=Recipe(), source=SOURCE, engines=("openvino",))
    setting = PlannedTask(one=Tuning(), recipe=Recipe(), source=SOURCE)
    known = {plain: (1.3, 1.2, 1.4), fast: (1.65, 1.6, 1.7), int8: (1.5, 1.48, 1.55), tuned: (1.6, 1.5, 1.7)}
    _, one = course(
        [judged(ORIGINAL), judged(plain, engine="openvino"),
         judged(fast, engine="openvino", task=setting, passes=(AppliedPass(name="tune"),), parent=plain),
         judged(int8, engine="openvino", task=task, passes=(AppliedPass(name="ort-static"),)),
         judged(tuned, engine="openvino", task=setting, passes=(AppliedPass(name="tune"),), parent=int8)],
        known,
    )  # fmt: skip
    one.race()

    def compare_pairs(variants, pairs, metrics, *, criteria):
        ratios = [known[variants[b].label][0] / known[variants[a].label][0] for a, b in pairs]
        # Too few rounds for a verdict, though the interval leaves 1 out.
        return [replace(row("v", ratio, 0.97 * ratio, 1.03 * ratio), verdict="inconclusive") for ratio in ratios]

    monkeypatch.setattr(factors, "compare_pairs", compare_pairs)
    found = factors.find_precision_steps(one.standings.everything, one.standings.races, fast)
    assert [(each.before, each.after, each.number.verdict) for each in found] == [
        (plain, int8, "faster"), (fast, int8, "slower"), (fast, tuned, "inconclusive")
    ]  # fmt: skip


def test_what_a_race_proved_of_two_variants_decides_and_how_much_is_said(course, monkeypatch):
    a, b, c = "a @ litert", "b @ litert", "c @ litert"
    known = {a: (1.5, 1.2, 1.8), b: (1.3, 1.1, 1.5), c: (1.49, 1.3, 1.7)}
    _, one = course([judged(ORIGINAL), *map(judged, known)], known)
    one.race()
    verdicts = {(a, b): "slower", (a, c): "inconclusive", (b, c): "faster"}

    def compare_pairs(variants, pairs, metrics, *, criteria):
        names = [(variants[first].label, variants[second].label) for first, second in pairs]
        return [
            replace(row("v", known[second][0] / known[first][0], 1.1, 1.2), a=first, b=second,
                    verdict=verdicts.get((first, second), "inconclusive"))
            for first, second in names
        ]  # fmt: skip

    monkeypatch.setattr(factors, "compare_pairs", compare_pairs)
    choice = one.selection.decide(one.standings)
    assert (choice.id, choice.apart) == (a, {(b, a), (b, c)})
    told = [factors.tell_slower(one[name], one[a], one.standings.races, apart=choice.apart) for name in (b, c)]
    assert told == ["1.15× slower [1.10, 1.20] than the chosen one", ""]
    # Of two races, the table's numbers say it.
    assert factors.tell_slower(one[b], one[a], [], apart=choice.apart) == (
        "slower than the chosen one: 1.30× [1.10, 1.50] against 1.50× [1.20, 1.80]"
    )


def test_a_variant_that_lost_the_short_race_has_its_ratio(course, monkeypatch):
    """20 of 24 rows said "n/a: rejected before this was measured" beside "took 2.5× the time of the slowest"."""
    names = [f"v{place} @ litert" for place in range(9)]
    times = {name: 0.5 if place == 0 else 1.25 for place, name in enumerate(names[:-1])}
    short = Screening(times=times, failures={names[-1]: "it crashed"})
    monkeypatch.setattr(selection, "screen", lambda original, others, **settings: short)
    _, one = course([judged(ORIGINAL), *map(judged, names)], {names[0]: (2.0, 1.9, 2.1)})
    one.race()
    assert [one[name].stage for name in names] == ["raced", *["screened"] * 8]
    lost = one[names[1]].metrics["speedup"]
    assert (lost.value, lost.low, lost.high, lost.basis) == (0.8, None, None, "derived")
    assert "short race" in lost.method and "no interval" in lost.method
    assert "speedup" not in one[names[-1]].metrics and "it crashed" in one[names[-1]].why


def test_the_unchanged_file_stays_in_the_race_in_the_engine_of_an_int8_file_that_races(course, monkeypatch):
    plain, int8 = f"{ORIGINAL} @ openvino", "ort-static @ openvino"
    task = PlannedTask(one=Static(), recipe=Recipe(), source=SOURCE)
    slow = [f"v{place} @ litert" for place in range(9)]
    times = {int8: 0.5, plain: 1.2} | dict.fromkeys(slow, 1.3)
    monkeypatch.setattr(selection, "screen", lambda original, others, **settings: Screening(times=times, failures={}))
    variants = [judged(plain, engine="openvino"), judged(int8, engine="openvino", task=task,
                passes=(AppliedPass(name="ort-static"),)), *map(judged, slow)]  # fmt: skip
    asked, one = course([judged(ORIGINAL), *variants], {int8: (2.0, 1.9, 2.1), plain: (0.8, 0.7, 0.9)})
    one.race()
    assert asked == [[ORIGINAL, plain, int8]] and one[slow[0]].stage == "screened"


def test_a_variant_that_was_slow_on_a_busy_machine_is_undecided_and_a_note_says_so(course, monkeypatch):
    names = [f"v{place} @ openvino" for place in range(10)]
    times = {name: 0.5 if place == 0 else 4.0 for place, name in enumerate(names)}
    load = "other processes used up to 86% of the processor time"
    short = Screening(times=times, failures={}, busy=dict.fromkeys(names, load))
    monkeypatch.setattr(selection, "screen", lambda original, others, **settings: short)
    monkeypatch.setattr(selection, "how_many", lambda seconds, each: 8)
    variants = [judged(name, engine="openvino") for name in names]
    _, one = course([judged(ORIGINAL), *variants], dict.fromkeys(names[:8], (0.5, 0.4, 0.6)))
    one.race()
    assert [one[name].stage for name in names] == [*["raced"] * 8, *["screened"] * 2]
    assert [one[name].is_undecided for name in names] == [*[False] * 8, True, True]
    for name in names[8:]:
        assert one[name].value("speedup") == 0.25 and not one[name].accepted
        assert one[name].why == (
            f"undecided: in a short measurement it took 1.00× the time of the slowest that raced, while {load}"
        )
    assert one.standings.notes == (
        f"the machine was busy: {load} in the short measurement, which leaves 2 variants in openvino undecided; "
        "search again on a quiet one",
    )


def test_a_variant_slower_than_any_load_explains_is_not_undecided(course, monkeypatch):
    names = [f"v{place} @ openvino" for place in range(9)]
    times = {name: 0.5 if place == 0 else 43.1 for place, name in enumerate(names)}
    least = dict.fromkeys(names[1:], 12.0)
    short = Screening(times=times, failures={}, busy=dict.fromkeys(names, "86%"), least=least)
    monkeypatch.setattr(selection, "screen", lambda original, others, **settings: short)
    _, one = course([judged(ORIGINAL), *map(judged, names)], {names[0]: (2.0, 1.9, 2.1)})
    one.race()
    assert one[names[1]].why == (
        "not raced: it is slower, 43.1× the original's time in a short measurement, its fastest inference 12.0×"
    )
    assert not any(one[name].is_undecided for name in names) and one.standings.notes == ()


def test_calibrated_int8_is_timed_first_and_the_fastest_of_it_always_races(course, monkeypatch):
    """A search ended with races of float files alone, though int8 had been asked for."""
    names = [f"v{place} @ litert" for place in range(9)]
    tasks = {name: PlannedTask(one=Static(), recipe=Recipe(), source=SOURCE) for name in names[7:]}
    times = dict.fromkeys(names, 0.5) | {names[7]: 1.4, names[8]: 1.3}
    asked = []

    def screen(original, others, **settings):
        asked.extend(name for name, _ in others)
        return Screening(times=times, failures={})

    monkeypatch.setattr(selection, "screen", screen)
    monkeypatch.setattr(selection, "how_many", lambda seconds, each: 1)
    speeds = {names[0]: (2.0, 1.9, 2.1), names[8]: (0.8, 0.7, 0.9)}
    _, one = course([judged(ORIGINAL), *(judged(name, task=tasks.get(name)) for name in names)], speeds)
    one.race()
    assert asked == [*names[7:], *names[:7]]
    assert [name for name in names if one[name].stage == "raced"] == [names[0], names[8]]


def test_so_many_race_as_have_the_rounds_of_a_verdict(course, monkeypatch, clock):
    """Timed in 10 s each, five rounds of a variant take 52.5 s: the 210 s left have room for the original and three."""
    names = [f"v{place} @ litert" for place in range(9)]
    times = {name: 0.5 + place / 100 for place, name in enumerate(names)}

    def screen(original, others, **settings):
        clock.let_pass(90.0)
        return Screening(times=times, failures={})

    monkeypatch.setattr(selection, "screen", screen)
    _, one = course([judged(ORIGINAL), *map(judged, names)], dict.fromkeys(names[:3], (2.0, 1.9, 2.1)))
    one.selection = replace(one.selection, end_by=clock.now() + 300)
    one.race()
    assert [name for name in names if one[name].stage == "raced"] == names[:3]


@pytest.mark.parametrize(("round_s", "note"), [
    (2.0, "a race of 3 needs about 36 s, and 29 s of the time budget of 5 min were left → --time-budget 310s"),
    (0.5, ""),  # eight rounds of three take 12 s
    (None, "a race of 3 needs about 36 s, and 29 s of the time budget of 5 min were left → --time-budget 310s"),
])  # fmt: skip
def test_settings_are_raced_where_the_rounds_of_the_last_race_have_room(course, clock, round_s, note):
    """At 271 of 300 s "the time budget left no room", though the race before had taken a second a round."""
    asked, one = course(
        [judged(ORIGINAL), judged(INT8)],
        {INT8: (1.5, 1.4, 1.6)},
        {INT8: (1.5, 1.4, 1.6), TWO: (1.6, 1.2, 1.9)},
    )
    one.selection = replace(one.selection, settings=replace(one.selection.settings, budget_s=300.0))
    one.race()
    one.standings = replace(one.standings, round_s=round_s)
    one.selection = replace(one.selection, end_by=clock.now() + 29.0)
    one.tune("2 threads")
    assert one.standings.notes == ((f"settings of litert were not tried on {INT8}: {note}",) if note else ())
    assert len(asked) == (1 if note else 2)


def test_a_race_tells_how_long_a_round_of_a_variant_took(course, clock, monkeypatch):
    _, one = course([judged(ORIGINAL), judged(INT8)], {INT8: (1.5, 1.4, 1.6)})
    scripted = selection.race

    def race(*everybody, **settings):
        clock.let_pass(30.0)
        return scripted(*everybody, **settings)

    monkeypatch.setattr(selection, "race", race)
    one.selection = replace(one.selection, end_by=clock.now() + 300.0)
    one.race()
    assert one.standings.round_s == 30.0 / (2 * len(RUN.sessions))


def test_a_race_without_time_says_what_it_needs(course, clock):
    _, one = course([judged(ORIGINAL), judged(INT8)])
    one.selection = replace(one.selection, end_by=clock.now() + 5.0)
    one.race()
    assert one[INT8].why == "not raced: the time budget left 5 s, and a race needs 8 s"


@pytest.mark.parametrize(("speed", "why"), [(None, ""), (0.8, "; slow kernels")])
def test_a_missing_prediction_is_no_reason_for_being_slower(course, speed, why):
    """ "slower: 0.89×; the time for the pre-flight was used up" """
    told = Prediction(speedup=speed, because="slow kernels" if speed else "the time for the pre-flight was used up")
    _, one = course([judged(ORIGINAL), judged(INT8, predicted=told)], {INT8: (0.89, 0.87, 0.905)})
    one.race()
    assert one[INT8].why == f"slower: 0.89× the speed [0.87, 0.91]{why}"


def test_what_a_race_did_not_reach_was_not_rejected(course, monkeypatch):
    """Pressing Ctrl-C in a race told of the others that "the time budget left no room", and of all they were rejected."""
    names = [f"v{place} @ litert" for place in range(9)]
    short = Screening(times={names[0]: 0.5, names[1]: 0.6}, failures={}, unreached=tuple(names[2:]))
    monkeypatch.setattr(selection, "screen", lambda original, others, **settings: short)
    _, one = course([judged(ORIGINAL), *map(judged, names)], {names[0]: (2.0, 1.9, 2.1), names[1]: (1.5, 1.4, 1.6)})
    scripted = selection.race

    def cut_short(*everybody, **settings):
        result = scripted(*everybody, **settings)
        unmeasured = replace(result.variants[-1], run=replace(RUN, sessions=(), failure=None))
        return replace(result, variants=(*result.variants[:-1], unmeasured), interrupted=True)

    monkeypatch.setattr(selection, "race", cut_short)
    one.race()
    assert [one[name].unreached for name in names] == [False, *[True] * 8]
    assert one[names[1]].why == "not raced: interrupted" and one[names[1]].stage == "judged"
    assert one[names[2]].why == (
        "not raced: short measurements of others took their 30% of what the time budget had left"
    )


def test_a_file_in_another_precision_gets_no_second_one():
    plain = judged("original @ openvino", engine="openvino")
    settings = EngineSettings(runtime="openvino", precision="bf16")
    task = PlannedTask(one=Tuning(), recipe=Recipe(label="openvino, bf16", settings=settings), source=SOURCE)
    tuned = selection.with_settings(plain, task, threads=1)
    assert (tuned.id, tuned.parent, tuned.runtime.precision) == ("original @ openvino, bf16", plain.id, "bf16")
    other = replace(task, recipe=Recipe(label="openvino, f16", settings=replace(settings, precision="f16")))
    job = replace(plain.job, runtime=tuned.runtime)
    assert selection.with_settings(replace(tuned, job=job), other, threads=1) is None
    assert selection.with_settings(judged("original @ litert"), task, threads=1) is None


@pytest.mark.parametrize(("took", "stays"), [(0.9, True), (1.1, False)])
def test_the_file_as_it_is_in_another_precision_stays_in_the_race(course, monkeypatch, took, stays):
    """Int8 is faster by 1.4×, and by 1.1× over the same file in the precision that the engine itself would take."""
    names = [f"v{place} @ openvino" for place in range(9)]
    settings = EngineSettings(runtime="openvino", precision="bf16")
    task = PlannedTask(one=Tuning(), recipe=Recipe(label="openvino, bf16", settings=settings), source=SOURCE)
    tuned = judged("original @ openvino, bf16", engine="openvino", task=task)
    times = {name: 0.5 if place == 0 else 1.25 for place, name in enumerate(names)} | {tuned.id: took}
    monkeypatch.setattr(selection, "screen", lambda original, others, **rest: Screening(times=times, failures={}))
    speeds = {names[0]: (2.0, 1.9, 2.1), tuned.id: (1.1, 1.05, 1.15)}
    _, one = course([judged(ORIGINAL), *map(judged, names), tuned], speeds if stays else {names[0]: speeds[names[0]]})
    one.race()
    assert one[tuned.id].stage == ("raced" if stays else "screened")
