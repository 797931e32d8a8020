"""Starts one process on a device that is reached through a shell, and ends it with all that it started.

``python -c SOURCE FOLDER ENVIRONMENT COMMAND…``, sent as source. The first line on standard output is `MARK` and a JSON
object: the interpreter's version and the number of the process, or the reason why nothing was started. SIGTERM and the
loss of the connection kill the process; its exit code or its signal becomes the supervisor's own. Where the variable
`GRACE` is in its environment, the process has this number of seconds to end by itself when the connection is lost.

Standard library only. It also runs on Python 3.7, so that an interpreter that is too old can be reported.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MARK = "edgewise-process "
GRACE = "EDGEWISE_GRACE_S"


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, whatever group they are in; empty without ``/proc``."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The parent is the second field behind the name in parentheses (proc_pid_stat(5)).
            parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _tell(**fields: Any) -> None:
    os.write(1, (MARK + json.dumps({"version": sys.version.split()[0], **fields}) + "\n").encode())


def _start(folder: str, environment: str, command: list[str]) -> subprocess.Popen[bytes] | None:
    """Return the process, or None after the reason was told."""
    variables = {**os.environ, **json.loads(environment)}
    command = [os.path.expanduser(command[0]), *command[1:]]  # noqa: PTH111
    program = shutil.which(command[0], path=variables.get("PATH"))
    if program is None:
        _tell(error=f"{command[0]}: no such command")
        return None
    try:
        return subprocess.Popen(
            [program, *command[1:]],
            cwd=os.path.expanduser(folder),  # noqa: PTH111
            env=variables,
            start_new_session=True,
            # Told by the process itself, before it can print anything of its own.
            preexec_fn=lambda: _tell(pid=os.getpid()),  # noqa: PLW1509
        )
    except OSError as error:
        _tell(error=f"{error.filename or command[0]}: {error.strerror}")
        return None


def _wait(pid: int, signals: int, grace_s: float) -> None:
    """Block until child `pid` ends, the connection is lost, or SIGTERM arrives; then kill what is left of it."""
    poller = select.poll()
    poller.register(signals, select.POLLIN)
    poller.register(1, 0)  # reports only that standard output has no reader any more
    kill_at = None
    while _runs(pid) and (kill_at is None or time.monotonic() < kill_at):
        if kill_at is not None:
            time.sleep(0.01)
            continue
        numbers = b""
        for descriptor, _ in poller.poll():
            numbers += os.read(signals, 64) if descriptor == signals else bytes([signal.SIGHUP])
        if signal.SIGTERM in numbers:
            break
        if signal.SIGHUP in numbers:
            kill_at = time.monotonic() + grace_s
    # Stopped first, so that nobody forks while the descendants are counted.
    _signal_group(pid, signal.SIGSTOP)
    for member in descendants(pid):
        with contextlib.suppress(OSError):
            os.kill(member, signal.SIGKILL)
    _signal_group(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, number)


def main() -> None:
    """Entry point of the process."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    child = _start(sys.argv[1], sys.argv[2], sys.argv[3:])
    if child is None:
        os._exit(127)
    os.close(0)
    _wait(child.pid, reader, float(json.loads(sys.argv[2]).get(GRACE, 0)))
    code = child.wait()
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    # The first process of a container is not ended by its own signals; it tells them as a shell does.
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
