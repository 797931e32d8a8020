"""Shared by the passes of OpenVINO and NNCF: import, reading and writing of models."""

from __future__ import annotations

import logging
from pathlib import Path
from types import ModuleType
from typing import Any

from edgewise.optimizing.libraries import CannotApply, first_line

HEAVY = ("Convolution", "GroupConvolution", "ConvolutionBackpropData", "MatMul")
"""Types of operations that are worth quantising."""


def import_nncf() -> ModuleType:
    """The package nncf, with nothing but errors in its log."""
    import nncf

    nncf.set_log_level(logging.ERROR)
    return nncf  # type: ignore[no-any-return]


def read_model(path: str | Path) -> Any:
    """The ``openvino.Model`` at `path`. Raises `CannotApply` if OpenVINO can't read it."""
    import openvino

    core = openvino.Core()
    try:
        return core.read_model(str(path))
    except Exception as error:
        raise CannotApply(f"OpenVINO does not read the model: {_telling_line(error)}") from error


def convert_model(path: str | Path) -> Any:
    """The ``openvino.Model`` of the ONNX file at `path`, constants folded. Raises `CannotApply`.

    `read_model` leaves biases behind a Reshape, and NNCF corrects only biases that are constants.
    """
    import openvino

    try:
        return openvino.convert_model(str(path))
    except Exception as error:
        raise CannotApply(f"OpenVINO does not read the model: {_telling_line(error)}") from error


def hidden_biases(model: Any) -> int:
    """Number of biases that NNCF does not find, because they are behind a Reshape."""
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


def _telling_line(error: BaseException) -> str:
    """The first line of the engine's message that is not a place in its source."""
    lines = [line.strip(" -") for line in str(error).splitlines()]
    noise = ("Exception from", "Check '", "FrontEnd API failed", "While validating")
    return next((line[:300] for line in lines if line and not line.startswith(noise)), first_line(error))
