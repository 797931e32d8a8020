"""Power out of the battery, which feeds the whole device.

Files and units: https://www.kernel.org/doc/html/latest/power/power_supply_class.html.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from edgewise.constraints.hierarchy import read_text
from edgewise.run.meters.base import NoReading
from edgewise.run.meters.rails import Rail, RailMeter, read_number
from edgewise.run.meters.trace import EnergyCounter, PowerTrace, Window

SUPPLIES = "/sys/class/power_supply"
_JOULES_PER_UWH = 3.6e-3


class BatteryMeter(RailMeter):
    """The power of all batteries of the device together, only while they alone feed it.

    The power is ``power_now``, else ``current_now`` × ``voltage_now``; a battery with neither has a counter,
    ``energy_now``, else ``charge_now`` × the voltage. Batteries of mice and other devices are left out.
    """

    name = "battery"
    title = "Battery"

    def find_rails(self) -> Sequence[Rail]:
        """One rail for all batteries. Raises `NoReading` while a charger is connected or a battery is charged."""
        supplies = sorted((self._root / SUPPLIES.lstrip("/")).glob("*"))
        batteries = [each for each in supplies if _text(each, "type") == "Battery" and _text(each, "scope") != "Device"]
        if not batteries:
            return ()
        self._check_feeding(batteries, [each for each in supplies if each not in batteries])
        sources = [_source(each) for each in batteries]
        if None in sources:
            return ()
        reads = [source for source in sources if source is not None]
        kinds = {kind for _, kind, _ in reads}
        if len(kinds) > 1:
            raise NoReading("the batteries do not all give power, nor all a counter")

        def read() -> float:
            self._check_feeding(batteries, [each for each in supplies if each not in batteries])
            return sum(source() for source, _, _ in reads)

        words = ", ".join(f"{each.name}/{files}" for each, (_, _, files) in zip(batteries, reads, strict=True))
        return [Rail(read=read, method=f"{SUPPLIES}: {words}", covers="device", window=kinds.pop())]

    def absence(self) -> str:
        """Return the files that were looked for."""
        return f"no battery of this device with power_now, current_now, energy_now or charge_now in {SUPPLIES}"

    @staticmethod
    def _check_feeding(batteries: Sequence[Path], others: Sequence[Path]) -> None:
        """Raise `NoReading` unless the batteries feed the device and nothing else does."""
        for each in others:
            if _text(each, "online") == "1" and _text(each, "scope") != "Device":
                raise NoReading(f"{each.name} feeds the device too; unplug the charger")
        states = {each.name: _text(each, "status") or "Unknown" for each in batteries}
        if "Discharging" not in states.values() or "Charging" in states.values():
            words = ", ".join(f"{name} is {state.lower()}" for name, state in states.items())
            raise NoReading(f"{words}; a reading needs a discharging battery: unplug the charger")


def _source(battery: Path) -> tuple[Callable[[], float], Window, str] | None:
    """How to read a battery, what becomes of the samples, and the files; None without a way."""

    def has(*names: str) -> bool:
        return all((battery / name).exists() for name in names)

    if has("power_now"):
        return lambda: abs(read_number(battery / "power_now", 1e-6)), PowerTrace, "power_now"
    volts = partial(read_number, battery / "voltage_now", 1e-6)
    if has("current_now", "voltage_now"):
        # Drivers differ in the sign of a current that leaves the battery.
        amperes = partial(read_number, battery / "current_now", 1e-6)
        return lambda: abs(amperes()) * volts(), PowerTrace, "current_now × voltage_now"
    # What is left falls; its negative grows, as a counter of what was used.
    if has("energy_now"):
        return partial(read_number, battery / "energy_now", -_JOULES_PER_UWH), EnergyCounter, "energy_now"
    if has("charge_now", "voltage_now"):
        # The voltage of the beginning of a window: it changes little, and its noise would make the counter go back.
        scale = -_JOULES_PER_UWH * volts()
        return partial(read_number, battery / "charge_now", scale), EnergyCounter, "charge_now × voltage_now"
    return None


def _text(supply: Path, name: str) -> str:
    return (read_text(supply / name) or "").strip()
