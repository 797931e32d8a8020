"""Tables of measurements, calibrations in files, and predictions with their refusals."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.predicting.base import Point, Subject
from edgewise.predicting.calibration import (
    Calibration,
    load,
    names,
    rank_correlation,
    remove,
    save,
    summaries,
    validation,
)
from edgewise.predicting.choice import Choice, Trial, choose, leave_out
from edgewise.predicting.features import TERMS, OperatorProfile
from edgewise.predicting.forecast import forecast, refusal
from edgewise.predicting.outliers import describe_trend
from edgewise.predicting.points import check_points, doubt_units, join_repeats, read_table
from edgewise.report.estimate.forecast import _joined_by_text, chosen_law, forecasts_document, laws_table
from messages import says

HOSTS = {"a": 0.010, "b": 0.012, "c": 0.030, "d": 0.100, "e": 0.140}


def points(factor=4.0, **changed) -> tuple[Point, ...]:
    values = {name: factor * host for name, host in HOSTS.items()} | changed
    return tuple(Point(subject=Subject(name=name, host=HOSTS[name]), value=value) for name, value in values.items())


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    return tmp_path / "runs.calibrations"


def table(tmp_path, text):
    path = tmp_path / "m.csv"
    path.write_text(text)
    return read_table(path)


def test_a_table_gives_si_units(tmp_path):
    (row,) = table(
        tmp_path, "model,latency_ms,host_latency_us,energy_mJ,memory_peak_MiB,family\nnet,12.5,800,3,2,image\n"
    )
    assert row.values == pytest.approx({"latency": 0.0125, "energy": 0.003, "memory_peak": 2 * 2**20})
    assert row.hosts == pytest.approx({"latency": 0.0008}) and (row.name, row.family, row.line) == ("net", "image", 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", says("no-column-model-column-twice")),
        ("model,latency_ms\n", says("no-rows")),
        ("model,latency\na,1\n", says("column-no-unit", name="latency")),
        ("model,latencies_ms\na,1\n", says("not-column-measurements", name="latencies_ms")),
        ("model,latency_ms,latency_ms\na,1,1\n", says("no-column-model-column-twice")),
        ("model,latency_ms\na,-1\n", says("line-not-number-above-0", line=2, name="latency_ms", text="-1")),
        ("model,latency_ms\na,0\n", says("line-not-number-above-0")),
        ("model,latency_ms\na,nan\n", says("line-not-number-above-0")),
        ("model,latency_ms\na,12 ms\n", says("line-not-number-above-0", line=2, name="latency_ms", text="12 ms")),
        ("model,latency_ms\n,1\n", says("line-no-model", line=2)),
        ("model;latency_ms\na;1,5\n", says("line-1-columns-separated", other=";")),
        ("model\tlatency_ms\na\t1\n", says("line-1-columns-separated")),
        ("model,latency_ms\na,1,5\n", says("line-cells-columns", line=2, cells_count=3, header_count=2)),
        ('model,latency_ms\nb,2\na,"1,5"\n', says("line-not-number-above-0", line=3, name="latency_ms", text="1,5")),
        ("model,latency_s\na,1e300\n", says("line-which-no-model-takes", line=2, name="latency_s", text="1e300")),
        ("model,latency_ns\na,1e-7\n", says("line-which-no-model-takes")),
        ("model,latency_s\n" + "a,1\n" * 10_001, says("more-than-rows", most_rows=10000)),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(tmp_path, text, words):
    with pytest.raises(BadInput, match=words):
        table(tmp_path, text)


def test_a_mark_of_the_byte_order_is_no_part_of_the_first_column(tmp_path):
    (row,) = table(tmp_path, "\ufeffmodel,latency_ms\nnet,1\n")
    assert row.values == pytest.approx({"latency": 0.001})


def test_folders_binary_files_and_huge_ones_are_no_tables(tmp_path):
    with pytest.raises(BadInput, match=says("cant-read-in-points")):
        read_table(tmp_path)
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00model")
    with pytest.raises(BadInput, match=says("cant-read-in-points")):
        read_table(tmp_path / "b.csv")
    (tmp_path / "big.csv").write_bytes(b"model\n" * 2**20)
    with pytest.raises(BadInput, match=says("larger-than-mib")):
        read_table(tmp_path / "big.csv")


def test_repeats_are_averaged_and_contradictions_refused():
    one, *rest = points()
    joined = join_repeats([one, replace(one, value=one.value * 1.21), *rest])
    assert len(joined) == 5 and joined[0].value == pytest.approx(one.value * 1.1)
    with pytest.raises(BadInput, match=says("given-several-times-values", name="a")):
        join_repeats([one, replace(one, value=one.value * 2), *rest])


def test_another_unit_and_a_constant_are_seen():
    with pytest.raises(
        BadInput, match=says("times-what-other-models-suggest", what="latency", name="c", significant="1000")
    ):
        check_points(points(c=120.0), what="latency")
    with pytest.raises(BadInput, match=says("all-models-same-although-their", what="latency")):
        check_points(points(**dict.fromkeys(HOSTS, 0.05)), what="latency")
    assert check_points(points(**dict.fromkeys(HOSTS, 70e6)), what="memory peak") == []
    assert check_points(points(), what="latency") == []


@pytest.mark.parametrize(
    ("factor", "told"), [(1e3, "3000 times as long as"), (1e-3, "1/333 of the time of"), (60.0, ""), (0.01, "")]
)
def test_a_whole_column_that_looks_like_another_unit_is_a_caution(factor, told):
    found = [replace(point, value=3.0 * factor * point.subject.host) for point in points()]
    cautions = doubt_units(found, what="latency", written={})
    assert [told in caution for caution in cautions] == [True] * bool(told)
    assert doubt_units(found, what="memory peak", written={}) == []


@pytest.mark.parametrize(
    ("factor", "peaks", "told"),
    [
        (1.0, None, ""),
        (1.0, (5e9, 1e10), ""),
        (1e3, None, "1.00 MMAC/s for the median model, c: check"),
        (1e3, (5e9, 1e10), "1.00 MMAC/s for the median model, c, 1/5000 of the 5.00 GMAC/s that it was measured to"),
        (1e-5, None, "100 TMAC/s for the median model, c: check"),
        (1e-3, None, ""),
        (1e-3, (5e9, 1e10), "1.00 TMAC/s for the median model, c, 100 times the 10.0 GMAC/s that it was measured to"),
        (0.01, (1e12, 2e12), ""),
        (1.0, (2e12, 4e12), "1.00 GMAC/s for the median model, c, 1/2000 of the 2.00 TMAC/s that it was measured to"),
    ],
)
def test_both_columns_in_another_unit_are_a_caution_with_column_line_and_peak(factor, peaks, told):
    """Of 1 GMAC/s on this machine."""
    found = [
        replace(
            point,
            value=3.0 * factor * point.subject.host,
            subject=replace(
                point.subject,
                host=factor * point.subject.host,
                profile=OperatorProfile(amounts=(1e9 * share * point.subject.host, 0, 0, 0, 0, 0)),
            ),
        )
        for point, share in zip(points(), (0.8, 0.9, 1.0, 1.1, 1.2), strict=True)
    ]
    written = {name: f"host_latency_ms of line {line} of t.csv" for line, name in enumerate(HOSTS, start=2)}
    cautions = doubt_units(found, what="latency", written=written, peaks=peaks)
    assert [told in caution for caution in cautions] == [True] * bool(told)
    assert all(caution.startswith("By host_latency_ms of line 4 of t.csv, ") for caution in cautions)
    assert doubt_units(found, what="latency", written={}, peaks=peaks) == []  # it measured them itself


def test_one_family_and_a_giant_are_cautions():
    same = [replace(point, subject=replace(point.subject, family="image")) for point in points()]
    (caution,) = check_points(same, what="latency")
    assert "family image" in caution
    giant = [*points(), Point(subject=Subject(name="giant", host=5.0), value=20.0)]
    (caution,) = check_points(giant, what="latency")
    assert caution.startswith("giant alone decides R² of the latency")


def test_a_calibration_survives_its_file(own_folder):
    profile = OperatorProfile(amounts=(1e6, 2e6, 0, 5, 7, 9), unknown=("odd: why",))
    kept = [replace(point, subject=replace(point.subject, profile=profile, precision="int8")) for point in points()]
    found = Calibration(name="pi", points={"latency": tuple(kept)}, host="CPU", runtime="litert", sources=("f.csv",))
    path = save(found).path
    assert path == own_folder / "pi.json"
    assert load("pi").points == found.points and names() == ["pi"]
    document = json.loads(path.read_text())
    scale = next(law for law in document["metrics"]["latency"]["laws"] if law["law"] == "scale")
    assert scale["error"] == pytest.approx(0, abs=1e-9) and scale["rank_correlation"] == pytest.approx(1)
    assert scale["r2"] == pytest.approx(1) and scale["left_out"] == pytest.approx([4 * host for host in HOSTS.values()])
    assert {law["law"] for law in document["metrics"]["latency"]["laws"] if law["unusable_because"]} == {
        "operators", "host+operators", "catalogue", "fleet",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "damaged"), ("[]", "damaged"), ("{}", "damaged"), ('{"schema": 99}', says("written-later-edgewise"))],
)
def test_a_damaged_calibration_is_one_clear_error(own_folder, text, words):
    own_folder.mkdir()
    (own_folder / "pi.json").write_text(text)
    with pytest.raises(BadInput, match=words):
        load("pi")


def test_a_calibration_with_impossible_points_is_damaged(own_folder):
    path = save(Calibration(name="pi", points={"latency": points()})).path
    document = json.loads(path.read_text())
    document["metrics"]["latency"]["points"][0]["value"] = -1
    path.write_text(json.dumps(document))
    with pytest.raises(BadInput, match=says("path-damaged-error-r")):
        load("pi")


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["metrics"]["latency"]["points"][0].update(value=float("nan")),
        lambda document: document["metrics"]["latency"]["points"][0].update(host=1e300),
        lambda document: document["metrics"]["latency"]["points"][0].update(host="fast"),
        lambda document: document["metrics"]["latency"]["points"][0].update(profile={"amounts": [1.0], "unknown": []}),
        lambda document: document["metrics"]["latency"]["points"][0].update(
            profile={"amounts": [float("nan")] * len(TERMS), "unknown": []}
        ),
        lambda document: document["metrics"].clear(),
    ],
)
def test_a_calibration_edited_by_hand_is_damaged_rather_than_wrong(own_folder, change):
    path = save(Calibration(name="pi", points={"latency": points()})).path
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(BadInput, match=says("path-damaged-error-r")):
        load("pi")
    (found,) = summaries()
    assert "damaged" in found["reason"] and found["name"] == "pi"


def test_a_calibration_is_removed_by_its_name(own_folder):
    save(Calibration(name="pi", points={"latency": points()}, sources=("f.csv",)))
    counts = {"models": {"latency": 5}, "measured": {"latency": 5}}
    assert summaries() == [{"name": "pi", **counts, "sources": ["f.csv"], "reason": None}]
    remove("pi")
    assert names() == []
    with pytest.raises(BadInput, match=says("no-device-calibrated", name="pi")):
        remove("pi")


def test_a_calibration_that_cant_be_kept_is_one_clear_error(own_folder):
    own_folder.write_text("a file where the folder should be")
    with pytest.raises(BadInput, match=says("cant-made")):
        save(Calibration(name="pi", points={"latency": points()}))


def test_unknown_devices_and_impossible_names(own_folder):
    with pytest.raises(BadInput, match=says("no-device-calibrated", name="pi")):
        load("pi")
    with pytest.raises(BadInput, match=says("cant-name-device")):
        load("../pi")


def forecasts(*subjects, targets=None, metric="latency", **changed):
    return forecast(Calibration(name="pi", points={metric: points(**changed)}), subjects, targets=targets)


def test_a_prediction_has_an_interval_its_nearest_models_and_the_chance_of_a_target():
    found = forecasts(Subject(name="new", host=0.05), targets={"latency": 0.2})
    (row,) = found.rows
    assert row.prediction.value == pytest.approx(0.2, rel=0.02)
    assert row.prediction.low < 0.2 < row.prediction.high
    assert row.nearest == ("c", "d") and row.on_target == pytest.approx(0.5, abs=0.05)
    (document,) = found.to_document()["models"]
    assert (document["basis"], document["coverage"], document["unit"]) == ("estimated", 0.9, "s")


def test_models_in_order_with_the_pairs_that_cant_be_told_apart():
    found = forecasts(*(Subject(name=name, host=host) for name, host in {"x": 0.09, "y": 0.02, "z": 0.021}.items()))
    assert [row.subject.name for row in found.of("latency")] == ["y", "z", "x"]
    assert [(one.subject.name, other.subject.name) for one, other in found.alike("latency")] == [("y", "z")]


def trial(name, factor, *, error=0.05):
    """A law by which a model takes `factor` times this machine's value, off by `error` on each point."""
    law = SimpleNamespace(name=name, title=name, prior_error=0.1, lacking=lambda subject: "")

    def predict(subjects):
        return np.log([factor * subject.host for subject in subjects]), np.zeros(len(subjects))

    left_out = np.array([point.value * (1 + error) for point in points()])
    fitted = SimpleNamespace(predict=predict, equation="", lacking=lambda subject: "")
    law.fit = lambda _: fitted
    return Trial(predictor=law, fitted=fitted, number=len(left_out), error=0.05, left_out=left_out)


