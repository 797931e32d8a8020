"""`edgewise evaluate` through the fake engine: exit codes, one document, and what is said where."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgewise.cancellation import Cancelled
from edgewise.cli.main import run
from edgewise.device.agent import lock_file, try_lock
from edgewise.errors import ExitCode
from edgewise.run.run_builder import METERED, Sensors
from edgewise.store import open_store
from edgewise.store.exchange import import_runs
from edgewise.testing import write_fake_model
from messages import has, says
from patience import wait_until
from small_selections import NET, rows

COUNT, CLASSES = 60, 3
OUTPUTS = [{"name": "y", "shape": [1, CLASSES], "dtype": "float32"}]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    """A folder with a model whose answer is always the last class, and data of which nine in ten are that."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    write("net")
    np.savez("d.npz", x=rows(COUNT), y=[CLASSES - 1 if index % 10 else 0 for index in range(COUNT)])
    return tmp_path


def write(name: str, **script) -> str:
    path = Path(f"{name}.fake")
    write_fake_model(path, **{"graph": NET, "outputs": OUTPUTS, "latency_ns": [2_000_000], **script})
    return str(path)


def evaluate(*words: str, model: str = "net.fake", accuracy_only: bool = True) -> int:
    quick = ["--no-latency"] if accuracy_only else ["--sessions", "1"]
    usual = {"--data": "d.npz", "--task": "classification", "-r": "fake"}
    given = [word for option, value in usual.items() if option not in words for word in (option, value)]
    return run(["evaluate", model, *given, *quick, *words])


def test_the_document_has_every_metric_with_its_interval_and_nothing_else_is_on_stdout(capsys):
    assert evaluate("--json") == ExitCode.DONE
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    metrics = {row["id"]: row for row in document["metrics"]}
    top1 = metrics["accuracy_top1"]
    assert (top1["value"], top1["n"]) == (0.9, COUNT) and top1["low"] < 0.9 < top1["high"]
    assert document["confusion"]["counts"] == [[0, 0, 6], [0, 0, 0], [0, 0, 54]]
    assert document["run"]["evaluation"]["n"] == COUNT and document["run"]["status"] == "done"


def test_latency_and_accuracy_stand_in_one_row_of_the_store_and_of_the_table(capsys, place):
    assert evaluate(accuracy_only=False) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "2.00 ± 0.01 ms" in " ".join(out.split()) and "90.0" in out
    with open_store(str(place / "runs.db")) as store:
        (kept,) = store.resolve(["all"])
    assert kept.value("latency") == pytest.approx(2e-3) and kept.value("accuracy_top1") == 0.9


@pytest.mark.parametrize(("words", "why"), [((), "meters were switched off"), (("--meters",), "no meter is here")])
def test_sensors_are_asked_where_they_are_wanted(monkeypatch, place, words, why):
    absences = dict.fromkeys(METERED, "no meter is here")
    monkeypatch.setattr("edgewise.run.run_builder.find_sensors", lambda **_: Sensors(absences=absences))
    assert evaluate(*words, "-q", accuracy_only=False) == ExitCode.DONE
    with open_store(str(place / "runs.db")) as store:
        (kept,) = store.resolve(["all"])
    rows = {row.metric: row.absent_because for row in kept.measurements}
    assert [rows[metric] for metric in METERED] == [why] * len(METERED)


@pytest.mark.parametrize("columns", ["80", "120"])
def test_tables_fit_the_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert evaluate() == ExitCode.DONE
    assert max(map(len, capsys.readouterr().out.splitlines())) <= int(columns)


@pytest.fixture
def busy(place, monkeypatch):
    """Another process measures on this machine for ever: whoever waits for it is told of it and then cancelled."""
    monkeypatch.setenv("EDGEWISE_LOCKS", str(place))
    monkeypatch.setattr("edgewise.device.lease.sleep", lambda seconds: (_ for _ in ()).throw(Cancelled))
    held = try_lock(lock_file(), "somebody")
    yield
    os.close(held)


def test_nobody_waits_where_nothing_is_timed(capsys, busy):
    assert evaluate("--json") == ExitCode.DONE
    assert "waiting for" not in capsys.readouterr().err
    assert evaluate(accuracy_only=False) == ExitCode.INTERRUPTED
    assert "waiting for local: in use by somebody" in capsys.readouterr().err


def test_data_that_does_not_fit_is_told_before_any_wait(capsys, busy):
    np.savez("wide.npz", x=np.zeros((8, 7), np.float32), y=[0] * 8)
    assert evaluate("--data", "wide.npz", accuracy_only=False) == ExitCode.BAD_INPUT
    told = capsys.readouterr().err
    assert "has shape [7]" in told and "waiting for" not in told


