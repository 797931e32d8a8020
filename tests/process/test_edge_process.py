"""Cold starts and background load as real processes; what is made of them: tests/unit/test_edge_runs.py."""

from __future__ import annotations

import json

import pytest

import edgewise
import warm_start
from edgewise.cli.main import run as run_command
from edgewise.testing import write_fake_model
from far_targets import far_device, far_python  # noqa: F401

MS = 1_000_000


@pytest.fixture(autouse=True)
def private_store(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", f"sqlite:///{tmp_path}/store.db")


def model(folder, **script):
    return write_fake_model(folder / "m.fake", **{"latency_ns": [10 * MS], **script})


def test_every_cold_start_is_a_process(tmp_path):
    (run,) = edgewise.bench(model(tmp_path), scenario="cold-start", meters=False)
    assert (run.status, len({session.pid for session in run.sessions})) == ("done", 10)


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
        child.wait(600)  # the kernel kills them, after the worker
    assert warm_start.children() == []


def test_a_far_device_has_the_load_and_the_cold_start(tmp_path, far_device):  # noqa: F811
    far_device(latency_s=0.01)
    (run,) = edgewise.bench(model(tmp_path), background_load=1, device="far", sessions=1, meters=False)
    assert run.status == "done" and run.measurement("background_cpu") is not None
    settings = {"scenario": "cold-start", "drop_cache": True, "sessions": 2, "meters": False}
    (run,) = edgewise.bench(model(tmp_path), device="far", **settings)
    assert run.status == "done" and "file_cache" in run.sessions[0].facts
