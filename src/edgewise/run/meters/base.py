"""The seam to sensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from edgewise.metrics import METRICS
from edgewise.registry import Availability, Registry

Coverage = Literal["device", "processor", "accelerator", "part", ""]
"""What the energy of a reading feeds, the most first: everything that the supply feeds, the processor and perhaps its
memory, an accelerator, one rail or another part, not known."""

LONGEST_PART = 64
COVERAGES: tuple[Coverage, ...] = get_args(Coverage)


class NoReading(Exception):
    """A window lacks a reading, with the reason; `Meter.begin`, `Meter.sample` and `Meter.end` may raise it.

    Args:
        readings: what `Meter.end` could read nevertheless.
    """

    def __init__(self, reason: str, readings: Sequence[Reading] = ()) -> None:
        super().__init__(reason)
        self.readings = readings


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a meter saw between `Meter.begin` and `Meter.end`.

    Attributes:
        metric: an id of the metric catalogue; ``energy`` is the total of the window in J, idle power included.
        value: in the metric's SI unit.
        low, high: smallest and largest sample in the window, where there were several.
        method: which sensor, in words.
        seconds: the time that an ``energy`` covers on the meter's own clock; None means the window's time.
        part: name of the rail, battery or device, where the meter reads several; each part is a row of its own.
        covers: what the energy feeds; empty means not known.
    """

    metric: str
    value: float
    method: str
    low: float | None = None
    high: float | None = None
    seconds: float | None = None
    part: str = ""
    covers: Coverage = ""


def flaw_of(reading: object, metrics: Sequence[str]) -> str:
    """Return what breaks the contract of a reading by a meter of `metrics`; empty for a sound one."""
    if not isinstance(reading, Reading):
        return f"{reading!r} is not a Reading"
    metric, numbers = reading.metric, [reading.value, reading.low, reading.high, reading.seconds]
    if metric not in metrics or metric not in METRICS:
        return f"reads {metric!r}, which is not among its metrics"
    if not reading.method or not isinstance(reading.method, str):
        return f"{metric} has no method in words"
    if not isinstance(reading.part, str) or not reading.part.isprintable() or len(reading.part) > LONGEST_PART:
        return f"the part of {metric} is not a printable name of at most {LONGEST_PART} characters"
    if any(each is not None and not (isinstance(each, int | float) and math.isfinite(each)) for each in numbers):
        return f"{metric} is {reading.value} ({reading.low} to {reading.high}, {reading.seconds} s)"
    unit = METRICS[metric].unit
    low = reading.value if reading.low is None else reading.low
    high = reading.value if reading.high is None else reading.high
    if not low <= reading.value <= high:
        return f"{metric} {reading.value} is outside {low} … {high}"
    if low <= 0 and unit in ("K", "Hz"):
        return f"{metric} of {low} {unit} can't be"
    if reading.value <= 0 and unit == "J":
        return f"an energy of {reading.value} J is a reading that should be left out"
    if reading.seconds is not None and reading.seconds <= 0:
        return f"{metric} of {reading.seconds} s"
    return "" if reading.covers in COVERAGES else f"covers {reading.covers!r} is none of {', '.join(COVERAGES[:-1])}"


class Meter(Protocol):
    """A sensor. Sysfs-like roots are constructor arguments with the real path as default, so that fakes can be read.

    All calls come from one thread, which samples while the model runs in another one. What a meter raises becomes the
    reason why the window has no reading; a meter that blocks for longer than `edgewise.run.metering.PATIENCE_S` is not
    read again. A meter may also have the attributes of `Traits`.

    Attributes:
        metrics: what it can tell.
    """

    name: str
    title: str
    metrics: Sequence[str]

    def availability(self) -> Availability:
        """Whether the sensor exists and is readable here, else the reason."""

    def begin(self) -> None:
        """Start a window."""

    def sample(self) -> None:
        """Take a sample inside the window; called about every 50 ms."""

    def end(self) -> Sequence[Reading]:
        """End the window. Readings that could not be taken are left out, or `NoReading` says why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Optional attributes of a meter. Every default means not known.

    Attributes:
        place: ``target``, or ``host`` for a meter that is attached to the machine that measures and watches the target
            from there, such as a power meter in a board's supply.
        rate_hz: how often the sensor has a new value, Hz.
        resolution: metric → smallest step of the sensor, in its SI unit. ``power`` belongs to an energy that is
            integrated from samples of power, ``energy`` to one that is the difference of a counter.
        cannot_see: what draws power, or has a temperature or a clock, that the sensor leaves out.
    """

    place: Literal["target", "host"] = "target"
    rate_hz: float | None = None
    resolution: Mapping[str, float] = field(default_factory=dict)
    cannot_see: str = ""


def traits_of(meter: object) -> Traits:
    """Return the optional attributes that a meter has; what is absent, of another type or raises is not known."""
    resolution = _attribute(meter, "resolution", Mapping, {})
    return Traits(
        place=_attribute(meter, "place", str, "target"),
        rate_hz=_attribute(meter, "rate_hz", int | float, None),
        resolution={str(key): step for key, step in resolution.items() if isinstance(step, int | float)},
        cannot_see=_attribute(meter, "cannot_see", str, ""),
    )


def _attribute(meter: object, name: str, kind: Any, default: Any) -> Any:
    try:
        value = getattr(meter, name, default)
    except Exception:  # a property of a plug-in may raise anything
        return default
    return value if isinstance(value, kind) else default


def watches_from_host(meter: Meter) -> bool:
    """Whether a meter is read on the machine that asks, while the target works."""
    return traits_of(meter).place == "host"


def meters() -> Registry[Meter]:
    """All meters, built-in and plugged in."""
    members = ("name", "title", "metrics", "availability", "begin", "sample", "end")
    return Registry("edgewise.meters", "meter", members=members)
