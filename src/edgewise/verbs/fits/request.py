"""The request of ``estimate --fits``."""

from __future__ import annotations

from typing import Annotated, Literal

from edgewise.errors import BadField
from edgewise.run.battery import Quantity
from edgewise.units import POWERS, parse_capacity, parse_interval
from edgewise.verbs.estimate.request import EstimatedRequest
from edgewise.verbs.option import option
from edgewise.verbs.request import Number, Whole
from edgewise.verbs.shared_options import LIMITS
from edgewise.verbs.words import size_with_unit, time_with_unit


class FitsRequest(EstimatedRequest):
    """List the boards of the catalogue that hold a model; None sets no limit."""

    verb: Literal["fits"] = "fits"
    max_latency: Annotated[
        Number | None,
        option("--max-latency 50ms", LIMITS, "With --fits: highest latency", read=time_with_unit, common=True),
    ] = None
    max_ram: Annotated[
        Whole | None,
        option("--max-ram 256KiB", LIMITS, "With --fits: RAM that the model may take", read=size_with_unit),
    ] = None
    max_flash: Annotated[
        Whole | None, option("--max-flash 1MiB", LIMITS, "With --fits: flash that it may take", read=size_with_unit)
    ] = None
    capacity: Annotated[
        str | None,
        option("--capacity 10Wh", LIMITS, "With --fits: battery, such as 36kJ or 2000mAh@3.7V; adds its life"),
    ] = None
    idle_power: Annotated[
        str | None, option("--idle-power 5mW±1mW", LIMITS, "With --fits and --capacity: power between inferences")
    ] = None
    per_hour: Annotated[
        Number | None, option("--per-hour N", LIMITS, "With --fits and --capacity: number of inferences an hour")
    ] = None

    def check(self) -> None:
        """Reject limits that are not positive, and a battery of which a part is missing or wrong."""
        super().check()
        for name in ("max_latency", "max_ram", "max_flash"):
            if (limit := getattr(self, name)) is not None and limit <= 0:
                raise BadField(f"⟦{name}⟧ must be more than 0, not {limit:g}")
        if len({each is None for each in (self.capacity, self.idle_power, self.per_hour)}) > 1:
            raise BadField(
                "a battery life needs ⟦capacity⟧, ⟦idle_power⟧ and ⟦per_hour⟧", advice="give all three, or none of them"
            )
        if (battery := self.battery()) is not None and (battery[0] <= 0 or battery[2] < 0):
            raise BadField("⟦capacity⟧ must be more than 0, and ⟦per_hour⟧ at least 0")

    def battery(self) -> tuple[float, Quantity, float] | None:
        """Capacity in J, idle power in W and inferences an hour; None without a battery. Raises `BadInput`."""
        if self.capacity is None or self.idle_power is None or self.per_hour is None:
            return None
        idle_power = Quantity(*parse_interval(self.idle_power, POWERS, what="power"))
        return parse_capacity(self.capacity), idle_power, self.per_hour
