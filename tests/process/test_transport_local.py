import os
import select
import signal
import subprocess
import sys

import psutil
import pytest

from edgewise.device.transports import local
from edgewise.device.transports.local import LocalTransport
from patience import wait_until

pytestmark = pytest.mark.cold

DEADLINE_S = 600.0


@pytest.fixture
def start(tmp_path):
    processes = []

    def start(*command, **variables):
        process = LocalTransport().start(
            command, folder=tmp_path, environment={**os.environ, **variables}, stderr=tmp_path / "stderr"
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()


def read_line(process):
    """Up to the end of the line, which may come in pieces, or of the stream."""
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
        assert ready, "the child is silent"
        piece = process.stdout.read1(4096)
        if not piece:
            break
        line += piece
    return line


def assert_ends(pid):
    """`pid` is gone or on its way: a descriptor of it becomes ready when it has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([descriptor], [], [], DEADLINE_S)
        assert ready, f"process {pid} lives on"
    finally:
        os.close(descriptor)


def test_it_leads_a_session_of_its_own(start):
    process = start(sys.executable, "-c", "import os; print(os.getsid(0), os.getpgid(0), flush=True)")
    assert read_line(process) == f"{process.pid} {process.pid}\n".encode()
    assert process.wait(DEADLINE_S) == 0


def test_only_the_standard_streams_are_inherited(start):
    leak = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        script = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:4], flush=True)"
        process = start(sys.executable, "-c", script)
        # The fourth is the folder that is being listed.
        assert read_line(process) == b"[0, 1, 2, 3]\n"
    finally:
        os.close(leak)


def test_the_environment_is_exactly_what_was_given(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_LEAK", "1")
    process = LocalTransport().start(
        ["/usr/bin/env"], folder=tmp_path, environment={"ONLY": "this"}, stderr=tmp_path / "stderr"
    )
    try:
        assert read_line(process) == b"ONLY=this\n"
    finally:
        process.kill()


def test_a_native_crash_keeps_its_signal_and_its_last_words(start):
    process = start(sys.executable, "-c", "import os; os.write(2, b'last words'); os.kill(os.getpid(), 6)")
    assert read_line(process) == b""
    process.kill()
    assert process.returncode == -signal.SIGABRT
    assert process.stderr.read_bytes() == b"last words"


def test_a_child_of_the_child_dies_with_it(start):
    process = start("sh", "-c", "sleep 1000 & echo $!; wait")
    grandchild = int(read_line(process))
    process.kill()
    assert process.returncode == -signal.SIGKILL
    assert_ends(grandchild)


def test_a_child_in_a_session_of_its_own_dies_too(start):
    script = (
        "import subprocess; child = subprocess.Popen(['sleep', '1000'], start_new_session=True);"
        "print(child.pid, flush=True); child.wait()"
    )
    process = start(sys.executable, "-c", script)
    grandchild = int(read_line(process))
    assert os.getsid(grandchild) == grandchild
    process.kill()
    assert_ends(grandchild)


def test_what_a_process_leaves_running_ends_with_it(start):
    process = start("sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
    grandchild = int(read_line(process))
    assert process.wait(DEADLINE_S) == 0
    assert_ends(grandchild)


def test_a_stopped_process_can_be_killed(start):
    process = start("sh", "-c", "echo up; kill -STOP $$")
    assert read_line(process) == b"up\n"
    process.kill()
    assert process.returncode == -signal.SIGKILL


def test_a_process_that_ignores_everything_can_be_killed(start):
    process = start("sh", "-c", "trap '' TERM INT HUP; echo up; read line; read line")
    assert read_line(process) == b"up\n"
    process.kill()
    assert process.returncode == -signal.SIGKILL


def test_kill_with_unsent_input_and_again(start):
    process = start("sleep", "1000")
    process.stdin.write(b"x" * 100)  # stays in the buffer of this side
    process.kill()
    process.kill()
    assert process.returncode == process.wait() == -signal.SIGKILL
    assert process.stdin.closed
    assert process.stdout.closed


def test_the_end_of_input_reaches_it(start):
    process = start("cat")
    process.stdin.close()
    assert process.wait() == 0


@pytest.mark.parametrize("error", [AttributeError("pidfd_open"), OSError(38, "Function not implemented")])
def test_waiting_works_on_old_kernels(start, monkeypatch, error):
    def refuse(pid):
        raise error

    monkeypatch.setattr(local.os, "pidfd_open", refuse)
    process = start("cat")
    with pytest.raises(TimeoutError, match=r"has not ended within 0\.01 s"):
        process.wait(0.01)  # real time: it has to end, on any machine
    process.stdin.close()
    assert process.wait(DEADLINE_S) == 0


def test_a_command_that_can_not_be_started_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError):
        LocalTransport().start(
            ["edgewise-no-such-command"], folder=tmp_path, environment={}, stderr=tmp_path / "stderr"
        )
    with pytest.raises(FileNotFoundError):
        LocalTransport().start(["true"], folder=tmp_path / "missing", environment={}, stderr=tmp_path / "stderr")


def test_a_deadline_is_waited_for_in_the_kernel(start, monkeypatch):
    def poll(*args, **kwargs):
        raise AssertionError("polled")

    monkeypatch.setattr(subprocess.Popen, "poll", poll)
    process = start("cat")
    with pytest.raises(TimeoutError):
        process.wait(0.0)
    process.stdin.close()
    assert process.wait(DEADLINE_S) == 0


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere workers are not stopped, as they would outlive their host"
)
def test_one_that_is_paused_stands_still_until_it_goes_on(start):
    process = start(sys.executable, "-c", "print('there', flush=True); input(); print('heard', flush=True); input()")
    assert read_line(process) == b"there\n"
    process.pause()
    wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    process.stdin.write(b"\n")
    process.stdin.flush()
    assert not select.select([process.stdout], [], [], 0.0)[0]
    process.resume()
    assert read_line(process) == b"heard\n"
    process.pause()
    process.kill()
    assert process.returncode == -signal.SIGKILL
    process.pause()
    process.resume()
