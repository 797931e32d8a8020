"""Units: SI inside, readable outside.

Inside edgewise every quantity is in its SI base unit (s, B, J, W, K, Hz, 1/s, 1). These functions are the only places
that turn one into text or text into one. Sizes are shown in KiB, MiB and GiB, powers of 1024 B; in texts that
are read, MB is 10⁶ B.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from edgewise.errors import BadInput

_TIME = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_SIZE = {
    "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    # auptimizer's and Docker's suffixes are powers of two.
    "b": 1, "k": 2**10, "m": 2**20, "g": 2**30,
}  # fmt: skip
_FREQUENCY = {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9}
POWERS = {"nW": 1e-9, "uW": 1e-6, "µW": 1e-6, "mW": 1e-3, "W": 1.0, "kW": 1e3}
ENERGIES = {
    "nJ": 1e-9, "uJ": 1e-6, "µJ": 1e-6, "mJ": 1e-3, "J": 1.0, "kJ": 1e3,
    "uWh": 3.6e-3, "µWh": 3.6e-3, "mWh": 3.6, "Wh": 3600.0, "kWh": 3.6e6,
}  # fmt: skip
VOLTAGES = {"mV": 1e-3, "V": 1.0}
CURRENTS = {"uA": 1e-6, "µA": 1e-6, "mA": 1e-3, "A": 1.0}
CHARGES = {"mAh": 3.6, "Ah": 3600.0}
JOULES_PER_MWH = ENERGIES["mWh"]

SCALES: dict[str, Sequence[tuple[float, str]]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "B": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "J": ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ"), (1e-12, "pJ")),
    "W": ((1e3, "kW"), (1.0, "W"), (1e-3, "mW"), (1e-6, "µW")),
    "Hz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")),
    "1/s": ((1.0, "/s"),),
    "1": ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
}
"""SI unit → the sizes and names of the units in which its values are shown, the largest first."""
SCALES["J/token"] = [(size, f"{name}/token") for size, name in SCALES["J"]]
_PREFIXES = (
    (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"),
)  # fmt: skip

_QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([^\s0-9]*)\s*")


def _parse(text: str, table: Mapping[str, float], *, default: str, what: str) -> float:
    match = _QUANTITY.fullmatch(text)
    unit = (match[2] or default) if match else ""
    if match is None or unit not in table or math.isinf(value := float(match[1]) * table[unit]):
        article = "an" if what[0] in "aeiou" else "a"
        raise BadInput(
            f"{text!r} is not {article} {what}", advice=f"give a number and one of the units {', '.join(table)}"
        )
    return value


def parse_frequency(text: str) -> float:
    """Hertz from ``"120MHz"``, ``"1.5 GHz"``; the unit is required. Raises `BadInput`."""
    return _parse(text, _FREQUENCY, default="", what="frequency")


def parse_duration(text: str) -> float:
    """Seconds from ``"5ms"``, ``"1.5 s"``, ``"2min"``; a bare number is seconds. Raises `BadInput`."""
    return _parse(text, _TIME, default="s", what="duration")


def parse_size(text: str) -> int:
    """Bytes from ``"2GiB"``, ``"500 MB"``, ``"1g"``; a bare number is bytes. Raises `BadInput`."""
    return round(_parse(text, _SIZE, default="B", what="size"))


def parse_voltage(text: str) -> float:
    """Volts from ``"3.3V"`` or ``"3300 mV"``. Raises `BadInput`."""
    return _parse(text, VOLTAGES, default="", what="voltage")


def parse_capacity(text: str) -> float:
    """Joules from ``"10Wh"``, ``"36kJ"``, or a charge and a voltage: ``"2000mAh@3.7V"``. Raises `BadInput`."""
    charge, at, voltage = text.partition("@")
    if at:
        coulombs = _parse(charge, CHARGES, default="", what="charge")
        return coulombs * parse_voltage(voltage)
    if (match := _QUANTITY.fullmatch(text)) and match[2] in CHARGES:
        raise BadInput(f"{text!r} is a charge without a voltage", advice=f"write {text}@3.7V")
    return _parse(text, ENERGIES, default="", what="capacity")


def parse_interval(text: str, units: Mapping[str, float], *, what: str) -> tuple[float, float, float]:
    """Value and both ends of its interval, in the base unit, from ``"50mW"``, ``"50mW±5"`` or ``"50mW±10%"``.

    ``+-`` is read as ±; the tolerance has the value's unit where it has none. Raises `BadInput`.
    """
    given, sign, tolerance = text.replace("+-", "±").partition("±")
    value = _parse(given, units, default="", what=what)
    half = 0.0
    if sign and tolerance.rstrip().endswith("%"):
        half = value * _parse(tolerance.rstrip()[:-1], {"": 0.01}, default="", what="percentage")
    elif sign:
        unit = _QUANTITY.fullmatch(given)
        half = _parse(tolerance, units, default=unit[2] if unit else "", what=what)
    return value, max(0.0, value - half), value + half


def significant(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits, without an exponent between 1e-4 and 1e9."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -4 or magnitude >= 9:
        return f"{value:.{digits - 1}e}"
    rounded = round(value, digits - 1 - magnitude)
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))  # 99.96 is 100, not 100.0
    return f"{rounded:.{places}f}"


def scale_for(magnitude: float, scales: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Return the size and the name of the largest of `scales`, largest first, in which `magnitude` is 1 or more
    when rounded.

    A magnitude below all of them gets the smallest.
    """
    return next((scale for scale in scales if magnitude >= scale[0] * 0.9995), scales[-1])


