"""Shared by the passes of OpenVINO and NNCF: import, reading and writing of models."""

from __future__ import annotations

import logging
from pathlib import Path
from types import ModuleType
from typing import Any

from edgewise.converting.base import telling_line
from edgewise.optimizing.libraries import CannotApply

HEAVY = ("Convolution", "GroupConvolution", "ConvolutionBackpropData", "MatMul")
"""Types of operations that are worth quantising."""


def import_nncf() -> ModuleType:
    """Return the package nncf, with nothing but errors in its log."""
    import nncf

    nncf.set_log_level(logging.ERROR)
    return nncf  # type: ignore[no-any-return]


def read_model(path: str | Path) -> Any:
    """Return the ``openvino.Model`` at `path`. Raises `CannotApply` if OpenVINO can't read it."""
    import openvino

    core = openvino.Core()
    try:
        return core.read_model(str(path))
    except Exception as error:
        raise CannotApply(f"OpenVINO does not read the model: {telling_line(error)}") from error


def hidden_biases(model: Any) -> int:
    """Return number of biases that NNCF does not find, because they are behind a Reshape."""
    sums = [each for each in model.get_ops() if each.get_type_name() == "Add"]
    return sum(
        each.input_value(0).get_node().get_type_name() in HEAVY
        and each.input_value(1).get_node().get_type_name() == "Reshape"
        for each in sums
    )


def save_model(model: Any, path: Path) -> Path:
    """Write an ``openvino.Model`` with unchanged weights, in a ``.bin`` beside `path`. Returns `path`."""
    import openvino

    openvino.save_model(model, str(path), compress_to_fp16=False)
    return path
