"""Runs that were judged on data, in the tables and pages of other commands: shares in percent, never as latencies."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from functools import partial

import pytest

from edgewise.report.bench.charts import Series, curve_chart, distribution_chart, series_chart
from edgewise.report.bench.document import bench_document
from edgewise.report.bench.tables import bench_table
from edgewise.report.document.csv import render_csv
from edgewise.report.document.text import plain_text, to_text
from edgewise.report.runs.document import print_run
from edgewise.report.runs.field_tables import Options, field_document
from report_pages import render_html
from sample_optimizations import detection_run, evaluation, one_model, two_models
from sample_runs import make_run, measured


@pytest.fixture
def run():
    return one_model().models[0].run


def judged(metric: str, value: float, task: str):
    """A run whose answers were judged by `metric`."""
    run = make_run(1)
    return replace(
        run, evaluation=evaluation(task=task, confusion=None), measurements=(*run.measurements, measured(metric, value))
    )


def cells(table, row: int = 0):
    return {column.title: cell for column, cell in zip(table.columns, table.rows[row], strict=True)}


def zoo(run, options: Options | None = None):
    return cells(field_document("zoo", [run], options=options).tables[0])


def test_the_bench_table_has_accuracy_in_the_row_of_the_latency():
    runs = [one.run for one in two_models().models]
    found = cells(bench_table(runs), 1)
    assert found["Top-1 accuracy (%)"].text == "92.33 [90.63, 93.64]"
    assert found["Top-1 accuracy (%)"].value == pytest.approx(92.333, abs=1e-3)
    assert found["Latency (µs)"].text == "210 ± 11"
    assert "Top-1 accuracy" in to_text(bench_document(runs), width=80)


def test_a_run_without_an_accuracy_beside_one_that_has_it_says_why(run):
    found = cells(bench_table([run, make_run(2, runtime="openvino")]), 1)
    assert (found["Top-1 accuracy (%)"].text, found["Top-1 accuracy (%)"].notes) == (
        "n/a",
        ("not measured by this run",),
    )


def test_bench_says_what_an_accuracy_was_found_on(run):
    section = next(section for section in bench_document([run]).sections if section.title == "Accuracy")
    assert section.lines == (
        f"kws_test.npz (npz, test), 900 of 1000 samples, task classification, 2 skipped, data sha256 {'d' * 16}",
    )


def test_an_error_in_the_labels_own_unit_is_no_percentage():
    found = cells(bench_table([judged("mae", 0.2143, "regression")]))
    assert found["MAE"].text == "0.214"
    assert (
        "%" not in to_text(bench_document([judged("mae", 12.3, "regression")]), width=200).partition("Intervals: ")[0]
    )


def test_runs_that_were_not_judged_have_no_column_of_accuracy():
    titles = [column.title for column in bench_table([make_run(1)]).columns]
    assert not [title for title in titles if "ccuracy" in title or "greement" in title]


def test_csv_has_the_accuracy_at_full_precision_with_its_ends(run):
    (row,) = csv.DictReader(io.StringIO(render_csv(bench_table([run]))))
    assert float(row["Top-1 accuracy (%)"]) == pytest.approx(100 * 851 / 900)
    assert float(row["Top-1 accuracy (%) low"]) == pytest.approx(100 * (851 / 900 - 0.017))


def test_charts_draw_latencies_and_never_outcomes(run):
    one = [Series(run=run, label="a", colour="var(--series-1)")]
    timed = run.measurement("latency").samples
    for chart in (distribution_chart(one), curve_chart(one), series_chart(one[0])):
        parts = [chart.spec, *chart.spec["layer"]]
        values = [row["x"] for part in parts for row in part.get("data", {}).get("values", ()) if "x" in row]
        assert values
        assert all(min(timed) * 1e6 * 0.99 <= value <= max(timed) * 1e6 * 1.01 for value in values)


def test_without_a_latency_no_chart_is_drawn(run):
    rows = tuple(row for row in run.measurements if row.metric in ("accuracy_top1", "accuracy_top5"))
    bare = replace(run, measurements=rows, sessions=())
    one = [Series(run=bare, label="a", colour="var(--series-1)")]
    assert (distribution_chart(one), curve_chart(one), series_chart(one[0])) == (None, None, None)
    page = render_html([bare])
    assert "94.56 %" in page
    assert "Stopping" not in page


def test_the_page_has_shares_in_percent_with_the_data_they_come_from(run):
    page = render_html([run])
    assert "94.56 %" in page
    assert "[92.85, 95.86] %" in page
    assert "kws_test.npz (npz, test), 900 of 1000 samples" in page
    assert "image: scale 1/255 → float32 [1, 49, 10, 1]" in page


def test_runs_show_has_shares_in_percent(run):
    text = plain_text(partial(print_run, run), width=160)
    line = next(line for line in text.splitlines() if line.startswith("Top-1 accuracy"))
    assert "94.56 %" in line and "[92.85, 95.86] %" in line and "   900   " in line
    # Of a metric without outcomes the samples that were judged are told.
    assert "   900   " in next(line for line in text.splitlines() if line.startswith("F1 (macro)"))
    assert "kws_test.npz (npz, test), 900 of 1000 samples" in text


def test_zoo_has_the_accuracy_and_the_task_of_a_run_that_was_judged(run):
    found = zoo(run)
    assert (found["Accuracy"].text, found["Task"].text) == ("94.56 % [92.85, 95.86]", "Classification")
    assert zoo(run, Options(task="Keyword Spotting"))["Task"].text == "Keyword Spotting"


@pytest.mark.parametrize(
    ("metric", "task", "label"),
    [
        ("map_50_95", "detection", "mAP@[.50:.95]"),
        ("miou", "segmentation", "mIoU"),
        ("auroc", "anomaly", "AUC (ROC)"),
        ("exact_match", "text-generation", "Exact match"),
        ("recall_at_1", "embeddings", "Recall@1"),
    ],
)
def test_zoo_names_what_its_accuracy_is_where_it_is_not_the_top1(metric, task, label):
    found = zoo(judged(metric, 0.372, task))["Accuracy"]
    assert (found.text, found.notes) == ("37.20 %", (label,))


def test_zoo_keeps_the_interval():
    found = zoo(detection_run())["Accuracy"]
    assert (found.text, found.low, found.high) == ("37.20 % [36.20, 38.20]", pytest.approx(36.2), pytest.approx(38.2))


def test_zoo_takes_no_error_and_no_agreement_for_an_accuracy():
    error = zoo(judged("mae", 0.2143, "regression"))["Accuracy"]
    assert (error.text, error.notes) == ("n/a", ("the task is judged by MAE 0.214, which is not a share",))
    agreed = replace(make_run(1), evaluation=evaluation(task="agreement"))
    found = zoo(agreed)
    assert found["Accuracy"].text == "n/a"
    assert "without labels" in found["Accuracy"].notes[0]
    assert found["Task"].text == "n/a"


def test_the_long_table_has_both_accuracies(run):
    more = replace(run, measurements=(*run.measurements, measured("accuracy_top5", 0.99, half=0.005)))
    found = cells(field_document("long", [more]).tables[0])
    assert (found["Top-1 Accuracy"].text, found["Top-5 Accuracy"].text) == (
        "94.56 % [92.85, 95.86]",
        "99.00 % [98.50, 99.50]",
    )


def test_watch_and_platform_have_the_accuracy():
    watch = {row[0].text: row[1] for table in field_document("watch", [detection_run()]).tables for row in table.rows}
    assert watch["Accuracy (%)"].text == "37.20 [36.20, 38.20]"
    assert cells(field_document("platform", [detection_run()]).tables[0])["Accuracy (%)"].text == "37.20 [36.20, 38.20]"
