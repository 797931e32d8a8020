"""The seam to predictors, and what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgewise.predicting.features import OperatorProfile
from edgewise.registry import Registry

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model whose value on the device is wanted.

    Attributes:
        host: the same metric of the model on this machine; None where it was not measured.
        host_error: standard deviation of the logarithm of `host`, beyond what measurements mostly have: of a run of
            grade D; 0 of others.
        noisy: whether it was measured on this machine, but only with grade D, so that `host` is None.
        profile: what its operators do; None where only its name is known.
        precision: of its weights, such as ``int8``; "" where unknown.
        family: networks of one design, such as ``mobilenet``; "" where unknown.
    """

    name: str
    host: float | None = None
    host_error: float = 0.0
    profile: OperatorProfile | None = None
    precision: str = ""
    family: str = ""
    noisy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A model that was measured on the device; `value` > 0, in the unit of the metric.

    Attributes:
        unit: SI, as equations name it, such as ``s``; "" where the caller does not say.
        device: its name in the atlas; "" where it has none.
    """

    subject: Subject
    value: float
    unit: str = ""
    device: str = ""


class Fitted(Protocol):
    """A predictor with the coefficients of one device.

    Attributes:
        equation: the law with its coefficients, as a person reads it.
    """

    equation: str

    def predict(self, subjects: Sequence[Subject]) -> tuple[Floats, Floats]:
        """Return the natural logarithms of the values, and how uncertain the coefficients make them.

        The second array is the variance of the prediction relative to the variance of a single model around the law:
        0 with perfectly known coefficients, and 1/n for the mean of n points.
        """

    def lacking(self, subject: Subject) -> str:
        """Return what is not known of `subject`, as the points make it necessary; "" where nothing is."""


class Predictor(Protocol):
    """A law that relates what is known of a model to what it takes on the device.

    Attributes:
        name: as ``--method`` takes it.
        prior_error: relative standard deviation of single models around the law that is assumed before any point of
            the device is seen. Those of edgewise's laws are set by hand and judged by the coverage of their intervals
            on public measurements (``benchmarks/prediction.py``).
        automatic: whether it takes part in the choice; the others are used only by name.
    """

    name: str
    title: str
    prior_error: float
    automatic: bool

    def lacking(self, subject: Subject) -> str:
        """Return what of `subject` the law needs and is not known; "" where nothing is."""

    def fit(self, points: Sequence[Point]) -> Fitted:
        """Return the law of a device. At least one point; nothing is `lacking` in any of them."""


def predictors() -> Registry[Predictor]:
    """All predictors, built-in and plugged in."""
    return Registry("edgewise.predictors", "predictor")
