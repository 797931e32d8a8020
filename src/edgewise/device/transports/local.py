"""Processes on this machine, each in a session of its own, so that it can be ended with all that it started."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import BinaryIO, cast

from edgewise.cancellation import wait_readable
from edgewise.child_process import open_end
from edgewise.device.supervisor import descendants

KEPT_BYTES = 64 * 2**10
"""Of what a process prints on standard error, its end."""
ESCAPED_S = 1.0
_ENDS_WITH_HOST = sys.platform == "linux"
"""Elsewhere a worker sees its host's end by itself, which one that is stopped can't."""


class _StderrTail:
    """Reads a stream as it comes and keeps its end, so that a flood fills neither a disk nor memory.

    Its thread waits in the kernel: a process that prints nothing is not disturbed.
    """

    def __init__(self, stream: BinaryIO, file: Path) -> None:
        self._stream = stream
        self._file: Path | None = file
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._stream:
            while piece := os.read(self._stream.fileno(), KEPT_BYTES):
                self._kept += piece
                del self._kept[:-KEPT_BYTES]

    def close(self) -> None:
        """Put what was kept into the file, once: the process has ended, and the stream with it."""
        file, self._file = self._file, None
        if file is not None:
            # Only a descendant that escaped its group may still hold the stream.
            self._thread.join(ESCAPED_S)
            with contextlib.suppress(OSError):
                file.write_bytes(bytes(self._kept))


class LocalProcess:
    """A child process, leader of its own session and process group.

    The group is always killed before the leader is reaped: until then its number can't be given to anybody else. Only
    a descendant that has left the group and outlived its ancestors escapes.
    """

    def __init__(self, child: subprocess.Popen[bytes], stderr: Path) -> None:
        self._child = child
        self._stderr_tail = _StderrTail(cast(BinaryIO, child.stderr), stderr)
        self.stderr = stderr

    @property
    def pid(self) -> int:
        """The process's number, which is also its group's."""
        return self._child.pid

    @property
    def stdin(self) -> BinaryIO:
        """The writing end of its standard input."""
        return cast(BinaryIO, self._child.stdin)

    @property
    def stdout(self) -> BinaryIO:
        """The reading end of its standard output."""
        return cast(BinaryIO, self._child.stdout)

    @property
    def returncode(self) -> int | None:
        """The exit code, −N after signal N, None until `wait` or `kill` has seen the end."""
        return self._child.returncode

    def end_descriptor(self) -> int:
        """As `edgewise.device.transport.TellsEnd.end_descriptor`."""
        return open_end(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, kill what it left in its group, return its code. Raises TimeoutError after `timeout` s."""
        if self._child.returncode is None:
            if not _ends_within(self.pid, timeout):
                raise TimeoutError(f"process {self.pid} has not ended within {timeout:g} s")
            self._signal_group(signal.SIGKILL)
            self._child.wait()
        self._stderr_tail.close()
        return self._child.returncode

    def pause(self) -> None:
        """Stop the group, where the kernel ends a worker with its host (`edgewise.run.sandbox.die_with_host`)."""
        if _ENDS_WITH_HOST and self._child.returncode is None:
            self._signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the group go on."""
        if _ENDS_WITH_HOST and self._child.returncode is None:
            self._signal_group(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to the group and to descendants that left it, then reap and close the streams; idempotent."""
        if self._child.returncode is None:
            # Stopped first, so that nobody forks while the descendants are counted.
            self._signal_group(signal.SIGSTOP)
            for pid in descendants(self.pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._signal_group(signal.SIGKILL)
            self._child.wait()
        self._stderr_tail.close()
        for stream in (self.stdin, self.stdout):
            # What was still buffered for a dead process is lost, which is no error here.
            with contextlib.suppress(OSError):
                stream.close()

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


class LocalTransport:
    """Starts processes on this machine."""

    name = "local"

    def start(
        self, command: Sequence[str], *, folder: PurePath, environment: Mapping[str, str], stderr: Path
    ) -> LocalProcess:
        """Start `command` in `folder`; the file `stderr` gets the end of its standard error. Raises OSError."""
        child = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
            env=dict(environment), close_fds=True, start_new_session=True,
        )  # fmt: skip
        return LocalProcess(child, stderr)


def _ends_within(pid: int, timeout: float | None) -> bool:
    """Whether child `pid` ends within `timeout` s, forever with None. Blocks in the kernel and does not reap the child.

    Raises `edgewise.cancellation.Cancelled`.
    """
    # `subprocess` would wake up again and again to look, and so slow what is being measured.
    descriptor = open_end(pid)
    try:
        return bool(wait_readable([descriptor], math.inf if timeout is None else timeout))
    finally:
        os.close(descriptor)
