"""Models that functions make, ``FILE.py:function``, as files that last as long as the command."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any


def build_files(
    stack: ExitStack,
    models: Sequence[str],
    *,
    shapes: Mapping[str, tuple[int, ...]],
    cases: Sequence[Mapping[str, Any]] = ({},),
) -> list[str]:
    """`models` with files in place of the functions among them, in folders that last as long as `stack`.

    Args:
        shapes: input name → shape, for PyTorch modules without example inputs.
        cases: keyword arguments; each is one model of every function.

    Raises:
        BadInput, Unavailable: a function that is not there, fails, or makes what can't be exported.
    """
    from edgewise.model.callable_loader import is_factory

    files: list[str] = []
    for model in models:
        if not is_factory(model):
            files.append(model)
            continue
        from edgewise.converting.conversion import export_runnable
        from edgewise.model.build import build_graph

        for case in cases:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgewise-build-")))
            file = export_runnable(build_graph(model, what_if=case, shapes=shapes), folder)
            # The name of its model identifies a run for people.
            module, _, function = model.rpartition(":")
            words = [Path(module).stem, function, *(f"{name}={value}" for name, value in case.items())]
            name = re.sub(r"[^\w.=+-]", "_", "-".join(words))[:100] + file.suffix
            files.append(str(file.rename(file.with_name(name)) if file.parent == folder else file))
    return files
