"""Programs in real containers of Docker and Podman: limits, counters, how they end, and that nothing is left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from container_images import IMAGE, container_runtime, containers, eventually  # noqa: F401
from edgewise.cli.main import run
from edgewise.errors import ExitCode
from patience import LIMIT_S

pytestmark = pytest.mark.cold
MIB = 2**20
BURN = "i=0; while [ $i -lt {count} ]; do i=$((i+1)); done"


@pytest.fixture
def runtime(container_runtime, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    return container_runtime


def execute(capfd, runtime, *words, code=ExitCode.DONE):
    line = ["exec", "--no-store", "--quiet", "--json", "--mechanism", runtime, "--image", IMAGE]
    assert run([*line, *words]) == code
    (record,) = json.loads(capfd.readouterr().out)["runs"]
    return record


def value(record, metric):
    return next(row["value"] for row in record["measurements"] if row["metric"] == metric)


def test_limits_hold_and_the_kernel_counts(capfd, runtime):
    record = execute(capfd, runtime, "--cpus", "0.1", "--memory", "64MiB", "--", "sh", "-c", BURN.format(count=150000))
    facts = record["sessions"][0]["facts"]
    assert record["effective"]["mechanism"] == facts["mechanism"] == runtime
    assert facts["throttled_periods"] > 0
    # A time touches two periods of 0.1 s more than go into it, and may have the whole quota of each.
    assert value(record, "cpu_time") <= 1.05 * 0.1 * (value(record, "total_time") + 2 * 0.1)
    assert 0 < value(record, "memory_group_peak") < 64 * MIB
    assert value(record, "memory_limit") == 64 * MIB
    assert value(record, "network_received") == 0
    assert record["job"]["target"]["constraints"]["image"] == IMAGE
    assert len(facts["image"].removeprefix("sha256:")) == 64
    assert "limit-not-held" not in [one["code"] for one in record["cautions"]]


def test_a_hungry_program_runs_out_of_memory(capfd, runtime):
    line = ("--memory", "64MiB", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1")
    record = execute(capfd, runtime, *line, code=ExitCode.RUN_FAILED)
    assert (record["failure"]["cause"], record["failure"]["signal"]) == ("OutOfMemory", "SIGKILL")
    facts = record["sessions"][0]["facts"]
    assert (facts["oom_kills"], facts["memory_limit_told_by"]) == (1, "kernel")


def test_the_working_folder_is_mounted_and_output_and_exit_code_come_back(capfd, runtime, tmp_path):
    (tmp_path / "given.txt").write_text("text")
    line = ("--", "sh", "-c", "cat given.txt; echo err >&2; touch made; sh -c 'kill -9 $$' || exit 3")
    record = execute(capfd, runtime, *line, code=ExitCode.RUN_FAILED)
    assert (record["failure"]["cause"], record["failure"]["exit_code"]) == ("CommandFailed", 3)
    assert record["failure"]["stderr_tail"].startswith("texterr")
    assert (tmp_path / "made").exists()
    assert execute(capfd, runtime, "--", "no-such-program", code=ExitCode.RUN_FAILED)["failure"]["exit_code"] == 127
    killed = execute(capfd, runtime, "--", "sh", "-c", "kill -9 $$", code=ExitCode.RUN_FAILED)["failure"]
    assert (killed["cause"], killed["signal"]) == ("Killed", "SIGKILL")


def test_much_output_at_the_end_is_read_to_its_end(capfd, runtime):
    line = ("--", "sh", "-c", "dd if=/dev/zero bs=1M count=2 2>&1; echo the end; exit 1")
    record = execute(capfd, runtime, *line, code=ExitCode.RUN_FAILED)
    assert record["failure"]["stderr_tail"].endswith("the end")


def test_a_program_that_never_ends_is_killed_and_daemons_are_reported(capfd, runtime):
    record = execute(capfd, runtime, "--timeout", "0.5s", "--", "sleep", "741", code=ExitCode.RUN_FAILED)
    assert record["failure"]["cause"] == "Timeout"
    record = execute(capfd, runtime, "--", "sh", "-c", "sleep 741 & sleep 741 & exit 0")
    assert record["sessions"][0]["facts"]["processes_left"] == 2
    assert eventually(lambda: not containers(runtime, os.getpid()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_edgewise_is_killed_or_interrupted(runtime, number):
    command = [sys.executable, "-P", "-m", "edgewise", "exec", "--no-store", "--json", "--mechanism", runtime]
    command += ["--image", IMAGE, "--", "sleep", "742"]
    parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert eventually(lambda: containers(runtime, parent.pid))
    finally:
        parent.send_signal(number)
        parent.wait(LIMIT_S)
    assert parent.returncode == (ExitCode.INTERRUPTED if number == signal.SIGINT else -number)
    assert eventually(lambda: not containers(runtime, parent.pid))


def test_an_image_that_does_not_exist_is_unavailable(capfd, runtime):
    line = ["exec", "--no-store", "--mechanism", runtime, "--image", "localhost:1/edgewise/none", "--", "true"]
    assert run(line) == ExitCode.UNAVAILABLE
    assert f"{runtime} started no container of localhost:1/edgewise/none: " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mechanism", "docker"], "--mechanism docker needs the name of an image"),
        (["--mechanism", "cgroup-v1", "--image", "a"], "--mechanism cgroup-v1 does not run containers"),
        (["--image", "--privileged"], "--image"),
        (["--image", "a b"], "'a b' is not the name of an image"),
    ],
)
def test_bad_input_has_exit_code_2_and_advice(capfd, words, message):
    assert run(["exec", "--no-store", *words, "--", "true"]) == ExitCode.BAD_INPUT
    assert message in capfd.readouterr().err


def test_without_a_runtime_the_reason_is_told(capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["exec", "--no-store", "--image", "a", "--", "true"]) == ExitCode.UNAVAILABLE
    assert "docker: no such command; podman: no such command" in capfd.readouterr().err
