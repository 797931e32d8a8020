"""TensorFlow Lite and LiteRT: a flatbuffer whose identifier is ``TFL3``.

The schema is tensorflow/lite/schema/schema.fbs. Every offset is checked before it is followed (`tflite_tables`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgewise.model.graph import Graph
from edgewise.model.readers.base import SelfContained, damaged, make_signature
from edgewise.model.readers.tflite_graph import read_network
from edgewise.model.readers.tflite_schema import DTYPES
from edgewise.model.readers.tflite_tables import Table, Tables, open_tables
from edgewise.model.readers.tflite_tensors import TensorReader
from edgewise.model.signature import Signature, TensorSpec

IDENTIFIER = b"TFL3"


class TfliteReader(SelfContained):
    """Reads TFLite models."""

    format = "tflite"
    title = "TFLite"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the flatbuffer's identifier is there."""
        return head[4:8] == IDENTIFIER

    def read_signature(self, path: Path) -> Signature:
        """Inputs and outputs of the first subgraph, in its order and by its tensors' names; −1 is an open dimension."""
        with open_tables(path) as tables:
            return _read_signature(path, tables, tables.read_model())

    def read_graph(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """The first subgraph; the others are its `subgraphs`.

        Open dimensions stay open where `shapes` says nothing of the inputs; `tflite_shapes` says how far they are
        settled where it does. Weights are never copied; only constants of at most 1 KiB are read, for shapes and axes.

        Raises:
            BadModel: it is damaged, cyclic or absurdly large.
            BadInput: a name in `shapes` is no input, or a shape does not fit.
        """
        with open_tables(path) as tables:
            model = tables.read_model()
            _read_signature(path, tables, model)
            return read_network(path, tables, model, shapes=shapes or {})


def _read_signature(path: Path, tables: Tables, model: Table) -> Signature:
    if not model["subgraphs"]:
        raise damaged(path, "it has no subgraph")
    graph = model["subgraphs"][0]
    reader = TensorReader(path, tables, model)

    def read_spec(index: int) -> TensorSpec:
        if not 0 <= index < len(graph["tensors"]):
            raise damaged(path, f"it refers to tensor {index} of {len(graph['tensors'])}")
        record = graph["tensors"][index]
        name = record["name"] or f"tensor_{index}"
        dtype = DTYPES.get(record["type"], f"tflite-type-{record['type']}")
        return TensorSpec(name=name, shape=reader.read_shape(record, name), dtype=dtype)

    return make_signature(
        path,
        inputs=[read_spec(index) for index in tables.numbers(graph["inputs"])],
        outputs=[read_spec(index) for index in tables.numbers(graph["outputs"])],
    )
