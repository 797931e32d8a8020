"""A recorded Android device for tests: an adb server that the real ``adb`` client talks to.

It speaks the client's side of adb's protocol (packages/modules/adb: OVERVIEW.TXT, SERVICES.TXT, SYNC.TXT and
shell_protocol.h): smart-socket requests, the shell protocol version 2, and the sync service. The device's shell is
``sh`` on a folder: paths below ``/data``, ``/proc`` and ``/sys`` are those below the folder. ``getprop``, ``dumpsys``
and benchmark tools are scripts that print recorded text.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
from pathlib import Path

import pytest

from edgewise.device import target
from edgewise.device.supervisor import descendants
from patience import wait_for_devices

ADB = shutil.which("adb")
SERIAL = "31071FDH2000XY"
TMP = "/data/local/tmp"
_IN, _OUT, _ERR, _EXIT, _CLOSE_IN = range(5)

GETPROP = """\
[ro.board.platform]: [zuma]
[ro.build.id]: [AP2A.240805.005]
[ro.build.version.release]: [14]
[ro.build.version.sdk]: [34]
[ro.product.cpu.abi]: [arm64-v8a]
[ro.product.manufacturer]: [Google]
[ro.product.model]: [Pixel 8]
[ro.serialno]: [31071FDH2000XY]
[ro.soc.manufacturer]: [Google]
[ro.soc.model]: [Tensor G3]
"""
BATTERY = """\
Current Battery Service state:
  AC powered: false
  USB powered: true
  Wireless powered: false
  Dock powered: false
  Max charging current: 500000
  Max charging voltage: 5000000
  Charge counter: 3391000
  status: {status}
  health: 2
  present: true
  level: 87
  scale: 100
  voltage: 4312
  temperature: {tenths}
  technology: Li-ion
