"""Configurations of Keras models for tests, as Keras writes them; what they say is up to the test."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any


def layer(kind: str, name: str, *, module: str = "keras.layers", **options: Any) -> dict[str, Any]:
    return {
        "module": module,
        "class_name": kind,
        "config": {"name": name, **options},
        "registered_name": None,
        "name": name,
    }


def start(name: str, *shape: int | None, dtype: str = "float32") -> dict[str, Any]:
    return layer("InputLayer", name, batch_shape=list(shape), dtype=dtype)


def taken(name: str, shape: list[int | None] | None = None, node: int = 0, at: int = 0) -> dict[str, Any]:
    return {
        "class_name": "__keras_tensor__",
        "config": {"shape": shape, "dtype": "float32", "keras_history": [name, node, at]},
    }


def calls(document: dict[str, Any], *arguments: list[Any], **keywords: Any) -> dict[str, Any]:
    return {**document, "inbound_nodes": [{"args": each, "kwargs": keywords} for each in arguments]}


def sequential(*layers: dict[str, Any], name: str = "net", **options: Any) -> dict[str, Any]:
    return {
        "module": "keras",
        "class_name": "Sequential",
        "config": {"name": name, "layers": list(layers), **options},
        "name": name,
    }


def functional(layers: list[Any], inputs: Any, outputs: Any, name: str = "net") -> dict[str, Any]:
    layers = [{"inbound_nodes": [], **each} for each in layers]
    options = {"name": name, "layers": layers, "input_layers": inputs, "output_layers": outputs}
    return {"module": "keras.src.models.functional", "class_name": "Functional", "config": options, "name": name}


def small() -> dict[str, Any]:
    """x [n, 8] twice through one Dense, added, then softmax."""
    dense = calls(layer("Dense", "twin", units=4, activation="relu"), [taken("a", [None, 8])], [taken("b", [None, 8])])
    return functional(
        [
            start("a", None, 8), start("b", None, 8), dense,
            calls(layer("Add", "sum"), [[taken("twin", [None, 4]), taken("twin", [None, 4], node=1)]]),
            calls(layer("Dense", "head", units=3, activation="softmax"), [taken("sum", [None, 4])]),
        ],
        [["a", 0, 0], ["b", 0, 0]], ["head", 0, 0],
    )  # fmt: skip


def write(path: Path, document: Any, *, compression: int = zipfile.ZIP_STORED) -> Path:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("metadata.json", '{"keras_version": "3.9.0"}')
        archive.writestr("config.json", content)
        archive.writestr("model.weights.h5", b"\x89HDF\r\n\x1a\n not read")
    return path
