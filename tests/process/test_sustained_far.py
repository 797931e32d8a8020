"""Sustained runs on a far target: bins come over the link, and what was measured is kept where it drops."""

from __future__ import annotations

import pytest

import edgewise
from edgewise.device.target import find_target
from edgewise.progress import BinDone
from edgewise.run.meters.base import Reading
from edgewise.run.run_builder import Sensors
from edgewise.testing import write_fake_model
from far_targets import far_device, far_python  # noqa: F401

MS = 1_000_000


def model(folder, **script):
    """A model of 10 ms that takes 15 ms from its 12,000th inference on: after 2 min."""
    return write_fake_model(folder / "m.fake", **{"warmup_ns": [10 * MS] * 12_000, "latency_ns": [15 * MS], **script})


def behaving(do, *, after):
    return {"behaviour": {"at": "invoke", "do": do, "after": after}}


class PowerMeter:
    """A power meter beside the device."""

    name, title, metrics, place = "scripted", "Scripted", ("power",), "host"

    def begin(self):
        pass

    def sample(self):
        pass

    def end(self):
        return [Reading(metric="power", value=2.5, method="scripted")]


def test_a_far_device_sends_its_bins_and_a_meter_beside_it_is_read(tmp_path, far_device, monkeypatch):  # noqa: F811
    sensors = Sensors(beside=(PowerMeter(),), absences={"clock_rate": "none there"})
    monkeypatch.setattr("edgewise.run.run_builder.find_sensors", lambda **_: sensors)
    far_device(latency_s=0.01)
    (run,) = edgewise.bench(model(tmp_path), sustained=240.0, device="far")
    assert (run.status, run.failure) == ("done", None)
    assert set(run.sustained.series["power"]) == {2.5} and run.sustained.absent["clock_rate"] == "none there"
    assert run.sustained.verdict == "slower" and run.sustained.slowdown_from_s == pytest.approx(120.0, abs=3.1)


def test_a_link_that_drops_leaves_what_was_measured(tmp_path, far_device):  # noqa: F811
    far_device(latency_s=0.01)
    hanging = model(tmp_path, **behaving("hang", after=20_000))  # 240 s

    def progress(event):
        if isinstance(event, BinDone) and event.elapsed_s > 180:
            find_target("far").transport.drop()

    (run,) = edgewise.bench(hanging, sustained=1800.0, device="far", meters=False, progress=progress)
    assert (run.status, run.failure.cause) == ("failed", "LinkLost")
    assert run.sustained.elapsed_s > 180 and run.sustained.verdict == "slower"
