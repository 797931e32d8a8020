"""The laws of devices: exact values on points without noise, choice by left-out points, and coverage of the intervals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.errors import BadInput
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.predicting.base import Point, Subject, predictors
from edgewise.predicting.choice import choose, choose_among, leave_out, try_law
from edgewise.predicting.features import RELATIVE_COSTS, TERMS, OperatorProfile, profile_of
from edgewise.predicting.laws import (
    HostAndOperators,
    Law,
    Line,
    Linear,
    OperatorCosts,
    PowerLaw,
    Scale,
    known_profile,
    least_squares_from_zero,
)
from edgewise.report.estimate.forecast import laws_table
from messages import says

HOSTS = (0.002, 0.005, 0.011, 0.04, 0.09)


def points_of(law, hosts=HOSTS) -> list[Point]:
    return [Point(subject=Subject(name=f"m{at}", host=host), value=law(host)) for at, host in enumerate(hosts)]


def value(fitted, host) -> float:
    return math.exp(fitted.predict([Subject(name="new", host=host)])[0][0])


@pytest.mark.parametrize("law", [Scale(), Line(), PowerLaw(), Linear()])
def test_every_law_of_the_host_finds_a_multiple_exactly(law):
    assert value(law.fit(points_of(lambda host: 3.5 * host)), 0.02) == pytest.approx(0.07, rel=1e-4)


def test_the_line_has_the_least_relative_error_and_no_negative_intercept():
    assert value(Line().fit(points_of(lambda host: 4 * host + 0.01)), 0.001) == pytest.approx(0.014, rel=1e-4)
    falling = Line().fit(points_of(lambda host: 4 * host - 0.006, HOSTS[1:]))
    assert falling.equation.endswith("× host") and value(falling, 1e-6) > 0


@pytest.mark.parametrize(
    ("law", "unit", "told"),
    [
        (Line(), "s", "3 × host + 259 ns"),
        (Linear(), "s", "3 × host + 259 ns"),
        (Linear(), "J", "3 × host + 259 nJ"),
        (Linear(), "", "3 × host + 2.59e-07"),
        (OperatorCosts(), "s", "24.4 ps per MAC of 1×1 convolutions"),
        (OperatorCosts(), "B", "2.44e-05 B per MAC of 1×1 convolutions"),
    ],
)
def test_constants_of_equations_have_their_unit(law, unit, told):
    per = 2.44e-5 if unit == "B" else 2.44e-11
    known = []
    for at, host in enumerate((1e-6, 3e-6, 9e-6, 20e-6), start=1):
        profile = OperatorProfile(amounts=(1e6 * at, 0, 0, 0, 0, 0))
        value = per * 1e6 * at if isinstance(law, OperatorCosts) else 3 * host + 2.59e-7
        known.append(Point(subject=Subject(name=str(at), host=host, profile=profile), value=value, unit=unit))
    assert law.fit(known).equation == told


def test_a_power_names_the_unit_of_its_values():
    known = [Point(subject=Subject(name=str(at), host=at / 100), value=at / 30, unit="s") for at in range(1, 6)]
    assert PowerLaw().fit(known).equation.endswith("^1.000 (in s)")


def test_least_squares_lets_giants_decide_and_can_go_below_zero():
    points = points_of(lambda host: 4 * host, HOSTS[:4])
    points.append(Point(subject=Subject(name="giant", host=1.0), value=8.0))
    assert value(Line().fit(points), 0.002) == pytest.approx(0.008, rel=0.25)
    assert math.isnan(Linear().fit(points).predict([Subject(name="small", host=0.002)])[0][0])


def test_the_power_stays_near_one_with_few_points_and_follows_many():
    few = PowerLaw().fit(points_of(lambda host: host**0.8))
    many = PowerLaw().fit(points_of(lambda host: host**0.8, np.geomspace(1e-4, 1.0, 60)))
    assert float(few.equation.partition("^")[2]) == pytest.approx(0.85, abs=0.05)
    assert float(many.equation.partition("^")[2]) == pytest.approx(0.8, abs=0.005)


def profile(**amounts) -> OperatorProfile:
    return OperatorProfile(amounts=tuple(float(amounts.get(term, 0)) for term in TERMS))


KINDS = [
    profile(pointwise=1e6, operators=10), profile(spatial=5e6, operators=8), profile(depthwise=4e5, operators=20),
    profile(dense=2e6, operators=4), profile(pointwise=4e6, depthwise=5e5, operators=40), profile(spatial=2e7),
    profile(dense=1e5, elements=1e6, operators=30),
]  # fmt: skip


def test_costs_of_operators_follow_the_points_and_stay_generic_where_there_are_none():
    generic = [Point(subject=Subject(name=str(at), profile=one), value=1e-9 * one.work) for at, one in enumerate(KINDS)]
    new = profile(pointwise=3e6, spatial=3e6, depthwise=1e5, operators=25)
    (log,), _ = OperatorCosts().fit(generic).predict([Subject(name="new", profile=new)])
    assert math.exp(log) == pytest.approx(1e-9 * new.work, rel=1e-6)
    # Depthwise work is 5 times dearer here, as on a core without a kernel for it.
    dearer = RELATIVE_COSTS * np.array([1, 1, 5, 1, 1, 1])
    other = [
        Point(subject=point.subject, value=1e-9 * float(np.array(point.subject.profile.amounts) @ dearer))
        for point in generic
    ]
    fitted = OperatorCosts().fit(other)
    (log,), _ = fitted.predict([Subject(name="new", profile=profile(depthwise=1e6, operators=1))])
    assert 2.2e-3 * 2 < math.exp(log) < 2.2e-3 * 5.1


def test_operators_beside_the_host_tell_two_kinds_of_models_apart():
    """Models of depthwise convolutions are twice as slow on the device, all others as fast as here."""
    mixed = [profile(pointwise=1e6 * at, depthwise=1e6 * (5 - at) / 2.2) for at in range(6)]
    points = [
        Point(subject=Subject(name=str(at), host=0.01, profile=one), value=0.01 * 2 ** one.shares[2])
        for at, one in enumerate(mixed)
    ]
    found, without = try_law(HostAndOperators(), points), try_law(Scale(), points)
    assert found.error < 0.85 * without.error
    best = choose(points).chosen
    assert best.error < without.error and any(law in best.predictor.name for law in ("host+operators", "fleet"))


def test_the_size_of_operators_and_int8_move_the_multiple_of_the_host():
    """The device gains on large operators and takes twice as long for int8: known from many points, halfway from few."""

    def model(at, precision):
        return Subject(name=f"{at}", host=0.01, precision=precision, profile=profile(pointwise=10.0**at, operators=10))

    def value(subject):
        size = math.log(known_profile(subject).work / 10)
        return 0.03 * math.exp(-0.1 * size) * (2 if subject.precision == "int8" else 1)

    models = [model(at, precision) for at in np.linspace(5, 9, 40) for precision in ("float32", "int8")]
    for count, low, high in ((80, 1.95, 2.0), (4, 1.3, 1.8)):
        places = np.linspace(0, 79, count).astype(int)
        law = HostAndOperators().fit([Point(subject=models[at], value=value(models[at])) for at in places])
        new = [model(7.1, "float32"), model(7.1, "int8")]
        logs, spread = law.predict(new)
        assert low < math.exp(logs[1] - logs[0]) < high
        if count == 80:
            assert np.exp(logs) == pytest.approx([value(one) for one in new], rel=0.03) and (spread < 0.05).all()


def test_coordinate_descent_finds_the_constrained_minimum():
    random = np.random.default_rng(0)
    matrix = random.normal(size=(12, 4))
    truth = np.array([1.5, 0.0, 0.2, 0.0])
    assert least_squares_from_zero(matrix, matrix @ truth) == pytest.approx(truth, abs=1e-7)
    target = random.normal(size=12)
    found = least_squares_from_zero(matrix, target)
    slope = matrix.T @ (matrix @ found - target)
    assert (found >= 0).all() and (slope >= -1e-6).all() and abs(slope @ found) < 1e-6  # Kuhn and Tucker


def test_what_a_law_lacks_is_said_and_the_next_one_is_taken():
    points = [Point(subject=Subject(name=str(at), host=host), value=2 * host) for at, host in enumerate(HOSTS)]
    choice = choose(points)
    assert {trial.predictor.name for trial in choice.trials if trial.because} == {
        "operators",
        "host+operators",
        "catalogue",
        "fleet",
    }
    assert choice.usable_for(Subject(name="unmeasured", profile=KINDS[0])) is None
    with pytest.raises(BadInput, match=says("measured-models-too-few-predict")):
        choose(points[:2])
    with pytest.raises(BadInput, match=says("no-method", method="cubic")):
        choose(points, method="cubic")
    with pytest.raises(BadInput, match=says("nothing-relates-models-device")):
        choose([Point(subject=Subject(name=name), value=1.0) for name in "abc"])
    assert choose(points, method="linear").chosen.predictor.name == "linear"


def test_a_point_is_left_out_with_its_family_where_three_others_remain():
    families = ("a", "a", "b", "c", "d")
    points = [
        Point(
            subject=Subject(name=str(at), host=1.0 + at, family=family),
            value=(1.0 + at) * (3.0 if family == "a" else 1.0),
        )
        for at, family in enumerate(families)
    ]
    trial = try_law(Scale(), points)
    assert trial.left_out[:2] == pytest.approx([1.0, 2.0])  # without both of a
    assert trial.left_out[2] == pytest.approx(3.0 * 3.0 ** (2 / 4))  # two other families and a: all but this one
    assert [found.log for found in leave_out(trial, points)[:2]] == pytest.approx([0.0, math.log(2)])
    assert try_law(Scale(), points[:4]).left_out[0] == pytest.approx(3.0 ** (1 / 3))  # b and c are too few


def test_all_predictors_are_plugins_with_what_the_seam_asks_for():
    found = dict(predictors())
    assert {"scale", "line", "power", "host+operators", "operators", "linear", "fleet"} <= set(found)
    assert all(law.name == name and law.title and law.prior_error > 0 for name, law in found.items())


@given(
    st.lists(
        st.tuples(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3)), min_size=3, max_size=10, unique_by=lambda pair: pair[0]
    ),
    st.floats(1e-6, 1e3),
    st.floats(1e-6, 1e3),
)
@settings(max_examples=25, deadline=None)
def test_predictions_are_positive_and_keep_the_order_of_the_host(pairs, one, other):
    points = [Point(subject=Subject(name=str(at), host=host), value=value) for at, (host, value) in enumerate(pairs)]
    first, second = choose(points).predict(
        [Subject(name="a", host=min(one, other)), Subject(name="b", host=max(one, other))]
    )
    for found in (first, second):
        assert 0 < found.low <= found.value <= found.high < math.inf
    assert first.value <= second.value * (1 + 1e-9)


@pytest.mark.parametrize(
    ("count", "scatter", "most"),
    [
        (4, 0.28, 0.98),
        (6, 0.15, 0.998),  # a device that follows its law better than most: few points can't show that yet
        (10, 0.4, 0.97),
    ],
)
def test_intervals_cover_what_they_claim(count, scatter, most):
    random = np.random.default_rng(count)
    held = []
    for _ in range(120):
        hosts = np.exp(random.normal(-4, 1, count + 4))
        values = 3 * hosts * np.exp(random.normal(0, scatter, count + 4))
        models = [Subject(name=str(at), host=float(host)) for at, host in enumerate(hosts)]
        found = choose(
            [Point(subject=model, value=float(value)) for model, value in zip(models[:count], values, strict=False)]
        ).predict(models[count:])
        held += [each.low <= value <= each.high for each, value in zip(found, values[count:], strict=True)]
    assert 0.86 <= np.mean(held) <= most


def test_a_profile_counts_each_kind_of_work_apart():
    def tensor(name, *shape):
        return Tensor(name=name, shape=shape, dtype="float32")

    tensors = {
        each.name: each
        for each in (tensor("x", 1, 8, 10, 10), tensor("a", 1, 4, 10, 10), tensor("b", 1, 4, 10, 10), tensor("c", 1, 4, 10, 10), tensor("d", 1, 7))
    }  # fmt: skip
    convolution = {"kind": "convolution", "op": "Conv"}
    operators = (
        Operator(index=0, name="p", inputs=("x",), outputs=("a",), geometry={"reduction": 8}, **convolution),
        Operator(
            index=1, name="w", inputs=("a",), outputs=("b",), geometry={"reduction": 9, "depthwise": True}, **convolution
        ),
        Operator(index=2, name="s", inputs=("b",), outputs=("c",), geometry={"reduction": 36}, **convolution),
        Operator(index=3, name="e", op="Relu", kind="activation", inputs=("c",), outputs=("b",),
                 geometry={"activation": "relu"}),
        Operator(index=4, name="o", op="Odd", kind="", inputs=("b",), outputs=("d",)),
    )  # fmt: skip
    found = profile_of(
        Graph(name="g", format="onnx", tensors=tensors, operators=operators, inputs=("x",), outputs=("d",))
    )
    assert dict(zip(TERMS, found.amounts, strict=True)) == {
        "pointwise": 400 * 8, "depthwise": 400 * 9, "spatial": 400 * 36, "dense": 0, "elements": 400, "operators": 4,
    }  # fmt: skip
    assert len(found.unknown) == 1 and found.unknown[0].startswith("o: ")


class Known(Scale):
    """A law with the name of one that knows other devices: the value does not depend on this machine's."""

    def __init__(self, error: float, name: str = "fleet") -> None:
        self.prior_error, self.name = error, name

    def fit(self, points):
        factor = float(np.exp(np.mean([math.log(point.value) for point in points])))
        return Law(
            equation="any",
            values=lambda subjects: np.full(len(subjects), factor),
            rows=lambda subjects, _: np.ones((len(subjects), 1)),
            spread=np.array([[1 / len(points)]]),
        )


