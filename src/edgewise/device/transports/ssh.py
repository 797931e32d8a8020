"""Processes on another machine over ssh, started there with nothing but its Python.

asyncssh runs on an event loop in a thread of its own; a process's streams are pipes between this thread and the caller.
One connection per device carries all its processes. Host keys are checked against ``known_hosts`` always.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import shlex
import socket
import threading
from collections.abc import Coroutine, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import SplitResult, urlsplit

from edgewise.cancellation import wait_readable
from edgewise.device.link import LinkLost, NotAdmitted, TargetError, Unreachable
from edgewise.device.supervised import await_start, python_advice, supervisor_words
from edgewise.device.transports.local import KEPT_BYTES
from edgewise.errors import BadInput, Unavailable

if TYPE_CHECKING:
    import asyncssh

Result = TypeVar("Result")

CONNECT_S = 15.0
START_S = 30.0
"""How long a process may take until the supervisor reports it."""
KILL_S = 5.0
KEEPALIVE_S, KEEPALIVES = 10.0, 3
"""A device that answers none of this number of messages, this far apart, is lost."""
_UNPACK = "import base64, json, sys; sys.argv[1:] = json.loads(base64.b64decode(sys.argv[1])); exec(sys.argv.pop(1))"
BLOCK = 2**16
BOOTSTRAPPED = "edgewise/venv"
"""The virtual environment, below the home folder there, whose Python is found first."""


class Ssh:
    """Opens ``ssh://[USER@]HOST[:PORT]``. What a URL leaves out comes from ``~/.ssh/config``."""

    name = "ssh"
    settings: Mapping[str, str] = {
        "python": "command of the Python interpreter there",
        "key": "file with the private key",
        "known_hosts": "file with the host keys, instead of ~/.ssh/known_hosts",
        "jump": "USER@HOST:PORT of the host to connect through",
        "emulator": "emulator that the device runs in, such as qemu-system-aarch64: its times are not reported",
    }

    files = ("key",)
    """Those of `settings` that must be files here when a device is registered."""

    def open(self, name: str, address: str, settings: Mapping[str, str]) -> SshTransport:
        """As `edgewise.device.transport.OpensDevices.open`."""
        try:
            parts = urlsplit(f"ssh://{address}")
        except ValueError as error:
            raise BadInput(f"{name}: ssh://{address} names no host", advice="write ssh://USER@HOST:PORT") from error
        try:
            port = parts.port
        except ValueError as error:
            told = f"{address.rpartition(':')[2]!r} is no port, which is a number up to 65535"
            raise BadInput(f"{name}: ssh://{address}: {told}", advice="write ssh://USER@HOST:PORT") from error
        if not parts.hostname or parts.path not in ("", "/") or parts.query or parts.fragment or port == 0:
            raise BadInput(f"{name}: ssh://{address} names no host", advice="write ssh://USER@HOST:PORT")
        if parts.password is not None:
            raise BadInput(f"{name}: a URL must not contain a password", advice="log in with a key or an agent")
        if find_spec("asyncssh") is None:
            raise Unavailable("the ssh transport needs asyncssh", advice="pip install 'edgewise[ssh]'")
        return SshTransport(name, parts, settings)


