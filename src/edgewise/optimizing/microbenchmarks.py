"""Timings of a network before and after a pass. Measured in a child process once, and kept.

`edgewise.optimizing.microbenchmark_worker` is the child. The user's cache folder keeps a file per processor, engine,
pass, versions and network.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from edgewise.child_process import ChildProcess, explain_end
from edgewise.folders import job_folder
from edgewise.model.graph import Graph
from edgewise.optimizing.base import PassTask
from edgewise.optimizing.pass_runner import write_task
from edgewise.run.sandbox import available_memory
from edgewise.runtime.base import runtimes

_SCHEMA = 4
_MOST_KEPT = 2000
_WORKER = (sys.executable, "-P", "-m", "edgewise.optimizing.microbenchmark_worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Time that an engine spends on one type of step, s. `product`: a convolution or a matrix product."""

    op: str
    product: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTiming:
    """The result of trying a pass on a network in one engine.

    Attributes:
        original, changed: time of an inference per turn, in pairs, s; empty without a comparison.
        before, after: time per type of step from the engine's profiler; empty without one.
        unchanged: the pass found nothing to do.
        failed: why there are no times; empty where there are some.
        lasting: another trial would end in the same way; not so after a crash or a lack of memory.
        precisions: type of arithmetic → number of convolutions and products of the result that compute in it.
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
    graph: Graph, location: str, task: PassTask[Any], *, engines: Sequence[str], seconds: float, until: float
) -> dict[str, PassTiming]:
    """Apply a pass to a network, and time the network and the result in each engine.

    Args:
        graph: the network in the file of `task`, with concrete inputs.
        location: the class of the pass, ``module:Class``.
        task: its folder and its samples are left to the child process.
        engines: names of the runtimes; each runs with its first provider.
        seconds: duration of the turns per engine, s.
        until: monotonic time at which the process ends, s.

    Returns:
        Engine → timing, without the engines for which the time did not suffice.
    """
    registry, inputs = runtimes(), [graph.tensors[name] for name in graph.inputs]
    request = {
        "pass": location,
        "task": write_task(task),
        "engines": [
            {"runtime": registry.location(name), "provider": registry.get(name).providers[0].name} for name in engines
        ],
        "shapes": {tensor.name: tensor.shape for tensor in inputs if tensor.elements is not None},
        "threads": task.threads,
        "seconds": seconds,
        "memory_limit": available_memory(),
    }
    threads = str(task.threads)
    found: dict[str, PassTiming] = {}
    with job_folder() as folder:
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "TMPDIR": str(folder)}
        body = json.dumps({**request, "folder": str(folder)}).encode()
        with ChildProcess(_WORKER, request=body, environment=environment) as child, suppress(TimeoutError):
            made = child.read_line(until=until)  # "{}" once the pass is done, else why there is nothing to time
            if made and made != b"{}":
                return dict.fromkeys(engines, _TIMING.validate_json(made))
            for name in engines:
                if line := child.read_line(until=until):
                    found[name] = _TIMING.validate_json(line)
                    continue
                child.kill()
                words = explain_end(child.returncode, child.tail)[1] or "gave no answer"
                who = "the engine failed in a trial run: its process" if made else "it failed in a trial run: the pass"
                return {**dict.fromkeys(engines, PassTiming(failed=f"{who} {words}", lasting=False)), **found}
    return found


_TIMING = TypeAdapter(PassTiming)


def key_of(parts: Sequence[Any]) -> str:
    """Return the name under which a timing is kept: a hash of everything that it depends on."""
    return sha256(json.dumps([_SCHEMA, *parts], sort_keys=True, default=str).encode()).hexdigest()


class Cache:
    """Timings, one file each, in a folder that several processes may use at once.

    Args:
        folder: None is a folder of the user's cache.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None:
            from platformdirs import user_cache_path

            folder = user_cache_path("edgewise") / "microbenchmarks"
        self._folder = folder

    def get(self, key: str) -> PassTiming | None:
        """Return the timing of `key`; None where there is none, or its file is damaged."""
        try:
            found = _TIMING.validate_json((self._folder / f"{key}.json").read_bytes())
        except (OSError, ValidationError):
            return None
        sound = len(found.original) == len(found.changed) and min((*found.original, *found.changed, 1.0)) > 0
        return found if sound else None

    def put(self, key: str, timing: PassTiming) -> None:
        """Keep `timing`. A cache that can't be written costs only time."""
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False) as stream:
                json.dump(asdict(timing), stream)
            Path(stream.name).replace(self._folder / f"{key}.json")
            files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
            for file in files[:-_MOST_KEPT]:
                file.unlink(missing_ok=True)
