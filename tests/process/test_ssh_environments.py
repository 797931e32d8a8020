"""Python environments on a device behind a real sshd: made there once, measured in turns, and what goes wrong.

Its pip finds wheels in a folder, so that no network is used: two "releases" of ONNX Runtime are the one that is
installed here, under other numbers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from edgewise import data
from edgewise.cli.main import run as edgewise_command
from edgewise.device import target
from edgewise.device.devices import find_device, open_transport
from edgewise.device.lease import measuring_on
from edgewise.device.link import Link
from edgewise.errors import BadInput, Unavailable
from edgewise.progress import SessionStarted
from edgewise.record import TargetSpec
from edgewise.run.executor import facts_of, target_of
from edgewise.store import open_store
from edgewise.verbs.compare.request import CompareRequest
from edgewise.verbs.context import Context
from edgewise.verbs.verb import carry_out
from patience import wait_until
from ssh_devices import far_python, ssh_device, ssh_server  # noqa: F401

pytestmark = pytest.mark.engine
pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")

MODEL = data.path("digits_cnn.onnx")
OLD, NEW = "onnxruntime==1.30.0", "onnxruntime==1.31.0"


def write_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    info = f"{name}-{version}.dist-info"
    files = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},"
        f"{len(text.encode())}\n"
        for path, text in files.items()
    )
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """A folder with wheels that see the packages of this Python."""
    folder = tmp_path_factory.mktemp("wheels")
    places = dict.fromkeys(Path(find_spec(name).origin).parents[1] for name in ("numpy", "onnxruntime"))
    seen = "".join(f"{place}\n" for place in places)
    for version in ("1.30.0", "1.31.0"):
        write_wheel(folder, "onnxruntime", version, {"seen.pth": seen})
    write_wheel(folder, "numpy", "2.0.0", {})
    return folder


def index(folder):
    """Variables with which pip and uv find packages in a folder and nowhere else."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(folder)}


@pytest.fixture
def board(ssh_device, wheels, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setattr("edgewise.run.interleaving.TURNS", 20)
    monkeypatch.setattr("edgewise.run.peaks.SIZES", (2**18,))
    monkeypatch.setattr("edgewise.run.peaks.SIDE", 64)
    # A Python's own variables must not be found in the environments.
    ssh_device.restart(**index(wheels), PIP_LOG=str(tmp_path / "pip.log"), PYTHONPATH=str(tmp_path / "foreign"))
    return ssh_device


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of environments of devices that have both versions already, once a test has used them."""
    return tmp_path_factory.mktemp("environments")


@pytest.fixture
def stocked(board, made):
    """A device that has both versions, or makes them for all tests."""
    (board.home / "edgewise" / "cache").mkdir(parents=True)
    (board.home / "edgewise" / "cache" / "environments").symlink_to(made)
    for each in (OLD, NEW):
        target_of(spec(each))
    target.close_targets()
    return board


def spec(environment):
    return TargetSpec(device="board", transport="ssh", environment=environment)


def environments_on(board):
    return sorted((board.home / "edgewise" / "cache" / "environments").glob("*/made.json"))


def runs_in(folder):
    """Whether a process has been started from a folder."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if each.read_bytes().startswith(os.fsencode(folder)):
                return True
        except OSError:  # it has ended
            continue
    return False


def installations(tmp_path):
    return (tmp_path / "pip.log").read_text().count("Successfully installed")


def command(capsys, *words, code=0):
    assert edgewise_command([*map(str, words), "--json", "-q"]) == code
    return json.loads(capsys.readouterr().out)


def test_two_versions_take_turns_there_and_a_second_use_makes_nothing(stocked, capsys, tmp_path):
    stocked.restart(**index(tmp_path))  # where there are no wheels: nothing can be made
    words = ("compare", MODEL, "--vary", "onnxruntime=1.30.0,1.31.0", "-d", "board", "--rounds", "1")
    found = command(capsys, *words, "--time-budget", "600s")
    with open_store() as store:
        runs = [store.get(variant["run"]) for variant in found["variants"]]
    assert [run.job.target for run in runs] == [spec(OLD), spec(NEW)]
    assert [run.environment["packages"]["onnxruntime"] for run in runs] == ["1.30.0", "1.31.0"]
    assert all(run.environment["packages"]["numpy"] == "2.0.0" and run.status == "done" for run in runs)
    pythons = [run.environment["worker_python"] for run in runs]
    assert all(run.sessions[0].facts["link"]["pushed_bytes"] >= 0 for run in runs) and pythons[0] == pythons[1]
    (latency,) = [row for row in found["comparisons"] if row["metric"] == "latency"]
    assert latency["design"] == "interleaved" and latency["ratio"] > 0
    assert [variant["label"] for variant in found["variants"]] == ["onnxruntime 1.30.0", "onnxruntime 1.31.0"]
    assert len(environments_on(stocked)) == 2 and not list((stocked.home / "edgewise" / "work").iterdir())
    words = ("profile", MODEL, "--environment", OLD, "--environment", NEW, "-d", "board", "--iterations", "5")
    profiles = command(capsys, *words, "--sessions", "1")["runs"]
    assert [run["job"]["target"]["environment"] for run in profiles] == [OLD, NEW] and profiles[0]["layers"]


def test_one_lock_holds_the_device_for_both_environments(stocked):
    other = Link(open_transport(find_device("board")))
    told = []

    def note(event):
        if isinstance(event, SessionStarted):
            told.append(other.request("lock", holder="another host")["held_by"])

    asked = CompareRequest(subjects=(str(MODEL),), environments=(OLD, NEW), device="board", rounds=1)
    try:
        result = carry_out(asked, Context(keep=False, progress=note))
        assert [variant.run.status for variant in result.variants] == ["done", "done"]
        assert told and all(f"process {os.getpid()} " in held for held in told), told
        assert other.request("lock", holder="another host")["held_by"] is None
    finally:
        other.close()


def test_a_killed_agent_loses_neither_the_lock_nor_the_environments(stocked):
    with measuring_on("board"):
        one, two = target_of(spec(OLD)), target_of(spec(NEW))
        assert one.device is two.device is target.find_target("board")
        link = one.device.link
        os.kill(link._process.pid, signal.SIGKILL)
        assert [facts_of(spec(each)).environment["packages"]["onnxruntime"] for each in (OLD, NEW)] == [
            "1.30.0",
            "1.31.0",
        ]
        assert one.device.link is not link
        other = Link(open_transport(find_device("board")))
        assert f"process {os.getpid()} " in other.request("lock", holder="another host")["held_by"]
        other.close()


def test_a_broken_environment_is_made_again_there(board, tmp_path):
    target_of(spec(OLD))
    (made,) = environments_on(board)
    made.parent.joinpath("bin", "python").unlink()
    target.close_targets()
    assert facts_of(spec(OLD)).environment["packages"]["onnxruntime"] == "1.30.0"
    assert environments_on(board) == [made] and installations(tmp_path) == 2


def test_two_commands_make_it_once(board, tmp_path):
    words = [sys.executable, "-m", "edgewise", "bench", MODEL, "-d", "board", "--environment", OLD]
    words += ["--iterations", "5", "--sessions", "1", "--json", "-q", "--no-store"]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(2)]
    for each in both:
        (run,) = json.loads(each.communicate()[0])["runs"]
        assert run["status"] == "done", run["failure"]
    assert installations(tmp_path) == 1


