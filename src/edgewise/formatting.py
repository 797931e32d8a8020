"""Numbers as text: values, factors, ratios, shares and differences, with intervals that are rounded outwards.

An interval has one text in tables, prose, pages and charts: that of `interval_text`, which `with_range` writes behind
the value. CSV and JSON have numbers at full precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from edgewise.metrics import METRICS, SHARES, is_score
from edgewise.units import JOULES_PER_MWH, SCALES, format_limit, format_quantity, scale_for, significant

ABSENT = "n/a"
"""How a value that is not known is printed, always with a footnote that says why."""

DIGITS = 3
_MOST_PLACES = 6
"""Decimals at most: finer differences are no finding."""
_WIDEST_FIXED = 1e6
FACTOR_WIDE = 2.0
"""Ratio of an interval's ends above which a value is known only within a factor."""
FACTOR_UNKNOWN = 10
UNKNOWN = f"not even known within a factor of {FACTOR_UNKNOWN}"
VERY_WIDE = f"spans more than a factor of {FACTOR_WIDE:g}"

_PERCENT = SHARES | {"cpu_utilization"}
_COUNTS = frozenset({"parameters", "depth", "macs", "ops"})


def ends_text(low: float, high: float, places: int) -> tuple[str, str]:
    """Both ends of an interval at `places` decimals, rounded away from each other; of -1, at tens."""
    step = Decimal(1).scaleb(-places)
    # The shortest text that means the same number: binary fractions must not push 0.405 to 0.404.
    first, last = (
        Decimal(repr(end)).quantize(step, rounding=way, context=Context(prec=400))
        for way, end in ((ROUND_FLOOR, low), (ROUND_CEILING, high))
    )
    return f"{first:f}", f"{last:f}"


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
    # 0 is no ratio: the lower end has a digit.
    least = places if low * 10.0**places >= 1.0 or low <= 0.0 else 1 - math.floor(math.log10(low))
    first = ends_text(low, high, _off_one(low, least) if aside else least)[0]
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
    """How wide an interval is: ``"± 1.4 %"``, ``"−1.4 % to +2.1 %"``, or its ends where it is wider than the value."""
    sides = [side / abs(value) if value else math.inf for side in (value - low, high - value)]
    if max(sides) > 1.0:
        return amount_interval(unit, value, low, high)
    below, above = (math.ceil(float(f"{side * 1000:.9g}")) for side in sides)
    if abs(below - above) > 1:
        return f"−{below / 10:.1f} % to +{above / 10:.1f} %"
    return f"± {max(below, above) / 10:.1f} %"


def is_very_wide(low: float | None, high: float | None) -> bool:
    """Whether an interval leaves its value known only within a factor."""
    if low is None or high is None:
        return False
    return high > FACTOR_WIDE * low if high > 0.0 else low < FACTOR_WIDE * high


def known_within(value: float | None, low: float | None, high: float | None) -> str:
    """``"known only within a factor of 3"``: how far a very wide interval reaches from its value; "" for others."""
    if not value or low is None or high is None or not is_very_wide(low, high):
        return ""
    furthest = _furthest(value, low, high)
    factor = next((one for one in (2, 3, 5, FACTOR_UNKNOWN) if furthest <= one), None)
    return f"known only within a factor of {factor}" if factor else UNKNOWN


def is_unknown(value: float | None, low: float | None, high: float | None) -> bool:
    """Whether the interval says next to nothing: an end is more than a factor of `FACTOR_UNKNOWN` from the value."""
    return bool(value) and low is not None and high is not None and _furthest(value or 0.0, low, high) > FACTOR_UNKNOWN


def _furthest(value: float, low: float, high: float) -> float:
    """Return the factor from the value to the farther end; infinite where an end has another sign or is 0."""
    return max(value / low, low / value, high / value, value / high) if low * high > 0.0 else math.inf


def share_text(share: float, *, unit: bool = True, places: int = 2) -> str:
    """``"98.22 %"``: what is not nothing never reads as 0, what is not all never as 100."""
    value = percent_of(share)
    while places < _MOST_PLACES and (float(f"{value:.{places}f}") in (0.0, 100.0)) != (value in (0.0, 100.0)):
        places += 1
    return f"{value:.{places}f}" + (" %" if unit else "")


def with_ends(
    metric: str, value: float, low: float | None, high: float | None, *, digits: int = 3, unit: str = ""
) -> str:
    """Return a score with the ends of its interval, rounded outwards: ``"98.2 [97.0, 99.0]"``, shares in percent.

    Never with ±: the interval of a score ends where the score itself does, and ± would reach beyond that.

    Args:
        unit: follows the value.
    """
    if metric in SHARES:
        text = share_text(value, unit=False, places=max(2, digits - 2))
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


