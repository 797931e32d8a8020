"""Commands on the device ``container://IMAGE``: real containers of Docker and Podman with an interpreter of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from container_images import IMAGE, container_runtime, containers, eventually  # noqa: F401
from edgewise import data
from edgewise.cli.main import run as edgewise_command
from edgewise.device import target
from edgewise.device.devices import find_device, open_transport
from edgewise.device.lease import measuring_on
from edgewise.errors import BadInput, ExitCode
from edgewise.store import open_store
from edgewise.testing import check_target, write_fake_model
from far_targets import far_python  # noqa: F401
from patience import wait_for_devices

MODEL = data.path("digits_cnn.onnx")


@pytest.fixture
def box(container_runtime, far_python, tmp_path, monkeypatch):  # noqa: F811
    """A function that registers the device ``box`` with further settings; its image sees this machine's packages."""
    wait_for_devices(monkeypatch)
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    monkeypatch.chdir(tmp_path)
    packages = (far_python.parents[1] / "lib").glob("python*/site-packages/engines.pth")
    seen = {"/usr", sys.base_prefix, str(far_python.parents[1])}
    seen |= {line for file in packages for line in file.read_text().splitlines()}
    options = " ".join(f"--volume {folder}:{folder}:ro" for folder in sorted(seen))

    def register(more_options: str = "", **more: str) -> str:
        table = {"url": f"container://{IMAGE}", "runtime": container_runtime, "python": str(far_python)}
        table["options"] = f"{options} {more_options}"
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in (table | more).items()]
        (tmp_path / "devices.toml").write_text(f"[box]\n{''.join(lines)}")
        return container_runtime

    yield register
    target.close_targets()


