"""tflite-micro's outputs and arena, in a process of its own: ``python -m edgewise.estimating.mcu.reference``."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.child_process import Limits, run_child, serve
from edgewise.errors import RunFailed

SECONDS = 60.0
_LIMITS = Limits(cpu_seconds=60, data_bytes=4 * 2**30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What tflite-micro computes.

    Attributes:
        outputs: per input, per output of the model, its bytes.
        arena_bytes: on this machine, whose pointers have 64 bits; `head_bytes` of it hold activations.
    """

    outputs: Sequence[Sequence[NDArray[np.int8]]]
    arena_bytes: int
    head_bytes: int


def run_reference(path: Path, inputs: Sequence[Sequence[NDArray[Any]]], *, outputs: int) -> Reference:
    """Run the model at `path`, which has this number of outputs, once per entry of `inputs`, and keep its states.

    Raises `RunFailed` where tflite-micro fails.
    """
    request = {
        "outputs": outputs,
        "path": str(path.resolve()),
        "inputs": [
            [[list(array.shape), array.dtype.str, array.tobytes().hex()] for array in arrays] for arrays in inputs
        ],
    }
    outcome = run_child(
        [sys.executable, "-P", "-m", "edgewise.estimating.mcu.reference"],
        request=json.dumps(request).encode(),
        seconds=SECONDS,
    )
    if outcome.cause:
        raise RunFailed(f"tflite-micro {outcome.failure}")
    told = json.loads(outcome.output)
    return Reference(
        outputs=[[np.frombuffer(bytes.fromhex(each), np.int8) for each in row] for row in told["outputs"]],
        arena_bytes=told["total"],
        head_bytes=told["head"],
    )


def answer(request: bytes) -> bytes:
    """Outputs and allocations, JSON."""
    from tflite_micro import runtime

    wanted = json.loads(request)
    interpreter = runtime.Interpreter.from_file(wanted["path"])
    outputs: list[list[str]] = []
    for arrays in wanted["inputs"]:
        for place, (shape, dtype, data) in enumerate(arrays):
            interpreter.set_input(np.frombuffer(bytes.fromhex(data), dtype).reshape(shape), place)
        interpreter.invoke()
        outputs.append([])
        for place in range(wanted["outputs"]):
            outputs[-1].append(interpreter.get_output(place).tobytes().hex())
    sizes = dict(re.findall(r"Arena allocation (total|head) (\d+) bytes", _allocations(interpreter.print_allocations)))
    found = {"outputs": outputs, "total": int(sizes["total"]), "head": int(sizes["head"])}
    return json.dumps(found).encode()


def _allocations(show: Callable[[], object]) -> str:
    """What `show` prints on standard error from C++."""
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
