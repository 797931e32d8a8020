"""Keras models (``.keras``): a zip archive of ``metadata.json``, ``config.json`` and weights that stay unread.

The format is described at https://keras.io/guides/serialization_and_saving/. Keras itself builds the layers from the
configuration, in a process with limits and in its safe mode. A file with Python code in it (``Lambda`` layers) or with
classes of somebody's own is refused before: nothing of a file is run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgewise.errors import BadModel, Unavailable
from edgewise.model.graph import Graph
from edgewise.model.keras_code import ADVICE, find_code
from edgewise.model.readers.archive import first_name, looks_zipped, open_archive
from edgewise.model.readers.base import SelfContained, check_shapes, damaged, sign_graph
from edgewise.model.readers.isolated import NoAnswer, Refused, ask_engine, parse_shape, refuse_shapes
from edgewise.model.readers.keras_graph import build_graph
from edgewise.model.signature import Shape, Signature

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
        """Return inputs with their batch, which is open as a rule, and outputs."""
        return sign_graph(path, self.read_graph(path))

    def read_graph(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """Return the network as Keras builds it from its configuration, models in models taken apart.

        As `read_document`.
        """
        with open_archive(path) as archive:
            document = archive.read_json(_CONFIG)
            metadata = archive.read_json(_METADATA) if _METADATA in archive.names else {}
        version = str(metadata.get("keras_version", ""))[:40]
        return read_document(path, document, shapes=shapes, version=version)


def read_document(
    path: Path, document: Mapping[str, Any], *, shapes: Mapping[str, tuple[int, ...]] | None = None, version: str = ""
) -> Graph:
    """Return the graph of a model's configuration.

    Args:
        path: the file it is from, for messages.
        document: what ``keras.saving.serialize_keras_object(model)`` gives.
        shapes: as `ReadsGraph.read_graph` has them.
        version: of Keras.

    Raises:
        BadModel: it has code or custom classes, does not describe its layers, or Keras can't build it.
        Unavailable: Keras, or a backend of it, is not installed.
        BadInput: as `ReadsGraph.read_graph` says.
    """
    if found := find_code(document):
        raise damaged(path, found[0], advice=found[1])
    check_shapes(_find_inputs(path, document), shapes or {})
    if (backend := _choose_backend()) is None:
        raise Unavailable(
            f"{path.name} is read by Keras, which needs one of JAX, PyTorch and TensorFlow", advice="pip install jax"
        )
    given = {name: list(shape) for name, shape in (shapes or {}).items()}
    try:
        answer = ask_engine(
            WORKER, None, {"document": dict(document), "shapes": given}, package="keras", title="Keras",
            extra="keras", purpose="the layers of a Keras model", environment={"KERAS_BACKEND": backend},
        )  # fmt: skip
    except NoAnswer as error:
        if find_spec("keras") is None:
            raise Unavailable(f"{path.name} can't be read: {error}", advice="pip install 'edgewise[keras]'") from error
        raise damaged(path, str(error), advice=ADVICE) from error
    except Refused as error:
        raise refuse_shapes(shapes or {}, error) from error
    return build_graph(path, answer, version)


def _choose_backend() -> str | None:
    """Return the backend of Keras: as the user has set it, else the quickest that is installed; None: Keras has
    none.
    """
    if chosen := os.environ.get("KERAS_BACKEND"):
        return chosen
    found = next((name for name in _BACKENDS if find_spec(name) is not None), "")
    return None if find_spec("keras") is not None and not found else found


def _find_inputs(path: Path, document: Mapping[str, Any]) -> dict[str, Shape | None]:
    """Name of an input → its shape. Raises `BadModel` where the configuration does not list the layers."""
    options = document.get("config")
    layers = options.get("layers") if isinstance(options, dict) else None
    if not isinstance(layers, list):
        raise damaged(
            path,
            f"the layers of its class {str(document.get('class_name'))[:60]!r} exist only in its Python code",
            advice=ADVICE,
        )
    found: dict[str, Shape | None] = {}
    for layer in layers:
        match layer:
            case {"class_name": "InputLayer", "config": {"name": str(name), **config}}:
                found[name] = parse_shape(config.get("batch_shape", config.get("batch_input_shape")))
    return found
