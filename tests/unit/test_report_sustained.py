"""What reports say and draw of sustained runs."""

from __future__ import annotations

from dataclasses import replace

from comparable_runs import run_of
from edgewise.record import Run, Scenario, Sustained, Window
from edgewise.report.bench.charts import Series
from edgewise.report.bench.document import bench_document
from edgewise.report.bench.sustained import sustained_charts, sustained_sections
from edgewise.report.charts import render_svg
from edgewise.report.document.text import to_text

BINS = 600


def sustained_run(**changes) -> Run:
    """30 min at 10 ms, with a clock and a temperature that stay, unless changed."""
    begins = tuple(3.0 * index for index in range(BINS))
    series = {
        "begin_s": begins,
        "end_s": tuple(begin + 3.0 for begin in begins),
        "inferences": (300.0,) * BINS,
        "median": (0.01,) * BINS,
        "p99": (None,) * BINS,
        "max": (0.012,) * BINS,
        "clock_rate": (2.4e9,) * BINS,
        "gpu_power": (None,) * BINS,
    }
    window = {"bins": 20, "inferences": 6000, "low": 0.0099, "high": 0.0101, "readings": {"clock_rate": 2.4e9}}
    found = Sustained(
        elapsed_s=1800.0,
        metric="latency",
        series=series,
        first=Window(begin_s=0.0, end_s=60.0, value=0.01, **window),
        last=Window(begin_s=1740.0, end_s=1800.0, value=0.01, **window),
        ratio=1.0,
        low=0.99,
        high=1.01,
        verdict="same",
    )
    scenario = Scenario(sustained_s=1800.0)
    return replace(run_of(scenario=scenario, processes=1), sustained=replace(found, **changes))


def lines_of(**changes) -> tuple[str, ...]:
    (section,) = sustained_sections([sustained_run(**changes)])
    return section.lines


def test_a_steady_run_is_the_same_and_has_no_slowdown():
    assert lines_of() == (
        "same: latency 10.0 ms in the last minute, 10.0 ms in the first; ratio 1.000 (0.990 to 1.010)",
        "no slowdown of more than 5% for 1 min or longer in 30 min",
        "clock 2.40 GHz at first, 2.40 GHz at last",
    )


def test_a_slowdown_has_its_time_and_its_cause():
    slow = {"verdict": "slower", "ratio": 1.5, "low": 1.4, "high": 1.6, "slowdown_from_s": 750.0}
    told = lines_of(**slow, cause="clock", explanation="clock fell from 2.40 GHz to 1.60 GHz")
    assert told[1:] == (
        "slower by more than 5% from 12.5 min to the end",
        "the processor throttled: clock fell from 2.40 GHz to 1.60 GHz",
    )
    told = lines_of(**slow, slowdown_until_s=900.0, cause="unknown", explanation="clock not readable; cause unknown")
    assert told[1:] == ("slower by more than 5% from 12.5 min until 15 min", "clock not readable; cause unknown")


def test_a_run_that_ended_early_says_so():
    told = lines_of(elapsed_s=90.0, first=None, last=None, explanation="only 30 bins in 1.5 min: too few for a verdict")
    assert told == ("ended after 1.5 min of 30 min", "only 30 bins in 1.5 min: too few for a verdict")


def test_bars_fill_the_width_and_fit_the_terminal():
    (section,) = sustained_sections([sustained_run()])
    assert section.drawing == ("█" * 67,) * 4 + ("0 s to 30 min, bars from 0 to 10.0 ms",)
    assert max(map(len, to_text(bench_document([sustained_run()])).splitlines())) <= 80


def test_charts_are_of_the_columns_with_values():
    run = sustained_run(slowdown_from_s=750.0)
    series = [Series(run=run, label="a", colour="red")]
    charts = [chart for chart in sustained_charts(series) if chart is not None]
    assert [chart.title for chart in charts] == ["Latency over time", "Clock over time"]
    windows, start = (layer["data"]["values"] for layer in charts[0].spec["layer"] if "data" in layer)
    medians = charts[0].spec["data"]["values"]
    assert windows == [{"t": 0.0, "t2": 1.0}, {"t": 29.0, "t2": 30.0}] and start == [{"t": 12.5}]
    assert len(medians) == 200 and medians[0] == {"run": "a", "t": 0.075, "y": 10.0}
    assert charts[1].spec["data"]["values"][0]["y"] == 2.4
    assert charts[1].description == "a: clock 2.40 GHz at first, 2.40 GHz at last"
    assert charts[1].caption.startswith("Readings of time bins; the first and the last window, which are compared,")
    assert render_svg(charts[0].spec).startswith("<svg")


def test_runs_that_are_not_sustained_have_neither():
    assert sustained_sections([run_of()]) == []
    assert [chart for chart in sustained_charts([Series(run=run_of(), label="a", colour="red")]) if chart] == []
