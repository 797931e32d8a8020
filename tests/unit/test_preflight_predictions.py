"""What the pre-flight says, from rehearsals that are given here."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from edgewise.model.signature import Signature
from edgewise.optimizing import preflight
from edgewise.optimizing.base import Capabilities, Facts, Product, Recipe, Work
from edgewise.optimizing.kernels import Rehearsal
from edgewise.optimizing.preflight import MODEL_ERROR, Preflight
from edgewise.registry import Availability
from graphs import convnet

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

    def apply(self, work: Work) -> Product:
        raise AssertionError("never called in this process")


@pytest.fixture
def rehearsed(monkeypatch):
    """Requests for rehearsals, and what to answer them with."""
    asked: list[tuple[dict, dict, float]] = []
    answers: list[Rehearsal | None] = []

    def answer(change, race, *, until):
        asked.append((change, race, until))
        return answers.pop(0) if answers else Rehearsal(original=(2.0,) * 9, changed=(1.0,) * 9)

    monkeypatch.setattr(preflight, "rehearse", answer)
    return asked, answers


def test_times_in_turns_become_a_speed_up_with_an_interval(rehearsed, tmp_path):
    told = Preflight(FACTS, cache=tmp_path / "c").predict(Halve(), Recipe(), runtime="fake")
    assert told.speedup == pytest.approx(2.0)
    assert told.low == pytest.approx(2.0 * math.exp(-1.96 * MODEL_ERROR["whole"]))
    assert told.high == pytest.approx(2.0 * math.exp(1.96 * MODEL_ERROR["whole"]))
    assert told.method == "halve on the network's 5 operators, calibrated on random data; both timed in turns in fake"
    assert told.because


def test_scattering_times_widen_the_interval(rehearsed, tmp_path):
    _, answers = rehearsed
    answers.append(Rehearsal(original=(1.0, 2.0, 4.0) * 3, changed=(1.0,) * 9))
    told = Preflight(FACTS, cache=tmp_path / "c").predict(Halve(), Recipe(), runtime="fake")
    assert told.speedup == pytest.approx(2.0)
    error = 1.2533 * 1.4826 * math.log(2) / 3
    assert told.high == pytest.approx(2.0 * math.exp(1.96 * math.hypot(error, MODEL_ERROR["whole"])))


def test_a_second_time_costs_nothing(rehearsed, tmp_path):
    asked, _ = rehearsed
    first = Preflight(FACTS, cache=tmp_path / "c").predict(Halve(), Recipe(), runtime="fake")
    again = Preflight(FACTS, cache=tmp_path / "c", budget_s=0.0, excerpt_s=7.5).predict(
        Halve(), Recipe(), runtime="fake"
    )
    assert again == first
    assert len(asked) == 1


def test_what_could_make_a_difference_is_measured_anew(rehearsed, tmp_path):
    asked, _ = rehearsed
    cache = tmp_path / "c"
    Preflight(FACTS, cache=cache).predict(Halve(), Recipe(), runtime="fake")
    Preflight(FACTS, cache=cache, threads=2).predict(Halve(), Recipe(), runtime="fake")
    Preflight(FACTS, cache=cache).predict(Halve(), Recipe(settings={"a": 1}), runtime="fake")
    Preflight(FACTS, cache=cache).predict(Halve(), Recipe(), runtime="fake", keep_float=("Conv0",))
    other = replace(FACTS, graph=replace(FACTS.graph, version="other"))
    Preflight(other, cache=cache).predict(Halve(), Recipe(), runtime="fake")
    newer = Halve()
    type(newer).present = Availability(True, version="2")
    try:
        Preflight(FACTS, cache=cache).predict(newer, Recipe(), runtime="fake")
    finally:
        type(newer).present = Availability(True, version="1")
    assert len(asked) == 6
    Preflight(FACTS, cache=cache).predict(Halve(), Recipe(label="another name"), runtime="fake")
    assert len(asked) == 6


def test_a_crash_is_told_and_not_kept(rehearsed, tmp_path):
    asked, answers = rehearsed
    answers += [Rehearsal(failed="it was ended by SIGSEGV", lasting=False)] * 2
    flight = Preflight(FACTS, cache=tmp_path / "c")
    told = flight.predict(Halve(), Recipe(), runtime="fake")
    assert (told.speedup, told.low, told.high) == (None, None, None)
    assert told.because == "it was ended by SIGSEGV"
    flight.predict(Halve(), Recipe(), runtime="fake")
    assert len(asked) == 2


def test_a_pass_that_changes_nothing_has_no_speed_up(rehearsed, tmp_path):
    _, answers = rehearsed
    answers.append(Rehearsal(unchanged=True))
    told = Preflight(FACTS, cache=tmp_path / "c").predict(Halve(), Recipe(), runtime="fake")
    assert told.speedup is None
    assert told.because == "it finds nothing to change"


def test_the_budget_ends_measuring(rehearsed, tmp_path, monkeypatch):
    asked, answers = rehearsed
    answers.append(None)
    now = iter(range(0, 10_000, 30))
    monkeypatch.setattr(preflight.time, "monotonic", lambda: float(next(now)))
    flight = Preflight(FACTS, budget_s=30.0, excerpt_s=5.0, cache=tmp_path / "c")
    assert flight.predict(Halve(), Recipe(), runtime="fake").because == "the time for the pre-flight was used up"
    assert asked[0][2] == 30.0
    assert flight.predict(Halve(), Recipe(), runtime="fake").speedup is None
    assert len(asked) == 1


def test_a_network_that_is_too_large_is_said_to_be(rehearsed, tmp_path):
    asked, _ = rehearsed
    told = Preflight(FACTS, excerpt_s=0.4, cache=tmp_path / "c").predict(Halve(), Recipe(), runtime="fake")
    assert told.speedup is None
    assert "too large" in told.because
    assert asked == []


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"kind": "tuning"}, "measured directly"),
        ({"trains": True}, "what training makes of the network is not known before"),
        ({"reads": ("onnx",)}, "it takes no fake files"),
        ({"exact": True, "kind": "fusion"}, "changes no arithmetic; cheap to try"),
        ({"runtimes": ("openvino",)}, "its results are meant for openvino"),
        ({"writes": "onnx"}, "reads no onnx files"),
    ],
)
def test_where_nothing_can_be_said_the_reason_is(rehearsed, tmp_path, changes, because):
    asked, _ = rehearsed
    told = Preflight(FACTS, cache=tmp_path / "c").predict(Halve(**changes), Recipe(), runtime="fake")
    assert told.speedup is None
    assert because in told.because
    assert asked == []


def test_what_is_not_installed_or_not_known_is_said(rehearsed, tmp_path):
    flight = Preflight(FACTS, cache=tmp_path / "c")
    assert flight.predict(Halve(), Recipe(), runtime="nonsense").because == "no runtime is called nonsense"
    absent = Halve()
    absent.availability = lambda: Availability(False, "the package x is not installed", "pip install x")
    assert flight.predict(absent, Recipe(), runtime="fake").because == "the package x is not installed"
