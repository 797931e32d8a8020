"""What the pre-flight says, from timings that are given here."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from edgewise.model.signature import Signature
from edgewise.optimizing import preflight
from edgewise.optimizing.base import Capabilities, EngineSettings, Facts, PassResult, PassTask, Recipe
from edgewise.optimizing.microbenchmarks import PassTiming
from edgewise.optimizing.preflight import MODEL_ERROR, Preflight
from edgewise.registry import Availability
from graphs import convnet
from messages import wording

FACTS = Facts(
    path=Path("net.fake"), format="fake", graph=convnet(), signature=Signature(inputs=(), outputs=()), quantized=False,
    runtimes=("fake",), cores=1,
)  # fmt: skip


class Halve:
    """A pass of the fake format."""

    name = "halve"
    title = "Halve"
    capabilities: Capabilities = Capabilities(kind="quantisation", reads=("fake",), writes="fake", arithmetic="int8")
    present: ClassVar[Availability] = Availability(True, version="1")

    def __init__(self, **changes: object) -> None:
        self.capabilities = replace(self.capabilities, **changes)

    def availability(self) -> Availability:
        return self.present

    def recipes(self, facts: Facts) -> tuple[Recipe, ...]:
        return (Recipe(),)

    def apply(self, task: PassTask) -> PassResult:
        raise AssertionError("never called in this process")


@pytest.fixture
def timed(monkeypatch):
    """Until when each timing may last, and what to answer with."""
    asked: list[float] = []
    answers: list[PassTiming | None] = []

    def answer(graph, location, task, *, engines, seconds, until):
        asked.append(until)
        timing = answers.pop(0) if answers else PassTiming(original=(2.0,) * 9, changed=(1.0,) * 9)
        return {} if timing is None else dict.fromkeys(engines, timing)

    monkeypatch.setattr(preflight, "time_pass", answer)
    return asked, answers


def test_times_in_turns_become_a_speed_up_with_an_interval(timed, tmp_path):
    told = Preflight(FACTS, cache=tmp_path / "c").predict(Halve(), Recipe(), engines=["fake"])["fake"]
    assert told.speedup == pytest.approx(2.0)
    assert told.low == pytest.approx(2.0 * math.exp(-1.96 * MODEL_ERROR))
    assert told.high == pytest.approx(2.0 * math.exp(1.96 * MODEL_ERROR))
    assert told.method == "halve on the network's 5 operators, calibrated on random data; both timed in turns in fake"
    assert told.because


def test_scattering_times_widen_the_interval(timed, tmp_path):
    _, answers = timed
    answers.append(PassTiming(original=(1.0, 2.0, 4.0) * 3, changed=(1.0,) * 9))
    told = Preflight(FACTS, cache=tmp_path / "c").predict(Halve(), Recipe(), engines=["fake"])["fake"]
    assert told.speedup == pytest.approx(2.0)
    error = 1.2533 * 1.4826 * math.log(2) / 3
    assert told.high == pytest.approx(2.0 * math.exp(1.96 * math.hypot(error, MODEL_ERROR)))


def test_a_second_time_costs_nothing(timed, tmp_path):
    asked, _ = timed
    first = Preflight(FACTS, cache=tmp_path / "c").predict(Halve(), Recipe(), engines=["fake"])["fake"]
    again = Preflight(FACTS, cache=tmp_path / "c", budget_s=0.0, trial_s=7.5).predict(
        Halve(), Recipe(), engines=["fake"]
    )["fake"]
    assert again == first
    assert len(asked) == 1


def test_what_could_make_a_difference_is_measured_anew(timed, tmp_path):
    asked, _ = timed
    cache = tmp_path / "c"
    Preflight(FACTS, cache=cache).predict(Halve(), Recipe(), engines=["fake"])["fake"]
    Preflight(FACTS, cache=cache, threads=2).predict(Halve(), Recipe(), engines=["fake"])["fake"]
    Preflight(FACTS, cache=cache).predict(Halve(), Recipe(settings=EngineSettings(threads=1)), engines=["fake"])["fake"]
    other = replace(FACTS, graph=replace(FACTS.graph, version="other"))
    Preflight(other, cache=cache).predict(Halve(), Recipe(), engines=["fake"])["fake"]
    newer = Halve()
    type(newer).present = Availability(True, version="2")
    try:
        Preflight(FACTS, cache=cache).predict(newer, Recipe(), engines=["fake"])["fake"]
    finally:
        type(newer).present = Availability(True, version="1")
    assert len(asked) == 5
    Preflight(FACTS, cache=cache).predict(Halve(), Recipe(label="another name"), engines=["fake"])["fake"]
    assert len(asked) == 5


def test_a_crash_is_told_and_not_kept(timed, tmp_path):
    asked, answers = timed
    answers += [PassTiming(failed="it was ended by SIGSEGV", lasting=False)] * 2
    flight = Preflight(FACTS, cache=tmp_path / "c")
    told = flight.predict(Halve(), Recipe(), engines=["fake"])["fake"]
    assert (told.speedup, told.low, told.high) == (None, None, None)
    assert told.because == "it was ended by SIGSEGV"
    flight.predict(Halve(), Recipe(), engines=["fake"])["fake"]
    assert len(asked) == 2


def test_a_pass_that_changes_nothing_has_no_speed_up(timed, tmp_path):
    _, answers = timed
    answers.append(PassTiming(unchanged=True))
    told = Preflight(FACTS, cache=tmp_path / "c").predict(Halve(), Recipe(), engines=["fake"])["fake"]
    assert told.speedup is None
    assert told.because == wording("finds-nothing-change")


def test_the_budget_ends_measuring(timed, tmp_path, monkeypatch, clock):
    asked, answers = timed
    answers.append(None)
    answer, end = preflight.time_pass, clock.now() + 30.0

    def answer_late(*words, **settings):
        clock.let_pass(30.0)
        return answer(*words, **settings)

    monkeypatch.setattr(preflight, "time_pass", answer_late)
    flight = Preflight(FACTS, budget_s=30.0, trial_s=5.0, cache=tmp_path / "c")
    told = flight.predict(Halve(), Recipe(), engines=["fake"])["fake"]
    assert told.because == wording("time-pre-flight-used-up")
    assert asked == [end]
    assert flight.predict(Halve(), Recipe(), engines=["fake"])["fake"].speedup is None
    assert len(asked) == 1


def test_a_network_that_is_too_large_is_said_to_be(timed, tmp_path):
    asked, _ = timed
    told = Preflight(FACTS, trial_s=0.4, cache=tmp_path / "c").predict(Halve(), Recipe(), engines=["fake"])["fake"]
    assert told.speedup is None
    assert wording("network-too-large-try-pass") in told.because
    assert asked == []


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"kind": "tuning"}, "measured directly"),
        ({"trains": True}, "the result of training can't be predicted"),
        ({"reads": ("onnx",)}, "it does not support fake files"),
        ({"exact": True, "kind": "fusion"}, "it changes no arithmetic and is quick to try"),
        ({"runtimes": ("openvino",)}, "its results run only in openvino"),
        ({"writes": "onnx"}, "reads no onnx files"),
    ],
)
def test_where_nothing_can_be_said_the_reason_is(timed, tmp_path, changes, because):
    asked, _ = timed
    told = Preflight(FACTS, cache=tmp_path / "c").predict(Halve(**changes), Recipe(), engines=["fake"])["fake"]
    assert told.speedup is None
    assert because in told.because
    assert asked == []


def test_what_is_not_installed_or_not_known_is_said(timed, tmp_path):
    flight = Preflight(FACTS, cache=tmp_path / "c")
    assert (
        flight.predict(Halve(), Recipe(), engines=["nonsense"])["nonsense"].because == "no runtime is called nonsense"
    )
    absent = Halve()
    absent.availability = lambda: Availability(False, "the package x is not installed", "pip install x")
    assert flight.predict(absent, Recipe(), engines=["fake"])["fake"].because == wording(
        "package-not-installed", distribution="x"
    )
