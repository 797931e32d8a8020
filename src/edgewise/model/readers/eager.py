"""PyTorch modules as their authors have them, which this process wrote: see `edgewise.model.eager`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from edgewise.errors import BadModel
from edgewise.model.eager import EAGER, SCHEMA, graphs, read_document, read_specs
from edgewise.model.graph import Graph
from edgewise.model.readers.base import make_signature
from edgewise.model.signature import Signature, shapes_fit

_BEGINNING = json.dumps({"schema": SCHEMA})[:-1].encode()


class EagerReader:
    """Reads modules that this process wrote; any other file of the format is refused."""

    format = EAGER
    title = "PyTorch module"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether it begins with the format's name."""
        del path
        return head.startswith(_BEGINNING)

    def read_signature(self, path: Path) -> Signature:
        """Inputs and outputs of the example inputs. Raises `BadModel` for a file from elsewhere."""
        document = read_document(path)
        return make_signature(path, inputs=read_specs(document["inputs"]), outputs=read_specs(document["outputs"]))

    def weight_files(self, path: Path) -> tuple[Path, ...]:
        """The file with its weights. Raises `BadModel` for a file from elsewhere."""
        document = read_document(path)
        return (path.parent / (document.get("weights") or document["pickle"]),)

    def read_graph(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """The network as ``torch.export`` found it when the file was written. Raises `BadModel` where it found none."""
        name = read_document(path)["name"]
        graph = graphs.get(hashlib.sha256(path.read_bytes()).hexdigest())
        if graph is None:
            raise BadModel(f"the layers of {name} are unknown: torch.export can't export it", advice="see its error")
        for key, shape in (shapes or {}).items():
            if key not in graph.tensors or not shapes_fit(graph.tensors[key].shape, shape):
                raise BadModel(f"the layers of {name} are known for its example inputs only", advice="omit --batch")
        return graph
