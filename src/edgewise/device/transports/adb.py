"""Android devices through the ``adb`` executable: programs in the device's shell, and processes of a Python there.

The shell protocol (version 2) keeps standard output, standard error and the exit code apart. A client whose link drops
exits with 0 all the same, so the device's shell prints the exit code behind a mark.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO

from edgewise.device.link import LinkLost, TargetError, Unreachable, read_all
from edgewise.device.supervised import await_start, python_advice, supervisor_words
from edgewise.device.transport import ShellResult
from edgewise.device.transports.local import LocalProcess, LocalTransport
from edgewise.errors import BadInput, Unavailable
from edgewise.folders import job_folder
from edgewise.text import means_disk_full, one_line

FOLDER = "/data/local/tmp"
"""The only folder of a device in which its shell user may write and execute files."""
START_S = 30.0
END_S = 15.0
LEAST_RATE = 2**20
"""A push that is slower, in B/s, counts as a lost link."""
MOST_TOLD = 2**16
_EXIT = "edgewise-exit"
_SCRIPT = f"""exec 3<&0
{{{{ cat <&3; kill -9 -$$; }}}} >/dev/null 2>&1 &
{{line}}
echo {_EXIT} $? >&2
kill $! 2>/dev/null"""
"""A command line whose processes are killed when its input ends: its client was killed, or the link dropped."""
_SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:%\[\]()-]{0,127}")

_ADVICE: Sequence[tuple[str, type[TargetError], str]] = (
    ("unauthorized", TargetError, "unlock the device and accept this computer's key; then 'adb devices' says 'device'"),
    ("no permissions", TargetError, "allow this user to use the USB device (udev rules), then 'adb kill-server'"),
    ("offline", Unreachable, "reconnect the device, or restart adb with 'adb kill-server'"),
    ("still authorizing", Unreachable, "wait a moment and try again"),
    ("more than one", TargetError, "name one: adb://SERIAL; 'adb devices' lists them"),
    ("no devices", Unreachable, "connect the device and switch on USB debugging in its developer options"),
    ("not found", Unreachable, "check the cable and the serial; 'adb devices' lists what is connected"),
    ("daemon", TargetError, "check that 'adb devices' works, and ADB_SERVER_SOCKET if it is set"),
    ("doesn't support", TargetError, "Android 8 or newer is needed"),
)
"""Part of adb's error message → the kind of error, and what to do about it."""


class Adb:
    """Opens ``adb://SERIAL``; without a serial, the only device that is connected."""

    name = "adb"
    settings: Mapping[str, str] = {
        "python": "path of a Python interpreter there (Termux), for engines that run in Python",
        "benchmark_model": "path of LiteRT's tool there, or of a file here that is sent there",
        "onnxruntime_perf_test": "path of ONNX Runtime's tool there, or of a file here that is sent there",
    }

    def open(self, name: str, address: str, settings: Mapping[str, str]) -> AdbTransport:
        """As `edgewise.device.transport.OpensDevices.open`."""
        if address and not _SERIAL.fullmatch(address):
            raise BadInput(f"{name}: adb://{address} names no device", advice="write adb://SERIAL, from 'adb devices'")
        program = shutil.which("adb")
        if program is None:
            advice = "install Android's platform tools (Debian, Ubuntu: apt install adb) and put adb into the PATH"
            raise Unavailable(f"{name} needs adb, which is not installed", advice=advice)
        return AdbTransport(name, program, address, settings)


