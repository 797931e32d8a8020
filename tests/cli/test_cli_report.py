"""``edgewise report`` from the command line to the file."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.store import open_store
from edgewise.store.exchange import export_runs
from messages import is_in, says, wording
from sample_runs import all_runs, make_run, run_id, same_model_runs


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A store with the sample runs; its path."""
    path = tmp_path / "runs.db"
    monkeypatch.setenv("EDGEWISE_STORE", str(path))
    with open_store(str(path)) as store:
        for one in all_runs():
            store.save(one)
    return path


def test_markdown_goes_to_a_pipe(stored, capsys):
    assert run(["report", run_id(1), run_id(2)]) == ExitCode.DONE
    text = capsys.readouterr().out
    assert text.startswith("# kws.onnx on Example CPU @ 2.00 GHz\n")
    assert "| kws.onnx | openvino/cpu | 231 ± 4 |" in text


def test_one_run_has_no_recommendation_and_leads_to_the_others_of_its_command(stored, tmp_path, capsys):
    runs = [replace(make_run(60 + at, runtime=name), group="01a2-group") for at, name in enumerate(("litert", "torch"))]
    with open_store(str(stored)) as store:
        for one in runs:
            store.save(one)
    hint = "'edgewise report group:01a2-group' compares the 2 runs of that command"
    page = tmp_path / "page.html"
    assert run(["report", runs[0].id, "-o", str(page)]) == run(["report", runs[0].id]) == ExitCode.DONE
    text = capsys.readouterr().out
    assert hint in text and "compares the 2 runs of that command" in page.read_text()
    assert "Recommended" not in text and "Recommended" not in page.read_text()
    with open_store(str(stored)) as store:
        store.save(replace(make_run(70), group="alone"))
    assert run(["report", "group:01a2-group"]) == run(["report", run_id(70)]) == ExitCode.DONE
    text = capsys.readouterr().out
    assert "## Recommended: " in text and "of that command" not in text


def test_the_table_alone_is_what_a_readme_takes_with_the_machine_below(stored, tmp_path, capsys):
    assert run(["report", run_id(1), run_id(4), "--only-table"]) == ExitCode.DONE
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert [line[:2] for line in lines] == ["| ", "| ", "| ", "| ", "", "Te", "", "[^"]
    assert "Unsupported[^1]" in lines[3]
    assert lines[5].startswith("Test environment: ") and "litert 1.2.3 and onnxruntime 1.2.3" in lines[5]
    file = tmp_path / "table.md"
    assert run(["report", run_id(1), run_id(4), "--only-table", "-o", str(file)]) == ExitCode.DONE
    assert file.read_text() == text


def test_only_markdown_has_the_table_alone(stored, tmp_path, capsys):
    assert run(["report", run_id(1), "--only-table", "-o", str(tmp_path / "t.html")]) == ExitCode.BAD_INPUT
    assert wording("only-table-markdown") in capsys.readouterr().err
    assert run(["report", run_id(1), "--only-table", "-o", str(tmp_path / "alone.csv")]) == ExitCode.DONE
    both = ("t.md", "t.csv")
    assert run(["report", run_id(1), "--only-table", *(f"-o{tmp_path / name}" for name in both)]) == ExitCode.DONE
    assert [(tmp_path / name).exists() for name in both] == [True, True]


@pytest.mark.parametrize("extension", ["md", "html", "csv", "json"])
def test_every_format_is_written(stored, tmp_path, capsys, extension):
    path = tmp_path / f"out.{extension}"
    assert run(["report", run_id(1), run_id(4), "-o", str(path), "--store", str(stored)]) == ExitCode.DONE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "out." in captured.err
    assert "kws.onnx" in path.read_text()


def test_files_are_read_too_and_each_run_comes_once(stored, tmp_path):
    bundle = tmp_path / "bundle.json"
    export_runs(same_model_runs(), bundle)
    path = tmp_path / "out.json"
    assert run(["report", run_id(5), str(bundle), run_id(1), "-o", str(path)]) == ExitCode.DONE
    assert [one["id"] for one in json.loads(path.read_text())["runs"]] == [run_id(number) for number in (5, 1, 2, 3, 4)]


def test_a_file_needs_no_store(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "absent.db"))
    bundle = tmp_path / "bundle.json"
    export_runs(same_model_runs(), bundle)
    assert run(["report", str(bundle), "--table", "zoo", "--task", "Keywords", "--title", "My zoo"]) == ExitCode.DONE
    text = capsys.readouterr().out
    assert text.startswith("# My zoo\n")
    assert "| kws.onnx | Keywords | n/a[^1] | 0.420 ± 0.011 |" in text
    assert not (tmp_path / "absent.db").exists()


