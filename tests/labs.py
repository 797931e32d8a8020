"""A lab in a database of its own on a real PostgreSQL, its hosts as processes, and a suite: fixtures and their words."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml
from sqlalchemy import text

from edgewise.store import open_store
from edgewise.store.lab import LabDevice, LabSettings
from edgewise.testing import write_fake_model
from edgewise.verbs.lab.engine import make_engine, protocol, queue_of, ring
from edgewise.version import __version__
from postgresql import Server, find_programs

DONE = {"status": "done", "cause": "", "advice": ""}


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("procrastinate", reason="needs procrastinate: no lab was tested")
    if find_programs() is None:
        pytest.skip("PostgreSQL is not installed: no lab was tested")
    own = Server()
    yield own
    own.close()


@pytest.fixture
def url(server, request):
    """An empty database."""
    name = re.sub(r"\W", "_", f"lab_{request.node.name}")[:60].lower()
    with open_store(server.url) as store, store._database.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(text(f'CREATE DATABASE "{name}"'))
    return server.url.replace("/postgres?", f"/{name}?")


@pytest.fixture
def store(url):
    with open_store(url) as opened:
        opened.lab.make(LabSettings(version=__version__, protocol=protocol(), most_file=10_000_000), make_engine)
        yield opened


@pytest.fixture
def lab(store):
    return store.lab


def column(key, device="d1", **others):
    return {"id": key, "queue": queue_of(device), "device": device, "verb": "bench", "title": f"cell {key}", "model": "",
            "request": "{}", "version": protocol(), "lock": f"fake://{device}", **others}  # fmt: skip


def add(lab, *keys, **others):
    return lab.jobs.add([column(key, **others) for key in keys], ring)


def begin(lab, key, *, place="d1", delivery=1, version=None):
    return lab.jobs.begin(key, version=version or protocol(), host="h", place=place, worker="w", delivery=delivery)


def status(lab, key):
    return lab.jobs.get(key).status


def log(folder, word):
    file = folder / "log"
    return [line.split() for line in file.read_text().splitlines() if line.startswith(word)] if file.exists() else []


@contextmanager
def hosts(url, folder, *names, devices="d1"):
    """Processes of hosts, ended at the end."""
    with ExitStack() as stack:
        found = []
        for name in names:
            command = [sys.executable, str(Path(__file__).with_name("lab_host.py")), url, name, devices, str(folder)]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            stack.callback(process.kill)
            found.append(process)
        yield found


def open_gate(folder):
    (folder / "go").touch()


@pytest.fixture
def place(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEWISE_STORE", url)
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    Path("nets").mkdir()
    for name, latency in (("slow", 4_000_000), ("fast", 1_000_000)):
        write_fake_model(f"nets/{name}.fake", latency_ns=[latency])
    suite = {"models": ["nets/*.fake"], "runtimes": ["fake"], "threads": [1, 2]}
    suite["options"] = {"iterations": "9", "sessions": "1", "meters": "false"}
    Path("suite.yaml").write_text(yaml.safe_dump(suite))
    return tmp_path


@contextmanager
def working(*words, prefix=()):
    """``edgewise lab work`` as a process, started by `prefix`."""
    command = [*prefix, sys.executable, "-m", "edgewise", "lab", "work", "--cache", "cache", *words]
    environment = {**os.environ, "EDGEWISE_LOCKS": os.environ.get("EDGEWISE_LOCKS", str(Path.cwd()))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def board(folder):
    document = json.loads(Path(folder, "board.json").read_text())
    return [(cell["name"], cell["status"], [row["metrics"]["latency"]["value"] for row in cell["rows"] if row["status"] == "done"])
            for cell in document["cells"]]  # fmt: skip


def lab_keys(lab):
    with lab._database.reading() as connection:
        return [row[0] for row in connection.execute(text("SELECT id FROM lab_jobs"))]


def local(host):
    return LabDevice(host=host, name="local", identity=f"local://{host}", answers=("local", host), processor="p")
