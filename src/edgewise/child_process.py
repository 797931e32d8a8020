"""Child processes with limits: started, given a request, read until they end or are late, and never left behind.

The parent:

    outcome = run_child([sys.executable, "-P", "-m", "edgewise.some.worker"], request=b"…", seconds=20)
    if outcome.failure:
        raise BadModel(f"the worker {outcome.failure}")
    use(outcome.output)

The worker, where it is ours:

    if __name__ == "__main__":
        raise SystemExit(serve(answer, limits=lambda request: Limits(cpu_seconds=20, address_bytes=2**30)))

Every wait is in the kernel, without polling, and is woken by the cancel token in force (`edgewise.cancellation`). For a
child that sends several answers use `ChildProcess` and its `read_line`. Standard library only: devices need this
module too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from edgewise.cancellation import wait_readable
from edgewise.clock import now
from edgewise.text import means_out_of_memory

TAIL_BYTES = 4000
"""Of what a child prints on standard error, its end is kept."""
MAX_OUTPUT = 256 * 2**20
_CPU_GRACE_S = 2

Cause = Literal["", "late", "memory", "cpu", "crashed", "exit", "start", "output"]


def signal_name(number: int) -> str:
    """``SIGSEGV`` of 11; ``signal 65`` of a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def open_end(pid: int) -> int:
    """Return a new descriptor, the caller's to close, that is readable once child `pid` has ended, which it does
    not reap.
    """
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):  # not Linux, or older than 5.3: a thread closes the other end of a pipe
        reader, writer = os.pipe()

        def wait() -> None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            os.close(writer)

        threading.Thread(target=wait, daemon=True).start()
        return reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a process may use. None sets no limit; systems without ``resource`` have none.

    Attributes:
        cpu_seconds: of processor time; beyond it comes SIGXCPU.
        address_bytes: of address space. Engines that reserve or map much need `data_bytes` instead.
        data_bytes: of private memory.
    """

    cpu_seconds: int | None = None
    address_bytes: int | None = None
    data_bytes: int | None = None

    def apply(self) -> None:
        """Set them for the process that calls this. A limit that is lower already stays."""
        try:
            import resource
        except ImportError:  # not a POSIX system
            return
        for kind, size in (
            (resource.RLIMIT_CPU, self.cpu_seconds),
            (resource.RLIMIT_AS, self.address_bytes),
            (resource.RLIMIT_DATA, self.data_bytes),
            (resource.RLIMIT_CORE, 0),
        ):
            if size is not None:
                highest = resource.getrlimit(kind)[1]
                soft = size if highest < 0 else min(size, highest)
                # A second limit ends a process that has ignored SIGXCPU.
                hard = soft + _CPU_GRACE_S if kind == resource.RLIMIT_CPU else soft
                with contextlib.suppress(ValueError, OSError):
                    resource.setrlimit(kind, (soft, hard if highest < 0 else min(hard, highest)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a child ended.

    Attributes:
        output: what it wrote to standard output.
        returncode: its exit code, −N after signal N; None where it was never started.
        tail: the end of what it wrote to standard error.
        seconds: from its start to its end.
        cause: "" where it ended with exit code 0; ``late`` after its deadline; ``memory``, ``cpu`` for want of them;
            ``crashed`` by a signal; ``exit`` with another code; ``start`` where it could not be started; ``output``
            where it wrote too much.
        failure: the same as a predicate for a message: ``took longer than 20 s``, ``crashed (SIGSEGV)``; "" after 0.
    """

    output: bytes = b""
    returncode: int | None = None
    tail: str = field(default="", repr=False)
    seconds: float = 0.0
    cause: Cause = ""
    failure: str = ""


