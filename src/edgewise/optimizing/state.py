"""The search's memory: every variant, how it is run, and what is known of it so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from edgewise.comparing.comparison import Findings
from edgewise.optimizing.accuracy import Marks
from edgewise.optimizing.base import Facts
from edgewise.optimizing.making import Order, Piece
from edgewise.optimizing.planning import Attempt, facts_of
from edgewise.optimizing.sensitivity import Sensitivities
from edgewise.optimizing.variant import (
    ORIGINAL,
    AppliedPass,
    Candidate,
    LayerSensitivity,
    Number,
    Prediction,
    Stage,
    root_of,
)
from edgewise.record import Job, ModelRef, Run, RuntimeSpec
from edgewise.run.dispatch import Observer


class Witness(Protocol):
    """Told how the search goes; what the command line prints."""

    def stage(self, title: str) -> None:
        """Something else begins."""

    def predicted(self, predictions: Mapping[str, Prediction]) -> None:
        """What the pre-flight says, by the name of the attempt and engine."""

    def examined(self, candidate: Candidate) -> None:
        """A variant came as far as its `stage`, or fell out."""

    def answered(self, done: int, total: int) -> None:
        """So many samples of the current variant are done."""

    def layer(self, layer: LayerSensitivity) -> None:
        """One layer was tried alone."""

    def racing(self) -> Observer | None:
        """Who is told how the race goes."""


class Silent:
    """A witness that does nothing."""

    def stage(self, title: str) -> None:
        """Nothing."""

    def predicted(self, predictions: Mapping[str, Prediction]) -> None:
        """Nothing."""

    def examined(self, candidate: Candidate) -> None:
        """Nothing."""

    def answered(self, done: int, total: int) -> None:
        """Nothing."""

    def layer(self, layer: LayerSensitivity) -> None:
        """Nothing."""

    def racing(self) -> Observer | None:
        """Nobody."""
        return None


@dataclass(slots=True, kw_only=True)
class Entry:
    """A variant in the search.

    Attributes:
        attempt, order, piece: how its file was made; None for the original.
        marks: for its answers on all of the data.
        run: from the race.
    """

    candidate: Candidate
    job: Job | None = None
    attempt: Attempt | None = None
    order: Order | None = None
    piece: Piece | None = None
    marks: Marks | None = None
    run: Run | None = None
    fallen: bool = False

    @property
    def alive(self) -> bool:
        """Whether it came through everything so far and may race."""
        return self.candidate.stage == "judged" and not self.fallen and self.job is not None

    def advance(self, stage: Stage, metrics: Mapping[str, Number]) -> None:
        """It came so far."""
        self.candidate = replace(self.candidate, stage=stage, metrics={**self.candidate.metrics, **metrics})

    def drop(self, why: str) -> None:
        """It is out, for this reason."""
        self.fallen = True
        self.candidate = replace(self.candidate, why=why)


@dataclass(slots=True, kw_only=True)
class State:
    """Everything that the search knows.

    Attributes:
        predictions: name of attempt and engine → what the pre-flight said.
        with_data: the same of attempts that only lack samples.
        stopped: why something was left out; empty where nothing was.
    """

    shapes: Mapping[str, tuple[int, ...]]
    entries: dict[str, Entry] = field(default_factory=dict)
    predictions: dict[str, Prediction] = field(default_factory=dict)
    with_data: dict[str, Prediction] = field(default_factory=dict)
    sensitivities: Sensitivities | None = None
    findings: Findings | None = None
    notes: list[str] = field(default_factory=list)
    stopped: str = ""
    _facts: dict[str, Facts] = field(default_factory=dict)

    @property
    def original(self) -> Entry:
        """What the others are compared with."""
        return self.entries[ORIGINAL]

    @property
    def others(self) -> list[Entry]:
        """All but the original."""
        return [entry for name, entry in self.entries.items() if name != ORIGINAL]

    def facts_of(self, name: str) -> Facts:
        """What passes may know of a variant's file."""
        model = self.entries[name].candidate.model
        assert model is not None
        if model.path not in self._facts:
            self._facts[model.path] = facts_of(Path(model.path), shapes=dict(self.shapes))
        return self._facts[model.path]

    def name(self, attempt: Attempt, engine: str, *, suffix: str = "") -> str:
        """The id of the result of `attempt` in `engine`: what was done to the original, and where it runs."""
        base, name = self.entries[attempt.parent].candidate, f"{attempt.name}{suffix} @ {engine}"
        while base.parent is not None and base.passes and base.passes[-1].name in _SILENT:
            base = self.entries[base.parent].candidate
        return name if base.id == ORIGINAL else f"{base.id.partition(' @ ')[0]} + {name}"

    def root_of(self, name: str) -> ModelRef:
        """The file of the user's that a variant was made of, which may be the variant's own."""
        return root_of(name, {key: entry.candidate for key, entry in self.entries.items()})

    def add(
        self, attempt: Attempt, engine: str, *, suffix: str = "", piece: Piece | None = None, why: str = ""
    ) -> Entry:
        """A new variant: the result of `attempt` in `engine`."""
        parent = self.entries[attempt.parent].candidate
        name = self.name(attempt, engine, suffix=suffix)
        applied: Sequence[AppliedPass] = () if piece is None else (piece.applied,)
        candidate = Candidate(
            id=name,
            parent=attempt.parent,
            runtime=RuntimeSpec(name=engine),
            model=None if piece is None else piece.model,
            passes=(*parent.passes, *applied),
            predicted=self.predictions.get(self.name(attempt, engine)),
        )
        entry = Entry(candidate=candidate, attempt=attempt, piece=piece)
        self.entries[name] = entry
        if why:
            entry.drop(why)
        return entry


_SILENT = frozenset({"onnx-simplify"})
"""Passes that need no mention in the names of what is made of their results: only these start from that format."""


def sizes_of(model: ModelRef) -> dict[str, Number]:
    """The size of a model's files."""
    size = Number(value=float(model.size_bytes), low=float(model.size_bytes), high=float(model.size_bytes),
                  method="all files of the model on disk")  # fmt: skip
    return {"model_size": size}
