"""TensorFlow Lite and LiteRT: a flatbuffer whose identifier is ``TFL3``.

The schema is tensorflow/lite/schema/schema.fbs. Every offset is checked before it is followed (`tflite_tables`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from edgewise.model.graph import Graph
from edgewise.model.readers.base import SelfContained, Wrong, make_signature
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
        """Return inputs and outputs of the first subgraph, in its order and by its tensors' names; −1 is an
        open dimension.
        """
        with open_tables(path) as tables:
            model = tables.read_model()
            return _read_signature(tables, model, _default_entry(_entries(model)))

    def read_signatures(self, path: Path) -> Mapping[str, Signature]:
        """Return the file's signatures, one of the first subgraph first: that is what an interpreter runs."""
        with open_tables(path) as tables:
            model = tables.read_model()
            entries = _entries(model)
            first = _default_entry(entries)
            ordered = sorted(entries, key=lambda name: entries[name] != first)
            return {name: _read_signature(tables, model, entries[name]) for name in ordered}

    def read_graph(
        self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None, signature: str | None = None
    ) -> Graph:
        """Return the subgraph of `signature`, by default the first one, with the graphs that its operators run.

        Open dimensions stay open where `shapes` says nothing of the inputs; `tflite_shapes` says how far they are
        settled where it does. Weights are never copied; only constants of at most 1 KiB are read, for shapes and axes.

        Raises:
            BadModel: it is damaged, cyclic or absurdly large.
            BadInput: a name in `shapes` is no input, or a shape does not fit.
        """
        with open_tables(path) as tables:
            model = tables.read_model()
            entries = _entries(model)
            entry = _default_entry(entries) if signature is None else entries[signature]
            _read_signature(tables, model, entry)
            graph = read_network(tables, model, shapes=shapes or {}, entry=entry)
            return graph if signature is None else replace(graph, signature=signature)


def _entries(model: Table) -> dict[str, int]:
    """Name of a signature → its subgraph."""
    entries = {record["signature_key"]: record["subgraph_index"] for record in model["signature_defs"]}
    for name, at in entries.items():
        if at >= len(model["subgraphs"]):
            raise Wrong(f"its signature {name!r} refers to subgraph {at} of {len(model['subgraphs'])}")
    return entries


def _default_entry(entries: Mapping[str, int]) -> int:
    """Return the first subgraph, which an interpreter runs; where only others have names, that of the first
    signature.
    """
    return 0 if len(entries) < 2 or 0 in entries.values() else next(iter(entries.values()))


def _read_signature(tables: Tables, model: Table, entry: int = 0) -> Signature:
    if not model["subgraphs"]:
        raise Wrong("it has no subgraph")
    graph = model["subgraphs"][entry]
    reader = TensorReader(tables, model)

    def read_spec(index: int) -> TensorSpec:
        if not 0 <= index < len(graph["tensors"]):
            raise Wrong(f"it refers to tensor {index} of {len(graph['tensors'])}")
        record = graph["tensors"][index]
        name = record["name"] or f"tensor_{index}"
        dtype = DTYPES.get(record["type"], f"tflite-type-{record['type']}")
        return TensorSpec(name=name, shape=reader.read_shape(record, name), dtype=dtype)

    return make_signature(
        tables.path,
        inputs=[read_spec(index) for index in tables.numbers(graph["inputs"])],
        outputs=[read_spec(index) for index in tables.numbers(graph["outputs"])],
    )
