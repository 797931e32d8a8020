"""The models of a benchmark, the fastest first: which place each has, and why a place does not follow the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.record import Run
from edgewise.report.candidates import (
    Candidate,
    candidates_of,
    comparable_groups,
    every_candidate,
    has_better_value,
    is_faster,
    levels,
    peers_of,
    prefer,
)
from edgewise.text import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedModel:
    """One model among others.

    Attributes:
        run: the model's recommended run, else its first.
        place: 1 for all that none is proven faster than, 2 for those of the rest that none of it is, and so on; None
            where no run of the model qualifies.
        note: why a model with a better value has a worse place; empty where none has.
    """

    run: Run
    place: int | None
    note: str = ""

    @property
    def model(self) -> str:
        """The model's name."""
        return one_line(self.run.job.model.name)


def rank_models(runs: Sequence[Run]) -> list[RankedModel]:
    """The models of one of `sweeps`, the fastest first, then those without a run that qualifies.

    Those of one place have recommended runs of which none is proven faster than another, see `are_apart`.
    """
    best: list[Candidate] = []
    rest: list[RankedModel] = []
    every = every_candidate(runs)
    for group in comparable_groups(runs):
        candidates, _ = candidates_of(group)
        if candidates:
            best.append(prefer(peers_of(candidates, every))[0])
        else:
            rest.append(RankedModel(run=group[0], place=None))
    placed = [(place, one) for place, some in enumerate(levels(best), 1) for one in some]
    ranked = []
    for index, (place, one) in enumerate(placed):
        smaller = next(
            (each for other, each in placed[index + 1 :] if other > place and has_better_value(each, one)), None
        )
        note = _why_before(one, smaller, best) if smaller is not None else ""
        ranked.append(RankedModel(run=one.run, place=place, note=note))
    return ranked + rest


def _why_before(one: Candidate, other: Candidate, best: Sequence[Candidate]) -> str:
    """Why `one` has the better place, though the value of `other` is better."""
    model = one_line(other.run.job.model.name)
    if is_faster(one, other):
        return f"measured in turns it is faster than {model}"
    rival = next(each for each in best if is_faster(each, other))
    return f"no model is proven faster, while {one_line(rival.run.job.model.name)} is faster than {model}"
