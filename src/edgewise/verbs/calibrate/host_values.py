"""Values of this machine that somebody wrote down, beside those of its stored runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.metrics import METRICS
from edgewise.text import enumerate_few
from edgewise.units import format_quantity, significant

MOST_APART = 8.0
"""Between two measurements of a file on one machine, whose engines, threads and limits may differ: a digit too many is
more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A value of this machine in a table.

    Attributes:
        place: the line and its file.
        value: SI.
        stored: the same metric in this machine's runs of the file, by each engine and setting.
    """

    name: str
    metric: str
    column: str
    place: str
    value: float
    stored: tuple[float, ...]

    @property
    def nearest(self) -> float | None:
        """The stored value that is most like `value`; None where there is none."""
        return min(self.stored, key=lambda each: abs(math.log(self.value / each)), default=None)

    @property
    def is_contradicted(self) -> bool:
        """Whether every stored value differs by more than `MOST_APART`."""
        nearest = self.nearest
        return nearest is not None and abs(math.log(self.value / nearest)) > math.log(MOST_APART)


def contradiction(one: Written) -> str:
    """Return what the stored runs say of a value that they contradict, as the end of a sentence; else ""."""
    if not one.is_contradicted or one.nearest is None:
        return ""
    stored = format_quantity(one.nearest, METRICS[one.metric].unit)
    return f"; this machine's stored runs of it have {stored}, so that {one.column} is what they contradict"


def contradictions(written: Sequence[Written]) -> list[str]:
    """Return the columns whose values this machine's stored runs of the same files contradict, a sentence for each."""
    found: list[str] = []
    for column in dict.fromkeys(each.column for each in written):
        known = [each for each in written if each.column == column and each.nearest is not None]
        wrong = [each for each in known if each.is_contradicted]
        if wrong:
            told = enumerate_few([_apart(each) for each in wrong], 3)
            several = f"{len(wrong)} of {len(known)} models with such runs: " if len(known) > 1 else ""
            found.append(
                f"{column} contradicts this machine's stored runs of the same files ({several}{told}): "
                "check its unit and its cells. They are taken as they are."
            )
    return found


def _apart(one: Written) -> str:
    """How far a value is from the nearest stored one."""
    nearest = one.nearest or one.value
    factor, unit = one.value / nearest, METRICS[one.metric].unit
    times = f"{significant(factor)} times" if factor > 1 else f"1/{significant(1 / factor)} of"
    return (
        f"{one.name} has {format_quantity(one.value, unit)}, {times} the {format_quantity(nearest, unit)} stored, "
        f"{one.place}"
    )
