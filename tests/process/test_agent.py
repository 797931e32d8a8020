"""The agent on a device, driven over its streams: hostile lock files, and two agents of one user."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from importlib import resources

import pytest

from edgewise.device.agent import PATIENCE_S, try_lock
from edgewise.device.bootstrap import run_reported
from edgewise.device.transports.local import LocalTransport
from edgewise.progress import LogLine, reporting_to

SOURCE = resources.files("edgewise.device").joinpath("agent.py").read_text(encoding="utf-8")


class Agent:
    """An agent in a process of its own."""

    def __init__(self, root, *, patience_s=PATIENCE_S):
        source = SOURCE.replace(f"\nPATIENCE_S = {PATIENCE_S}\n", f"\nPATIENCE_S = {patience_s}\n")
        self.process = subprocess.Popen(
            [sys.executable, "-c", source, root], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.answer()["version"]

    def send(self, data=b"", **request):
        line = json.dumps(request).encode() + b"\n" if request else b""
        self.process.stdin.write(line + data)
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def request(self, **request):
        self.send(**request)
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(60.0) == 0


@pytest.fixture
def agent(tmp_path, monkeypatch):
    (tmp_path / "locks").mkdir()
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path / "locks"))
    made = []

    def make(**settings):
        made.append(Agent(str(tmp_path / "root"), **settings))
        return made[-1]

    yield make
    for each in made:
        each.end()


def test_a_forged_lock_file_makes_the_agent_kill_no_other_process(agent, tmp_path):
    victim = subprocess.Popen(["sleep", "600"])
    file = tmp_path / "locks" / "edgewise-measuring.lock"
    held = try_lock(file, f"me\n{victim.pid}")  # any user can hold the lock, and write what a host will look for
    try:
        assert agent(patience_s=0.1).request(do="lock", holder="me") == {"held_by": "me"}
        assert victim.poll() is None
    finally:
        os.close(held)
        victim.kill()
        victim.wait()


def test_the_agent_of_an_earlier_connection_gives_way(agent):
    first, second = agent(), agent()
    assert first.request(do="lock", holder="me") == {"held_by": None, "no_lock": ""}
    assert second.request(do="lock", holder="you")["held_by"] == "me"
    assert second.request(do="lock", holder="me") == {"held_by": None, "no_lock": ""}
    assert first.process.wait(60.0) == -9
    first.process.wait = lambda timeout: 0


def test_two_agents_that_get_one_file_at_once_keep_it_whole(agent, tmp_path):
    first, second = agent(), agent()
    content = os.urandom(200_000)
    sha256 = hashlib.sha256(content).hexdigest()
    first.send(content[:100_000], do="put", sha256=sha256, offset=0, size=len(content))
    part = tmp_path / "root" / "cache" / f"{sha256}.part"
    while not part.exists() or part.stat().st_size < 100_000:
        assert first.process.poll() is None
    second.send(do="put", sha256=sha256, offset=0, size=len(content))
    second.send(content[:60_000])
    first.send(content[100_000:])
    assert first.answer() == {}
    second.send(content[60_000:])
    assert second.answer() == {}
    assert (tmp_path / "root" / "cache" / sha256).read_bytes() == content
    assert second.request(do="have", sha256=sha256) == {"bytes": len(content), "complete": True}


def test_what_a_device_prints_while_it_is_set_up_controls_no_terminal(tmp_path):
    lines = []
    script = ("printf", "\\033]0;title\\007\\033[31mred\\n")
    with reporting_to(lambda event: lines.append(event.text) if isinstance(event, LogLine) else None):
        run_reported(LocalTransport(), script, folder=tmp_path, environment=dict(os.environ), advice="")
    assert "red" in lines[-1] and lines[-1].isprintable()
