"""`edgewise bench` with a power meter in the supply of the device: a pseudo-terminal that a thread writes."""

from __future__ import annotations

import json
import re

import pytest

from edgewise.cli.doctor.command import examine
from edgewise.cli.main import run
from edgewise.device.devices import find_device, open_transport
from edgewise.errors import ExitCode
from edgewise.run.power_meter import meter as power_meter
from edgewise.testing import write_fake_model
from power_meters import Streaming, Terminal

pytest.importorskip("serial")


@pytest.fixture
def terminal(tmp_path, monkeypatch):
    """The port of the meter of this machine, registered as a user does it."""
    made = Terminal()
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    for name in ("LISTEN_S", "SILENCE_S"):
        monkeypatch.setattr(power_meter, name, 600.0)
    url = f"serial://{made.path}?format={{power:W}}"
    assert run(["devices", "add", "local", "local", "--set", f"power_meter={url}"]) == ExitCode.DONE
    yield made
    power_meter.open_meter.cache_clear()
    made.close()


def bench(tmp_path, capsys):
    write_fake_model(tmp_path / "m.fake")
    capsys.readouterr()
    assert run(["bench", str(tmp_path / "m.fake"), "--iterations", "10", "--json"]) == ExitCode.DONE
    captured = capsys.readouterr()
    (record,) = json.loads(captured.out)["runs"]
    return {row["metric"]: row for row in record["measurements"]}, captured.err


def at_each_window(monkeypatch, act):
    """Call `act` with the window's number before the meter begins it: idle, load, load, idle, idle, …"""
    begin, count = power_meter.PowerMeter.begin, iter(range(-1, 1000))

    def counted(meter):
        act(next(count))  # −1: when the meter is asked whether it is there
        begin(meter)

    monkeypatch.setattr(power_meter.PowerMeter, "begin", counted)


def test_energy_is_what_the_meter_measured_above_idle(terminal, tmp_path, monkeypatch, capsys):
    stream = Streaming(terminal, watts=2.0)
    at_each_window(monkeypatch, lambda index: stream.set(5.0 if index % 4 in (1, 2) else 2.0))
    try:
        rows, _ = bench(tmp_path, capsys)
    finally:
        stream.stop()
    assert rows["power"]["value"] == pytest.approx(3.0, abs=0.01)
    assert rows["power"]["low"] <= 3.0 <= rows["power"]["high"]
    assert (
        f"power meter at {terminal.path}" in rows["power"]["method"] and "read by the host" in rows["power"]["method"]
    )
    energy = rows["energy"]
    if energy["value"] is None:  # an inference of the fake engine takes what its Python takes, which load changes
        assert re.search(r"above idle can't be told from 0: 6 pairs", energy["absent_because"])
    else:
        assert 0 < energy["low"] < energy["value"] < energy["high"]
        # A pair whose window lost samples on a busy machine is left out.
        assert f"power meter at {terminal.path}" in energy["method"]
        assert re.search(r"mean of [2-6] pairs", energy["method"])


def test_a_meter_that_stops_costs_the_energy_and_nothing_else(terminal, tmp_path, monkeypatch, capsys):
    stream = Streaming(terminal)
    at_each_window(monkeypatch, lambda index: stream.stop() if index == 0 else None)
    rows, _ = bench(tmp_path, capsys)
    assert rows["latency"]["value"] > 0
    assert rows["energy"]["value"] is None and "the meter stopped" in rows["energy"]["absent_because"]


def test_a_meter_that_is_not_there_costs_the_energy_and_says_so_at_once(terminal, tmp_path, capsys):
    terminal.close()
    rows, err = bench(tmp_path, capsys)
    assert rows["latency"]["value"] > 0
    assert "No such file or directory" in rows["energy"]["absent_because"]
    assert "no energy from the power meter: power meter at /dev/pts" in err


def test_the_check_of_a_device_listens_to_its_meter(terminal, monkeypatch, capsys):
    capsys.readouterr()
    monkeypatch.setattr(power_meter, "LISTEN_S", 1.0)  # real time: it has to end, on any machine
    assert run(["devices", "check", "local", "--json"]) == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)
    assert not found["sensors"]["power-meter"]["available"]
    assert "fewer than two lines in 1 s" in found["missing"][-1]["what"]
    monkeypatch.setattr(power_meter, "LISTEN_S", 600.0)
    stream = Streaming(terminal)
    try:
        assert run(["devices", "check", "local", "--json"]) == ExitCode.DONE
    finally:
        stream.stop()
    assert json.loads(capsys.readouterr().out)["sensors"]["power-meter"]["available"]
    row = examine(sleep=lambda seconds: None)["meters"][-1]
    assert (row["name"], row["available"], row["metrics"], row["place"]) == ("power-meter", True, ["energy"], "host")
    assert row["rate_hz"] > 0 and row["title"] == f"power meter at {terminal.path}"


def test_the_list_shows_this_machine_once(terminal, capsys):
    capsys.readouterr()
    assert run(["devices", "list", "--json"]) == ExitCode.DONE
    (here,) = json.loads(capsys.readouterr().out)["devices"]
    assert here["name"] == "local" and here["settings"]["power_meter"].startswith("serial:///dev/pts/")


@pytest.mark.parametrize(
    ("name", "url", "setting", "why"),
    [
        ("board", "ssh://board", "power_meter=/dev/ttyUSB0", "is not the URL of a power meter"),
        ("board", "ssh://board", "meter=x", "unknown setting 'meter'"),
        ("local", "local", "python=x", "no address and no settings"),
    ],
)
def test_settings_are_checked_when_a_device_is_added(tmp_path, monkeypatch, capsys, name, url, setting, why):
    pytest.importorskip("asyncssh")
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    assert run(["devices", "add", name, url, "--set", setting]) == ExitCode.BAD_INPUT
    assert why in " ".join(capsys.readouterr().err.split()) and not (tmp_path / "devices.toml").exists()


def test_the_transport_of_a_device_is_opened_without_its_meter(tmp_path, monkeypatch):
    pytest.importorskip("asyncssh")
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    url = "tcp://10.0.0.9:4000?format={power:mW}"
    assert run(["devices", "add", "board", "ssh://board", "--set", f"power_meter={url}"]) == ExitCode.DONE
    assert open_transport(find_device("board")).name
    meter = power_meter.meter_of("board")
    assert meter is power_meter.meter_of("board") and meter.title == "power meter at 10.0.0.9:4000"
    assert power_meter.meter_of("local") is None
