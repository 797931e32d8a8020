"""Chooses which models to measure next on a device: those that tell most about its laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.errors import BadInput
from edgewise.predicting.base import Floats, Subject
from edgewise.predicting.forecast import MOST_BEYOND
from edgewise.predicting.laws import PowerLaw, known_profile

SCHEMA = 1
MOST_WORK = 5e9
"""In MACs: larger networks take seconds on a small device."""
EFFECT = 0.7
"""How a model made of one kind of operator may differ from others on a device: standard deviation of the logarithm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Models to measure next.

    Attributes:
        device: to be calibrated.
        subjects: in the order of choice, with the name of the file and a profile.
        measured: number of measured models that the choice adds to.
        folder: with the files and `table`.
        table: to be filled in; as `edgewise.predicting.points.read_table` reads it.
        steps: what to do next: where or when, and a command line or a sentence.
    """

    device: str
    subjects: tuple[Subject, ...]
    measured: int
    folder: Path
    table: Path
    steps: tuple[tuple[str, str], ...]

    def to_document(self) -> dict[str, Any]:
        """Return what ``edgewise calibrate --suggest --json`` prints."""
        return {
            "schema": SCHEMA,
            "device": self.device,
            "models": [
                {"file": str(self.folder / one.name), "family": one.family, "work": known_profile(one).work}
                for one in self.subjects
            ],
            "measured_before": self.measured,
            "table": str(self.table),
            "steps": [{"where": where, "step": step} for where, step in self.steps],
        }


def select(candidates: Sequence[Subject], measured: Sequence[Subject], number: int) -> tuple[Subject, ...]:
    """Return the candidates that, measured beside `measured`, leave least doubt about the coefficients of the laws.

    A law is taken as a Bayesian regression on size, with the prior of `edgewise.predicting.laws.PowerLaw`, and on
    shares of operators, with `EFFECT`. Each step adds the candidate whose value the law knows least (greedy D-optimal
    design: Fedorov, Theory of Optimal Experiments, 1972). No family is taken twice. Of a device with measured models,
    candidates are at most `MOST_BEYOND` times larger or smaller than these.

    Raises:
        BadInput: fewer suitable candidates than `number`.
    """
    limits = [known_profile(one).work for one in measured] or [0.0]
    smallest = min(limits) / MOST_BEYOND
    largest = min(MOST_WORK, max(limits) * MOST_BEYOND or MOST_WORK)
    left = [one for one in candidates if smallest <= known_profile(one).work <= largest]
    families = len({one.family for one in left})
    if families < number:
        raise BadInput(f"⟦suggest⟧ {number}: {families} reference networks suit this device", advice="ask for fewer")
    middle = float(np.mean([math.log(known_profile(one).work) for one in candidates]))
    known = np.eye(len(_row(candidates[0], middle)))
    for one in measured:
        known += np.outer(_row(one, middle), _row(one, middle))
    chosen: list[Subject] = []
    while len(chosen) < number:
        doubt = np.linalg.inv(known)
        rows = [_row(one, middle) for one in left]
        at = int(np.argmax([row @ doubt @ row for row in rows]))
        known += np.outer(rows[at], rows[at])
        chosen.append(left[at])
        left = [one for one in left if one.family != left[at].family]
    return tuple(chosen)


def _row(subject: Subject, middle: float) -> Floats:
    """Features, each in units of its coefficient's standard deviation over that of one model around the law."""
    profile = known_profile(subject)
    size = PowerLaw.slope_error * (math.log(profile.work) - middle)
    row: Floats = np.array([1.0, size, *(EFFECT * profile.shares)]) / PowerLaw.prior_error
    return row