def test_quiet_says_nothing_but_the_result(capsys):
    assert evaluate("-q", "--json") == ExitCode.DONE
    captured = capsys.readouterr()
    assert captured.err == "" and json.loads(captured.out)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--data", "none.npz"], ExitCode.BAD_INPUT, "none.npz"),
        (["--task", "clasification"], ExitCode.UNAVAILABLE, "classification"),
        (["--task", "detection"], ExitCode.BAD_INPUT, says("does-not-support-samples", kind="array")),
        (["--split", "holdout"], ExitCode.UNAVAILABLE, "holdout"),
        (["--limit", "0"], ExitCode.BAD_INPUT, says("limit-must-least-1-not")),
        (["--task-option", "offset"], ExitCode.BAD_INPUT, "NAME=VALUE"),
        (["--task-option", "a=1", "--task-option", "a=2"], ExitCode.BAD_INPUT, says("given-twice-in-words")),
        (["--task-option", "colour=red"], ExitCode.BAD_INPUT, "colour"),
        (["--data-option", "colour=red"], ExitCode.BAD_INPUT, "colour"),
        (["--data-format", "parquet"], ExitCode.UNAVAILABLE, "parquet"),
        (["--classes", "none.txt"], ExitCode.BAD_INPUT, "none.txt"),
        (["--prepare", "polish=2"], ExitCode.BAD_INPUT, "polish"),
        (["--instructions", "none.yaml"], ExitCode.BAD_INPUT, "none.yaml"),
        (["--metric", "nowhere:nothing"], ExitCode.BAD_INPUT, "nowhere"),
        (["--reference", "none.fake"], ExitCode.BAD_INPUT, "none.fake"),
        (["-o", "report.pdf"], ExitCode.BAD_INPUT, "report.pdf"),
        (["-r", "no-engine"], ExitCode.UNAVAILABLE, "no-engine"),
        (["--meters"], ExitCode.BAD_INPUT, says("meters-needs-latency-which-not", named_meters=has("--meters"))),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_words_that_make_no_sense_are_one_error_with_advice(capsys, words, code, said):
    assert evaluate(*words) == code
    err = capsys.readouterr().err
    assert re.search(said, err.replace("\n", " ")) and "error:" in err and "Traceback" not in err and "try:" in err


def test_data_that_is_not_given_is_asked_for_with_its_forms(capsys):
    assert run(["evaluate", "net.fake", "--task", "classification"]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.startswith(
        "error: Missing option '--data'.\ntry: --data takes: Class folders, .npz, CSV, COCO, IDX, WAV, .txt … or "
        "MODULE:FUNCTION; see '"
    )


def test_a_worker_that_dies_is_exit_code_4_with_the_others_judged(capsys):
    write("bad", behaviour={"at": "invoke", "after": 20, "do": "segfault"})
    words = ["evaluate", "bad.fake", "net.fake", "--data", "d.npz", "--task", "classification", "-r", "fake"]
    assert run([*words, "--no-latency", "--json"]) == ExitCode.RUN_FAILED
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert "SIGSEGV" in captured.err and "bad.fake" in captured.err
    statuses = [row["status"] for row in document["runs"]] if "runs" in document else [document["run"]["status"]]
    assert "failed" in statuses


def test_a_corrupt_sample_is_named_and_counted_and_strict_fails(capsys):
    data = rows(COUNT)
    data[17] = np.nan
    np.savez("d.npz", x=data, y=[0] * COUNT)
    assert evaluate("--json") == ExitCode.DONE
    captured = capsys.readouterr()
    evaluation = json.loads(captured.out)["run"]["evaluation"]
    assert evaluation["skipped_count"] == 1 and "17" in evaluation["skipped"][0]["name"]
    assert "1 skipped" in captured.err
    assert evaluate("--strict") == ExitCode.BAD_INPUT
    assert "17" in capsys.readouterr().err


def test_what_is_there_is_not_overwritten_unless_it_may_be(capsys, place):
    (place / "r.json").write_text("mine")
    assert evaluate("-o", "r.json") == ExitCode.BAD_INPUT
    assert (place / "r.json").read_text() == "mine"
    assert evaluate("-o", "r.json", "--force", "-o", "r.md", "-o", "r.csv", "-o", "r.html") == ExitCode.DONE
    assert json.loads((place / "r.json").read_text())["metrics"]
    assert all((place / f"r.{suffix}").stat().st_size > 0 for suffix in ("md", "csv", "html"))


def test_a_metric_of_one_s_own(capsys, place):
    (place / "own.py").write_text(
        "def firsts(outputs, labels):\n    return sum(label == 0 for label in labels) / len(outputs)\n"
    )
    assert evaluate("--metric", "own.py:firsts", "--json") == ExitCode.DONE
    values = {row["id"]: row["value"] for row in json.loads(capsys.readouterr().out)["metrics"]}
    assert (values["score:firsts"], values["accuracy_top1"]) == (0.1, 0.9)


def test_a_store_that_can_t_be_written_is_told_and_the_result_shown(capsys, place):
    (place / "file").write_text("no database")
    code = evaluate("--json", "--store", str(place / "file"))
    captured = capsys.readouterr()
    assert code == ExitCode.UNAVAILABLE and "Traceback" not in captured.err
    (recovery,) = place.glob("edgewise-recovery-*.json")
    assert [run.value("accuracy_top1") for run in import_runs(recovery)] == [0.9]


SLOW = """
import time
from pathlib import Path

import numpy as np


class Slow:
    def __len__(self):
        return 60

    def __getitem__(self, index):
        time.sleep(0.05)
        if index == 30:
            Path("reached").touch()
        return np.full(4, index, np.float32), 2


def make():
    return Slow()
"""


@pytest.mark.slow
@pytest.mark.long
def test_ctrl_c_keeps_what_was_judged_and_the_same_command_goes_on(place):
    (place / "slow.py").write_text(SLOW)
    command = [
        sys.executable, "-m", "edgewise", "evaluate", "net.fake", "--data", "slow.py:make", "--task", "classification",
        "-r", "fake", "--no-latency", "--json",
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ), start_new_session=True
    ) as process:
        wait_until((place / "reached").exists, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600.0)
    assert process.returncode == ExitCode.INTERRUPTED, err
    assert "interrupted" in err and "Traceback" not in err
    json.loads(out)
    again = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=600.0, check=False)
    assert again.returncode == ExitCode.DONE, again.stderr
    document = json.loads(again.stdout)
    assert document["run"]["evaluation"]["n"] == 60 and "answered before)" in again.stderr
