"""How far values are from the right ones, in sums over all samples; integers as the real numbers they stand for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]

HALF_DB = 6.0
"""A signal-to-noise ratio that is so much lower is that of an error twice as large."""
TINY = 1e-300
"""Stands for a signal of zeros alone."""


@dataclass(slots=True)
class Sums:
    """What is kept of two tensors over all samples.

    Attributes:
        count: of values.
        signal, noise: sums of the squares of the reference, and of the difference.
        other, dot: sum of the squares of the other one, and of the products.
        largest: of the differences' absolute values.
        zeros: values of the other one that are 0.
        saturated: integers of the other one at an end of their type that stand for no 0, which is where a ReLU ends; -1
            where it has real numbers.
    """

    count: int = 0
    signal: float = 0.0
    noise: float = 0.0
    other: float = 0.0
    dot: float = 0.0
    largest: float = 0.0
    zeros: int = 0
    saturated: int = -1

    def add(self, one: Array, two: Array, raw: Array | None = None) -> None:
        """Add the same values of both, in 64 bits; `raw` are those of the other one before they became real."""
        gap = one - two
        self.count += one.size
        self.signal += float(np.vdot(one, one))
        self.noise += float(np.vdot(gap, gap))
        self.other += float(np.vdot(two, two))
        self.dot += float(np.vdot(one, two))
        self.largest = float(np.maximum(self.largest, np.max(np.abs(gap), initial=0.0)))  # NaN stays
        self.zeros += int(np.sum(two == 0))
        if raw is not None and raw.dtype.kind in "iu" and raw.dtype.itemsize <= 2:
            ends = np.iinfo(raw.dtype)
            at_end = (raw == ends.min) | (raw == ends.max)
            self.saturated = max(self.saturated, 0) + int(np.sum(at_end.ravel() & (two != 0)))


def decibels(signal: float, noise: float) -> float:
    """Return the ratio of two powers; NaN where it is not defined."""
    defined = math.isfinite(signal) and math.isfinite(noise) and signal > 0.0 and noise > 0.0
    return 10.0 * math.log10(signal / noise) if defined else math.nan


def to_real(array: Array, scale: Sequence[float | None]) -> Array | None:
    """Return the values in 64 bits; integers by their scale and zero point; None where they have none."""
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    factor, zero = scale
    if array.dtype.kind not in "iu" or factor is None:
        return array.astype(np.float64) if array.dtype.kind == "b" else None
    return np.asarray((array.astype(np.float64) - float(zero or 0)) * factor)
