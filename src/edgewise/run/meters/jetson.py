"""Power rails of Jetson modules with JetPack 4, whose INA3221 driver shows industrial I/O files.

Later versions show the same sensors as hardware monitors, which `edgewise.run.meters.hwmon` reads. ``tegrastats``
prints the same values and is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from edgewise.constraints.hierarchy import read_text
from edgewise.run.meters.base import Coverage
from edgewise.run.meters.rails import Rail, RailMeter, read_number

SENSORS = "/sys/bus/i2c/drivers/ina3221x"


class JetsonMeter(RailMeter):
    """Every rail that ``rail_name_N`` names; the module's input covers the device."""

    name = "jetson"
    title = "Jetson power rails (JetPack 4)"
    cannot_see = "the carrier board and what is plugged into it"

    def find_rails(self) -> Sequence[Rail]:
        """Return a rail for each named channel."""
        rails = []
        for file in sorted((self._root / SENSORS.lstrip("/")).glob("*/iio:device*/rail_name_*")):
            number, part = file.name.rpartition("_")[2], (read_text(file) or "").strip()
            if part and part != "NC":  # not connected
                read = partial(read_number, file.with_name(f"in_power{number}_input"), 1e-3)  # mW
                method = f"{SENSORS}: {part}"
                covers: Coverage = "device" if part in ("VDD_IN", "POM_5V_IN") else "part"
                rails.append(Rail(read=read, method=method, part=part, covers=covers))
        return rails

    def absence(self) -> str:
        """Return the files that were looked for."""
        return f"no {SENSORS}/*/iio:device*/rail_name_*"
