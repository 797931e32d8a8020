"""A target far away, made of real processes on this machine: for tests of what must not take "here" for granted.

It has another interpreter, which knows the engines and numpy but not edgewise; folders of its own; a clock that is off
and drifts; and one link with latency and a limited rate, which can drop. No network is used. The fixtures make its interpreter once
per test session.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import sys
import threading
import time
import venv
from collections import deque
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import BinaryIO

import pytest

from edgewise.device import target
from edgewise.device.transports.local import LocalProcess, LocalTransport
from installed_package import write_metadata
from patience import wait_for_devices

BLOCK = 4096
IN_FLIGHT = 2**17

_SITE = '''"""Shifts the clocks of this interpreter and limits the size of its files, as the environment says."""

import json, mmap, os, resource, time

offset_ns, drift, begin_ns, begin_wall_ns = json.loads(os.environ.get("FAR_CLOCK", "[0, 0, 0, 0]"))
jumps = [0, 0]
if path := os.environ.get("FAR_JUMPS"):
    with open(path, "rb") as file:
        jumps = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)).cast("q")


def shifted(real, begin, which):
    return lambda: real() + jumps[which] + int(offset_ns + drift * (real() - begin))


for name, begin in {"monotonic": begin_ns, "perf_counter": begin_ns, "time": begin_wall_ns}.items():
    nanoseconds = shifted(getattr(time, name + "_ns"), begin, name == "time")
    setattr(time, name + "_ns", nanoseconds)
    setattr(time, name, lambda nanoseconds=nanoseconds: nanoseconds() / 1e9)
if disk := int(os.environ.get("FAR_DISK", "0")):
    resource.setrlimit(resource.RLIMIT_FSIZE, (disk, disk))
'''


def make_python(folder: Path, *, packages: Sequence[Path]) -> Path:
    """A virtual environment in `folder` that sees `packages`, folders of installed packages; its interpreter.

    Packages that are only linked into those folders, such as an editable edgewise, are not seen.
    """
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "engines.pth").write_text("".join(f"{path}\n" for path in packages))
    (site / "sitecustomize.py").write_text(_SITE)
    return folder / "bin" / "python"


def write_plugin(folder: Path, *, name: str = "far", **settings: object) -> None:
    """Make the `FarTransport` with these settings known as a device, once `folder` is on the path of imports."""
    words = json.dumps({"name": name, **settings}, default=str)
    (folder / "far_plugin.py").write_text(
        f"import json, sys\nsys.path.append({str(Path(__file__).parent)!r})\nfrom far_targets import FarTransport\n"
        f"def transport():\n    return FarTransport(**json.loads({words!r}))\n"
    )
    write_metadata(folder, "far-plugin", {"edgewise.transports": {name: "far_plugin:transport"}})


class FarTransport:
    """Starts processes behind a slow link.

    Attributes:
        passed_bytes: over the link in both directions so far.
        started: the commands, in order.

    Args:
        root: the folder of everything there.
        python: an interpreter from `make_python`.
        latency_s: one way.
        bytes_per_s: in each direction of each process's streams.
        clock_offset_s, clock_drift: of all its clocks; the drift is in seconds per second.
        disk_bytes: no file there can become larger; 0 sets no limit.
        drops: the link drops when these numbers of bytes have passed since the drop before.
    """

    def __init__(
        self,
        *,
        root: str | Path,
        python: str | Path,
        name: str = "far",
        latency_s: float = 0.05,
        bytes_per_s: float = 1e6,
        clock_offset_s: float = 3600.0,
        clock_drift: float = 1e-4,
        disk_bytes: int = 0,
        drops: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.python: Sequence[str] = (str(python),)
        self.home: PurePath = Path(root) / "home"
        Path(self.home).mkdir(parents=True, exist_ok=True)
        self.latency_s, self.bytes_per_s = latency_s, bytes_per_s
        self.passed_bytes = 0
        self.started: list[list[str]] = []
        self.drops = deque(drops)
        self._since = 0
        self._lock = threading.Lock()
        self._live: list[FarProcess] = []
        self._jumps = Path(root) / "jumps"
        self.jump()
        clock = [round(clock_offset_s * 1e9), clock_drift, time.monotonic_ns(), time.time_ns()]
        self._environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "EDGEWISE_LOCKS": str(self.home),
            "FAR_CLOCK": json.dumps(clock),
            "FAR_JUMPS": str(self._jumps),
            "FAR_DISK": str(disk_bytes),
        }

    def start(
        self, command: Sequence[str], *, folder: PurePath, environment: Mapping[str, str], stderr: Path
    ) -> FarProcess:
        """As `edgewise.device.transport.Transport.start`."""
        time.sleep(self.latency_s)  # real time: the link's latency; no test has a deadline near it
        process = LocalTransport().start(
            command, folder=folder, environment={**self._environment, **environment}, stderr=stderr
        )
        self.started.append(list(command))
        far = FarProcess(self, process)
        self._live.append(far)
        return far

    def jump(self, *, monotonic_s: float = 0.0, wall_s: float = 0.0) -> None:
        """Set the monotonic clocks and the time of day there off by this much, at once and in all processes."""
        with self._jumps.open("r+b" if self._jumps.exists() else "wb") as file:
            file.write(struct.pack("=2q", round(monotonic_s * 1e9), round(wall_s * 1e9)))

    def drop(self) -> None:
        """The link drops: no stream of any process carries anything any more."""
        for process in self._live:
            process.lose_link()

    def count(self, size: int) -> None:
        """`size` bytes pass."""
        with self._lock:
            self.passed_bytes += size
            self._since += size
            dropped = bool(self.drops) and self._since >= self.drops[0]
            if dropped:
                self.drops.popleft()
                self._since = 0
        if dropped:
            self.drop()


class FarProcess:
    """A process whose streams go over the link."""

    def __init__(self, transport: FarTransport, process: LocalProcess) -> None:
        self.link_lost = False
        self._process = process
        self.stderr = process.stderr
        reader, writer = os.pipe()
        self.stdin: BinaryIO = os.fdopen(writer, "wb")
        self._relays = [_Relay(transport, reader, os.dup(process.stdin.fileno()))]
        process.stdin.close()
        reader, writer = os.pipe()
        self.stdout: BinaryIO = os.fdopen(reader, "rb")
        self._relays.append(_Relay(transport, os.dup(process.stdout.fileno()), writer))

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code; None once the link is lost, because it is unknown then."""
        return None if self.link_lost else self._process.returncode

    def wait(self, timeout: float | None = None) -> int:
        """As `edgewise.device.transport.Process.wait`."""
        if self.link_lost:
            raise TimeoutError("the link is lost")
        return self._process.wait(timeout)

    def kill(self) -> None:
        """As `edgewise.device.transport.Process.kill`."""
        self._process.kill()
        for stream in (self.stdin, self.stdout):
            with contextlib.suppress(OSError):
                stream.close()
        for relay in self._relays:
            relay.stop()

    def lose_link(self) -> None:
        """Nothing passes any more, and both sides see the end of their streams."""
        if self._process.returncode is None:
            self.link_lost = True
        for relay in self._relays:
            relay.stop()


