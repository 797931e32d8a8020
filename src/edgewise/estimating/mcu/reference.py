"""tflite-micro's outputs and arena, in a process of its own: ``python -m edgewise.estimating.mcu.reference``."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.child_process import Limits, Outcome, run_child, serve
from edgewise.errors import BadModel
from edgewise.estimating.mcu.cache import cached_report, temporary_folder

SECONDS = 60.0
AMPLE_BYTES = 16 * 2**20
"""More than the RAM of any board that is emulated."""
_TOTALS = re.compile(r"Arena allocation (total|head) (\d+) bytes")
_SECTIONS = re.compile(r"'(.+)' used (\d+) bytes with alignment overhead \(requested (\d+) bytes for (\d+) ")
_LIMITS = Limits(cpu_seconds=60, data_bytes=4 * 2**30)


class NotExecuted(BadModel):
    """tflite-micro can't execute the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of tflite-micro's arena: its size with and without padding, bytes, and its number of allocations."""

    used: int
    requested: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What tflite-micro computes.

    Attributes:
        outputs: per input, per output of the model, its bytes.
        arena_bytes: on this machine, whose pointers have 64 bits; `head_bytes` of it hold activations.
        sections: of the rest, by the names that tflite-micro gives them.
    """

    outputs: Sequence[Sequence[NDArray[np.int8]]]
    arena_bytes: int
    head_bytes: int
    sections: Mapping[str, Section]


def run_reference(
    path: Path, inputs: Sequence[Sequence[NDArray[Any]]], *, outputs: int, arena_bytes: int | None = None
) -> Reference:
    """Run the model at `path`, which has this number of outputs, once per entry of `inputs`, and keep its states.

    The result is kept in the cache.

    Args:
        arena_bytes: size of the arena; None is enough for every model.

    Raises:
        NotExecuted: tflite-micro fails.
        RunFailed: what the cache keeps is damaged, or temporary files can't be written.
    """

    def make() -> Mapping[str, Any]:
        outcome = _run(path, inputs, outputs=outputs, arena_bytes=arena_bytes)
        if outcome.cause:
            raise NotExecuted(f"tflite-micro, which the outputs are compared with, {outcome.failure}")
        told: Mapping[str, Any] = json.loads(outcome.output)
        return told

    identity = hashlib.sha256(repr((version("tflite-micro"), outputs, arena_bytes)).encode() + path.read_bytes())
    for array in (array for arrays in inputs for array in arrays):
        identity.update(array.tobytes())
    with temporary_folder() as folder:
        told = cached_report(f"reference-{identity.hexdigest()[:32]}.tflm", make, folder=folder)
    return Reference(
        outputs=[[np.frombuffer(bytes.fromhex(each), np.int8) for each in row] for row in told["outputs"]],
        arena_bytes=told["total"],
        head_bytes=told["head"],
        sections={
            name: Section(used=used, requested=wanted, count=count) for name, used, wanted, count in told["sections"]
        },
    )


def runs_in(arena_bytes: int, path: Path, inputs: Sequence[Sequence[NDArray[Any]]]) -> bool:
    """Whether tflite-micro executes the model in an arena of this size; one that is too small can crash it."""
    return arena_bytes > 0 and not _run(path, inputs[:1], outputs=0, arena_bytes=arena_bytes).cause


def _run(path: Path, inputs: Sequence[Sequence[NDArray[Any]]], *, outputs: int, arena_bytes: int | None) -> Outcome:
    request = {
        "outputs": outputs,
        "path": str(path.resolve()),
        "arena": AMPLE_BYTES + 10 * path.stat().st_size if arena_bytes is None else arena_bytes,
        "inputs": [
            [[list(array.shape), array.dtype.str, array.tobytes().hex()] for array in arrays] for arrays in inputs
        ],
    }
    command = [sys.executable, "-P", "-m", "edgewise.estimating.mcu.reference"]
    return run_child(command, request=json.dumps(request).encode(), seconds=SECONDS)


def answer(request: bytes) -> bytes:
    """Return outputs and allocations, JSON."""
    from tflite_micro import runtime

    wanted = json.loads(request)
    interpreter = runtime.Interpreter.from_file(wanted["path"], arena_size=wanted["arena"])
    outputs: list[list[str]] = []
    for arrays in wanted["inputs"]:
        for place, (shape, dtype, data) in enumerate(arrays):
            interpreter.set_input(np.frombuffer(bytes.fromhex(data), dtype).reshape(shape), place)
        interpreter.invoke()
        outputs.append([])
        for place in range(wanted["outputs"]):
            outputs[-1].append(interpreter.get_output(place).tobytes().hex())
    printed = _allocations(interpreter.print_allocations)
    found: dict[str, Any] = {name: int(size) for name, size in _TOTALS.findall(printed)}
    sections = [(name, *map(int, sizes)) for name, *sizes in _SECTIONS.findall(printed)]
    return json.dumps(found | {"outputs": outputs, "sections": sections}).encode()


def _allocations(show: Callable[[], object]) -> str:
    """Return what `show` prints on standard error from C++."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            show()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read().decode("utf-8", "replace")


if __name__ == "__main__":
    raise SystemExit(serve(answer, limits=lambda request: _LIMITS))
