"""An engine's description of a model's inputs and outputs, from a process of its own with limits.

The request is a JSON object with the ``runtime`` (``"module:Class"``) and the ``path`` of the model. The answer has
``inputs`` and ``outputs``, each a list of ``[name, shape, dtype]``. With ``signatures`` in the request, the answer has
these for each signature, in a list under ``signatures`` that begins with its name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.child_process import Limits, serve
from edgewise.model.signature import TensorSpec
from edgewise.registry import load_class

CPU_SECONDS = 100
MEMORY_BYTES = 4 * 2**30
"""Limit of private memory, in addition to eight times the size of the model's files."""
MOST_TENSORS, MOST_LETTERS = 10_000, 2_000


def describe(request: bytes) -> bytes:
    """Answer one request. Raises whatever the engine raises."""
    asked = json.loads(request)
    runtime = load_class(asked["runtime"])()
    runtime.import_engine()
    if asked.get("signatures"):
        found = runtime.describe_signatures(Path(asked["path"]))
        return json.dumps({"signatures": [[name, *map(_plain, specs)] for name, specs in found.items()]}).encode()
    inputs, outputs = runtime.describe(Path(asked["path"]))
    return json.dumps({"inputs": _plain(inputs), "outputs": _plain(outputs)}).encode()


def _plain(specs: Sequence[TensorSpec]) -> list[list[Any]]:
    if len(specs) > MOST_TENSORS:
        raise ValueError(f"it has {len(specs)} inputs or outputs, more than {MOST_TENSORS}")
    return [
        [each.name[:MOST_LETTERS], None if each.shape is None else list(each.shape), each.dtype[:MOST_LETTERS]]
        for each in specs
    ]


def _limits(request: bytes) -> Limits:
    path = Path(json.loads(request)["path"])
    weights = [path.with_suffix(".pdiparams"), *path.parent.glob("variables/variables.data-*")]
    size = sum(file.stat().st_size for file in (path, *weights) if file.is_file())
    return Limits(cpu_seconds=CPU_SECONDS, data_bytes=MEMORY_BYTES + 8 * size)


if __name__ == "__main__":
    raise SystemExit(serve(describe, limits=_limits))
