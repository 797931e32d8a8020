"""Charts of comparisons as data: everything that is known is drawn, and what is left out is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.comparing.comparison import ComparisonResult, Variant
from edgewise.report.charts import logarithmic_axis, render_svg
from edgewise.report.comparison import charts
from edgewise.verbs.compare.presentation import FORMAT as COMPARISON
from sample_comparisons import (
    latency_row,
    rows_of_two,
    stored_runs,
    two_variants,
)
from sample_runs import make_run, sampled


def test_charts_need_samples_and_ratios():
    bare = replace(make_run(1), measurements=())
    findings = ComparisonResult(variants=(Variant(label="A", run=bare),), comparisons=(rows_of_two()[-1],))
    assert charts.samples_chart(findings) is None
    assert charts.process_chart(findings) is None
    assert charts.forest_chart(findings) is None
    assert "There are no charts" in COMPARISON.render(findings, ".html")


def test_the_samples_lie_on_an_axis_around_their_bulk():
    chart = charts.samples_chart(two_variants())
    boxes = chart.spec["layer"][1]["data"]["values"]
    assert [(box["run"], box["value"]) for box in boxes] == [("A", 421.0), ("B", 173.5)]
    samples = [value for one in charts.sampled_variants(two_variants()) for value in one.row.samples]
    lower, upper = chart.spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert 140 < lower < min(box["q1"] for box in boxes) and upper > max(box["q3"] for box in boxes)
    points = chart.spec["layer"][0]["data"]["values"]
    assert all(lower <= point["x"] <= upper for point in points)
    beyond = sum(not lower * 1e-6 <= value <= upper * 1e-6 for value in samples)
    assert f"{beyond} of {len(samples)} samples lie beyond the axis" in chart.caption


def test_far_distributions_share_a_logarithmic_axis():
    findings = two_variants()
    slow = Variant(label="B", run=make_run(2, latency=2e-2, half=1e-4))
    chart = charts.samples_chart(replace(findings, variants=(findings.variants[0], slow)))
    assert chart.spec["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"
    assert "logarithmic" in chart.caption
    assert render_svg(chart.spec).startswith("<svg")


def test_samples_that_are_all_alike_are_drawn():
    flat = replace(sampled("latency", 1e-3, half=1e-6, seed=1, n=50), samples=(1e-3,) * 50, low=1e-3, high=1e-3)
    run = replace(make_run(1), measurements=(flat,))
    chart = charts.samples_chart(ComparisonResult(variants=(Variant(label="A", run=run),), comparisons=()))
    assert {point["x"] for point in chart.spec["layer"][0]["data"]["values"]} == {1.0}
    assert render_svg(chart.spec).startswith("<svg")


def test_processes_are_drawn_as_deviations_of_their_medians():
    chart = charts.process_chart(two_variants())
    points = chart.spec["data"]["values"]
    assert len(points) == 10
    assert all(abs(point["x"]) < 2.0 for point in points)
    assert "measured together" in chart.caption
    assert "in the order they were measured" in charts.process_chart(stored_runs()).caption.lower()


def test_the_forest_has_a_band_a_line_and_every_ratio():
    chart = charts.forest_chart(two_variants())
    rows = chart.spec["data"]["values"]
    assert [one["ratio"] for one in rows] == [0.412, 0.978, 2.427, 1.9167, 1.0]
    assert {(one["from"], one["to"]) for one in rows} == {(0.970874, 1.03)}
    assert "Without a ratio: 1." in chart.caption
    assert chart.spec["layer"][1]["data"]["values"] == [{"ratio": 1}]
    assert "B, Latency: 0.412 (0.405 to 0.419), 2.43× faster" in chart.description


@pytest.mark.parametrize(("low", "high"), [(0.999, 1.001), (0.8, 1.3), (0.2, 4.0), (0.01, 30.0), (1e-9, 1e9)])
def test_the_axis_of_ratios_has_ticks_at_any_span(low, high):
    chart = charts.forest_chart(replace(two_variants(), comparisons=(latency_row(ratio=1.0, low=low, high=high),)))
    ticks = chart.spec["layer"][3]["encoding"]["x"]["axis"]["values"]
    assert 3 <= len(ticks) <= 16
    assert 1.0 in ticks


@pytest.mark.parametrize(
    ("processes", "ticks"), [(2, [1, 2]), (3, [1, 2, 3]), (10, list(range(1, 11))), (25, list(range(1, 26, 3)))]
)
def test_the_axis_of_processes_has_whole_numbers_and_not_many(processes, ticks):
    row = replace(sampled("latency", 1e-3, half=1e-6, seed=1, n=50 * processes), session_lengths=(50,) * processes)
    run = replace(make_run(1), measurements=(row,))
    chart = charts.process_chart(ComparisonResult(variants=(Variant(label="A", run=run),), comparisons=()))
    assert [point["process"] for point in chart.spec["data"]["values"]] == list(range(1, processes + 1))
    (layer,) = chart.spec["layer"]
    axis = layer["encoding"]["x"]["axis"]
    assert (axis["values"], axis["format"]) == (ticks, "d")
    assert render_svg(chart.spec).count(">1.5<") == 0


@pytest.mark.parametrize("processes", [11, 19, 20, 21, 60, 90, 1000])
def test_the_axis_of_many_processes_has_ten_numbers_at_most(processes):
    row = replace(sampled("latency", 1e-3, half=1e-6, seed=1, n=10 * processes), session_lengths=(10,) * processes)
    run = replace(make_run(1), measurements=(row,))
    chart = charts.process_chart(ComparisonResult(variants=(Variant(label="A", run=run),), comparisons=()))
    ticks = chart.spec["layer"][0]["encoding"]["x"]["axis"]["values"]
    assert 5 <= len(ticks) <= 10 and all(isinstance(tick, int) for tick in ticks)
    assert ticks[0] == 1 and ticks[-1] <= processes


@pytest.mark.parametrize("upper", [1.05, 1.099, 1.79, 1.9, 1.99, 2.7])
def test_every_range_of_a_logarithmic_axis_has_its_ticks(upper):
    """0.8 to 1.79 is 9.9 tenths: steps of half a tenth are too many, and steps of a tenth are left."""
    ticks = logarithmic_axis("ratio", "ratio", 0.8, upper)["axis"]["values"]
    assert ticks == sorted(set(ticks)) and 2 <= len(ticks) <= 17 and 0.8 <= ticks[0] < ticks[-1] <= upper
