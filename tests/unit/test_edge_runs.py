"""Cold starts, duty cycles and background load in worker processes, from the command line to the record."""

from __future__ import annotations

import os

import pytest

import edgewise
from edgewise.cli.main import run as run_command
from edgewise.errors import BadInput
from edgewise.testing import write_fake_model

MS = 1_000_000


@pytest.fixture(autouse=True)
def private_store(tmp_path, threads, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", f"sqlite:///{tmp_path}/store.db")


def model(folder, **script):
    return write_fake_model(folder / "m.fake", **{"latency_ns": [10 * MS], **script})


def test_every_cold_start_is_a_worker_with_one_inference(tmp_path, threads):
    slow_first = model(tmp_path, warmup_ns=[50 * MS], latency_ns=[10 * MS])
    (run,) = edgewise.bench(slow_first, scenario="cold-start", meters=False)
    assert (run.status, run.headline, len(run.sessions)) == ("done", "startup_time", 10)
    assert len(threads.jobs) == 10
    assert run.measurement("latency_first").samples == (0.05,) * 10
    assert len(run.measurement("startup_time").samples) == 10
    assert run.value("startup_time") >= run.value("load_time")
    assert run.measurement("latency").absent_because == "in the scenario cold-start, each process runs one inference"
    assert run.value("throughput") is None and run.value("memory_peak") > 0
    assert "file cache warm" in run.measurement("load_time").method
    assert {session.stopped_because for session in run.sessions} == {"one inference per process"}


def test_files_are_dropped_from_the_cache_and_the_method_tells_what_stayed(tmp_path):
    (run,) = edgewise.bench(model(tmp_path), scenario="cold-start", drop_cache=True, sessions=2, meters=False)
    left = [session.facts["file_cache"]["cached_after"] for session in run.sessions]
    words = run.measurement("load_time").method
    assert "model files dropped from the file cache" in words
    if None not in left:
        assert f"{max(left):.0%} of them still there" in words
    assert run.job.workload.scenario.words == "cold-start, file cache dropped"


def test_the_table_of_cold_starts_is_about_the_start(tmp_path, capsys):
    command = ["bench", str(model(tmp_path)), "--scenario", "cold-start", "--sessions", "3", "-q", "--no-meters"]
    assert run_command(command) == 0
    shown = capsys.readouterr().out
    assert "m.fake, cold-start, batch 1" in shown and "Start-up" in shown and "(1/s)" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_duty_cycle_lowers_the_throughput_and_not_the_latency(tmp_path):
    settings = {"iterations": 20, "warmup": 1, "meters": False}
    (run,) = edgewise.bench(model(tmp_path), duty_cycle=0.25, **settings)
    assert run.value("latency") == 0.01
    assert run.value("throughput") == pytest.approx(25.0)
    assert "of which inferences took 25.0%" in run.measurement("throughput").method
    assert run.job.label.endswith("single-stream, duty cycle 25%")
    (alone,) = edgewise.bench(model(tmp_path), **settings)
    assert alone.value("throughput") == pytest.approx(100.0)


def test_a_sustained_duty_cycle_fills_its_time(tmp_path):
    (run,) = edgewise.bench(model(tmp_path), duty_cycle=0.5, sustained=240.0, meters=False)
    assert sum(run.sustained.series["inferences"]) == pytest.approx(12_000, rel=0.01)
    assert run.sustained.verdict == "same"


def test_runs_under_other_conditions_are_not_compared(tmp_path, capsys):
    scripted = str(model(tmp_path))
    for extra in ([], ["--duty-cycle", "20%"]):
        assert run_command(["bench", scripted, "--iterations", "10", "-q", "--no-meters", *extra]) == 0
    assert run_command(["compare", "last~1", "last"]) == 2
    assert "scenario: " in (said := capsys.readouterr().err) and "duty cycle 20%" in said


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"scenario": "cold-start", "iterations": 5}, "runs one inference per process; it excludes iterations"),
        ({"scenario": "cold-start", "sustained": 5.0}, "sustained applies only to"),
        ({"drop_cache": True}, "drop_cache applies only to the scenario cold-start"),
        ({"duty_cycle": 1.0}, "duty_cycle must be at least 0.001 and below 1, not 1"),
        ({"duty_cycle": 0.5, "scenario": "offline"}, "duty_cycle applies only to the scenario single-stream"),
        ({"background_load": 0}, "background_load must be 1 to"),
        ({"background_kind": "memory"}, "background_kind needs background_load"),
    ],
)
def test_conditions_without_a_meaning_are_refused(tmp_path, fields, words):
    with pytest.raises(BadInput, match=words):
        edgewise.bench(model(tmp_path), **fields)
    assert os.listdir(tmp_path) == ["m.fake"]