class Proportional(Scale):
    """A multiple of this machine's value with the name of the law that others are averaged with."""

    name = "line"


def test_two_laws_of_different_evidence_are_averaged_by_their_variances():
    points = points_of(lambda host: 0.01 * (host / 0.011) ** 0.5)
    choice = choose_among([Known(0.28), Proportional()], points)
    mean, known, scale = (
        next(trial for trial in choice.trials if trial.predictor.name == name)
        for name in ("fleet and line", "fleet", "line")
    )
    # Both miss the square root by as much: the mean of their logarithms is the square root itself.
    assert known.error == pytest.approx(scale.error)
    assert choice.chosen is mean and mean.error < 0.5 * scale.error
    assert mean.predictor.title == "the mean of 50% fleet and 50% line"
    assert mean.left_out == pytest.approx(np.sqrt(known.left_out * scale.left_out))
    (found,) = choice.predict([Subject(name="new", host=0.044)])
    parts = [trial.fitted.predict([Subject(name="new", host=0.044)])[0][0] for trial in (known, scale)]
    assert math.log(found.value) == pytest.approx(np.mean(parts))
    (note,) = laws_table("latency", choice).notes
    assert "the law's error on public devices, which counts as 6 models" in note
    assert note.endswith("; a mean weighs its laws by the inverse of its square")
    alone = choose_among([Proportional()], points)
    assert laws_table("latency", alone).notes == ()
    # A model without a value of this machine is left to the law that needs none.
    assert mean.lacking(Subject(name="unmeasured"))
    # With another prior error, which counts as six points, the weights are the inverse variances.
    wider = choose_among([Known(0.56), Proportional()], points).chosen.predictor
    squares = float(np.sum(scale_squares(points)))
    variances = np.array([6 * 0.28**2 + squares, 6 * 0.56**2 + squares])
    assert wider.name == "line and fleet" and wider.weights == pytest.approx(1 / variances / np.sum(1 / variances))


