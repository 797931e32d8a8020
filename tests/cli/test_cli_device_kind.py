"""A kind of device that edgewise does not know, brought by an installed package: every command handles it."""

from __future__ import annotations

import importlib
import json
import os

import numpy as np
import pytest

from edgewise.cli.main import run as edgewise_command
from edgewise.device.agent import lock_file, try_lock
from edgewise.device.lease import measuring_on
from edgewise.device.target import close_targets
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.run.plan import Axes, make_plan
from edgewise.testing import write_fake_model
from installed_package import write_metadata
from messages import wording

POINTS = """[edgewise.transports]
scripted = edgewise.testing.device_kind:ScriptedDevices
[edgewise.runtimes]
scripted = edgewise.testing.device_kind:ScriptedEngine
[edgewise.executors]
scripted = {executor}
"""
DEVICE = "scripted://lab-3"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A function that installs the package; devices, locks and runs of the user are in the folder of the test."""
    for name, place in (("STORE", "runs.db"), ("DEVICES", "devices.toml"), ("LOCKS", "locks")):
        monkeypatch.setenv(f"EDGEWISE_{name}", str(tmp_path / place))
    (tmp_path / "locks").mkdir()

    def with_executor(executor="edgewise.testing.device_kind:ScriptedExecutor"):
        write_metadata(tmp_path / "plugins", "scripted", POINTS.format(executor=executor))
        monkeypatch.syspath_prepend(str(tmp_path / "plugins"))
        importlib.invalidate_caches()

    yield with_executor
    close_targets()


@pytest.fixture
def model(install, tmp_path):
    install()
    return write_fake_model(tmp_path / "m.fake", latency_ns=[2_000_000, 4_000_000, 3_000_000])


def shown(capsys, *words, code=0):
    assert edgewise_command([*map(str, words)]) == code
    streams = capsys.readouterr()
    return streams.out if not code else " ".join(streams.err.split())


def document(capsys, *words, code=0):
    assert edgewise_command([*map(str, words), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_bench_reports_the_times_of_the_device_and_why_the_rest_is_missing(model, capsys, tmp_path):
    words = ("bench", model, "-d", DEVICE, "--sessions", "2", "--iterations", "3", "-o", tmp_path / "page.html")
    (run,) = document(capsys, *words)["runs"]
    rows = {row["metric"]: row for row in run["measurements"]}
    assert rows["latency"]["samples"] == [0.002, 0.004, 0.003] * 2 and rows["latency"]["value"] == 0.003
    assert rows["energy"]["absent_because"] == "a scripted device has no meter"
    assert run["job"]["runtime"] | {"name": "scripted", "version": "7"} == run["job"]["runtime"]
    assert run["job"]["target"]["transport"] == "scripted" and run["effective"]["provider"] == "chip"
    assert run["environment"]["device"]["model"] == "script reader lab-3"
    assert run["environment"]["absent"]["cpu.model"] == "a scripted device does not tell it"
    assert "a scripted device has no meter" in (tmp_path / "page.html").read_text()
    assert "m.fake on scripted/chip: latency 3.00" in shown(capsys, "bench", model, "-d", DEVICE)


@pytest.mark.parametrize("verb", ["bench", "profile"])
def test_a_dry_run_does_not_connect_to_the_device_and_says_what_it_cannot_know(verb, model, capsys):
    """The device ``gone`` can't be reached."""
    words = [verb, model, "-d", "scripted://gone", "--dry-run"]
    *_, last = shown(capsys, *words).splitlines()
    assert last == wording("dry-run-does-not-connect", names="m.fake", device="scripted://gone")
    assert "unknown device" in shown(capsys, verb, model, "-d", "moon", "--dry-run", code=3)
    shown(capsys, verb, "no.fake", "-d", "scripted://gone", "--dry-run", code=2)


def test_it_stands_beside_this_machine_in_one_bench(model, capsys):
    runs = document(capsys, "bench", model, "-d", DEVICE, "-d", "local", "--sessions", "1")["runs"]
    assert [(run["job"]["target"]["device"], run["job"]["runtime"]["name"]) for run in runs] == [
        (DEVICE, "scripted"), ("local", "fake"),
    ]  # fmt: skip


def test_stored_runs_of_it_are_shown_compared_and_exported(model, capsys, tmp_path):
    models = [write_fake_model(tmp_path / f"{ms}.fake", latency_ns=[ms * 1_000_000]) for ms in (2, 4)]
    first, second = (document(capsys, "bench", each, "-d", DEVICE)["runs"][0]["id"] for each in models)
    (row,) = [each for each in document(capsys, "compare", first, second)["comparisons"] if each["metric"] == "latency"]
    assert row["ratio"] == pytest.approx(2.0) and row["verdict"] == "slower"
    assert "script reader lab-3" in shown(capsys, "runs", "show", first)
    for name in ("runs.csv", "runs.md", "runs.json"):
        shown(capsys, "runs", "export", first, "-o", tmp_path / name)
        assert "scripted" in (tmp_path / name).read_text()


