"""``edgewise battery``."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.store import open_store
from messages import says, wording
from sample_runs import make_run, measured, run_id

WORDS = ("battery", "--capacity", "10Wh", "--idle-power", "50mW±5mW", "--per-hour", "60")


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store with a run that measured 3 J, and one that measured no energy."""
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    bare = make_run(1)
    rows = tuple(measured("energy", 3.0, half=0.3) if row.metric == "energy" else row for row in bare.measurements)
    with open_store(str(tmp_path / "runs.db")) as opened:
        opened.save(bare)
        opened.save(replace(bare, id=run_id(2), measurements=rows))


def test_the_life_from_a_measured_energy(store, capsys):
    assert run([*WORDS, run_id(2)]) == ExitCode.DONE
    text = " ".join(capsys.readouterr().out.split())
    assert "battery life 4.17 [3.78, 4.63] days" in text and "mean power 100 ± 10 mW" in text
    assert f"energy measured by run {run_id(2)}" in text and "inferences 50 % of the mean power" in text


def test_the_document(store, capsys):
    assert run([*WORDS, run_id(2), "--json"]) == ExitCode.DONE
    (row,) = json.loads(capsys.readouterr().out)["battery"]
    assert (row["run"], row["model"], row["basis"]) == (run_id(2), "kws.onnx", "derived")
    assert row["life"] == {
        "value": pytest.approx(360_000.0),
        "low": pytest.approx(36_000 / 0.11),
        "high": pytest.approx(400_000.0),
        "unit": "s",
    }


def test_a_run_without_energy_gives_no_number(store, capsys):
    assert run([*WORDS, run_id(1)]) == ExitCode.UNAVAILABLE
    captured = capsys.readouterr()
    assert (
        captured.out == ""
        and re.search(says("run-no-energy-per-inference"), captured.err)
        and wording("give-energy-energy-such-energy") in captured.err
    )


def test_an_energy_that_is_given_goes_first(store, capsys):
    assert run([*WORDS, run_id(1), "--energy", "6J", "--json"]) == ExitCode.DONE
    (row,) = json.loads(capsys.readouterr().out)["battery"]
    assert row["energy"]["value"] == 6.0 and "given with --energy" in row["method"]


def test_more_inferences_than_fit_into_an_hour(store, capsys):
    words = [*WORDS[:-1], "1e9", run_id(2)]
    assert run(words) == ExitCode.BAD_INPUT
    assert re.search(says("inferences-do-not-fit-into"), capsys.readouterr().err)


def test_without_a_run_and_without_an_energy(capsys):
    assert run(list(WORDS)) == ExitCode.BAD_INPUT
    assert wording("name-run-measured-give-energy") in capsys.readouterr().err


def test_an_energy_without_a_unit(capsys):
    assert run([*WORDS, "--energy", "3"]) == ExitCode.BAD_INPUT
    assert "'3' is not an energy" in capsys.readouterr().err


def test_neither_run_nor_store_is_needed_for_a_given_energy(capsys):
    assert run([*WORDS, "--energy", "3J±10%"]) == ExitCode.DONE
    assert "4.17 [3.78, 4.63] days" in " ".join(capsys.readouterr().out.split())


def test_a_short_life_is_in_hours(capsys):
    assert run(["battery", "--energy", "1J", "--capacity", "10Wh", "--idle-power", "1W", "--per-hour", "3600"]) == 0
    assert "battery life 5.00 hours" in " ".join(capsys.readouterr().out.split())
