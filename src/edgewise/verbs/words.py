"""What the words on the command line mean: lists, shapes, times, sizes."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, TypeVar

from edgewise.errors import BadInput
from edgewise.units import ENERGIES, parse_duration, parse_interval, parse_size

T = TypeVar("T")
MOST_CASES = 1000
"""Largest number of models that the values of a factory's arguments may make."""


def words(values: Sequence[str]) -> tuple[str, ...]:
    """``["a,b", "c"]`` → ``("a", "b", "c")``; a flag may be repeated or take a comma list."""
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())


def numbers(values: Sequence[str]) -> tuple[int, ...]:
    """Return the same for whole numbers. Raises `BadInput`."""
    return tuple(map(_whole_number, words(values)))


def _whole_number(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise BadInput(f"{word!r} is not a whole number", advice="for example 1,2") from None


def shapes(values: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``NAME=1x3x224x224``, repeated; without a name for a model with one input."""
    from edgewise.workload.input_shapes import parse_shape

    return once(parse_shape(value) for value in values)


def once(entries: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Return a mapping of names that are given once each. Raises `BadInput` for one that is given twice."""
    found: dict[str, T] = {}
    for name, value in entries:
        if name in found:
            raise BadInput(f"{name or 'the only input'} is given twice", advice="give it once")
        found[name] = value
    return found


def cases(values: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """``["width=0.5,1", "layers=4"]`` → one mapping per combination; Python literals where they are, else words.

    A comma separates values only outside brackets and quotes. Raises `BadInput` for what is not NAME=VALUE.
    """
    axes: dict[str, list[Any]] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip().isidentifier():
            raise BadInput(f"{value!r} is not NAME=VALUE", advice="for example ⟦what_if=width=0.5⟧")
        if name.strip() in axes:
            raise BadInput(f"{name.strip()} is given twice", advice=f"give its values together: {name.strip()}=0.5,1")
        axes[name.strip()] = _read_values(text.strip())
    count = math.prod(map(len, axes.values()))
    if count > MOST_CASES:
        raise BadInput(f"these values make {count} models, more than {MOST_CASES}", advice="give fewer")
    return tuple(dict(zip(axes, combination, strict=True)) for combination in product(*axes.values()))


def _read_values(text: str) -> list[Any]:
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return [_read_value(word) for word in text.split(",")]
    # A bare "1,2" reads as a tuple: several values. One in brackets is one value.
    return list(found) if isinstance(found, tuple) and not text.startswith("(") else [found]


def _read_value(word: str) -> Any:
    try:
        return ast.literal_eval(word.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return word.strip()


def limits(values: Sequence[str]) -> dict[str, float]:
    """``["latency=30ms"]`` → metric → value in SI. Raises `BadInput`."""
    readers: dict[str, Callable[[str], float]] = {
        "latency": parse_duration,
        "memory_peak": parse_size,
        "energy": lambda text: parse_interval(text, ENERGIES, what="energy")[0],
    }
    found: dict[str, float] = {}
    for metric, text in pairs(values).items():
        if metric not in readers:
            raise BadInput(f"{metric!r} has no target", advice=f"metrics: {', '.join(readers)}")
        found[metric] = readers[metric](text)
        if found[metric] <= 0:
            raise BadInput(f"the target of {metric} must be above 0", advice="for example latency=30ms")
    return found


def pairs(values: Sequence[str]) -> dict[str, str]:
    """``["a=1", "b=2"]`` → mapping. Raises `BadInput`."""
    split = [value.partition("=") for value in values]
    for value, (name, equals, _) in zip(values, split, strict=True):
        if not equals or not name.strip():
            raise BadInput(f"{value!r} is not NAME=VALUE", advice="for example label=class")
    return once((name.strip(), text) for name, _, text in split)


def decibels(value: str) -> float:
    """``20dB`` or ``20``. Raises `BadInput`."""
    try:
        return float(value.strip().lower().removesuffix("db"))
    except ValueError:
        raise BadInput(f"{value!r} is not an amount in dB", advice="for example 20dB") from None


def share(value: str) -> float:
    """``"3%"`` and ``"0.03"`` are both 0.03. Raises `BadInput` unless it is above 0 and at most 1000 %."""
    number, percent, rest = value.strip().partition("%")
    try:
        found = float(number) / 100.0 if percent else float(number)
    except ValueError:
        found = math.nan
    if rest.strip() or not 0.0 < found <= 10.0:
        raise BadInput(f"{value!r} is not a share above 0% and at most 1000%", advice="for example 20% or 0.2")
    return found


def time_with_unit(value: str) -> float:
    """Return a duration whose unit is given: a forgotten ``ms`` is no limit. Raises `BadInput`."""
    return parse_duration(_with_unit(value))


def size_with_unit(value: str) -> int:
    """Return a size whose unit is given. Raises `BadInput`."""
    return parse_size(_with_unit(value))


def _with_unit(value: str) -> str:
    from edgewise.comparing.requirement import BARE

    if BARE.fullmatch(value):
        raise BadInput(f"{value} has no unit", advice="for example 5ms, 1MB or 64MiB")
    return value


def floors(values: Sequence[str]) -> dict[str, float]:
    """``["latency=1us", "memory_peak=2MiB"]`` → metric → SI value. Raises `BadInput`."""
    from edgewise.comparing.criteria import check_metric
    from edgewise.metrics import METRICS

    def floor(word: str) -> tuple[str, float]:
        name, equals, amount = (part.strip() for part in word.partition("="))
        if not equals:
            raise BadInput(f"{word!r} is not METRIC=AMOUNT", advice="for example latency=1us")
        unit = METRICS[check_metric(name)].unit
        if unit in ("s", "B"):
            return name, time_with_unit(amount) if unit == "s" else float(size_with_unit(amount))
        return name, _amount(amount, unit)

    return once(map(floor, words(values)))


def _amount(text: str, unit: str) -> float:
    try:
        value = float(text.removesuffix(unit).strip())
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise BadInput(f"{text!r} is not an amount in {unit}", advice=f"a number, in {unit}")
    return value


def written(value: Any, read: Callable[[Any], Any] | None) -> list[str]:
    """Return the texts of which `read` makes `value`."""
    if read is None:
        return [str(one) for one in (value if isinstance(value, tuple) else (value,))]
    if read is cases:
        names = dict.fromkeys(name for case in value for name in case)
        return [f"{name}=" + ",".join(dict.fromkeys(repr(case[name]) for case in value)) for name in names]
    if read is shapes:
        return [("" if not name else f"{name}=") + "x".join(map(str, shape)) for name, shape in value.items()]
    if read in (floors, limits):
        from edgewise.metrics import METRICS

        return [f"{name}={number!r}{METRICS[name].unit}" for name, number in value.items()]
    if read is pairs:
        return [f"{name}={text}" for name, text in value.items()]
    if read in (words, numbers):
        return [",".join(map(str, value))]
    if read in (parse_duration, time_with_unit):
        return [f"{value:g}s" if float(f"{value:g}") == value else f"{value!r}s"]
    if read in (parse_size, size_with_unit):
        return [f"{value}B"]
    return [f"{value:g}dB" if read is decibels else str(value)]
