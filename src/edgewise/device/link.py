"""The host's side of the agent on a target: requests and files over the streams of one process."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from edgewise.cancellation import wait_readable, wait_writable
from edgewise.clock import now
from edgewise.device.supervisor import GRACE
from edgewise.device.transport import Process, Remote
from edgewise.text import means_disk_full

BLOCK = 2**16
SILENCE_S = 30.0
"""A link over which nothing moves for this long is lost."""
MOST_ANSWER = 2**20
FREE_SPACE = (
    "free space on the device: ~/edgewise/cache there can be deleted; 'edgewise devices check' tells what is free"
)
PINGS = 5
MOST_DRIFT = 5e-4
"""Seconds per second that two clocks drift apart at most: the kernel corrects a clock no faster (adjtimex(2))."""


class LinkLost(OSError):
    """The connection to a target dropped."""


class LinkGone(LinkLost):
    """The connection dropped, and no new one could be made for a while."""


class TargetError(OSError):
    """The target could not do what was asked, as with a full disk; `advice`: what the user can do, "" if nothing."""

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class Unreachable(TargetError):
    """No connection to the target can be made now: it is switched off, restarts, or the network is down."""


class NotAdmitted(TargetError):
    """The target answers, but no connection is made: its host key is not accepted, or it denies the login."""


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How far a target's clocks are ahead of this machine's.

    Attributes:
        monotonic_ns: of the monotonic clock.
        wall_s: of the time of day.
        error_s: half the shortest round trip: the most that either can be off by, without drift.
        at: when it was measured, on this machine's monotonic clock, s.
    """

    monotonic_ns: int
    wall_s: float
    error_s: float
    at: float

    def jumps(self, later: ClockOffset) -> tuple[float, float]:
        """By how much the monotonic clock and the time of day jumped until `later`, s; error and drift are none.

        Only the difference of both machines' clocks is known, so it may be this machine's clock that jumped.
        """
        allowed = self.error_s + later.error_s + MOST_DRIFT * (later.at - self.at)
        changes = (later.monotonic_ns - self.monotonic_ns) / 1e9, later.wall_s - self.wall_s
        monotonic_s, wall_s = (change if abs(change) > allowed else 0.0 for change in changes)
        return monotonic_s, wall_s


