"""Keras models (``.keras``): a zip archive of ``metadata.json``, ``config.json`` and weights that stay unread.

The format is described at https://keras.io/guides/serialization_and_saving/. Neither Keras nor any code of a model is
run: shapes and parameters follow from the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from edgewise.errors import BadInput, BadModel
from edgewise.model.graph import Graph
from edgewise.model.readers.archive import first_name, looks_zipped, open_archive
from edgewise.model.readers.base import damaged, make_signature
from edgewise.model.readers.keras_config import Layer, Shape, Wrong, read_layer, read_policy, read_shape
from edgewise.model.readers.keras_graph import Workshop
from edgewise.model.readers.keras_models import input_shape, is_input, put_to_work, references_of, sequence_of
from edgewise.model.signature import Signature, TensorSpec

_CONFIG, _METADATA = "config.json", "metadata.json"
_WEIGHTS = ("model.weights.h5", "model.weights.npz")


class KerasReader:
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
        """Inputs with their batch, which is open as a rule, and outputs."""
        graph = self.read_graph(path)
        inputs, outputs = (
            [
                TensorSpec(
                    name=graph.tensors[name].name, shape=graph.tensors[name].shape, dtype=graph.tensors[name].dtype
                )
                for name in names
            ]
            for names in (graph.inputs, graph.outputs)
        )
        return make_signature(path, inputs=inputs, outputs=outputs)

    def weight_files(self, path: Path) -> tuple[Path, ...]:
        """None: weights are in the archive."""
        del path
        return ()

    def read_graph(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """The network as its configuration describes it, models in models taken apart."""
        with open_archive(path) as archive:
            document = archive.read_json(_CONFIG)
            metadata = archive.read_json(_METADATA) if _METADATA in archive.names else {}
        version = str(metadata.get("keras_version", ""))[:40]
        return build_keras_graph(path, document, shapes=shapes, version=version)


def build_keras_graph(
    path: Path, document: Mapping[str, Any], *, shapes: Mapping[str, tuple[int, ...]] | None = None, version: str = ""
) -> Graph:
    """The graph of a model's configuration.

    Args:
        path: the file it is from, for messages.
        document: what ``keras.saving.serialize_keras_object(model)`` gives.
        shapes: as `ReadsGraph.read_graph` has them.
        version: of Keras.

    Raises:
        BadModel: it is no model whose layers are in its configuration, or is inconsistent.
        BadInput: as `ReadsGraph.read_graph` says.
    """
    try:
        model = read_layer(document)
        if not isinstance(model.options.get("layers"), list):
            _refuse_class(path, model)
        shop = Workshop(models=put_to_work)
        names = [shop.add_input(*each) for each in _fit(_declare_inputs(model), shapes or {})]
        outputs = put_to_work(shop, model, names, "")
    except Wrong as error:
        raise damaged(path, str(error)) from error
    except RecursionError as error:
        raise damaged(path, "its layers are nested too deeply") from error
    if not outputs:
        raise damaged(path, "it has no outputs")
    producer = f"Keras {version}".strip()
    return Graph(
        name=model.name, format="keras", producer=producer, tensors=shop.tensors, operators=tuple(shop.operators),
        inputs=tuple(names), outputs=outputs, subgraphs=shop.subgraphs, metadata={"class": model.kind[:200]},
    )  # fmt: skip


def _refuse_class(path: Path, model: Layer) -> NoReturn:
    raise damaged(
        path,
        f"it is a model of the class {model.kind[:60]!r}, whose layers are in its Python code",
        advice="edgewise runs no code of a file: give the function that makes it (--build module:function), or ONNX",
    )


def _declare_inputs(model: Layer) -> list[tuple[str, Shape, str]]:
    """Name, shape and type of every input of a whole model. Raises `Wrong`."""
    if "input_layers" in model.options:
        layers = {layer.name: layer for layer in map(read_layer, model.options["layers"])}
        return [_declare(name, layers.get(name)) for name, _, _ in references_of(model.options["input_layers"])]
    layers_in_order = sequence_of(model)
    first = layers_in_order[0] if layers_in_order else None
    shape = input_shape(first) if first is not None else None
    if first is not None and shape is not None:
        name = first.name if is_input(first) else f"{first.name}_input"
        return [(name, shape, _type_of(first))]
    built = read_shape(model.options.get("build_input_shape"))
    if built is None:
        raise Wrong("it was saved before it was built, so that its input has no shape")
    return [("input", built, "float32")]


def _declare(name: str, layer: Layer | None) -> tuple[str, Shape, str]:
    shape = input_shape(layer) if layer is not None else None
    if layer is None or shape is None:
        raise Wrong(f"the input {name[:40]!r} has no shape")
    return name, shape, _type_of(layer)


def _type_of(layer: Layer) -> str:
    dtype = layer.options.get("dtype")
    return dtype[:40] if is_input(layer) and isinstance(dtype, str) else read_policy(dtype)[1]


def _fit(inputs: list[tuple[str, Shape, str]], shapes: Mapping[str, tuple[int, ...]]) -> list[tuple[str, Shape, str]]:
    """Inputs with the shapes that were asked for in the place of open ones. Raises `BadInput`."""
    names = [name for name, _, _ in inputs]
    for name in shapes:
        if name not in names:
            raise BadInput(f"{name!r} is no input of the model", advice=f"its inputs are {', '.join(names)}")
    return [(name, _fit_one(name, shape, shapes.get(name)), dtype) for name, shape, dtype in inputs]


def _fit_one(name: str, shape: Shape, wanted: tuple[int, ...] | None) -> Shape:
    if wanted is None:
        return shape
    if len(wanted) != len(shape) or any(size not in (None, asked) for size, asked in zip(shape, wanted, strict=True)):
        raise BadInput(
            f"{name!r} can't have the shape {'x'.join(map(str, wanted))}",
            advice=f"it is {'x'.join('?' if size is None else str(size) for size in shape)}; only ? can be chosen",
        )
    return wanted
