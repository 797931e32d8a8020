"""The executor of devices with Python, this machine among them: each session is a process of edgewise's worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewise.device.asking import ask
from edgewise.device.bootstrap import PACKAGES, bootstrap, how_to_install
from edgewise.device.devices import Device
from edgewise.device.environment_targets import EnvironmentTarget, RemoteEnvironment
from edgewise.device.link import LinkLost, NotAdmitted, Unreachable
from edgewise.device.target import LocalTarget, RemoteTarget
from edgewise.device.transport import TellsEmulator
from edgewise.device.transports.container import ContainerTransport
from edgewise.errors import BadInput, EdgewiseError, Unavailable
from edgewise.folders import job_folder
from edgewise.record import Job, Measurement, TargetSpec
from edgewise.registry import Availability, Registry, availability_of
from edgewise.run import fitness
from edgewise.run.device_check import DeviceCheck, Missing, missing_engines
from edgewise.run.environment import fingerprint
from edgewise.run.executor import AnyTarget, Beside, Executor, Facts, facts_of
from edgewise.run.facts_worker import observe
from edgewise.run.host import run_session
from edgewise.run.host_protocol import SessionRequest, SessionResult
from edgewise.run.measurements import measurements_of
from edgewise.run.meters.base import Traits, meters, watches_from_host
from edgewise.runtime.base import runtimes
from edgewise.text import one_line

LEAST_FREE_BYTES = 2**30
"""Less free space on a device is reported: a model, an engine's temporary files and its cache may not fit."""
IN_IMAGE = "install what is missing in the image: FROM IMAGE, then RUN pip install numpy and the engines"
Environment = EnvironmentTarget | RemoteEnvironment
_PATIENCE_S = 120.0
_WORKER = "edgewise.run.facts_worker"


class WorkerExecutor(Executor):
    """As `Executor`, by processes that run engines in Python."""

    is_worker = True

    def facts(self, target: AnyTarget) -> Facts | None:
        """As `Executor.facts`."""
        return _ask_facts(target) if isinstance(target, Environment | RemoteTarget) else None

    def check(self, job: Job, *, own_inputs: bool) -> None:
        """Engines themselves tell what they lack."""

    def run(
        self, request: SessionRequest, *, target: AnyTarget, folder: Path, end_by: float | None = None
    ) -> SessionResult:
        """As `Executor.run`."""
        return run_session(request, target=target, folder=folder, end_by=end_by)

    def measurements(self, job: Job, sessions: Sequence[SessionResult], beside: Beside) -> tuple[Measurement, ...]:
        """As `Executor.measurements`."""
        return measurements_of(
            job, sessions, meter_absences=beside.absences, variation=beside.variation, layered=beside.layered
        )

    def without_workers(self, target: AnyTarget) -> Unavailable | None:
        """Nothing stands against it."""
        return None

    def examine(self, device: Device, target: AnyTarget, *, install: Sequence[str] | None) -> DeviceCheck:
        """As `Executor.examine`."""
        if isinstance(target, LocalTarget):
            if install is not None:
                raise BadInput("⟦bootstrap⟧ is for other machines", advice="pip install 'edgewise[engines]'")
            return _examine_here(device)
        assert isinstance(target, RemoteTarget)  # environments are not examined
        if install is not None and isinstance(target.transport, ContainerTransport):
            raise BadInput("⟦bootstrap⟧ does not work for a container", advice=IN_IMAGE)
        try:
            if install is not None:
                bootstrap(target, [PACKAGES[name] for name in install])
                target.close()
            return _examine_there(device, target)
        except OSError as error:
            advice = getattr(error, "advice", "")
            if install is not None:
                raise Unavailable(f"{device.name}: {one_line(str(error))}", advice=advice) from error
            missing = (Missing(what=one_line(str(error)), advice=advice),)
            return DeviceCheck(
                device=device, connected=not isinstance(error, Unreachable | LinkLost | NotAdmitted), missing=missing
            )

    def activity(
        self, target: AnyTarget, seconds: float, *, sleep: Callable[[float], object] = time.sleep
    ) -> Mapping[str, float | None]:
        """As `Executor.activity`."""
        if isinstance(target, LocalTarget):
            return observe(seconds, sleep=sleep)
        return _ask_now(target, {"observe_s": seconds})

    def gauge(self, target: AnyTarget, seconds: float, count: int) -> Mapping[str, Any]:
        """As `Executor.gauge`."""
        return _ask_now(target, {"observe_s": seconds, "references": count})

    def fitness(self, environment: Mapping[str, Any], activity: Mapping[str, float | None]) -> fitness.Fitness:
        """As `Executor.fitness`."""
        return fitness.assess_fitness(environment, activity)

    def words(self, environment: Mapping[str, Any]) -> str | None:
        """Return a computer."""
        return None


