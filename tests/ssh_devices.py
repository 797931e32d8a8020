"""A real ``sshd`` as a device for tests: on 127.0.0.1 with a port, keys, a home folder and a Python of its own.

Its traffic goes through a `Cable`, a relay on the loopback that can be cut, silenced and slowed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from edgewise.device import target
from far_targets import far_python  # noqa: F401
from patience import wait_for_devices, wait_until

# Outside of what kernels give away: a port that another process takes in between would answer in the server's place.
PORT = 2222
SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/sbin:/usr/local/sbin")


class Cable:
    """Relays TCP connections from a port on 127.0.0.1.

    Attributes:
        target: where to, address and port.
        passed: bytes so far, in both directions.
        drops: the connections are reset when these numbers of bytes have passed since the drop before.
        silent: while set, nothing passes, and nobody is told.
        settle_s: what has passed has this time to arrive before a drop.
        bytes_per_s: rate of each direction of each connection; 0 sets no limit.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.passed = self._since = 0
        self.drops: list[int] = []
        self.silent = False
        self.settle_s = 0.0
        self.bytes_per_s = 0.0
        self._stranded: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._live: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Reset all connections; new ones can be made."""
        with self._lock:
            live, self._live = self._live, []
        for each in live:
            try:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def strand(self) -> None:
        """Carry nothing over the present connections any more, and let neither side know; new ones work."""
        with self._lock:
            self._stranded |= set(self._live)

    def close(self) -> None:
        self._stranded.clear()
        if self._listener.fileno() >= 0:
            # Closing alone would leave it open for one more connection: a thread waits in `accept`.
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self.target)
            except OSError:
                near.close()
                continue
            with self._lock:
                self._live += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := source.recv(8192):
                while self.silent or source in self._stranded:
                    time.sleep(0.05)  # real time: until the test ends the silence
                if self.bytes_per_s:
                    time.sleep(len(piece) / self.bytes_per_s)  # real time: no faster than this
                sink.sendall(piece)
                with self._lock:
                    self.passed += len(piece)
                    self._since += len(piece)
                    dropped = bool(self.drops) and self._since >= self.drops[0]
                    if dropped:
                        self.drops.pop(0)
                        self._since = 0
                if dropped:
                    time.sleep(self.settle_s)  # real time: bytes on their way arrive first
                    self.cut()
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        finally:
            source.close()


class SshServer:
    """One ``sshd`` and the files of its client.

    With `disk_bytes` the home folder is a file system of this size, in the server's own mount namespace.

    Attributes:
        home: the home folder of logins.
        environment: more variables of logins, after the next `start`.
        cable: between client and server.
        known_hosts: of the client, with the server's key.
    """

    def __init__(self, root: Path, *, namespace: str = "", address: str = "127.0.0.1", disk_bytes: int = 0) -> None:
        self.root, self.address, self._namespace, self._disk_bytes = root, address, namespace, disk_bytes
        self.environment: dict[str, str] = {}
        self.home = root / "home"
        self.home.mkdir(parents=True)
        (root / "tmp").mkdir()
        for name in ("host_key", "user_key"):
            self.make_key(name)
        shutil.copy(root / "user_key.pub", root / "authorized_keys")
        # A loopback address of its own, so that servers side by side can have the same port.
        own = address if namespace else ".".join(["127", *(str(random.randint(1, 254)) for _ in range(3))])
        self._listens = (own, PORT)
        self.cable = Cable(self._listens)
        self.known_hosts = root / "known_hosts"
        self.know_host()
        self.start()

    def make_key(self, name: str) -> None:
        for old in self.root.glob(f"{name}*"):
            old.unlink()
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.root / name], check=True)

    def know_host(self) -> None:
        kind, key, *_ = (self.root / "host_key.pub").read_text().split()
        self.known_hosts.write_text(f"[{self.address}]:{self.port} {kind} {key}\n")

    @property
    def port(self) -> int:
        """Where clients connect to."""
        return PORT if self._namespace else self.cable.port

    @property
    def url(self) -> str:
        import getpass

        return f"ssh://{getpass.getuser()}@{self.address}:{self.port}"

    def start(self) -> None:
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        config = self.root / "sshd_config"
        own = {"HOME": self.home, "TMPDIR": self.root / "tmp", "EDGEWISE_LOCKS": self.root / "tmp", **self.environment}
        config.write_text(
            f"ListenAddress {self._listens[0]}:{PORT}\nHostKey {self.root}/host_key\n"
            f"AuthorizedKeysFile {self.root}/authorized_keys\nPidFile {self.root}/sshd.pid\nStrictModes no\nUsePAM no\n"
            f"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nUseDNS no\n"
            f"MaxStartups 100\nSetEnv {' '.join(f'{name}={value}' for name, value in own.items())}\n"
        )
        words = ["ip", "netns", "exec", self._namespace] if self._namespace else []
        if self._disk_bytes:
            mount = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && shift 2 && exec "$@"'
            words = ["unshare", "-m", "sh", "-c", mount, "sh", str(self._disk_bytes), str(self.home)]
        self._log = (self.root / "sshd.log").open("ab")
        self.process = subprocess.Popen(
            [*words, SSHD, "-D", "-e", "-f", config], stdin=subprocess.DEVNULL, stderr=self._log, start_new_session=True
        )
        wait_until(self._is_listening)

    def _is_listening(self) -> bool:
        assert self.process.poll() is None, (self.root / "sshd.log").read_text()
        return self._answers()

    def _answers(self) -> bool:
        try:
            socket.create_connection(self._listens, timeout=600.0).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """End it with all logins, as a reboot does: nobody is told that the connections are gone."""
        children = self.logins()
        os.killpg(self.process.pid, signal.SIGKILL)
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        # A child that was killed right after its fork has the port until it gets a processor to end on.
        wait_until(lambda: not self._answers())
        self._log.close()
        self.cable.cut()

    def logins(self) -> list[int]:
        """The processes of the server's connections, and what runs in them."""
        from edgewise.device.supervisor import descendants

        return descendants(self.process.pid)

    def restart(self, **environment: str) -> None:
        self.stop()
        self.environment |= environment
        self.start()

    def close(self) -> None:
        self.stop()
        self.cable.close()


@pytest.fixture
def ssh_server(tmp_path_factory):
    """An sshd of the test's own; skipped where there is none."""
    if SSHD is None:
        pytest.skip("needs sshd (Debian: apt-get install openssh-server)")
    pytest.importorskip("asyncssh", reason="needs asyncssh")
    server = SshServer(tmp_path_factory.mktemp("sshd"))
    yield server
    target.close_targets()
    server.close()


@pytest.fixture
def ssh_device(ssh_server, far_python, tmp_path, monkeypatch):  # noqa: F811
    """The server, registered as the device ``board`` whose Python is another interpreter."""
    register(ssh_server, tmp_path / "devices.toml", monkeypatch, python=str(far_python))
    return ssh_server


def register(server: SshServer, file: Path, monkeypatch, name: str = "board", **settings: str) -> None:
    """Write `file` with the server as a device, and name it in the environment."""
    from edgewise.device.devices import Device, add_device

    keys = {"key": str(server.root / "user_key"), "known_hosts": str(server.known_hosts)}
    add_device(Device(name=name, url=server.url, settings=keys | settings), file)
    monkeypatch.setenv("EDGEWISE_DEVICES", str(file))
    wait_for_devices(monkeypatch)