@pytest.mark.parametrize(
    ("others", "told"),
    [((2.8, 2.9, 3.0), True), ((2.8, 2.9, 4.0), False), ((2.8, 9.0, 9.0), False), ((6.0, 7.0, 8.0), True)],
)
def test_laws_that_all_disagree_with_the_chosen_one_are_a_caution(others, told):
    """The interval is 0.2 s ± about 10 %: three laws that are all below it, or all above, are named."""
    laws = [trial(f"law{at}", factor, error=0.3 - 0.1 * at) for at, factor in enumerate(others)]
    calibration = Calibration(name="pi", points={"latency": points()})
    calibration.__dict__["choices"] = {
        "latency": Choice(points=points(), trials=(trial("best", 4.0, error=0.4), *laws))
    }
    (row,) = forecast(calibration, [Subject(name="new", host=0.05)]).rows
    assert row.prediction.value == pytest.approx(0.2) and row.prediction.low > 0.15
    first = next(iter(row.cautions), "")
    assert first.startswith("The next best laws disagree, outside of the interval: ") == told == bool(first)
    assert not told or f"{1000 * 0.05 * others[0]:.0f} ms (law0)" in first
    titles = [cell[0].text for cell in laws_table("latency", calibration.choices["latency"]).rows]
    assert titles == ["best", "law2", "law1", "law0"]  # the chosen one, then by error


