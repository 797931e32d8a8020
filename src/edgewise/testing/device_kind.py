"""A kind of device that edgewise does not know, for tests of everything that has to work with it nevertheless.

A package names the three in its entry points: `ScriptedDevices` in ``edgewise.transports``, `ScriptedEngine` in
``edgewise.runtimes`` and `ScriptedExecutor` in ``edgewise.executors``, each as ``scripted``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path

from edgewise.device.transport import StartsNothing
from edgewise.errors import Unavailable, as_flag
from edgewise.record import Failure, Job, Measurement
from edgewise.registry import Availability
from edgewise.run.executor import AnyTarget, Beside, Executor, Facts, only_facts, unknown_machine
from edgewise.run.host_protocol import SessionRequest, SessionResult
from edgewise.run.rates import distribution
from edgewise.runtime.base import OnDevices, Provider
from edgewise.runtime.fake_script import read_script

INFERENCES = 5
"""Timed inferences of a session where the user sets no number."""


class ScriptedDevices:
    """Opens ``scripted://SERIAL``; the device ``gone`` can't be reached."""

    name = "scripted"
    settings: Mapping[str, str] = {}

    def open(self, name: str, address: str, settings: Mapping[str, str]) -> ScriptedDevice:
        """As `edgewise.device.transport.OpensDevices.open`."""
        return ScriptedDevice(name, address)


class ScriptedDevice(StartsNothing):
    """One device, with a lock of its own."""

    executor = "scripted"

    def __init__(self, name: str, serial: str) -> None:
        self.name = name
        self.serial = serial


class ScriptedEngine(OnDevices):
    """Reads models of the fake engine (`edgewise.runtime.fake`)."""

    name = "scripted"
    title = "Scripted device"
    executor = "scripted"
    formats: Sequence[str] = ("fake",)
    providers = (Provider(name="chip", title="the chip of the device", precisions=()),)
    where, hint = "it measures scripted devices", f"name one with {as_flag('device', 'scripted://SERIAL')}"


class ScriptedExecutor(Executor):
    """Tells the times of the model's ``latency_ns``; fails if it has a ``behaviour``, by an error at ``invoke``."""

    def facts(self, target: AnyTarget) -> Facts | None:
        """As `Executor.facts`."""
        device = target.transport
        assert isinstance(device, ScriptedDevice)
        if device.serial == "gone":
            raise Unavailable(f"{target.name} can't be used: it does not answer", advice="switch it on")
        others = Availability(
            False, "a scripted device runs scripts only", f"omit {as_flag('device')} to use it on this machine"
        )
        environment = unknown_machine(f"script reader {device.serial}", "a scripted device does not tell it")
        return only_facts({"scripted": Availability(True, version="7")}, environment, others=others)

    def run(
        self, request: SessionRequest, *, target: AnyTarget, folder: Path, end_by: float | None = None
    ) -> SessionResult:
        """As `Executor.run`."""
        result, script = SessionResult(index=request.index), read_script(Path(request.job.model.path))
        if script["behaviour"].get("at") == "invoke":
            raise ValueError("what a plug-in does not expect")
        if script["behaviour"]:
            result.failure = Failure(cause="EngineError", message="the script ends", phase="steady", advice="write on")
            return result
        count = request.job.workload.stopping.iterations or INFERENCES
        result.samples["latency"] = list(islice(cycle(script["latency_ns"]), count))
        result.facts["effective"] = {"provider": "chip", "threads": None, "precision": None}
        return result

    def measurements(self, job: Job, sessions: Sequence[SessionResult], beside: Beside) -> tuple[Measurement, ...]:
        """As `Executor.measurements`."""
        times = [[value * 1e-9 for value in session.samples["latency"]] for session in sessions]
        absent = (Measurement.absent(metric, "a scripted device has no meter") for metric in ("energy", "power"))
        return (distribution("latency", times, "the script's times", variation=beside.variation), *absent)
