"""What an engine says of a model's inputs and outputs, asked in a process of its own.

``python -m edgewise.runtime.describing MODULE:CLASS PATH`` answers with one JSON document on stdout: ``inputs`` and
``outputs``, each ``[name, shape, dtype]``, or ``error``. Whatever the engine prints goes nowhere, so that the answer is
all that the host has to read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from edgewise.model.signature import TensorSpec

CPU_SECONDS = 100
MEMORY_BYTES = 4 * 2**30
"""Of private memory, and eight times the size of the file on top."""
MOST_TENSORS, MOST_LETTERS = 10_000, 2_000


def main() -> int:
    """Answers one question."""
    location, path = sys.argv[1], Path(sys.argv[2])
    answer = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        _limit(path)
        module, _, name = location.partition(":")
        runtime = getattr(import_module(module), name)()
        runtime.import_engine()
        inputs, outputs = runtime.describe(path)
        told: dict[str, Any] = {"inputs": _plain(inputs), "outputs": _plain(outputs)}
    except Exception as error:  # whatever the engine raises
        told = {"error": (" ".join(str(error).split()) or type(error).__name__)[:MOST_LETTERS]}
    with os.fdopen(answer, "w") as stream:
        json.dump(told, stream)
    return 0


def _plain(specs: Sequence[TensorSpec]) -> list[list[Any]]:
    if len(specs) > MOST_TENSORS:
        raise ValueError(f"it has {len(specs)} inputs or outputs, more than {MOST_TENSORS}")
    return [
        [each.name[:MOST_LETTERS], None if each.shape is None else list(each.shape), each.dtype[:MOST_LETTERS]]
        for each in specs
    ]


def _limit(path: Path) -> None:
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    weights = [path.with_suffix(".pdiparams"), *path.parent.glob("variables/variables.data-*")]
    size = sum(file.stat().st_size for file in (path, *weights) if file.is_file())
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES + 8 * size, MEMORY_BYTES + 8 * size))


if __name__ == "__main__":
    raise SystemExit(main())