def test_a_device_has_a_lock_of_its_own_under_any_name(model):
    with measuring_on(DEVICE):
        here = try_lock(lock_file(), "somebody")
        there = try_lock(lock_file().with_name("edgewise-measuring-lab_3.lock"), "somebody")
    assert isinstance(here, int) and isinstance(there, str)
    os.close(here)


def test_devices_and_doctor_show_what_it_tells(model, capsys):
    found = document(capsys, "devices", "check", DEVICE)
    assert found["usable"] and found["engines"]["scripted"]["version"] == "7"
    assert not any(each["available"] for each in found["sensors"].values()) and found["missing"] == []
    assert "script reader lab-3" in shown(capsys, "devices", "check", DEVICE)
    shown(capsys, "devices", "add", "chip", DEVICE)
    assert DEVICE in shown(capsys, "devices", "list")
    found = document(capsys, "doctor", "-d", "chip")
    assert [row["name"] for row in found["runtimes"]] == ["scripted"] and found["fitness"]["watched"] == {}
    assert found["fitness"]["reasons"] == ["it is unknown what else the device does while it measures"]
    told = shown(capsys, "doctor", "-d", "chip")
    assert "chip   script reader lab-3" in told and "Scripted device 7 reads fake" in told


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["profile", "m.fake", "-d", DEVICE], f"{DEVICE} can't be profiled: it times whole inferences only", 3),
        (["compare", "m.fake", "b=m.fake", "-d", DEVICE], "takes no turns, so only bench measures it", 3),
        (["optimize", "m.fake", "-d", DEVICE], "takes no turns, so only bench measures it", 3),
        (["gate", "m.fake", "--baseline", "m.fake", "-d", DEVICE, "--max-regression", "3%"], "takes no turns", 3),
        (["compare", "m.fake", "b=m.fake", "-r", "scripted"], "scripted works with bench only", 3),
        (
            ["bench", "m.fake", "-r", "scripted"],
            "it measures scripted devices try: name one with --device scripted://",
            3,
        ),
        (["bench", "m.fake", "-r", "fake", "-d", DEVICE], "a scripted device runs scripts only", 3),
        (["bench", "m.fake", "-d", DEVICE, "--batch", "2"], "single-stream scenario, batch 1 and one thread", 2),
        (["bench", "m.fake", "-d", DEVICE, "--threads", "2"], "single-stream scenario, batch 1 and one thread", 2),
        (["bench", "m.fake", "-d", DEVICE, "--sustained", "1min"], "single-stream scenario, batch 1", 2),
        (["bench", "m.fake", "-d", DEVICE, "--input-data", "x.npz"], "takes no inputs of yours", 2),
        (["bench", "m.fake", "-d", "scripted://gone"], "it does not answer try: switch it on", 3),
        (["doctor", "-d", "scripted://gone"], "it does not answer try: switch it on", 3),
        (["devices", "check", DEVICE, "--bootstrap"], "--bootstrap can install nothing on", 2),
    ],
)
def test_what_it_can_not_do_is_said_before_it_measures(model, capsys, monkeypatch, words, message, code):
    monkeypatch.chdir(model.parent)
    np.savez("x.npz", x=np.zeros((1, 4), np.float32))
    assert message in shown(capsys, *words, code=code)


@pytest.mark.parametrize(
    ("at", "message"), [("load", "the script ends"), ("invoke", "scripted failed: ValueError: what a plug-in does not")]
)
def test_a_session_that_fails_is_a_failed_run(model, capsys, at, message):
    write_fake_model(model, behaviour={"at": at, "do": "raise"})
    (run,) = document(capsys, "bench", model, "-d", DEVICE, code=4)["runs"]
    assert run["status"] == "failed" and message in run["failure"]["message"] and run["failure"]["advice"]


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ("no_such_module:Executor", "executor 'scripted' can't be loaded: No module named 'no_such_module'"),
        ("edgewise.testing.device_kind:ScriptedEngine", "executor 'scripted' can't be loaded: it lacks "),
    ],
)
def test_an_executor_that_can_not_be_used_is_one_clear_error_and_others_work(
    install, capsys, tmp_path, executor, message
):
    install(executor)
    model = write_fake_model(tmp_path / "m.fake")
    for command in (("bench", model), ("devices", "check"), ("doctor",)):
        assert message in shown(capsys, *command, *(("-d",) if command[0] != "devices" else ()), DEVICE, code=3)
    assert document(capsys, "bench", model, "--sessions", "1")["runs"][0]["status"] == "done"
    plan = make_plan([model], axes=Axes(), scenario=Scenario(), stopping=Stopping(), target=TargetSpec())
    assert [job.runtime.name for job in plan.jobs] == ["fake"]
