"""Who is raced: the fastest by a short measurement each, as many as the time has rounds for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from edgewise.comparing.comparison import Variant
from edgewise.optimizing import race
from edgewise.optimizing.race import FAR_BEHIND, LONG_TURNS, MOST, SHORT_TURNS, Screening, how_many, room_for, screen
from edgewise.record import Caution
from sample_runs import make_run

ORIGINAL = ("original", make_run(1).job)


def latency(*samples):
    """Latencies of single inferences, s."""
    return replace(make_run(1).measurement("latency"), samples=samples, value=samples[len(samples) // 2])


@dataclass
class Row:
    b: str
    ratio: float | None


@dataclass
class Found:
    comparisons: list[Row]
    failures: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    variants: list[Variant] = field(default_factory=list)


@pytest.fixture
def scripted(monkeypatch):
    """Makes what short rounds give: label → ratio, None, or why it failed."""

    def install(known, *, interrupted=False, loads=(), longer=None, takes_s=0.0, clock=None, runs=()):
        asked, loads = [], iter(loads)

        def run_trial(jobs, *, labels, trial, **settings):
            asked.append((tuple(labels), trial))
            assert len(jobs) == len(labels) and labels[0] == "original"
            if takes_s:
                clock.let_pass(takes_s)
            ratios = known if trial.turns == SHORT_TURNS else longer
            told = [(label, ratios[label]) for label in labels[1:]]
            load = next(loads, None)
            cautions = () if load is None else (Caution.of("busy-host", load),)
            return Found(
                [Row(label, None if isinstance(each, str) else each) for label, each in told],
                {label: each for label, each in told if isinstance(each, str)},
                interrupted,
                [
                    Variant(label="original", run=make_run(1)),
                    Variant(label="b", run=make_run(2, cautions=cautions)),
                    *runs,
                ],
            )

        monkeypatch.setattr(race, "run_trial", run_trial)
        return [(label, make_run(1).job) for label in known], asked

    return install


@pytest.mark.parametrize(
    ("seconds", "each", "count"), [(120, 12, MOST), (60, 12, 4), (35, 12, 1), (24, 12, 1), (0, 12, 1), (-5, 12, 1),
                                   (47, 8, 4), (1000, 1, MOST)]
)  # fmt: skip
def test_so_many_have_room_beside_the_original(seconds, each, count):
    assert how_many(seconds, each) == count


def test_the_fastest_come_first_and_who_is_far_behind_not_at_all():
    limit = FAR_BEHIND * 0.5
    found = Screening(times={"a": 0.6, "b": 0.5, "c": limit * 1.01, "d": limit, "e": 0.55}, failures={})
    assert found.order == ["b", "e", "a", "d"]
    assert Screening(times={}, failures={"a": "it crashed"}).order == []


def test_everybody_is_measured_beside_the_original_a_few_at_a_time(scripted, clock):
    known = {f"v{index}": 0.1 * (index + 1) for index in range(MOST + 3)}
    candidates, asked = scripted(known)
    found = screen(ORIGINAL, candidates, end_by=clock.now() + 50, seed=7)
    assert found.times == known and found.failures == {}
    assert [len(labels) for labels, _ in asked] == [MOST + 1, 4]
    for _, trial in asked:
        assert (trial.rounds, trial.turns, trial.seed) == (1, SHORT_TURNS, 7) and trial.budget_s == 50


def test_what_could_not_be_timed_says_why(scripted, clock):
    candidates, _ = scripted({"a": 0.5, "b": "the worker crashed (SIGSEGV)", "c": None})
    found = screen(ORIGINAL, candidates, end_by=clock.now() - 1, seed=0)
    assert found.order == ["a"]
    assert found.failures == {"b": "the worker crashed (SIGSEGV)"} and found.unreached == ("c",)


def test_ctrl_c_in_a_short_measurement_ends_the_search(scripted, clock):
    candidates, _ = scripted({"a": 0.5}, interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        screen(ORIGINAL, candidates, end_by=clock.now() + 5, seed=0)


@pytest.mark.parametrize(
    ("count", "left", "room"), [(4, 160.0, 104.0), (4, 90.0, 68.0), (4, 50.0, 50.0), (1, 300.0, 195.0)]
)
def test_a_race_that_is_not_decided_may_use_most_of_what_is_left(count, left, room):
    """On a busy machine int8 at 1.5× was not proven in 68 s, and the rest of the budget went to settings of float."""
    assert room_for(count, left=left) == pytest.approx(room)


FAR = {"a": 0.5, "b": 0.6, "c": 4.0, "d": 5.0, "e": "it crashed"}
"""Two are near, two took eight times as long or more, and one has no time."""


def test_who_is_far_behind_on_a_busy_machine_is_timed_again_for_longer(scripted, clock):
    """OpenVINO's pinned threads took 5 to 20 times as long beside a busy process, and all its variants were out."""
    candidates, asked = scripted(FAR, loads=["others used 86%"], longer={"c": 0.55, "d": 2.0})
    found = screen(ORIGINAL, candidates, end_by=clock.now() + 100, seed=7)
    assert [(labels, trial.turns, trial.rounds) for labels, trial in asked] == [
        (("original", "a", "b", "c", "d", "e"), SHORT_TURNS, 1), (("original", "c", "d"), LONG_TURNS, 1)
    ]  # fmt: skip
    # It was quiet in the longer round, so that what it says holds.
    assert found.times == {"a": 0.5, "b": 0.6, "c": 0.55, "d": 2.0}
    assert found.busy == {"a": "others used 86%", "b": "others used 86%"}
    assert (found.near, found.doubtful, found.order) == (["a", "c", "b"], [], ["a", "c", "b"])