@pytest.mark.parametrize(("laws", "freedom", "quantile"), [("mean", 5, 2.0150), ("line", 8, 1.8595)])
def test_the_error_of_a_mean_has_fewer_degrees_of_freedom_than_that_of_one_law(laws, freedom, quantile):
    """The points that give the error of a mean also chose its laws and their weights."""
    points = points_of(lambda host: 0.01 * (host / 0.011) ** 0.5, np.geomspace(0.002, 0.09, 10).tolist())
    choice = choose_among([Known(0.28), Proportional()] if laws == "mean" else [Proportional()], points)
    new = Subject(name="new", host=0.02)
    (found,), (log,), (spread,) = choice.predict([new]), *choice.chosen.fitted.predict([new])
    error = choice.chosen.error * math.sqrt(1 + spread)
    assert choice.freedom == freedom == leave_out(choice.chosen, [*points, points[0]])[0].freedom
    assert math.log(found.high) - log == pytest.approx(quantile * error, rel=1e-4)  # Student's t, 95 %


class Rooted(Proportional):
    """A multiple of the root of this machine's value, with the name of the second law that others are averaged with."""

    name = "host+operators"

    def fit(self, points):
        rooted = [replace(point, subject=replace(point.subject, host=point.subject.host**0.5)) for point in points]
        law = super().fit(rooted)
        return replace(law, values=lambda subjects: law.values([replace(one, host=one.host**0.5) for one in subjects]))


