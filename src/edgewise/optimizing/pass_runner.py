"""Runs passes in child processes with a memory limit and a deadline. Every end of a process becomes a result."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgewise.child_process import ChildProcess, explain_end
from edgewise.clock import now
from edgewise.folders import job_folder
from edgewise.optimizing.base import Cause, PassResult, PassTask
from edgewise.optimizing.pass_worker import DISK_ERRORS
from edgewise.run.sandbox import available_memory
from edgewise.text import one_line


def apply_pass(
    location: str, tasks: Sequence[PassTask[Any]], *, seconds: float, memory_limit: int | None = None
) -> Iterator[PassResult]:
    """Apply the pass whose class is at `location` (``module:Class``) to `tasks`, one after the other in one process.

    Each result is yielded as soon as it arrives. If the process dies, its current task has failed, and a new process
    gets the next ones.

    Args:
        seconds: time limit of each task.
        memory_limit: bytes that the process may allocate; None is the available memory.
    """
    left = list(tasks)
    while left:
        done = 0
        try:
            with job_folder() as folder:
                request = {
                    "pass": location,
                    "tasks": [write_task(task) for task in left],
                    "memory_limit": memory_limit or available_memory(),
                }
                for result in _run(json.dumps(request).encode(), folder, count=len(left), seconds=seconds):
                    yield result
                    done += 1
        except OSError as error:  # no room for a few kilobytes, or for one more process
            cause: Cause = "disk" if error.errno in DISK_ERRORS else "failed"
            result = PassResult(cause=cause, reason=one_line(error.strerror or str(error)))
            yield from [result] * (len(left) - done)
            return
        left = left[done:]


def write_task(task: PassTask[Any]) -> dict[str, Any]:
    """Return the task in its JSON shape; `edgewise.optimizing.pass_worker.read_task` reads it."""
    fields = {name: getattr(task, name) for name in PassTask.__dataclass_fields__}
    kind = type(task.settings)
    return {
        **fields,
        "settings": {"type": f"{kind.__module__}:{kind.__qualname__}", "values": task.settings.to_document()},
        "folder": str(task.folder),
        **{name: None if (file := getattr(task, name)) is None else str(file) for name in ("calibration", "weights")},
    }


def _run(request: bytes, folder: Path, *, count: int, seconds: float) -> Iterator[PassResult]:
    """Results of one process; where it dies, the last one is the reason."""
    command = [sys.executable, "-P", "-m", "edgewise.optimizing.pass_worker"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "TMPDIR": str(folder)}
    with ChildProcess(command, request=request, environment=environment) as child:
        for _ in range(count):
            try:
                line = child.read_line(until=now() + seconds)
            except TimeoutError:
                child.kill()
                yield PassResult(cause="late", reason=f"it took longer than {seconds:.3g} s")
                return
            if not line:
                child.kill()
                cause, words = explain_end(child.returncode, child.tail)
                reason = one_line(f"the pass {words or 'ended with exit code 0 and no result'}")
                yield PassResult(cause="memory" if cause == "memory" else "crashed", reason=reason)
                return
            yield _read(line)


def _read(line: bytes) -> PassResult:
    answer: dict[str, Any] = json.loads(line)
    if "model" not in answer:
        return PassResult(**{**answer, "reason": one_line(answer["reason"])})
    notes = tuple(map(one_line, answer["notes"]))
    return PassResult(**{**answer, "model": Path(answer["model"]), "notes": notes})
