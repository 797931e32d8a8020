"""What every meter must do: a plug-in's author calls `check_meter` in a test of theirs."""

from __future__ import annotations

import math

from edgewise.metrics import METRICS
from edgewise.run.meters.base import Meter, Reading
from edgewise.testing.rules import requiring

_require = requiring("")


def check_meter(meter: Meter, *, samples: int = 3) -> tuple[Reading, ...]:
    """Check `meter` against the contract of `edgewise.run.meters.base.Meter`; raises AssertionError naming the breach.

    A meter that is not available here must say why and must read nothing, without raising.

    Args:
        samples: how often to sample inside the window.

    Returns:
        The readings of the last window.
    """
    where = f"meter {getattr(meter, 'name', type(meter).__name__)!r}"
    _require(bool(meter.name) and meter.name == meter.name.lower() and " " not in meter.name, f"{where}: name")
    _require(bool(meter.title), f"{where}: title is empty")
    _require(len(meter.metrics) > 0, f"{where}: metrics is empty")
    for metric in meter.metrics:
        _require(metric in METRICS, f"{where}: {metric!r} is not in the metric catalogue")
    availability = meter.availability()
    _require(bool(availability) or bool(availability.reason), f"{where}: is not available and gives no reason")
    readings: tuple[Reading, ...] = ()
    for _ in range(2):  # a meter is used for an idle and for a loaded window
        meter.begin()
        for _ in range(samples):
            meter.sample()
        readings = tuple(meter.end())
        for reading in readings:
            _check_reading(meter, reading, where=where)
        if not availability:
            _require(not readings, f"{where}: is not available and yet gives readings")
    return readings


def _check_reading(meter: Meter, reading: Reading, *, where: str) -> None:
    _require(reading.metric in meter.metrics, f"{where}: reads {reading.metric!r}, which is not among its metrics")
    _require(bool(reading.method), f"{where}: {reading.metric} has no method")
    _require(math.isfinite(reading.value), f"{where}: {reading.metric} is {reading.value}")
    low = reading.value if reading.low is None else reading.low
    high = reading.value if reading.high is None else reading.high
    _require(low <= reading.value <= high, f"{where}: {reading.metric} {reading.value} is outside {low} … {high}")
    if METRICS[reading.metric].unit in {"K", "Hz"}:
        _require(low > 0, f"{where}: {reading.metric} of {low} {METRICS[reading.metric].unit} can't be")
    if METRICS[reading.metric].unit == "J":
        _require(reading.value > 0, f"{where}: an energy of {reading.value} J is a reading that should be left out")
