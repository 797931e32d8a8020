"""The two sides of a difference: a file and the engine that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgewise.errors import BadInput, Unavailable
from edgewise.model.identity import open_model
from edgewise.registry import availability_of
from edgewise.runtime.base import runtimes
from edgewise.verbs.diff.engines import ENGINES

if TYPE_CHECKING:
    from edgewise.verbs.diff.request import DiffRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A model's file, and the name of its engine."""

    path: str
    name: str
    format: str
    sha256: str
    engine: str


def choose_sides(request: DiffRequest) -> tuple[Side, Side]:
    """The reference and the other model.

    Raises:
        BadInput: an engine that keeps no tensors, or that does not read a file.
        BadModel: a file can't be read.
        Unavailable: an engine is not installed.
    """
    wanted = [*request.runtimes, *request.runtimes, "", ""]
    one = _side(request.reference, wanted[0])
    return one, _side(request.other or request.reference, wanted[1])


def _side(path: str, engine: str) -> Side:
    model = open_model(path).ref
    engines = [name for name, each in ENGINES.items() if model.format in each.formats]
    if not engines:
        raise BadInput(
            f"{model.name}: the tensors inside {model.format} can't be read",
            advice="'edgewise convert' makes .onnx or .tflite of it",
        )
    own = engine.removesuffix("/cpu") or engines[0]
    if own not in engines:
        raise BadInput(
            f"{model.name}: {own} gives no tensors inside {model.format}", advice=f"use {' or '.join(engines)}"
        )
    if not (state := availability_of(runtimes().get(own))):
        raise Unavailable(f"{model.name} runs in {own}: {state.reason}", advice=state.install_hint)
    return Side(path=path, name=model.name, format=model.format, sha256=model.sha256, engine=own)
