"""Find the model file of a baseline on this machine, by its hash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgewise.errors import BadInput, BadModel
from edgewise.model.identity import open_model
from edgewise.record import Run

_SHOWN = 12
"""Digits of a hash that are enough to tell files apart by eye."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedModel:
    """Path of the model file, or why it was not found.

    Attributes:
        path: None where no file with the baseline's hash is at hand.
    """

    path: Path | None
    because: str


def find_model(baseline: Run, *, given: Path | None = None, beside: Path | None = None) -> LocatedModel:
    """The model of `baseline` on this machine.

    Args:
        given: where the user says it is.
        beside: a folder to look in, by the model's own name.

    Raises:
        BadModel: `given` can't be read.
        BadInput: `given` is another model.
    """
    wanted = baseline.job.model
    if given is not None:
        actual = open_model(given, wanted.signature).ref.sha256
        if actual != wanted.sha256:
            raise BadInput(
                f"{given} is not the baseline's model: its sha256 begins {actual[:_SHOWN]}, "
                f"that of {wanted.name} {wanted.sha256[:_SHOWN]}",
                advice="give the file that the baseline was measured with, or make a new baseline",
            )
        return LocatedModel(path=given, because=f"{given} has its sha256")
    reasons = []
    for place in _places(baseline, beside):
        try:
            same = open_model(place, wanted.signature).ref.sha256 == wanted.sha256
        except (BadInput, BadModel):
            reasons.append(f"none at {place}")
            continue
        if same:
            return LocatedModel(path=place, because=f"{place} has its sha256")
        reasons.append(f"{place} has changed since")
    return LocatedModel(path=None, because="; ".join(reasons) or "the record does not say where it was")


def _places(baseline: Run, beside: Path | None) -> Iterator[Path]:
    """Where to look, each once. A record's names are not trusted to stay in a folder."""
    seen: set[Path] = set()
    recorded = Path(baseline.job.model.path) if baseline.job.model.path else None
    name = Path(baseline.job.model.file_name).name
    for place in (recorded, beside / name if beside is not None and name else None):
        if place is not None and place not in seen:
            seen.add(place)
            yield place
