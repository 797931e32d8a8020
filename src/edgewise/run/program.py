"""A program that waits before it starts, as processes of this machine or in a container, and its output."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from edgewise.cancellation import wait_readable
from edgewise.child_process import TAIL_BYTES
from edgewise.constraints.base import GATE_WITHOUT_INPUT, Group, Usage, gated
from edgewise.constraints.cgroups import Cgroup
from edgewise.constraints.containers import ASK_S, Container, ContainerStart, signal_or_code
from edgewise.constraints.hierarchy import ROOT, read_text
from edgewise.errors import Unavailable
from edgewise.text import one_line, printable

if TYPE_CHECKING:
    from edgewise.run.command import Execution


class Program(Protocol):
    """A program that waits for a line on the standard input of `child` before it starts.

    Attributes:
        child: the process whose standard output has the program's output.
        end: a descriptor, the caller's to close, that becomes readable when `has_ended` may have changed.
        cgroup: the control group that holds it; None without one, and before `prepare`.
    """

    child: subprocess.Popen[bytes]
    end: int

    @property
    def cgroup(self) -> Cgroup | None:
        """As above."""

    def prepare(self, execution: Execution) -> None:
        """Wait until it can start; fill in its number and what its limits can't hold. Raises OSError."""

    def has_ended(self) -> bool:
        """Whether it ended, once `end` is readable."""

    def usage(self) -> Usage:
        """Its counters now."""

    def network(self) -> tuple[int, int] | None:
        """Bytes received and sent so far; None where the system does not tell."""

    def kill(self) -> None:
        """Kill it and everything that it started."""

    def conclude(self, execution: Execution, output: Output) -> None:
        """Reap it, kill what it left, and fill in how it ended."""


class NativeProgram:
    """A program as a process of this machine."""

    def __init__(
        self, group: Group, command: Sequence[str], *, environment: Mapping[str, str], folder: Path | None
    ) -> None:
        self._group = group
        self.child = subprocess.Popen(
            gated(command, script=GATE_WITHOUT_INPUT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment, **group.environment},
            cwd=folder,
            start_new_session=True,
        )
        self.end = os.pidfd_open(self.child.pid)
        self.usage = group.usage
        self.cgroup = group if isinstance(group, Cgroup) else None

    def prepare(self, execution: Execution) -> None:
        """As `Program.prepare`."""
        execution.pid, execution.cannot_hold = self.child.pid, self._group.cannot_hold
        self._group.admit(self.child.pid)

    def has_ended(self) -> bool:
        """As `Program.has_ended`."""
        return True

    def network(self) -> tuple[int, int] | None:
        """As `Program.network`: of the machine."""
        return network_bytes()

    def kill(self) -> None:
        """As `Program.kill`."""
        # At once for the whole session, so that nothing there forks while the group is killed process by process.
        signal_session(self.child.pid, signal.SIGKILL)
        self._group.kill()

    def conclude(self, execution: Execution, output: Output) -> None:
        """As `Program.conclude`."""
        signal_session(self.child.pid, signal.SIGSTOP)  # otherwise a daemon forks faster than it is found
        _, status, execution.rusage = os.wait4(self.child.pid, 0)
        self.child.returncode = execution.returncode = os.waitstatus_to_exitcode(status)
        execution.left = self._group.kill() if execution.ended else 0
        while output.is_open and wait_readable([output.descriptor], 0.0):
            output.copy()


class ContainerProgram:
    """A program in a container; `child` is the runtime's command."""

    def __init__(self, container: Container, command: Sequence[str], *, show: bool) -> None:
        self._container = container
        self.child = subprocess.Popen(
            container.command(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.child.stderr is not None
        self.end = os.dup(self.child.stderr.fileno())
        self._start = ContainerStart(descriptor=self.end, show=sys.stderr.write if show else lambda _: None)
        self.usage = container.usage

    def prepare(self, execution: Execution) -> None:
        """As `Program.prepare`. Raises `Unavailable` where the container does not start."""
        while not self._start.is_ready:
            wait_readable([self.end])
            self._start.read()
            if self._start.is_closed:
                raise Unavailable(
                    f"{self._container.runtime} started no container of {self._container.image}: "
                    f"{one_line(self._start.told)[:500] or f'exit code {self.child.wait()}'}",
                    advice=f"check it: {self._container.runtime} run --rm --entrypoint /bin/sh "
                    f"{self._container.image} -c true",
                )
        self._container.examine()
        execution.pid, execution.cannot_hold = self.child.pid, self._container.cannot_hold
        execution.image = self._container.image_id

    @property
    def cgroup(self) -> Cgroup | None:
        """As `Program.cgroup`."""
        return self._container.group

    def has_ended(self) -> bool:
        """As `Program.has_ended`."""
        self._start.read()
        return self._start.exit_code is not None or self._start.is_closed

    def network(self) -> tuple[int, int] | None:
        """As `Program.network`: of the container's own interfaces."""
        root = self._container.network_root
        return None if root is None else network_bytes(root)

    def kill(self) -> None:
        """As `Program.kill`."""
        self._container.kill()

    def conclude(self, execution: Execution, output: Output) -> None:
        """As `Program.conclude`."""
        assert self.child.stdin is not None
        execution.left = self._container.process_count() if execution.ended else 0
        limited = self._container.memory_bytes is not None
        if limited and execution.usage.oom_kills is None and self._container.ran_out_of_memory():
            execution.usage = replace(execution.usage, oom_kills=1)
        with contextlib.suppress(OSError):
            self.child.stdin.close()
        while output.is_open and wait_readable([output.descriptor], ASK_S):
            output.copy()
        signal_session(self.child.pid, signal.SIGKILL)
        code = self.child.wait() if self._start.exit_code is None else self._start.exit_code
        execution.returncode = signal_or_code(code)


class Output:
    """Output of the program: shown on standard error as it comes, and its end is kept."""

    def __init__(self, descriptor: int, *, show: bool) -> None:
        self.descriptor = descriptor
        self.is_open = True
        self._show = show
        self._kept = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def copy(self) -> str:
        """Copy what is ready, and return it."""
        piece = os.read(self.descriptor, 2**16)
        self._kept += piece
        del self._kept[:-TAIL_BYTES]
        text = self._decoder.decode(piece)
        if self._show:
            sys.stderr.write(text)
            sys.stderr.flush()
        self.is_open = bool(piece)
        return text

    @property
    def tail(self) -> str:
        """The end, without control characters."""
        return printable(self._kept.decode("utf-8", "replace").strip())


def signal_session(pid: int, number: int) -> None:
    """Send a signal to the session of a process, where there is one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def network_bytes(process: Path = ROOT / "proc/self") -> tuple[int, int] | None:
    """Bytes received and sent on all interfaces but loopback so far; None where the system does not tell.

    Args:
        process: folder in ``/proc`` of a process; the interfaces are those that it sees.
    """
    text = read_text(process / "net/dev")
    if text is None:
        return None
    # proc_net(5): name, then eight columns of received data, then eight of sent data, bytes first.
    rows = re.findall(r"^\s*([^:\s]+):\s*(\d+)(?:\s+\d+){7}\s+(\d+)", text, re.MULTILINE)
    outside = [row for row in rows if row[0] != "lo"]
    return sum(int(row[1]) for row in outside), sum(int(row[2]) for row in outside)