def test_beyond_the_points_it_widens_and_then_refuses():
    inside, beyond, far = forecasts(
        Subject(name="in", host=0.05), Subject(name="out", host=0.7), Subject(name="far", host=2.0)
    ).rows
    assert beyond.cautions[0].startswith("Its latency on this machine, 700 ms, is ") and not inside.cautions
    width = [row.prediction.high / row.prediction.low for row in (inside, beyond)]
    assert width[1] > 1.2 * width[0]
    assert far.prediction is None and "2.00 s, is 14.3 times the most of the measured models (" in far.refused


def test_a_model_beyond_the_points_by_its_operations_is_told_so():
    known = [
        Point(subject=Subject(name=str(at), profile=OperatorProfile(amounts=(1e6 * at, 0, 0, 0, 0, 0))), value=at)
        for at in range(1, 5)
    ]
    small = Subject(name="n", profile=OperatorProfile(amounts=(5e4, 0, 0, 0, 0, 0)))
    assert refusal(small, known).startswith(
        "its operations are 1/20.0 of those of the smallest measured model, 1: measure"
    )


def two_laws(known, best, other, errors=(0.1, 0.3)):
    """A chosen law and one that is closer at the points `known`, by factors on the left-out points.

    Of n points, the squared error that is expected is (error² · (n − ¾) + 5.75 · 0.1²) / (n + 5).
    """
    values = np.array([point.value for point in known])
    laws = [
        replace(trial(name, 4.0), error=error, number=len(known), left_out=values * np.array(factor))
        for name, factor, error in zip(("best", "other"), (best, other), errors, strict=True)
    ]
    return Choice(points=tuple(known), trials=tuple(laws))


