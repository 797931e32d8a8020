"""Operators that compute shapes: their values are known before an inference, so C code needs none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import BadModel
from edgewise.estimating.mcu.emit import CanNotLower, OperatorRefused, numbers
from edgewise.estimating.mcu.moving import strided
from edgewise.estimating.mcu.network import IntNetwork, IntOperator, IntTensor

Values = NDArray[Any]
_SHAPE_TYPES = ("int32", "int64")


def _data(operator: IntOperator) -> list[Values]:
    """Return the values of all inputs. Raises LookupError where one is no constant."""
    found = [each.data for each in operator.inputs if each is not None]
    if any(values is None for values in found):
        raise LookupError
    return [values for values in found if values is not None]


def _take(operator: IntOperator) -> Values:
    values, places = _data(operator)
    if operator.options.get("batch_dims"):
        raise LookupError
    return np.take(values, places, axis=operator.options.get("axis", 0))


def _product(operator: IntOperator) -> Values:
    return np.asarray(np.prod(_data(operator)[0], axis=tuple(numbers(operator, 1))))


_FOLDS: Mapping[str, Callable[[IntOperator], Values]] = {
    "SHAPE": lambda operator: np.array(operator.input(0).shape),
    "STRIDED_SLICE": lambda operator: strided(operator, _data(operator)[0]),
    "PACK": lambda operator: np.stack(_data(operator), axis=operator.options.get("axis", 0)),
    "CONCATENATION": lambda operator: np.concatenate(_data(operator), axis=operator.options.get("axis", 0)),
    "GATHER": _take,
    "REDUCE_PROD": _product,
    "ADD": lambda operator: np.add(*_data(operator)),
    "SUB": lambda operator: np.subtract(*_data(operator)),
    "MUL": lambda operator: np.multiply(*_data(operator)),
    "CAST": lambda operator: _data(operator)[0],
    "RESHAPE": lambda operator: _data(operator)[0],
    "SQUEEZE": lambda operator: _data(operator)[0],
    "EXPAND_DIMS": lambda operator: _data(operator)[0],
}


def tell_folded(operators: Sequence[str]) -> tuple[str, ...]:
    """Return what to say of `operators`, by their codes, of which nothing is executed; nothing without any."""
    if not operators:
        return ()
    names = ", ".join(dict.fromkeys(operators))
    return (
        f"Shapes that do not change are constants here: nothing is executed for {names}, and the time that "
        "tflite-micro takes for them is not included.",
    )


def is_folded(operator: IntOperator) -> bool:
    """Whether all outputs of `operator` are known before an inference."""
    return bool(operator.outputs) and all(each.data is not None for each in operator.outputs)


def fold_shapes(network: IntNetwork) -> IntNetwork:
    """`network` with the results of integer operators on shapes and constants as constants.

    Every operator stays in its place; one that was folded has only constant outputs.
    """
    known: dict[int, IntTensor] = {}
    operators = []
    for operator in network.operators:
        ready = replace(operator, inputs=tuple(each and known.get(each.index, each) for each in operator.inputs))
        made = _fold(ready)
        known |= {made.index: made} if made else {}
        operators.append(replace(ready, outputs=(made,)) if made else ready)
    return replace(network, operators=tuple(operators))


def _fold(operator: IntOperator) -> IntTensor | None:
    """Return the output of `operator` with its values; None where they are not known before an inference."""
    if operator.code not in _FOLDS or len(operator.outputs) != 1 or operator.outputs[0].dtype not in _SHAPE_TYPES:
        return None
    (out,) = operator.outputs
    try:
        values = _FOLDS[operator.code](operator)
        return replace(out, data=values.astype(out.dtype).reshape(out.shape))
    except (LookupError, ValueError, TypeError, OperatorRefused, CanNotLower, BadModel):
        return None
