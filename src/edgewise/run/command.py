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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from edgewise.cancellation import Cancelled, CancelToken, cancellable, wait_readable
from edgewise.child_process import TAIL_BYTES
from edgewise.clock import now
from edgewise.constraints.base import GATE_WITHOUT_INPUT, Group, Usage, gated
from edgewise.constraints.cgroups import Cgroup
from edgewise.constraints.choice import find_group
from edgewise.constraints.containers import ASK_S, Container, ContainerStart, find_runtime, signal_or_code
from edgewise.constraints.guard import guarded
from edgewise.constraints.hierarchy import ROOT, read_text
from edgewise.constraints.memory_watch import watch_memory
from edgewise.errors import Unavailable
from edgewise.record import Constraints
from edgewise.run.limit_alarm import LimitAlarm
from edgewise.text import one_line, printable

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
        paused_s: longest time that edgewise itself was late, because it was stopped or could not write its output.
        returncode: exit code, −N after signal N.
        late: whether it was killed at its deadline.
        interrupted: whether it was killed because edgewise was interrupted; only after `limit_reached_s`.
        limit_reached_s: time since the start at which the memory limit was first found to be reached, s; None if it
            was not.
        limit_told_by: ``kernel``, or ``output`` where the output of the program alone says so.
        killed: processes that the kernel killed at the memory limit, with their names, where known.
        left: number of processes that it left running.
        tail: the end of its output.
        image: digest of the image of its container; empty without one.
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
    paused_s: float = 0.0
    returncode: int = 0
    late: bool = False
    interrupted: bool = False
    limit_reached_s: float | None = None
    limit_told_by: str = ""
    killed: tuple[str, ...] = ()
    left: int = 0
    tail: str = ""
    image: str = ""

    @property
    def ended(self) -> bool:
        """Whether the command ended by itself."""
        return not (self.late or self.interrupted)

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
            "memory_limit_reached_s": self.limit_reached_s,
            "memory_limit_told_by": self.limit_told_by,
            "killed": list(self.killed),
            "processes_left": self.left,
            "samples": len(self.samples),
            **({"image": self.image} if self.image else {}),
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
    mount: bool = True,
    container_options: Sequence[str] = (),
) -> Execution:
    """Run `command` to its end within limits. Its standard input is empty; its output goes to standard error.

    Args:
        sample_s: time between samples of the counters, s; 0 takes none.
        timeout_s: s after which the program and everything that it started is killed; None waits for ever.
        show: whether its output is shown.
        environment: variables to add; None adds none.
        folder: where it runs; None is the current folder.
        mount: whether a container gets `folder` as its working folder; otherwise the image's own is used.
        container_options: further options for the start of a container.

    Raises:
        OSError: the limits can't be set, or the shell can't be started.
        Unavailable: the mechanism that was named, or this system, does not support it.
        Cancelled: the token in force is set; the program has been killed.
    """
    if not hasattr(os, "pidfd_open"):
        raise Unavailable("programs can be executed within limits on Linux 5.3 or newer only")
    limits: dict[str, Any] = {"cpus": constraints.cpus, "memory_bytes": constraints.memory_bytes}
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    passed_over: tuple[str, ...] = ()
    group: Group | Container
    if constraints.image is None:
        group, passed_over = find_group(**limits, mechanism=constraints.mechanism)
    else:
        group = Container(
            **limits,
            runtime=find_runtime(constraints.mechanism),
            image=constraints.image,
            folder=(folder or Path()) if mount else None,
            options=container_options,
        )
    execution = Execution(
        started_at=started_at,
        mechanism=group.mechanism,
        cannot_hold="",
        passed_over=passed_over,
        own_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
    with group, guarded(group):
        if isinstance(group, Container):
            program: Program = ContainerProgram(group, command, show=show)
        else:
            program = NativeProgram(group, command, environment=environment or {}, folder=folder)
        try:
            program.prepare(execution)
            watch = watch_memory(program.cgroup) if program.cgroup is not None and constraints.memory_bytes else None
            with watch or contextlib.nullcontext():
                alarm = LimitAlarm(memory_bytes=constraints.memory_bytes or 0, pid=execution.pid, watch=watch)
                _follow(program, execution, alarm, sample_s=sample_s, timeout_s=timeout_s, show=show)
        finally:
            os.close(program.end)
            _end(program.child)
    return execution


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

    def conclude(self, execution: Execution, output: _Output) -> None:
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
        _signal_session(self.child.pid, signal.SIGKILL)
        self._group.kill()

    def conclude(self, execution: Execution, output: _Output) -> None:
        """As `Program.conclude`."""
        _signal_session(self.child.pid, signal.SIGSTOP)  # otherwise a daemon forks faster than it is found
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

    def conclude(self, execution: Execution, output: _Output) -> None:
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
        _signal_session(self.child.pid, signal.SIGKILL)
        code = self.child.wait() if self._start.exit_code is None else self._start.exit_code
        execution.returncode = signal_or_code(code)


def _follow(
    program: Program,
    execution: Execution,
    alarm: LimitAlarm,
    *,
    sample_s: float,
    timeout_s: float | None,
    show: bool,
) -> None:
    """Start the program that waits, and fill in `execution` until it ends.

    Raises `Cancelled` unless the memory limit was reached: then the end of a program that waits for ever is a result.
    """
    child = program.child
    assert child.stdin is not None and child.stdout is not None
    output = _Output(child.stdout.fileno(), show=show)
    network = program.network()
    start = now()
    deadline = start + timeout_s if timeout_s else float("inf")
    with contextlib.suppress(BrokenPipeError):  # killed before it could start: the end tells why
        child.stdin.write(b"\n")
        child.stdin.flush()
    next_sample = start + sample_s if sample_s else float("inf")
    while True:
        waiting = [program.end, *alarm.descriptors, *([output.descriptor] if output.is_open else [])]
        planned = min(next_sample, deadline)
        try:
            ready = wait_readable(waiting, max(0.0, planned - now()))
        except Cancelled:
            if alarm.reached_s is None:
                raise
            execution.interrupted = True
            break
        looked = now()
        execution.paused_s = max(execution.paused_s, looked - planned)
        if output.descriptor in ready:
            alarm.read(output.copy(), looked - start)
        if {*alarm.descriptors} & {*ready}:
            alarm.look(looked - start)
        if program.end in ready and program.has_ended():
            break
        if looked >= deadline:
            execution.late = True
            break
        if looked >= next_sample:
            execution.samples.append((now() - start, program.usage()))
            alarm.count(execution.samples[-1][1], looked - start)
            next_sample = max(next_sample, looked) + sample_s
    execution.seconds = now() - start
    execution.usage = program.usage()
    execution.network = _moved(network, program.network())
    if alarm.reached_s is not None:
        execution.limit_reached_s, execution.limit_told_by = alarm.reached_s, alarm.told_by
        execution.killed = tuple(alarm.killed)
    if execution.late or execution.interrupted:
        program.kill()
    with cancellable(CancelToken() if execution.interrupted else None):  # the one in force is set
        program.conclude(execution, output)
    execution.tail = output.tail


class _Output:
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


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the process and its session, and reap it where that was not done."""
    if child.returncode is None:
        _signal_session(child.pid, signal.SIGKILL)
        child.wait()
    for stream in (child.stdin, child.stdout, child.stderr):
        with contextlib.suppress(OSError):
            if stream is not None:
                stream.close()


def _signal_session(pid: int, number: int) -> None:
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


def _moved(before: tuple[int, int] | None, after: tuple[int, int] | None) -> tuple[int, int] | None:
    if before is None or after is None:
        return None
    return max(0, after[0] - before[0]), max(0, after[1] - before[1])
