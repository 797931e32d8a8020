"""PyTorch modules as their authors have them, which this process wrote: see `edgewise.model.eager`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from edgewise.errors import BadModel
from edgewise.model.eager import EAGER, SCHEMA, UNEXPORTED, graphs, read_document, read_specs
from edgewise.model.graph import Graph, Tensor
from edgewise.model.readers.base import make_signature
from edgewise.model.signature import Signature, shapes_fit

_BEGINNING = json.dumps({"schema": SCHEMA})[:-1].encode()


class EagerReader:
    """Reads modules that this process wrote; any other file of the format is refused."""

    format = EAGER
    title = "PyTorch module"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether it begins with the format's name."""
        return head.startswith(_BEGINNING)

    def read_signature(self, path: Path) -> Signature:
        """Return inputs and outputs of the example inputs. Raises `BadModel` for a file from elsewhere."""
        document = read_document(path)
        return make_signature(path, inputs=read_specs(document["inputs"]), outputs=read_specs(document["outputs"]))

    def weight_files(self, path: Path) -> tuple[Path, ...]:
        """Return the file with its weights. Raises `BadModel` for a file from elsewhere."""
        document = read_document(path)
        return (path.parent / (document.get("weights") or document["pickle"]),)

    def read_graph(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """Return the network as ``torch.export`` found it when the file was written; without operators where it
        found none.

        Its metadata then have the reason under `edgewise.model.eager.UNEXPORTED`. Raises `BadModel` for other shapes.
        """
        name = read_document(path)["name"]
        graph = graphs.get(hashlib.sha256(path.read_bytes()).hexdigest())
        if graph is None:
            return _without_layers(path)
        for key, shape in (shapes or {}).items():
            if key not in graph.tensors or not shapes_fit(graph.tensors[key].shape, shape):
                raise BadModel(f"the layers of {name} are known for its example inputs only", advice="omit ⟦batch⟧")
        return graph


def _without_layers(path: Path) -> Graph:
    """Return inputs and outputs without operators, and the reason."""
    document = read_document(path)
    inputs, outputs = (read_specs(document[noun]) for noun in ("inputs", "outputs"))
    tensors = {one.name: Tensor(name=one.name, shape=one.shape, dtype=one.dtype) for one in (*inputs, *outputs)}
    return Graph(
        name=document["name"],
        format=EAGER,
        tensors=tensors,
        operators=(),
        inputs=tuple(one.name for one in inputs),
        outputs=tuple(one.name for one in outputs),
        metadata={UNEXPORTED: document.get(UNEXPORTED) or "its layers were not exported"},
    )
