"""Battery life of a device that runs a model a number of times an hour.

The mean power is ``P = P_idle + n · E / 3600 s``: idle power, inferences an hour, and the energy of one inference above
idle, as edgewise measures it. The life is ``capacity / P``. The model leaves out self-discharge, ageing, the
temperature, and losses of a voltage converter that the meter did not see.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from edgewise.errors import BadInput, Unavailable
from edgewise.record import Run
from edgewise.units import format_duration, format_quantity, significant

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value in an SI unit, with the ends of its interval: None where it is not known, the value where it is exact."""

    value: float
    low: float | None
    high: float | None

    def to_document(self) -> dict[str, float | None]:
        """As JSON, which has no infinity: null means no upper end."""
        return {name: None if each is None or math.isinf(each) else each for name, each in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatteryLife:
    """What a battery lasts. Its basis is always "derived".

    Attributes:
        life: s; the high end is infinite if the interval of the mean power reaches 0.
        mean_power: W.
        inference_share: part of `mean_power` that the inferences take.
        energy: of one inference above idle, J.
        method: formula, source of the energy, and what the interval contains.
    """

    life: Quantity
    mean_power: Quantity
    inference_share: float
    energy: Quantity
    method: str

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        found: dict[str, Any] = {
            name: {**getattr(self, name).to_document(), "unit": unit}
            for name, unit in (("life", "s"), ("mean_power", "W"), ("energy", "J"))
        }
        return {**found, "inference_share": self.inference_share, "basis": "derived", "method": self.method}


def battery_life(
    *,
    capacity_j: float,
    idle_power: Quantity,
    energy: Quantity,
    per_hour: float,
    latency_s: float | None = None,
    source: str = "given by the user",
) -> BatteryLife:
    """Return the life of a battery, with an interval if those of the idle power and the energy are known.

    Both ends of these intervals are combined at their worst and at their best, so the result is never too narrow.

    Args:
        capacity_j: usable capacity of the battery, J.
        idle_power: of the device between inferences, W.
        energy: of one inference above idle, J.
        per_hour: number of inferences an hour.
        latency_s: time of one inference, s; None skips the check whether the device can do that many.
        source: where `energy` comes from, for the method.

    Raises:
        BadInput: a negative value, no power at all, or more inferences than fit into an hour.
    """
    if capacity_j <= 0:
        raise BadInput("the capacity of the battery must be more than 0")
    if per_hour < 0 or idle_power.value < 0:
        raise BadInput("neither the idle power nor the number of inferences an hour can be negative")
    if energy.value <= 0:
        raise BadInput(
            f"an energy of {significant(energy.value)} J per inference can't be used: it must be more than 0",
            advice="measure it with a finer meter, or give it with ⟦energy⟧",
        )
    if latency_s is not None and per_hour * latency_s > HOUR_S:
        raise BadInput(
            f"{per_hour:g} inferences do not fit into an hour: one takes {format_duration(latency_s)}, "
            f"so the device can run {int(HOUR_S / latency_s)} at most",
            advice="lower the number of inferences an hour, or use a faster model",
        )
    rate = per_hour / HOUR_S
    inferring = rate * energy.value
    power = Quantity(
        idle_power.value + inferring,
        # Neither can be negative, although the interval of a noisy measurement may reach below 0.
        _add(_at_least_zero(idle_power.low), _at_least_zero(energy.low), rate),
        _add(idle_power.high, energy.high, rate),
    )
    if power.value <= 0:
        raise BadInput("the idle power and the number of inferences an hour are both 0, so nothing uses the battery")
    if power.low == power.high:
        power = Quantity(power.value, None, None)
    method = (
        f"capacity {format_quantity(capacity_j, 'J')} / (idle power {format_quantity(idle_power.value, 'W')} + "
        f"{per_hour:g} inferences an hour × {format_quantity(energy.value, 'J')}); energy {source}; "
        + ("no interval is known" if power.high is None else "interval: the ends of the known intervals together")
        + "; without self-discharge, ageing, temperature and losses outside the metered supply"
    )
    return BatteryLife(
        life=Quantity(capacity_j / power.value, _divide(capacity_j, power.high), _divide(capacity_j, power.low)),
        mean_power=power,
        inference_share=inferring / power.value,
        energy=energy,
        method=method,
    )


def energy_of(run: Run) -> Quantity:
    """Return the energy that `run` measured, J per inference. Raises `Unavailable` with the reason if it has none."""
    found = run.measurement("energy")
    if found is None or found.value is None:
        reason = (found and found.absent_because) or "its record has no energy"
        raise Unavailable(
            f"nothing measured the energy of an inference in run {run.id}: {reason}",
            advice="measure it with bench where a meter is (edgewise doctor lists those here), or with a power meter "
            "or a trace of power of your own (docs/power-meters.md); or give it with ⟦energy⟧, such as ⟦energy=3mJ⟧",
        )
    return Quantity(found.value, found.low, found.high)


def _at_least_zero(value: float | None) -> float | None:
    return None if value is None else max(0.0, value)


def _add(idle: float | None, energy: float | None, rate: float) -> float | None:
    """Return an end of the mean power; the energy does not matter without inferences."""
    if idle is None or (energy is None and rate > 0):
        return None
    return idle + rate * (energy or 0.0)


def _divide(capacity_j: float, power: float | None) -> float | None:
    return None if power is None else capacity_j / power if power else math.inf
