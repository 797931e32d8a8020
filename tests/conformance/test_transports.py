import subprocess

import pytest

from edgewise.device.transport import transports
from edgewise.device.transports.local import LocalProcess, LocalTransport
from edgewise.errors import Unavailable
from edgewise.testing.transport import check_transport
from messages import says


def test_the_local_transport(tmp_path):
    check_transport(transports().get("local"), folder=tmp_path)


def test_an_unknown_transport_names_the_known_ones():
    with pytest.raises(Unavailable, match=says("unknown-noun-name-r", noun="transport", name="pigeon")) as caught:
        transports().get("pigeon")
    assert "local" in caught.value.advice


class Broken(LocalTransport):
    """A transport that is right but for the process it gives."""

    def __init__(self, kind):
        self.kind = kind

    def start(self, command, **settings):
        process = super().start(command, **settings)
        process.__class__ = self.kind
        return process


class LosesExitCode(LocalProcess):
    def wait(self, timeout=None):
        super().wait(timeout)
        return 0


class NeverTimesOut(LocalProcess):
    def wait(self, timeout=None):
        try:
            return super().wait(timeout)
        except TimeoutError:
            return 0


class KillsOnlyTheLeader(LocalProcess):
    def kill(self):
        self._child.kill()
        self._child.wait()
        self._child.stdin.close()
        self._child.stdout.close()


@pytest.mark.parametrize(
    ("kind", "message"),
    [(LosesExitCode, says("exit-code-lost")), (NeverTimesOut, says("wait-returns-before-process-ended"))],
)
def test_breaches_are_named(kind, message, tmp_path):
    with pytest.raises(AssertionError, match=message):
        check_transport(Broken(kind), folder=tmp_path)


def test_a_transport_that_leaves_orphans_is_found_out(tmp_path, monkeypatch):
    monkeypatch.setattr("edgewise.testing.transport.DEADLINE_S", 0.2)  # real time: it has to end
    started = []
    popen = subprocess.Popen

    class Recording(popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recording)
    try:
        with pytest.raises(AssertionError, match=says("something-process-started-outlives")):
            check_transport(Broken(KillsOnlyTheLeader), folder=tmp_path)
    finally:
        _kill_sessions([child.pid for child in started])


def _kill_sessions(leaders):
    """End what the broken transport left: only processes whose session is one that this test began."""
    import os
    import signal
    from pathlib import Path

    for folder in Path("/proc").glob("[0-9]*"):
        try:
            session = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
        except (OSError, ValueError, IndexError):
            continue
        if session in leaders:
            os.kill(int(folder.name), signal.SIGKILL)
