"""The law of the catalogue on made-up fleets: exact values, missing cells, choice among fleets, coverage."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from edgewise.predicting.atlas import AtlasRow, normal
from edgewise.predicting.base import Point, Subject
from edgewise.predicting.choice import Choice, try_law
from edgewise.predicting.features import TERMS, OperatorProfile
from edgewise.predicting.fleet import Catalogue, Fleet, estimate_kernel, fleets


def rows_of(seconds: np.ndarray, *, runtime: str = "ncnn", devices: str = "board", variant: str = "") -> list[AtlasRow]:
    """A measurement per cell that is not NaN: (devices, models)."""
    return [
        AtlasRow(
            model=f"net-{model}", variant=variant, device=f"{devices} {device}", group=f"{devices} {device}",
            runtime=runtime, unit="CPU", latency_s=float(value), source="made up",
        )
        for device, line in enumerate(seconds)
        for model, value in enumerate(line)
        if math.isfinite(value)
    ]  # fmt: skip


def points_of(values: dict[int, float]) -> list[Point]:
    return [Point(subject=Subject(name=f"NET_{model}"), value=value) for model, value in values.items()]


def subjects(*models: int) -> list[Subject]:
    return [Subject(name=f"Net {model}") for model in models]


def with_gaps(seconds: np.ndarray, share: float, seed: int = 3) -> np.ndarray:
    gaps = np.random.default_rng(seed).random(seconds.shape) < share
    return np.where(gaps, np.nan, seconds)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_devices_that_differ_by_a_factor_alone_predict_exactly(share):
    models = np.geomspace(0.001, 1.0, 12)
    fleet = fleets({"t": rows_of(with_gaps(np.outer(np.geomspace(1, 30, 12), models), share))})
    fitted = Catalogue(fleet).fit(points_of({0: 3 * models[0], 5: 3 * models[5], 9: 3 * models[9]}))
    logs, _ = fitted.predict(subjects(3, 7, 11))
    assert np.exp(logs) == pytest.approx(3 * models[[3, 7, 11]], rel=1e-3)
    assert fitted.equation == "as on 12 kinds of hardware with ncnn CPU (atlas: t)"


@pytest.mark.parametrize(("gaps", "rest"), [(0.0, 0.03), (0.2, 0.4)])
def test_one_way_in_which_devices_differ_is_learnt_from_four_points(gaps, rest):
    random = np.random.default_rng(1)
    means, direction = random.normal(-4, 1, 16), 0.5 * np.cos(np.arange(16))
    strengths = random.normal(0, 1, (40, 1))
    fleet = fleets({"t": rows_of(with_gaps(np.exp(means + strengths * direction), gaps))})
    new = np.exp(means + 1.3 * direction + 0.7)
    logs, _ = Catalogue(fleet).fit(points_of({at: new[at] for at in (0, 3, 6, 8)})).predict(subjects(*range(10, 16)))
    found, by_offset_alone = np.abs(logs - np.log(new[10:])), np.abs(1.3 * direction[10:])
    assert np.mean(found) < rest * np.mean(by_offset_alone)


def test_the_covariance_of_a_fleet_is_that_of_its_draws_and_a_group_counts_once():
    random = np.random.default_rng(2)
    true = np.array([[0.3, 0.2, -0.25], [0.2, 0.3, -0.25], [-0.25, -0.25, 0.5]])  # rows add up to 0.25, 0.25, 0
    logs = random.multivariate_normal([0, 1, 2], true, size=400)
    kernel = estimate_kernel(logs, np.ones(400), [0, 1, 2])
    centred = logs - logs.mean(axis=1, keepdims=True)
    found = np.cov(centred.T)
    assert kernel.covariance == pytest.approx(found, abs=0.05)
    assert np.diff(kernel.means) == pytest.approx([1, 1], abs=0.1)
    doubled = Fleet(("", "", ""), (), (), {}, {}, np.vstack([logs, logs[:1], logs[:1]]), np.array([*range(400), 0, 0]))
    again = estimate_kernel(doubled.logs, doubled.weights, [0, 1, 2])
    assert again.covariance == pytest.approx(kernel.covariance, abs=1e-6)


def test_a_model_that_no_fleet_has_with_all_points_is_lacking():
    models = np.geomspace(0.001, 1.0, 6)
    both = {
        "a": rows_of(np.outer([1, 2, 3], models)),
        "b": rows_of(np.outer([1, 2, 3], np.append(models[3:], [np.nan] * 4)), runtime="other"),
    }
    law = Catalogue(fleets(both))
    assert law.lacking(Subject(name="resnet")) == "it is not in the atlas"
    fitted = law.fit(points_of({0: 1.0, 1: 2.0, 5: 3.0}))
    assert fitted.lacking(subjects(4)[0]) == "" and "together with the" in fitted.lacking(Subject(name="resnet"))
    trial = try_law(law, [*points_of({0: 1.0, 1: 2.0}), Point(subject=Subject(name="resnet"), value=1.0)])
    assert trial.fitted is None and trial.because == "resnet: it is not in the atlas"
    assert Catalogue(()).lacking(subjects(0)[0])


def test_of_two_fleets_the_likelier_one_predicts():
    models = np.geomspace(0.001, 1.0, 8)
    other = np.random.default_rng(5).permutation(models)
    both = fleets({"a": rows_of(np.outer([1, 2, 3], models)), "b": rows_of(np.outer([1, 2, 3], other), runtime="x")})
    fitted = Catalogue(both).fit(points_of({at: 4 * other[at] for at in (0, 2, 5)}))
    assert "(atlas: b)" in fitted.equation
    assert np.exp(fitted.predict(subjects(7))[0]) == pytest.approx([4 * other[7]], rel=1e-3)


def two_runtimes() -> tuple[list[Fleet], np.ndarray]:
    """Five boards and a chip with a taste of its own; the other runtime takes a factor per model of the first one's.

    The chip has no time with ``ncnn``, and for one model none at all.
    """
    random = np.random.default_rng(6)
    boards = np.outer([1, 2, 4, 8, 16], np.geomspace(0.001, 1.0, 14)) * np.exp(random.normal(0, 0.05, (5, 14)))
    chip = np.geomspace(0.001, 1.0, 14) * np.exp(random.normal(0, 0.5, 14))
    factors = np.exp(random.normal(0, 0.5, 14))
    other = np.vstack([boards * factors, np.where(np.arange(14) == 13, np.nan, chip * factors)])
    rows = rows_of(boards), rows_of(other[:5], runtime="x"), rows_of(other[5:], runtime="x", devices="chip")
    return list(fleets({"t": [row for part in rows for row in part]})), chip


def test_what_a_device_takes_with_another_runtime_is_moved_by_the_devices_that_have_both():
    (ncnn, other), chip = two_runtimes()
    (row,) = other.moved("chip 0", ncnn)
    columns = [ncnn.models[f"net{model}"] for model in range(14)]
    assert np.exp(row[columns[:13]]) == pytest.approx(chip[:13]) and math.isnan(row[columns[13]])
    assert list(other.moved("not in it", ncnn)) == []
    assert list(ncnn.moved("chip 0", other)) == []
    assert ncnn.with_runtimes_of("not in it", [ncnn, other]) is ncnn
    whole = ncnn.with_runtimes_of("chip 0", [ncnn, other])
    assert whole.groups.tolist() == [0, 1, 2, 3, 4, 5] and whole.devices[-1] == ("chip 0", "")


def test_a_device_that_is_known_with_another_runtime_is_predicted_better():
    known, chip = two_runtimes()
    points = points_of({at: 3 * chip[at] for at in (0, 4, 8, 12)})
    wanted = (1, 2, 3, 5, 6, 7, 9, 10, 11)
    fitted = [Catalogue(known).fit([replace(point, device=name) for point in points]) for name in ("", "chip 0")]
    before, after = (np.abs(each.predict(subjects(*wanted))[0] - np.log(3 * chip[list(wanted)])) for each in fitted)
    assert np.mean(after) < 0.6 * np.mean(before)
    assert fitted[1].equation == "as on 5 kinds of hardware with ncnn CPU, and on chip 0 with other runtimes (atlas: t)"


def test_a_name_with_several_variants_must_say_which():
    small, large = np.outer([1, 2, 3], [0.01, 0.02, 0.03]), np.outer([1, 2, 3], [0.04, 0.08, 0.12])
    (fleet,) = fleets({"t": [*rows_of(small, variant="160"), *rows_of(large, variant="224")]})
    assert fleet.find("net-1") is None
    assert fleet.find("net_1_224") == fleet.models["net1_224"] and fleet.find("Net-1 160.onnx") is not None


def test_two_kinds_of_hardware_are_no_fleet():
    assert fleets({"t": rows_of(np.outer([1, 2], [0.1, 0.2, 0.3]))}) == ()


@pytest.mark.parametrize(
    ("name", "as_compared"),
    [
        ("MobileNet-V2", "mobilenetv2"), ("models/mobilenet_v2.tflite", "mobilenetv2"), ("C:\\m\\A b.onnx", "ab"),
        ("regnet_y_1_6gf", "regnety1_6gf"), ("regnet_y_16gf", "regnety16gf"), ("yolo-fastest-1.1", "yolofastest1.1"),
    ],
)  # fmt: skip
def test_names_are_compared_without_case_and_separators(name, as_compared):
    assert normal(name) == as_compared


def test_leaving_points_out_estimates_the_fleet_once():
    models = np.geomspace(0.001, 1.0, 90)
    fleet = fleets({"t": rows_of(np.outer([1.0, 2.0, 5.0], models))})
    points = points_of({at: models[at] for at in range(0, 80, 9)})
    trial = try_law(Catalogue(fleet), points)
    assert trial.fitted is not None and len(fleet[0].kernels) == 1
    assert trial.left_out == pytest.approx([point.value for point in points], rel=1e-3)


def networks(count: int) -> list[OperatorProfile]:
    """Made-up networks that differ in three terms."""
    amounts = np.full((count, len(TERMS)), 1e7)
    amounts[:, [0, 1, 4]] = np.random.default_rng(11).uniform(1e6, 5e7, (count, 3))
    return [OperatorProfile(amounts=tuple(line)) for line in amounts.tolist()]


def with_profiles(points: list[Point], profiles: list[OperatorProfile]) -> list[Point]:
    return [
        replace(point, subject=replace(point.subject, profile=profile))
        for point, profile in zip(points, profiles, strict=True)
    ]


def test_operators_tell_of_a_device_that_is_like_none_of_the_fleet():
    random = np.random.default_rng(12)
    profiles = networks(40)
    amounts = np.array([profile.amounts for profile in profiles])
    alike = np.exp(random.normal(0, 0.1, (9, len(TERMS)))) * np.geomspace(1e-9, 1e-8, 9)[:, None]
    law = Catalogue(fleets({"t": rows_of(alike @ amounts.T)}))
    costs = np.full(len(TERMS), 1e-9)
    costs[TERMS.index("elements")] = 3e-9
    new = amounts @ costs
    points, others = points_of(dict(enumerate(new[:12]))), subjects(*range(12, 40))
    told = [replace(one, profile=profile) for one, profile in zip(others, profiles[12:], strict=True)]
    known, _ = law.fit(with_profiles(points, profiles[:12])).predict(told)
    unknown, _ = law.fit(points).predict(others)
    errors = [float(np.mean(np.abs(logs - np.log(new[12:])))) for logs in (known, unknown)]
    assert errors[0] < 0.03 and errors[1] > 3 * errors[0], errors


def test_a_device_of_the_fleet_is_predicted_exactly_although_its_operators_are_known():
    profiles = networks(20)
    usual = np.exp(np.random.default_rng(13).normal(-4, 1, 20))  # nothing that operators explain
    law = Catalogue(fleets({"t": rows_of(np.outer([1, 2, 5, 9], usual))}))
    points = with_profiles(points_of(dict(enumerate(3 * usual[:10]))), profiles[:10])
    told = [replace(one, profile=profile) for one, profile in zip(subjects(*range(10, 20)), profiles[10:], strict=True)]
    assert np.exp(law.fit(points).predict(told)[0]) == pytest.approx(3 * usual[10:], rel=1e-3)


@pytest.mark.parametrize(("count", "unknown"), [(6, ()), (10, ("an operator",))])
def test_with_few_points_or_an_operator_of_unknown_work_the_fleet_alone_predicts(count, unknown):
    random = np.random.default_rng(14)
    profiles = networks(20)
    law = Catalogue(fleets({"t": rows_of(np.exp(random.normal(-4, 1, (5, 20))))}))
    points = points_of(dict(enumerate(random.uniform(0.01, 0.1, count).tolist())))
    told = with_profiles(points, profiles[:count])
    told[0] = replace(told[0], subject=replace(told[0].subject, profile=replace(profiles[0], unknown=unknown)))
    wanted = [replace(one, profile=profiles[15]) for one in subjects(15)]
    with_operators, without = law.fit(told).predict(wanted), law.fit(points).predict(subjects(15))
    assert [found.tolist() for found in with_operators] == [found.tolist() for found in without]


def test_ninety_per_cent_of_new_devices_are_in_the_intervals():
    random = np.random.default_rng(7)
    means, ways = random.normal(-4, 1.5, 24), random.normal(0, 0.12, (3, 24))

    def draw(count: int) -> np.ndarray:
        noise = random.normal(0, 0.06, (count, 24))
        return np.exp(means + random.normal(0, 1, (count, 3)) @ ways + random.normal(0, 1, (count, 1)) + noise)

    law, held = Catalogue(fleets({"t": rows_of(with_gaps(draw(25), 0.1))})), []
    for new in draw(40):
        order = random.permutation(24)
        points = points_of({int(at): float(new[at]) for at in order[:8]})
        choice = Choice(points=tuple(points), trials=(try_law(law, points),))
        found = choice.predict(subjects(*order[8:].tolist()))
        held += [each.low <= value <= each.high for each, value in zip(found, new[order[8:]], strict=True)]
    assert 0.86 <= np.mean(held) <= 0.97
