"""Timings: a pass applied to a subgraph of a network, and both timed in an engine. Measured once and kept.

Worker processes do it (`edgewise.optimizing.microbenchmark_worker`). What they measured is kept per processor, engine,
pass, versions and subgraph in the user's cache folder.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from edgewise.child_process import Outcome, run_child
from edgewise.errors import BadModel
from edgewise.folders import job_folder
from edgewise.optimizing.base import PassResult, PassTask
from edgewise.optimizing.pass_runner import apply_pass
from edgewise.optimizing.reasons import count_precisions
from edgewise.optimizing.subgraph_files import SAMPLES_FILE, CutSettings

_SCHEMA = 2
_MOST_KEPT = 2000
_WORKER = (sys.executable, "-P", "-m", "edgewise.optimizing.microbenchmark_worker")
_CUTTER = "edgewise.optimizing.subgraph_files:CutSubgraph"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """What an engine spends on one type of step. `product`: it computes convolutions or matrix products."""

    op: str
    product: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTiming:
    """What came of trying a pass on a subgraph.

    Attributes:
        original, changed: seconds of an inference per turn, in pairs; empty where it did not come to that.
        before, after: where the time goes, as the engine's profiler tells; empty where it does not.
        unchanged: the pass found nothing to do.
        failed: why there are no times; empty where there are some.
        lasting: trying again would give the same: it did not merely crash or lack memory.
        precisions: type of arithmetic → how many convolutions and products of the result compute in it.
    """

    original: tuple[float, ...] = ()
    changed: tuple[float, ...] = ()
    before: tuple[StepTime, ...] = ()
    after: tuple[StepTime, ...] = ()
    unchanged: bool = False
    failed: str = ""
    lasting: bool = True
    precisions: Mapping[str, int] = field(default_factory=dict)


def time_pass(
    cut: PassTask[CutSettings], location: str, task: PassTask[Any], race: Mapping[str, Any], *, until: float
) -> PassTiming | None:
    """Apply a pass to a subgraph and time both; None where the time ran out.

    Args:
        cut: makes the subgraph in its folder, unless an earlier call has.
        location: of the pass, ``module:Class``.
        task: for the pass, its model, samples and folder yet to be set.
        race: for the worker, without the files.
        until: on the monotonic clock.
    """
    limit = race["memory_limit"]
    subgraph = cut.folder / f"subgraph.{cut.format}" if cut.settings.cut else Path(cut.model)
    samples = cut.folder / SAMPLES_FILE
    with job_folder() as folder:
        if not samples.exists():
            seconds = max(0.1, until - time.monotonic())
            (made,) = apply_pass(_CUTTER, [cut], seconds=seconds, memory_limit=limit)
            if made.cause:
                return _failure(made)
        ready = replace(task, model=str(subgraph), calibration=samples if task.calibration else None, folder=folder)
        (result,) = apply_pass(location, [ready], seconds=max(0.1, until - time.monotonic()), memory_limit=limit)
        if result.unchanged:
            return PassTiming(unchanged=True)
        if result.model is None:
            return _failure(result)
        try:
            precisions = count_precisions(result.model)
        except BadModel as error:
            reason = f"it failed in a trial run: what it made can't be read: {error.message}"
            return PassTiming(failed=reason, lasting=False)
        request = {**race, "original": str(subgraph), "changed": str(result.model)}
        threads = str(task.threads)
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "TMPDIR": str(folder)}
        seconds = max(0.1, until - time.monotonic())
        outcome = run_child(_WORKER, request=json.dumps(request).encode(), seconds=seconds, environment=environment)
    return _read_answer(outcome, precisions)


def _failure(result: PassResult) -> PassTiming | None:
    if result.cause == "late":
        return None
    if result.cause == "unsuitable":
        return PassTiming(failed=f"it can't be applied: {result.reason}")
    return PassTiming(failed=f"it failed in a trial run: {result.reason}", lasting=False)


def _read_answer(outcome: Outcome, precisions: Mapping[str, int]) -> PassTiming | None:
    if outcome.cause == "late":
        return None
    try:
        answer = json.loads(outcome.output) if not outcome.failure else {}
        if "refused" in answer:
            which = "the model as it is" if answer["refused"] == "original" else "what the pass makes"
            return PassTiming(failed=f"the engine refuses {which}: {answer['message']}")
        before, after = answer["profiles"]
        return _read({**asdict(PassTiming(precisions=precisions)), **answer, "before": before, "after": after})
    except (ValueError, KeyError, TypeError):
        words = outcome.failure or "gave no answer"
        return PassTiming(failed=f"the engine failed in a trial run: its process {words}", lasting=False)


def _read(document: Mapping[str, Any]) -> PassTiming:
    """A timing from its JSON shape. Raises KeyError, TypeError or ValueError where it has another."""
    return PassTiming(
        original=tuple(map(float, document["original"])),
        changed=tuple(map(float, document["changed"])),
        before=tuple(StepTime(**step) for step in document["before"]),
        after=tuple(StepTime(**step) for step in document["after"]),
        unchanged=bool(document["unchanged"]),
        failed=str(document["failed"]),
        lasting=bool(document["lasting"]),
        precisions={str(word): int(number) for word, number in document["precisions"].items()},
    )


def key_of(parts: Sequence[Any]) -> str:
    """The name under which a timing is kept, of everything that it depends on."""
    return sha256(json.dumps([_SCHEMA, *parts], sort_keys=True, default=str).encode()).hexdigest()


class Cache:
    """Timings in a file that several processes may use at once.

    Args:
        file: None is the user's cache folder.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file

    @property
    def file(self) -> Path:
        """Where it is."""
        if self._file is None:
            from platformdirs import user_cache_path

            self._file = user_cache_path("edgewise") / "microbenchmarks.json"
        return self._file

    def get(self, key: str) -> PassTiming | None:
        """What is kept under `key`; None where nothing is, or it is damaged."""
        try:
            found = _read(self._entries()[key])
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        sound = len(found.original) == len(found.changed) and min((*found.original, *found.changed, 1.0)) > 0
        return found if sound else None

    def put(self, key: str, timing: PassTiming) -> None:
        """Keep `timing` beside what others keep; a cache that can't be written costs only time."""
        with suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self.file.with_suffix(".lock")):
                entries = self._entries()
                entries.pop(key, None)
                entries[key] = asdict(timing)
                kept = dict(list(entries.items())[-_MOST_KEPT:])
                with tempfile.NamedTemporaryFile("w", dir=self.file.parent, delete=False) as stream:
                    json.dump(kept, stream)
                Path(stream.name).replace(self.file)

    def _entries(self) -> dict[str, Any]:
        try:
            document = json.loads(self.file.read_text())
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """One writer at a time, where the system has locks; the file is replaced as a whole in any case."""
    with file.open("a") as stream:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
