"""Files of variants: made by passes in the workshop, kept in the search's folder, and found there again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise import __version__
from edgewise.errors import BadModel
from edgewise.model.identity import open_model
from edgewise.optimizing.base import Capabilities, Work, passes
from edgewise.optimizing.planning import Attempt
from edgewise.optimizing.variant import AppliedPass
from edgewise.optimizing.workshop import Cause, Made, apply_pass
from edgewise.record import ModelRef
from edgewise.registry import availability_of
from edgewise.text import one_line

LEAST_FREE_BYTES = 64 * 2**20
TRAINING_SHARE = 0.7
"""Of what a pass may take that training may; exporting and checking come after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What an attempt gave.

    Attributes:
        model: None where there is none, and then `why` says why.
        applied: the pass as it was applied.
        unchanged: the pass found nothing to do.
        again: it was there already.
    """

    applied: AppliedPass
    model: ModelRef | None = None
    cause: Cause = ""
    why: str = ""
    unchanged: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One piece to make.

    Attributes:
        source: the parent's file, or a factory.
        digest: SHA-256 of the source.
        root: SHA-256 of the user's file that the source was made of: samples are prepared for that one.
    """

    attempt: Attempt
    source: str
    format: str
    digest: str
    root: str = ""
    keep_float: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Makery:
    """Makes pieces in the folder of a search.

    Attributes:
        calibration: SHA-256 of a file of the user's → the file of samples prepared for it, and their digest; empty
            where there is no data.
        training: the same for passes that train; None: those of the calibration.
        shapes: of a module's inputs, by the user.
    """

    folder: Path
    calibration: dict[str, tuple[Path, str]] = field(default_factory=dict)
    training: tuple[Path, str] | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    seed: int
    threads: int
    pass_s: float
    memory_limit: int | None = None
    fresh: bool = False
    _known: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        journal = self.folder / "made.jsonl"
        if self.fresh:
            journal.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            text = journal.read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                    found = json.loads(line)
                    self._known[str(found["key"])] = found
            if text and not text.endswith("\n"):  # a line that was cut off shall not spoil the next one
                with journal.open("a", encoding="utf-8") as file:
                    file.write("\n")

    def make(self, orders: Sequence[Order], *, seconds: float | None = None) -> Generator[Piece]:
        """The pieces of orders of one pass, in order; those that are there from before are not made again."""
        fresh: list[tuple[Order, Path]] = []
        for order in orders:
            piece = self._find(order)
            if piece is None:
                fresh.append((order, self._room(order)))
                continue
            yield from self._make(fresh, seconds)
            fresh = []
            yield piece
        yield from self._make(fresh, seconds)

    def _make(self, orders: Sequence[tuple[Order, Path]], seconds: float | None) -> Generator[Piece]:
        if not orders:
            return
        if shutil.disk_usage(self.folder).free < LEAST_FREE_BYTES:
            for order, _ in orders:
                yield Piece(applied=_applied(order), cause="disk", why=f"no space is left in {self.folder}")
            return
        location = passes().location(orders[0][0].attempt.one.name)
        works = [self._work(order, room, seconds=seconds) for order, room in orders]
        results = apply_pass(location, works, seconds=seconds or self.pass_s, memory_limit=self.memory_limit)
        for (order, room), made in zip(orders, results, strict=True):
            yield self._piece(order, room, made)

    def _samples(self, capabilities: Capabilities, root: str) -> tuple[Path, str] | None:
        """What a pass looks at, and its digest; None for a pass that looks at nothing."""
        if not (capabilities.calibrates or capabilities.labels or capabilities.trains):
            return None
        return (self.training if capabilities.trains else None) or self.calibration.get(root)

    def _work(self, order: Order, room: Path, *, seconds: float | None = None) -> Work:
        capabilities = order.attempt.one.capabilities
        samples = self._samples(capabilities, order.root)
        more: dict[str, Any] = {}
        if capabilities.trains:
            more["max_seconds"] = TRAINING_SHARE * (seconds or self.pass_s)
        if order.format in ("torch", "keras") and self.shapes:
            more["shapes"] = {name: list(shape) for name, shape in self.shapes.items()}
        return Work(
            model=order.source,
            format=order.format,
            settings={**more, **order.attempt.recipe.settings},
            folder=room,
            keep_float=order.keep_float,
            only=order.only,
            calibration=None if samples is None else samples[0],
            seed=self.seed,
            threads=self.threads,
        )

    def _piece(self, order: Order, room: Path, made: Made) -> Piece:
        if made.product is None:
            shutil.rmtree(room, ignore_errors=True)  # half a file helps nobody, and disks are small
            return Piece(applied=_applied(order, made), cause=made.cause, why=_reason(made))
        if made.product.unchanged:
            return Piece(applied=_applied(order, made), unchanged=True, why="it found nothing to change")
        try:
            model = open_model(made.product.model).ref
        except BadModel as error:
            return Piece(
                applied=_applied(order, made), cause="failed", why=f"what it made can't be read: {error.message}"
            )
        self._note(order, made, model)
        return Piece(applied=_applied(order, made), model=model)

    def _find(self, order: Order) -> Piece | None:
        """The piece as an earlier search left it, if its file is still the same."""
        found = self._known.get(self._key(order))
        if found is None:
            return None
        try:
            model = open_model(str(found["path"])).ref
            if model.sha256 != found["sha256"]:
                return None
            applied = _applied(
                order,
                versions={str(key): str(value) for key, value in found["versions"].items()},
                notes=tuple(one_line(str(note)) for note in found["notes"]),
                seconds=float(found["seconds"]),
            )
        except (BadModel, KeyError, TypeError, ValueError, AttributeError):
            return None
        return Piece(applied=applied, model=model, again=True)

    def _note(self, order: Order, made: Made, model: ModelRef) -> None:
        assert made.product is not None
        line = {
            "key": self._key(order),
            "pass": order.attempt.name,
            "path": model.path,
            "sha256": model.sha256,
            "versions": dict(made.product.versions),
            "notes": list(made.product.notes),
            "seconds": made.seconds,
        }
        with contextlib.suppress(OSError), (self.folder / "made.jsonl").open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(line) + "\n")

    def _key(self, order: Order) -> str:
        one = order.attempt.one
        samples = self._samples(one.capabilities, order.root)
        identity = [
            __version__,
            order.digest, one.name, availability_of(one).version, dict(order.attempt.recipe.settings),
            sorted(order.keep_float), sorted(order.only), self.seed,
            None if samples is None else samples[1],
            {name: list(shape) for name, shape in self.shapes.items()},
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:24]

    def _room(self, order: Order) -> Path:
        """A new folder for the piece, with a name that says what is in it."""
        words = re.sub(r"[^a-z0-9]+", "-", order.attempt.name.lower()).strip("-")
        room = self.folder / "variants" / f"{words}-{self._key(order)[:8]}"
        shutil.rmtree(room, ignore_errors=True)
        return room


def _applied(
    order: Order,
    made: Made | None = None,
    *,
    versions: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
    seconds: float | None = None,
) -> AppliedPass:
    product = None if made is None else made.product
    return AppliedPass(
        name=order.attempt.one.name,
        label=order.attempt.recipe.label,
        settings=dict(order.attempt.recipe.settings),
        keep_float=order.keep_float,
        versions=dict(product.versions) if product else versions or {},
        notes=tuple(map(one_line, product.notes)) if product else notes,
        seconds=made.seconds if made is not None else seconds,
    )


def _reason(made: Made) -> str:
    match made.cause:
        case "unsuitable":
            return f"not possible: {made.reason}"
        case "disk":
            return f"the disk is full: {made.reason}"
        case "memory":
            return f"out of memory: {made.reason}"
        case "late":
            return f"gave up: {made.reason}"
    return f"the pass failed: {made.reason}"
