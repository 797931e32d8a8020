"""The two sides of a difference: a file and the engine that runs it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import BadInput, Unavailable
from edgewise.model.build import build_graph
from edgewise.model.callable_loader import is_factory
from edgewise.model.identity import open_model
from edgewise.registry import availability_of
from edgewise.runtime.base import runtimes
from edgewise.verbs.diff.engines import ENGINES
from edgewise.verbs.diff.micro_engines import MICRO_ENGINES, Firmware, micro_availability
from edgewise.verbs.factories import network_name

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


def choose_sides(request: DiffRequest, folder: Path) -> tuple[Side, Side]:
    """Return the reference and the other model; what a function makes becomes a file in `folder`.

    Raises:
        BadInput: an engine that keeps no tensors, or that does not read a file.
        BadModel: a file can't be read, or no firmware can execute it.
        Unavailable: an engine is not installed.
    """
    wanted = [*request.runtimes, *request.runtimes, "", ""]
    names = dict.fromkeys((request.reference, request.other or request.reference))
    paths = {name: _file_of(name, folder / str(place), request) for place, name in enumerate(names)}
    one = _side(request.reference, paths[request.reference], engine=wanted[0])
    other = request.other or request.reference
    two = _side(other, paths[other], engine=wanted[1])
    if one.name == two.name and request.reference != other:
        return replace(one, name=request.reference), replace(two, name=other)
    return one, two


def _file_of(model: str, folder: Path, request: DiffRequest) -> str:
    """`model`, or the file of what it makes: of a PyTorch module its exported program."""
    if not is_factory(model):
        return model
    from edgewise.converting.conversion import convert_model, export_runnable

    built = build_graph(model, shapes=request.shapes, needs_graph=False)
    folder.mkdir()
    of_torch = built.made.kind in ("torch", "exported")
    return str(convert_model(built, "pt2", folder).path if of_torch else export_runnable(built, folder))


def _side(word: str, path: str, *, engine: str) -> Side:
    model = open_model(path).ref
    name = model.name if word == path else network_name(word, {})
    engines = [one for one, each in ENGINES.items() if model.format in each.formats]
    if not engines:
        raise BadInput(
            f"{name}: the tensors inside {model.format} can't be read",
            advice="'edgewise convert' makes .onnx or .tflite of it",
        )
    own = engine.removesuffix("/cpu") or engines[0]
    if own not in engines:
        other = ", or the .xml that 'edgewise convert --to openvino' makes of it" if own == "openvino" else ""
        raise BadInput(
            f"{name}: {own} gives no tensors inside {model.format}", advice=f"use {' or '.join(engines)}{other}"
        )
    state = micro_availability(own) if own in MICRO_ENGINES else availability_of(runtimes().get(own))
    if not state:
        raise Unavailable(f"{name} runs in {own}: {state.reason}", advice=state.install_hint)
    if isinstance(made := ENGINES[own], Firmware):
        made(Path(path), ())  # what no firmware can execute is refused with its reasons
    return Side(path=path, name=name, format=model.format, sha256=model.sha256, engine=own)
