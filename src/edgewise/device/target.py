"""Where jobs run: files to it and from it, processes on it, its clock. This machine is one such place.

A job has a workspace on its target: a folder of its own with the files that it needs, in which its process runs, and
which is removed afterwards. On this machine nothing is copied, and the installed package runs. To another machine,
files go over by content: what the target's cache has is not sent again, and what was cut off goes on where it stopped.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, Protocol, Self, TypeVar, cast

from edgewise.cancellation import sleep
from edgewise.clock import now
from edgewise.device.agent import count_oom_kills
from edgewise.device.bundle import make_bundle
from edgewise.device.devices import find_device, open_transport
from edgewise.device.environment_maker import FOREIGN
from edgewise.device.link import ClockOffset, Link, LinkGone, LinkLost, TargetError, Unreachable
from edgewise.device.transport import Closes, Process, Remote, Transport
from edgewise.errors import Unavailable
from edgewise.progress import LogLine, emit

MOST_RECONNECTS = 20
"""A push is continued over this many new connections, as long as each of them moves something."""
CLOCK_FRESH_S = 5.0
"""Clocks drift and jump: an older offset is measured again before it is used."""
MOST_PULLED = 2**30
RETURN_S = 60.0
"""How long a target that was reached before may be gone: it restarts, or its network does."""
RETRY_S = 2.0

LAUNCH = (
    "import os, sys, time; os.environ['EDGEWISE_SPAWNED_NS'] = str(time.monotonic_ns());"
    "os.execv(sys.executable, [sys.executable, '-P', *sys.argv[1:]])"
)
"""Notes when the process began by the target's own clock, so that no latency of the link is in its start-up."""

Result = TypeVar("Result")


@dataclass(slots=True, kw_only=True)
class LinkUse:
    """What a job moved over the link to its target.

    Attributes:
        pushed_bytes: of the worker, the model and the inputs, sent because the target did not have them.
        kept_bytes: of the same files, which the target's cache had.
        push_s: how long making sure that they are there took.
        sent_bytes, received_bytes: over the link in all, requests and messages included.
        clock_offset_s, clock_error_s: of the target's monotonic clock before the job.
    """

    pushed_bytes: int = 0
    kept_bytes: int = 0
    push_s: float = 0.0
    sent_bytes: int = 0
    received_bytes: int = 0
    clock_offset_s: float = 0.0
    clock_error_s: float = 0.0
    wall_offset_s: float = 0.0


class Workspace(Protocol):
    """A folder on a target for one job, removed when its context is left.

    Attributes:
        path: the folder there.
        use: what went over the link; None on this machine.
    """

    path: PurePath
    use: LinkUse | None

    def __enter__(self) -> Self:
        """Itself."""

    def __exit__(self, *error: object) -> None:
        """Remove the folder."""

    def send(self, file: Path) -> None:
        """Put a file of the host's folder into it, under the same name. Raises OSError."""

    def pull(self, name: str) -> None:
        """Move a file from it into the host's folder, under the same name. Raises OSError."""

    def start(self, module: str, *, environment: Mapping[str, str] | None = None) -> Process:
        """Start ``main`` of a module of edgewise in it, with more environment variables. Raises OSError."""

    def oom_kills(self) -> int:
        """How many processes the kernel there has killed for want of memory since it started; 0 where it can't tell."""

    def clock_jumps(self) -> tuple[float, float]:
        """As `ClockOffset.jumps`, since the workspace was made; 0 on this machine. Raises OSError."""


class Target(Protocol):
    """A place where jobs run.

    Attributes:
        name: of the transport to it.
        is_here: whether it is this machine.
    """

    name: str
    is_here: bool

    def workspace(self, folder: Path, files: Mapping[str, Path] | None = None) -> Workspace:
        """Return a new workspace that has `files`, name → file on this machine.

        `folder`: the host's folder for the job: standard error and pulled files come there. Raises OSError where the
        files can't be brought there; `LinkLost` where the link drops for good.
        """

    def locate(self, workspace: Workspace, name: str, file: Path) -> str:
        """Return the path there of one of the files of a workspace."""


