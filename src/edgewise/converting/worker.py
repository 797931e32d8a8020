"""A child process that converts one model and runs the source on test inputs where its framework holds it in memory.

``python -m edgewise.converting.worker`` reads a request as JSON from standard input and writes the answer to standard
output. The request has the ``source`` (a file, or a function ``FILE.py:FUNCTION``), ``to``, the ``folder`` for results,
``options`` of `ConvertOptions`, ``shapes`` of open dimensions, ``input_data``, ``seed``, ``expose`` (tensors to add to
the outputs; null converts the source as it is) and ``memory_limit``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from edgewise.child_process import Limits, serve
from edgewise.converting.agreement import compare_tensor
from edgewise.converting.base import ConvertOptions
from edgewise.converting.conversion import convert_opened, open_source
from edgewise.converting.exposing import expose, find_points
from edgewise.converting.keras_model import choose_backend, run_keras
from edgewise.converting.losses import find_losses, signature_of
from edgewise.converting.paths import KERAS_MODEL, MODULE, opened_as
from edgewise.converting.torch_program import TorchSource, run_torch
from edgewise.errors import EdgewiseError
from edgewise.model.build_network import BuiltModel
from edgewise.model.callable_loader import import_module, is_factory, own_code
from edgewise.model.precision import reduced_precision
from edgewise.model.random_operators import random_words
from edgewise.run.sample_mode import write_feeds
from edgewise.run.sandbox import die_with_host
from edgewise.workload.arrays import Array
from edgewise.workload.input_shapes import resolve_inputs
from edgewise.workload.inputs import load_arrays, make_arrays, read_shapes

FEEDS = 3
"""Number of random inputs on which source and result are compared."""


def answer(request: bytes) -> bytes:
    """Carry out one request; an error for users is in the answer. Raises whatever else a library raises."""
    try:
        return json.dumps(_convert(json.loads(request))).encode()
    except EdgewiseError as error:
        found = {"error": type(error).__name__, **error.marked._asdict()}
        return json.dumps(found).encode()


def _convert(asked: dict[str, Any]) -> dict[str, Any]:
    die_with_host()
    folder = Path(asked["folder"])
    shapes = {name: tuple(shape) for name, shape in asked["shapes"].items()}
    options = ConvertOptions(**{**asked["options"], "shapes": shapes})
    source = _build(asked["source"], shapes, asked["seed"])
    form, thing, name = open_source(source, folder)
    kind = opened_as(form)
    signature = signature_of(source)
    document: dict[str, Any] = {"kind": kind, "name": name, "describe": None, "points": None}
    if isinstance(source, BuiltModel):
        document |= {"describe": source.source, "reduced": reduced_precision(source.graph)}
    if asked["expose"] is None:
        document["points"] = [asdict(each) for each in _points(kind, thing)]
    else:
        exposed = folder / "exposed"
        exposed.mkdir()
        thing = expose(kind, thing, asked["expose"], exposed)
    feeds, names = _make_feeds(signature, shapes, asked)
    write_feeds(folder / "feeds.npz", feeds)
    if kind in (MODULE, KERAS_MODEL):
        run = run_torch if kind == MODULE else run_keras
        write_feeds(folder / "reference.npz", answers := [run(thing, feed) for feed in feeds])
        document["random"] = _find_random(source, partial(run, thing), feeds[0], answers[0])
        if kind == MODULE and asked["expose"] is None:
            write_feeds(folder / "exported.npz", [run_torch(TorchSource(thing.program), feed) for feed in feeds])
    path, steps = convert_opened(form, thing, name, asked["to"], folder, options=options)
    return document | {
        "path": str(path), "steps": steps, "lost": find_losses(source, path) if asked["expose"] is None else (),
        "source": None if kind in (MODULE, KERAS_MODEL) else str(thing), "inputs": names,
        "outputs": [each.name for each in signature.outputs] + list(asked["expose"] or ()),
    }  # fmt: skip


def _find_random(source: BuiltModel | Path, run: Callable[[Any], Any], feed: Any, answer: Any) -> str:
    """Why the outputs of a source can't be compared: operators that draw, or another answer at a second call; or ""."""
    words = random_words(source.graph) if isinstance(source, BuiltModel) else ""
    if words or all(compare_tensor("", [a], [b], reduced="").close for a, b in zip(answer, run(feed), strict=True)):
        return words
    return "a second call of the source on the same inputs gives different outputs"


def _points(kind: str, thing: Any) -> Sequence[Any]:
    try:
        return find_points(kind, thing)
    except EdgewiseError:
        return ()


def _build(source: str, shapes: dict[str, tuple[int, ...]], seed: int) -> BuiltModel | Path:
    """Return the file, or what the function makes: the same random weights in every process of one command."""
    if not is_factory(source):
        return Path(source)
    choose_backend()
    import random

    import numpy as np

    from edgewise.model.build import build_graph

    random.seed(seed)  # Keras draws its seeds from here
    np.random.seed(seed % 2**32)
    module = source.rpartition(":")[0]
    with own_code(module):
        import_module(module, source)  # and with it the frameworks, which can be seeded then
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].random.set_seed(seed)
    return build_graph(source, shapes=shapes)


def _make_feeds(
    signature: Any, shapes: dict[str, tuple[int, ...]], asked: dict[str, Any]
) -> tuple[list[list[Array]], list[str]]:
    data = None if asked["input_data"] is None else Path(asked["input_data"])
    if data is not None and "" not in shapes:
        shapes = read_shapes(data, signature.inputs) | shapes
    specs = resolve_inputs(signature, batch=1, overrides=shapes, given=data is not None)
    names = [each.name for each in specs]
    if data is not None:
        return [load_arrays(data, specs)], names
    return [make_arrays(specs, seed=asked["seed"] + index) for index in range(FEEDS)], names


if __name__ == "__main__":
    raise SystemExit(serve(answer, limits=lambda request: Limits(data_bytes=json.loads(request)["memory_limit"])))
