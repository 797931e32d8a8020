"""Formats by extension, files whole or not at all."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from edgewise.errors import BadInput
from edgewise.report.files import check_target, render_report, report_document, write_report
from edgewise.store.exchange import import_runs
from sample_runs import all_runs, make_run, run_id, same_model_runs


@pytest.mark.parametrize(
    ("extension", "beginning"),
    [(".md", "# kws.onnx on Example CPU"), (".csv", "Run,Status,Model"), (".json", "{"), (".HTML", "<!doctype html>")],
)
def test_the_extension_says_the_format(tmp_path, extension, beginning):
    path = tmp_path / f"report{extension}"
    write_report(same_model_runs(), path)
    assert path.read_text().lstrip().startswith(beginning)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_json_has_the_shape_of_bench_and_can_be_imported(tmp_path):
    path = tmp_path / "report.json"
    write_report(all_runs(), path)
    document = json.loads(path.read_text())
    assert document["schema"] == 1
    assert document["recommendation"]["run"] == run_id(2)
    assert import_runs(path) == all_runs()


def test_no_recommendation_is_null():
    cancelled = replace(make_run(1), status="cancelled")
    assert json.loads(render_report([cancelled], ".json"))["recommendation"] is None


def test_csv_of_the_watch_metrics_has_both_halves():
    lines = render_report(same_model_runs(), ".csv", table="watch").split("\r\n")
    assert lines[0].startswith("Model Watch Metrics,onnxruntime/cpu,openvino/cpu,fake/cpu,litert/interpreter")
    assert len(lines) == 1 + 9 + 7 + 1
    assert lines[9].startswith("Deployment Time (s)")
    assert lines[10].startswith('"Computing Workload (%): CPU, GPU, NPU, TPU, VPU"')


def test_files_are_not_overwritten_unasked(tmp_path):
    path = tmp_path / "report.md"
    path.write_text("mine")
    with pytest.raises(BadInput, match="exists already") as caught:
        write_report([make_run(1)], path)
    assert "--force" in caught.value.advice
    assert path.read_text() == "mine"
    write_report([make_run(1)], path, overwrite=True)
    assert path.read_text().startswith("# kws.onnx")


@pytest.mark.parametrize(
    ("name", "message"),
    [("report.pdf", "no report is a .pdf file"), ("report", "no extension"), ("no/report.md", "there is no folder")],
)
def test_targets_that_cannot_be_written_are_refused_first(tmp_path, name, message):
    with pytest.raises(BadInput, match=message) as caught:
        check_target(tmp_path / name, overwrite=False)
    assert caught.value.advice


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "x.html").mkdir()
    with pytest.raises(BadInput, match="is a folder"):
        check_target(tmp_path / "x.html", overwrite=True)


def test_unknown_tables_formats_and_no_runs_are_refused():
    with pytest.raises(BadInput, match="no table") as caught:
        render_report([make_run(1)], ".md", table="fancy")
    assert caught.value.advice == "one of: bench, zoo, long, watch, platform"
    with pytest.raises(BadInput, match="nothing to report"):
        report_document([])
    with pytest.raises(BadInput, match=r"no report is a \.pdf file"):
        render_report([make_run(1)], ".pdf")
