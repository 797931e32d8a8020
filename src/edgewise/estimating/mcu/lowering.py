"""An int8 network as C: a call of CMSIS-NN or of our own kernels per operator, constants in a binary file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgewise.estimating.mcu.cmsis import CMSIS_NN
from edgewise.estimating.mcu.emit import CanNotLower, Emitter, OperatorRefused, refuse
from edgewise.estimating.mcu.folding import is_folded
from edgewise.estimating.mcu.moving import MOVING
from edgewise.estimating.mcu.network import IntNetwork, IntOperator
from edgewise.estimating.mcu.portable import PORTABLE
from edgewise.estimating.mcu.stateful import STATEFUL
from edgewise.model.flex import flex_words

LOWERINGS = {**CMSIS_NN, **MOVING, **PORTABLE, **STATEFUL}
"""How each supported operator is lowered, by its code."""
_MOST = 5
_NOT_SUPPORTED = "not supported"
_QUANTISE = (
    "quantise the model to int8: 'edgewise convert MODEL --precision int8 --data DATA', or with a check of its "
    "accuracy and speed 'edgewise optimize MODEL --data DATA --task TASK -d DEVICE'"
)
_HYBRID = (
    "only the weights are {}: quantise the activations, too, from the float model, "
    "with 'edgewise optimize FLOAT_MODEL --data DATA --task TASK -d DEVICE'"
)
_PARTS = "quantise the operators between DEQUANTIZE and QUANTIZE, too, or compute them outside of the model"
_OTHER = "quantise activations to int8: of other integers only the model's uint8 inputs and outputs are supported"
_REPLACE = "replace these operators, or compute them outside of the model"


@dataclass(slots=True)
class Lowered:
    """C code of a network.

    Attributes:
        calls: one statement per operator, in order; "" where there is nothing to execute.
        kernels: what executes each: ``CMSIS-NN``, ``C``, or "".
        constants: the bytes that ``ew_constants`` holds.
        reset: statements that give all states their first values.
    """

    calls: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    reset: str = ""


def lower(network: IntNetwork, offsets: Mapping[int, int]) -> Lowered:
    """Return the C code of `network`.

    Args:
        offsets: index of an activation → its place in the arena, bytes.

    Raises:
        CanNotLower: with all operators that can't be lowered, and the reasons.
    """
    if not network.operators:
        raise CanNotLower("the model has no operators")
    emitter, lowered = Emitter(offsets), Lowered()
    refused: dict[str, list[IntOperator]] = defaultdict(list)
    for operator in network.operators:
        if is_folded(operator):
            lowered.calls.append("")
            continue
        try:
            if operator.code not in LOWERINGS:
                raise refuse(operator, _NOT_SUPPORTED)
            with np.errstate(all="ignore"):  # an infinite scale becomes a refusal
                call = LOWERINGS[operator.code](emitter, operator)
        except OperatorRefused as error:
            refused[error.why].append(operator)
        except (CanNotLower, ValueError, LookupError, TypeError, ArithmeticError) as error:
            refused[f"has shapes or options that can't be: {error}"].append(operator)
        else:
            lowered.calls.append(call)
    if refused:
        reasons = [_reason(why, operators, of=len(network.operators)) for why, operators in refused.items()]
        reasons.sort(key=lambda reason: not reason.startswith(_NOT_SUPPORTED))
        more = [f"and {len(reasons) - _MOST} more reasons"] if len(reasons) > _MOST else []
        advice = advice_of(network) or (_REPLACE if _NOT_SUPPORTED in refused else "")
        raise CanNotLower("; ".join(reasons[:_MOST] + more), advice=advice)
    lowered.constants = emitter.constants
    lowered.kernels = [
        "" if not call else "CMSIS-NN" if operator.code in CMSIS_NN else "C"
        for operator, call in zip(network.operators, lowered.calls, strict=True)
    ]
    lowered.reset = " ".join(
        f"ew_fill({emitter.at(each)}, {each.zero_point if each.dtype == 'int8' else 0}, {each.bytes});"
        for each in network.variables
    )
    return lowered


def _reason(why: str, operators: Sequence[IntOperator], *, of: int) -> str:
    """Return `why` these operators, of as many in the model, can't be lowered."""
    codes = dict.fromkeys(operator.code for operator in operators)
    if why == _NOT_SUPPORTED:
        places = {code: ", ".join(str(each.index) for each in operators if each.code == code) for code in sorted(codes)}
        return f"{why}: {', '.join(f'{code} (operator {places[code]})' for code in places)}"
    if len(operators) == 1:
        return OperatorRefused(operators[0], why).message
    code, *others = codes
    more = f" and {len(others)} other {'type' if len(others) == 1 else 'types'}" if others else ""
    count = f"{of}" if len(operators) == of else f"{len(operators)} of {of}"
    return f"each of {count} operators ({code}{more}; the first is operator {operators[0].index}) {why}"


def advice_of(network: IntNetwork) -> str:
    """Return what to do about operators of TensorFlow itself, or that don't compute in int8; "" where there are
    none.
    """
    if words := flex_words(" ".join(operator.code for operator in network.operators), "tflite-micro"):
        return words.rpartition("; ")[2]
    found: set[str] = set()
    weights: set[str] = set()
    for operator in network.operators:
        tensors = [each for each in operator.inputs if each is not None]
        types = {each.dtype for each in tensors if each.data is None}
        if operator.code not in ("QUANTIZE", "DEQUANTIZE"):
            found |= types
            weights |= {each.dtype for each in tensors if each.data is not None and "float32" in types}
    if "float32" in found:
        narrow = weights & {"int8"} | found & {"int4"}  # no activation is int4, and its constants are not read
        return _PARTS if "int8" in found else _HYBRID.format(" and ".join(sorted(narrow))) if narrow else _QUANTISE
    return _OTHER if found & {"int16", "uint8"} else ""
