"""Options of OpenVINO layers: text in the file, plain values for formulas, JSON-shaped values for people; and ranks."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.model.dialects.openvino import is_known
from edgewise.model.graph import Tensor
from edgewise.model.readers.openvino_layers import IrLayer

_MAX_SHOWN_CHARACTERS = 200
_MAX_SHOWN_PORTS = 64


def read_option(text: str) -> Any:
    """An option as a plain value: bool, int, float, a tuple of numbers, else the text itself."""
    word = text.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    numbers = [_read_number(part.strip()) for part in word.split(",")]
    if any(number is None for number in numbers):
        return text
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def _read_number(word: str) -> int | float | None:
    if re.fullmatch(r"[+-]?[0-9]{1,19}", word, re.ASCII):
        return int(word)
    if re.fullmatch(r"[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,4})?", word, re.ASCII):
        number = float(word)
        return number if math.isfinite(number) else None
    return None


def read_version(text: str) -> int:
    """Of ``opset13``; 0 for other sets."""
    found = re.fullmatch(r"opset([0-9]{1,4})", text, re.ASCII)
    return int(found.group(1)) if found else 0


def show_text(text: str) -> str:
    """Short texts as they are, long ones by their length."""
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{len(text)} characters"


def show_attributes(layer: IrLayer, options: Mapping[str, Any]) -> dict[str, Any]:
    """JSON-shaped: options, the layer's operator set, what converters noted (``rt_info``), how bodies are connected."""
    shown: dict[str, Any] = {}
    for key, value in options.items():
        if isinstance(value, str):
            shown[key] = show_text(value)
        elif isinstance(value, tuple):
            shown[key] = list(value) if len(value) <= _MAX_SHOWN_PORTS else f"{len(value)} numbers"
        else:
            shown[key] = value
    if layer.version:
        shown["version"] = layer.version
    if layer.runtime_info:
        shown["rt_info"] = {key: show_text(value) for key, value in layer.runtime_info.items()}
    for name, entries in layer.maps.items():
        shown[name] = [dict(entry) for entry in entries[:_MAX_SHOWN_PORTS]]
    if layer.back_edges:
        shown["back_edges"] = [list(edge) for edge in layer.back_edges[:_MAX_SHOWN_PORTS]]
    return shown


_BY_BODY = {"If", "Loop", "TensorIterator", "ReadValue"}
_BY_VALUE = {"Reshape", "Squeeze", "Unsqueeze", "Broadcast", "Tile", "StridedSlice", "RandomUniform", "Pad"}
"""Layers whose output has as many dimensions as the values of their further inputs say."""


def is_scalar(layer: IrLayer, inputs: Sequence[Tensor]) -> bool:
    """Whether an output without dimensions is a scalar for certain: its rank follows from known ones.

    The file writes a scalar and an unknown rank alike, as a port without dimensions.
    """
    if not is_known(layer.type) or layer.type in _BY_BODY or any(tensor.shape is None for tensor in inputs):
        return False
    if layer.type in _BY_VALUE or layer.type.startswith("Reduce"):
        # Without axes Squeeze takes those dimensions that turn out to be 1.
        return (len(inputs) > 1 or inputs[0].elements == 1 if inputs else False) and all(
            tensor.constant for tensor in inputs[1:]
        )
    return True
