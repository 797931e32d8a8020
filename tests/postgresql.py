"""A PostgreSQL server of one's own, which tests may kill and start again."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path


def find_programs():
    """The folder of initdb and postgres; None where PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    path = shutil.which("initdb")
    return found[-1].parent if found else Path(path).parent if path else None


class Server:
    """A server on a socket in a temporary folder, as the user postgres where this one is root, which it refuses.

    Args:
        connections: the most of them.
        address: of this machine, to listen at beside the socket; whoever reaches it is let in.
    """

    def __init__(self, *, connections=100, address=""):
        self._programs = find_programs()
        self._folder = Path(tempfile.mkdtemp(prefix="edgewise-pg-"))
        self._user = "postgres" if os.getuid() == 0 else None
        if self._user:
            os.chown(self._folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._data = self._folder / "data"
        self._connections, self._address = connections, address
        self._run("initdb", "-D", self._data, "-U", "edgewise", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.url = f"postgresql://edgewise@/postgres?host={self._folder}"
        if address:
            self.url = f"postgresql://edgewise@{address}/postgres?sslmode=disable"
            with (self._data / "pg_hba.conf").open("a") as file:
                file.write("host all all samenet trust\n")
        self.start()

    def _run(self, program, *words, check=True):
        command = [str(self._programs / program), *map(str, words)]
        return subprocess.run(
            command, check=check, capture_output=True, user=self._user, group=self._user, cwd=self._folder, text=True
        )

    def start(self):
        settings = (
            f"-c listen_addresses={self._address} -c fsync=off -c max_connections={self._connections} -k {self._folder}"
        )
        # pg_ctl would hand its own streams to the server, and reading them to their end would wait for that.
        words = ["-D", self._data, "-w", "-t", "120", "-l", self._folder / "log", "-o", settings, "start"]
        subprocess.run(
            [str(self._programs / "pg_ctl"), *map(str, words)], check=True, user=self._user, group=self._user,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._folder,
        )  # fmt: skip

    def kill(self):
        """End it at once, as a power cut would."""
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "-t", "120", "stop", check=False)

    def restart(self):
        self.kill()
        self.start()

    def close(self):
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


if __name__ == "__main__":
    server = Server()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    print(server.url, flush=True)
    try:
        signal.pause()
    finally:
        server.close()
