"""Races that follow one another: what one proved, the next does not forget; and what a speed-up is made of."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.comparing.comparison import Comparison, Findings, Ranked, Ranking, Side, Variant
from edgewise.evaluating.instructions import Instructions
from edgewise.optimizing import factors, finals
from edgewise.optimizing.base import Capabilities, Recipe
from edgewise.optimizing.commission import Commission
from edgewise.optimizing.finals import Finals
from edgewise.optimizing.planning import Attempt
from edgewise.optimizing.state import Entry, Silent, State
from edgewise.optimizing.variant import ORIGINAL, AppliedPass, Candidate, Number
from edgewise.record import RuntimeSpec
from sample_runs import make_run

RUN = make_run(1)


class Int8:
    name = "ort-static"
    capabilities = Capabilities(kind="quantisation", reads=("onnx",), writes="onnx")


class Tuning:
    name = "tune"
    capabilities = Capabilities(kind="tuning", reads=("onnx",), writes="")


def entry(name, *, engine="litert", parent=ORIGINAL, attempt=None, passes=(), **facts):
    candidate = Candidate(
        id=name, parent=None if name == ORIGINAL else parent, runtime=RuntimeSpec(name=engine), model=RUN.job.model,
        passes=passes, stage="judged", metrics={"model_size": Number(value=10.0)}, **facts,
    )  # fmt: skip
    job = replace(RUN.job, runtime=replace(RUN.job.runtime, name=engine))
    return Entry(candidate=candidate, job=job, attempt=attempt)


class Menu:
    def __init__(self, *labels):
        self.labels = labels

    def choose(self, facts, *, kinds, parent, engines):
        recipes = [Recipe(label=label, settings={"threads": int(label[0])}) for label in self.labels]
        return [Attempt(one=Tuning(), recipe=recipe, parent=parent, engines=tuple(engines)) for recipe in recipes]


class Gauntlet:
    def examine(self, one, model):
        one.job = replace(RUN.job, runtime=replace(RUN.job.runtime, threads=one.candidate.runtime.threads))
        one.advance("judged", {"model_size": Number(value=10.0)})


@pytest.fixture
def course(monkeypatch):
    """Finals whose races give, one after the other, scripted speed-ups: id → (value, low, high)."""

    def install(entries, *races):
        state = State(shapes={}, entries={one.candidate.id: one for one in entries})
        monkeypatch.setattr(State, "facts_of", lambda self, name: None)
        asked, script = [], iter(races)

        def race(original, entrants, **settings):
            known = next(script)
            names = [ORIGINAL, *(name for name, _ in entrants)]
            asked.append(names)
            assert set(names) == {ORIGINAL, *known}
            rows = tuple(row(name, *known[name]) for name in names[1:])
            places = sorted(names[1:], key=lambda name: -known[name][0])
            ranking = Ranking(metric="latency", places=tuple(
                Ranked(label=name, place=place, groups="a", value=1.0) for place, name in enumerate(places, start=1)
            ))  # fmt: skip
            run = make_run(10 + len(asked))
            return Findings(variants=tuple(Variant(label=name, run=run) for name in names), comparisons=rows,
                            ranking=ranking)  # fmt: skip

        monkeypatch.setattr(finals, "race", race)
        commission = Commission(model="m", format="onnx", folder=Path(), instructions=Instructions())
        return state, asked, Finals(
            commission, state, headline="", save=lambda run: None, witness=Silent(), end_by=time.monotonic() + 300
        )  # fmt: skip

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
    state, asked, one = course(
        [entry(ORIGINAL), entry(INT8)],
        {INT8: (1.075, 1.04, 1.11)},
        {INT8: (1.06, 0.97, 1.16), TWO: (1.99, 1.9, 2.1)},
    )
    one.race()
    assert one.choose() == INT8
    one.tune(Menu("2 threads"), Gauntlet())
    assert one.choose() == TWO and state.entries[TWO].candidate.accepted
    # What the first race proved stays proven, too.
    kept = state.entries[INT8].candidate
    assert kept.accepted and kept.metrics["speedup"].value == pytest.approx(1.075)
    assert [len(names) for names in asked] == [2, 3]
    # The original's numbers are those beside which the chosen one was timed.
    assert state.original.candidate.run == state.entries[TWO].candidate.run != kept.run


def test_a_second_race_that_proves_nothing_changes_nothing(course):
    state, _, one = course(
        [entry(ORIGINAL), entry(INT8)],
        {INT8: (1.075, 1.04, 1.11)},
        {INT8: (1.06, 0.97, 1.16), TWO: (1.2, 0.9, 1.5)},
    )
    one.race()
    before = (state.entries[INT8].candidate, state.findings)
    one.tune(Menu("2 threads"), Gauntlet())
    assert one.choose() == INT8 and (state.entries[INT8].candidate, state.findings) == before
    assert state.original.candidate.run == before[0].run


def test_where_nothing_is_proven_the_original_stands_beside_the_nearest(course):
    """10.2 ms of one race stood beside 9.58 ms of another, with 1.54× between them."""
    state, asked, one = course(
        [entry(ORIGINAL), entry(INT8)], {INT8: (1.54, 0.9, 1.75)}, {f"{ORIGINAL}, 2 threads": (1.1, 0.8, 1.5)}
    )
    one.race()
    one.tune(Menu("2 threads"), Gauntlet())
    assert one.choose() is None and len(asked) == 2
    assert state.original.candidate.run == state.entries[INT8].candidate.run


def test_a_variant_of_the_first_race_that_the_second_has_nothing_faster_than_is_chosen(course):
    other = "onnx-prune @ litert"
    _, _, one = course(
        [entry(ORIGINAL), entry(INT8), entry(other)],
        {INT8: (2.0, 1.95, 2.05), other: (1.9, 1.85, 1.95)},
        {INT8: (1.4, 1.3, 1.5), TWO: (1.5, 1.4, 1.6)},
    )
    one.race()
    one.tune(Menu("2 threads"), Gauntlet())
    assert one.choose() == other


def test_a_speed_up_is_taken_apart(course, monkeypatch):
    plain, int8 = f"{ORIGINAL} @ openvino", "ort-static @ openvino"
    two = f"{int8}, 2 threads"
    applied = AppliedPass(name="ort-static")
    attempt = Attempt(one=Int8(), recipe=Recipe(), parent=ORIGINAL, engines=("openvino",))
    known = {plain: (1.5, 1.4, 1.6), int8: (3.0, 2.9, 3.1), two: (4.5, 4.4, 4.6)}
    state, asked, one = course(
        [entry(ORIGINAL), entry(plain, engine="openvino"),
         entry(int8, engine="openvino", attempt=attempt, passes=(applied,))],
        {name: known[name] for name in (plain, int8)}, known,
    )  # fmt: skip
    one.race()
    one.tune(Menu("2 threads"), Gauntlet())
    # The file as it is in that engine takes part again, so that one race tells all factors.
    assert one.choose() == two and asked[1] == [ORIGINAL, plain, int8, two]

    def compare_pairs(variants, pairs, metrics, *, terms):
        ((a, b),) = pairs
        before, after = (known.get(variants[place].label, (1.0, 1.0, 1.0))[0] for place in (a, b))
        return [row("v", after / before, 1.0, 9.0)]

    monkeypatch.setattr(factors, "compare_pairs", compare_pairs)
    found = factors.find_factors(two, state, one.races)
    assert [(each.kind, each.what, round(each.number.value, 6)) for each in found] == [
        ("engine", "openvino", 1.5), ("precision", "ort-static", 2.0), ("threads", "2 threads", 1.5)
    ]  # fmt: skip
    assert found[0].to_document()["basis"] == "derived"
    # Where the links were in no race, nothing is guessed.
    missing = factors.find_factors(two, state, [])
    assert [each.number.value for each in missing] == [None] * 3
    assert "were not in one race" in missing[0].number.absent_because
    # A speed-up of one piece has no parts.
    assert factors.find_factors(plain, state, one.races) == ()
