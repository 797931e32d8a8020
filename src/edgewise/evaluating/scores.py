"""From tables to numbers with intervals, and from two tables of the same samples to a paired difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.evaluating.task import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One metric with its 95 % interval.

    Attributes:
        value: None where it is not defined, and then `absent_because` says why.
        n: samples behind it.
        method: how value and interval came about, in words.
        outcomes: of a proportion: 1.0 or 0.0 per sample, in order; else empty.
    """

    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    outcomes: tuple[float, ...] = ()
    absent_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """B's metric less A's, on the same samples, with its 95 % interval.

    Attributes:
        p_value: of no difference.
        method: ``McNemar's exact test …`` or ``paired bootstrap …``.
    """

    metric: str
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    n: int
    method: str
    absent_because: str | None = None


def score(table: Table, *, seed: int = 0) -> tuple[Score, ...]:
    """Every metric of `table`: Wilson's interval for proportions, else a bootstrap over samples."""
    raise NotImplementedError


def compare_tables(a: Table, b: Table, *, seed: int = 0) -> tuple[Gap, ...]:
    """Every metric that both have, B less A; sample i of both is the same sample. Raises `BadInput` for unequal n."""
    raise NotImplementedError


def gap_of_outcomes(a: Sequence[float], b: Sequence[float], *, metric: str) -> Gap:
    """The difference of two proportions on the same samples, from their outcomes (1.0 or 0.0), with McNemar's test."""
    raise NotImplementedError