class AdbTransport:
    """Runs programs and starts processes on one device.

    Args:
        program: path of ``adb`` on this machine.
        serial: of the device; "" for the only one.
        settings: see `Adb.settings`.
    """

    executor = "device-tools"
    home: PurePath = PurePosixPath(FOLDER)

    def __init__(self, name: str, program: str, serial: str, settings: Mapping[str, str]) -> None:
        self.name = name
        self.serial = serial or "only"
        self.python: Sequence[str] = (settings["python"],) if "python" in settings else ()
        self.programs = {key: value for key, value in settings.items() if key != "python"}
        self._adb = [program, *(["-s", serial] if serial else [])]

    def shell(self, line: str, *, timeout_s: float, most: int) -> ShellResult:
        """As `edgewise.device.transport.RunsPrograms.shell`."""
        told, output = self._run(["shell", "-T", _SCRIPT.format(line=line)], timeout_s=timeout_s, most=most)
        errors, code = split_exit(told)
        if code is None:
            raise _explained(output + errors)
        return ShellResult(code=code, output=output, errors=errors)

    def push(self, file: Path, path: str) -> None:
        """As `edgewise.device.transport.RunsPrograms.push`."""
        patience = START_S + file.stat().st_size / LEAST_RATE
        try:
            told, output = self._run(["push", str(file), path], timeout_s=patience, most=MOST_TOLD)
        except TimeoutError as error:
            raise LinkLost(f"{file.name} was not sent within {patience:.0f} s") from error
        words = output + told
        if "error:" in words:
            if means_disk_full(words):
                message = f"{file.name} can't be sent: no space left on the device"
                raise TargetError(message, advice=f"remove files below {FOLDER} there, such as {FOLDER}/edgewise")
            raise _explained(words)

    def start(
        self, command: Sequence[str], *, folder: PurePath, environment: Mapping[str, str], stderr: Path
    ) -> AdbProcess:
        """As `edgewise.device.transport.Transport.start`.

        Raises:
            Unreachable: the device is not connected.
            TargetError: it is not authorized, or its Python can't be used.
            LinkLost: the connection dropped.
        """
        if not self.python:
            advice = "edgewise devices add NAME adb://SERIAL --set python=PATH; or use ⟦runtime=benchmark_model⟧"
            raise TargetError("the device has no Python set, which this needs", advice=advice)
        words = [*self.python, "-c", *supervisor_words(command, folder=folder, environment=environment)]
        line = f"{shlex.join(words)}\necho {_EXIT} $? >&2"
        process = _start([*self._adb, "shell", "-T", line], stderr)
        pid = await_start(
            process, self.python[0], timeout_s=START_S, advice=python_advice(self.name),
            explain=lambda printed: self._python_error(process),
        )  # fmt: skip
        return AdbProcess(process, pid=pid)

    def _python_error(self, process: LocalProcess) -> OSError:
        """Why the supervisor did not start."""
        with contextlib.suppress(TimeoutError):
            process.wait(END_S)
        process.kill()
        errors, code = split_exit(_text_of(process.stderr))
        if code is None:
            return _explained(errors)
        reason = " ".join(errors.strip().splitlines()[-1:])[-300:] or f"exit code {code}"
        return TargetError(f"no process can be started: {one_line(reason)}", advice=python_advice(self.name))

    def _run(self, words: Sequence[str], *, timeout_s: float, most: int) -> tuple[str, str]:
        """Return standard error and standard output of an adb command, which may start adb's server first."""
        with job_folder() as folder:
            process = _start([*self._adb, *words], folder / "stderr")
            try:
                output = read_all(process, timeout_s=timeout_s, most=most)
                process.wait(END_S)
            except ValueError as error:
                raise TargetError(str(error)) from error
            finally:
                process.kill()
            return _text_of(process.stderr), output.decode(errors="replace")


def _explained(words: str) -> OSError:
    """Return the error for what adb printed; without a message of its own, the link was lost."""
    found = re.findall(r"^(?:adb: )?error: .*|.*(?:cannot connect to|failed to start) daemon.*", words, re.MULTILINE)
    if not found:
        return LinkLost("the link dropped: the device was unplugged, or adb lost it")
    message = one_line(found[-1])[:300]
    for part, kind, advice in _ADVICE:
        if part in message:
            return kind(message, advice=advice)
    lost = re.search(r"\b(closed|EOF|reset|protocol fault)\b", message)
    return LinkLost(message) if lost else TargetError(message)


class AdbProcess:
    """A process on a device, as the caller sees it.

    Attributes:
        link_lost: whether the connection dropped before the process had ended.
        returncode: None until `wait` or `kill` has seen the end.
    """

    def __init__(self, client: LocalProcess, *, pid: int) -> None:
        self.pid = pid
        self.stdin: BinaryIO = client.stdin
        self.stdout: BinaryIO = client.stdout
        self.stderr = client.stderr
        self.link_lost = False
        self.returncode: int | None = None
        self._client = client
        self._seen = False

    def end_descriptor(self) -> int:
        """As `edgewise.device.transport.TellsEnd.end_descriptor`."""
        return self._client.end_descriptor()

    def wait(self, timeout: float | None = None) -> int:
        """As `edgewise.device.transport.Process.wait`; TimeoutError also where the link was lost."""
        self._client.wait(timeout)
        self._conclude()
        if self.returncode is None:
            raise TimeoutError("the link is lost")
        return self.returncode

    def kill(self) -> None:
        """As `edgewise.device.transport.Process.kill`; without its client, the supervisor there ends the process."""
        self._client.kill()
        self._conclude()

    def _conclude(self) -> None:
        """Read the exit code of the process behind the mark, once."""
        if self._seen:
            return
        self._seen = True
        errors, code = split_exit(_text_of(self.stderr))
        with contextlib.suppress(OSError):
            self.stderr.write_text(errors, encoding="utf-8")
        if code is not None:
            self.returncode = code if code <= 128 else 128 - code
        elif self._client.returncode == -signal.SIGKILL:
            self.returncode = -signal.SIGKILL  # only `kill` does that
        else:
            self.link_lost = True


def split_exit(errors: str) -> tuple[str, int | None]:
    """Return standard error without the mark, and the exit code behind it; None where there is none."""
    *_, found = None, *re.finditer(rf"^{_EXIT} (\d{{1,3}})\r?$", errors, re.MULTILINE)
    return (errors, None) if found is None else (errors[: found.start()], int(found[1]))


def _start(words: Sequence[str], stderr: Path) -> LocalProcess:
    return LocalTransport().start(words, folder=Path("/"), environment=os.environ, stderr=stderr)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
