"""Cold starts, duty cycles and background load in worker processes, from the command line to the record."""

from __future__ import annotations

import json
import os

import pytest

import edgewise
import warm_start
from edgewise.cli.main import run as run_command
from edgewise.errors import BadInput
from edgewise.testing import write_fake_model
from far_targets import far_device, far_python  # noqa: F401

MS = 1_000_000


@pytest.fixture(autouse=True)
def private_store(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", f"sqlite:///{tmp_path}/store.db")


def model(folder, **script):
    return write_fake_model(folder / "m.fake", **{"latency_ns": [10 * MS], **script})


def test_every_cold_start_is_a_process_with_one_inference(tmp_path):
    slow_first = model(tmp_path, warmup_ns=[50 * MS], latency_ns=[10 * MS])
    (run,) = edgewise.bench(slow_first, scenario="cold-start", meters=False)
    assert (run.status, run.headline, len(run.sessions)) == ("done", "startup_time", 10)
    assert len({session.pid for session in run.sessions}) == 10
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


def test_a_background_load_is_measured_and_ends_with_the_run(tmp_path, capsys):
    scripted = str(model(tmp_path))
    command = ["bench", scripted, "--background-load", "2", "--background-kind", "memory", "--json", "-q"]
    assert run_command([*command, "--no-meters", "--sessions", "1"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["runs"]
    scenario = record["job"]["workload"]["scenario"]
    assert (scenario["background_load"], scenario["background_kind"]) == (2, "memory")
    rows = {row["metric"]: row for row in record["measurements"]}
    assert rows["background_cpu"]["unit"] == "1" and "2 processes (memory)" in rows["background_cpu"]["method"]
    assert warm_start.children() == []


def test_a_background_load_ends_with_a_killed_worker(tmp_path):
    dying = model(tmp_path, behaviour={"at": "invoke", "do": "segfault", "after": 10})
    (run,) = edgewise.bench(dying, background_load=2, meters=False)
    assert run.failure.signal == "SIGSEGV"
    for child in warm_start.children():
        child.wait(60)  # the kernel kills them, after the worker
    assert warm_start.children() == []


@pytest.mark.long
def test_a_far_device_has_the_load_and_the_cold_start(tmp_path, far_device):  # noqa: F811
    far_device(latency_s=0.01)
    (run,) = edgewise.bench(model(tmp_path), background_load=1, device="far", sessions=1, meters=False)
    assert run.status == "done" and run.measurement("background_cpu") is not None
    settings = {"scenario": "cold-start", "drop_cache": True, "sessions": 2, "meters": False}
    (run,) = edgewise.bench(model(tmp_path), device="far", **settings)
    assert run.status == "done" and "file_cache" in run.sessions[0].facts


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