class LocalWorkspace:
    """The host's folder is the workspace, and files stay where they are."""

    use: LinkUse | None = None

    def __init__(self, transport: Transport, folder: Path) -> None:
        self.path: PurePath = folder
        self._folder = folder
        self._transport = transport

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the folder: it belongs to the caller."""

    def send(self, file: Path) -> None:
        """Do nothing: the file is there."""

    def pull(self, name: str) -> None:
        """Do nothing: the file is there."""

    def start(self, module: str, *, environment: Mapping[str, str] | None = None) -> Process:
        """Start the module of the installed package."""
        # What an engine leaves among temporary files goes with the folder, however the process ends.
        own = {**os.environ, **(environment or {}), "TMPDIR": str(self._folder)}
        return self._transport.start(
            command_of(module), folder=self._folder, environment=own, stderr=self._folder / "stderr"
        )

    def oom_kills(self) -> int:
        """From ``/proc/vmstat``."""
        with contextlib.suppress(OSError):
            return count_oom_kills()
        return 0

    def clock_jumps(self) -> tuple[float, float]:
        """None: there is no other clock to compare with."""
        return 0.0, 0.0


def command_of(module: str) -> Sequence[str]:
    """Return what runs ``main`` of a module of the installed package on this machine."""
    return sys.executable, "-P", "-m", module


class LocalTarget:
    """This machine, through a transport that starts processes on it; also a device beside it that runs none."""

    is_here = True

    def __init__(self, transport: Transport) -> None:
        self.name = transport.name
        self.transport = transport

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def workspace(self, folder: Path, files: Mapping[str, Path] | None = None) -> LocalWorkspace:
        """`folder` itself."""
        del files
        return LocalWorkspace(self.transport, folder)

    def locate(self, workspace: Workspace, name: str, file: Path) -> str:
        """Where it is."""
        del workspace, name
        return str(file)


class RemoteTarget:
    """Another machine, reached through an agent that a transport starts there."""

    is_here = False

    def __init__(self, transport: Remote) -> None:
        self.name = transport.name
        self.transport = transport
        self._link: Link | None = None
        self._clock: ClockOffset | None = None
        self._bundle: str | None = None
        self._reached = False
        self._closed_bytes = 0, 0
        self._hold: Callable[[], None] | None = None

    def close(self) -> None:
        """End the connection; the next use makes a new one."""
        link, self._link, self._bundle, self._clock = self._link, None, None, None  # a restart sets the clock anew
        if link is not None:
            self._closed_bytes = self._closed_bytes[0] + link.sent_bytes, self._closed_bytes[1] + link.received_bytes
            link.close()

    def _traffic(self) -> tuple[int, int]:
        """Bytes sent and received over all connections so far."""
        sent, received = self._closed_bytes
        link = self._link
        return (sent, received) if link is None else (sent + link.sent_bytes, received + link.received_bytes)

    @property
    def link(self) -> Link:
        """The connection, made where there is none. Raises OSError."""
        if self._link is None:
            self._link = self._connect()
            self._reached = True
            if self._hold is not None:
                self._hold()  # the agent that had the lock is gone
        return self._link

    def hold(self, holder: str, *, wait: Callable[[Callable[[], str | None]], None]) -> None:
        """Hold the machine's lock there until `release`, also over a new connection. Raises OSError.

        Args:
            holder: who holds it, for those who wait.
            wait: calls its argument until this returns None instead of the holder.
        """

        def attempt() -> str | None:
            answer = self.link.request("lock", holder=holder)
            if why := answer.get("no_lock"):
                report_no_lock(self.name, str(why))
            return None if answer["held_by"] is None else str(answer["held_by"])

        def lock() -> None:
            self._hold = None  # while it waits, a new connection must not wait too
            wait(attempt)
            self._hold = lock

        self.insist(lock)

    def release(self) -> None:
        """Release the lock there; without a connection it is free already."""
        self._hold = None
        if self._link is not None:
            with contextlib.suppress(OSError):
                self._link.request("unlock")

    def unavailable(self, error: Exception) -> Unavailable:
        """Return the error for users, where `error` shows that the target can't be used."""
        advice = (
            getattr(error, "advice", "") or f"check the connection and its Python, {' '.join(self.transport.python)}"
        )
        return Unavailable(f"{self.name} can't be used: {error}", advice=advice)

    def _connect(self) -> Link:
        """Return a new connection; a target that was reached before may need some time to come back."""
        give_up = now() + (RETURN_S if self._reached else 0.0)
        while True:
            try:
                return Link(self.transport)
            except Unreachable as error:
                if not self._reached:
                    raise
                if now() >= give_up:
                    self._reached = False  # the next job fails at once where nothing has changed
                    raise LinkGone(f"{self.name} did not come back within {RETURN_S:g} s: {error}") from error
            sleep(RETRY_S)

    def clock(self) -> ClockOffset:
        """Return the offset of its clocks, measured anew where it is not fresh. Raises OSError."""
        if self._clock is None or time.monotonic() - self._clock.at > CLOCK_FRESH_S:  # a reading of the machine's clock
            return self.insist(lambda: self.measure_clock(self.link))
        return self._clock

    def measure_clock(self, link: Link) -> ClockOffset:
        """Return the offset of its clocks, measured now. Raises OSError."""
        self._clock = link.measure_clock()
        return self._clock

    def insist(self, act: Callable[[], Result]) -> Result:
        """Return what `act` gives; once more over a new connection where the link drops. Raises `LinkLost`."""
        try:
            return act()
        except LinkGone:
            raise
        except LinkLost:
            self.close()
        try:
            return act()
        except LinkLost:
            self.close()
            raise

    def workspace(self, folder: Path, files: Mapping[str, Path] | None = None) -> RemoteWorkspace:
        """Return a work folder of the agent's, with links to the contents of `files`."""
        use = LinkUse()
        begin, before = now(), self._traffic()
        worker = self._worker(use)
        contents = {name: digest_of(file) for name, file in (files or {}).items()}
        for name, file in (files or {}).items():
            with file.open("rb") as content:
                self.push(content, contents[name], file.stat().st_size, use)
        use.push_s = now() - begin
        clock = self.clock()
        use.clock_offset_s, use.clock_error_s = clock.monotonic_ns / 1e9, clock.error_s
        use.wall_offset_s = clock.wall_s
        path = PurePosixPath(str(self.insist(lambda: self.link.request("folder"))["path"]))
        for name, sha256 in contents.items():
            self.link.request("place", sha256=sha256, folder=path, name=name)
        sent, received = self._traffic()
        use.sent_bytes, use.received_bytes = sent - before[0], received - before[1]
        return RemoteWorkspace(self, worker, folder, path, use)

    def locate(self, workspace: Workspace, name: str, file: Path) -> str:
        """In the workspace."""
        del file
        return str(workspace.path / name)

    def push(self, content: BinaryIO, sha256: str, size: int, use: LinkUse) -> None:
        """Make sure that the target's cache has a content. Raises `TargetError`, or `LinkLost` for good."""
        had: int | None = None
        for _ in range(MOST_RECONNECTS):
            try:
                found = self.link.request("have", sha256=sha256)
                have = found.number("bytes")
                if had is None:
                    had = have if have <= size else 0
                if not found["complete"]:
                    offset = have if have <= size else 0
                    content.seek(offset)
                    self.link.send(content, "put", sha256=sha256, offset=offset, size=size - offset)
            except LinkGone:
                raise
            except LinkLost:
                self.close()
            except TargetError:
                self.close()  # the agent ends where it can't take what is on its way
                raise
            else:
                use.kept_bytes += had
                use.pushed_bytes += size - had
                return
        raise LinkLost(f"the link to {self.name} dropped {MOST_RECONNECTS} times")

    def _worker(self, use: LinkUse) -> str:
        """Return the folder there with the worker. Raises OSError."""
        bundle = make_bundle()
        sha256 = hashlib.sha256(bundle).hexdigest()
        if self._bundle is None:
            self.push(io.BytesIO(bundle), sha256, len(bundle), use)
            self._bundle = str(self.insist(lambda: self.link.request("unpack", sha256=sha256))["path"])
        else:
            use.kept_bytes += len(bundle)
        return self._bundle