def points_text(metric: str, difference: float | None, *, unit: bool = True) -> str:
    """``"+0.21 pt"`` for shares, ``"+0.021"`` for everything else; ``n/a`` where it is not known."""
    if difference is None:
        return ABSENT
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
        first, last = round_outwards(low, high)
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


def quantity(value: float, unit: str) -> str:
    """`value` in the catalogue's unit as a person reads it, at the digits that every table uses."""
    return format_quantity(value, unit, DIGITS)


def scale_of(metric: str, unit: str, values: Sequence[float]) -> tuple[Callable[[float], float], str]:
    """How `values` of the SI `unit` are shown: a conversion and the unit that follows the number."""
    if metric in _PERCENT:
        return (lambda value: value * 100.0), "%"
    if unit == "K":
        return (lambda value: value - 273.15), "°C"
    if unit not in SCALES:
        return (lambda value: value), unit
    smallest = min((abs(value) for value in values if value), default=0.0)
    size, name = scale_for(smallest, SCALES[unit])
    # Products of powers of ten: dividing by 1e-6 would leave 42.00000000000001.
    return (lambda value: float(f"{value / size:.15g}")), name


def time_unit_of(seconds: float) -> tuple[str, float]:
    """Return the unit that suits a time and the factor from seconds to it: ``("ms", 1e3)``."""
    size, unit = scale_for(abs(seconds), SCALES["s"])
    return unit, 1.0 / size


def bound_text(high: float) -> str:
    """``"< 2.02"``: an upper bound, rounded up at its third digit."""
    high = float(f"{high:.9g}")  # what is left of binary fractions
    return f"< {ends_text(0.0, high, 2 - math.floor(math.log10(high)))[1]}"


def plus_minus(value: float, low: float | None, high: float | None) -> str:
    """``"0.421 ± 0.012"``: the value at three significant digits, then its interval.

    Both sides are counted from the printed value and rounded up at its last place, so that what is printed always
    contains the interval; only an interval without any width is ``± 0``. Where they then differ by more than one step
    of that place, or reach past 0, the ends are printed, rounded outwards: ``"421 [409, 480]"``.
    """
    if low is None or high is None or not math.isfinite(value):
        return significant(value, DIGITS)
    magnitude = math.floor(math.log10(abs(value))) if value else 0
    places = DIGITS - 1 - magnitude
    shown = round(value, places)
    # The small allowance keeps 0.012 from becoming 0.013 through binary fractions.
    below, above = (max(0, math.ceil(side * 10.0**places - 1e-9)) for side in (shown - low, high - shown))
    if low == high == value or not max(below, above):
        return f"{significant(value, DIGITS)} ± 0"
    width = max(below, above) * 10.0**-places
    if abs(below - above) > 1 or width >= abs(value):
        return f"{significant(value, DIGITS)} [{', '.join(round_outwards(low, high))}]"
    # `significant` writes numbers of these magnitudes with an exponent.
    exponent = magnitude < -4 or magnitude >= 9
    return f"{significant(value, DIGITS)} ± {f'{width:.2e}' if exponent else f'{width:.{max(0, places)}f}'}"


def round_outwards(low: float, high: float) -> tuple[str, str]:
    """Both ends at three significant digits, rounded away from each other."""
    # What is left of binary fractions must not move the last digit.
    ends = (Context(prec=DIGITS, rounding=way).create_decimal(f"{end:.12g}")
            for way, end in ((ROUND_FLOOR, low), (ROUND_CEILING, high)))  # fmt: skip
    first, last = (significant(float(end), DIGITS) for end in ends)
    return first, last


def ratio_text(ratio: float | None, low: float | None, high: float | None) -> str:
    """``"0.412 (0.405 to 0.419)"``: enough digits to see the interval, whose ends are rounded outwards."""
    if ratio is None or not math.isfinite(ratio):
        return ABSENT
    if low is None or high is None:
        return _fixed(ratio, _ratio_places(ratio, 0.0))
    if low == high == ratio:
        # Exact: what can be told apart is how far it is from 1.
        return _fixed(ratio, _ratio_places(ratio, abs(ratio - 1.0) / 10.0))
    places = _ratio_places(ratio, max(ratio - low, high - ratio))
    if not 1 / _WIDEST_FIXED < low <= high < _WIDEST_FIXED:
        ends = [str(Context(prec=3, rounding=way).create_decimal(repr(end))).lower()
                for way, end in ((ROUND_FLOOR, low), (ROUND_CEILING, high))]  # fmt: skip
        return f"{ratio:.2e} ({' to '.join(ends)})"
    return f"{_fixed(ratio, places)} ({' to '.join(ends_text(low, high, places))})"