class ChildProcess:
    """A process in a session of its own; leaving the ``with`` block ends it and everything that it started.

    Args:
        request: what it reads from standard input; None leaves that open for `send`.
        environment: of the process; None is this one's.
        folder: where it runs; None is the current folder.
        inherited: descriptors that it has as well, by the same numbers.

    Raises OSError where it can't be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        request: bytes | None = b"",
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        inherited: Sequence[int] = (),
    ) -> None:
        self.started = now()
        # A file instead of a pipe: a large request can not block the parent while the child answers.
        with tempfile.TemporaryFile() as stdin:
            stdin.write(request or b"")
            stdin.seek(0)
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE if request is None else stdin, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, cwd=folder, env=environment, start_new_session=True,
                pass_fds=inherited,
            )  # fmt: skip
        assert self._process.stdout is not None and self._process.stderr is not None
        self._stdout, self._stderr = self._process.stdout.fileno(), self._process.stderr.fileno()
        self._open = [self._stdout, self._stderr]
        self._tail = bytearray()
        self._line = b""
        self._end: int | None = open_end(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def returncode(self) -> int | None:
        """Its exit code, −N after signal N; None as long as `kill` has not been called."""
        return self._process.returncode

    @property
    def tail(self) -> str:
        """The end of what it has written to standard error so far."""
        return self._tail.decode("utf-8", "replace").strip()

    def send(self, line: bytes) -> None:
        """Write to its standard input, where that is open. Raises OSError where the process has ended.

        Args:
            line: at most 64 KiB, which a process that does not read can not block.
        """
        assert self._process.stdin is not None and len(line) <= 2**16
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def read(self, *, until: float) -> bytes:
        """Return the next bytes of its standard output; empty once it has ended.

        Args:
            until: on the monotonic clock.

        Raises:
            TimeoutError: nothing came until then.
            Cancelled: the token in force is set.
        """
        while True:
            waiting = [*self._open, *([] if self._end is None else [self._end])]
            left = until - now()
            ready = wait_readable(waiting, left) if left > 0 else []
            if not ready:
                raise TimeoutError
            if self._stderr in ready:
                self._tail += self._take(self._stderr)
                del self._tail[:-TAIL_BYTES]
            if self._stdout in ready and (piece := self._take(self._stdout)):
                return piece
            if ready == [self._end]:
                return b""

    def read_line(self, *, until: float) -> bytes:
        """Return the next line of its standard output, without its end; empty once the process has ended.

        Raises as `read`.
        """
        while b"\n" not in self._line and (piece := self.read(until=until)):
            self._line += piece
        line, end, self._line = self._line.partition(b"\n")
        return line if end else b""

    def _take(self, stream: int) -> bytes:
        piece = os.read(stream, 2**16)
        if not piece:
            self._open.remove(stream)
        return piece

    def kill(self) -> None:
        """End it, with everything that it started and that has not left its process group; idempotent.

        Where it has ended by itself, `returncode` is still its own: its group goes before it is waited for.
        """
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # what was not sent
                    stream.close()
        if self._end is not None:
            os.close(self._end)
            self._end = None


def run_child(
    command: Sequence[str],
    *,
    seconds: float,
    request: bytes = b"",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    max_output: int = MAX_OUTPUT,
) -> Outcome:
    """Run `command` to its end and say how it ended; nothing is raised where it fails, however it does.

    Args:
        seconds: the deadline; a child that is later is killed.
        request, environment, folder: as for `ChildProcess`.
        max_output: bytes of standard output beyond which it is killed.

    Raises:
        Cancelled: the token in force is set; the child has been killed.
    """
    started = now()
    output = bytearray()
    cause: Cause = ""
    try:
        with ChildProcess(command, request=request, environment=environment, folder=folder) as child:
            try:
                while not cause and (piece := child.read(until=started + seconds)):
                    output += piece
                    cause = "output" if len(output) > max_output else ""
            except TimeoutError:
                cause = "late"
    except OSError as error:
        reason = error.strerror or str(error)
        return Outcome(cause="start", failure=f"could not be started: {reason}", tail=reason)
    tail = child.tail
    failure = f"took longer than {seconds:g} s" if cause == "late" else ""
    if cause == "output":
        failure = f"wrote more than {max_output} bytes"
    if not cause:
        cause, failure = explain_end(child.returncode, tail)
    return Outcome(
        output=bytes(output),
        returncode=child.returncode,
        tail=tail,
        seconds=now() - started,
        cause=cause,
        failure=failure,
    )


def explain_end(returncode: int | None, tail: str = "") -> tuple[Cause, str]:
    """Why a process ended, as `Outcome.cause` and `Outcome.failure`; both "" for exit code 0 and for None.

    Args:
        tail: the end of what it printed on standard error.
    """
    if not returncode:
        return "", ""
    if returncode > 0:
        line = tail.splitlines()[-1].strip() if tail.strip() else ""
        if means_out_of_memory(line):
            return "memory", "ran out of memory"
        return "exit", f"ended with exit code {returncode}" + (f": {line}" if line else "")
    name = signal_name(-returncode)
    if name == "SIGXCPU":
        return "cpu", "used more processor time than it was given"
    if name == "SIGKILL":
        return "memory", "was killed, most likely for want of memory"
    return ("memory", "ran out of memory") if means_out_of_memory(tail) else ("crashed", f"crashed ({name})")


def serve(answer: Callable[[bytes], bytes], *, limits: Callable[[bytes], Limits] | None = None) -> int:
    """Return the main function of a child: reads the request from stdin, writes the answer to stdout; returns the
    exit code.

    What libraries print on stdout goes to stderr. An exception is one line on stderr and exit code 1.

    Args:
        limits: request → what this process may use from here on.
    """
    request = sys.stdin.buffer.read()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        if limits is not None:
            limits(request).apply()
        told = answer(request)
    except Exception as error:  # whatever a library raises
        text = " ".join(str(error).split()) or type(error).__name__
        sys.stderr.write(f"\n{'MemoryError: ' if isinstance(error, MemoryError) else ''}{text[:2000]}\n")
        return 1
    with os.fdopen(stdout, "wb") as stream:
        stream.write(told)
    return 0
