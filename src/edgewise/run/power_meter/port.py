"""The port of a power meter: a serial device, a TCP connection, or a file that another program writes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import socket
from typing import Any

CONNECT_S = 5.0
LONGEST_LINE = 1000
"""Bytes. A longer line is garbage."""
_MOST_READS = 64


class Port:
    """An open port, locked against a second reader. No call waits for data.

    Args:
        scheme: ``serial``, ``tcp`` or ``file``.
        address: a path, or ``HOST:PORT``.
        baud: speed of a serial device, 1/s.

    Raises:
        OSError: the port does not exist, can't be opened, or another reader uses it; see `reason_of`.
        ImportError: pyserial, which serial devices need, is missing.
    """

    def __init__(self, scheme: str, address: str, *, baud: int) -> None:
        self._scheme = scheme
        self._opened: Any
        if scheme == "serial":
            import serial

            self._opened = serial.Serial(address, baud, timeout=0, exclusive=True)
        elif scheme == "tcp":
            host, _, number = address.rpartition(":")
            self._opened = socket.create_connection((host.strip("[]"), int(number)), timeout=CONNECT_S)
            self._opened.setblocking(False)
        else:
            self._opened = open(address, "rb", buffering=0, opener=_open_at_end)  # noqa: SIM115 - closed by close
        self._file: int = self._opened.fileno()
        self._buffer = b""
        self._at_start = False  # of a line
        if scheme == "file":
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.close()
                raise

    def close(self) -> None:
        """Close the port and release its lock. Every later call raises OSError."""
        self._opened.close()
        self._file = -1  # the number may soon be that of another file

    def send(self, command: str) -> None:
        """Write a command and an end of line. Raises OSError."""
        os.write(self._file, command.encode() + b"\r\n")

    def flush(self) -> None:
        """Drop everything that has arrived. Raises OSError."""
        last = self._buffer
        for _ in range(_MOST_READS):
            if not (data := self._read()):
                break
            last = data
        self._at_start = last.endswith(b"\n") if last else self._at_start
        self._buffer = b""

    def lines(self) -> list[str]:
        """Return the lines that have ended since the last call. Raises OSError.

        The first one is left out if its start was not seen.
        """
        *lines, self._buffer = (self._buffer + self._read()).split(b"\n")
        if lines and not self._at_start:
            del lines[0]
            self._at_start = True
        if len(self._buffer) > LONGEST_LINE:
            lines, self._buffer = [*lines, self._buffer], b""
        return [line[:LONGEST_LINE].decode(errors="replace").strip("\r\0 ") for line in lines]

    def _read(self) -> bytes:
        try:
            data = os.read(self._file, 2**16)
        except BlockingIOError:
            return b""
        if not data and self._scheme == "tcp":
            raise OSError(errno.ECONNRESET, "")
        if not data and self._scheme == "serial" and _hung_up(self._file):
            raise OSError(errno.ENODEV, "")
        return data


def _hung_up(file: int) -> bool:
    """Whether a serial device is gone: reading from it gives nothing, as it does without data."""
    poller = select.poll()
    poller.register(file, 0)
    return bool(poller.poll(0))


def reason_of(error: OSError) -> str:
    """Return why a port can't be used, for people."""
    if error.errno == errno.EAGAIN:
        return "another reader uses it"
    return os.strerror(error.errno) if error.errno else str(error)


def _open_at_end(path: str, flags: int) -> int:
    """Open without waiting for a writer, behind what a file has already."""
    file = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    with contextlib.suppress(OSError):
        os.lseek(file, 0, os.SEEK_END)
    return file