def test_three_laws_are_averaged_and_those_that_weigh_little_left_out():
    points = points_of(lambda host: 0.01 * (host / 0.011) ** 0.4, np.geomspace(0.01, 0.04, 5).tolist())
    choice = choose_among([Known(0.28), Proportional(), Rooted()], points)
    mean = next(trial for trial in choice.trials if " and " in trial.predictor.name)
    assert set(mean.predictor.name.replace(" and ", ", ").split(", ")) == {"fleet", "line", "host+operators"}
    by_name = {trial.predictor.name: trial for trial in choice.trials}
    squares = {name: float(np.sum(np.log(by_name[name].left_out / [point.value for point in points]) ** 2) / 1.25)
               for name in ("fleet", "line", "host+operators")}  # fmt: skip
    variances = np.array([6 * 0.28**2 + squares[part.name] for part in mean.predictor.parts])
    assert mean.predictor.weights == pytest.approx(1 / variances / np.sum(1 / variances))
    new = Subject(name="new", host=0.044)
    parts = [by_name[part.name].fitted.predict([new])[0][0] for part in mean.predictor.parts]
    assert mean.fitted.predict([new])[0][0] == pytest.approx(np.average(parts, weights=mean.predictor.weights))
    exact = points_of(lambda host: 0.01 * (host / 0.011) ** 0.5, np.geomspace(0.0001, 10.0, 30).tolist())
    assert all(" and " not in trial.predictor.name
               for trial in choose_among([Known(0.1), Proportional(), Rooted()], exact).trials)  # fmt: skip


