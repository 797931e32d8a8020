"""Converts one model: opens the source, finds the converters, runs them one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewise.converting.base import TARGETS, Converted, ConvertOptions
from edgewise.converting.keras_model import load_keras
from edgewise.converting.losses import find_losses
from edgewise.converting.paths import KERAS_MODEL, MODULE, find_path
from edgewise.converting.torch_program import export_built, load_torch
from edgewise.errors import BadModel
from edgewise.model.build_network import BuiltModel
from edgewise.model.identity import Model, open_model
from edgewise.runtime.base import InvalidModel, UnsupportedModel
from edgewise.silence import silenced

_SUFFIXES = {"onnx": ".onnx", "tflite": ".tflite", "torch": ".pt2", "keras": ".keras"}
_BEST = {"torch": "onnx", "exported": "onnx", "keras": "onnx"}


def convert_model(
    source: BuiltModel | Path, to: str, folder: Path, *, options: ConvertOptions | None = None
) -> Converted:
    """Convert `source` and write the result to `folder`. Nothing is compared: see `edgewise.converting.agreement`.

    Args:
        source: a model file, or what a function made.
        to: a key of `edgewise.converting.base.TARGETS`.
        folder: an existing folder; also files on the way are written there.

    Raises:
        BadInput: the source can't be read, has the format already, or `to` is no format.
        Unavailable: a converter is missing, or can't convert this model.
    """
    with silenced():
        kind, thing, name = open_source(source, folder)
        path, steps = convert_opened(kind, thing, name, to, folder, options=options or ConvertOptions())
    return Converted(path=path, format=TARGETS[to].format, steps=steps, lost=find_losses(source, path))


def convert_opened(
    kind: str, thing: Any, name: str, to: str, folder: Path, *, options: ConvertOptions
) -> tuple[Path, tuple[str, ...]]:
    """Convert what `open_source` gave; return file or folder, and a line per converter. Raises as `convert_model`."""
    steps = find_path(kind, to, name=name)
    words = []
    for step in steps:
        place = folder if step is steps[-1] else folder / "on-the-way"
        place.mkdir(exist_ok=True)
        path = place / f"{options.name}{TARGETS[step.to].suffix}"
        words.append(step.write(thing, path, options if step is steps[-1] else replace(options, precision="")))
        thing = path / "saved_model.pb" if step.to == "savedmodel" else path
    return path, tuple(words)


def open_source(source: BuiltModel | Path, folder: Path) -> tuple[str, Any, str]:
    """Return the source's kind (`paths_from`), itself as converters take it, and its name. Raises `BadInput`."""
    if isinstance(source, BuiltModel):
        match source.made.kind:
            case "torch" | "exported":
                return MODULE, export_built(source), source.target
            case "keras":
                return KERAS_MODEL, source.made.value, source.target
        source = write_as_it_is(source, folder)
    model = open_model(source)
    if model.ref.format == "torch":
        return "torch", _load(load_torch, model), model.ref.name
    if model.ref.format == "keras":
        return "keras", _load(load_keras, model), model.ref.name
    return model.ref.format, model.files[0], model.ref.name


def _load(load: Callable[[Path], Any], model: Model) -> Any:
    """Return what a framework reads from a file, with guards against code in it. Raises `BadModel`."""
    try:
        return load(model.files[0])
    except (UnsupportedModel, InvalidModel) as error:
        advice = "give the function that makes the model: FILE.py:FUNCTION"
        raise BadModel(f"{model.ref.name}: {error}", advice=advice) from error


def write_as_it_is(built: BuiltModel, folder: Path) -> Path:
    """Return a file that a function gave the path, the bytes or the ``ModelProto`` of. The file of a path stays in
    its place: its weights may lie beside it.
    """
    network = built.made
    if network.kind == "path":
        return Path(network.value)
    path = folder / ("model" + _SUFFIXES.get(built.graph.format, ".bin"))
    path.write_bytes(network.value if network.kind == "bytes" else network.value.SerializeToString())
    return path


def export_runnable(built: BuiltModel, folder: Path) -> Path:
    """Return a file in `folder` in a format that most runtimes read: ONNX for modules, any other model as it is.

    Raises:
        Unavailable: what the export needs is not installed, or the exporter can't.
        BadInput: the network can't be exported at all.
    """
    if (to := _BEST.get(built.made.kind)) is None:
        return write_as_it_is(built, folder)
    return convert_model(built, to, folder).path