def _scaled(value: float, scales: Sequence[tuple[float, str]], digits: int) -> str:
    size, unit = scale_for(abs(value), scales)
    return f"{significant(value / size, digits)} {unit}".rstrip()


def format_duration(seconds: float, digits: int = 3) -> str:
    """``"1.23 ms"``, ``"45.0 µs"``, ``"2.10 s"``."""
    return _scaled(seconds, SCALES["s"], digits) if seconds else "0 s"


def long_time(seconds: float) -> str:
    """``"30 min"``, ``"12.5 min"``, ``"8 h"``, ``"45 s"``: times that people wait for."""
    for unit, scale in (("h", 3600.0), ("min", 60.0)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def format_bytes(count: float, digits: int = 3) -> str:
    """``"1.05 MiB"``: binary, as the memories of devices are."""
    size, _ = scale_for(abs(count), SCALES["B"])
    return f"{count:.0f} B" if size == 1.0 else _scaled(count, SCALES["B"], digits)


def format_limit(count: float) -> str:
    """``"256 MiB"``, ``"200 MB (191 MiB)"``: a limit as it was given, and in binary units."""
    for unit in ("GiB", "MiB", "GB", "MB", "KiB", "kB"):
        if count and count % _SIZE[unit] == 0:
            return f"{count / _SIZE[unit]:.0f} {unit}" + ("" if "i" in unit else f" ({format_bytes(count)})")
    return format_bytes(count)


def format_si(value: float, unit: str, digits: int = 3) -> str:
    """`value` in a base unit with its SI prefix: ``format_si(3.2e9, "Hz")`` is ``"3.20 GHz"``."""
    if not abs(value) >= _PREFIXES[-1][0] * 0.9995:  # 0, too small for a prefix, or no number
        return f"{significant(value, digits)} {unit}".rstrip()
    return _scaled(value, [(size, prefix + unit) for size, prefix in _PREFIXES], digits)


def format_quantity(value: float, unit: str, digits: int = 3) -> str:
    """`value` (in the SI base `unit` of the metric catalogue) as a person reads it."""
    match unit:
        case "s":
            return format_duration(value, digits)
        case "B":
            return format_bytes(value, digits)
        case "K":
            return f"{significant(value - 273.15, digits)} °C"
        case "1/s":
            return f"{significant(value, digits)} /s"
        case "1":
            return significant(value, digits) if abs(value) < 1000 else format_si(value, "", digits).strip()
        case _:
            return format_si(value, unit, digits)