def command(capsys, *words, code=ExitCode.DONE):
    assert edgewise_command([*map(str, words), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def bench(capsys, model, *words, code=ExitCode.DONE):
    line = ("bench", model, "-d", "box", "--sessions", "1", "--no-meters", "--no-store", "--quiet")
    (run,) = command(capsys, *line, *words, code=code)["runs"]
    return run


@pytest.mark.engine
def test_a_device_is_checked_and_benched_and_leaves_no_container(capsys, box):
    pytest.importorskip("onnxruntime")
    runtime = box()
    found = command(capsys, "devices", "check", "box")
    assert (found["usable"], found["engines"]["onnxruntime"]["available"]) == (True, True)
    run = bench(capsys, MODEL, "-r", "onnxruntime", "--iterations", "20")
    assert run["job"]["target"]["transport"] == "container"
    rows = {row["metric"]: row for row in run["measurements"]}
    assert 0 < rows["latency"]["value"] < 1.0
    assert rows["deployment_time"]["basis"] == "measured"
    target.close_targets()
    assert eventually(lambda: not containers(runtime, os.getpid()))


@pytest.mark.engine
def test_containers_and_this_machine_take_turns_and_each_record_has_its_own_packages(capsys, box, tmp_path):
    pytest.importorskip("onnxruntime")
    box()
    line = ("compare", MODEL, "--vary", "container=local,box", "--store", tmp_path / "runs.db", "--quiet")
    found = command(capsys, *line, "--rounds", "1", "--time-budget", "600s")
    assert [variant["label"] for variant in found["variants"]] == ["edgewise's own", "box"]
    with open_store(str(tmp_path / "runs.db")) as store:
        runs = [store.get(variant["run"]) for variant in found["variants"]]
    assert [run.job.target.environment for run in runs] == [None, "box"]
    assert ["packages" in run.environment for run in runs] == [False, True]
    assert all(run.job.workload.interleave == "turns" and run.job.target.device == "local" for run in runs)
    line = ("profile", MODEL, "-r", "onnxruntime", "--environment", "local", "--environment", "box", "--no-store")
    profiled = command(capsys, *line, "--sessions", "1", "--iterations", "5", "--quiet")
    assert [bool(run["layers"]) for run in profiled["runs"]] == [True, True]


def test_an_image_that_can_not_be_used_is_named_once(capsys, box, tmp_path):
    box(url="container://localhost/edgewise-missing")
    write_fake_model(tmp_path / "m.fake", latency_ns=[2_000_000])
    line = ["compare", str(tmp_path / "m.fake"), "-r", "fake", "--vary", "container=local,box", "--no-store"]
    assert edgewise_command(line) == ExitCode.UNAVAILABLE
    told = capsys.readouterr().err
    assert told.count("no container of the image localhost/edgewise-missing can be started: ") == 1


def test_the_conformance_suite_passes(box, tmp_path):
    runtime = box()
    folder = tmp_path / "check"
    folder.mkdir()
    transport = open_transport(find_device("box"))
    check_target(transport, folder=folder)
    transport.close()
    assert eventually(lambda: not containers(runtime, os.getpid()))


def test_limits_of_the_device_hold_in_its_containers(capsys, box, tmp_path):
    box(cpus="0.2", memory="150MiB")
    write_fake_model(tmp_path / "m.fake", latency_ns=[2_000_000])
    run = bench(capsys, tmp_path / "m.fake", "--iterations", "30")
    assert run["environment"]["cpu"]["quota_cores"] == pytest.approx(0.2)
    target.close_targets()
    write_fake_model(tmp_path / "m.fake", behaviour={"at": "invoke", "after": 0, "do": "allocate"})
    run = bench(capsys, tmp_path / "m.fake", "--iterations", "30", code=ExitCode.RUN_FAILED)
    assert run["failure"]["cause"] == "OutOfMemory"


def test_a_device_whose_limits_are_not_set_is_not_used(capsys, box):
    box("--memory=256m --memory-swap=256m", cpus="0.5", memory="150MiB")
    (missing,) = command(capsys, "devices", "check", "box", code=ExitCode.UNAVAILABLE)["missing"]
    assert "did not set a limit: memory" in missing["what"]
    assert missing["what"].endswith(f" is {256 * 2**20}, not {150 * 2**20}")


def test_a_worker_that_hangs_is_killed_with_its_container_also_when_edgewise_is_killed(capsys, box, tmp_path):
    runtime = box()
    write_fake_model(tmp_path / "m.fake", behaviour={"at": "invoke", "after": 0, "do": "hang"})
    run = bench(capsys, tmp_path / "m.fake", "--timeout", "2s", code=ExitCode.RUN_FAILED)
    assert run["failure"]["cause"] == "Timeout"
    target.close_targets()
    assert eventually(lambda: not containers(runtime, os.getpid()))
    line = [sys.executable, "-P", "-m", "edgewise", "bench", "m.fake", "-d", "box", "--no-store", "--no-meters"]
    parent = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert eventually(lambda: len(containers(runtime, parent.pid)) == 2)  # the agent's and the worker's
    finally:
        parent.kill()
        parent.wait()
    assert eventually(lambda: not containers(runtime, parent.pid))


def test_what_the_image_lacks_is_told(capsys, box):
    box(python="python-that-is-missing")
    found = command(capsys, "devices", "check", "box", code=ExitCode.UNAVAILABLE)
    (missing,) = found["missing"]
    assert f"no container of the image {IMAGE} can be started: " in missing["what"]
    assert missing["advice"].startswith("check the image's name and that it has Python 3.11 or newer")
    assert edgewise_command(["devices", "check", "box", "--bootstrap"]) == ExitCode.BAD_INPUT
    assert "install what is missing in the image" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "settings", "message"),
    [
        ("container://", {}, "names no image"),
        ("container://--privileged", {}, "names no image"),
        ("container://a", {"runtime": "lxc"}, "runtime must be docker or podman, not 'lxc'"),
        ("container://a", {"cpus": "many"}, "a setting can't be read: "),
        ("container://a", {"cpus": "0"}, "cpus must be at least 0.01, not 0"),
        ("container://a", {"memory": "much"}, "much"),
        ("container://a", {"options": "'"}, "No closing quotation"),
        ("container://a", {"key": "x"}, "unknown setting 'key'"),
    ],
)
def test_a_url_or_setting_that_cannot_be_used_is_named(tmp_path, monkeypatch, url, settings, message):
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in {"url": url, **settings}.items())
    (tmp_path / "devices.toml").write_text(f"[box]\n{lines}")
    with pytest.raises(BadInput, match=message):
        open_transport(find_device("box"))


def test_a_container_shares_the_lock_of_this_machine(tmp_path, monkeypatch):
    """No container is started for it, and whoever measures in one excludes others here."""
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path))
    with measuring_on("container://image"):
        holder = (tmp_path / "edgewise-measuring.lock").read_text()
        assert f"process {os.getpid()} " in holder
    target.close_targets()
