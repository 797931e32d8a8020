"""What ONNX's operators mean, in the standard set and in those of its runtime, each set a table.

Inputs that are parameters are named by position. Integers that take part in arithmetic or are moved about are shapes,
indices and counters, so they are no parameters; those that a network multiplies or dequantises are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgewise.model.dialects import (
    onnx_arithmetic,
    onnx_attention,
    onnx_contrib,
    onnx_ml,
    onnx_network,
    onnx_recurrent,
    onnx_signal,
)
from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.onnx_options import Rule, Unclear, input_at

OPERATORS: Mapping[str, Mapping[str, Rule]] = {
    "": {
        **onnx_arithmetic.TABLE,
        **onnx_network.TABLE,
        **onnx_recurrent.TABLE,
        **onnx_attention.TABLE,
        **onnx_signal.TABLE,
    },
    "ai.onnx.ml": onnx_ml.CLASSICAL,
    "ai.onnx.preview": onnx_ml.PREVIEW,
    "ai.onnx.preview.training": onnx_ml.TRAINING,
    "com.microsoft": onnx_contrib.MICROSOFT,
    "com.microsoft.nchwc": onnx_contrib.BLOCKED,
}
"""Operator set → operator → what it means. ``ai.onnx`` is the other name of the standard set ""."""

_BOOKKEEPING = frozenset({"int32", "int64", "uint32", "uint64", "bool", "string"})
_PLAIN = frozenset({"elementwise", "activation", "movement"})


def interpret(raw: RawOperator) -> Semantics:
    """What an operator is; an unknown one has no kind, and one that contradicts its definition says how.

    Options, shapes and constants are a file's: whatever they are, there is an answer and no exception.
    """
    domain = "" if raw.domain == "ai.onnx" else raw.domain
    rule = OPERATORS.get(domain, {}).get(raw.op)
    if rule is None:
        return Semantics()
    try:
        semantics = rule if isinstance(rule, Semantics) else rule(raw)
    except Unclear as contradiction:
        return Semantics(why=str(contradiction))
    weights = tuple([at for at in semantics.weights if _is_parameter(raw, semantics, at)])
    return semantics if weights == semantics.weights else replace(semantics, weights=weights)


def _is_parameter(raw: RawOperator, semantics: Semantics, at: int) -> bool:
    tensor = input_at(raw, at)
    return tensor is not None and not (semantics.kind in _PLAIN and tensor.dtype in _BOOKKEEPING)