def times_text(ratio: float, low: float | None = None, high: float | None = None) -> str:
    """``"1.120× [1.081, 1.171]"``: a ratio as a multiple, with the digits and the interval of `ratio_text`."""
    # What inverting leaves of binary fractions must not move the last digit.
    known = [None if one is None else float(f"{one:.12g}") for one in (ratio, low, high)]
    value, _, interval = ratio_text(*known).rstrip(")").partition(" (")
    return f"{value}× [{interval.replace(' to ', ', ')}]" if interval else f"{value}×"


def _fixed(ratio: float, places: int) -> str:
    return f"{ratio:.{places}f}" if 1 / _WIDEST_FIXED < ratio < _WIDEST_FIXED else f"{ratio:.2e}"


def _ratio_places(ratio: float, half: float) -> int:
    """Decimals that show three digits of the ratio and one of the interval's half-width."""
    if not 0.0 < ratio < _WIDEST_FIXED:
        return 2
    magnitude = math.floor(math.log10(ratio))
    # Around 1 a digit more: 1.00 would hide what 1.004 tells.
    places = max(2 - magnitude, 3 if magnitude in (-1, 0) else 0)
    if half > 0.0:
        places = max(places, math.ceil(-math.log10(half) - 1e-9))
    return min(places, _MOST_PLACES)


def percent(share: float) -> str:
    """``"3 %"``, two significant digits."""
    text = significant(share * 100.0, 2)
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def p_text(p_value: float) -> str:
    """Return a p-value as tables have it."""
    return "< 0.001" if p_value < 0.001 else significant(p_value, 2)


def time_text(seconds: float) -> str:
    """About how long, rounded up: ``"40 s"``, ``"12 min"``, ``"3 h"``."""
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2.0 * size:
            return f"{math.ceil(seconds / size)} {unit}"
    return f"{max(1, math.ceil(seconds))} s"


def value_text(metric: str, unit: str, value: float | None) -> str:
    """`value` of `metric` as a person reads it: shares in percent, energy in J and mWh, all else in its own unit.

    Counts, such as parameters, are in full: rounded, they would look exact.
    """
    if value is None or not math.isfinite(value):
        return ABSENT
    is_count = metric in _COUNTS or value >= 1000
    if unit == "1" and is_count and value < 1e15 and value == round(value):
        return f"{value:,.0f}"
    if metric == "memory_limit":
        return format_limit(value)
    if metric in _PERCENT - SHARES:
        return f"{significant(percent_of(value))} %"
    text = share_text(value) if metric in SHARES else quantity(value, unit)
    return f"{text} ({significant(value / JOULES_PER_MWH)} mWh)" if unit == "J" else text


def amount_text(unit: str, value: float, low: float | None, high: float | None) -> str:
    """``"422 ± 74 µs"``, ``"421 [409, 480] µs"``: a quantity of the SI `unit`, as `plus_minus`."""
    if low is None or high is None or not math.isfinite(value):
        return quantity(value, unit)
    convert, name = scale_of("", unit, [value])
    return f"{plus_minus(convert(value), convert(low), convert(high))} {name}".rstrip()


def amount_interval(unit: str, value: float, low: float, high: float) -> str:
    """``"± 74 µs"``, ``"[409, 480] µs"``: the interval of `amount_text`."""
    return amount_text(unit, value, low, high).partition(" ")[2]


def interval_text(metric: str, unit: str, value: float | None, low: float | None, high: float | None) -> str:
    """``"± 74 µs"``, ``"[409, 480] µs"``, ``"[97.05, 98.96] %"``: the interval beside a value in another column.

    Empty where there is none.
    """
    if value is None or low is None or high is None or not math.isfinite(value):
        return ""
    if metric in SHARES or is_score(metric):
        return with_ends(metric, value, low, high).partition(" ")[2] + (" %" if metric in SHARES else "")
    if metric in _PERCENT:
        return f"{plus_minus(*map(percent_of, (value, low, high))).partition(' ')[2]} %"
    return amount_interval(unit, value, low, high)


def with_range(metric: str, unit: str, value: float | None, low: float | None, high: float | None) -> str:
    """``"422 ± 74 µs"``, ``"421 [409, 480] µs"``, ``"98.22 % [97.05, 98.96]"``."""
    if value is None or low is None or high is None or not math.isfinite(value):
        return value_text(metric, unit, value)
    if metric in SHARES or is_score(metric):
        return with_ends(metric, value, low, high, unit="%" if metric in SHARES else "")
    if metric in _PERCENT:
        return f"{plus_minus(*map(percent_of, (value, low, high)))} %"
    watt_hours = f" ({significant(value / JOULES_PER_MWH)} mWh)" if unit == "J" else ""
    return amount_text(unit, value, low, high) + watt_hours
