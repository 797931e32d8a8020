"""Models that Python code holds as objects: they get names that every verb understands, for the length of a call."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from edgewise.converting.base import ConvertOptions
from edgewise.converting.keras_model import write_keras
from edgewise.errors import BadInput
from edgewise.model.build import build_graph
from edgewise.model.eager import IN_MEMORY, write_eager
from edgewise.model.model_object import ModelObject, describe_object, is_instance
from edgewise.record import TargetSpec
from edgewise.run.plan import Axes
from edgewise.verbs.factories import build_everywhere


@contextmanager
def named_models(
    things: Any, example_inputs: Any = None, *, as_files: bool = False, runtimes: Sequence[str] = ()
) -> Iterator[tuple[Any, ...]]:
    """Give names to the PyTorch and Keras models among `things`; anything else stays as it is.

    Args:
        things: one thing or a sequence of them: paths, runs, models, and pairs of a PyTorch module and its inputs.
        example_inputs: of the PyTorch modules that bring none: a tensor, a tuple of positional arguments, or a
            dictionary of keyword arguments.
        as_files: write PyTorch modules in the format ``eager``, and Keras models as ``.keras`` files, instead of naming
            them: they run as they are.
        runtimes: with `as_files`: the engines that the files are for; empty means the model's own.

    Raises:
        BadInput: example inputs without a module, or a thing that is no model.
    """
    space = sys.modules.setdefault(IN_MEMORY, ModuleType(IN_MEMORY))
    single = isinstance(things, str | PathLike) or _model_in(things) is not None
    found: list[Any] = []
    names: list[str] = []
    with ExitStack() as stack:
        stack.callback(_forget, space, names)
        for thing in (things,) if single else things:
            model = _model_in(thing)
            if model is None:
                found.append(thing)
                continue
            names.append(_free_name(space, model))
            needs_inputs = model.value is thing and model.kind == "torch" and example_inputs is not None
            setattr(space, names[-1], (thing, example_inputs) if needs_inputs else thing)
            target = f"{IN_MEMORY}:{names[-1]}"
            if as_files and runtimes:
                axes = Axes(runtimes=runtimes)
                files, _ = build_everywhere(stack, [target], axes=axes, target=TargetSpec(), cases=({},))
                found += map(os.fspath, files)
            elif as_files and model.kind == "torch":
                folder = Path(stack.enter_context(TemporaryDirectory(prefix="edgewise-build-")))
                found.append(write_eager(build_graph(target, needs_graph=False), folder, name=names[-1]))
            elif as_files and model.kind == "keras":
                folder = Path(stack.enter_context(TemporaryDirectory(prefix="edgewise-build-")))
                write_keras(model.value, folder / f"{names[-1]}.keras", ConvertOptions())
                found.append(folder / f"{names[-1]}.keras")
            else:
                found.append(target)
        if example_inputs is not None and not names:
            raise BadInput(
                "example_inputs belong to a PyTorch module",
                advice="several models are a list: compare([a, b]); the inputs of a file are input_data=F.npz",
            )
        yield tuple(found)


def _forget(space: ModuleType, names: list[str]) -> None:
    for name in names:
        delattr(space, name)


def _model_in(thing: Any) -> ModelObject | None:
    """Return the model that `thing` is, or the pair of a PyTorch module and its inputs; None for anything else."""
    if isinstance(thing, list) or (isinstance(thing, tuple) and thing and is_instance(thing[-1], "torch.nn", "Module")):
        return None
    model = describe_object(thing)
    return model if model is not None and model.kind in ("torch", "exported", "keras", "onnx") else None


def _free_name(space: ModuleType, model: ModelObject) -> str:
    """Return the name of the model's class, with a number where it is taken."""
    word = re.sub(r"\W", "_", type(model.value).__name__)
    name, count = word, 1
    while hasattr(space, name):
        count += 1
        name = f"{word}_{count}"
    return name