def _ask_now(target: AnyTarget, question: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the target answers about this moment. Raises `Unavailable`."""
    try:
        with job_folder() as folder:
            return ask(target, _WORKER, question, folder=folder, timeout_s=_PATIENCE_S)
    except (OSError, ValueError, TypeError) as error:
        if isinstance(target, RemoteTarget | Environment):
            raise target.unavailable(error) from error
        raise Unavailable(f"this machine can't be observed: {error}", advice="see its memory and its disk") from error


def _ask_facts(target: RemoteTarget | Environment) -> Facts:
    registries: Mapping[str, Registry[Any]] = {"runtimes": runtimes(), "meters": meters()}
    question: dict[str, Any] = {
        kind: {name: registry.location(name) for name in registry.names()} for kind, registry in registries.items()
    }
    question["packages"] = isinstance(target, Environment) or isinstance(target.transport, ContainerTransport)
    try:
        with job_folder() as folder:
            told = ask(target, _WORKER, question, folder=folder, timeout_s=_PATIENCE_S)
        if not told["numpy"]:
            if isinstance(target, Environment):
                raise Unavailable(f"the environment {target.environment} has no numpy", advice="install it there")
            raise Unavailable(f"{target.name} has no numpy", advice=how_to_install(target.transport, "numpy"))
        environment = dict(told["environment"])
        if question["packages"]:
            environment["packages"] = {str(name): str(version) for name, version in told["packages"].items()}
        if isinstance(target.transport, TellsEmulator) and target.transport.emulator:
            environment["virtualisation"] |= {"emulator": target.transport.emulator}
        return Facts(
            engines={name: _there(target, name, Availability(**each)) for name, each in told["runtimes"].items()},
            sensors={name: Availability(**each) for name, each in told["meters"].items()},
            traits={name: Traits(**each) for name, each in told["traits"].items()},
            environment=environment,
            cores=tuple(int(core) for core in told["cores"]),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise target.unavailable(error) from error


def _there(target: RemoteTarget | Environment, engine: str, found: Availability) -> Availability:
    """Where an engine is missing, and how it gets onto that device: its own words are of the machine that runs it."""
    if found:
        return found
    if isinstance(target, Environment):
        hint = f"install {PACKAGES.get(engine, engine)} there"
        return replace(found, reason=f"{found.reason} in the environment {target.environment}", install_hint=hint)
    transport = target.transport
    hint = how_to_install(transport, engine, found.install_hint)
    return replace(found, reason=f"{found.reason} on {transport.name}", install_hint=hint)


def _examine_here(device: Device) -> DeviceCheck:
    engines = {name: availability_of(runtime) for name, runtime in runtimes() if runtime.in_default}
    return DeviceCheck(
        device=device,
        usable=any(engines.values()),
        engines=engines,
        sensors={name: availability_of(meter) for name, meter in meters()},
        environment=fingerprint(),
        missing=missing_engines(engines),
    )


def _examine_there(device: Device, target: RemoteTarget) -> DeviceCheck:
    python = target.link.python
    known: dict[str, Any] = {
        "device": device,
        "python": one_line(str(python["python"])),
        "version": one_line(str(python["version"])),
        "free_bytes": target.link.request("space").number("free_bytes"),
        "clock": target.clock(),
    }
    missing = []
    if known["free_bytes"] < LEAST_FREE_BYTES:
        missing.append(Missing(what=f"only {known['free_bytes'] // 2**20} MiB are free", advice="remove files there"))
    try:
        facts = facts_of(TargetSpec(device=device.name, transport=device.transport))
    except EdgewiseError as error:
        missing.append(Missing(what=error.message, advice=error.advice))
        return DeviceCheck(**known, missing=tuple(missing))
    assert facts is not None
    engines = {name: facts.engines[name] for name, runtime in runtimes() if runtime.in_default}
    missing += missing_engines(engines)
    return DeviceCheck(
        **known,
        usable=any(engines.values()),
        engines=engines,
        traits=dict(facts.traits),
        sensors={
            name: availability_of(meter) if watches_from_host(meter) else facts.sensors[name]
            for name, meter in meters()
        },
        environment=dict(facts.environment),
        missing=tuple(missing),
    )
