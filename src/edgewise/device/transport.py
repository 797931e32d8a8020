"""The seam to places where a process can be started: this machine, or a device over ssh, adb or a container.

A transport only starts a process and gives its streams. Everything else that a target needs (files, facts, time) goes
over such streams too, see `edgewise.device.target`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO, Protocol, runtime_checkable

from edgewise.registry import Registry


class Process(Protocol):
    """A process that a transport started. Who started it calls `kill` in the end, however it ended."""

    @property
    def pid(self) -> int:
        """Its number where it runs."""

    @property
    def stdin(self) -> BinaryIO:
        """The writing end of its standard input; closing it is how the process is told to end."""

    @property
    def stdout(self) -> BinaryIO:
        """Its standard output: a buffered reader with ``read1`` and a ``fileno`` that ``select`` takes."""

    @property
    def stderr(self) -> Path:
        """The file with the end of its standard error, on the machine of the caller, once the process has ended."""

    @property
    def returncode(self) -> int | None:
        """The exit code, −N after signal N, None until `wait` or `kill` has seen the end."""

    def wait(self, timeout: float | None = None) -> int:
        """Block until the process has ended, without polling, and return its exit code.

        What it left running is killed. Raises TimeoutError after `timeout` seconds; the process runs on then.
        """

    def kill(self) -> None:
        """End the process and all that it started, reap it and close its streams. May be called at any time, again too.

        A process that had ended before keeps the exit code it ended with.
        """


@runtime_checkable
class TellsEnd(Protocol):
    """A process whose end can be waited for beside other things."""

    def end_descriptor(self) -> int:
        """Return a new descriptor, the caller's to close, that is readable once the process has ended."""


@runtime_checkable
class Pauses(Protocol):
    """A process that can be stopped for a while with all its threads, and still ends when the host does."""

    def pause(self) -> None:
        """Stop all its threads, wherever they are; one that has ended stays so."""

    def resume(self) -> None:
        """Let them go on."""


@runtime_checkable
class LosesLink(Protocol):
    """A process behind a link that can drop.

    Attributes:
        link_lost: whether the link dropped before the process had ended; its exit code is then not known.
    """

    link_lost: bool


class Transport(Protocol):
    """A way to start processes somewhere.

    Where it has an attribute ``executor``, that is the name of what measures on its devices (`edgewise.run.executor`);
    others have a Python that runs workers.

    Attributes:
        name: what records and ``--device`` call it.
    """

    name: str

    def start(
        self, command: Sequence[str], *, folder: PurePath, environment: Mapping[str, str], stderr: Path
    ) -> Process:
        """Start `command` in `folder`.

        Args:
            folder: the working folder, which exists, on the machine of the process.
            environment: environment variables; on this machine the process has no others, elsewhere they are added.
            stderr: a file on this machine that gets the end of the standard error, of bounded size.

        Raises OSError where it can't be started.
        """


class StartsNothing:
    """The part of `Transport` that a device on which no process can be started does not have."""

    name: str

    def start(
        self, command: Sequence[str], *, folder: PurePath, environment: Mapping[str, str], stderr: Path
    ) -> Process:
        """Start the process. Raises OSError."""
        raise OSError(f"no process can be started on {self.name}")


@runtime_checkable
class Remote(Transport, Protocol):
    """A transport to another machine.

    Attributes:
        python: the command of the Python interpreter there.
        home: an existing folder there; edgewise keeps its files below it.
    """

    python: Sequence[str]
    home: PurePath


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellResult:
    """How a command line ended on a device.

    Attributes:
        code: the exit code; 128 + N after signal N.
        output, errors: standard output, and the end of standard error.
    """

    code: int
    output: str
    errors: str


@runtime_checkable
class Attached(Protocol):
    """A transport to a device at this machine that nobody measures from elsewhere.

    Attributes:
        serial: identifies the device on this machine, whatever names it is registered under.
    """

    serial: str


@runtime_checkable
class RunsPrograms(Remote, Attached, Protocol):
    """A transport to a device that runs programs through its shell, and so needs no Python there.

    Attributes:
        executor: ``device-tools``.
        python: empty where the device has no Python that can be used.
        programs: name of a benchmark tool → its path on the device, or a file on this machine to send there.
    """

    executor: str = "device-tools"
    programs: Mapping[str, str]

    def shell(self, line: str, *, timeout_s: float, most: int) -> ShellResult:
        """Run a command line in the device's shell.

        `most`: bytes of standard output that are accepted.

        Raises:
            TimeoutError: it did not end within `timeout_s`; it was killed.
            OSError: no device, or the link dropped; `TargetError` for more output than `most`.
        """

    def push(self, file: Path, path: str) -> None:
        """Copy a file of this machine to `path` on the device, whose folder exists. Raises OSError."""


@runtime_checkable
class TellsEmulator(Protocol):
    """A transport whose settings can name an emulator.

    Attributes:
        emulator: name of the program that emulates the machine; None if none was given.
    """

    emulator: str | None


@runtime_checkable
class SharesMachine(Protocol):
    """A transport to processes of this machine that see other files, such as those in containers.

    Attributes:
        shares_this_machine: whether they share this machine's lock.
    """

    shares_this_machine: bool


@runtime_checkable
class OpensDevices(Protocol):
    """A plug-in that reaches many devices; its name is the scheme of their URLs.

    Attributes:
        name: the scheme, such as ``ssh``.
        settings: name → meaning of what ``devices.toml`` can set besides the URL.
    """

    name: str
    settings: Mapping[str, str]

    def open(self, name: str, address: str, settings: Mapping[str, str]) -> Transport:
        """Return the transport to one device; no connection is made yet.

        Args:
            name: of the device.
            address: the part of its URL behind ``scheme://``.
            settings: of the device, each of them in `settings`.

        Raises `BadInput` for an address or a value that can't be used, `Unavailable` where a package is missing.
        """


@runtime_checkable
class Closes(Protocol):
    """A transport with connections of its own."""

    def close(self) -> None:
        """End all connections; the next process makes a new one."""


def transports() -> Registry[Transport | OpensDevices]:
    """All transports, built-in and plugged in."""
    return Registry("edgewise.transports", "transport")