class SshTransport:
    """Starts processes on one device.

    Args:
        parts: the URL: user name, host name and port, each None for the value in ``~/.ssh/config``.
        settings: see `Ssh.settings`.
    """

    home: PurePath = PurePosixPath("~")

    def __init__(self, name: str, parts: SplitResult, settings: Mapping[str, str]) -> None:
        self.name = name
        self.python: Sequence[str] = (settings.get("python", "python3"),)
        self.emulator = settings.get("emulator")
        self._host, self._port, self._user = parts.hostname or "", parts.port, parts.username
        self._settings, self._url = settings, parts.geturl()
        self._connections: list[asyncssh.SSHClientConnection] = []

    def start(
        self, command: Sequence[str], *, folder: PurePath, environment: Mapping[str, str], stderr: Path
    ) -> SshProcess:
        """As `edgewise.device.transport.Transport.start`.

        Raises:
            Unreachable: no connection can be made.
            TargetError: the host key, the login or Python there is not accepted.
            LinkLost: the connection dropped.
        """
        words = supervisor_words(command, folder=folder, environment=environment)
        try:
            process = _complete(self._start(line_for_shell(self.python[0], words), stderr), START_S + 2 * CONNECT_S)
        except TimeoutError as error:
            raise LinkLost(f"{self.name} did not start a process within {START_S:g} s") from error
        advice = python_advice(self.name)

        def explain(printed: str) -> OSError:
            with contextlib.suppress(TimeoutError):
                process.wait(KILL_S)
            process.kill()
            if process.returncode is None:
                return LinkLost("the link dropped: it ended early")
            # Some programs in place of a shell tell on standard output that no login is possible.
            lines = stderr.read_text(errors="replace").strip().splitlines() or [printed]
            reason = lines[-1][-300:] or f"exit code {process.returncode}"
            return TargetError(f"no process can be started: {reason}", advice=advice)

        process.pid = await_start(process, self.python[0], timeout_s=START_S, advice=advice, explain=explain)
        return process

    def close(self) -> None:
        """As `edgewise.device.transport.Closes.close`."""
        connections, self._connections = self._connections, []
        if connections:
            with contextlib.suppress(TimeoutError):
                _complete(_close(connections), KILL_S, cancellable=False)

    async def _start(self, line: str, stderr: Path) -> SshProcess:
        import asyncssh

        try:
            return SshProcess(await self._open(line), stderr=stderr)
        except (asyncssh.Error, ConnectionError) as error:
            raise LinkLost(f"the link dropped: {error}") from error

    async def _open(self, line: str) -> asyncssh.SSHClientProcess[bytes]:
        """Return a channel with `line` running; over a new connection where the server allows no more on the others."""
        import asyncssh

        self._connections = [each for each in self._connections if not each.is_closed()]
        for connection in reversed(self._connections):
            with contextlib.suppress(asyncssh.ChannelOpenError):
                return await connection.create_process(line, encoding=None)
        connection = await self._connect()
        self._connections.append(connection)
        return await connection.create_process(line, encoding=None)

    async def _connect(self) -> asyncssh.SSHClientConnection:
        import asyncssh

        keys = _KnownHosts(self._settings.get("known_hosts"))
        given: dict[str, Any] = {"username": self._user, "port": self._port, "tunnel": self._settings.get("jump")}
        if "key" in self._settings:
            key = Path(self._settings["key"]).expanduser()
            if not os.access(key, os.R_OK):
                raise NotAdmitted(f"the key {key} can't be read", advice="set key = FILE in devices.toml")
            given["client_keys"] = [str(key)]
        try:
            return await asyncssh.connect(
                self._host, **{name: value for name, value in given.items() if value is not None}, known_hosts=keys,
                connect_timeout=CONNECT_S, login_timeout=CONNECT_S, keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=KEEPALIVES,
            )  # fmt: skip
        except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
            raise keys.explained(self._host, self._port, error, command=self._command()) from error
        except asyncssh.PermissionDenied as error:
            message = f"{self._host} denied the login: {error.reason}"
            raise NotAdmitted(message, advice=self._login_advice()) from error
        except TimeoutError as error:
            message = f"{self._host} did not answer within {CONNECT_S:g} s"
            raise Unreachable(message, advice="check the address, the network and the device") from error
        except (OSError, asyncssh.Error) as error:
            raise self._unreachable(error) from error
        except (ValueError, asyncssh.KeyImportError) as error:
            raise TargetError(f"{self._host}: {error}", advice="check the settings of the device") from error

    def _login_advice(self) -> str:
        """How to be let in, as the user and at the port that were denied."""
        kept = [f" --set {shlex.quote(f'{name}={value}')}" for name, value in self._settings.items() if name != "key"]
        add = f"edgewise devices add {shlex.quote(self.name)} {shlex.quote(self._url)}{''.join(kept)} --set key=FILE"
        return f"name the private key that opens it: {add}; or let it know yours: {self._command('ssh-copy-id')}"

    def _unreachable(self, error: Exception) -> Unreachable:
        """Why no connection was made, and what to check."""
        if isinstance(error, socket.gaierror):
            message = f"the name {self._host} is not known here ({str(error.strerror).lower()})"
            return Unreachable(message, advice="check its spelling and the network, or use the address in numbers")
        # The text of asyncio's errors is Python's own: "[Errno 111] Connect call failed ('127.0.0.1', 22)".
        numbers = dict.fromkeys(map(int, re.findall(r"\[Errno (\d+)\]", str(error))))
        reason = ", ".join(os.strerror(number).lower() for number in numbers) or str(error)
        port = f", port {self._port}" if self._port else ""
        advice = "check the address, the port and that sshd is running there"
        return Unreachable(f"no connection to {self._host}{port}: {reason}", advice=advice)

    def _command(self, program: str = "ssh") -> str:
        """Return the command that connects to the device with its settings: ssh, or one that takes its options."""
        given = {
            "-p": self._port and str(self._port),
            "-i": self._settings.get("key"),
            "-J": program == "ssh" and self._settings.get("jump"),
            "-o": "known_hosts" in self._settings and f"UserKnownHostsFile={self._settings['known_hosts']}",
        }
        words = [word for flag, value in given.items() if value for word in (flag, value)]
        # The shell expands ~ only where it is not quoted.
        quoted = [word if word.startswith("~/") and " " not in word else shlex.quote(word) for word in words]
        return " ".join([program, *quoted, shlex.quote(f"{self._user}@{self._host}" if self._user else self._host)])


