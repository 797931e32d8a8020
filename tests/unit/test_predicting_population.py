"""The law of other devices' operator costs: made-up populations, the shipped file, and the fleets of an atlas."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgewise.predicting import population as module
from edgewise.predicting.atlas import AtlasRow
from edgewise.predicting.base import Point, Subject
from edgewise.predicting.choice import Choice, choose, try_law
from edgewise.predicting.features import TERMS, OperatorProfile
from edgewise.predicting.fleet import Catalogue, fleets
from edgewise.predicting.laws import OperatorCosts
from edgewise.predicting.population import (
    FEATURES,
    Models,
    OtherDevices,
    Population,
    estimate_population,
    networks,
    populations,
    shipped,
)

TABLE = Path(__file__).parents[3] / "shared" / "data" / "ncnn_bench.csv"
SHIPPED = Path(module.__file__).with_name("populations.json")
KNOWN = [Subject(name=name, profile=profile) for name, profile in networks().items()]
SPREAD = np.array([0.2, 0.2, 0.6, 0.3, 0.5, 0.4, 0.1, 0.1, 0.01])


def draw(count: int, random: np.random.Generator, subjects=KNOWN, spread=SPREAD) -> np.ndarray:
    """Logarithms of what made-up devices take, exactly as the formula has them: (devices, models)."""
    costs = random.normal(0, 1, (count, len(FEATURES))) * spread
    constants, rows = Models.of(subjects).linear(costs)
    return constants + np.einsum("dmf,df->dm", rows, costs) + random.normal(-22, 1, (count, 1))


def points_of(logs: np.ndarray, at, subjects=KNOWN) -> list[Point]:
    return [Point(subject=subjects[one], value=float(np.exp(logs[one]))) for one in at]


def estimated(logs: np.ndarray, subjects=KNOWN, **more) -> Population:
    return estimate_population(logs, np.arange(len(logs)), subjects, title="made up", on_cpu=True, **more)


def test_the_linear_form_is_exact_at_its_costs_and_its_rows_are_the_derivatives():
    random = np.random.default_rng(0)
    models, costs = Models.of(KNOWN), random.normal(0, 0.5, len(FEATURES))
    amounts = np.array([subject.profile.amounts for subject in KNOWN]) * [1, 1, 2.2, 2.5, 1, 2000]

    def true(at: np.ndarray) -> np.ndarray:
        return np.log(amounts @ np.exp(at[: len(TERMS)])) + models.others @ at[len(TERMS) :]

    constants, rows = models.linear(costs)
    assert constants + rows @ costs == pytest.approx(true(costs))
    assert rows[:, : len(TERMS)].sum(axis=1) == pytest.approx(np.ones(len(KNOWN)))
    for at in range(len(FEATURES)):
        step = 1e-6 * np.eye(len(FEATURES))[at]
        assert rows[:, at] == pytest.approx((true(costs + step) - true(costs - step)) / 2e-6, abs=1e-6)


def test_devices_of_the_population_are_predicted_from_five_points_better_than_by_generic_costs():
    random = np.random.default_rng(1)
    law, errors = OtherDevices([estimated(draw(60, random))]), []
    assert law.fit(points_of(draw(1, random)[0], range(5))).equation == "as on 60 kinds of hardware: made up"
    for new in draw(20, random):
        order = random.permutation(len(KNOWN))
        points, rest = points_of(new, order[:5]), order[5:]
        wanted = [KNOWN[at] for at in rest]
        errors.append(
            [np.abs(each.fit(points).predict(wanted)[0] - new[rest]).mean() for each in (law, OperatorCosts())]
        )
    ours, generic = np.mean(errors, axis=0)
    assert ours < 0.08 and ours < 0.5 * generic


def test_the_spread_of_costs_over_devices_is_learnt():
    found = estimated(draw(200, np.random.default_rng(2)))
    assert found.hardware == 200 and math.sqrt(found.variance) < 0.02
    at = FEATURES.index("depthwise")
    assert math.sqrt(found.covariance[at, at]) == pytest.approx(0.6, rel=0.25)
    narrow = estimated(
        draw(200, np.random.default_rng(2), spread=np.where(np.arange(len(FEATURES)) == at, 0.1, SPREAD))
    )
    assert narrow.covariance[at, at] < found.covariance[at, at] / 2


def test_a_hardware_group_counts_once_and_a_prior_fills_in_where_devices_are_few():
    logs = draw(12, np.random.default_rng(3))
    once = estimated(logs)
    doubled = estimate_population(
        np.vstack([logs, logs[:1], logs[:1]]), np.array([*range(12), 0, 0]), KNOWN, title="made up", on_cpu=True
    )
    assert doubled.hardware == 12 and doubled.covariance == pytest.approx(once.covariance, abs=1e-6)
    few = estimated(draw(3, np.random.default_rng(4)), prior=shipped()[0])
    apart = np.abs(few.mean - shipped()[0].mean)
    assert apart.max() < 1.0 and np.linalg.eigvalsh(few.covariance).min() > 0


def test_a_value_of_this_machine_tells_what_operators_do_not():
    """Models have a part of their own, the same on all devices."""
    random = np.random.default_rng(5)
    own = random.normal(0, 0.4, len(KNOWN))
    law = OtherDevices([estimated(draw(60, random)[:, 6:] + own[6:], KNOWN[6:])])
    here, there = draw(2, random) + own
    known = [replace(subject, host=float(np.exp(log))) for subject, log in zip(KNOWN, here, strict=True)]
    found = {}
    for name, subjects in (("with", known), ("without", KNOWN)):
        fitted = law.fit(points_of(there, range(6, 16), subjects))
        logs, spread = fitted.predict(subjects[:6])
        found[name] = np.abs(logs - there[:6]).mean(), spread.mean()
    assert found["with"][0] < 0.35 * found["without"][0] and found["with"][1] < found["without"][1]
    mixed = law.fit(points_of(there, range(6, 16), known)).predict([known[0], KNOWN[0]])
    assert mixed[1][0] < mixed[1][1]


def test_the_population_in_which_the_points_are_likeliest_is_taken():
    random = np.random.default_rng(6)
    other = np.array([0, 0, 2.5, 0, 0, 0, 0, 0, 0])  # depthwise convolutions take 12 times as long
    constants, rows = Models.of(KNOWN).linear(np.tile(other, (30, 1)))
    slow = constants + rows @ other + random.normal(0, 0.03, constants.shape)
    law = OtherDevices([estimated(draw(30, random)), replace(estimated(slow), title="slow")])
    assert law.fit(points_of(slow[0], (0, 5, 9, 12))).population.title == "slow"
    assert law.fit(points_of(draw(1, random)[0], (0, 5, 9, 12))).population.title == "made up"


def test_intervals_of_made_up_devices_hold():
    random = np.random.default_rng(7)
    noise, held = 0.2, []
    law = OtherDevices([estimated(draw(60, random) + random.normal(0, noise, (60, len(KNOWN))))])
    for new in draw(40, random):
        new = new + random.normal(0, noise, len(new))
        order = random.permutation(len(KNOWN))
        points = points_of(new, order[:6])
        choice = Choice(points=tuple(points), trials=(try_law(law, points),))
        found = choice.predict([KNOWN[at] for at in order[6:]])
        held += [each.low <= np.exp(new[at]) <= each.high for each, at in zip(found, order[6:], strict=True)]
    assert 0.86 <= np.mean(held) <= 0.97


def test_the_shipped_file_gives_intervals_from_three_points_of_several_families():
    processors, graphics = shipped()
    assert processors.on_cpu and not graphics.on_cpu and processors.hardware > 50
    for found in shipped():
        assert found.mean.shape == (len(FEATURES),) and np.linalg.eigvalsh(found.covariance).min() > 0
    assert json.loads(SHIPPED.read_text())["features"] == list(FEATURES) and SHIPPED.stat().st_size < 8192
    by_name = {subject.name: subject for subject in KNOWN}
    values = {"mobilenetv2": 0.041, "resnet18": 0.11, "squeezenet": 0.038}
    points = [Point(subject=by_name[name], value=value) for name, value in values.items()]
    choice = choose(points)
    assert choice.chosen.predictor.name == "fleet"
    for found in choice.predict([by_name["googlenet"], by_name["blazeface"], by_name["mnasnet"]]):
        assert 0 < found.low < found.value < found.high < 100 * found.low
    assert choice.predict([by_name["googlenet"]])[0].value == pytest.approx(0.14, rel=0.4)


def rows_of(names: list[str], seconds: np.ndarray, *, unit: str = "CPU") -> list[AtlasRow]:
    return [
        AtlasRow(model=name, device=f"board {at}", group=f"board {at}", runtime="tflite", unit=unit, latency_s=value)
        for at, line in enumerate(seconds.tolist())
        for name, value in zip(names, line, strict=True)
    ]


def test_a_fleet_with_six_known_networks_is_a_population():
    seconds = np.exp(draw(5, np.random.default_rng(8)))
    names = [subject.name for subject in KNOWN]
    (found,) = populations(fleets({"mine": rows_of(names, seconds)}))
    assert found.title == "tflite CPU (atlas: mine)" and found.hardware == 5 and found.on_cpu
    assert populations(fleets({"mine": rows_of(names[:5], seconds[:, :5])})) == ()
    assert populations(fleets({"mine": rows_of([f"x{name}" for name in names], seconds)})) == ()
    (graphics,) = populations(fleets({"mine": rows_of(names, seconds, unit="GPU")}))
    assert not graphics.on_cpu


def test_one_model_outside_the_atlas_leaves_the_catalogue_usable_for_the_others():
    models = np.geomspace(0.001, 1.0, 8)
    names = [f"net{at}" for at in range(8)]
    law = Catalogue(fleets({"t": rows_of(names, np.outer([1, 2, 5], models))}))
    inside = [Point(subject=Subject(name=names[at]), value=3 * models[at]) for at in (0, 2, 4, 6)]
    outside = Point(subject=Subject(name="own"), value=7.0)
    trial = try_law(law, [inside[0], outside, *inside[1:]])
    assert trial.number == 4 and not trial.because and math.isnan(trial.left_out[1])
    assert trial.left_out[[0, 2, 3, 4]] == pytest.approx(3 * models[[0, 2, 4, 6]], rel=1e-3)
    assert trial.lacking(Subject(name="own")) and not trial.lacking(Subject(name="net3"))
    few = try_law(law, [*inside[:2], outside, replace(outside, subject=Subject(name="other"))])
    assert few.fitted is None and few.because == "own: it is not in the atlas"


@pytest.mark.skipif(not TABLE.is_file(), reason="the public measurements are not beside this checkout")
def test_the_shipped_file_is_what_the_script_fits(monkeypatch):
    document = json.loads(SHIPPED.read_text())
    if document["sources"][0]["sha256"] != hashlib.sha256(TABLE.read_bytes()).hexdigest():
        pytest.skip("the table of measurements is another one")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    import fit_populations

    for unit, found in zip(("CPU", "GPU"), shipped(), strict=True):
        again = fit_populations.fit(TABLE, unit, networks())
        assert again.mean == pytest.approx(found.mean, abs=1e-3)
        assert again.covariance == pytest.approx(found.covariance, abs=1e-3)


@pytest.mark.parametrize("profile", [None, OperatorProfile(amounts=(0.0,) * 6)])
def test_a_model_of_unknown_operators_is_lacking(profile):
    assert OtherDevices(shipped()).lacking(Subject(name="x", host=1.0, profile=profile))


def test_the_work_of_a_network_is_counted_in_its_param_file(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    from ncnn_networks import Layer, Network, profile

    lines = """Input input 0 1 a 0=8 1=8 2=4
    Convolution first 1 1 a b 0=6 1=3 4=1 6=216
    Split two 1 2 b b0 b1
    ConvolutionDepthWise each 1 1 b0 c 0=6 1=3 4=1 6=54 7=6
    ConvolutionDepthWise grouped 1 1 c d 0=6 1=3 4=1 6=108 7=3
    Convolution wide 1 1 d e 0=6 1=1 11=3 6=108
    Convolution point 1 1 e f 0=2 1=1 6=12
    DeconvolutionDepthWise up 1 1 f g 0=2 1=2 3=2 6=8 7=2
    InnerProduct dense 1 1 b1 h 0=5 6=0 2=1920
    MultiHeadAttention attention 1 1 i j 0=6 1=2 2=36"""
    network = Network.__new__(Network)
    network.layers = [Layer.of(line.split()) for line in lines.splitlines()]
    shapes = dict.fromkeys("a", (4, 8, 8)) | dict.fromkeys(["b", "b0", "b1", "c", "d", "e"], (6, 8, 8))
    shapes |= {"f": (2, 8, 8), "g": (2, 16, 16), "h": (5,), "i": (3, 6), "j": (3, 6)}
    network.sizes = lambda: shapes
    found = dict(zip(TERMS, profile(network).amounts, strict=True))
    assert network.ends == ["g", "h", "j"]
    assert found == {
        "spatial": 64 * (216 + 108 + 108), "depthwise": 64 * 54 + 64 * 8, "pointwise": 64 * 12,
        "dense": 1920 + 4 * 3 * 36 + 2 * 9 * 6, "elements": 2 * 9, "operators": 7 + 7,
    }  # fmt: skip
