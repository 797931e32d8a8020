"""What every transport must do: a plug-in's author calls `check_transport` in a test of theirs."""

from __future__ import annotations

import os
import select
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgewise.device.transport import Process, Transport
from edgewise.testing.rules import requiring

_require = requiring("transport")

DEADLINE_S = 30.0
_ALL_BYTES = bytes(range(256)) * 1024


def check_transport(transport: Transport, *, folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Check `transport` against its contract; raises AssertionError naming the breach.

    Args:
        folder: an empty folder for the check's own files.
        environment: variables for the processes; None takes those of this process. The target needs a POSIX shell.
    """
    variables = dict(os.environ if environment is None else environment)
    _require(bool(transport.name), "name is empty")
    for check in (_check_streams, _check_surroundings, _check_kill, _check_crash, _check_timeout, _check_missing):
        place = folder / check.__name__.strip("_")
        place.mkdir()
        check(transport, place, variables)


def _check_streams(transport: Transport, folder: Path, environment: Mapping[str, str]) -> None:
    process = _start(transport, ["sh", "-c", "cat; echo heard >&2; exit 3"], folder=folder, environment=environment)
    try:
        _require(process.returncode is None, "a process has an exit code before its end")
        _require(process.pid > 0, f"pid is {process.pid}")
        # Less than a pipe holds at a time: nobody reads while this writes.
        for start in range(0, len(_ALL_BYTES), 4096):
            piece = _ALL_BYTES[start : start + 4096]
            process.stdin.write(piece)
            process.stdin.flush()
            _require(_read(process, len(piece)) == piece, "bytes do not come back as they were sent")
        process.stdin.close()
        _require(_read(process, 1) == b"", "standard output has no end")
        _require(process.wait(DEADLINE_S) == 3, "the exit code is lost")
        _require(process.returncode == 3, "returncode differs from what wait returned")
        _require(process.stderr.read_bytes() == b"heard\n", "standard error is not in its file")
    finally:
        process.kill()
    _require(process.returncode == 3, "kill after the end changes the exit code")


def _check_surroundings(transport: Transport, folder: Path, environment: Mapping[str, str]) -> None:
    variables = {**environment, "EDGEWISE_CHECK": "a b\tc"}
    process = _start(
        transport, ["sh", "-c", 'printf %s "$EDGEWISE_CHECK"; : > made'], folder=folder, environment=variables
    )
    try:
        _require(_read(process, 5) == b"a b\tc", "environment variables do not arrive as they are")
        _require(process.wait(DEADLINE_S) == 0, "the exit code of a process that ends well is not 0")
    finally:
        process.kill()
    _require((folder / "made").exists(), "the process does not run in the folder")


def _check_kill(transport: Transport, folder: Path, environment: Mapping[str, str]) -> None:
    script = "sh -c 'sleep 1000' & echo up; wait"
    process = _start(transport, ["sh", "-c", script], folder=folder, environment=environment)
    pipe = -1
    try:
        _require(_read(process, 3) == b"up\n", "the process does not speak")
        pipe = os.dup(process.stdout.fileno())
        process.kill()
        _require(process.returncode == -9, f"a killed process has exit code {process.returncode}, not -9")
        # The pipe ends once nobody holds it any more, grandchildren included.
        ready, _, _ = select.select([pipe], [], [], DEADLINE_S)
        _require(bool(ready) and os.read(pipe, 1) == b"", "something that the process started outlives it")
        process.kill()
    finally:
        if pipe >= 0:
            os.close(pipe)
        process.kill()


def _check_crash(transport: Transport, folder: Path, environment: Mapping[str, str]) -> None:
    process = _start(transport, ["sh", "-c", "kill -SEGV $$"], folder=folder, environment=environment)
    try:
        _require(_read(process, 1) == b"", "a crashed process's standard output has no end")
        process.kill()
        _require(process.returncode == -11, f"SIGSEGV gives exit code {process.returncode}, not -11")
    finally:
        process.kill()


def _check_timeout(transport: Transport, folder: Path, environment: Mapping[str, str]) -> None:
    process = _start(transport, ["cat"], folder=folder, environment=environment)
    try:
        try:
            process.wait(0.01)
        except TimeoutError:
            pass
        else:
            _require(False, "wait returns before the process has ended")
        _require(process.returncode is None, "a process that runs on has an exit code")
        process.stdin.close()
        _require(process.wait(DEADLINE_S) == 0, "the end of standard input does not reach the process")
    finally:
        process.kill()


def _check_missing(transport: Transport, folder: Path, environment: Mapping[str, str]) -> None:
    try:
        process = _start(transport, ["edgewise-no-such-command"], folder=folder, environment=environment)
    except OSError:
        return
    process.kill()
    _require(False, "starting a command that does not exist raises no OSError")


def _start(transport: Transport, command: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> Process:
    return transport.start(command, folder=folder, environment=environment, stderr=folder / "stderr")


def _read(process: Process, count: int) -> bytes:
    """`count` bytes of its standard output, fewer at its end; raises AssertionError when it is silent for too long."""
    data = b""
    while len(data) < count:
        ready, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
        _require(bool(ready), "standard output is silent")
        piece: bytes = process.stdout.read1(4096)  # type: ignore[attr-defined]
        if not piece:
            break
        data += piece
    return data
