"""Functions of an ONNX file, written out where they are called, for engines that read none (OpenVINO)."""

from __future__ import annotations

import mmap
from pathlib import Path

from edgewise.runtime.base import UnsupportedModel
from edgewise.wire import Damaged, read_fields

_FUNCTIONS = 25
"""Field number of the functions in onnx.ModelProto."""
_MOST_FIELDS = 100_000
_LARGE = 2**30
"""Bytes from which weights are written to a file of their own: a message holds at most 2 GiB."""


def has_functions(path: Path) -> bool:
    """Whether the file at `path` is a protobuf message with functions of ONNX; its messages are not parsed."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            fields = zip(range(_MOST_FIELDS), read_fields(data, 0, len(data)), strict=False)
            return any(number == _FUNCTIONS for _, (_, number, *_) in fields)
    except (OSError, ValueError, Damaged):
        return False


def write_inlined(path: Path, folder: Path) -> Path:
    """Write the model at `path` without functions to `folder`, and return its place there.

    Raises `UnsupportedModel` where the package onnx is missing or can't inline them.
    """
    try:
        import onnx
        from onnx import inliner
    except ImportError as error:
        raise UnsupportedModel("the engine reads no functions of ONNX; install onnx, which inlines them") from error
    try:
        model = inliner.inline_local_functions(onnx.load(str(path)))
        target = folder / "inlined.onnx"
        onnx.save(model, str(target), save_as_external_data=model.ByteSize() > _LARGE, location="inlined.data")
    except Exception as error:  # protobuf's and the inliner's own
        raise UnsupportedModel(f"its functions can't be inlined: {error}") from error
    return target