def test_a_law_with_a_larger_error_here_is_chosen_by_its_expected_error():
    known = points()
    choice = two_laws(known, 1.4, 1.04)
    expected = [math.sqrt((each**2 * (len(known) - 0.75) + 5.75 * 0.1**2) / (len(known) + 5)) for each in (0.1, 0.3)]
    assert [one.expected_error for one in choice.trials] == pytest.approx(expected)
    first, second = (f"{100 * each:.1f} %" for each in expected)
    assert chosen_law("latency", choice).endswith(
        "; the law other has the least error here, 4.0 %, but a larger expected error for other models, "
        f"{second}, not {first}."
    )
    table = laws_table("latency", choice)
    assert [row[2].text for row in table.rows] == [first, second] and table.columns[2].title == "Expected"
    assert table.notes[0].startswith("Expected: root mean square error") and "the law with the least" in table.notes[0]
    mean = two_laws(known, 1.4, 1.04, errors=(0.3, 0.1))
    assert chosen_law("latency", mean).endswith(", but a mean of laws is mostly closer for other models.")
    for factors in ((1.04, 1.4), (1.055, 1.04)):
        assert "the least error here" not in chosen_law("latency", two_laws(known, *factors))


@pytest.mark.parametrize(
    ("off", "told"),
    [
        ((1.29, 1.11, 1.04, 0.85, 0.83), "too high for small models and too low for large ones here (off by 15.2 %"),
        ((1.29, 1.04, 1.11, 0.85, 0.83), "too high for small models and too low for large ones here (off by 15.2 %"),
        ((0.8, 0.9, 1.0, 1.1, 1.2), "too low for small models and too high for large ones here (off by 12.0 %"),
        ((1.29, 0.85, 1.11, 1.04, 0.83), ""),
        ((1.05, 1.04, 1.02, 1.01, 1.0), ""),
    ],
)
def test_errors_that_go_with_the_size_are_told_with_the_law_that_is_closer(off, told):
    known = [Point(subject=Subject(name=str(at), host=0.01 * at), value=0.04 * at) for at in range(1, 6)]
    found = describe_trend(two_laws(known, off, 1.02), "latency")
    assert found == (f"Latency by best is {told} on average): --method other gives 2.0 %." if told else "")
    assert describe_trend(two_laws(known[:4], off[:4], 1.02), "latency") == ""


