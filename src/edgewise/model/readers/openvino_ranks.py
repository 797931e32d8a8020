"""Scalar or unknown rank: an OpenVINO IR writes both as a port without dimensions, and only the layer tells which."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.model.dialects.openvino import is_known
from edgewise.model.graph import Tensor
from edgewise.model.readers.openvino_layers import IrLayer

_BY_BODY = {"If", "Loop", "TensorIterator", "ReadValue"}
_BY_VALUE = {"Reshape", "Squeeze", "Unsqueeze", "Broadcast", "Tile", "StridedSlice", "RandomUniform", "Pad"}
"""Layers whose output has as many dimensions as the values of their further inputs say."""


def is_scalar(layer: IrLayer, inputs: Sequence[Tensor]) -> bool:
    """Whether an output without dimensions is a scalar for certain: its rank follows from known ones."""
    if not is_known(layer.type) or layer.type in _BY_BODY or any(tensor.shape is None for tensor in inputs):
        return False
    if layer.type in _BY_VALUE or layer.type.startswith("Reduce"):
        # Without axes Squeeze takes those dimensions that turn out to be 1.
        return (len(inputs) > 1 or inputs[0].elements == 1 if inputs else False) and all(
            tensor.constant for tensor in inputs[1:]
        )
    return True
