"""`edgewise optimize` through the fake engine: exit codes, one document, what is said where, and what is written."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml

import fake_passes as scripted
from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.testing import write_fake_model
from messages import has, says, wording
from small_selections import NET, rows

COUNT, CLASSES = 60, 3
OUTPUTS = [{"name": "y", "shape": [1, CLASSES], "dtype": "float32"}]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setattr("edgewise.run.interleaving.TURNS", 20)
    scripted.install(monkeypatch, tmp_path, scripted.Faster, scripted.Slower, scripted.Failing)
    write_fake_model("net.fake", graph=NET, outputs=OUTPUTS, latency_ns=[4_000_000])
    labels = [CLASSES - 1 if index % 10 else 0 for index in range(COUNT)]
    np.savez("d.npz", x_test=rows(COUNT), y_test=labels, x_train=rows(20), y_train=[0] * 20)
    return tmp_path


def optimize(*words: str, passes: str = "failing", data: bool = True) -> int:
    usual = {"--data": "d.npz", "--task": "classification"} if data else {}
    usual |= {"-r": "fake", "--passes": passes, "-o": "out"}
    given = [word for option, value in usual.items() if option not in words for word in (option, value)]
    return run(["optimize", "net.fake", *given, *words])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--max-accuracy-drop", "1"], ExitCode.BAD_INPUT, "1pt"),
        (["--max-accuracy-drop", "much"], ExitCode.BAD_INPUT, says("max-accuracy-drop-not-valid")),
        (["--min-accuracy", "95"], ExitCode.BAD_INPUT, says("share-between-0-1-such")),
        (["--max-latency", "0ms"], ExitCode.BAD_INPUT, "--max-latency"),
        (["--max-latency", "soon"], ExitCode.BAD_INPUT, "soon"),
        (["--max-size", "-1MB"], ExitCode.BAD_INPUT, "-1MB"),
        (["--aim", "beauty"], ExitCode.BAD_INPUT, "beauty"),
        (["--time-budget", "0s"], ExitCode.BAD_INPUT, "--time-budget"),
        (["--calibration-limit", "0"], ExitCode.BAD_INPUT, "--calibration-limit"),
        (["--calibrate-on", "holdout"], ExitCode.UNAVAILABLE, "holdout"),
        (["--passes", "ort-statik"], ExitCode.UNAVAILABLE, "ort-statik"),
        (["--passes", "faster:very"], ExitCode.BAD_INPUT, says("no-recipe-model", name=has("faster"), unknown="very")),
        (["--keep-float", "mixx"], ExitCode.BAD_INPUT, says("no-layer-called", name=has("'mixx'"))),
        (["--data", "none.npz"], ExitCode.BAD_INPUT, "none.npz"),
        (["--task", "clasification"], ExitCode.UNAVAILABLE, "clasification"),
        (["-r", "no-engine"], ExitCode.UNAVAILABLE, "no-engine"),
        (["--report", "r.pdf"], ExitCode.BAD_INPUT, "r.pdf"),
        (["-o", "net.fake"], ExitCode.BAD_INPUT, "net.fake"),
        (["-o", "fast.onnx"], ExitCode.BAD_INPUT, r"--output fast\.onnx would be the name of a folder.*--output fast;"),
        (["-o", "r.html"], ExitCode.BAD_INPUT, says("report-writes-report-o-takes", folder="r.html")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_words_that_make_no_sense_are_one_error_with_advice(capsys, words, code, said):
    assert optimize(*words) == code
    err = " ".join(capsys.readouterr().err.split())
    assert re.search(said, err) and "error:" in err and "Traceback" not in err and "try:" in err


def test_an_engine_that_does_not_read_the_model_is_unavailable(capsys):
    words = ["optimize", "net.fake", "--passes", "failing", "-r", "onnxruntime", "-o", "out"]
    assert run(words) == ExitCode.UNAVAILABLE
    assert "no selected engine reads fake" in capsys.readouterr().err


def test_where_nothing_wins_it_says_so_and_that_is_no_error(capsys):
    assert optimize("--json") == ExitCode.DONE
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["chosen"] is None and document["unmet"] is None and document["command"] is None
    (variant,) = document["variants"]
    assert not variant["accepted"] and variant["why"].startswith("the pass failed: OddError: first")
    assert "\x1b" not in captured.err and "OddError" in captured.err


def test_tables_fit_the_terminal_and_say_why(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert optimize() == ExitCode.DONE
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80 and "failing" in out and "OddError" in out


def test_a_bound_that_nothing_meets_is_exit_code_4_with_the_closest(capsys):
    assert optimize("--max-size", "10B", "--json") == ExitCode.RUN_FAILED
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["closest"] == "original" and "over --max-size 10 B" in document["unmet"]
    assert (
        re.search(says("nothing-meets-bounds"), captured.err)
        and wording("closest-closest", closest="original") in captured.err
    )


def test_an_original_that_does_not_run_is_exit_code_4(capsys):
    write_fake_model("net.fake", graph=NET, outputs=OUTPUTS, behaviour={"at": "load", "do": "abort"})
    assert optimize() == ExitCode.RUN_FAILED
    assert re.search(says("original-does-not-run", name="fake"), capsys.readouterr().err)


def test_quiet_says_nothing_but_the_result(capsys):
    assert optimize("-q", "--json", "--no-store") == ExitCode.DONE
    captured = capsys.readouterr()
    assert captured.err == "" and json.loads(captured.out)


@pytest.mark.slow
def test_what_is_chosen_is_written_with_its_reports_and_can_be_made_again(capsys, place, monkeypatch):
    reports = [word for suffix in ("json", "md", "html", "csv") for word in ("--report", f"r.{suffix}")]
    names = [f"class {number}" for number in range(CLASSES)]
    Path("names.txt").write_text("\n".join(names))
    assert optimize("--json", *reports, "--classes", "names.txt", passes="faster,slower") == ExitCode.DONE
    document = json.loads(capsys.readouterr().out)
    assert document["chosen"] == "faster @ fake" and {row["id"]: row["accepted"] for row in document["variants"]} == {
        "faster @ fake": True,
        "slower @ fake": False,
    }
    assert json.loads((place / "r.json").read_text())["chosen"] == "faster @ fake"
    assert all((place / f"r.{suffix}").stat().st_size > 0 for suffix in ("md", "html", "csv"))
    chosen = Path(document["files"]["chosen"])
    made = chosen.read_bytes()
    # `evaluate` needs no flags for the file: what was given lies beside it.
    assert yaml.safe_load(Path(document["files"]["instructions"]).read_text())["classes"] == names

    words = shlex.split(document["command"])
    assert words[0] == "edgewise"
    assert run([*words[1:], "-o", "again", "--json"]) == ExitCode.DONE
    again = json.loads(capsys.readouterr().out)
    assert again["chosen"] == "faster @ fake" and Path(again["files"]["chosen"]).read_bytes() == made


@pytest.mark.slow
def test_without_data_only_outputs_are_compared(capsys):
    assert optimize("--json", data=False, passes="faster") == ExitCode.DONE
    document = json.loads(capsys.readouterr().out)
    assert document["chosen"] == "faster @ fake" and document["data"] is None and document["task"] is None


def test_a_report_that_is_there_is_not_overwritten_before_anything_is_done(capsys, place):
    (place / "r.md").write_text("mine")
    assert optimize("--report", "r.md") == ExitCode.BAD_INPUT
    assert (place / "r.md").read_text() == "mine" and not (place / "out").exists()