def scale_squares(points) -> list[float]:
    """Squares of the errors of a multiple of this machine's value without each point, relative to their spread."""
    ratios = np.array([math.log(point.value / point.subject.host) for point in points])
    rest = [np.delete(ratios, at) for at in range(len(ratios))]
    return [(ratio - other.mean()) ** 2 / (1 + 1 / len(other)) for ratio, other in zip(ratios, rest, strict=True)]


def test_the_catalogue_has_five_times_the_weight_of_a_law_that_is_as_good_on_the_points():
    points = points_of(lambda host: 0.01 * (host / 0.011) ** 0.5)
    catalogue, fleet, line = Known(0.28, "catalogue"), Known(0.28), Proportional()
    mean = choose_among([line, fleet, catalogue], points).chosen.predictor
    assert mean.name == "catalogue, fleet and line" and mean.weights == pytest.approx([5 / 7, 1 / 7, 1 / 7])
    # A fleet with four times the error on other devices has less than a tenth of the weights, and no part in the mean.
    assert choose_among([line, Known(1.2), catalogue], points).chosen.predictor.name == "catalogue and line"
    # Of two laws that are not averaged, the catalogue is chosen, though its variance is twice that of the other.
    other = Known(0.28, "other")
    assert choose_among([other, Known(0.5, "catalogue")], points).chosen.predictor.name == "catalogue"


def test_a_law_that_is_much_worse_is_not_averaged():
    points = points_of(lambda host: 3 * host, np.geomspace(0.001, 1.0, 8).tolist())
    assert choose_among([Known(0.28), Proportional()], points).chosen.predictor.name == "line"
    assert choose_among([Known(0.28), Scale()], points).chosen.predictor.name == "scale"
    assert all(" and " not in trial.predictor.name for trial in choose(points).trials)
    steep = points_of(lambda host: host**2, np.geomspace(0.001, 1.0, 12).tolist())
    names = [trial.predictor.name for trial in choose_among([Known(0.28), Proportional(), PowerLaw()], steep).trials]
    assert names[0] == "power" and not any(" and " in name for name in names)
