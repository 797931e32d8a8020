"""Which of several runs with the same settings stands for them: the best grade, then the newest."""

from __future__ import annotations

from typing import Protocol

from edgewise.record import Run
from edgewise.store.codec import parse_time

_GRADES = ("A", "B", "C", None, "D")
"""The best first; None is a run without a grade."""


class Graded(Protocol):
    """A run, or a row of the index."""

    @property
    def created_at(self) -> str:
        """ISO 8601."""


def preference(one: Graded, grade: str | None) -> tuple[int, float]:
    """Return the least one is to be taken: the best grade, then the newest."""
    return _GRADES.index(grade), -parse_time(one.created_at).timestamp()


def preference_of(run: Run) -> tuple[int, float]:
    """Return the `preference` of `run` by its own grade."""
    return preference(run, grade_of(run))


def grade_of(run: Run) -> str | None:
    """Return the trust grade of `run`; None where it has none."""
    return run.trust.grade if run.trust else None
