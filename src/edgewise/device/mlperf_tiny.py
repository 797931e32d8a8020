"""The firmware of a board at a serial port, as an engine: the model is in the board, and samples go there one by one.

`bench` times windows of inferences by the board's own timer (`edgewise.run.board`); a session here serves `evaluate`.
Its workers run on this machine, so that this module is not among those that are sent to devices.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgewise.device.board import Board, encoding_of
from edgewise.device.transports.serial import ENVIRONMENT_VARIABLE
from edgewise.errors import as_flag
from edgewise.model.signature import TensorSpec
from edgewise.runtime.base import LoadOptions, OnDevices, Provider, UnsupportedModel

INFERENCE_S = 120.0


class MlperfTiny(OnDevices):
    """Boards whose firmware speaks the protocol of MLPerf Tiny's runner."""

    name = "mlperf_tiny"
    executor = "serial-board"
    title = "MLPerf Tiny firmware"
    formats = ("tflite",)
    providers = (Provider(name="firmware", title="the firmware of the board", precisions=()),)
    where, hint = "it measures boards at a serial port", f"name one with {as_flag('device', 'serial:///dev/ttyACM0')}"

    def import_engine(self) -> str:
        """No version: the firmware is the engine."""
        return ""

    def load(self, path: Path, options: LoadOptions) -> BoardSession:
        """Return a session with the board in ``EDGEWISE_BOARD``; `path` only tells what the board should hold."""
        told = os.environ.get(ENVIRONMENT_VARIABLE)
        if told is None:
            raise UnsupportedModel(f"{path.name} runs on boards only: ⟦device=serial:///dev/ttyACM0⟧")
        where = json.loads(told)
        board = Board(where["port"], where["baud"])
        board.greet()
        return BoardSession(board, options, encoding_of(board.model, where["encoding"]))


class BoardSession:
    """A session as `edgewise.runtime.base.Session`; the output is one row of numbers, as ``m-results`` lists them."""

    def __init__(self, board: Board, options: LoadOptions, encoding: str) -> None:
        self.inputs: Sequence[TensorSpec] = [
            TensorSpec(name=name, shape=shape, dtype=options.dtypes[name]) for name, shape in options.shapes.items()
        ]
        self.outputs: Sequence[TensorSpec] = [TensorSpec(name="m-results", shape=(1, None), dtype="float32")]
        self.effective: Mapping[str, Any] = {"provider": "firmware", "precision": None, "threads": None}
        self._board = board
        self._encoding = encoding
        self._data = b""
        self._results: Sequence[float] = ()

    def bind(self, arrays: Sequence[Any]) -> None:
        """Keep the inputs for the next `invoke`."""
        self._data = encode(arrays, self._encoding)

    def invoke(self) -> None:
        """Send the inputs to the board and make one inference."""
        self._board.load(self._data)
        self._results = self._board.infer(1, warmup=0, seconds=INFERENCE_S).results

    def read_outputs(self) -> Sequence[Any]:
        """Return the numbers of the last ``m-results``, float32, shape (1, numbers)."""
        import numpy as np

        return [np.array([self._results or self._board.results()], np.float32)]

    def close(self) -> None:
        """Close the port."""
        self._board.close()


def encode(arrays: Sequence[Any], encoding: str) -> bytes:
    """Return all inputs' bytes as the board takes them; ``uint8`` is int8 + 128. Raises `UnsupportedModel`."""
    kinds = {str(array.dtype) for array in arrays}
    takes = {"float32": {"float32"}, "uint8": {"int8", "uint8"}}.get(encoding, kinds)
    if not kinds <= takes:
        raise UnsupportedModel(f"the board takes {encoding} inputs and the model {', '.join(sorted(kinds))}")
    if encoding == "uint8":
        arrays = [array.view("uint8") ^ 0x80 if str(array.dtype) == "int8" else array for array in arrays]
    return b"".join(array.tobytes() for array in arrays)
