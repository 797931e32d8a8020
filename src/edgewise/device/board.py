"""A board at a serial port whose firmware speaks the protocol of MLPerf Tiny's runner.

A command ends with ``%``. The board answers with lines and ends its answer with ``m-ready``; a line ``e-[…]`` reports
an error. The protocol is that of MLCommons' repository ``tiny``: ``benchmark/api/internally_implemented.cpp`` on the
board, ``benchmark/runner`` on the host.
"""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.cancellation import wait_readable
from edgewise.clock import now
from edgewise.device.link import LinkLost, TargetError
from edgewise.errors import BadInput, Unavailable
from edgewise.text import one_line

GREET_S = 8.0
"""How long a board may take to boot and to answer ``name``; opening some ports resets the board."""
RETRY_S, QUIET_S = 1.0, 0.2
ANSWER_S = 10.0
LAPS = 16
"""Readings of the timer that tell its step; it seems twice as long where all are even, once in 65,000 boards."""
CHUNK_BYTES = 31
"""Bytes of input in one command: MLCommons' firmware takes commands of up to 80 characters."""
MOST_BYTES, MOST_LINES = 2**22, 10_000
"""Limits of one answer."""
TIMER_WRAP_US = 2**32
LOSES_BYTES = "check whether the port loses characters: the cable, the speed, other programs that read it"
_READY = "m-ready"
_BOOT = re.compile(r"m-init-done|m-timestamp-mode-")
_ENCODINGS = {"ic01": "uint8", "vww01": "uint8", "ad01": "float32"}
"""How MLCommons' firmware of a benchmark model takes its input; others take the bytes of the model's input tensor."""
ENCODINGS = ("tensor", "uint8", "float32")


class BoardRestarted(TargetError):
    """The board printed the text that it prints when it starts, in the middle of an answer."""


class NoAnswer(TimeoutError):
    """The board did not end an answer in time."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an answer and when it arrived, on the monotonic clock, s."""

    text: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Inferences that the board timed together.

    Attributes:
        begin_us, end_us: the board's timer before the first and after the last inference.
        host_s: time between the arrivals of both, on this machine's clock.
        results: the numbers of ``m-results``, of the last inference; empty where the board printed none.
    """

    inferences: int
    begin_us: int
    end_us: int
    host_s: float
    results: tuple[float, ...]

    @property
    def elapsed_us(self) -> int:
        """Time by the board's timer, whose 32 bits may have wrapped once."""
        return (self.end_us - self.begin_us) % TIMER_WRAP_US

    @property
    def mean_ns(self) -> float:
        """Mean time of an inference, ns."""
        return self.elapsed_us * 1000 / self.inferences


