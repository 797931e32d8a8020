"""Processes that take turns, and every way they and their host can end: nothing is left running, what counts is kept."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import edgewise
import warm_start
from edgewise.comparing.comparison import ComparisonResult
from edgewise.testing import write_fake_model
from patience import wait_until

MS = 1_000_000


@pytest.fixture(autouse=True)
def few_turns(monkeypatch):
    """What is tested here happens in some turns as well as in a hundred: `in_a_turn` within the first ten."""
    monkeypatch.setattr("edgewise.run.interleaving.TURNS", 20)


def model(folder: Path, name: str, **script) -> Path:
    return write_fake_model(folder / name, **{"latency_ns": [MS], **script})


def behaving(at: str, do: str, *, after: int = 0, touch: Path | None = None) -> dict[str, object]:
    return {"behaviour": {"at": at, "do": do, "after": after, **({"touch": str(touch)} if touch else {})}}


def in_a_turn(do: str, **settings) -> dict[str, object]:
    """Misbehaves after the warm-up, which has some 100 inferences of 1 ms and more."""
    return behaving("invoke", do, after=150, **settings)


def compare(*paths: Path, **settings) -> ComparisonResult:
    return edgewise.compare(list(paths), **{"rounds": 1, "timeout": 120.0, "time_budget": 600.0, **settings})


def workers() -> list[psutil.Process]:
    return warm_start.children()


# --- workers that end badly ---


def test_of_a_worker_that_crashes_in_a_turn_and_the_other_none_is_left(tmp_path):
    """Each way to end, in a turn: tests/unit/test_turns_ends.py."""
    findings = compare(model(tmp_path, "a.fake"), model(tmp_path, "b.fake", **in_a_turn("segfault")))
    a, b = (variant.run for variant in findings.variants)
    assert (a.status, b.status) == ("cancelled", "failed")
    assert b.failure.signal == "SIGSEGV"
    assert workers() == []


def test_every_round_has_fresh_processes(tmp_path):
    findings = compare(model(tmp_path, "a.fake"), model(tmp_path, "b.fake"), rounds=2)
    assert len({session.pid for variant in findings.variants for session in variant.run.sessions}) == 4
    assert workers() == []


def test_a_worker_that_is_killed_from_outside_in_its_turn(tmp_path):
    reached = tmp_path / "reached"
    paths = [model(tmp_path, "a.fake"), model(tmp_path, "b.fake", **in_a_turn("hang", touch=reached))]
    with comparing(tmp_path, *paths) as process:
        wait_until(reached.exists, process)
        children = psutil.Process(process.pid).children()
        # A worker's folder is called by the place of its job.
        (victim,) = [child for child in children if Path(child.cwd()).name == "1"]
        victim.send_signal(signal.SIGKILL)
        out, err = process.communicate(timeout=600)
        _, alive = psutil.wait_procs(children, timeout=600)
    assert process.returncode == 4 and not alive
    document = json.loads(out)
    assert document["failures"]["b.fake"] == "the worker was killed in phase 'steady'"
    assert document["failures"]["a.fake"]  # not measured, and so it says
    assert "Killed" in err and "Traceback" not in err


# --- the host's own ends ---


@contextlib.contextmanager
def comparing(folder: Path, *paths: Path):
    """`edgewise compare` as a process of its own, reaped whatever happens."""
    command = [
        sys.executable, "-m", "edgewise", "compare", *map(str, paths), "--json", "--metrics", "latency", "--time-budget", "600s",
        "--store", f"sqlite:///{folder}/store.db",
    ]  # fmt: skip
    pipe = subprocess.PIPE
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def rounds_stored(folder: Path) -> dict[str, tuple[str, int]]:
    """Model → status and sessions of what is in the store; empty while there is none."""
    if not (folder / "store.db").exists():
        return {}
    with contextlib.suppress(edgewise.errors.StoreError), edgewise.open_store(f"sqlite:///{folder}/store.db") as store:
        runs = store.resolve(["all"]) if store.list() else []
        return {run.job.model.name: (run.status, len(run.sessions)) for run in runs}
    return {}


def sabotaged(folder: Path) -> tuple[list[Path], Path, Callable[[], bool]]:
    """Two models; once both are stored after their first round, B is made to hang in a turn of a later one."""
    reached = folder / "reached"
    paths = [model(folder, "a.fake"), model(folder, "b.fake", latency_ns=[2 * MS])]

    def condition() -> bool:
        if len(rounds_stored(folder)) == 2 and not (folder / "sabotage").exists():
            (folder / "sabotage").touch()
            fresh = model(folder, "new", **in_a_turn("hang", touch=reached))
            fresh.replace(paths[1])
        return reached.exists()

    return paths, reached, condition


def test_ctrl_c_keeps_the_complete_rounds_and_prints_what_they_say(tmp_path):
    paths, _, hangs = sabotaged(tmp_path)
    with comparing(tmp_path, *paths) as process:
        wait_until(hangs, process)
        children = psutil.Process(process.pid).children()
        assert len(children) == 2
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
        _, alive = psutil.wait_procs(children, timeout=600)
    assert process.returncode == 130 and not alive, err
    assert "interrupted" in err and "Traceback" not in err
    document = json.loads(out)
    (latency,) = document["comparisons"]
    assert latency["ratio"] == pytest.approx(2.0)
    assert document["stopped_because"] == "interrupted"
    found = rounds_stored(tmp_path)
    count = latency["before"]["replicates"]
    assert count >= 1 and found == {"a.fake": ("cancelled", count), "b.fake": ("cancelled", count)}


def test_a_killed_host_leaves_no_worker_and_what_it_looked_at(tmp_path):
    paths, _, hangs = sabotaged(tmp_path)
    with comparing(tmp_path, *paths) as process:
        wait_until(hangs, process)
        children = psutil.Process(process.pid).children()
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(children, timeout=600)
    assert len(children) == 2 and not alive
    found = rounds_stored(tmp_path)
    assert set(found) == {"a.fake", "b.fake"} and len(set(found.values())) == 1
    assert found["a.fake"][0] == "done" and found["a.fake"][1] >= 1
