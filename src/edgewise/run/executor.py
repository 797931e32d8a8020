"""The seam to kinds of devices: what is known of one, and who measures a job on it.

A transport names the executor of its devices, and an engine the executor that measures it; without a name it is the
worker, a process that runs the engine in Python. No other module asks what kind of device it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from edgewise.device.devices import Device
from edgewise.device.environment_targets import RemoteEnvironment, find_environment
from edgewise.device.target import LocalTarget, RemoteTarget, find_target
from edgewise.errors import BadInput, Unavailable
from edgewise.folders import job_folder
from edgewise.record import Job, Measurement, Run, Scenario, TargetSpec, Variation
from edgewise.registry import Availability, Registry
from edgewise.run.agreement import Outputs
from edgewise.run.device_check import DeviceCheck, Missing
from edgewise.run.environment import fingerprint
from edgewise.run.fitness import Finding, Fitness
from edgewise.run.host_protocol import SessionRequest, SessionResult
from edgewise.run.meters.base import Traits, meters
from edgewise.runtime.base import runtimes

WORKER = "worker"
AnyTarget = LocalTarget | RemoteTarget | RemoteEnvironment


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a target told.

    Attributes:
        engines, sensors: name → whether it can be used there.
        traits: name of a meter → its traits there.
        environment: `edgewise.run.environment.fingerprint` of the machine there.
        cores: the processors that may be used.
        programs: name of a benchmark tool that is there → its path, or a file on this machine that must be sent.
    """

    engines: Mapping[str, Availability]
    sensors: Mapping[str, Availability]
    environment: Mapping[str, Any]
    cores: tuple[int, ...] = (0,)
    programs: Mapping[str, str] = field(default_factory=dict)
    traits: Mapping[str, Traits] = field(default_factory=dict)


def only_facts(
    engines: Mapping[str, Availability], environment: Mapping[str, Any], *, others: Availability, **more: Any
) -> Facts:
    """Return the facts of a device with `engines` alone; `others` says why it has no other engine and no sensor."""
    every = dict.fromkeys(runtimes().names(), others)
    sensors = dict.fromkeys(meters().names(), others)
    return Facts(engines={**every, **engines}, sensors=sensors, environment=environment, **more)


