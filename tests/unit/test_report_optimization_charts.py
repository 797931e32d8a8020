"""Charts of a search as data: every raced variant is drawn with its interval, and what is left out is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.formatting import factor_text
from edgewise.optimizing.variant import MetricValue, Prediction
from edgewise.report.optimization.charts import CHARTS, front_chart, layers_chart, prediction_chart
from edgewise.report.optimization.tables import variants_table
from sample_comparisons import HOSTILE
from sample_optimizations import bounds_unmet, chosen_variant, found, hostile_search, nothing_found, without_data


def test_the_front_has_every_raced_variant_with_its_intervals():
    chart = front_chart(found())
    rows = chart.spec["data"]["values"]
    assert [(row["n"], row["kind"]) for row in rows] == [(0, "original"), (1, "chosen"), (2, "not accepted")]
    best = rows[1]
    assert (best["x"], best["xlow"], best["xhigh"]) == (141.4, 140.0, 143.0)
    assert (best["y"], best["ylow"], best["yhigh"]) == (91.67, 89.8, 93.23)
    assert best["size"] == 15_410.0
    joined = chart.spec["layer"][0]["data"]["values"]
    assert [row["n"] for row in joined] == [1, 0]
    assert "Not drawn, because their latency is not known: 5 of 8." in chart.caption
    assert "ort-static @ openvino (chosen)" in chart.description


def test_without_an_accuracy_size_is_the_other_axis():
    result = replace(found(), headline="", candidates=(chosen_variant(),))
    chart = front_chart(result)
    assert chart.title == "Latency against model size"
    assert [row["y"] for row in chart.spec["data"]["values"]] == [52.6719, 15.0488]


def test_a_prediction_stands_against_what_was_measured():
    chart = prediction_chart(found())
    rows = chart.spec["data"]["values"]
    assert [(row["x"], row["y"]) for row in rows] == [(2.8, 2.97), (0.45, 0.41)]
    assert rows[0]["xlow"] == 2.2
    assert "one of the two was not measured: 5." in chart.caption


def test_fragile_layers_are_told_by_words_too():
    chart = layers_chart(found())
    rows = chart.spec["data"]["values"]
    assert [row["kind"] for row in rows[:2]] == ["kept in float", "changed"]
    assert len(rows) == 13
    assert "Without such a number, for reasons in the table: 1." in chart.caption
    assert "stem/Conv_1: 6.1 dB, kept in float" in chart.description


def test_numbers_of_points_on_each_other_stand_together():
    best = chosen_variant()
    many = tuple(replace(best, id=f"v{place}") for place in range(5))
    chart = front_chart(replace(found(), candidates=many, chosen="v0", front=()))
    texts = {label["text"] for layer in chart.spec["layer"] for label in layer.get("data", {}).get("values", ())
             if "text" in label}  # fmt: skip
    assert texts == {"0", "1, 2, 3 and 2 more"}


def test_nothing_is_drawn_of_nothing():
    assert [make(without_data()) for make in CHARTS] == [None, None, None]
    alone = replace(nothing_found(), candidates=())
    assert front_chart(alone) is None


@pytest.mark.parametrize("make", [found, nothing_found, bounds_unmet, hostile_search])
def test_every_chart_can_be_drawn(make):
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    from edgewise.report.charts import render_svg

    for chart in filter(None, (maker(make()) for maker in CHARTS)):
        svg = render_svg(chart.spec)
        assert svg.startswith("<svg ")
        assert HOSTILE.splitlines()[0] not in svg


def test_what_lost_a_short_race_stands_in_the_table_and_in_both_charts_by_its_ratio():
    result = found()
    ratio = MetricValue(value=0.6, basis="derived", method="in a short race")
    lost = next(one for one in result.candidates if one.stage == "screened")
    told = replace(
        lost, metrics={**lost.metrics, "speedup": ratio}, predicted=Prediction(speedup=0.7, low=0.5, high=0.9)
    )
    result = replace(result, candidates=tuple(told if one is lost else one for one in result.candidates))
    chart = front_chart(result)
    row = next(each for each in chart.spec["data"]["values"] if each["x"] == 700.0)  # 420 µs / 0.6
    assert "xlow" not in row and row["y"] == 88.0
    assert (
        "By their ratio in a short race, without an interval: 1." in chart.caption
        and "not known: 4 of 8" in chart.caption
    )
    assert [(each["x"], each["y"]) for each in prediction_chart(result).spec["data"]["values"]][-1] == (0.7, 0.6)
    for narrow in (False, True):
        table = variants_table(result, narrow=narrow)
        assert any(cell.text == f"~{factor_text(0.6)}" for cells in table.rows for cell in cells)
        assert any(note.startswith("~: in the short race") for note in table.notes)
    assert all(not note.startswith("~") for note in variants_table(found()).notes)
