"""Keras models (``.keras``): a zip archive of ``metadata.json``, ``config.json`` and weights that stay unread.

The format is described at https://keras.io/guides/serialization_and_saving/. Keras itself builds the layers from the
configuration, in a process with limits and in its safe mode. A file with Python code in it (``Lambda`` layers) or with
classes of somebody's own is refused before: nothing of a file is run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgewise.errors import BadModel
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.keras_code import ADVICE, find_code
from edgewise.model.readers.archive import first_name, looks_zipped, open_archive
from edgewise.model.readers.base import MAX_NAME_CHARACTERS, SelfContained, check_shapes, damaged, sign_graph
from edgewise.model.readers.isolated import NoAnswer, Refused, ask_engine, parse_shape, refuse_shapes
from edgewise.model.readers.keras_graph import build_graph
from edgewise.model.signature import Signature

WORKER = "edgewise.model.readers.keras_isolated"
_CONFIG, _METADATA = "config.json", "metadata.json"
_WEIGHTS = ("model.weights.h5", "model.weights.npz")
_BACKENDS = ("jax", "torch", "tensorflow")


class KerasReader(SelfContained):
    """Reads Keras models."""

    format = "keras"
    title = "Keras"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether it is an archive with Keras' entries."""
        if not looks_zipped(head):
            return False
        try:
            with open_archive(path) as archive:
                if _CONFIG in archive.names and (_METADATA in archive.names or bool({*_WEIGHTS} & {*archive.names})):
                    return True
        except (BadModel, OSError):
            pass
        # A damaged one is still one: reading it says what is wrong.
        return first_name(head) == _METADATA

    def read_signature(self, path: Path) -> Signature:
        """Inputs with their batch, which is open as a rule, and outputs, whose shapes only Keras tells."""
        return sign_graph(path, self.read_graph(path))

    def read_graph(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """The network as Keras builds it from its configuration, models in models taken apart.

        Without Keras: its inputs, and its layers without what only Keras tells.
        """
        with open_archive(path) as archive:
            document = archive.read_json(_CONFIG)
            metadata = archive.read_json(_METADATA) if _METADATA in archive.names else {}
        version = str(metadata.get("keras_version", ""))[:40]
        return read_document(path, document, shapes=shapes, version=version)


def read_document(
    path: Path, document: Mapping[str, Any], *, shapes: Mapping[str, tuple[int, ...]] | None = None, version: str = ""
) -> Graph:
    """The graph of a model's configuration.

    Args:
        path: the file it is from, for messages.
        document: what ``keras.saving.serialize_keras_object(model)`` gives.
        shapes: as `ReadsGraph.read_graph` has them.
        version: of Keras.

    Raises:
        BadModel: it has code or custom classes, its configuration does not describe its layers, or it is damaged.
        BadInput: as `ReadsGraph.read_graph` says.
    """
    if found := find_code(document):
        raise damaged(path, found[0], advice=found[1])
    outline = _outline(path, document, version)
    check_shapes({name: outline.tensors[name].shape for name in outline.inputs}, shapes or {})
    given = {name: list(shape) for name, shape in (shapes or {}).items()}
    purpose = "shapes, parameters and costs of a Keras model"
    backend = _choose_backend()
    if backend is None:
        why = f"{purpose} need one of JAX, PyTorch and TensorFlow behind Keras (pip install jax)"
        return _with_shapes(outline, given, why)
    try:
        answer = ask_engine(
            WORKER, None, {"document": dict(document), "shapes": given}, package="keras", title="Keras",
            extra="keras", purpose=purpose, environment={"KERAS_BACKEND": backend},
        )  # fmt: skip
    except NoAnswer as error:
        return _with_shapes(outline, given, str(error))
    except Refused as error:
        raise refuse_shapes(shapes or {}, error) from error
    return build_graph(path, answer, version)


def _choose_backend() -> str | None:
    """The backend of Keras: as the user has set it, else the quickest that is installed; None: Keras has none."""
    if chosen := os.environ.get("KERAS_BACKEND"):
        return chosen
    found = next((name for name in _BACKENDS if find_spec(name) is not None), "")
    return None if find_spec("keras") is not None and not found else found


def _outline(path: Path, document: Mapping[str, Any], version: str) -> Graph:
    """What the configuration says without being built: inputs, the names of outputs, classes of layers."""
    options = document.get("config")
    listed = options.get("layers") if isinstance(options, dict) else None
    if not isinstance(options, dict) or not isinstance(listed, list):
        raise damaged(
            path,
            f"the layers of its class {str(document.get('class_name'))[:60]!r} exist only in its Python code",
            advice=ADVICE,
        )
    layers = [each for each in listed if isinstance(each, dict) and isinstance(each.get("config"), dict)]
    inputs = [each for each in layers if each.get("class_name") == "InputLayer"]
    tensors = {}
    for each in inputs:
        shape = each["config"].get("batch_shape", each["config"].get("batch_input_shape"))
        dtype = each["config"].get("dtype")
        tensors[_name(path, each)] = Tensor(
            name=_name(path, each), shape=parse_shape(shape), dtype=dtype[:40] if isinstance(dtype, str) else "float32"
        )
    outputs = list(dict.fromkeys(_ends(options.get("output_layers"))))
    if not outputs and layers:
        outputs = [_name(path, layers[-1])]
    operators = [
        Operator(index=at, name=_name(path, each), op=str(each.get("class_name"))[:MAX_NAME_CHARACTERS], kind="")
        for at, each in enumerate(each for each in layers if each not in inputs)
    ]
    names = tuple(tensors)
    for name in outputs:
        tensors.setdefault(name, Tensor(name=name, shape=None, dtype="float32"))
    if not outputs:
        raise damaged(path, "it has no outputs")
    return Graph(
        name=str(options.get("name", ""))[:MAX_NAME_CHARACTERS], format="keras",
        producer=f"Keras {version}".strip(), tensors=tensors, operators=tuple(operators), inputs=names,
        outputs=tuple(outputs), metadata={"class": str(document.get("class_name"))[:200]},
    )  # fmt: skip


def _name(path: Path, layer: Mapping[str, Any]) -> str:
    name = layer["config"].get("name") or layer.get("name") or layer.get("class_name")
    if not isinstance(name, str) or len(name) > MAX_NAME_CHARACTERS:
        raise damaged(path, "a layer has no name")
    return name


def _ends(value: Any, depth: int = 20) -> Iterator[str]:
    """Names of the layers in ``[layer, node, tensor]``, or in lists and objects of them."""
    match value:
        case [str(name), int(), int(), *_]:
            yield name[:MAX_NAME_CHARACTERS]
        case list() | dict() if depth:
            for each in value.values() if isinstance(value, dict) else value:
                yield from _ends(each, depth - 1)


def _with_shapes(outline: Graph, given: Mapping[str, list[int]], why: str) -> Graph:
    """The outline with the inputs' shapes, every cost unknown because of `why`."""
    tensors = {
        name: replace(tensor, shape=tuple(given.get(name, ()))) if name in given else tensor
        for name, tensor in outline.tensors.items()
    }
    operators = tuple(replace(each, unknown_because=why) for each in outline.operators)
    return replace(outline, tensors=tensors, operators=operators, metadata={**outline.metadata, "unobserved": why})
