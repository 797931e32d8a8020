"""Executes a program once within limits and collects what the kernel counts about it."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgewise.cancellation import Cancelled, CancelToken, cancellable, wait_readable
from edgewise.clock import now
from edgewise.constraints.base import Group, Usage
from edgewise.constraints.choice import find_group
from edgewise.constraints.containers import Container, find_runtime
from edgewise.constraints.guard import guarded
from edgewise.constraints.hierarchy import read_text
from edgewise.constraints.memory_watch import watch_memory
from edgewise.errors import Unavailable
from edgewise.record import Constraints
from edgewise.run.counters import Counters, read_counters
from edgewise.run.limit_alarm import LimitAlarm
from edgewise.run.program import ContainerProgram, NativeProgram, Output, Program, signal_session

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)
FIRST_LOOK_S, LOOK_GROWTH = 0.01, 1.2
"""The first look at the resident memory, and how much later than the one before each next one is."""
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
        counters: the machine meanwhile, as `edgewise.run.counters.Counters.delta` has it, where the program's processor
            time counts as own; empty if not read.
        network: bytes received and sent on the machine's interfaces; None where the system does not tell.
        own_rss_bytes: peak of edgewise's own resident memory before the start, which `rusage` includes.
        resident_bytes: highest resident memory of one of its processes up to the last look (``VmHWM``); 0 without one.
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
    counters: dict[str, float | None] = field(default_factory=dict)
    network: tuple[int, int] | None = None
    own_rss_bytes: int = 0
    resident_bytes: int = 0
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
        """Return what a record keeps of it."""
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
            **({"counters": self.counters} if self.counters else {}),
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
    output = Output(child.stdout.fileno(), show=show)
    network, before = program.network(), read_counters()
    start = now()
    deadline = start + timeout_s if timeout_s else float("inf")
    with contextlib.suppress(BrokenPipeError):  # killed before it could start: the end tells why
        child.stdin.write(b"\n")
        child.stdin.flush()
    next_sample = start + sample_s if sample_s else float("inf")
    next_look = start + min(FIRST_LOOK_S, sample_s) if sample_s else float("inf")
    while True:
        waiting = [program.end, *alarm.descriptors, *([output.descriptor] if output.is_open else [])]
        planned = min(next_sample, deadline)
        try:
            ready = wait_readable(waiting, max(0.0, min(planned, next_look) - now()))
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
        if looked >= next_look:
            execution.resident_bytes = max(execution.resident_bytes, highest_resident(program, execution.pid))
            # Of a short program the last look is soon before its end, too.
            next_look = start + max(LOOK_GROWTH * (looked - start), FIRST_LOOK_S)
            next_look = min(next_look, looked + sample_s)
    execution.seconds = now() - start
    after = read_counters()
    execution.network = _moved(network, program.network())
    _conclude(program, execution, alarm, output)
    execution.counters = load_beside(execution, before, after)


def load_beside(execution: Execution, before: Counters, after: Counters) -> dict[str, float | None]:
    """Return what the machine did between two readings; processor time of the program is not that of others."""
    known = execution.cpu_s is not None and after.process_cpu_s is not None
    own = (after.process_cpu_s or 0.0) + (execution.cpu_s or 0.0) if known else None
    return replace(after, process_cpu_s=own).delta(before)


def highest_resident(program: Program, pid: int) -> int:
    """Return the highest resident memory so far of one of the processes that live now, bytes; 0 where it is not
    known.
    """
    pids = program.cgroup.pids() if program.cgroup is not None else [pid]
    found = [_PEAK.search(read_text(Path(f"/proc/{each}/status")) or "") for each in pids]
    return max((int(each[1]) * 1024 for each in found if each is not None), default=0)


def _conclude(program: Program, execution: Execution, alarm: LimitAlarm, output: Output) -> None:
    """Fill in how the program ended; one that did not end is killed."""
    execution.usage = program.usage()
    if alarm.reached_s is not None:
        execution.limit_reached_s, execution.limit_told_by = alarm.reached_s, alarm.told_by
        execution.killed = tuple(alarm.killed)
    if execution.late or execution.interrupted:
        program.kill()
    with cancellable(CancelToken() if execution.interrupted else None):  # the one in force is set
        program.conclude(execution, output)
    execution.tail = output.tail


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the process and its session, and reap it where that was not done."""
    if child.returncode is None:
        signal_session(child.pid, signal.SIGKILL)
        child.wait()
    for stream in (child.stdin, child.stdout, child.stderr):
        with contextlib.suppress(OSError):
            if stream is not None:
                stream.close()


def _moved(before: tuple[int, int] | None, after: tuple[int, int] | None) -> tuple[int, int] | None:
    if before is None or after is None:
        return None
    return max(0, after[0] - before[0]), max(0, after[1] - before[1])
