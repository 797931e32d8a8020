"""Results as Python users see them: text, rows and files."""

from __future__ import annotations

import csv
import os
import pickle
from dataclasses import replace

import pytest

import edgewise
from edgewise import data
from edgewise.api import Runs
from edgewise.errors import BadInput
from edgewise.record import Failure
from edgewise.report import presentation
from edgewise.report.bench import bench_document
from edgewise.report.text import to_text
from edgewise.shown import Shown
from sample_runs import all_runs


@pytest.fixture
def runs():
    return Runs(all_runs())


def test_runs_are_the_table_of_the_command_line_without_their_samples(runs, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = repr(runs)
    assert text == str(runs) and max(map(len, text.splitlines())) <= 100
    assert to_text(bench_document(runs), width=100).startswith(text)  # all but what --details would add
    assert "--details" not in text
    assert repr(Runs()) == "[]"


def test_without_a_terminal_lines_have_120_characters(runs, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(presentation, "get_terminal_size", os.terminal_size)
    assert repr(runs) == to_text(bench_document(runs), width=120)[: len(repr(runs))]


def test_a_run_is_one_line(runs):
    run = next(run for run in runs if run.status == "done")
    row = run.measurement(run.headline)
    assert repr(run).startswith(f"<run {run.id} of {run.job.label}: Latency ") and "\n" not in repr(run)
    assert f"grade {run.trust.grade}" in repr(run) and row.low is not None and " to " in repr(run)
    failed = replace(run, status="failed", measurements=(), failure=Failure(cause="Killed", message="by the kernel"))
    assert repr(failed) == f"<run {run.id} of {run.job.label}: the run failed: Killed: by the kernel>"


def test_rows_are_those_of_the_csv_file(runs, tmp_path):
    runs.write(tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open(newline="") as file:
        expected = list(csv.DictReader(file))
    rows = runs.as_rows()
    assert [row["Run"] for row in rows] == [run.id for run in runs]
    assert any(isinstance(value, float) for row in rows for value in row.values())
    for row, words in zip(rows, expected, strict=True):
        assert list(row) == list(words)
        for title, value in row.items():
            assert value == (None if words[title] == "n/a" else type(value)(words[title])), title


def test_files_are_not_replaced_unasked_and_other_endings_refused(runs, tmp_path):
    page = tmp_path / "runs.md"
    runs.write(page)
    assert page.read_text("utf-8").startswith("# ")
    with pytest.raises(BadInput, match="exists"):
        runs.write(page)
    runs.write(str(page), overwrite=True)
    with pytest.raises(BadInput, match="docx"):
        runs.write(tmp_path / "runs.docx")


def test_an_inspection_shows_itself_and_its_layers(tmp_path):
    model = data.path("digits_cnn.onnx")
    found = edgewise.inspect(model)
    assert repr(found).startswith(f"Inspection of {model.name}") and "MACs" in repr(found)
    rows = found.as_rows()
    assert sum(row["MACs"] for row in rows) == found.total.macs
    found.write(tmp_path / "model.md")
    assert str(model.parent) not in (tmp_path / "model.md").read_text("utf-8")


def test_every_result_of_a_function_has_a_format():
    for kind in Shown.__subclasses__():
        assert kind.__name__ in {*presentation._FORMATS, "Run", "Runs"}


def test_runs_survive_pickling(runs):
    assert pickle.loads(pickle.dumps(runs)) == runs
