"""Checks a device: what jobs find there and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from edgewise.device.bootstrap import PACKAGES, bootstrap
from edgewise.device.devices import POWER_METER, Device, add_device
from edgewise.device.link import ClockOffset
from edgewise.device.target import BoardTarget, RemoteTarget, find_target
from edgewise.device.transport import RunsPrograms
from edgewise.device.transports.container import ContainerTransport
from edgewise.errors import BadInput, EdgewiseError, Unavailable
from edgewise.record import TargetSpec
from edgewise.registry import Availability, availability_of
from edgewise.run.environment import fingerprint
from edgewise.run.facts import facts_of
from edgewise.run.meters.base import Traits, meters, watches_from_host
from edgewise.run.power_meter.meter import Source, meter_of
from edgewise.runtime.base import runtimes
from edgewise.runtime.device_tools import DeviceTool
from edgewise.text import one_line

LEAST_FREE_BYTES = 2**30
"""Less free space on a device is reported: a model, an engine's temporary files and its cache may not fit."""
IN_IMAGE = "install what is missing in the image: FROM IMAGE, then RUN pip install numpy and the engines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Something that a job may need and that is not there, and what to do about it."""

    what: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCheck:
    """What a device was found to have.

    Attributes:
        usable: whether a job can run there with at least one engine.
        python, version: path and version of the interpreter; empty where none was found.
        free_bytes: free space in its home folder; None where it was not determined.
        clock: offset of its clocks from this machine's; None on this machine.
        engines, sensors: name → whether it can be used there.
        traits: name of a meter → its rate, resolution and more, as there.
        environment: `edgewise.run.environment.fingerprint` of its machine.
    """

    device: Device
    usable: bool = False
    python: str = ""
    version: str = ""
    free_bytes: int | None = None
    clock: ClockOffset | None = None
    engines: dict[str, Availability] = field(default_factory=dict)
    sensors: dict[str, Availability] = field(default_factory=dict)
    traits: dict[str, Traits] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        found = asdict(self)
        found["device"] = device_document(self.device)
        found["clock"] = self.clock and {"offset_s": self.clock.wall_s, "error_s": self.clock.error_s}
        return found


def device_document(device: Device) -> dict[str, Any]:
    """A device as JSON."""
    return {"name": device.name, "url": device.url, "transport": device.transport, "settings": dict(device.settings)}


def register(device: Device, path: Path | None = None) -> tuple[Path, Device | None]:
    """Check the settings of `device` and write it as `add_device` does. Raises `BadInput`."""
    if (url := device.settings.get(POWER_METER)) is not None:
        Source.parse(url)
    return add_device(device, path)


def check(device: Device, *, install: Sequence[str] | None = None) -> DeviceCheck:
    """What is there and what is missing, the power meter in its supply included.

    Args:
        install: engines to install there before, with numpy, in a virtual environment; None installs nothing.

    Raises:
        BadInput: an engine without a package, or a device on which nothing can be installed.
        Unavailable: the device's transport is missing, or the installation failed.
    """
    found = _check(device, install=install)
    if (meter := meter_of(device.name)) is None:
        return found
    state = meter.availability()
    reason = () if state else (Missing(what=one_line(state.reason), advice="check cable, permissions and power_meter"),)
    return replace(found, sensors={**found.sensors, meter.name: state}, missing=found.missing + reason)


def _check(device: Device, *, install: Sequence[str] | None) -> DeviceCheck:
    target = find_target(device.name)
    unknown = [name for name in install or () if name not in PACKAGES]
    if unknown:
        raise BadInput(f"{unknown[0]!r} can't be installed", advice=f"engines with a package: {', '.join(PACKAGES)}")
    if isinstance(target, BoardTarget):
        return _check_board(device)
    if not isinstance(target, RemoteTarget):
        if install is not None:
            raise BadInput("--bootstrap is for other machines", advice="pip install 'edgewise[engines]'")
        engines = {name: availability_of(runtime) for name, runtime in runtimes() if runtime.in_default}
        sensors = {name: availability_of(meter) for name, meter in meters()}
        here = fingerprint()
        return DeviceCheck(
            device=device,
            usable=any(engines.values()),
            engines=engines,
            sensors=sensors,
            environment=here,
            missing=_missing_engines(engines),
        )
    if install is not None and isinstance(target.transport, ContainerTransport):
        raise BadInput("--bootstrap does not work for a container", advice=IN_IMAGE)
    try:
        if isinstance(target.transport, RunsPrograms):
            if install is not None:
                raise BadInput("--bootstrap is for devices over ssh", advice="install packages in Termux: pkg, pip")
            return _check_phone(device, target)
        if install is not None:
            bootstrap(target, [PACKAGES[name] for name in install])
            target.close()
        return _check_remote(device, target)
    except OSError as error:
        advice = getattr(error, "advice", "")
        if install is not None:
            raise Unavailable(f"{device.name}: {one_line(str(error))}", advice=advice) from error
        return DeviceCheck(device=device, missing=(Missing(what=one_line(str(error)), advice=advice),))


def _check_board(device: Device) -> DeviceCheck:
    """A board at a serial port, which has its firmware only."""
    try:
        facts = facts_of(TargetSpec(device=device.name, transport=device.transport))
    except Unavailable as error:
        return DeviceCheck(device=device, missing=(Missing(what=error.message, advice=error.advice),))
    assert facts is not None
    return DeviceCheck(
        device=device,
        usable=True,
        engines=dict(facts.engines),
        sensors=dict(facts.sensors),
        environment=dict(facts.environment),
    )


def _check_phone(device: Device, target: RemoteTarget) -> DeviceCheck:
    """A device that runs programs through its shell: its benchmark tools, and what its Python has if one is set."""
    try:
        facts = facts_of(TargetSpec(device=device.name, transport=device.transport))
    except Unavailable as error:
        return DeviceCheck(device=device, missing=(Missing(what=error.message, advice=error.advice),))
    assert facts is not None
    tools = {name: facts.engines[name] for name, runtime in runtimes() if isinstance(runtime, DeviceTool)}
    python = {name: facts.engines[name] for name, runtime in runtimes() if runtime.in_default}
    engines = {**tools, **(python if target.transport.python else {})}
    return DeviceCheck(
        device=device,
        usable=any(engines.values()),
        python=" ".join(target.transport.python),
        version=str(facts.environment.get("python") or ""),
        engines=engines,
        sensors=dict(facts.sensors),
        traits=dict(facts.traits),
        environment=dict(facts.environment),
        missing=_missing_engines(engines),
    )


def _check_remote(device: Device, target: RemoteTarget) -> DeviceCheck:
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
    missing += _missing_engines(engines)
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


def _missing_engines(engines: dict[str, Availability]) -> tuple[Missing, ...]:
    return tuple(
        Missing(what=f"{name}: {one_line(found.reason)}", advice=found.install_hint)
        for name, found in engines.items()
        if not found
    )
