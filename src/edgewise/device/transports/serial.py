"""Boards at a serial port, ``serial:///dev/ttyACM0?baud=115200``. Workers for them run on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import parse_qsl

from edgewise.device.board import ENCODINGS, Board
from edgewise.device.transports.local import LocalProcess, LocalTransport
from edgewise.errors import BadInput

BAUD = 115200
ENVIRONMENT_VARIABLE = "EDGEWISE_BOARD"
"""The port for a worker: JSON of port, speed and encoding."""


class Serial:
    """Opens ``serial://PATH``; options stand behind ``?`` or in ``devices.toml``."""

    name = "serial"
    settings: Mapping[str, str] = {
        "baud": f"speed of the port, bit/s (default {BAUD})",
        "input": f"bytes that the firmware takes: {', '.join(ENCODINGS)} (default: as the board's model is known to)",
    }

    def open(self, name: str, address: str, settings: Mapping[str, str]) -> SerialTransport:
        """As `edgewise.device.transport.OpensDevices.open`."""
        port, _, query = address.partition("?")
        options = {**dict(parse_qsl(query, keep_blank_values=True)), **settings}
        if unknown := sorted(set(options) - set(self.settings)):
            raise BadInput(f"{name}: unknown option {unknown[0]!r}", advice=f"options: {', '.join(self.settings)}")
        if not port.startswith("/"):
            raise BadInput(f"{name}: {port!r} is not the path of a port", advice="write serial:///dev/ttyACM0")
        baud, encoding = options.get("baud", str(BAUD)), options.get("input")
        if not baud.isascii() or not baud.isdigit() or not 0 < int(baud) < 10**8:
            raise BadInput(f"{name}: baud must be a number of bits per second, not {baud!r}")
        if encoding is not None and encoding not in ENCODINGS:
            raise BadInput(f"{name}: input must be {', '.join(ENCODINGS)}, not {encoding!r}")
        return SerialTransport(name, port, int(baud), encoding)


class SerialTransport:
    """One board: the connection of this process, and workers that connect to it themselves.

    Attributes:
        encoding: of inputs, one of `ENCODINGS`; None where the model of the board decides.
    """

    executor = "serial-board"

    def __init__(self, name: str, port: str, baud: int, encoding: str | None) -> None:
        self.name = name
        self.port = port
        self.baud = baud
        self.encoding = encoding
        self.serial = os.path.realpath(port)
        self._board: Board | None = None

    def connect(self) -> Board:
        """Return the board, greeted once per connection. Raises OSError, `BadInput`, `Unavailable`."""
        if self._board is None:
            board = Board(self.port, self.baud)
            try:
                board.greet()
            except BaseException:
                board.close()
                raise
            self._board = board
        return self._board

    def close(self) -> None:
        """End the connection; the next use makes a new one."""
        if self._board is not None:
            self._board.close()
            self._board = None

    def start(
        self, command: Sequence[str], *, folder: PurePath, environment: Mapping[str, str], stderr: Path
    ) -> LocalProcess:
        """Start a worker on this machine, which gets the port: only one process can have it."""
        self.close()
        told = json.dumps({"port": self.port, "baud": self.baud, "encoding": self.encoding})
        own = {**os.environ, **environment, ENVIRONMENT_VARIABLE: told}
        return LocalTransport().start(command, folder=folder, environment=own, stderr=stderr)