@pytest.mark.parametrize("width", [80, 120])
def test_a_person_gets_the_terminal_table(stored, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run(["report", *(run_id(number) for number in range(1, 5))]) == ExitCode.DONE
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("Recommended: openvino/cpu, latency 231 ± 4 µs, grade B")


@pytest.mark.parametrize(
    ("arguments", "message", "advice"),
    [
        (["-o", "x.pdf"], "reports can't be written as .pdf", ".md, .html, .csv, .json"),
        (["--table", "fancy"], "there is no table 'fancy'", "bench, zoo, networks, long, watch, platform"),
        (["nowhere.json"], "'nowhere.json' is not a readable file", says("check-path-in-subjects")),
    ],
)
def test_bad_input_is_one_line_and_advice(stored, capsys, arguments, message, advice):
    assert run(["report", run_id(1), *arguments]) == ExitCode.BAD_INPUT
    error = capsys.readouterr().err
    assert message in error
    assert is_in(advice, error)
    assert "Traceback" not in error


def test_files_are_not_overwritten_without_force(stored, tmp_path, capsys):
    path = tmp_path / "out.md"
    path.write_text("mine")
    assert run(["report", run_id(1), "-o", str(path)]) == ExitCode.BAD_INPUT
    assert path.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert run(["report", run_id(1), "-o", str(path), "--force"]) == ExitCode.DONE
    assert path.read_text().startswith("# kws.onnx")


def test_a_report_without_a_run_is_of_the_newest(stored, capsys):
    assert run(["report"]) == run(["report", "last"]) == ExitCode.DONE
    text = capsys.readouterr().out
    assert text and text[: len(text) // 2] == text[len(text) // 2 :]


def test_unknown_runs_and_files_without_runs_are_refused(stored, tmp_path, capsys):
    assert run(["report", "no-such-run"]) == ExitCode.BAD_INPUT
    empty = tmp_path / "empty.json"
    empty.write_text('{"schema": 1, "runs": []}')
    capsys.readouterr()
    assert run(["report", str(empty)]) == ExitCode.BAD_INPUT
    assert "error:" in capsys.readouterr().err


def test_a_badge_has_the_value_its_interval_and_the_grade(stored, tmp_path, capsys):
    assert run(["report", run_id(1), "--badge", "latency"]) == ExitCode.DONE
    (title,) = re.findall(r"<title>(.*?)</title>", drawn := capsys.readouterr().out)
    assert title == f"Latency of kws.onnx on onnxruntime 1.2.3: 420 ± 11 µs · grade B; run {run_id(1)}"
    root = ElementTree.fromstring(drawn)
    assert [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")] == ["Latency", "420 ± 11 µs · grade B"]
    files = [tmp_path / name for name in ("a.svg", "a.json")]
    assert run(["report", run_id(1), "--badge", "latency", *(f"-o{file}" for file in files)]) == ExitCode.DONE
    assert files[0].read_text() == drawn
    assert json.loads(files[1].read_text()) == {
        "schemaVersion": 1, "label": "Latency", "message": "420 ± 11 µs · grade B", "color": "#1a7f37",
    }  # fmt: skip


def test_a_badge_says_that_a_run_has_the_lowest_grade_and_what_was_not_measured():
    from edgewise.report.runs.badge import render_badge

    one = make_run(1, runtime="fake", latency=3.3e-4, half=9e-6, memory=30e6, startup=0.05, grade="D")
    assert "· grade D<" in render_badge(one, "latency", ".svg")
    rows = [replace(row, basis="estimated", method="a model") for row in one.measurements]
    assert "· estimated · grade D<" in render_badge(replace(one, measurements=tuple(rows)), "latency", ".svg")
    counted = replace(one.measurement("latency"), metric="model_size", value=5e3, unit="B", low=None, high=None)
    assert (
        json.loads(render_badge(replace(one, measurements=(counted,)), "model_size", ".json"))["message"] == "4.88 KiB"
    )


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([run_id(1), "--badge", "latancy"], says("run-no", metric="latancy")),
        ([run_id(1), run_id(2), "--badge", "latency"], says("badge-holds-one-run-these")),
        ([run_id(1), "--badge", "latency", "-o", "a.png"], says("badge-cant-written")),
        ([run_id(1), "--badge", "latency", "--table", "zoo"], says("badge-no-table")),
    ],
)
def test_what_no_badge_can_show_is_refused(stored, capsys, words, error):
    assert run(["report", *words]) == ExitCode.BAD_INPUT
    assert is_in(error, " ".join(capsys.readouterr().err.split()))