def line_for_shell(python: str, words: Sequence[str]) -> str:
    """Return a line for any login shell, tcsh and fish too, that runs the source in ``words[0]`` with the other words.

    `python`: command of the interpreter; ``~/`` at its begin is the home folder there.
    """
    packed = base64.b64encode(json.dumps(list(words)).encode()).decode()
    # The shell expands ~ only where it is not quoted.
    home, python = ('"$HOME"/', python[2:]) if python.startswith("~/") else ("", python)
    script = f'PATH="$HOME/{BOOTSTRAPPED}/bin:$PATH" exec {home}{shlex.quote(python)} -c "{_UNPACK}" {packed}'
    return f"exec sh -c {shlex.quote(script)}"


class _KnownHosts:
    """Looks up a host's keys, notes whether it has any. Raises OSError or ValueError for a missing or broken file."""

    def __init__(self, file: str | None) -> None:
        usual = (Path("~/.ssh/known_hosts").expanduser(), Path("/etc/ssh/ssh_known_hosts"))
        self._files = [each for each in usual if each.is_file()] if file is None else [Path(file).expanduser()]
        self._known, self._named = False, file is not None

    def __call__(self, host: str, address: str, port: int | None) -> Any:
        import asyncssh

        found = asyncssh.match_known_hosts([str(each) for each in self._files] or b"", host, address, port)
        self._known = any(found)
        return found

    def explained(self, host: str, port: int | None, error: Exception, *, command: str) -> TargetError:
        """Why a host key was not accepted; `command` connects with ssh, which asks whether to accept it."""
        words = host if port in (None, 22) else f"[{host}]:{port}"
        file = f" -f {shlex.quote(str(self._files[0]))}" if self._named else ""
        if self._known:
            return NotAdmitted(
                f"the host key of {words} has changed, or another machine answers for it ({error})",
                advice=f"if the device was set up anew: ssh-keygen -R '{words}'{file}, then connect once: {command}",
            )
        return NotAdmitted(
            f"the host key of {words} is not known",
            advice=f"connect once, compare the fingerprint with the device's, and accept it: {command}; or name a file "
            "that has the key: edgewise devices add NAME URL --set known_hosts=FILE",
        )


