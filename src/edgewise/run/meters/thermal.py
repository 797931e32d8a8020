"""Temperature of the processor from the kernel's thermal zones and hardware monitors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgewise.constraints.hierarchy import ROOT, read_text
from edgewise.registry import Availability
from edgewise.run.meters.base import Reading

ZONES = "/sys/class/thermal"
MONITORS = "/sys/class/hwmon"
ZERO_CELSIUS_K = 273.15
#: Names of sensors on the processor die. ACPI's own zone (acpitz) is somewhere on the board and often a constant.
_PROCESSOR = re.compile(r"cpu|soc|x86_pkg|coretemp|k10temp|zenpower|cluster|^big|^little|tdie", re.IGNORECASE)
#: Outside of this a sensor is off or broken; exactly 0 is what many of them say while they are off.
_PLAUSIBLE_MILLICELSIUS = range(-55_000, 150_000)


@dataclass(frozen=True, slots=True)
class Sensor:
    """A file with a temperature in thousandths of a degree Celsius."""

    file: Path
    name: str

    def kelvin(self) -> float | None:
        """Return the temperature now, K; None where it can't be read or can't be true."""
        text = (read_text(self.file) or "").strip()
        if not re.fullmatch(r"-?\d{1,9}", text):
            return None
        value = int(text)
        return value / 1000 + ZERO_CELSIUS_K if value and value in _PLAUSIBLE_MILLICELSIUS else None


class ThermalMeter:
    """The highest processor temperature in a window, over all processor-like sensors."""

    name = "thermal"
    title = "Processor temperature"
    metrics: Sequence[str] = ("temperature",)
    cannot_see = "memory, storage and battery"

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._sensors: tuple[Sensor, ...] = ()
        self._samples: list[float] = []

    def availability(self) -> Availability:
        """Whether a processor-like sensor gives a plausible value; else what was looked for and what was there."""
        sensors, seen = self._find()
        if any(sensor.kelvin() is not None for sensor in sensors):
            return Availability(True)
        if sensors:
            names = ", ".join(sorted({sensor.name for sensor in sensors}))
            return Availability(False, f"no plausible temperature from {names}")
        if seen:
            return Availability(False, f"no sensor on the processor; other sensors here: {', '.join(sorted(seen))}")
        return Availability(False, f"no sensor in {ZONES} or {MONITORS}")

    def begin(self) -> None:
        """Start a window with a first sample."""
        self._sensors, _ = self._find()
        self._samples = []
        self.sample()

    def sample(self) -> None:
        """Read every sensor once and keep the hottest."""
        values = [value for sensor in self._sensors if (value := sensor.kelvin()) is not None]
        if values:
            self._samples.append(max(values))

    def end(self) -> Sequence[Reading]:
        """Return the highest temperature of the window, K; ``low`` is the lowest of the samples."""
        self.sample()
        samples, self._samples = self._samples, []
        if not samples:
            return ()
        names = ", ".join(sorted({sensor.name for sensor in self._sensors}))
        method = f"highest of the kernel's processor sensors: {names}"
        return (Reading(metric="temperature", value=max(samples), low=min(samples), high=max(samples), method=method),)

    def _find(self) -> tuple[tuple[Sensor, ...], set[str]]:
        """Processor-like sensors, and the names of all that are there."""
        sensors, seen = [], set()
        for zone in sorted((self._root / ZONES.lstrip("/")).glob("thermal_zone*")):
            if name := (read_text(zone / "type") or "").strip():
                seen.add(name)
                sensors += [Sensor(zone / "temp", name)] if _PROCESSOR.search(name) else []
        for monitor in sorted((self._root / MONITORS.lstrip("/")).glob("hwmon*")):
            if name := (read_text(monitor / "name") or "").strip():
                seen.add(name)
                sensors += _monitored(monitor, name) if _PROCESSOR.search(name) else []
        return tuple(sensors), seen


def _monitored(monitor: Path, name: str) -> list[Sensor]:
    """Return the inputs of one monitor.

    AMD's Tctl can carry an offset for fans: it goes where the true Tdie is given.
    """
    labels = {
        file: (read_text(file.with_name(file.name.replace("_input", "_label"))) or "").strip()
        for file in sorted(monitor.glob("temp*_input"))
    }
    true_die = "Tdie" in labels.values()
    return [Sensor(file, name) for file, label in labels.items() if not (true_die and label == "Tctl")]
