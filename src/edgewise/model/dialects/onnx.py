"""What ONNX's operators mean, in the standard set and in those of its runtime, each set a table.

Inputs that are parameters are named by position. Integers that take part in arithmetic or are moved about are shapes,
indices and counters, so they are no parameters; those that a network multiplies or dequantises are.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.model.dialects import (
    onnx_arithmetic,
    onnx_contrib,
    onnx_ml,
    onnx_network,
    onnx_sequence,
)
from edgewise.model.dialects.base import RawOperator, Rule, Semantics, apply, drop_indices

OPERATORS: Mapping[str, Mapping[str, Rule]] = {
    "": {
        **onnx_arithmetic.TABLE,
        **onnx_network.TABLE,
        **onnx_sequence.TABLE,
    },
    "ai.onnx.ml": onnx_ml.CLASSICAL,
    "ai.onnx.preview": onnx_ml.PREVIEW,
    "ai.onnx.preview.training": onnx_ml.TRAINING,
    "com.microsoft": onnx_contrib.MICROSOFT,
    "com.microsoft.nchwc": onnx_contrib.BLOCKED,
}
"""Operator set → operator → what it means. ``ai.onnx`` is the other name of the standard set ""."""


def interpret(raw: RawOperator) -> Semantics:
    """What an operator is; an unknown one has no kind, and one that contradicts its definition says how.

    Options, shapes and constants are a file's: whatever they are, there is an answer and no exception.
    """
    domain = "" if raw.domain == "ai.onnx" else raw.domain
    return drop_indices(raw, apply(OPERATORS.get(domain, {}).get(raw.op), raw))
