"""Stopping rules as objects: when has a session measured enough?

A rule looks at a `Progress` between blocks of samples, never inside a timed region, and answers with the reason to stop
or None. The order of the rules is the order in which they are asked; the first reason wins and the run says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from edgewise.stats.intervals import relative_half_width

TIME_BUDGET = "time budget"
"""The reason that `TimeBudget` gives."""

MIN_SAMPLES = 10
"""Precision and noise are not judged on fewer samples of one session."""


@dataclass(slots=True)
class Progress:
    """What a session has so far.

    Attributes:
        count: timed inferences after the warm-up.
        elapsed_s: time spent on them.
        samples: returns them (ns); called only by rules that need them.
    """

    count: int
    elapsed_s: float
    samples: Callable[[], Any]
    _half_width: float | None = field(default=None, init=False)

    @property
    def half_width(self) -> float:
        """Relative half-width of the median's 95 % interval, computed once."""
        if self._half_width is None:
            self._half_width = relative_half_width(self.samples())
        return self._half_width


class StoppingRule(Protocol):
    """One reason to stop."""

    def finished(self, progress: Progress) -> str | None:
        """Why to stop now, or None to go on."""


@dataclass(frozen=True, slots=True)
class Iterations:
    """A prescribed number of inferences."""

    count: int

    def finished(self, progress: Progress) -> str | None:
        """Stop at the count."""
        return f"{self.count} iterations" if progress.count >= self.count else None


@dataclass(frozen=True, slots=True)
class Duration:
    """A prescribed duration."""

    seconds: float

    def finished(self, progress: Progress) -> str | None:
        """Stop at the time."""
        return f"{self.seconds:g} s of measuring" if progress.elapsed_s >= self.seconds else None


@dataclass(frozen=True, slots=True)
class Precision:
    """Until the median is known well enough, but not before `min_s`."""

    relative_half_width: float
    min_s: float

    def finished(self, progress: Progress) -> str | None:
        """Stop when the interval of the median is narrow."""
        if progress.count < MIN_SAMPLES or progress.elapsed_s < self.min_s:
            return None
        if progress.half_width <= self.relative_half_width:
            return f"the median is known to ± {self.relative_half_width:.2g}"
        return None


@dataclass(slots=True)
class StableNoise:
    """Until more samples no longer narrow the interval: the noise itself has stabilised (nvbench's idea).

    Looks at the half-widths of the last `window` checks; they must lie within `tolerance` of their mean.
    """

    min_s: float
    window: int = 6
    tolerance: float = 0.05
    _history: list[float] = field(default_factory=list)

    def finished(self, progress: Progress) -> str | None:
        """Stop when the half-width has stopped falling."""
        if progress.count < MIN_SAMPLES or progress.elapsed_s < self.min_s:
            return None
        self._history.append(progress.half_width)
        recent = self._history[-self.window :]
        mean = sum(recent) / len(recent)
        if len(recent) == self.window and max(recent) - min(recent) <= self.tolerance * mean:
            return f"the noise is stable at ± {mean:.2g}"
        return None


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """When the time is spent; a slow model still gets `min_count` inferences unless they take `patience` budgets."""

    seconds: float
    min_count: int = MIN_SAMPLES
    patience: float = 10.0
    least: int = 3

    def finished(self, progress: Progress) -> str | None:
        """Stop at the budget, later for slow models."""
        if progress.elapsed_s < self.seconds or progress.count < self.least:
            return None
        if progress.count < self.min_count and progress.elapsed_s < self.seconds * self.patience:
            return None
        return TIME_BUDGET


def rules_for(stopping: Mapping[str, Any]) -> Sequence[StoppingRule]:
    """The rules that `stopping` (a `edgewise.record.Stopping` as a mapping) stands for."""
    if stopping["iterations"] is not None:
        return (Iterations(stopping["iterations"]),)
    if stopping["duration_s"] is not None:
        return (Duration(stopping["duration_s"]),)
    return (
        Precision(stopping["relative_half_width"], stopping["min_s"]),
        StableNoise(stopping["min_s"]),
        TimeBudget(stopping["max_s"]),
    )


def first_reason(rules: Sequence[StoppingRule], progress: Progress) -> str | None:
    """The first rule's reason to stop, or None. Every rule is asked, because some remember what they saw."""
    reasons = [rule.finished(progress) for rule in rules]
    return next((reason for reason in reasons if reason is not None), None)