def test_one_that_was_cut_off_is_made_anew(board, wheels, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        board.restart(PIP_NO_INDEX="0", PIP_FIND_LINKS="", PIP_INDEX_URL=url, UV_NO_INDEX="0", UV_INDEX_URL=url)
        words = [sys.executable, "-m", "edgewise", "bench", MODEL, "-d", "board", "--environment", OLD, "--no-store"]
        host = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        silent.settimeout(600.0)
        waiting, _ = silent.accept()  # pip asks, and gets no answer
        folder = board.home / "edgewise" / "cache" / "environments"
        assert runs_in(folder)
        host.kill()
        host.wait()
        waiting.close()
    wait_until(lambda: not runs_in(folder))
    assert list(folder.glob("*/pyvenv.cfg")) and not environments_on(board)
    board.restart(**index(wheels))
    assert facts_of(spec(OLD)).environment["packages"]["onnxruntime"] == "1.30.0"


def test_a_version_that_does_not_exist_names_those_near_it_and_leaves_nothing(board, capsys):
    words = ["bench", str(MODEL), "-d", "board", "--environment", "onnxruntime==1.30.9", "--no-store"]
    assert edgewise_command(words) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "onnxruntime==1.30.9 does not exist for the Python on board" in told and "1.31.0" in told
    assert not list((board.home / "edgewise" / "cache" / "environments").glob("*/"))


def test_an_index_that_is_down_is_told(board):
    url = "http://127.0.0.1:9/"
    down = {"PIP_INDEX_URL": url, "UV_INDEX_URL": url, "PIP_RETRIES": "1", "UV_HTTP_RETRIES": "1"}
    board.restart(PIP_NO_INDEX="0", PIP_FIND_LINKS="", UV_NO_INDEX="0", **down)
    with pytest.raises(Unavailable, match="can be made on board: the package index can't be reached"):
        target_of(spec(OLD))


def test_bisect_searches_the_releases_that_the_device_finds(stocked, capsys):
    words = ("bisect", MODEL, "--good", "1.30.0", "--bad", "1.31.0", "--on", "output", "-d", "board")
    found = command(capsys, *words)
    assert [each["version"] for each in found["releases"]] == ["1.30.0", "1.31.0"] and found["device"] == "board"
    assert found["first"] is None and found["releases"][1]["differs"] is False
    assert edgewise_command([*map(str, words[:5]), "1.99.0", *words[6:]]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "the index has no onnxruntime 1.99.0 for the Python on board (bad)" in told


def test_a_path_names_an_environment_of_the_device(board, far_python):  # noqa: F811
    (board.home / "mine").symlink_to(far_python.parents[1])
    for text in (str(far_python), "~/mine", "./mine"):
        assert facts_of(spec(text)).engines["onnxruntime"]
    with pytest.raises(BadInput, match=r"there is no Python at \./nothing on board"):
        target_of(spec("./nothing"))
    with pytest.raises(BadInput, match="containers run on this machine, not on board"):
        target_of(spec("container://engines"))
