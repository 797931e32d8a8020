"""Numbers of findings in words: factors, points, and intervals whose ends are never rounded to look better."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from edgewise.metrics import METRICS, SHARES
from edgewise.units import significant

_MOST_PLACES = 6


def ends_text(low: float, high: float, places: int) -> tuple[str, str]:
    """Both ends of an interval at `places` decimals, rounded away from each other."""
    step = Decimal(1).scaleb(-max(0, places))
    # The shortest text that means the same number: binary fractions must not push 0.405 to 0.404.
    return (
        str(Decimal(repr(low)).quantize(step, rounding=ROUND_FLOOR, context=Context(prec=400))),
        str(Decimal(repr(high)).quantize(step, rounding=ROUND_CEILING, context=Context(prec=400))),
    )


def factor_text(value: float, low: float | None = None, high: float | None = None) -> str:
    """``"2.97× [2.91, 3.03]"``, the ends rounded outwards."""
    places = _places(value)
    text = f"{value:.{places}f}×"
    if low is None or high is None:
        return text
    first, last = ends_text(low, high, places)
    return f"{text} [{first}, {last}]"


def percent_of(share: float) -> float:
    """Percent, without the dust of binary fractions, which would be seen where ends are rounded outwards."""
    return float(f"{share * 100.0:.12g}")


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


def _places(factor: float) -> int:
    """Around 1 a digit more: 1.00 would hide what 1.004 tells."""
    if abs(factor - 1.0) < 0.1 or factor < 0.1:
        return 3
    return 2 if factor < 10.0 else 1


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
