"""Checks a device: what jobs find there and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgewise.device.bootstrap import PACKAGES
from edgewise.device.devices import POWER_METER, Device, add_device
from edgewise.device.target import find_target
from edgewise.device.transport import transports
from edgewise.errors import BadInput
from edgewise.run.device_check import DeviceCheck, Missing
from edgewise.run.executor import executor_of
from edgewise.run.power_meter.meter import Source, meter_of
from edgewise.text import one_line


def register(device: Device, path: Path | None = None) -> tuple[Path, Device | None]:
    """Check the settings of `device` and write it as `add_device` does. Raises `BadInput`."""
    if (url := device.settings.get(POWER_METER)) is not None:
        Source.parse(url)
    plugin = transports().get(device.transport) if device.transport in transports().names() else None
    for name in getattr(plugin, "files", ()):
        if name in device.settings and not Path(device.settings[name]).expanduser().is_file():
            raise BadInput(
                f"{device.name}: {name} is {device.settings[name]!r}, which is no file",
                advice="correct its name",
            )
    return add_device(device, path)


def check(device: Device, *, install: Sequence[str] | None = None) -> DeviceCheck:
    """Return what is there and what is missing, the power meter in its supply included.

    Args:
        install: engines to install there before, with numpy, in a virtual environment; None installs nothing.

    Raises:
        BadInput: an engine without a package, or a device on which nothing can be installed.
        Unavailable: the device's transport is missing, or the installation failed.
    """
    target = find_target(device.name)
    unknown = [name for name in install or () if name not in PACKAGES]
    if unknown:
        raise BadInput(f"{unknown[0]!r} can't be installed", advice=f"engines with a package: {', '.join(PACKAGES)}")
    found = executor_of(target.transport).examine(device, target, install=install)
    if (meter := meter_of(device.name)) is None:
        return found
    state = meter.availability()
    reason = () if state else (Missing(what=one_line(state.reason), advice="check cable, permissions and power_meter"),)
    return replace(found, sensors={**found.sensors, meter.name: state}, missing=found.missing + reason)
