"""What a sweep found of one metric: a value for each model and place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from edgewise.metrics import METRICS
from edgewise.record import Run
from edgewise.verbs.rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A metric of a model in a place: of repeats the median, and the ends of all their intervals.

    Attributes:
        grade: the worst of the runs whose first headline it is; "" where there is none.
        runs: those of which it is the headline, as far as they are at hand.
    """

    value: float
    low: float | None
    high: float | None
    number: int
    grade: str = ""
    runs: tuple[Run, ...] = ()

    @property
    def vague(self) -> bool:
        """Whether a run of grade D, which is too uncertain to be ranked, is among them."""
        return self.grade == "D"

    @property
    def ranked(self) -> tuple[Run, ...]:
        """Of its runs those that took turns, as their ratios are known; all where none did."""
        return tuple(run for run in self.runs if run.in_turns) or self.runs

    @property
    def rival(self) -> Run | None:
        """The run that stands for its repeats in turns: one that took some, else the one in the middle."""
        known = [run for run in self.ranked if run.value(run.headline) is not None]
        by_value = sorted(known, key=lambda run: run.value(run.headline) or 0.0)
        return by_value[(len(by_value) - 1) // 2] if by_value else None


Values = Mapping[str, Mapping[str, Value]]
"""Model → place → value."""


def values_of(rows: Sequence[Row], places: Sequence[str], metric: str, held: Mapping[str, Run] | None = None) -> Values:
    """Return what the rows have of `metric`; of several rows of a model and place the median.

    Args:
        held: the runs at hand, by their ids.
    """
    numbers: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row, place in zip(rows, places, strict=True):
        if (number := row["metrics"].get(metric)) is not None:
            grade = (row.get("grade") or "") if metric == row["headlines"][0] else ""
            numbers.setdefault(row["named"], {}).setdefault(place, []).append(
                {**number, "grade": grade, "run": None if held is None else held.get(row.get("run") or "")}
            )
    return {
        model: {place: _joined(repeats, metric) for place, repeats in of_model.items()}
        for model, of_model in numbers.items()
    }


def _joined(repeats: Sequence[Mapping[str, Any]], metric: str) -> Value:
    return Value(
        value=median(one["value"] for one in repeats),
        low=min((one["low"] for one in repeats if one["low"] is not None), default=None),
        high=max((one["high"] for one in repeats if one["high"] is not None), default=None),
        number=len(repeats),
        grade=max(one["grade"] for one in repeats),
        runs=tuple(run for one in repeats if (run := one["run"]) is not None and run.headline == metric),
    )


def sign_of(metric: str) -> int:
    """1 where less is better, otherwise -1."""
    return -1 if METRICS[metric].better == "higher" else 1


def overlaps(one: Value, other: Value) -> bool:
    """Whether both have intervals, and these have a part in common."""
    if None in (one.low, one.high, other.low, other.high):
        return False
    return bool(one.low <= other.high and other.low <= one.high)  # type: ignore[operator]  # none is None


def is_apart(one: Value, other: Value) -> bool:
    """Whether both have intervals with nothing in common, and neither is vague."""
    known = None not in (one.low, one.high, other.low, other.high)
    return known and not overlaps(one, other) and not (one.vague or other.vague)