def unknown_machine(model: str | None, because: str) -> dict[str, Any]:
    """Return the fingerprint of a device of which only the name of its model is known.

    Args:
        because: why the rest is not known.
    """
    with job_folder() as nothing:
        found = fingerprint(root=nothing)
    known = ("architecture", "python", "os.libc")
    found |= {"architecture": None, "python": None, "os": dict.fromkeys(found["os"]), "state": dict(found["state"])}
    found["state"]["battery"] = None
    found["absent"] = dict.fromkeys((*found["absent"], *known), because)
    found["absent"].pop("device.model")
    return {**found, "device": {"vendor": None, "model": model}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What measurements need beside the sessions.

    Attributes:
        variation: what runs on this device differ by; None where it is not known.
        layered: sessions that timed layers in turns with ordinary inferences.
        absences: metric → why no sensor tells it.
    """

    variation: Variation | None
    layered: Sequence[SessionResult] = ()
    absences: Mapping[str, str] = field(default_factory=dict)


class Executor(Protocol):
    """Measures jobs on one kind of device.

    A class that extends it must have `facts`, `run` and `measurements`. The other answers here are those of a device on
    which edgewise starts no process: only bench measures it, and its outputs are not compared.

    Attributes:
        is_worker: whether sessions are processes of edgewise, which take turns, give outputs and report their progress.
        evaluates: whether `evaluate`, too, works with the engines that are not the worker's.
        noun: a device in words; empty for its name.
        no_layers, instead_of_profile: why `profile` does not measure it, and what to do instead.
        varies: whether intervals include what runs on a kind of machine usually differ by, though no session times it.
        if_outputs_differ: what to do where outputs differ from those of `reference`.
    """

    is_worker: bool = False
    evaluates: bool = False
    varies: bool = False
    if_outputs_differ: str = ""
    noun: str = ""
    no_layers: str = "it times whole inferences only"
    instead_of_profile: str = "bench measures the model"

    def facts(self, target: AnyTarget) -> Facts | None:
        """Return what the target tells; None for this machine. Raises `Unavailable`."""

    def run(
        self, request: SessionRequest, *, target: AnyTarget, folder: Path, end_by: float | None = None
    ) -> SessionResult:
        """Measure one session.

        Args:
            folder: an empty folder on this machine, for the outputs.
            end_by: monotonic time, s, at which the session is given up.

        Raises KeyboardInterrupt; every other failure is in the result.
        """

    def measurements(self, job: Job, sessions: Sequence[SessionResult], beside: Beside) -> tuple[Measurement, ...]:
        """Every measurement that complete sessions support, headline first."""

    def check(self, job: Job, *, own_inputs: bool) -> None:
        """Raise `BadInput` or `Unavailable` for a setting of a job that can't be measured.

        Args:
            own_inputs: whether the user gave inputs.
        """
        who = self.noun or job.target.device
        if job.workload.profile:
            raise Unavailable(f"{who} can't be profiled: {self.no_layers}", advice=self.instead_of_profile)
        if job.workload.scenario != Scenario() or job.workload.batch != 1 or job.runtime.threads != 1:
            raise BadInput(
                f"{who} has only the single-stream scenario, batch 1 and one thread",
                advice="omit ⟦scenario⟧, ⟦batch⟧ and ⟦threads⟧",
            )
        if own_inputs:
            raise BadInput(f"{who} takes no inputs of yours", advice="omit ⟦input_data⟧")

    def without_workers(self, target: AnyTarget) -> Unavailable | None:
        """Why no worker can be started on the target, and so no command but bench measures it; None where one can."""
        return Unavailable(
            f"{target.name} runs no engine in Python and takes no turns, so only bench measures it",
            advice="compare stored runs of bench: edgewise compare RUN RUN",
        )

    def without_outputs(self, engine: str) -> Unavailable | None:
        """Why only times of an engine of this executor can be had; None where other commands measure with it too."""
        if self.is_worker or self.evaluates:
            return None
        return Unavailable(
            f"{engine} works with bench only: it gives no outputs and can't take turns",
            advice="compare its stored runs",
        )

    def reference(self, run: Run, *, has_outputs: bool) -> Outputs | None:
        """Return the outputs of another computation, which those of a run are compared with even where it is
        the only one.

        None for an executor without references. Raises `EdgewiseError` where they are missing this time.
        """
        return None

    def examine(self, device: Device, target: AnyTarget, *, install: Sequence[str] | None) -> DeviceCheck:
        """Return what is there and what is missing.

        Args:
            install: names of packages to install there before; None installs nothing.

        Raises `BadInput` where nothing can be installed, `Unavailable` where the installation failed.
        """
        if install is not None:
            raise BadInput(f"⟦bootstrap⟧ can install nothing on {device.name}", advice="it is for devices over ssh")
        try:
            found = facts_of(TargetSpec(device=device.name, transport=device.transport))
        except Unavailable as error:
            return DeviceCheck(device=device, missing=(Missing(what=error.message, advice=error.advice),))
        assert found is not None
        return DeviceCheck(
            device=device,
            usable=any(found.engines.values()),
            engines=dict(found.engines),
            sensors=dict(found.sensors),
            traits=dict(found.traits),
            environment=dict(found.environment),
        )

    def activity(
        self, target: AnyTarget, seconds: float, *, sleep: Callable[[float], object] = time.sleep
    ) -> Mapping[str, float | None]:
        """Return what the machine did in `seconds` in which edgewise was idle: `Counters.delta`; empty where it
        can't tell.

        Args:
            sleep: waits on this machine.

        Raises `Unavailable`.
        """
        return {}

    def gauge(self, target: AnyTarget, seconds: float, count: int) -> Mapping[str, Any]:
        """How the device is now, as `edgewise.run.facts_worker.gauge`; empty where it can't tell.

        Raises `Unavailable`.
        """
        return {}

    def fitness(self, environment: Mapping[str, Any], activity: Mapping[str, float | None]) -> Fitness:
        """How suitable the device is for measuring."""
        reason = "it is unknown what else the device does while it measures"
        return Fitness(grade="B", findings=(Finding(ceiling="B", reason=reason, advice="let it do nothing else"),))

    def words(self, environment: Mapping[str, Any]) -> str | None:
        """Return the device on one line, from its fingerprint; None where that describes a computer."""
        return environment["device"]["model"] or "model not known"


def executors() -> Registry[Executor]:
    """All executors, built-in and plugged in."""
    return Registry("edgewise.executors", "executor", members=[name for name in vars(Executor) if name[0] != "_"])


def name_of_executor(plugin: object) -> str:
    """Return the name of the executor of an engine or a transport."""
    return str(getattr(plugin, "executor", WORKER))


def executor_of(plugin: object) -> Executor:
    """Return the executor of an engine or a transport. Raises `Unavailable`."""
    return executors().get(name_of_executor(plugin))


def executor_for(job: Job) -> Executor:
    """Return the executor that measures a job. Raises `Unavailable`."""
    return executor_of(runtimes().get(job.runtime.name))


def executor_at(spec: TargetSpec) -> Executor:
    """Return the executor of a device. Raises `Unavailable`."""
    return executor_of(target_of(spec).transport)


def target_of(spec: TargetSpec) -> AnyTarget:
    """Where jobs with this target run. Raises `Unavailable`, and `BadInput` for an environment that can't be there."""
    if spec.environment is None:
        return find_target(spec.device)
    return find_environment(spec.environment, spec.device)


_KNOWN: WeakKeyDictionary[AnyTarget, Facts] = WeakKeyDictionary()


def facts_of(spec: TargetSpec) -> Facts | None:
    """Return what a target told when it was asked first; None for this machine. Raises `Unavailable`."""
    target = target_of(spec)
    if target not in _KNOWN:
        if (found := executor_at(spec).facts(target)) is None:
            return None
        _KNOWN[target] = found
    return _KNOWN[target]
