"""OpenVINO and NNCF for passes: without their output, on a given number of threads."""

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
    """The ``openvino.Model`` at `path`. Raises `CannotApply` where OpenVINO does not take it."""
    import openvino

    core = openvino.Core()
    try:
        return core.read_model(str(path))
    except Exception as error:
        raise CannotApply(f"OpenVINO does not read the model: {_telling_line(error)}") from error


def convert_model(path: str | Path) -> Any:
    """The ``openvino.Model`` of the ONNX file at `path`, constants folded. Raises `CannotApply`.

    `read_model` would leave biases behind a Reshape, and NNCF corrects only those that are constants.
    """
    import openvino

    try:
        return openvino.convert_model(str(path))
    except Exception as error:
        raise CannotApply(f"OpenVINO does not read the model: {_telling_line(error)}") from error


def hidden_biases(model: Any) -> int:
    """How many biases of an ``openvino.Model`` NNCF does not see, because they are no plain constants."""
    sums = [each for each in model.get_ops() if each.get_type_name() == "Add"]
    return sum(
        each.input_value(0).get_node().get_type_name() in HEAVY
        and each.input_value(1).get_node().get_type_name() == "Reshape"
        for each in sums
    )


def save_model(model: Any, path: Path) -> Path:
    """Write an ``openvino.Model`` with weights as they are. Returns `path`, beside which the ``.bin`` lies."""
    import openvino

    openvino.save_model(model, str(path), compress_to_fp16=False)
    return path


def _telling_line(error: BaseException) -> str:
    """The first line of the engine's message that is no place in its source."""
    lines = [line.strip(" -") for line in str(error).splitlines()]
    noise = ("Exception from", "Check '", "FrontEnd API failed", "While validating")
    return next((line[:300] for line in lines if line and not line.startswith(noise)), first_line(error))
