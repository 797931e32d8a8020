"""Numbers of findings in words: factors, points, and intervals whose ends are never rounded to look better."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from edgewise.metrics import METRICS, SHARES
from edgewise.units import format_quantity, significant

_MOST_PLACES = 6


def ends_text(low: float, high: float, places: int) -> tuple[str, str]:
    """Both ends of an interval at `places` decimals, rounded away from each other."""
    step = Decimal(1).scaleb(-max(0, places))
    # The shortest text that means the same number: binary fractions must not push 0.405 to 0.404.
    return (
        str(Decimal(repr(low)).quantize(step, rounding=ROUND_FLOOR, context=Context(prec=400))),
        str(Decimal(repr(high)).quantize(step, rounding=ROUND_CEILING, context=Context(prec=400))),
    )


def factor_text(value: float, low: float | None = None, high: float | None = None, *, interval: bool = True) -> str:
    """``"2.97× [2.91, 3.03]"``: as many digits as the interval lets one rely on, the ends rounded outwards.

    What is on one side of 1, be it the factor or its whole interval, keeps the digits that show it: 1.00 would hide
    what 1.004 tells.

    Args:
        interval: whether it is printed.
    """
    places = 2 if 0.1 <= value < 10.0 else 3 if value < 0.1 else 1 if value < 100.0 else 0
    if low is None or high is None:
        return f"{value:.{_off_one(value, places)}f}×"
    half = max(value - low, high - value)
    if half >= 1.0:
        places = min(places, max(0, math.ceil(1.0 - math.log10(half))))
    aside = low > 1.0 or high < 1.0
    text = f"{value:.{_off_one(value, places) if aside else places}f}×"
    if not interval:
        return text
    first = ends_text(low, high, _off_one(low, places) if aside else places)[0]
    last = ends_text(low, high, _off_one(high, places) if aside else places)[1]
    return f"{text} [{first}, {last}]"


def _off_one(factor: float, places: int) -> int:
    """`places`, or as many more as `factor`, rounded either way, needs to stay on its side of 1."""
    distance = abs(factor - 1.0)
    return min(_MOST_PLACES, max(places, math.ceil(-math.log10(distance) - 1e-9))) if distance else places


def percent_of(share: float) -> float:
    """Percent, without the dust of binary fractions, which would be seen where ends are rounded outwards."""
    return float(f"{share * 100.0:.12g}")


def width_text(value: float, low: float, high: float, unit: str) -> str:
    """How wide an interval is: ``"± 1.4 %"``, or its ends where one side is wider than the value itself."""
    half = max(value - low, high - value) / abs(value) if value else math.inf
    if half <= 1.0:
        return f"± {half * 100:.1f} %"
    return f"{format_quantity(low, unit)} to {format_quantity(high, unit)}"


def share_text(share: float, *, unit: bool = True, places: int = 2) -> str:
    """``"98.22 %"``: what is not nothing never reads as 0, what is not all never as 100."""
    value = percent_of(share)
    while places < _MOST_PLACES and (float(f"{value:.{places}f}") in (0.0, 100.0)) != (value in (0.0, 100.0)):
        places += 1
    return f"{value:.{places}f}" + (" %" if unit else "")


def with_ends(
    metric: str, value: float, low: float | None, high: float | None, *, digits: int = 3, unit: str = ""
) -> str:
    """A score with the ends of its interval, rounded outwards: ``"98.2 [97.0, 99.0]"``, shares in percent.

    Never with ±: the interval of a score ends where the score itself does, and ± would reach beyond that.

    Args:
        unit: follows the value.
    """
    if metric in SHARES:
        places = max(digits - 2, len(significant(percent_of(value), digits).partition(".")[2]))
        text = share_text(value, unit=False, places=places)
        places = len(text.partition(".")[2])
        ends = None if low is None or high is None else (percent_of(low), percent_of(high))
    else:
        text, ends = significant(value, digits), None if low is None or high is None else (low, high)
        places = len(text.partition(".")[2]) if "e" not in text else _MOST_PLACES
    text = f"{text} {unit}".rstrip()
    if ends is None:
        return text
    first, last = ends_text(*ends, places)
    return f"{text} [{first}, {last}]"


def points_text(metric: str, difference: float, *, unit: bool = True) -> str:
    """``"+0.21 pt"`` for shares, ``"+0.021"`` for everything else."""
    word = METRICS[metric].unit
    if metric not in SHARES:
        text = _signed(significant(difference))
        return f"{text} {word}" if unit and word != "1" else text
    return _signed(_round(percent_of(difference))) + (" pt" if unit else "")


def points_range(metric: str, low: float | None, high: float | None) -> str:
    """``"[−0.92, +0.92]"``, rounded outwards; empty where there is no interval."""
    if low is None or high is None:
        return ""
    if metric in SHARES:
        first, last = ends_text(percent_of(low), percent_of(high), 2)
    else:
        first, last = significant(low), significant(high)
    return f"[{_signed(first)}, {_signed(last)}]"


def _round(value: float) -> str:
    places = 2
    while value and places < _MOST_PLACES and float(f"{value:.{places}f}") == 0.0:
        places += 1
    return f"{value:.{places}f}"


def _signed(text: str) -> str:
    value = float(text)
    if value == 0.0:
        return f"+{text.lstrip('-+')}"
    return f"−{text[1:]}" if value < 0.0 else f"+{text}"
