"""Executes a program once within limits and collects what the kernel counts about it."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgewise.cancellation import wait_readable
from edgewise.child_process import TAIL_BYTES
from edgewise.constraints.base import GATE_WITHOUT_INPUT, Group, Usage, gated
from edgewise.constraints.choice import find_group
from edgewise.constraints.guard import guarded
from edgewise.constraints.hierarchy import ROOT, read_text
from edgewise.errors import Unavailable
from edgewise.record import Constraints
from edgewise.text import printable

NOT_STARTED = (126, 127)
"""Exit codes of the shell where it can't start the program."""


@dataclass(slots=True, kw_only=True)
class Execution:
    """One execution of a program.

    Attributes:
        mechanism: the mechanism that held the limits.
        cannot_hold: what this mechanism can't limit; empty if nothing.
        passed_over: why better mechanisms were not used.
        seconds: from the start of the program to the end of its process.
        samples: (time since the start in s, counters), without the end.
        usage: counters at the end.
        rusage: of the process and the descendants that it waited for.
        network: bytes received and sent on the machine's interfaces; None where the system does not tell.
        own_rss_bytes: peak of edgewise's own resident memory before the start, which `rusage` includes.
        returncode: exit code, −N after signal N.
        late: whether it was killed at its deadline.
        left: number of processes that it left running.
        tail: the end of its output.
    """

    started_at: str
    mechanism: str
    cannot_hold: str
    passed_over: tuple[str, ...] = ()
    pid: int = 0
    seconds: float = 0.0
    samples: list[tuple[float, Usage]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    rusage: resource.struct_rusage | None = None
    network: tuple[int, int] | None = None
    own_rss_bytes: int = 0
    returncode: int = 0
    late: bool = False
    left: int = 0
    tail: str = ""

    @property
    def cpu_s(self) -> float | None:
        """Processor time of all processes, s; of those that were waited for where no group counts."""
        if self.usage.cpu_s is not None:
            return self.usage.cpu_s
        return None if self.rusage is None else self.rusage.ru_utime + self.rusage.ru_stime

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        return {
            "exit_code": self.returncode,
            "mechanism": self.mechanism,
            "passed_over": list(self.passed_over),
            "periods": self.usage.periods,
            "throttled_periods": self.usage.throttled_periods,
            "oom_kills": self.usage.oom_kills,
            "processes_left": self.left,
            "samples": len(self.samples),
        }


def execute(
    command: Sequence[str],
    *,
    constraints: Constraints,
    sample_s: float,
    timeout_s: float | None = None,
    show: bool = True,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Execution:
    """Run `command` to its end within limits. Its standard input is empty; its output goes to standard error.

    Args:
        sample_s: time between samples of the counters, s; 0 takes none.
        timeout_s: s after which the program and everything that it started is killed; None waits for ever.
        show: whether its output is shown.
        environment: variables to add; None adds none.
        folder: where it runs; None is the current folder.

    Raises:
        OSError: the limits can't be set, or the shell can't be started.
        Unavailable: the mechanism that was named, or this system, does not support it.
        Cancelled: the token in force is set; the program has been killed.
    """
    if not hasattr(os, "pidfd_open"):
        raise Unavailable("programs can be executed within limits on Linux 5.3 or newer only")
    group, passed_over = find_group(
        cpus=constraints.cpus, memory_bytes=constraints.memory_bytes, mechanism=constraints.mechanism
    )
    execution = Execution(
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        mechanism=group.mechanism,
        cannot_hold=group.cannot_hold,
        passed_over=passed_over,
        own_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
    with group, guarded(group):
        child = subprocess.Popen(
            gated(command, script=GATE_WITHOUT_INPUT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {}), **group.environment},
            cwd=folder,
            start_new_session=True,
        )
        try:
            group.admit(child.pid)
            _follow(child, group, execution, sample_s=sample_s, timeout_s=timeout_s, show=show)
        finally:
            _end(child)
    return execution


def _follow(
    child: subprocess.Popen[bytes],
    group: Group,
    execution: Execution,
    *,
    sample_s: float,
    timeout_s: float | None,
    show: bool,
) -> None:
    """Start the program that waits in `child`, and fill in `execution` until it ends."""
    assert child.stdin is not None and child.stdout is not None
    execution.pid = child.pid
    output = _Output(child.stdout.fileno(), show=show)
    end = os.pidfd_open(child.pid)
    waiting = [end, output.descriptor]
    network = network_bytes()
    start = time.monotonic()
    deadline = start + timeout_s if timeout_s else float("inf")
    with contextlib.suppress(BrokenPipeError):  # killed before it could start: the end tells why
        child.stdin.write(b"\n")
        child.stdin.close()
    next_sample = start + sample_s if sample_s else float("inf")
    try:
        while True:
            ready = wait_readable(waiting, max(0.0, min(next_sample, deadline) - time.monotonic()))
            now = time.monotonic()
            if output.descriptor in ready and not output.copy():
                waiting.remove(output.descriptor)
            if end in ready:
                break
            if now >= deadline:
                execution.late = True
                break
            if now >= next_sample:
                execution.samples.append((time.monotonic() - start, group.usage()))
                next_sample = max(next_sample, now) + sample_s
        execution.seconds = time.monotonic() - start
        execution.usage = group.usage()
        # At once for the whole session, so that nothing there forks while the group is killed process by process.
        _signal_session(child.pid, signal.SIGKILL if execution.late else signal.SIGSTOP)
        if execution.late:
            group.kill()
        _, status, execution.rusage = os.wait4(child.pid, 0)
        child.returncode = execution.returncode = os.waitstatus_to_exitcode(status)
        execution.left = 0 if execution.late else group.kill()
        execution.network = _moved(network, network_bytes())
        while output.descriptor in waiting and wait_readable([output.descriptor], 0.0) and output.copy():
            pass
    finally:
        os.close(end)
    execution.tail = output.tail


class _Output:
    """Output of the program: shown on standard error as it comes, and its end is kept."""

    def __init__(self, descriptor: int, *, show: bool) -> None:
        self.descriptor = descriptor
        self._show = show
        self._kept = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def copy(self) -> bool:
        """Copy what is ready. Return False at the end of the stream."""
        piece = os.read(self.descriptor, 2**16)
        self._kept += piece
        del self._kept[:-TAIL_BYTES]
        if self._show:
            sys.stderr.write(self._decoder.decode(piece))
            sys.stderr.flush()
        return bool(piece)

    @property
    def tail(self) -> str:
        """The end, without control characters."""
        return printable(self._kept.decode("utf-8", "replace").strip())


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the process and its session, and reap it where that was not done."""
    if child.returncode is None:
        _signal_session(child.pid, signal.SIGKILL)
        child.wait()
    for stream in (child.stdin, child.stdout):
        with contextlib.suppress(OSError):
            if stream is not None:
                stream.close()


def _signal_session(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def network_bytes(root: Path = ROOT) -> tuple[int, int] | None:
    """Bytes received and sent on all interfaces but loopback since boot; None where the system does not tell."""
    text = read_text(root / "proc/self/net/dev")
    if text is None:
        return None
    # proc_net(5): name, then eight columns of received data, then eight of sent data, bytes first.
    rows = re.findall(r"^\s*([^:\s]+):\s*(\d+)(?:\s+\d+){7}\s+(\d+)", text, re.MULTILINE)
    outside = [row for row in rows if row[0] != "lo"]
    return sum(int(row[1]) for row in outside), sum(int(row[2]) for row in outside)


def _moved(before: tuple[int, int] | None, after: tuple[int, int] | None) -> tuple[int, int] | None:
    if before is None or after is None:
        return None
    return max(0, after[0] - before[0]), max(0, after[1] - before[1])
