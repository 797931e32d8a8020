"""Boards of a labgrid: ``labgrid://PLACE`` acquires the place, reaches its board over ssh, and frees it at the end."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import urlsplit

from edgewise.device.agent import lock_file, try_lock
from edgewise.device.holder import holder
from edgewise.device.lease import wait_for_lock
from edgewise.device.link import TargetError
from edgewise.device.transports.ssh import Ssh, SshProcess, SshTransport
from edgewise.errors import BadInput, Unavailable
from edgewise.text import one_line

CLIENT = "labgrid-client"
CLIENT_S = 60.0
"""How long labgrid's client may take."""
_PLACE = re.compile(r"[\w+][\w.+@:/-]*")
_RESOURCE = re.compile(r"^\w+ resource '(.*)' \(.*\):\n((?:[ \t]+.*\n?)+)", re.MULTILINE)
"""Name and description of a resource in what ``show`` prints."""
_OWN = re.compile(r"already acquired place \S+\.$")


class Labgrid:
    """Opens ``labgrid://PLACE``; the settings are those of ssh."""

    name = "labgrid"
    settings: Mapping[str, str] = {**Ssh.settings, "coordinator": "HOST:PORT of labgrid, instead of LG_COORDINATOR"}
    files = Ssh.files

    def open(self, name: str, address: str, settings: Mapping[str, str]) -> LabgridTransport:
        """As `edgewise.device.transport.OpensDevices.open`."""
        if not _PLACE.fullmatch(address):
            raise BadInput(f"{name}: labgrid://{address} names no place", advice=f"'{CLIENT} places' lists them")
        if shutil.which(CLIENT) is None:
            raise Unavailable(f"{name} needs {CLIENT}, which is not installed", advice="pip install labgrid")
        Ssh().open(name, "place", {})  # whether it can be used
        return LabgridTransport(name, address, settings)


class LabgridTransport(SshTransport):
    """Starts processes on the board of one place, which is acquired from the first of them until `close`.

    A place that this user has already acquired at this machine is used, and stays acquired.
    """

    def __init__(self, name: str, place: str, settings: Mapping[str, str]) -> None:
        super().__init__(name, urlsplit("labgrid:"), settings)
        self._place, self._url = place, f"labgrid://{place}"
        self._turn: int | None = None
        self._is_acquired_here = False
        self._acquiring = threading.Lock()

    def start(
        self, command: Sequence[str], *, folder: PurePath, environment: Mapping[str, str], stderr: Path
    ) -> SshProcess:
        """As `SshTransport.start`. Raises `TargetError` where the place can't be had."""
        with self._acquiring:
            if not self._host:
                self._acquire()
        return super().start(command, folder=folder, environment=environment, stderr=stderr)

    def close(self) -> None:
        """End the connections, and free the place if it was acquired here."""
        super().close()
        with self._acquiring:
            self._host = ""
            if self._is_acquired_here:
                self._is_acquired_here = False
                self._run("release")
            if self._turn is not None and self._turn >= 0:
                os.close(self._turn)
            self._turn = None

    def _acquire(self) -> None:
        """Acquire the place and look up its board. Raises `TargetError`, `Cancelled`."""
        if self._turn is None:
            wait_for_lock(self.name, self._take_turn)
        if not self._is_acquired_here:
            code, told = self._run("acquire")
            if code and not _OWN.search(told):
                raise TargetError(f"labgrid: {told}", advice=f"'{CLIENT} who' shows who has acquired which place")
            self._is_acquired_here = not code
        code, told = self._run("show")
        if code:
            raise TargetError(f"labgrid: {told}")
        found = {name: ast.literal_eval(text.strip()) for name, text in _RESOURCE.findall(told)}
        services = {name: one["params"] for name, one in found.items() if one["cls"] == "NetworkService"}
        board = services.get("default") or (next(iter(services.values())) if len(services) == 1 else None)
        if board is None:
            raise TargetError(
                f"the place {self._place} has {len(services) or 'no'} NetworkService, and needs one",
                advice="export one and match it; of several, the one with the name default is used",
            )
        self._port, self._user = board.get("port"), board.get("username")
        self._host = str(board["address"])

    def _take_turn(self) -> str | None:
        """Hold the turn of this place among the commands of this machine, which labgrid takes for one."""
        name = re.sub(r"\W", "_", self._place)
        found = try_lock(lock_file().with_name(f"edgewise-labgrid-{name}.lock"), holder())
        if isinstance(found, str):
            return found
        self._turn = found
        return None

    def _run(self, command: str) -> tuple[int, str]:
        """Return the exit code and output of labgrid's client; of an error the last line. Raises `TargetError`."""
        coordinator = self._settings.get("coordinator")
        words = [CLIENT, *(["-x", coordinator] if coordinator else []), f"--place={self._place}", command]
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, errors="replace", timeout=CLIENT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise TargetError(f"{CLIENT} did not end within {CLIENT_S:g} s", advice="check the coordinator") from error
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            return done.returncode, one_line(lines[-1].removeprefix(f"{CLIENT}: Error: "))
        return 0, done.stdout
