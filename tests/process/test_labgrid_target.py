"""A board of a labgrid behind a real sshd, by a labgrid that is scripted, and by the real one where it is installed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.device.link import TargetError
from edgewise.device.transports.labgrid import Labgrid
from edgewise.errors import BadInput, Unavailable
from edgewise.testing import check_target
from patience import wait_for_devices, wait_until
from ssh_devices import far_python, ssh_server  # noqa: F401

pytestmark = pytest.mark.engine
SCRIPT = '''#!{python}
"""Says and does what labgrid-client 26.0 does, for one place."""
import json, pathlib, sys
state = pathlib.Path({state!r})
kept = json.loads(state.read_text())
*options, word, command = sys.argv[1:]
place = word.removeprefix("--place=")
kept["calls"].append(command)
def end(error="", text=""):
    state.write_text(json.dumps(kept))
    print(text, end="")
    sys.exit(f"labgrid-client: Error: {{error}}" if error else 0)
if place != "board":
    end(f"place pattern {{place}} matches nothing")
if command == "acquire":
    if kept["by"] == "me":
        end("You have already acquired place board.")
    if kept["by"]:
        end(f"Place board is already acquired by {{kept['by']}}. To work simultaneously, x can execute y")
    kept["by"] = "me"
    end(text="acquired place board\\n")
if command == "release":
    if not kept["by"]:
        end("place board is not acquired")
    kept["by"] = ""
    end(text="released place board\\n")
text = "Place 'board':\\n  matches:\\n    */desk/*\\n  acquired: vm/root\\n"
for name in kept["services"]:
    text += f"""Acquired resource '{{name}}' (bench/desk/NetworkService/{{name}}):
  {{{{'acquired': 'board',
   'avail': True,
   'cls': 'NetworkService',
   'params': {{{{'address': '127.0.0.1',
              'extra': {{{{'proxy': 'localhost', 'proxy_required': False}}}},
              'port': {{kept['port']}},
              'username': 'root'}}}}}}}}
"""
end(text=text)
'''


class Scripted:
    """A labgrid with the place ``board``."""

    def __init__(self, folder, port):
        self._state = folder / "state.json"
        self.set(by="", services=["NetworkService"], port=port, calls=[])
        program = folder / "labgrid-client"
        program.write_text(SCRIPT.format(python=sys.executable, state=str(self._state)))
        program.chmod(0o755)

    def set(self, **words):
        before = json.loads(self._state.read_text()) if self._state.exists() else {}
        self._state.write_text(json.dumps({**before, **words}))

    def get(self, name):
        return json.loads(self._state.read_text())[name]

    @property
    def is_acquired(self):
        return bool(self.get("by"))

    def acquire(self):
        self.set(by="me")

    settings: dict[str, str] = {}


class Real:
    """The real one: its coordinator and an exporter."""

    def __init__(self, folder, port):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._at = f"127.0.0.1:{free.getsockname()[1]}"
        self.settings = {"coordinator": self._at}
        (folder / "exports.yaml").write_text(
            f"desk:\n  NetworkService:\n    address: 127.0.0.1\n    port: {port}\n    username: root\n"
        )
        self.processes = []
        self._start(folder, "labgrid-coordinator", "-l", self._at)
        wait_until(lambda: self._client("create") == 0, self.processes[0])
        self._start(folder, "labgrid-exporter", "-c", self._at, "-n", "bench", "exports.yaml")
        assert self._client("add-match", "*/desk/*") == 0
        wait_until(lambda: "NetworkService'" in self._show(), self.processes[1])

    def _start(self, folder, *command):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes.append(subprocess.Popen(command, cwd=folder, **quiet))

    def _client(self, *words):
        command = ["labgrid-client", "-x", self._at, "-p", "board", *words]
        return subprocess.run(command, capture_output=True, check=False).returncode

    def _show(self):
        command = ["labgrid-client", "-x", self._at, "-p", "board", "show"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    @property
    def is_acquired(self):
        return "acquired: None" not in self._show()

    def acquire(self):
        assert self._client("acquire") == 0

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def scripted(ssh_server, tmp_path, monkeypatch):  # noqa: F811
    wait_for_devices(monkeypatch)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path))
    return Scripted(tmp_path, ssh_server.port)


@pytest.fixture(params=["scripted", "real"])
def labgrid(request, ssh_server, tmp_path, monkeypatch):  # noqa: F811
    wait_for_devices(monkeypatch)
    if request.param == "scripted":
        yield request.getfixturevalue("scripted")
        return
    if shutil.which("labgrid-coordinator") is None:
        pytest.skip("labgrid is not installed: the real one was not tested")
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path))
    real = Real(tmp_path, ssh_server.port)
    yield real
    real.close()


def opened(labgrid, server, python, place="board"):
    settings = {"key": str(server.root / "user_key"), "known_hosts": str(server.known_hosts), "python": str(python)}
    return Labgrid().open("desk", place, {**settings, **labgrid.settings})


def test_the_conformance_suite_passes_and_the_place_is_freed(labgrid, ssh_server, far_python, tmp_path):  # noqa: F811
    folder = tmp_path / "check"
    folder.mkdir()
    transport = opened(labgrid, ssh_server, far_python)
    assert not labgrid.is_acquired
    check_target(transport, folder=folder)
    assert labgrid.is_acquired
    transport.close()
    assert not labgrid.is_acquired


def test_a_place_that_its_user_acquired_stays_so(labgrid, ssh_server, far_python):  # noqa: F811
    labgrid.acquire()
    transport = opened(labgrid, ssh_server, far_python)
    transport._acquire()
    transport.close()
    assert labgrid.is_acquired


def test_an_unknown_place_is_told_in_labgrids_words(labgrid, ssh_server, far_python):  # noqa: F811
    transport = opened(labgrid, ssh_server, far_python, place="nosuch")
    with pytest.raises(TargetError, match="labgrid: place pattern nosuch matches nothing"):
        transport._acquire()
    transport.close()


def test_a_place_of_somebody_else_is_not_taken(scripted, ssh_server, far_python):  # noqa: F811
    scripted.set(by="desk/anna")
    transport = opened(scripted, ssh_server, far_python)
    with pytest.raises(TargetError, match="Place board is already acquired by desk/anna"):
        transport._acquire()
    transport.close()
    assert scripted.get("by") == "desk/anna"
    assert scripted.get("calls") == ["acquire"]


@pytest.mark.parametrize(("services", "told"), [([], "has no NetworkService"), (["a", "b"], "has 2 NetworkService")])
def test_a_place_without_one_board_is_refused_and_freed(scripted, ssh_server, far_python, services, told):  # noqa: F811
    scripted.set(services=services)
    transport = opened(scripted, ssh_server, far_python)
    with pytest.raises(TargetError, match=told):
        transport._acquire()
    transport.close()
    assert not scripted.is_acquired
    scripted.set(services=["default", "b"])
    transport._acquire()
    transport.close()
    assert scripted.get("calls")[-3:] == ["acquire", "show", "release"]


def test_what_names_no_place_or_lacks_labgrid_is_refused(monkeypatch, tmp_path):
    for address in ("", "-x", "a b", "a\nb"):
        with pytest.raises(BadInput, match="names no place"):
            Labgrid().open("desk", address, {})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="needs labgrid-client"):
        Labgrid().open("desk", "board", {})
    assert not list(Path(tmp_path).iterdir())