class Link:
    """A connection to an agent. Raises `LinkLost` from every method once the connection is gone.

    Attributes:
        sent_bytes, received_bytes: over this connection so far.
        python: the interpreter's path and version, as the agent tells them.
    """

    def __init__(self, transport: Remote) -> None:
        self.sent_bytes = self.received_bytes = 0
        self._buffer = bytearray()
        self._files = TemporaryDirectory(prefix="edgewise-link-", ignore_cleanup_errors=True)
        source = resources.files("edgewise.device").joinpath("agent.py").read_text(encoding="utf-8")
        root = str(transport.home / "edgewise")
        try:
            self._process = transport.start(
                [*transport.python, "-c", source, root],
                folder=transport.home,
                environment={GRACE: "1"},  # to remove its work folders
                stderr=Path(self._files.name) / "stderr",
            )
        except BaseException:
            self._files.cleanup()
            raise
        os.set_blocking(self._process.stdin.fileno(), False)
        try:
            self.python: Mapping[str, str] = self._read_answer()
        except LinkLost as error:
            told = self._last_words()
            self.close()
            if told:
                raise TargetError(told) from error
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the agent, which removes its work folders."""
        # Closing its input lets it clean up; one that does not end is killed.
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError, OSError):
            self._process.wait(2.0)
        self._process.kill()
        self._files.cleanup()

    def _last_words(self) -> str:
        """Return the last line of an agent that ended with an error; empty where the link is the reason."""
        with contextlib.suppress(TimeoutError, OSError):
            self._process.wait(2.0)
            if (self._process.returncode or 0) > 0:
                told = self._process.stderr.read_text(errors="replace").strip().splitlines()
                return " ".join(told[-1:])[-300:] or f"the agent ended with exit code {self._process.returncode}"
        return ""

    def request(self, do: str, **fields: Any) -> Answer:
        """Return the answer to a request. Raises `TargetError` with the target's reason."""
        self._write(_line(do, fields))
        return self._read_answer()

    def send(self, content: BinaryIO, do: str, *, size: int, **fields: Any) -> None:
        """Send `size` bytes of `content` with the request that announces them. Raises `TargetError`."""
        try:
            self._write(_line(do, {**fields, "size": size}))
            while size:
                block = content.read(min(BLOCK, size))
                if not block:
                    raise TargetError("the file became shorter while it was sent")
                self._write(block)
                size -= len(block)
        except LinkLost:
            # An agent that can't store the file says why before it ends.
            self._read_answer()
            raise
        self._read_answer()

    def receive(self, target: BinaryIO, do: str, *, most: int, **fields: Any) -> None:
        """Write what the target sends to `target`. Raises `TargetError`, also where it is more than `most` bytes."""
        size = self.request(do, **fields).number("size")
        if not 0 <= size <= most:
            self.close()
            raise TargetError(f"the file has {size} B; at most {most} B are accepted")
        while size:
            if not self._buffer:
                self._buffer += self._read()
            block = bytes(self._buffer[:size])
            del self._buffer[:size]
            target.write(block)
            size -= len(block)

    def measure_clock(self) -> ClockOffset:
        """Return the offset of the target's clocks, from the ping with the shortest round trip."""
        best: ClockOffset | None = None
        for _ in range(PINGS):
            before_wall, before = time.time(), time.monotonic_ns()
            there = self.request("ping")
            after = time.monotonic_ns()
            error = (after - before) / 2e9
            if best is None or error < best.error_s:
                best = ClockOffset(
                    monotonic_ns=there.number("monotonic_ns") - (before + after) // 2,
                    wall_s=there.number("time_ns") / 1e9 - before_wall - error,
                    error_s=error,
                    at=after / 1e9,
                )
        assert best is not None
        return best

    def _write(self, data: bytes) -> None:
        descriptor = self._process.stdin.fileno()
        view = memoryview(data)
        while view:
            if not wait_writable(descriptor, SILENCE_S):
                raise LinkLost("nothing could be sent")
            try:
                count = os.write(descriptor, view)
            except BlockingIOError:
                continue
            except OSError as error:
                raise LinkLost("the link dropped") from error
            self.sent_bytes += count
            view = view[count:]

    def _read(self) -> bytes:
        descriptor = self._process.stdout.fileno()
        if not wait_readable([descriptor], SILENCE_S):
            raise LinkLost("no answer")
        try:
            piece = os.read(descriptor, BLOCK)
        except OSError as error:
            raise LinkLost("the link dropped") from error
        if not piece:
            raise LinkLost("the link dropped")
        self.received_bytes += len(piece)
        return piece

    def _read_answer(self) -> Answer:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > MOST_ANSWER:
                raise TargetError("the target broke the protocol")
            self._buffer += self._read()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            answer = json.loads(line)
            error = answer.get("error")
        except (ValueError, AttributeError, RecursionError) as problem:
            raise TargetError("the target broke the protocol") from problem
        if error is not None:
            raise TargetError(str(error)[:500], advice=FREE_SPACE if means_disk_full(str(error)) else "")
        return Answer(answer)


class Answer(dict[str, Any]):
    """An answer of an agent; raises `TargetError` for a field that is missing or of the wrong type."""

    def number(self, key: str) -> int:
        """Return a field that is an integer of at most 63 bits, and not negative."""
        value = self[key]
        if not isinstance(value, int) or not 0 <= value < 2**63:
            raise TargetError(f"the target broke the protocol: {key} is not a count")
        return value

    def __missing__(self, key: str) -> Any:
        raise TargetError(f"the target broke the protocol: an answer without {key}")


def read_all(process: Process, *, timeout_s: float, most: int) -> bytes:
    """Return standard output to its end. Raises TimeoutError, ValueError for more than `most` bytes, `Cancelled`."""
    end_by, data = now() + timeout_s, bytearray()
    while True:
        descriptor = process.stdout.fileno()
        if not wait_readable([descriptor], end_by - now() if math.isfinite(end_by) else math.inf):
            raise TimeoutError(f"no answer within {timeout_s:g} s")
        piece = os.read(descriptor, 2**16)
        if not piece:
            return bytes(data)
        data += piece
        if len(data) > most:
            raise ValueError(f"the answer has more than {most} B")


def _line(do: str, fields: Mapping[str, Any]) -> bytes:
    named = {name: str(value) if isinstance(value, PurePath) else value for name, value in fields.items()}
    return json.dumps({"do": do, **named}).encode() + b"\n"
