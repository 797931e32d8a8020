"""Power and energy sensors of the kernel's hardware monitors: INA rails, GPU drivers, power meters of boards.

Files and units: https://www.kernel.org/doc/html/latest/hwmon/sysfs-interface.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from edgewise.constraints.hierarchy import read_text
from edgewise.run.meters.base import Coverage
from edgewise.run.meters.rails import Rail, RailMeter, read_number
from edgewise.run.meters.trace import EnergyCounter, PowerTrace

MONITORS = "/sys/class/hwmon"
_GPUS = frozenset({"amdgpu", "radeon", "nouveau", "i915", "xe"})
#: Labels of sensors in the input of a board or module: Jetson modules, Apple's system controller, power meters.
_INPUT = re.compile(r"VDD_IN|POM_5V_IN|Total (System )?Power|total", re.IGNORECASE)
_INA3221_SHUNT_STEP_V = 40e-6
"""Step of the shunt voltage (Texas Instruments, INA3221 data sheet, "Shunt-voltage registers")."""


class HwmonMeter(RailMeter):
    """Every power or energy sensor of ``/sys/class/hwmon`` is a part of its own: rails can contain one another.

    Where a channel has a counter of energy, its power is not read. A channel of an INA sensor without power gives its
    voltage times its current. Batteries also appear as monitors and are left to their own meter.
    """

    name = "hwmon"
    title = "Power sensors of the board"
    cannot_see = "loads without a sensor"

    @property
    def rate_hz(self) -> float | None:
        """The lowest rate of the monitors that tell their update interval."""
        intervals = [_whole(monitor / "update_interval") for monitor, _, _ in self._channels()]
        return min((1000.0 / each for each in intervals if each), default=None)

    @property
    def resolution(self) -> Mapping[str, float]:
        """The coarsest step of INA3221 channels: a step of the shunt voltage over its resistance, times the voltage."""
        steps = []
        for monitor, name, channel in self._channels():
            shunt, volts = _whole(monitor / f"shunt{channel[4:]}_resistor"), _whole(monitor / f"in{channel[4:]}_input")
            if name == "ina3221" and channel.startswith("curr") and shunt and volts:
                steps.append(_INA3221_SHUNT_STEP_V / (shunt * 1e-6) * volts * 1e-3)
        return {"power": max(steps)} if steps else {}

    def find_rails(self) -> Sequence[Rail]:
        """Return a rail for each channel."""
        rails: dict[str, Rail] = {}
        for monitor, name, channel in self._channels():
            voltage = channel.replace("curr", "in")
            label = (read_text(monitor / f"{voltage}_label") or "").strip()
            part = f"{name} {label or channel}"
            part = f"{part} ({monitor.name})" if part in rails else part
            covers: Coverage = "device" if _INPUT.fullmatch(label) else "accelerator" if name in _GPUS else "part"
            method = f"{MONITORS}: {part}"
            rails[part] = Rail(
                read=partial(_value, monitor, channel),
                method=method,
                part=part,
                covers=covers,
                window=EnergyCounter if channel.startswith("energy") else PowerTrace,
            )
        return list(rails.values())

    def absence(self) -> str:
        """Return the files that were looked for."""
        return f"no power*_input, power*_average or energy*_input in {MONITORS}/hwmon*, and no INA sensor"

    def _channels(self) -> Iterator[tuple[Path, str, str]]:
        """Folder of a monitor, its name, and the beginning of the names of a channel's files, such as ``power1``."""
        for monitor in sorted((self._root / MONITORS.lstrip("/")).glob("hwmon*")):
            name = (read_text(monitor / "name") or "").strip()
            if not name or (monitor / "device/type").exists():  # a power supply has a type, no other device does
                continue
            files = {file.name for file in monitor.glob("*_input")} | {file.name for file in monitor.glob("*_average")}
            found = sorted({match[0] for file in files if (match := re.match(r"(energy|power)\d+", file))})
            counted = {channel[6:] for channel in found if channel.startswith("energy")}
            found = [each for each in found if each.startswith("energy") or each[5:] not in counted]
            if not found and re.match(r"ina\d", name):
                numbers = sorted({match[1] for file in files if (match := re.match(r"curr(\d+)_input", file))})
                found = [f"curr{each}" for each in numbers if f"in{each}_input" in files]
            yield from (
                (monitor, name, channel) for channel in found if _whole(monitor / f"in{channel[4:]}_enable") != 0
            )


def _value(monitor: Path, channel: str) -> float:
    """Power in W, or energy in J, of a channel now; the kernel gives µW, µJ, mA and mV."""
    if channel.startswith("curr"):
        amperes = read_number(monitor / f"{channel}_input", 1e-3)
        return amperes * read_number(monitor / f"in{channel[4:]}_input", 1e-3)
    file = monitor / f"{channel}_input"
    return read_number(file if file.exists() else monitor / f"{channel}_average", 1e-6)


def _whole(file: Path) -> int | None:
    """Return the whole number in a file; None where there is none."""
    text = (read_text(file) or "").strip()
    return int(text) if text.isdecimal() else None
