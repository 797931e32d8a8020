"""Two measurements never share a machine: locks between real processes, here and on a device.

How a wait goes on and what it tells: ``tests/unit/test_lease.py``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from edgewise.device import target
from edgewise.device.agent import lock_file, try_lock
from edgewise.device.lease import INHERITED, measuring_on
from edgewise.progress import LogLine, reporting_to
from patience import wait_until
from ssh_devices import far_python, ssh_device, ssh_server  # noqa: F401

HOLD = """
import sys
from edgewise.device.lease import measuring_on
with measuring_on(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path))
    return tmp_path


@pytest.fixture
def hold():
    """A function that starts another process that measures on a device until its input is closed."""
    live = []

    def start(device="local", *, wait=True):
        words = [sys.executable, "-c", HOLD, device]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        live.append(process)
        assert not wait or process.stdout.readline() == b"held\n"
        return process

    yield start
    for process in live:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def is_free():
    found = try_lock(lock_file(), "test")
    if isinstance(found, int):
        os.close(found)
    return isinstance(found, int)


class Waiting:
    """A measurement in a thread, with what it reported."""

    def __init__(self, device="local"):
        self.lines, self.got = [], threading.Event()
        self.waits = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(device,))
        self._thread.start()

    def _run(self, device):
        with reporting_to(self._note), measuring_on(device):
            self.got.set()

    def _note(self, event):
        if isinstance(event, LogLine):
            self.lines.append(event.text)
            self.waits.set()

    def end(self):
        self._thread.join(600.0)
        assert not self._thread.is_alive()


def test_a_second_measurement_waits_and_is_told_for_whom(hold):
    first = hold()
    second = Waiting()
    assert second.waits.wait(600.0) and not second.got.is_set()
    (line,) = second.lines
    assert line.startswith("waiting for local: in use by ") and f"process {first.pid} " in line and "since 20" in line
    first.stdin.close()
    assert second.got.wait(600.0)
    second.end()
    assert is_free()


def test_the_kernel_releases_the_lock_of_a_killed_process(hold):
    first = hold()
    assert not is_free()
    first.send_signal(signal.SIGKILL)
    first.wait()
    with measuring_on("local"):
        assert not is_free()
    assert is_free()


def test_a_measurement_within_one_waits_for_nobody(hold, monkeypatch):
    with measuring_on("local"):
        with measuring_on("local"):
            assert not is_free()
        assert not is_free() and os.environ[INHERITED] == "local"
        # A child, such as one that `edgewise exec` starts.
        assert hold().poll() is None
    assert is_free() and INHERITED not in os.environ


def test_commands_of_the_command_line_wait(hold, tmp_path):
    from edgewise.testing import write_fake_model

    write_fake_model(tmp_path / "m.fake", latency_ns=[1_000_000])
    first = hold()
    words = [sys.executable, "-m", "edgewise", "bench", "m.fake", "--iterations", "9", "--sessions", "1", "--no-store"]
    process = subprocess.Popen([*words, "--json"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        while b"waiting for local" not in (line := process.stderr.readline()):
            assert line, "it did not wait"
        assert process.poll() is None
        first.stdin.close()
        out, _ = process.communicate(timeout=600)
        assert process.returncode == 0 and json.loads(out)["runs"][0]["status"] == "done"
    finally:
        process.kill()
        process.wait()


# --- on a device ---


def test_two_hosts_take_turns_on_one_device(ssh_device, hold):  # noqa: F811
    first = hold("board")
    second = Waiting("board")
    assert second.waits.wait(600.0)
    assert second.lines[0].startswith("waiting for board: in use by ") and f"process {first.pid} " in second.lines[0]
    first.stdin.close()
    assert second.got.wait(600.0)
    second.end()


def test_a_user_on_the_device_waits_too_and_a_killed_host_releases_it(ssh_device, hold, monkeypatch):  # noqa: F811
    monkeypatch.setenv("EDGEWISE_LOCKS", str(ssh_device.root / "tmp"))  # what is local on the device
    assert is_free()
    first = hold("board")
    assert not is_free()
    first.send_signal(signal.SIGKILL)
    first.wait()
    wait_until(is_free)


def test_a_connection_that_the_device_believes_in_does_not_keep_its_lock(ssh_device, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr("edgewise.device.transports.ssh.KEEPALIVE_S", 5.0)  # real time: it has to end, on any machine
    with measuring_on("board"):
        there = target.find_target("board")
        (tmp_path / "job").mkdir()
        workspace = there.workspace(tmp_path / "job")
        worker = workspace.start("edgewise.run.worker")
        before = ssh_device.logins()
        assert worker.pid in before
        ssh_device.cable.strand()
        with pytest.raises(OSError):
            there.link.request("ping")
        there.close()
        assert there.insist(lambda: there.link.request("ping"))
        # Its server has not noticed, but the worker and the agent of the old connection are gone.
        wait_until(lambda: worker.pid not in ssh_device.logins())
        worker.kill()


def test_the_lock_is_taken_again_over_a_new_connection(ssh_device, monkeypatch):  # noqa: F811
    with measuring_on("board"):
        there = target.find_target("board")
        ssh_device.cable.cut()
        there.insist(lambda: there.link.request("ping"))
        with monkeypatch.context() as patch:
            patch.setenv("EDGEWISE_LOCKS", str(ssh_device.root / "tmp"))
            assert not is_free()
    monkeypatch.setenv("EDGEWISE_LOCKS", str(ssh_device.root / "tmp"))
    assert is_free()