class Board:
    """An open port and the board behind it.

    Attributes:
        name, profile, model: as the board reports them, after `greet`; "" where it does not.
        timestamps: every reading of the board's timer so far, µs.
        received_bytes: over the port so far.

    Raises:
        BadInput: a speed that the port does not have.
        TargetError: the port can't be opened.
        Unavailable: pyserial is missing.
    """

    def __init__(self, port: str, baud: int) -> None:
        self.port = port
        self.baud = baud
        self.name = self.profile = self.model = ""
        self.timestamps: list[int] = []
        self.received_bytes = 0
        self._buffer = b""
        self._opened = _open(port, baud)

    def close(self) -> None:
        """Close the port."""
        self._opened.close()

    @property
    def resolution_us(self) -> int:
        """The step of the board's timer as far as its readings show: their greatest common divisor."""
        return math.gcd(*self.timestamps) or 1

    def greet(self) -> None:
        """Wait for the board to boot, drop what it prints then, and read its name and profile. Raises OSError."""
        give_up, before, seen = now() + GREET_S, self.received_bytes, ""
        self.name = ""
        while not self.name:
            if now() >= give_up:
                raise self._stranger(self.received_bytes - before, seen)
            self._send("name")
            until = min(give_up, now() + RETRY_S)
            while not self.name and (line := self._line(until)) is not None:
                found = re.search(r"m-name-[^\[]*\[([^\]]*)\]", line.text)
                self.name = (one_line(found[1])[:100] or "unnamed") if found else ""
                seen = seen or line.text
        self._drain()
        words = " ".join(line.text for line in self.command("profile"))
        told = dict(re.findall(r"m-(profile|model)-\[([^\]]*)\]", words))
        self.profile, self.model = (one_line(told.get(key, ""))[:100] for key in ("profile", "model"))
        for _ in range(LAPS):
            self.timestamps += _laps(self.command("timestamp"))

    def load(self, data: bytes) -> None:
        """Fill the board's input buffer. Raises OSError."""
        self.command(f"db load {len(data)}")
        lines: Sequence[Line] = ()
        for start in range(0, len(data), CHUNK_BYTES):
            lines = self.command(f"db {data[start : start + CHUNK_BYTES].hex()}")
        if not any("m-load-done" in line.text for line in lines):
            raise TargetError(
                f"{self.port}: the board did not confirm {len(data)} B of input with m-load-done",
                advice="check that the firmware was built for this model, and that the port loses no bytes",
            )

    def infer(self, count: int, *, warmup: int, seconds: float) -> Window:
        """Time `count` inferences after `warmup` others, which may take `seconds` altogether. Raises OSError."""
        lines = self.command(f"infer {count} {warmup}", seconds=seconds)
        for line in lines:
            started = re.search(r"m-infer-start-(\d+)", line.text)
            if started and int(started[1]) != count:
                raise TargetError(
                    f"{self.port}: the board made {started[1]} inferences instead of {count}", advice=LOSES_BYTES
                )
        laps, at = _laps(lines), [line.at for line in lines if "m-lap-us-" in line.text]
        if len(laps) != 2:
            raise TargetError(
                f"{self.port}: the answer to 'infer' has {len(laps)} times (m-lap-us) instead of 2",
                advice="the board may have restarted; firmware in energy mode reports no times: use performance mode",
            )
        self.timestamps += laps
        window = Window(
            inferences=count, begin_us=laps[0], end_us=laps[1], host_s=at[1] - at[0], results=_results(lines)
        )
        if not window.elapsed_us or (laps[1] < laps[0] and window.elapsed_us > 1e7 * (window.host_s + 1)):
            raise TargetError(
                f"{self.port}: the board's timer went from {laps[0]} to {laps[1]} µs in {window.host_s:.3g} s",
                advice="check the timer of the firmware; a board that restarts begins at 0 again",
            )
        return window

    def results(self) -> tuple[float, ...]:
        """Return the outputs of the last inference. Raises OSError."""
        return _results(self.command("results"))

    def command(self, text: str, *, seconds: float = ANSWER_S) -> list[Line]:
        """Send a command and return the lines of its answer. Raises `NoAnswer`, `LinkLost`, `TargetError`."""
        self._send(text)
        short, lines, deadline = text[:20], list[Line](), now() + seconds
        begin = self.received_bytes
        while (line := self._line(deadline)) is not None:
            if _BOOT.search(line.text):
                raise BoardRestarted(
                    f"{self.port}: the board restarted during '{short}'",
                    advice="check its power supply and watchdog, then run the command again",
                )
            if _READY in line.text:
                break
            lines += [line] if line.text else []
            if len(lines) > MOST_LINES or self.received_bytes - begin > MOST_BYTES:
                raise TargetError(f"{self.port}: the answer to '{short}' does not end", advice=_advice(self.baud))
        if line is None:
            last = f"; its last line was {lines[-1].text[:60]!r}" if lines else ""
            raise NoAnswer(f"{self.port}: no {_READY} after '{short}' within {seconds:.3g} s{last}")
        for line in lines:
            if re.search(r"(?:^|%)e-\[", line.text):  # some boards echo the command before
                raise TargetError(
                    f"{self.port}: the board answered '{short}' with {one_line(line.text)[:200]}",
                    advice="check that its firmware was built for this model and has all commands of the protocol",
                )
        return lines

    def _send(self, text: str) -> None:
        try:
            self._opened.write(f"{text}%".encode())
        except OSError as error:
            raise LinkLost(f"{self.port} can't be written: the board was unplugged, or takes no data") from error

    def _line(self, deadline: float) -> Line | None:
        """Return the next line; None if it does not end by `deadline`. Raises `LinkLost`, `TargetError`."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > MOST_BYTES:
                raise TargetError(f"{self.port} sends a line without an end", advice=_advice(self.baud))
            try:
                if not wait_readable([self._opened.fileno()], deadline - now()):
                    return None
                data = os.read(self._opened.fileno(), 2**16)
            except OSError:
                data = b""
            if not data:
                raise LinkLost(f"{self.port} is gone: the board was unplugged or switched off")
            self.received_bytes += len(data)
            self._buffer += data
        line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
        return Line(line.decode(errors="replace").strip("\r\0 "), now())

    def _drain(self) -> None:
        """Drop what the board still sends: the end of its boot text, and answers to repeated commands."""
        give_up = now() + GREET_S
        while self._line(now() + QUIET_S) is not None:
            if now() > give_up:
                raise TargetError(f"{self.port}: the board does not stop sending", advice=_advice(self.baud))

    def _stranger(self, count: int, seen: str) -> OSError:
        """Return the error for a board that does not tell its name."""
        if not count:
            return NoAnswer(f"{self.port}: no answer to 'name' within {GREET_S:g} s")
        sample = one_line(seen or self._buffer[:60].decode(errors="replace"))[:60]
        return TargetError(
            f"{self.port} sent {count} B that are not MLPerf Tiny's protocol: {sample!r}", advice=_advice(self.baud)
        )


def encoding_of(model: str, wanted: str | None) -> str:
    """How the board takes its input: as `wanted`, otherwise as MLCommons' firmware for the model called `model`."""
    return wanted or _ENCODINGS.get(model, "tensor")


