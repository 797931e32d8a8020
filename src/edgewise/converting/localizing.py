"""Names the operator that a converter gets wrong: the first whose output differs though its inputs agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edgewise.converting.agreement import OutputAgreement
from edgewise.converting.exposing import Point

AT_ONCE = 40
"""Tensors that are made outputs in one conversion."""
MOST_ROUNDS = 8

Compare = Callable[[Sequence[str]], Mapping[str, OutputAgreement]]
"""Convert the source with these tensors as further outputs, run both, and compare these tensors and the outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongOperator:
    """Where a conversion goes wrong.

    Attributes:
        operator, op: name and type of the operator in the source; empty where no single one was found.
        why: one sentence: how the operator was found, or why none was.
    """

    operator: str = ""
    op: str = ""
    why: str = ""

    @property
    def words(self) -> str:
        """The operator and how it was found, in one line."""
        return f"{self.operator} ({self.op}): {self.why}" if self.operator else self.why


def find_operator(points: Sequence[Point], known: Mapping[str, OutputAgreement], compare: Compare) -> WrongOperator:
    """Expose tensors spread over the source, then those before the first that differs, until its inputs are known.

    Args:
        points: tensors of the source in the order of computation, its outputs among them.
        known: agreement of the outputs, by the names of their points.
    """
    if not points:
        return WrongOperator(why="operators of this source can't be compared one by one")
    found = dict(known)
    made = {point.tensor: place for place, point in enumerate(points)}
    wanted = [point.tensor for point in points if point.tensor not in found]
    for _ in range(MOST_ROUNDS):
        if wanted:
            found |= compare(_spread(wanted))
        wrong = [place for place, point in enumerate(points) if point.tensor in found and not found[point.tensor].close]
        if not wrong:
            return WrongOperator(
                why="source and result agree once intermediate tensors are outputs: the difference comes from fusing "
                "operators"
            )
        first = points[wrong[0]]
        before = max((place for place in range(wrong[0]) if points[place].tensor in found), default=-1)
        wanted = [point.tensor for point in points[before + 1 : wrong[0]]]
        wanted = wanted or [name for name in first.inputs if name in made and name not in found]
        if not wanted:
            words = found[first.tensor].words
            return WrongOperator(
                operator=first.operator, op=first.op, why=f"its output differs though its inputs agree ({words})"
            )
    return WrongOperator(why=f"not found in {MOST_ROUNDS} rounds of comparing intermediate tensors")


def _spread(names: Sequence[str]) -> Sequence[str]:
    """At most `AT_ONCE` of `names`, evenly spread, the last one among them."""
    step = max(1, -(-len(names) // AT_ONCE))
    return names[::-1][::step][::-1]
