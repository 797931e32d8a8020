"""ExecuTorch's programs (``.pte``): a flatbuffer whose identifier is ``ET12``, with segments of data behind it.

Every offset is checked before it is followed (`tflite_tables`), and no engine is needed. A method of a program is an
entry point. Inputs and outputs have no names in the file: they are called ``input_0``, ``output_0``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from edgewise.model.dialects.executorch import ExecuTorchMeanings
from edgewise.model.graph import Graph
from edgewise.model.readers.base import SelfContained, sign_graph
from edgewise.model.readers.executorch_graph import ProgramReader
from edgewise.model.readers.executorch_schema import LAYOUTS
from edgewise.model.readers.tflite_tables import Tables, open_tables
from edgewise.model.signature import Signature

_MARK = re.compile(rb".{4}ET\d\d", re.DOTALL)


class ExecuTorchReader(SelfContained):
    """Reads programs of ExecuTorch."""

    format = "executorch"
    title = "ExecuTorch"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether an identifier of ExecuTorch is there, be it of another version."""
        return _MARK.match(head) is not None

    def read_signature(self, path: Path) -> Signature:
        """Return inputs and outputs of the method that runs by default, ``forward`` or else the first."""
        return next(iter(self.read_signatures(path).values()))

    def read_signatures(self, path: Path) -> Mapping[str, Signature]:
        """Return the methods, the one that runs by default first."""
        with open_tables(path, LAYOUTS) as tables:
            reader = _open(tables)
            return {name: sign_graph(path, reader.read_method(name, {}, steps=False)) for name in reader.methods}

    def read_graph(
        self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None, signature: str | None = None
    ) -> Graph:
        """Return the method `signature`, by default the first of `read_signatures`, with the nodes that XNNPACK runs.

        Shapes of tensors that the program may resize are open: it has only their upper bounds.

        Raises:
            BadModel: it is damaged or absurdly large.
            BadInput: a name in `shapes` is no input, or a shape does not fit.
        """
        with open_tables(path, LAYOUTS) as tables:
            reader = _open(tables)
            return reader.read_method(signature or next(iter(reader.methods)), shapes or {})


def _open(tables: Tables) -> ProgramReader:
    reader = ProgramReader(tables, ExecuTorchMeanings())
    reader.open()
    return reader
