"""The seam to sensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgewise.registry import Availability, Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a meter saw between `Meter.begin` and `Meter.end`.

    Attributes:
        metric: an id of the metric catalogue; ``energy`` is the total of the window in J, idle power included.
        value: in the metric's SI unit.
        low, high: smallest and largest sample in the window, where there were several.
        method: which sensor, in words.
    """

    metric: str
    value: float
    method: str
    low: float | None = None
    high: float | None = None


class Meter(Protocol):
    """A sensor. Sysfs-like roots are constructor arguments with the real path as default, so that fakes can be read.

    A meter may have ``place = "host"``: it is attached to the machine that asks and watches the target from there, such
    as a power meter in a board's supply. All others are read on the target.

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
        """Take a sample inside the window; cheap, called between blocks of inferences."""

    def end(self) -> Sequence[Reading]:
        """End the window. Readings that could not be taken are left out."""


def watches_from_host(meter: Meter) -> bool:
    """Whether a meter is read on the machine that asks, while the target works."""
    return getattr(meter, "place", "target") == "host"


def meters() -> Registry[Meter]:
    """All meters, built-in and plugged in."""
    return Registry("edgewise.meters", "meter")
