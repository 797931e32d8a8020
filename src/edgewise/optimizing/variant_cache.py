"""Files of variants: made by passes, kept in the search's folder, and used again by later searches."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgewise.errors import BadModel
from edgewise.folders import JOURNAL, VARIANTS
from edgewise.model.identity import open_model
from edgewise.optimizing.base import PassResult, PassTask, passes
from edgewise.optimizing.pass_runner import apply_pass
from edgewise.optimizing.planning import PlannedTask
from edgewise.optimizing.variant import AppliedPass
from edgewise.registry import availability_of
from edgewise.text import one_line
from edgewise.version import __version__

LEAST_FREE_BYTES = 64 * 2**20
TRAINING_SHARE = 0.7
"""Share of a pass's time limit for training; exporting and checking come after it."""


@dataclass(slots=True, kw_only=True)
class VariantCache:
    """Makes variants in the folder of a search.

    Attributes:
        calibration: SHA-256 of a given file → the file of samples prepared for it, and their digest; empty without
            data.
        training: the same for passes that train; None: those of the calibration.
        shapes: of a module's inputs, where given.
        weights: of a module, which all its exports get; None leaves those that the factory makes.
        pass_s: default time limit of a pass, s.
    """

    folder: Path
    calibration: dict[str, tuple[Path, str]] = field(default_factory=dict)
    training: tuple[Path, str] | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    weights: Path | None = None
    seed: int
    threads: int
    pass_s: float
    memory_limit: int | None = None
    fresh: bool = False
    _known: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.fresh:
            self._journal.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            text = self._journal.read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                    found = json.loads(line)
                    self._known[str(found["key"])] = found
            if text and not text.endswith("\n"):  # the last line was cut off
                with self._journal.open("a", encoding="utf-8") as file:
                    file.write("\n")

    @property
    def _journal(self) -> Path:
        return self.folder / JOURNAL

    def make(self, tasks: Sequence[PlannedTask], *, seconds: float | None = None) -> Generator[PassResult]:
        """Yield the results of tasks of one pass, in order. Unchanged files of an earlier search are not made again."""
        new: list[tuple[PlannedTask, Path]] = []
        for task in tasks:
            found = self._find(task)
            if found is None:
                new.append((task, self._new_folder(task)))
                continue
            yield from self._make(new, seconds or self.pass_s)
            new = []
            yield found
        yield from self._make(new, seconds or self.pass_s)

    def _make(self, tasks: Sequence[tuple[PlannedTask, Path]], seconds: float) -> Generator[PassResult]:
        if not tasks:
            return
        if shutil.disk_usage(self.folder).free < LEAST_FREE_BYTES:
            yield from [PassResult(cause="disk", reason=f"no space is left in {self.folder}")] * len(tasks)
            return
        location = passes().location(tasks[0][0].one.name)
        complete = [self.complete(task, folder, seconds=seconds) for task, folder in tasks]
        results = apply_pass(location, complete, seconds=seconds, memory_limit=self.memory_limit)
        for (task, folder), result in zip(tasks, results, strict=True):
            yield self._keep(task, folder, result)

    def _samples(self, task: PlannedTask) -> tuple[Path, str] | None:
        """Return the file of samples for a pass and its digest; None for a pass that needs no samples."""
        capabilities = task.capabilities
        if not (capabilities.calibrates or capabilities.labels or capabilities.trains):
            return None
        return (self.training if capabilities.trains else None) or self.calibration.get(task.source.root)

    def complete(self, task: PlannedTask, folder: Path, *, seconds: float) -> PassTask[Any]:
        """Return the task for the pass."""
        samples = self._samples(task)
        return PassTask(
            model=task.source.model,
            format=task.source.format,
            settings=task.recipe.settings,
            folder=folder,
            keep_float=task.kept,
            only=task.only,
            calibration=None if samples is None else samples[0],
            shapes=self.shapes if task.source.format in ("torch", "keras") else {},
            weights=self.weights if task.source.format == "torch" else None,
            seed=self.seed,
            threads=self.threads,
            max_seconds=TRAINING_SHARE * seconds,
        )

    def _keep(self, task: PlannedTask, folder: Path, result: PassResult) -> PassResult:
        """Return the result with the identity of its file, recorded for later searches."""
        if result.model is None:
            shutil.rmtree(folder, ignore_errors=True)  # half a file is useless, and disks are small
            return result
        if result.unchanged:
            return result
        try:
            ref = open_model(result.model).ref
        except BadModel as error:
            reason = f"its result can't be read: {error.message}"
            return PassResult(cause="failed", reason=reason, seconds=result.seconds)
        line = {
            "key": self._key(task),
            "pass": task.name,
            "path": os.path.relpath(ref.path, self.folder),
            "sha256": ref.sha256,
            "versions": dict(result.versions),
            "notes": list(result.notes),
            "seconds": result.seconds,
        }
        with contextlib.suppress(OSError), self._journal.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(line) + "\n")
        return replace(result, ref=ref)

    def _find(self, task: PlannedTask) -> PassResult | None:
        """Return the result of an earlier search, if its file is unchanged."""
        found = self._known.get(self._key(task))
        if found is None:
            return None
        try:
            file = (self.folder / found["path"]).resolve()
            ref = open_model(str(file)).ref if file.is_relative_to(self.folder.resolve()) else None
            if ref is None or ref.sha256 != found["sha256"]:  # others may have sent the folder
                return None
            return PassResult(
                model=Path(ref.path),
                ref=ref,
                versions={str(key): str(value) for key, value in found["versions"].items()},
                notes=tuple(one_line(str(note)) for note in found["notes"]),
                seconds=float(found["seconds"]),
            )
        except (BadModel, KeyError, TypeError, ValueError, AttributeError):
            return None

    def _key(self, task: PlannedTask) -> str:
        samples = self._samples(task)
        identity = [
            __version__,
            task.source.digest, task.one.name, availability_of(task.one).version, task.recipe.settings.to_document(),
            sorted(task.kept), sorted(task.only), self.seed,
            None if samples is None else samples[1],
            {name: list(shape) for name, shape in self.shapes.items()},
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:24]

    def _new_folder(self, task: PlannedTask) -> Path:
        """Return a new folder for the result, named after the pass."""
        words = re.sub(r"[^a-z0-9]+", "-", task.name.lower()).strip("-")
        folder = self.folder / VARIANTS / f"{words}-{self._key(task)[:8]}"
        shutil.rmtree(folder, ignore_errors=True)
        return folder


def keep_variants_alone(folder: Path) -> None:
    """Remove what the folder of a search holds beside variants, such as samples."""
    for one in folder.iterdir():
        if one.name not in (JOURNAL, VARIANTS):
            shutil.rmtree(one) if one.is_dir() else one.unlink()


def applied_pass(task: PlannedTask, result: PassResult) -> AppliedPass:
    """Return the pass with the settings and the provenance of its result."""
    return AppliedPass(
        name=task.one.name,
        label=task.recipe.label,
        settings=task.recipe.settings.to_document(),
        keep_float=task.kept,
        versions=dict(result.versions),
        notes=result.notes,
        seconds=result.seconds,
    )
