"""What a bench did not measure stands in the first lines of everything that it puts out, with the way on."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from edgewise.cli.main import run
from edgewise.errors import Unavailable
from edgewise.run.dispatch import Dispatcher
from edgewise.testing import write_fake_model
from edgewise.verbs import measuring

FAST = ("--iterations", "20", "--warmup", "2", "--sessions", "1", "-q")
FILES = ("-o", "r.md", "-o", "r.html", "-o", "r.json")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", f"sqlite:///{tmp_path}/store.db")
    monkeypatch.chdir(tmp_path)
    for index, name in enumerate(("a.fake", "b.fake", "c.fake"), 1):
        write_fake_model(tmp_path / name, latency_ns=[index * 1_000_000])


@pytest.fixture
def stop_at(monkeypatch):
    """Interrupts the job of this number; it leaves what it measured where `cut` is true, else nothing."""

    def stop(number, *, cut=False):
        begun, measured = [], Dispatcher._run_settled

        def interrupted(self, job):
            begun.append(job)
            if len(begun) < number:
                return measured(self, job)
            if cut:
                return replace(measured(self, job), status="cancelled")
            raise KeyboardInterrupt

        monkeypatch.setattr(Dispatcher, "_run_settled", interrupted)

    return stop


def assert_all_begin_with(line, text, folder):
    assert " ".join(text.split()).startswith(line)
    assert line in (folder / "r.md").read_text().partition("\n## ")[0]
    page = (folder / "r.html").read_text()
    assert 0 < page.find(line) < page.find("<table")
    assert json.loads((folder / "r.json").read_text())["not_measured"] == [line]


def test_an_interrupted_bench_names_what_is_missing_and_the_command_for_it(stop_at, tmp_path, capsys):
    stop_at(2)
    assert run(["bench", "a.fake", "b.fake", "c.fake", "--threads", "1,2", *FAST, *FILES]) == 130
    shown = capsys.readouterr()
    line = "interrupted: 5 of 6 jobs were not measured: a.fake (1), b.fake (2) and c.fake (2)"
    assert_all_begin_with(line, shown.out, tmp_path)
    assert "the rest: edgewise bench a.fake b.fake c.fake" in shown.err


def test_the_command_for_the_rest_leaves_out_models_that_are_done(stop_at, capsys):
    stop_at(2)
    run(["bench", "a.fake", "b.fake", "c.fake", *FAST, "--json"])
    shown = capsys.readouterr()
    assert json.loads(shown.out)["not_measured"] == [
        "interrupted: 2 of 3 jobs were not measured: b.fake (1) and c.fake (1)"
    ]
    command = shown.err.partition("the rest: edgewise ")[2].splitlines()[0]
    assert [word for word in shlex.split(command) if word.endswith(".fake")] == ["b.fake", "c.fake"]
    assert run([*shlex.split(command), "--dry-run"]) == 0


def test_a_job_that_was_cut_short_is_named_and_progress_calls_it_cancelled(stop_at, capsys):
    stop_at(2, cut=True)
    assert run(["bench", "a.fake", "b.fake", *(word for word in FAST if word != "-q")]) == 130
    shown = capsys.readouterr()
    assert shown.out.startswith("interrupted: cut short: b.fake · fake/cpu")
    assert "the rest: edgewise bench b.fake --" in shown.err
    (told,) = [line for line in shown.err.splitlines() if line.startswith("[2/2]")]
    assert told.endswith("cancelled") and "grade" not in told


def test_a_device_that_cannot_measure_is_named_with_the_reason(tmp_path, capsys, monkeypatch):
    known = measuring.find_target

    def measure(request, context, real=measuring.measure):
        if request.device == "closed":
            raise Unavailable("closed can't be used: connection refused", advice="start it")
        return real(request, context)

    monkeypatch.setattr(measuring, "find_target", lambda name: known("local" if name == "closed" else name))
    monkeypatch.setattr(measuring, "measure", measure)
    code = run(["bench", "a.fake", "-d", "local", "-d", "closed", *FAST, *FILES])
    line = "not measured on closed: closed can&#39;t be used: connection refused (start it)"
    page = (tmp_path / "r.html").read_text()
    assert code == 4 and line in page
    assert "not measured on closed" in capsys.readouterr().out.splitlines()[0]
    assert "not measured on closed" in (tmp_path / "r.md").read_text().partition("\n## ")[0]
    (told,) = json.loads((tmp_path / "r.json").read_text())["not_measured"]
    assert told == "not measured on closed: closed can't be used: connection refused (start it)"
