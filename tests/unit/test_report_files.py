"""Formats by extension, files whole or not at all."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from edgewise.errors import BadInput
from edgewise.record import SCHEMA
from edgewise.report.files import check_target, render_report, report_document, write_report
from edgewise.store.exchange import import_runs
from edgewise.store.redaction import redact_run
from messages import has, says
from sample_profiles import faster_run, profiled_run, unprofiled_run
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
    assert document["schema"] == SCHEMA
    assert document["recommendation"]["run"] == run_id(2)
    assert import_runs(path) == list(map(redact_run, all_runs()))


def test_a_page_names_files_of_one_name_by_their_folders_and_not_where_these_lie(tmp_path):
    runs = [
        replace(run, job=replace(run.job, model=replace(run.job.model, path=f"{tmp_path}/{place}/kws.onnx")))
        for run, place in zip((profiled_run(), faster_run()), ("old", "new"), strict=True)
    ]
    write_report(runs, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "old/kws.onnx" in page and "new/kws.onnx" in page
    assert str(tmp_path) not in page and "(sha256 " not in page


def test_no_recommendation_is_null():
    cancelled = replace(make_run(1), status="cancelled")
    assert json.loads(render_report([cancelled], ".json"))["recommendation"] is None


def test_csv_of_the_watch_metrics_has_both_halves():
    lines = render_report(same_model_runs(), ".csv", table="watch").split("\r\n")
    assert lines[0].startswith("Model Watch Metrics,onnxruntime/cpu,openvino/cpu,fake/cpu,onnxruntime/cpu low,")
    assert len(lines) == 1 + 9 + 7 + 1
    assert lines[9].startswith("Deployment Time (s)")
    assert lines[10].startswith('"Computing Workload (%): CPU, GPU, NPU, TPU, VPU"')


def test_files_are_not_overwritten_unasked(tmp_path):
    path = tmp_path / "report.md"
    path.write_text("mine")
    with pytest.raises(BadInput, match=says("exists-already-in-folders")) as caught:
        write_report([make_run(1)], path)
    assert "--force" in caught.value.advice
    assert path.read_text() == "mine"
    write_report([make_run(1)], path, overwrite=True)
    assert path.read_text().startswith("# kws.onnx")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("report.pdf", "reports can't be written as .pdf"),
        ("report", says("name-report-needs-extension")),
        ("no/report.md", says("there-no-folder")),
    ],
)
def test_targets_that_cannot_be_written_are_refused_first(tmp_path, name, message):
    with pytest.raises(BadInput, match=message) as caught:
        check_target(tmp_path / name, overwrite=False)
    assert caught.value.advice


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "x.html").mkdir()
    with pytest.raises(BadInput, match=says("path-folder")):
        check_target(tmp_path / "x.html", overwrite=True)


def test_unknown_tables_formats_and_no_runs_are_refused():
    with pytest.raises(BadInput, match=says("there-no-table")) as caught:
        render_report([make_run(1)], ".md", table="fancy")
    assert caught.value.advice == "one of: bench, zoo, networks, long, watch, platform, profile, usage"
    with pytest.raises(BadInput, match=says("there-nothing-report")):
        report_document([])
    with pytest.raises(BadInput, match=says("reports-cant-written", extension=".pdf")):
        render_report([make_run(1)], ".pdf")


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("p.md", "# Profile of kws.onnx"), ("p.html", "<!doctype html>"), ("p.csv", "Run,Model,Runtime,Provider,Threads,Index"),
        ("p.json", f'{{\n  "schema": {SCHEMA}'), ("p.trace.json", '{"traceEvents"'), ("p.mltk.json", '{\n  "summary"'),
        ("p.nodes.json", '{\n "name": "time (µs)'), ("p.macs.nodes.json", '{\n "name": "MACs'),
        ("p.v2.nodes.json", '{\n "name": "time (µs)'), ("P.TRACE.JSON", '{"traceEvents"'),
    ],
)  # fmt: skip
def test_profiles_have_files_of_their_own(tmp_path, name, beginning):
    write_report([profiled_run()], tmp_path / name)
    assert (tmp_path / name).read_text().lstrip().startswith(beginning)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_charts_of_profiles_are_pictures(tmp_path):
    pytest.importorskip("vl_convert")
    write_report([profiled_run()], tmp_path / "p.roofline.svg")
    assert "Roofline" in (tmp_path / "p.roofline.svg").read_text()
    write_report([profiled_run()], tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG\r\n")
    with pytest.raises(BadInput, match=says("exists-already-in-folders")):
        write_report([profiled_run()], tmp_path / "p.png")
    write_report([profiled_run()], tmp_path / "p.png", overwrite=True)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("extension", [".trace.json", ".nodes.json", ".mltk.json", ".svg", ".png"])
def test_runs_without_a_profile_are_refused_where_one_is_needed(tmp_path, extension):
    with pytest.raises(BadInput, match=says("none-these-runs-profiled", why=has(": litert 9.9"))):
        write_report([unprofiled_run()], tmp_path / f"p{extension}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("extension", [".nodes.json", ".mltk.json", ".svg"])
def test_formats_of_one_run_refuse_two(tmp_path, extension):
    with pytest.raises(BadInput, match=says("file-holds-one-run-these", found_count=2)):
        write_report([profiled_run(), faster_run()], tmp_path / f"p{extension}")


def test_what_suits_the_runs_is_chosen_and_can_be_named():
    assert render_report([profiled_run()], ".csv").startswith("Run,Model,Runtime")
    assert render_report([profiled_run()], ".csv", table="bench").startswith("Run,Status,Model")
    assert render_report([profiled_run(), make_run(1)], ".csv").startswith("Run,Status,Model")
    assert "edgewise report" in render_report([profiled_run()], ".html", table="bench")
    with pytest.raises(BadInput, match=says("none-these-runs-profiled")):
        render_report([make_run(1)], ".csv", table="profile")


def test_a_json_report_of_a_profile_can_be_imported(tmp_path):
    write_report([profiled_run()], tmp_path / "p.json")
    assert import_runs(tmp_path / "p.json") == [redact_run(profiled_run())]
