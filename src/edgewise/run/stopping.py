"""When has a session measured enough? Decided between blocks of samples, never inside a timed region."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgewise.stats.intervals import relative_half_width

TIME_BUDGET = "time budget"
"""The reason that a spent time budget gives."""

MIN_SAMPLES = 10
"""Precision and noise are not judged on fewer samples of one session; a slow model gets this many inferences …"""
PATIENCE = 10.0
"""… unless they take this many time budgets …"""
LEAST_SAMPLES = 3
"""… and always this many."""

NOISE_WINDOW, NOISE_TOLERANCE = 6, 0.05
"""The noise is stable once the half-widths of this many checks lie within this share of their mean."""


class StoppingRule:
    """Decides whether a session goes on. It remembers the half-widths of earlier checks.

    A prescribed number of iterations or duration is the only rule. Otherwise a session ends when its median is known to
    the relative half-width, when more samples no longer narrow the interval because the noise itself has stabilised
    (nvbench's idea), or when the time budget is spent.

    Args:
        stopping: an `edgewise.record.Stopping` as a mapping.
    """

    def __init__(self, stopping: Mapping[str, Any]) -> None:
        self._stopping = stopping
        self._half_widths: list[float] = []

    def reason(self, count: int, elapsed_s: float, samples: Callable[[], Any]) -> str | None:
        """Return the reason to stop now; None to go on.

        Args:
            count: timed inferences after the warm-up.
            elapsed_s: time spent on them.
            samples: returns their times; called only if the rule needs them.
        """
        stopping = self._stopping
        if stopping["iterations"] is not None:
            return f"{stopping['iterations']} iterations" if count >= stopping["iterations"] else None
        if stopping["duration_s"] is not None:
            return f"{stopping['duration_s']:g} s of measuring" if elapsed_s >= stopping["duration_s"] else None
        if count >= MIN_SAMPLES and elapsed_s >= stopping["min_s"]:
            half_width = relative_half_width(samples())
            if half_width <= stopping["relative_half_width"]:
                return f"the median is known to ± {stopping['relative_half_width']:.2g}"
            self._half_widths.append(half_width)
            recent = self._half_widths[-NOISE_WINDOW:]
            mean = sum(recent) / len(recent)
            if len(recent) == NOISE_WINDOW and max(recent) - min(recent) <= NOISE_TOLERANCE * mean:
                return f"the noise is stable at ± {mean:.2g}"
        if count >= MIN_SAMPLES or elapsed_s >= PATIENCE * stopping["max_s"]:
            return TIME_BUDGET if elapsed_s >= stopping["max_s"] and count >= LEAST_SAMPLES else None
        return None
