"""The interval of a value has one text, wherever it is shown: in tables, prose, pages, Markdown, charts and Python."""

from __future__ import annotations

import csv
import html
import io
from dataclasses import replace

import pytest

from edgewise.formatting import amount_text, interval_text, width_text, with_range
from edgewise.report.bench.document import bench_document
from edgewise.report.bench.values import headline_text
from edgewise.report.document.text import to_text
from edgewise.report.files import render_report
from edgewise.report.graph import make_graph
from edgewise.report.graph.columns import document_of
from edgewise.report.runs.document import run_document
from edgewise.terminal.progress import headline_words
from edgewise.verbs.shown_in_python import html_of, text_of
from sample_profiles import profiled_run
from sample_runs import same_model_runs

INTERVALS = [
    ((420.4, 346.2, 494.8), "420", "± 75"),  # 74.2 below and 74.4 above: what is printed contains both ends
    ((420.4, 408.7, 481.3), "420", "[408, 482]"),  # to one side
    ((420.4, 419.96, 420.9), "420", "± 1"),
]


@pytest.mark.parametrize(("micros", "value", "interval"), INTERVALS)
def test_every_form_of_a_run_has_the_same_text(micros, value, interval):
    seconds = dict(zip(("value", "low", "high"), (each * 1e-6 for each in micros), strict=True))
    run = same_model_runs()[0]
    rows = [replace(row, **seconds) if row.metric == "latency" else row for row in run.measurements]
    run = replace(run, measurements=tuple(rows), cautions=())
    report = {extension: str(render_report([run], extension)) for extension in (".md", ".html", ".csv")}
    forms = {
        "table": to_text(bench_document([run]), width=160),
        "Markdown": report[".md"].replace("\\", ""),
        "page": html.unescape(report[".html"]),
        "one run": to_text(run_document(run), width=160),
        "first line": headline_text(run),
        "Python": text_of(run),
        "notebook": html.unescape(html_of([run])),
        "progress": headline_words(*seconds.values(), "s"),
    }
    wrong = f"{micros[1]:.0f} µs to {micros[2]:.0f} µs"
    for form, text in forms.items():
        assert interval in text, form
        assert wrong not in text, form
    for form in ("first line", "Python", "progress"):
        assert f"{value} {interval} µs" in forms[form], form
    (row,) = csv.DictReader(io.StringIO(report[".csv"]))
    told = [float(row[key]) for key in row if key.startswith("Latency") and row[key] and "(s)" in key]
    assert all(pytest.approx(each) in told for each in seconds.values())


def test_the_details_of_a_graph_have_the_text_of_the_table():
    run = profiled_run()
    told = document_of(make_graph([run]))
    shown = [told["texts"][number] for number in told["intervals"]]
    assert [interval_text("latency", "s", one.time, one.low, one.high) for one in run.layers] == shown[
        : len(run.layers)
    ]
    assert any("±" in text for text in shown)


@pytest.mark.parametrize(
    ("metric", "unit", "numbers", "text", "interval"),
    [
        ("accuracy_top1", "1", (0.98222, 0.97049, 0.98956), "98.22 % [97.04, 98.96]", "[97.04, 98.96] %"),
        ("mae", "1", (0.214, 0.2, 0.23), "0.214 [0.200, 0.230]", "[0.200, 0.230]"),
        ("cpu_utilization", "1", (0.853, 0.85, 0.856), "85.3 ± 0.3 %", "± 0.3 %"),
        ("energy", "J", (0.0072, 0.0069, 0.0075), "7.20 ± 0.30 mJ (0.00200 mWh)", "± 0.30 mJ"),
        ("memory_peak", "B", (1.5e6, 1.4e6, 1.6e6), "1.43 ± 0.10 MiB", "± 0.10 MiB"),
        ("temperature", "K", (323.15, 322.15, 324.15), "50.0 ± 1.0 °C", "± 1.0 °C"),
        ("throughput", "1/s", (812.0, 800.0, 824.0), "812 ± 12 /s", "± 12 /s"),
        ("latency", "s", (1.0, None, None), "1.00 s", ""),
        ("latency", "s", (None, None, None), "n/a", ""),
    ],
)
def test_the_interval_of_a_value_is_the_one_beside_it(metric, unit, numbers, text, interval):
    assert with_range(metric, unit, *numbers) == text
    assert interval_text(metric, unit, *numbers) == interval


def test_the_text_contains_the_interval():
    assert amount_text("s", 420.4e-6, 346.2e-6, 494.8e-6) == "420 ± 75 µs"
    assert amount_text("Hz", 5e5, 4.9e5, 5.1e5) == "500 ± 10 kHz"
    assert width_text(1.0, 0.8001, 1.2001, "s") == "± 20.1 %"
    assert width_text(1.0, 0.9, 1.2001, "s") == "−10.0 % to +20.1 %"
    assert width_text(1.0, 0.004, 254.74, "s") == "[0.00400, 255] s"