def test_the_errors_beside_an_interval_are_those_of_the_law_that_gave_it():
    """A model without a value of this machine had an interval by another law, beside the errors of the better one."""
    closer, other = two_laws(points(), (1.1, 1.0, 1.0, 1.0, 1.0), 1.0).trials
    closer.predictor.lacking = lambda subject: "it has no value" if subject.name == "new" else ""
    other = replace(other, left_out=other.left_out * np.array([1.05, 0.69, 1.0, 1.0, 1.0]))
    calibration = Calibration(name="pi", points={"latency": points()})
    calibration.__dict__["choices"] = {"latency": Choice(points=points(), trials=(closer, other))}

    def told(*names):
        found = forecast(calibration, [Subject(name=name, host=0.05 + 0.01 * at) for at, name in enumerate(names)])
        return forecasts_document(found).answer[-1]

    by_other = (
        "Its interval follows from the errors of the law other, as best can't be used for it: off by 7.2 % on average "
        "where a model is left out, most for b (-31%)."
    )
    by_best = (
        "Its interval follows from the errors of the law: off by 2.0 % on average where a model is left out, most for "
        "a (+10%)."
    )
    assert [told("new"), told("new", "known"), told("known", "new")] == [by_other, by_other, by_best]


def test_one_caution_about_several_models_is_told_once_with_their_names():
    noisy = "Runs of grade D alone, which are not used"
    assert _joined_by_text([f"{noisy}: a.", "No limit.", f"{noisy}: b.", "At night: c.", f"{noisy}: a."]) == [
        f"{noisy}: a and b.",
        "No limit.",
        "At night: c.",
    ]


