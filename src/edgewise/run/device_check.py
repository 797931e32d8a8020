"""What a device was found to have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from edgewise.device.devices import Device
from edgewise.device.link import ClockOffset
from edgewise.registry import Availability
from edgewise.run.meters.base import Traits
from edgewise.text import one_line


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
        connected: whether the device could be reached; where it could not, `missing` says why.
        python, version: path and version of the interpreter; empty where none was found.
        free_bytes: free space in its home folder; None where it was not determined.
        clock: offset of its clocks from this machine's; None on this machine.
        engines, sensors: name → whether it can be used there.
        traits: name of a meter → its rate, resolution and more, as there.
        environment: `edgewise.run.environment.fingerprint` of its machine.
    """

    device: Device
    usable: bool = False
    connected: bool = True
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
    """Return a device as JSON."""
    return {"name": device.name, "url": device.url, "transport": device.transport, "settings": dict(device.settings)}


def missing_engines(engines: Mapping[str, Availability]) -> tuple[Missing, ...]:
    """Those that can't be used, each with what to do."""
    return tuple(
        Missing(what=f"{name}: {one_line(found.reason)}", advice=found.install_hint)
        for name, found in engines.items()
        if not found
    )
