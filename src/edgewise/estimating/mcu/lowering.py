"""An int8 network as C: a call of CMSIS-NN or of our own kernels per operator, constants in a binary file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from edgewise.estimating.mcu.cmsis import CMSIS_NN
from edgewise.estimating.mcu.emit import CanNotLower, Emitter
from edgewise.estimating.mcu.moving import MOVING
from edgewise.estimating.mcu.network import IntNetwork
from edgewise.estimating.mcu.portable import PORTABLE
from edgewise.estimating.mcu.stateful import STATEFUL

LOWERINGS = {**CMSIS_NN, **MOVING, **PORTABLE, **STATEFUL}
"""How each supported operator is lowered, by its code."""
_MOST = 5
_QUANTISE = "quantise the model to int8: 'edgewise optimize MODEL --data DATA'"


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
    """The C code of `network`.

    Args:
        offsets: index of an activation → its place in the arena, bytes.

    Raises:
        CanNotLower: with all operators that can't be lowered, and the reasons.
    """
    emitter, lowered = Emitter(offsets), Lowered()
    missing: dict[str, list[str]] = defaultdict(list)
    reasons: list[str] = []
    for operator in network.operators:
        make = LOWERINGS.get(operator.code)
        if make is None:
            missing[operator.code].append(str(operator.index))
            continue
        try:
            kernel, call = make(emitter, operator)
        except CanNotLower as error:
            reasons.append(error.message)
            continue
        except (ValueError, LookupError, TypeError, ArithmeticError) as error:
            reasons.append(f"operator {operator.index} ({operator.code}) has shapes or options that can't be: {error}")
            continue
        lowered.calls.append(call)
        lowered.kernels.append(kernel)
    if missing:
        listed = ", ".join(f"{code} (operator {', '.join(places)})" for code, places in sorted(missing.items()))
        reasons.insert(0, f"not supported: {listed}")
    if reasons:
        floats = any(each is not None and each.dtype == "float32" for each in network.operators[0].inputs)
        more = [f"and {len(reasons) - _MOST} more reasons"] if len(reasons) > _MOST else []
        raise CanNotLower("; ".join(reasons[:_MOST] + more), advice=_QUANTISE if floats else "")
    lowered.constants = emitter.constants
    lowered.reset = " ".join(
        f"ew_fill({emitter.at(each)}, {each.zero_point if each.dtype == 'int8' else 0}, {each.bytes});"
        for each in network.variables
    )
    return lowered