def advice_of(error: OSError, baud: int) -> str:
    """Return what to do about an error of a board; "" where nothing is known."""
    if isinstance(error, NoAnswer):
        return f"check the port, that the firmware speaks MLPerf Tiny's protocol, and {baud} baud; reset the board"
    return getattr(error, "advice", "") or ("check cable and power" if isinstance(error, LinkLost) else "")


def _advice(baud: int) -> str:
    return f"check the speed: it was {baud} baud; set another with ?baud=N behind the port"


def _laps(lines: Sequence[Line]) -> list[int]:
    found = [re.search(r"m-lap-us-(\d{1,20})", line.text) for line in lines]
    return [int(each[1]) for each in found if each]


def _results(lines: Sequence[Line]) -> tuple[float, ...]:
    """Read the results. Raise `TargetError` for a list with something else than numbers."""
    found = [each[1] for line in lines if (each := re.search(r"m-results-\[([^\]]*)\]", line.text))]
    try:
        return tuple(float(word) for word in found[-1].split(",") if word.strip()) if found else ()
    except ValueError as error:
        message = f"m-results is not a list of numbers: {one_line(found[-1])[:60]!r}"
        raise TargetError(message, advice=LOSES_BYTES) from error


_REASONS = {
    errno.ENOENT: ("does not exist", "connect the board; 'ls /dev/serial/by-id' lists the ports of boards"),
    errno.EACCES: ("may not be used by this user", "sudo usermod -aG dialout $USER, then log in again"),
    errno.EAGAIN: ("is used by another program", "close terminals on this port, or wait for the other measurement"),
    errno.EBUSY: ("is used by another program", "close terminals on this port, or wait for the other measurement"),
}


def _open(port: str, baud: int) -> Any:
    try:
        import serial
    except ImportError as error:
        raise Unavailable("boards at a serial port need pyserial", advice="pip install 'edgewise[serial]'") from error
    try:
        return serial.Serial(port, baud, timeout=0, write_timeout=ANSWER_S, exclusive=True)
    except ValueError as error:
        raise BadInput(f"{port} can't be set to {baud} baud", advice="give a speed that the board uses") from error
    except OSError as error:
        reason, advice = _REASONS.get(error.errno or 0, (f"is not a serial port: {one_line(str(error))[:200]}", ""))
        raise TargetError(f"{port} {reason}", advice=advice) from error
