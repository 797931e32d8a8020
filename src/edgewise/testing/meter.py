"""What every meter must do: a plug-in's author calls `check_meter` in a test of theirs."""

from __future__ import annotations

from edgewise.metrics import METRICS
from edgewise.run.meters.base import Meter, NoReading, Reading, flaw_of, traits_of
from edgewise.testing.rules import requiring

_require = requiring("")


def check_meter(meter: Meter, *, samples: int = 3) -> tuple[Reading, ...]:
    """Check `meter` against the contract of `edgewise.run.meters.base.Meter`; raises AssertionError naming the breach.

    A meter that is not available here must say why and must have no reading, and may raise `NoReading` only.

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
    _check_traits(meter, where=where)
    readings: tuple[Reading, ...] = ()
    for _ in range(2):  # a meter is used for idle and for loaded windows
        readings = _read_window(meter, samples)
        for reading in readings:
            _require(not (flaw := flaw_of(reading, meter.metrics)), f"{where}: {flaw}")
        if not availability:
            _require(not readings, f"{where}: is not available and yet gives readings")
    return readings


def _read_window(meter: Meter, samples: int) -> tuple[Reading, ...]:
    """Return the readings of one window; without those that the meter says are missing."""
    try:
        meter.begin()
        for _ in range(samples):
            meter.sample()
        return tuple(meter.end())
    except NoReading as reason:
        return tuple(reason.readings)


def _check_traits(meter: Meter, *, where: str) -> None:
    traits = traits_of(meter)
    _require(traits.place in ("target", "host"), f"{where}: place {traits.place!r} is neither target nor host")
    _require(traits.rate_hz is None or traits.rate_hz > 0, f"{where}: rate_hz {traits.rate_hz} is not above 0")
    for metric, step in traits.resolution.items():
        _require(metric in METRICS, f"{where}: resolution of {metric!r}, which is not in the metric catalogue")
        _require(step > 0, f"{where}: a resolution of {step} is not above 0")
