"""Requirements of a gate, parsed from words such as ``3%``, ``latency=5ms`` or ``accuracy_drop=1pt``."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edgewise.errors import BadInput
from edgewise.formatting import with_ends
from edgewise.metrics import METRICS, SHARES, Metric
from edgewise.units import format_limit as limit_text
from edgewise.units import format_quantity, parse_duration, parse_size, significant

Kind = Literal["regression", "budget", "drop"]

HEADLINE = ""
"""Stands for the metric that the candidate's scenario is about, until a run tells which."""

DROPS = {"accuracy_drop": "accuracy_top1"}
"""Word of a budget in points → the metric that may lose them."""

_NUMBER = re.compile(r"\s*([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([^\s0-9]*)\s*")
#: base unit → what may follow the number, and what it multiplies by
_SCALES: dict[str, dict[str, float]] = {
    "J": {"J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "µJ": 1e-6, "μJ": 1e-6, "nJ": 1e-9, "Wh": 3600.0, "mWh": 3.6},
    "J/token": {"J/token": 1.0, "mJ/token": 1e-3, "uJ/token": 1e-6, "µJ/token": 1e-6, "J": 1.0, "mJ": 1e-3},
    "W": {"W": 1.0, "mW": 1e-3, "uW": 1e-6, "µW": 1e-6, "μW": 1e-6},
    "K": {"K": 1.0, "°C": 1.0, "C": 1.0},
    "1/s": {"/s": 1.0, "1/s": 1.0, "fps": 1.0, "": 1.0},
    "1": {"": 1.0, "%": 0.01},
}
_CELSIUS_ZERO = 273.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One requirement of a gate.

    Attributes:
        metric: an id of the metric catalogue, or `HEADLINE`.
        kind: ``regression``: worse than the baseline by at most `limit` (0.03 for 3 %; negative where it must be
            better); ``budget``: the candidate's own value against `limit`, in the metric's SI unit, a floor where more
            is better; ``drop``: `limit` points (0.01 for one) that may be lost against the baseline.
        word: the words it was read from.
    """

    metric: str
    kind: Kind
    limit: float
    word: str

    @property
    def needs_baseline(self) -> bool:
        """Whether it compares with a baseline."""
        return self.kind != "budget"

    @property
    def text(self) -> str:
        """What must hold, in words."""
        name = METRICS[self.metric].label if self.metric else "the headline metric"
        if self.kind == "drop":
            return f"{name}: at most {_plain(self.limit * 100)} pt lost"
        if self.kind == "budget":
            row = METRICS[self.metric]
            bound = "at least" if row.better == "higher" else "at most"
            limit = limit_text(self.limit) if row.unit == "B" else format_limit(self.limit, row, digits=6)
            return f"{name}: {bound} {_without_zeros(limit)}"
        share = f"{_plain(abs(self.limit) * 100)} %"
        if self.limit < 0.0:
            return f"{name}: at least {share} better"
        return f"{name}: at most {share} worse"

    @property
    def limit_text(self) -> str:
        """The limit on a change, in short: `` (limit +3 %)``; "" of a budget, whose own value is beside the limit."""
        if self.kind == "budget":
            return ""
        if self.kind == "drop":
            return f" (limit {_plain(self.limit * 100)} pt)"
        more = (self.limit >= 0.0) == (METRICS[self.metric].better == "lower")
        return f" (limit {'+' if more else '−'}{_plain(abs(self.limit) * 100)} %)"

    def resolve(self, headline: str) -> Requirement:
        """Return the same with `headline` in place of `HEADLINE`.

        Raises `BadInput` where the limit does not suit it.
        """
        if not self.metric:
            _check_share(self.limit, headline, self.word)
        return self if self.metric else replace(self, metric=headline)


def format_limit(value: float, row: Metric, digits: int = 3) -> str:
    """Return a value of a metric as a person reads it, in its unit; shares in percent."""
    if row.id in SHARES:
        return f"{with_ends(row.id, value, None, None, digits=digits)} %"
    return format_quantity(value, row.unit, digits)


def _plain(number: float) -> str:
    return _without_zeros(significant(number, 6))


def _without_zeros(text: str) -> str:
    """``5 ms`` for ``5.00 ms``: what was asked for is exact."""
    return re.sub(r"\.0+(?=\D|$)|(\.\d*[1-9])0+(?=\D|$)", r"\1", text)


def parse_requirements(max_regression: Sequence[str], budgets: Sequence[str]) -> tuple[Requirement, ...]:
    """Return the requirements in the order of the words.

    Args:
        max_regression: ``3%`` of the scenario's headline metric, ``latency=3%,memory_peak=5%`` of named ones; below
            zero where an improvement is required. Several words in a text are parted by commas.
        budgets: ``latency=5ms,model_size=1MB``, ``accuracy_top1=97%`` (at least), ``accuracy_drop=1pt``.

    Raises:
        BadInput: an empty word, an unknown metric or unit, a limit out of range, the same requirement twice, or no
            requirement.
    """
    found = [_parse_regression(word) for word in _words(max_regression, "max_regression")]
    found += [_parse_budget(word) for word in _words(budgets, "budget")]
    if not found:
        raise BadInput("no requirement given", advice="add ⟦max_regression=3%⟧ or ⟦budget=latency=5ms⟧")
    seen: set[tuple[str, Kind]] = set()
    for one in found:
        if (one.metric, one.kind) in seen:
            raise BadInput(f"two limits for the same thing: {one.word!r} is one", advice="give one of them")
        seen.add((one.metric, one.kind))
    return tuple(found)


BARE = re.compile(r"\s*[0-9.]+(?:[eE][+-]?[0-9]+)?\s*")
"""An amount without a unit."""


def _words(texts: Sequence[str], field: str) -> list[str]:
    words = []
    for text in texts:
        parts = [part.strip() for part in text.split(",")]
        if not all(parts):
            raise BadInput(f"⟦{field}⟧ {text!r} has an empty part", advice=_ADVICE[field])
        words += parts
    return words


_ADVICE = {
    "max_regression": "such as 3%, or latency=3%,memory_peak=5%",
    "budget": "such as latency=5ms,model_size=1MB,accuracy_drop=1pt",
}


def _parse_regression(word: str) -> Requirement:
    name, equals, amount = word.rpartition("=")
    metric = _metric(name, "max_regression").id if equals else HEADLINE
    number, unit = _split(amount, word, "max_regression")
    if unit != "%":
        raise BadInput(f"⟦max_regression⟧ {word!r} is not a percentage", advice=f"write the percent sign: {number:g}%")
    limit = number / 100.0
    if limit <= -1.0:
        raise BadInput(
            f"⟦max_regression⟧ {word!r}: the limit must be above -100%",
            advice="such as 3%, or -10% to require an improvement",
        )
    if metric:
        _check_share(limit, metric, word)
    return Requirement(metric=metric, kind="regression", limit=limit, word=word)


def _check_share(limit: float, metric: str, word: str) -> None:
    if limit >= 1.0 and METRICS[metric].better == "higher":
        raise BadInput(
            f"⟦max_regression⟧ {word!r} allows everything",
            advice=f"below 100%, as more {METRICS[metric].label.lower()} is better",
        )


def _parse_budget(word: str) -> Requirement:
    name, equals, amount = word.partition("=")
    if not equals:
        raise BadInput(f"⟦budget⟧ {word!r} is not METRIC=LIMIT", advice=_ADVICE["budget"])
    if name.strip() in DROPS:
        number, unit = _split(amount, word, "budget")
        if unit not in ("pt", "pp"):
            raise BadInput(f"⟦budget⟧ {word!r} is not in points", advice="1pt is one percentage point")
        if not 0.0 <= number < 100.0:
            raise BadInput(f"⟦budget⟧ {word!r} is out of range", advice="0pt or more, below 100pt")
        return Requirement(metric=DROPS[name.strip()], kind="drop", limit=number / 100.0, word=word)
    row = _metric(name, "budget")
    limit = _limit(amount, row, word)
    if not math.isfinite(limit) or limit < 0.0 or (limit == 0.0 and row.unit != "1"):
        raise BadInput(f"⟦budget⟧ {word!r} is out of range", advice=_ADVICE["budget"])
    if row.id in SHARES and limit > 1.0:
        raise BadInput(f"⟦budget⟧ {word!r} is more than all", advice="a share: 97% or 0.97")
    return Requirement(metric=row.id, kind="budget", limit=limit, word=word)


def _limit(amount: str, row: Metric, word: str) -> float:
    """Return a budget in the metric's SI unit. A time or a size needs its unit."""
    if row.unit in ("s", "B") and BARE.fullmatch(amount):
        unit = "latency=5ms" if row.unit == "s" else "model_size=1MB"
        raise BadInput(f"⟦budget⟧ {word!r} has no unit", advice=f"write it, such as {unit}")
    try:
        if row.unit == "s":
            return parse_duration(amount)
        if row.unit == "B":
            return float(parse_size(amount))
    except (BadInput, OverflowError) as error:
        advice = error.marked.advice if isinstance(error, BadInput) else _ADVICE["budget"]
        raise BadInput(f"⟦budget⟧ {word!r}: {amount!r} is not a value of {row.id}", advice=advice) from None
    number, unit = _split(amount, word, "budget")
    scales = _SCALES.get(row.unit, {row.unit: 1.0, "": 1.0})
    if unit not in scales:
        known = ", ".join(each or "a bare number" for each in scales)
        raise BadInput(f"⟦budget⟧ {word!r}: {row.id} is not in {unit or 'bare numbers'}", advice=f"one of: {known}")
    return number * scales[unit] + (_CELSIUS_ZERO if unit in ("°C", "C") else 0.0)


def _split(amount: str, word: str, field: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(amount)
    if match is None or not math.isfinite(float(match[1])):
        raise BadInput(f"⟦{field}⟧ {word!r}: {amount.strip()!r} is not a number with a unit", advice=_ADVICE[field])
    return float(match[1]), match[2]


def _metric(name: str, field: str) -> Metric:
    """Return the row of the catalogue. Raises `BadInput` where there is none, or none that is better one way."""
    row = METRICS.get(name.strip())
    if row is None:
        near = difflib.get_close_matches(name.strip(), [*METRICS, *DROPS], n=3)
        known = ", ".join(near) if near else "latency, latency_p99, throughput, memory_peak, model_size, energy …"
        raise BadInput(f"⟦{field}⟧: unknown metric {name.strip()!r}", advice=f"did you mean: {known}")
    if row.better == "none":
        raise BadInput(f"⟦{field}⟧: {row.id} is neither better high nor low", advice="it can't be limited")
    return row