def test_other_precisions_and_unseen_operators_are_refused():
    def profile(**amounts):
        return OperatorProfile(amounts=tuple(float(amounts.get(term, 0)) for term in TERMS))

    spatial = [
        Point(
            subject=Subject(name=str(at), host=0.01 * at, precision="int8", profile=profile(spatial=1e6 * at)), value=at
        )
        for at in range(1, 5)
    ]
    assert re.search(
        says("precision-measured-models", own="float32"),
        refusal(Subject(name="n", host=0.02, precision="float32"), spatial),
    )
    unlike = Subject(name="n", host=0.02, precision="int8", profile=profile(dense=1e6))
    assert re.search(
        says("work-most-measured-model-measure", kinds="matrix products", share="100%"), refusal(unlike, spatial)
    )
    assert refusal(Subject(name="n", host=0.02, precision="int8", profile=profile(spatial=2e6)), spatial) == ""
    assert choose(spatial).chosen.fitted is not None


@pytest.mark.parametrize(("measured", "new"), [("f32", "float32"), ("FP32", "f32"), ("i8", "int8"), ("half", "fp16")])
def test_names_of_one_precision_are_the_same(measured, new):
    known = [replace(point, subject=replace(point.subject, precision=measured)) for point in points()]
    assert refusal(Subject(name="n", host=0.02, precision=new), known) == ""
    assert re.search(
        says("precision-measured-models", own="uint8"), refusal(Subject(name="n", host=0.02, precision="u8"), known)
    )


HALVES = "float32 with float16 weights"


@pytest.mark.parametrize(
    ("measured", "new"),
    [("float32", HALVES), (HALVES, "float32"), (f"float32, {HALVES}", f"{HALVES}, float32"), (HALVES, "FP32")],
)
def test_weights_that_are_only_stored_in_half_precision_are_no_precision_of_their_own(measured, new):
    known = [replace(point, subject=replace(point.subject, precision=measured)) for point in points()]
    assert refusal(Subject(name="n", host=0.02, precision=new), known) == ""
    assert refusal(Subject(name="n", host=0.02, precision="float16"), known)
    assert refusal(Subject(name="n", host=0.02, precision="float32 with int8 weights"), known)


def test_anyway_widens_instead_of_refusing():
    known = [replace(point, subject=replace(point.subject, precision="float32")) for point in points()]
    calibration = Calibration(name="pi", points={"latency": tuple(known)})
    subjects = [
        Subject(name="same", host=0.05, precision="float32"),
        Subject(name="int8", host=0.05, precision="int8"),
        Subject(name="int16", host=0.05, precision="int16"),
        Subject(name="far", host=3.0, precision="float32"),
    ]
    assert [row.refused is None for row in forecast(calibration, subjects).rows] == [True, False, False, False]
    same, int8, int16, far = forecast(calibration, subjects, anyway=True).rows
    assert int8.prediction.value == same.prediction.value == pytest.approx(0.2)
    assert int8.spread == pytest.approx(math.hypot(same.spread, math.log(4)))
    assert int16.spread == pytest.approx(math.hypot(same.spread, math.log(2)))
    assert far.spread > same.spread and far.prediction.value == pytest.approx(12)
    for row in (int8, int16, far):
        assert row.refused is None and row.cautions[0].startswith("Predicted by --anyway, with a wider interval: its ")


def test_a_subject_that_the_law_knows_too_little_of_is_an_error():
    with pytest.raises(BadInput, match="scale can't predict n: it was not measured on this machine"):
        choose(points(), method="scale").predict([Subject(name="n")])


def test_without_a_value_of_this_machine_the_reason_is_said():
    (row,) = forecasts(Subject(name="new")).rows
    assert row.prediction is None and "not measured on this machine" in row.refused