def test_who_is_far_behind_on_a_machine_that_stays_busy_is_doubtful_and_races_last(scripted, clock):
    candidates, _ = scripted(FAR, loads=["86%", "90%"], longer={"c": 5.0, "d": "out of memory"})
    found = screen(ORIGINAL, candidates, end_by=clock.now() + 100, seed=7)
    assert found.times == {"a": 0.5, "b": 0.6, "c": 5.0, "d": 5.0}  # the time that it had stays
    assert found.busy == {"a": "86%", "b": "86%", "c": "90%", "d": "86%"}
    assert found.failures == {"e": "it crashed"}
    assert found.order == ["a", "b", "c", "d"] and found.doubtful == ["c", "d"]


def test_on_a_quiet_machine_nobody_is_timed_twice(scripted, clock):
    candidates, asked = scripted(FAR)
    found = screen(ORIGINAL, candidates, end_by=clock.now() + 100, seed=7)
    assert len(asked) == 1 and found.busy == {} and found.order == ["a", "b"]


def test_what_no_load_explains_is_slower_and_not_timed_again(scripted, clock):
    """A variant that took 43 times as long was "undecided, search again on a quiet machine"."""
    own = make_run(1).measurement("latency").value
    runs = [
        Variant(label=name, run=replace(make_run(2), measurements=(latency(*(own * time for time in times)),)))
        for name, times in {"c": (3.1, 8.0, 9.0), "d": (2.9, 10.0, 11.0)}.items()
    ]
    candidates, asked = scripted(FAR, loads=["86%", "90%"], longer={"d": 5.0}, runs=runs)
    found = screen(ORIGINAL, candidates, end_by=clock.now() + 100, seed=7)
    assert found.least["c"] == pytest.approx(3.1) and found.least["d"] == pytest.approx(2.9)
    assert (found.is_slower("c"), found.is_slower("d"), found.is_slower("a")) == (True, False, False)
    assert found.doubtful == ["d"] and [labels for labels, _ in asked][1:] == [("original", "d")]


@pytest.mark.parametrize(("left", "timed"), [(67.0, MOST + 3), (66.0, MOST)])
def test_the_short_measurement_leaves_the_race_its_time(scripted, clock, left, timed):
    """On a busy machine it took 57 of the last 115 s, and the race ended before its first verdict.

    Three tenths of 67 s are 20.1 s, in which two batches of 10 s have room.
    """
    known = dict.fromkeys((f"v{index}" for index in range(MOST + 3)), 0.5)
    candidates, _ = scripted(known, takes_s=10.0, clock=clock)
    found = screen(ORIGINAL, candidates, end_by=clock.now() + left, seed=0)
    assert list(found.times) == list(known)[:timed] and list(found.unreached) == list(known)[timed:]


@pytest.mark.parametrize(("left", "rounds"), [(65.0, 2), (63.0, 1)])
def test_a_longer_round_may_take_a_quarter_of_the_time_left(scripted, clock, left, rounds):
    """The first round takes 10 s, so that two of its five need 16 s for four times as many turns."""
    candidates, asked = scripted(FAR, loads=["86%", "86%"], longer={"c": 4.0, "d": 5.0}, takes_s=10.0, clock=clock)
    found = screen(ORIGINAL, candidates, end_by=clock.now() + 10.0 + left, seed=7)
    assert len(asked) == rounds and found.doubtful == ["c", "d"]