class _Relay:
    """Carries bytes from one descriptor to another, late and slowly; owns and closes both."""

    def __init__(self, transport: FarTransport, source: int, target: int) -> None:
        self._transport = transport
        self._source, self._target = source, target
        self._stop_reader, self._stop_writer = os.pipe()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End now; what is under way is lost."""
        if not self._stopped:
            self._stopped = True
            os.close(self._stop_writer)

    def _run(self) -> None:
        try:
            with contextlib.suppress(OSError):
                self._carry()
        finally:
            for descriptor in (self._source, self._target, self._stop_reader):
                os.close(descriptor)

    def _carry(self) -> None:
        pending: deque[tuple[float, bytes]] = deque()
        free_at, ended = 0.0, False
        poller = select.poll()
        poller.register(self._stop_reader, select.POLLIN)
        poller.register(self._source, select.POLLIN)
        while not self._stopped and not (ended and not pending):
            now = time.monotonic()
            if pending and pending[0][0] <= now:
                self._write(pending.popleft()[1])
                continue
            if not ended and len(pending) * BLOCK >= IN_FLIGHT:
                poller.unregister(self._source)
            wait_ms = (pending[0][0] - now) * 1000 if pending else None
            ready = [descriptor for descriptor, _ in poller.poll(wait_ms)]
            if not ended and len(pending) * BLOCK >= IN_FLIGHT:
                poller.register(self._source, select.POLLIN)
            if self._source in ready and self._stop_reader not in ready:
                piece = os.read(self._source, BLOCK)
                if not piece:
                    ended = True
                    poller.unregister(self._source)
                    continue
                free_at = max(time.monotonic(), free_at) + len(piece) / self._transport.bytes_per_s
                pending.append((free_at + self._transport.latency_s, piece))

    def _write(self, piece: bytes) -> None:
        view = memoryview(piece)
        while view:
            view = view[os.write(self._target, view) :]
        self._transport.count(len(piece))


@pytest.fixture(scope="session")
def far_python(tmp_path_factory) -> Path:
    found = [find_spec(name) for name in ("numpy", "onnxruntime", "torch")]
    packages = [Path(spec.origin).parents[1] for spec in found if spec is not None]
    return make_python(tmp_path_factory.mktemp("far") / "env", packages=list(dict.fromkeys(packages)))


@pytest.fixture
def far(far_python, tmp_path_factory):
    """A function that makes a far transport with some settings."""
    made = []

    def make(**settings) -> FarTransport:
        made.append(FarTransport(root=tmp_path_factory.mktemp("there"), python=far_python, **settings))
        return made[-1]

    yield make
    target.close_targets()


@pytest.fixture
def far_device(far_python, tmp_path, monkeypatch):
    """A function that makes a far target known as the device ``far``."""

    def register(**settings) -> None:
        folder = tmp_path / "plugin"
        folder.mkdir()
        write_plugin(folder, root=tmp_path / "there", python=far_python, **settings)
        monkeypatch.syspath_prepend(folder)
        wait_for_devices(monkeypatch)

    yield register
    target.close_targets()
    sys.modules.pop("far_plugin", None)
