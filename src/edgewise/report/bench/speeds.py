"""Runs whose samples form several clusters, so that their ratios depend on which of these speeds they have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgewise.formatting import percent, quantity
from edgewise.record import Run
from edgewise.report.runs.conditions import labels_of
from edgewise.stats.diagnosis import SpeedMode, modes
from edgewise.text import listing
from edgewise.units import significant

MOST_SPEEDS = 2
"""Number of runs whose speeds are told; the others are named."""
LEAST_ALIKE = 3
"""Number of runs with speeds at similar ratios from which on these are the machine's."""
SIMILAR = 1.25
"""Ratios of two neighbouring speeds that differ by at most this factor are similar."""


def speed_lines(runs: Sequence[Run]) -> list[str]:
    """Return which runs have several speeds; [] where none has.

    Where most have, at similar ratios, one sentence says that it is the machine's doing.
    """
    done = [run for run in runs if run.status == "done"]
    found = {
        label: speeds for run, label in zip(done, labels_of(done), strict=True) if len(speeds := _speeds_of(run)) > 1
    }
    if not found:
        return []
    apart = [speeds[1].value / speeds[0].value for speeds in found.values()]
    if len(found) >= LEAST_ALIKE and 2 * len(found) > len(done) and max(apart) <= SIMILAR * min(apart):
        whose = "the file's" if len({run.job.model.name for run in done}) == 1 else "the files'"
        ends = list(dict.fromkeys(f"{significant(ratio, 2)}×" for ratio in (min(apart), max(apart))))
        return [
            f"{len(found)} of {len(done)} runs have several speeds, {' to '.join(ends)} apart: probably the machine's, "
            f"not {whose}"
        ]
    told = [f"{label}, {_in_words(speeds)}" for label, speeds in list(found.items())[:MOST_SPEEDS]]
    if len(done) == 1:
        return [f"The run has several speeds: {_in_words(*found.values())}"]
    others = list(found)[MOST_SPEEDS:]
    also = f"; and {listing(others)}" if others else ""
    return [f"Runs at several speeds, on which their ratios depend: {'; '.join(told)}{also}"]


def _speeds_of(run: Run) -> Sequence[SpeedMode]:
    """Return the speeds of a run that has the caution on several, the fastest first; none of others."""
    row = run.measurement(run.headline)
    if row is None or row.unit != "s" or all(each.code != "multimodal" for each in run.cautions):
        return ()
    return modes(np.asarray(row.samples))


def _in_words(speeds: Sequence[SpeedMode]) -> str:
    """``"56.0 µs (40 %) and 86.0 µs (60 %)"``."""
    return listing([f"{quantity(each.value, 's')} ({percent(each.share)})" for each in speeds])
