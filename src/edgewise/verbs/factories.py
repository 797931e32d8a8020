"""Models that functions make, ``FILE.py:function``, as files that last as long as the command."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.model.eager import IN_MEMORY

if TYPE_CHECKING:
    from edgewise.model.build_network import BuiltModel
    from edgewise.record import TargetSpec
    from edgewise.run.plan import Axes, NetworkFile


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
        from edgewise.model.build import build_graph

        for case in cases:
            built = build_graph(model, what_if=case, shapes=shapes)
            files.append(_write_file(built, _new_folder(stack), network_name(model, case)))
    return files


def build_everywhere(
    stack: ExitStack, models: Sequence[str], *, axes: Axes, target: TargetSpec, cases: Sequence[Mapping[str, Any]]
) -> tuple[list[str | NetworkFile], list[str]]:
    """As `build_files`, with one file for every format that the engines of `axes` need of a function's network.

    Returns:
        The files, and a line for each engine that runs none of a network's files.

    Raises:
        BadInput, Unavailable: a function that is not there, or fails; a requested engine that is not installed.
        RunFailed: no engine can run a network.
    """
    from edgewise.model.callable_loader import is_factory

    files: list[str | NetworkFile] = []
    left_out: list[str] = []
    for model in models:
        if not is_factory(model):
            files.append(model)
            continue
        from edgewise.model.build import build_graph
        from edgewise.runtime.base import runtimes
        from edgewise.verbs.network_files import KINDS, exports_of

        for case in cases:
            folder, name = _new_folder(stack), network_name(model, case)
            built = build_graph(model, what_if=case, shapes=axes.shapes, needs_graph=False)
            if built.made.kind not in KINDS:
                files.append(_write_file(built, folder, name))
                continue
            found = exports_of(built, folder, name=name, target=target, shapes=axes.shapes)
            more, reasons = found.files(axes.runtimes, runtimes(), target, with_tools=True)
            files += more
            left_out += reasons
    return files, left_out


def _new_folder(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgewise-build-")))


def _write_file(built: BuiltModel, folder: Path, name: str) -> str:
    """Return the one file that most runtimes read; what `name` says identifies a run for people."""
    from edgewise.converting.conversion import export_runnable

    file = export_runnable(built, folder)
    return str(file.rename(file.with_name(name + file.suffix)) if file.parent == folder else file)


def network_name(model: str, case: Mapping[str, Any]) -> str:
    """Return what people call the network of a function: its file, its name and its arguments."""
    module, _, function = model.rpartition(":")
    words = [
        *([] if module == IN_MEMORY else [Path(module).stem]),
        function,
        *(f"{name}={value}" for name, value in case.items()),
    ]
    return re.sub(r"[^\w.=+-]", "_", "-".join(words))[:100]
