"""What all measuring commands do alike: a failing store costs no measurement, and a dry run does nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fake_passes as scripted
from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.testing import write_fake_model
from small_selections import NET, rows

COMMANDS = {
    "bench": ["m.fake", "--iterations", "9"],
    "profile": ["m.fake", "--iterations", "9", "--sessions", "1"],
    "evaluate": ["m.fake", "--data", "d.npz", "--task", "classification", "-r", "fake", "--no-latency"],
    "compare": ["m.fake", "other.fake", "-r", "fake", "--rounds", "1"],
    "gate": ["m.fake", "-r", "fake", "--budget", "latency=1s", "--time-budget", "600s"],
    "optimize": ["m.fake", "-r", "fake", "--passes", "faster", "--time-budget", "20s"],
}
WITHOUT_STORE = {"profile": (ExitCode.UNAVAILABLE, ExitCode.RUN_FAILED), "gate": (ExitCode.DONE,)}
"""Exit codes where the store fails, other than UNAVAILABLE alone: a gate's is its verdict."""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    monkeypatch.setattr("edgewise.run.interleaving.TURNS", 20)
    scripted.install(monkeypatch, tmp_path, scripted.Faster)
    outputs = [{"name": "y", "shape": [1, 3], "dtype": "float32"}]
    for name in ("m", "other"):
        write_fake_model(f"{name}.fake", graph=NET, outputs=outputs, latency_ns=[2_000_000])
    np.savez("d.npz", x=rows(20), y=[2] * 20)
    return tmp_path


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_a_store_that_fails_costs_no_measurement(verb: str, place: Path, capsys):
    (place / "broken.db").write_bytes(b"this is not a database" * 100)
    code = run([verb, *COMMANDS[verb], "--store", "broken.db", "-q", "--json"])
    captured = capsys.readouterr()
    assert code in WITHOUT_STORE.get(verb, (ExitCode.UNAVAILABLE,)), captured.err
    assert json.loads(captured.out)
    assert captured.err.count("not saved:") == 1
    (recovery,) = place.glob("edgewise-recovery-*.json")
    assert f"edgewise runs import {recovery}" in captured.err
    assert run(["runs", "import", str(recovery)]) == 0


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_a_dry_run_does_nothing_and_its_request_does_what_the_command_does(verb: str, place: Path, capsys):
    before = sorted(place.iterdir())
    assert run([verb, *COMMANDS[verb], "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"would run: edgewise {verb} m.fake")
    assert run([verb, *COMMANDS[verb], "--dry-run", "--json"]) == 0
    (place / "request.json").write_text(capsys.readouterr().out)
    assert sorted(place.iterdir()) == sorted([*before, place / "request.json"])
    if verb in ("evaluate", "gate"):
        assert run([verb, *COMMANDS[verb], "-q", "--json", "--no-store"]) == run(
            ["run", "request.json", "-q", "--json"]
        )
        first, second = capsys.readouterr().out.split("\n}\n", 1)
        assert json.loads(first + "}").keys() == json.loads(second).keys()


REFUSED = {
    "bench": ["nope.fake"],
    "profile": ["nope.fake"],
    "inspect": ["nope.fake"],
    "convert": ["nope.fake", "--to", "tflite"],
    "diff": ["nope.fake", "m.fake"],
    "evaluate": ["m.fake", "--data", "nope", "--task", "classification", "-r", "fake"],
    "compare": ["m.fake", "nope.fake", "-r", "fake"],
    "gate": ["m.fake", "--baseline", "nope.fake", "-r", "fake"],
    "optimize": ["m.fake", "-r", "fake", "-d", "ethos-u55-128"],
    "estimate": ["m.fake", "-d", "ethos-u55-128"],
    "sweep": ["nope.yaml"],
}


@pytest.mark.parametrize("verb", sorted(REFUSED))
def test_a_dry_run_is_refused_as_the_run_is(verb: str, place: Path, capsys):
    before = sorted(place.iterdir())
    code = run([verb, *REFUSED[verb]])
    refused = capsys.readouterr().err.partition("error: ")[2]
    assert code in (ExitCode.BAD_INPUT, ExitCode.UNAVAILABLE) and refused
    assert run([verb, *REFUSED[verb], "--dry-run"]) == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.partition("error: ")[2] == refused
    assert sorted(place.iterdir()) == before


def test_a_dry_run_does_not_connect_to_the_device_and_says_what_it_did_not_check(place: Path, capsys):
    assert run(["devices", "add", "far", "ssh://user@192.0.2.1"]) == 0
    capsys.readouterr()
    assert run(["compare", "m.fake", "nope.fake", "-r", "fake", "-d", "far", "--dry-run"]) == 0
    assert "not checked: a dry run does not connect to far" in capsys.readouterr().err