"""
THERMAL = """\
IsStatusOverride: false
ThermalEventListeners:
\tcallbacks: 1
\tkilled: false
\tbroadcasts count: -1
Thermal Status: {status}
Cached temperatures:
\tTemperature{{mValue=45.979, mType=3, mName=VIRTUAL-SKIN, mStatus=0}}
HAL Ready: true
HAL connection:
\tThermalHAL AIDL 1  connected: yes
Current temperatures from HAL:
\tTemperature{{mValue=36.4, mType=3, mName=VIRTUAL-SKIN, mStatus=0}}
\tTemperature{{mValue=41.25, mType=0, mName=BIG, mStatus=0}}
\tTemperature{{mValue=-99.9, mType=6, mName=TYPE_POWER_AMPLIFIER, mStatus=0}}
Current cooling devices from HAL:
\tCoolingDevice{{mValue=0, mType=2, mName=thermal-cpufreq-0}}
"""
_CORE = "processor\t: {n}\nFeatures\t: fp asimd asimddp i8mm\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n"
FILES = {
    "proc/cpuinfo": "".join(_CORE.format(n=n, part="0xd46" if n < 4 else "0xd47") for n in range(8)),
    "proc/meminfo": "MemTotal:        7832576 kB\nMemAvailable:    3126272 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    "proc/self/status": "Name:\tcat\nCpus_allowed_list:\t0-7\n",
    "proc/loadavg": "1.25 1.10 0.90 2/4000 12345\n",
    "proc/sys/kernel/osrelease": "5.15.137-android14-11\n",
    "sys/devices/system/cpu/online": "0-7\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "sched_pixel\n",
    "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "1704000\n",
}


class AdbServer:
    """One adb server and one device.

    Attributes:
        root: folder with the device's files.
        state: ``device``, or what the server answers instead of a connection to the device.
        disk_full: whether files can't be stored.
        unplug_at: the link drops when a command line contains this text.
        requests: command lines and pushed paths so far.
        shells: numbers of the shells so far.
        environment: more variables of the device's shell.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = "device"
        self.disk_full = False
        self.unplug_at = ""
        self.requests: list[str] = []
        self.environment: dict[str, str] = {}
        self.shells: list[int] = []
        self._live: list[socket.socket] = []
        self.tmp = root / TMP.lstrip("/")
        self.tmp.mkdir(parents=True)
        (root / "bin").mkdir()
        for path, text in FILES.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.script(root / "bin" / "getprop", f"cat <<'END'\n{GETPROP}END")
        self.script(root / "bin" / "uname", "echo aarch64")
        self.set_conditions()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def script(self, file: Path, body: str) -> None:
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)

    def set_conditions(self, *, status: int = 3, tenths: int = 314, thermal: int = 0) -> None:
        """Status of the battery (2 charging, 3 discharging), its temperature, Android's thermal status."""
        texts = BATTERY.format(status=status, tenths=tenths), THERMAL.format(status=thermal)
        body = "case $1 in battery) cat <<'END'\n{}END\n;; thermalservice) cat <<'END'\n{}END\n;; esac".format(*texts)
        self.script(self.root / "bin" / "dumpsys", body)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.unplug()

    def unplug(self) -> None:
        """Drop all connections."""
        live, self._live = self._live, []
        for each in live:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def workers(self) -> list[int]:
        """The numbers of the processes on the device that run a worker in its Python."""
        found = []
        for shell in self.shells:
            for pid in descendants(shell):
                with contextlib.suppress(OSError):
                    if b"edgewise.run.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        found.append(pid)
        return found[-1:]  # behind the shell and the supervisor

    def commands(self, word: str) -> list[str]:
        """The lines of command lines that contain `word`."""
        return [line for request in self.requests for line in request.splitlines() if word in line]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._live.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                while request := self._request(connection):
                    if self._answer(connection, request):
                        return
        except OSError:
            return

    def _request(self, connection: socket.socket) -> str:
        size = _receive(connection, 4)
        return _receive(connection, int(size, 16)).decode() if size else ""

    def _answer(self, connection: socket.socket, request: str) -> bool:
        """Answer one request; whether the connection is used up."""
        if request == "host:version":
            connection.sendall(b"OKAY00040029")
            return True
        if request.endswith(("features",)):
            words = b"shell_v2,cmd"
            connection.sendall(b"OKAY%04x%s" % (len(words), words) if self.state == "device" else self._failure())
            return True
        if request.startswith(("host:tport:", "host:transport")):
            serial = request.rpartition("serial:")[2] if "serial:" in request else SERIAL
            if self.state != "device" or serial not in (SERIAL, "any"):
                connection.sendall(self._failure(serial))
                return True
            connection.sendall(b"OKAY" + (struct.pack("<Q", 1) if "tport" in request else b""))
            return False
        if request.startswith("shell,v2"):
            connection.sendall(b"OKAY")
            self._shell(connection, request.partition(":")[2])
            return True
        if request == "sync:":
            connection.sendall(b"OKAY")
            self._sync(connection)
            return True
        connection.sendall(_fail(f"unknown request {request}"))
        return True

    def _failure(self, serial: str = SERIAL) -> bytes:
        # The words of adb's transport.cpp.
        return _fail(
            {
                "device": f"device '{serial}' not found",
                "unauthorized": "device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set",
                "offline": "device offline",
                "many": "more than one device/emulator",
                "none": "no devices/emulators found",
            }[self.state]
        )

    def _there(self, text: str) -> str:
        """A command line with the device's paths turned into those of the folder."""
        text = text.replace(str(self.root), "")
        return re.sub(r"(?<![\w.])/(data/local/tmp|proc/|sys/)", rf"{self.root}/\1", text)

    def _shell(self, connection: socket.socket, line: str) -> None:
        self.requests.append(line.replace(str(self.root), ""))
        if self.unplug_at and self.unplug_at in line:
            self.unplug()
            return
        path = f"{self.root}/bin:{os.environ['PATH']}"
        # Sockets, since one thread can shut down what another one reads.
        (output, out), (errors, err) = socket.socketpair(), socket.socketpair()
        with out, err:
            process = subprocess.Popen(
                ["/bin/sh", "-c", self._there(line)],
                stdin=subprocess.PIPE, stdout=out, stderr=err, start_new_session=True, cwd="/",
                env={**os.environ, "PATH": path, **self.environment},
            )  # fmt: skip
        self.shells.append(process.pid)
        lock = threading.Lock()

        def send(kind: int, content: bytes) -> None:
            with lock:
                connection.sendall(struct.pack("<BI", kind, len(content)) + content)

        own = str(self.root).encode()
        # A worker's stream is passed on as it comes; paths in a command's output are turned back line by line.
        raw = "edgewise-process" in line

        def carry(stream: socket.socket, kind: int) -> None:
            kept = b""
            try:
                while piece := stream.recv(2**16):
                    whole, end, rest = (piece, b"", b"") if raw else (kept + piece).rpartition(b"\n")
                    kept = rest if len(rest) < 2**16 else b""
                    out = whole + end + (b"" if kept else rest)
                    if out:
                        send(kind, out if raw else out.replace(own, b""))
                if kept:
                    send(kind, kept.replace(own, b""))
            except OSError:
                return
            finally:
                stream.close()

        threads = [threading.Thread(target=carry, args=pair, daemon=True) for pair in ((output, _OUT), (errors, _ERR))]
        for thread in threads:
            thread.start()
        ended = threading.Thread(target=self._end, args=(process, threads, send, connection), daemon=True)
        ended.start()
        try:
            while head := _receive(connection, 5):
                kind, size = struct.unpack("<BI", head)
                content = _receive(connection, size) if size else b""
                if kind == _IN:
                    try:
                        process.stdin.write(content)
                        process.stdin.flush()
                    except (OSError, ValueError):
                        continue
                elif kind == _CLOSE_IN:
                    try:
                        process.stdin.close()
                    except OSError:
                        continue
        except OSError:
            pass
        # adbd hangs up on the shell whose client is gone, and closes its streams.
        try:
            process.stdin.close()
            if process.poll() is None:
                os.kill(process.pid, signal.SIGHUP)
                for stream in (output, errors):
                    stream.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        ended.join(600.0)

    def _end(self, process, threads, send, connection) -> None:
        code = process.wait()
        for thread in threads:
            thread.join(600.0)
        try:
            send(_EXIT, bytes([code % 256 if code >= 0 else 128 - code]))
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def _sync(self, connection: socket.socket) -> None:
        while head := _receive(connection, 8):
            kind, size = head[:4], struct.unpack("<I", head[4:])[0]
            if kind == b"QUIT":
                return
            text = _receive(connection, size).decode()
            if kind == b"STAT":
                file = Path(self._there(text))
                found = file.stat() if file.exists() else None
                numbers = (0, 0, 0) if found is None else (found.st_mode, found.st_size, int(found.st_mtime))
                connection.sendall(b"STAT" + struct.pack("<III", *numbers))
            elif kind == b"SEND":
                self._store(connection, text.rpartition(",")[0])

    def _store(self, connection: socket.socket, path: str) -> None:
        self.requests.append(f"push {path}")
        content = b""
        while (head := _receive(connection, 8))[:4] == b"DATA":
            content += _receive(connection, struct.unpack("<I", head[4:])[0])
        if self.disk_full:
            words = b"write failed: No space left on device"
            connection.sendall(b"FAIL" + struct.pack("<I", len(words)) + words)
            return
        Path(self._there(path)).write_bytes(content)
        connection.sendall(b"OKAY" + struct.pack("<I", 0))


def _fail(words: str) -> bytes:
    return b"FAIL%04x%s" % (len(words.encode()), words.encode())


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            return b""
        data += piece
    return data


@pytest.fixture
def phone(tmp_path_factory, monkeypatch, tmp_path):
    """A recorded device, registered as ``phone``; skipped where adb is not installed."""
    if ADB is None:
        pytest.skip("needs adb (Debian: apt-get install adb)")
    server = AdbServer(tmp_path_factory.mktemp("android"))
    monkeypatch.setenv("ADB_SERVER_SOCKET", f"tcp:127.0.0.1:{server.port}")
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path))
    register(tmp_path / "devices.toml", monkeypatch)
    yield server
    target.close_targets()
    server.close()


def register(file: Path, monkeypatch, **settings: str) -> None:
    """Write `file` with the device as ``phone``, and name it in the environment."""
    from edgewise.device.devices import Device, add_device

    file.unlink(missing_ok=True)
    add_device(Device(name="phone", url=f"adb://{SERIAL}", settings=settings), file)
    monkeypatch.setenv("EDGEWISE_DEVICES", str(file))
    wait_for_devices(monkeypatch)