def test_a_value_of_this_machine_of_grade_d_widens_the_interval_by_its_own_error():
    known = tuple(replace(each, subject=replace(each.subject, host_error=0.1)) for each in points())
    calibration = Calibration(name="phone", points={"latency": known}, method="scale")
    subjects = [Subject(name="new", host=0.03, host_error=error) for error in (0.0, 0.3)]
    sure, doubtful = forecast(calibration, subjects).rows
    assert sure.prediction.value == doubtful.prediction.value and sure.cautions == ()
    assert doubtful.spread == pytest.approx(math.hypot(sure.spread, 0.3))
    assert doubtful.cautions == ("Its run on this machine has grade D: the interval is wider for that.",)


def test_intervals_hold_where_values_of_this_machine_have_grade_d():
    """Two of five values here, and that of the new model, are off by 30 %: with this error, 90 % intervals hold."""
    random, errors = np.random.default_rng(1), np.array([0.3, 0.3, 0.05, 0.05, 0.05, 0.3])
    held = {0.0: 0, 0.3: 0}
    for _ in range(300):
        true = np.exp(random.uniform(math.log(1e-3), math.log(2e-3), 6))
        values, hosts = 2 * true * np.exp(random.normal(0, 0.1, 6)), true * np.exp(random.normal(0, errors))
        known = tuple(
            Point(subject=Subject(name=str(at), host=hosts[at], host_error=errors[at]), value=values[at])
            for at in range(5)
        )
        calibration = Calibration(name="phone", points={"latency": known}, method="scale")
        for error in held:
            (row,) = forecast(calibration, [Subject(name="new", host=hosts[5], host_error=error)]).rows
            held[error] += row.prediction.low <= values[5] <= row.prediction.high
    assert held[0.3] >= 270 > held[0.0]


def test_rank_correlation_averages_ranks_of_equal_values():
    assert rank_correlation([1, 2, 3, 4], [10, 30, 20, 40]) == pytest.approx(0.8)
    assert rank_correlation([1, 1, 2], [1, 2, 3]) == pytest.approx(0.8660254)
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None


def test_a_left_out_point_is_judged_by_a_law_and_an_error_that_never_saw_it():
    four = points(e=0.8)[:5]
    trial = choose(four, method="scale").chosen
    at = 4
    found = leave_out(trial, four)[at]
    without = choose(four[:4], method="scale")
    by_hand = without.predict([four[at].subject])[0]
    this = found.prediction()
    assert (this.value, this.low, this.high) == pytest.approx((by_hand.value, by_hand.low, by_hand.high))
    assert this.value == pytest.approx(4 * HOSTS["e"]) and this.value == pytest.approx(trial.left_out[at])
    wide = found.prediction(0.99)
    assert wide.low < this.low and wide.high > this.high and found.inside(0.99)


def test_the_coverage_of_a_law_is_the_share_of_left_out_points_inside():
    exact = validation(choose(points(), method="scale").chosen, points())
    assert [row["share"] for row in exact["coverage"]] == [1.0] * 4
    assert [row["nominal"] for row in exact["coverage"]] == [0.5, 0.8, 0.9, 0.95]
    off = points(e=10.0)  # eighteen times what the others say
    assert [row["share"] for row in validation(choose(off, method="scale").chosen, off)["coverage"]][:3] == [0.8] * 3


@pytest.mark.parametrize(
    ("column", "advice"),
    [
        ("latency", "write one of: latency_s, latency_ms, latency_us, latency_µs, latency_ns"),
        ("host_latency", "write one of: host_latency_s, host_latency_ms, host_latency_us, host_latency_µs, "
         "host_latency_ns"),
    ],
)  # fmt: skip
def test_a_column_without_its_unit_is_told_with_the_units_that_it_may_have(tmp_path, column, advice):
    (tmp_path / "a.csv").write_text(f"model,{column}\na,1\n")
    with pytest.raises(BadInput) as raised:
        read_table(tmp_path / "a.csv")
    assert raised.value.advice == advice