class RemoteWorkspace:
    """A work folder of an agent's.

    Attributes:
        python: the interpreter there that runs what is started; "" is that of the transport.
    """

    python = ""

    def __init__(self, target: RemoteTarget, worker: str, folder: Path, path: PurePath, use: LinkUse) -> None:
        self.path = path
        self.use: LinkUse | None = use
        self._use = use
        self._clock = target.clock()
        self._target = target
        self._worker = worker
        self._folder = folder
        # The folder is gone with its agent: over another connection it can't be reached.
        self._link = target.link

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the folder; where the link is gone, the agent has done so."""
        try:
            self._link.request("remove", folder=self.path)
        except OSError:
            self._target.close()

    def send(self, file: Path) -> None:
        """As `Workspace.send`."""
        before = self._link.sent_bytes
        with file.open("rb") as content:
            self._link.send(content, "write", folder=self.path, name=file.name, size=file.stat().st_size)
        self._use.sent_bytes += self._link.sent_bytes - before

    def pull(self, name: str) -> None:
        """As `Workspace.pull`."""
        before = self._link.received_bytes
        with (self._folder / name).open("wb") as file:
            self._link.receive(file, "read", folder=self.path, name=name, most=MOST_PULLED)
        self._use.received_bytes += self._link.received_bytes - before

    def start(self, module: str, *, environment: Mapping[str, str] | None = None) -> Process:
        """Start the module of the worker that was sent."""
        transport = self._target.transport
        python = [self.python] if self.python else transport.python
        foreign = dict.fromkeys(FOREIGN, "") if self.python else {}  # Python takes no notice of empty ones
        try:
            return transport.start(
                [*python, "-P", "-c", LAUNCH, self._worker, module],
                folder=self.path,
                environment={**foreign, **(environment or {}), "TMPDIR": str(self.path)},
                stderr=self._folder / "stderr",
            )
        except TargetError:
            # A transport may have made a new connection, where this folder does not exist any more.
            self._link.request("ping")
            raise

    def oom_kills(self) -> int:
        """As `Workspace.oom_kills`."""
        try:
            return self._link.request("oom_kills").number("count")
        except OSError:
            return 0

    def clock_jumps(self) -> tuple[float, float]:
        """As `Workspace.clock_jumps`."""
        return self._clock.jumps(self._target.measure_clock(self._link))


def report_no_lock(device: str, why: str) -> None:
    """Report as progress that nothing keeps other measurements from the device."""
    advice = "EDGEWISE_LOCKS there names the folder of locks (default: /tmp)"
    emit(LogLine(text=f"no lock of {device}: {why}, so other measurements there don't wait; {advice}"))


class Kept(Protocol):
    """A target until `close_targets`."""

    transport: Any

    def close(self) -> None:
        """End its connection."""


_TARGETS: dict[str, Kept] = {}


def keep_target(key: str, make: Callable[[], Result]) -> Result:
    """Return the target that `make` made for `key`, the same one until `close_targets`. Raises as `make`."""
    if key not in _TARGETS:
        _TARGETS[key] = cast(Kept, make())
    return cast(Result, _TARGETS[key])


def find_target(name: str) -> LocalTarget | RemoteTarget:
    """Return the target of the device called `name`, the same one until `close_targets`.

    Raises `Unavailable` where there is none, and `BadInput` where its registration can't be used.
    """

    def make() -> LocalTarget | RemoteTarget:
        transport = open_transport(find_device(name))
        return RemoteTarget(transport) if isinstance(transport, Remote) else LocalTarget(transport)

    return keep_target(name, make)


@atexit.register
def close_targets() -> None:
    """End all connections."""
    while _TARGETS:
        target = _TARGETS.popitem()[1]
        target.close()
        if isinstance(target.transport, Closes):
            target.transport.close()


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file in hex, computed once as long as the file does not change. Raises OSError."""
    status = file.stat()
    return _digest(str(file), status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1024)
def _digest(file: str, inode: int, size: int, modified_ns: int) -> str:
    with Path(file).open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
