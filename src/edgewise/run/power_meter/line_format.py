"""Formats of the lines that a power meter prints: a pattern of text and named fields.

    {power:mW}                            1234.5
    {time:ms},{voltage:V},{current:mA}    1200,5.02,312.5
    {*}"power":{power:W}{*}               {"id": 3, "power": 1.52, "up": 99}

A field is a number with its quantity and unit, ``{*}`` is any text, a blank is any number of blanks. Everything else
stands for itself. A line fits only as a whole, so that a line that was cut off counts as garbage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING

from edgewise.errors import BadInput
from edgewise.units import CURRENTS, ENERGIES, POWERS, VOLTAGES

if TYPE_CHECKING:
    from edgewise.run.power_meter.port import Port

UNITS: Mapping[str, Mapping[str, float]] = {
    "power": POWERS,
    "voltage": VOLTAGES,
    "current": CURRENTS,
    "energy": ENERGIES,
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6},
}
WAYS = ({"power"}, {"voltage", "current"}, {"energy"})
"""Quantities that give an energy; a format has exactly one of these sets."""
_FIELD = re.compile(r"\{(\*|[a-z]+:[A-Za-zµ]+)\}")
# Possessive: a number is never taken apart, so no line takes longer than its length.
_NUMBER = r"[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d{1,2}+)?+"


@dataclass(frozen=True, slots=True)
class LineReading:
    """What one line has.

    Attributes:
        power_w: power, or voltage × current, W.
        energy_j: total of the meter's own counter, J.
        time_s: time on the meter's clock, s.
        steps: ``power`` or ``energy`` → what one unit of the last printed digit is, W or J.
    """

    power_w: float | None = None
    energy_j: float | None = None
    time_s: float | None = None
    steps: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LineFormat:
    """A checked pattern. Raises `BadInput` for one that can't be used.

    Attributes:
        pattern: as the user wrote it.
    """

    pattern: str

    def __post_init__(self) -> None:
        if self._fields.keys() - {"time"} not in WAYS:
            raise BadInput(
                f"the line format {self.pattern!r} must have {{power:UNIT}}, {{voltage:UNIT}} and {{current:UNIT}}, or "
                "{energy:UNIT}",
                advice="for example {time:ms},{voltage:V},{current:mA}; write {*} for a part that is not needed",
            )
        _ = self._expression

    def parse(self, line: str) -> LineReading | None:
        """Return the numbers of `line` in SI units; None if the line does not fit."""
        found = self._expression.fullmatch(line.strip())
        if found is None:
            return None
        values = {name: float(found[name]) * scale for name, scale in self._fields.items()}
        steps = {name: _last_digit(found[name]) * scale for name, scale in self._fields.items()}
        power, energy = values.get("power"), values.get("energy")
        if "voltage" in values:
            power = values["voltage"] * values["current"]
            steps["power"] = values["voltage"] * steps["current"] + values["current"] * steps["voltage"]
        told = {name: abs(step) for name, step in steps.items() if name in ("power", "energy")}
        return LineReading(power_w=power, energy_j=energy, time_s=values.get("time"), steps=told)

    def start(self, port: Port) -> None:
        """Do nothing: the meter needs no command, it prints lines on its own."""

    def stop(self, port: Port) -> None:
        """Do nothing: the meter needs no command."""

    @cached_property
    def _fields(self) -> dict[str, float]:
        """Quantity → factor of its unit. Raises `BadInput`."""
        fields: dict[str, float] = {}
        for word in _FIELD.findall(self.pattern):
            name, _, unit = word.partition(":")
            if name == "*":
                continue
            if name not in UNITS or unit not in UNITS[name] or name in fields:
                known = "; ".join(f"{each}: {', '.join(units)}" for each, units in UNITS.items())
                problem = "is there twice" if name in fields else "is not a quantity with its unit"
                raise BadInput(f"{{{word}}} in the line format {self.pattern!r} {problem}", advice=known)
            fields[name] = UNITS[name][unit]
        return fields

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        """The pattern as a regular expression that never goes back, whatever the line is."""
        expression, skips = "", False
        for index, part in enumerate(_FIELD.split(self.pattern.strip())):
            if index % 2 == 0:
                text = r"\s*+".join(re.escape(word) for word in re.split(r"\s+", part))
                # Any text ends at the first place where the text behind it stands.
                expression += f"(?>.*?{text})" if skips and part.strip() else text
                skips = skips and not part.strip()
            elif part == "*":
                skips = True
            else:
                if skips:
                    raise BadInput(f"the line format {self.pattern!r} needs text between {{*}} and {{{part}}}")
                expression += rf"\s*+(?P<{part.partition(':')[0]}>{_NUMBER})\s*+"
        return re.compile(expression + (".*" if skips else ""))


def _last_digit(number: str) -> float:
    """Return what one unit of the last digit of a number is: 0.01 for ``"1.25"``."""
    return float(Decimal(1).scaleb(int(Decimal(number).as_tuple().exponent)))