class SshProcess:
    """A process on a device, as the caller sees it.

    Attributes:
        pid: the number on the device; 0 until the supervisor has reported it.
        link_lost: whether the connection dropped before the process had ended.
    """

    def __init__(self, channel: asyncssh.SSHClientProcess[bytes], *, stderr: Path) -> None:
        self.pid = 0
        self.stderr = stderr
        self.link_lost = False
        self.returncode: int | None = None
        self._channel = channel
        self._end, self._ended = os.pipe()
        source, inward = os.pipe()
        outward, sink = os.pipe()
        self.stdin: BinaryIO = os.fdopen(inward, "wb")
        self.stdout: BinaryIO = os.fdopen(outward, "rb")
        self._task = asyncio.get_running_loop().create_task(self._carry(source, sink))

    def end_descriptor(self) -> int:
        """As `edgewise.device.transport.TellsEnd.end_descriptor`."""
        return os.dup(self._end)

    def wait(self, timeout: float | None = None) -> int:
        """As `edgewise.device.transport.Process.wait`; TimeoutError also where the link was lost."""
        wait_readable([self._end], *([] if timeout is None else [timeout]))
        if self.returncode is None:
            raise TimeoutError("the link is lost" if self.link_lost else f"process {self.pid} has not ended")
        return self.returncode

    def kill(self) -> None:
        """As `edgewise.device.transport.Process.kill`."""
        with contextlib.suppress(OSError):
            self.stdout.close()
        if self._end >= 0:
            with contextlib.suppress(TimeoutError):
                _complete(self._terminate(), KILL_S + 1.0, cancellable=False)
            os.close(self._end)
            self._end = -1
        # Closed last: a process that sees the end of its input may end in its own way first.
        with contextlib.suppress(OSError):
            self.stdin.close()

    async def _terminate(self) -> None:
        """Close the channel: then the supervisor kills the process, and the server still tells how it ended."""
        self._channel.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._task), KILL_S)
        except TimeoutError:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self.link_lost = self.returncode is None

    async def _carry(self, source: int, sink: int) -> None:
        """Connect the pipes with the channel until the process has ended; owns and closes the pipes' far ends."""
        kept = bytearray()
        sending = asyncio.ensure_future(self._send(source))
        try:
            await asyncio.gather(self._receive(sink), self._keep_stderr(kept))
            await self._channel.wait_closed()
            self.returncode = self._channel.returncode
            self.link_lost = self.returncode is None
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending
            with contextlib.suppress(OSError):
                self.stderr.write_bytes(bytes(kept))
            for descriptor in (source, sink, self._ended):
                os.close(descriptor)

    async def _send(self, source: int) -> None:
        """From the caller to the process, up to the end of the stream."""
        with contextlib.suppress(OSError):
            os.set_blocking(source, False)
            while True:
                await _ready(source, write=False)
                piece = os.read(source, BLOCK)
                if not piece:
                    break
                self._channel.stdin.write(piece)
                await self._channel.stdin.drain()
            self._channel.stdin.write_eof()

    async def _receive(self, sink: int) -> None:
        """From the process to the caller; what nobody reads any more is dropped."""
        os.set_blocking(sink, False)
        open_ = True
        while piece := memoryview(await _next_piece(self._channel.stdout)):
            while piece and open_:
                try:
                    piece = piece[os.write(sink, piece) :]
                except BlockingIOError:
                    await _ready(sink, write=True)
                except OSError:
                    open_ = False

    async def _keep_stderr(self, kept: bytearray) -> None:
        """Keep the end of what the process prints on standard error."""
        while piece := await _next_piece(self._channel.stderr):
            kept += piece
            del kept[:-KEPT_BYTES]


async def _next_piece(stream: asyncssh.SSHReader[bytes]) -> bytes:
    """Return what comes next; nothing at the end of the stream and of the connection."""
    import asyncssh

    try:
        return await stream.read(BLOCK)
    except (asyncssh.Error, OSError):
        return b""


async def _ready(descriptor: int, *, write: bool) -> None:
    """Wait until a pipe can be read or written, or its other end was closed."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)


async def _close(connections: Sequence[asyncssh.SSHClientConnection]) -> None:
    for connection in connections:
        connection.close()
    for connection in connections:
        await connection.wait_closed()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all connections, in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="edgewise-ssh", daemon=True).start()
    return loop


def _complete(work: Coroutine[Any, Any, Result], seconds: float, *, cancellable: bool = True) -> Result:
    """Return the result of `work` on the event loop. Raises TimeoutError after `seconds`, `Cancelled` if it can be."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    if not cancellable:
        return future.result(seconds)
    done, finished = os.pipe()
    future.add_done_callback(lambda _: os.close(finished))
    try:
        if not wait_readable([done], seconds):
            raise TimeoutError
        return future.result()
    finally:
        future.cancel()
        os.close(done)
