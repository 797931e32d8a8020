"""Operators with a state that lives from one inference to the next."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgewise.estimating.mcu.emit import (
    Emitter,
    Lowering,
    bias_of,
    check_int8,
    refuse,
    scale_of,
    scaled,
    weights_of,
)
from edgewise.estimating.mcu.network import IntOperator, IntTensor


def _copy(emitter: Emitter, operator: IntOperator, source: IntTensor, target: IntTensor) -> str:
    if not (source.variable or target.variable):
        raise refuse(operator, "uses a state that no operator assigns")
    if source.bytes != target.bytes or source.dtype != target.dtype:
        raise refuse(operator, "changes the size or type of the state")
    return f"ew_copy({emitter.at(source)}, {emitter.at(target)}, {target.bytes});"


def _read(emitter: Emitter, operator: IntOperator) -> str:
    return _copy(emitter, operator, operator.input(0), operator.outputs[0])


def _assign(emitter: Emitter, operator: IntOperator) -> str:
    return _copy(emitter, operator, operator.input(1), operator.input(0))


def _call_once(emitter: Emitter, operator: IntOperator) -> str:
    """Assign constants to states in the first inference."""
    calls = []
    for step in operator.body:
        if step.code not in ("VAR_HANDLE", "ASSIGN_VARIABLE") or (
            step.code == "ASSIGN_VARIABLE" and step.input(1).data is None
        ):
            raise refuse(operator, f"executes {step.code}; only constants can be assigned to states")
        if step.code == "ASSIGN_VARIABLE":
            calls.append(_assign(emitter, step))
    if not calls:
        return ""
    return f"static int32_t done; if (!done) {{ done = 1; {' '.join(calls)} }}"


def _svdf(emitter: Emitter, operator: IntOperator) -> str:
    """Return a filter in time: projections of the input enter a state, whose history is weighted and summed per
    unit.
    """
    source, features, times, (out,) = operator.input(0), weights_of(operator), operator.input(2), operator.outputs
    state, rank = operator.input(4), operator.options.get("rank", 0)
    check_int8(operator, source, out)
    if len(operator.inputs) < 4 or operator.inputs[3] is None:
        raise refuse(operator, "has no bias, which tflite-micro needs")
    filters, memory = times.shape
    batches, units = source.elements // features.shape[1], filters // max(rank, 1)
    if times.data is None or times.dtype != state.dtype or state.dtype not in ("int8", "int16") or not state.variable:
        raise refuse(operator, "has a state and weights in time that are not both int8 or both int16")
    if rank < 1 or features.shape[0] != filters or state.elements != batches * filters * memory:
        raise refuse(operator, f"has {filters} filters of rank {rank} and a state of {state.elements} elements")
    if out.elements != batches * units:
        raise refuse(operator, f"has an output of {out.elements} elements, not {batches * units}")
    if state.zero_point:
        raise refuse(operator, "has a state with a zero point, which versions of tflite-micro saturate differently")
    into = scaled(0, _ratio(source, features, state))
    by = scaled(out.zero_point, _ratio(state, times, out))
    return (
        f"ew_svdf_s8({emitter.at(source)}, {emitter.at(features)}, {emitter.at(times)}, "
        f"&(ew_filter){{{batches}, {features.shape[1]}, {units}, {rank}, {memory}, {state.bytes // state.elements}, "
        f"{source.zero_point}, {into}, {by}, {bias_of(emitter, operator, units, 3)}}}, {emitter.at(state)}, "
        f"{emitter.at(out)});"
    )


def _ratio(source: IntTensor, weights: IntTensor, out: IntTensor) -> float:
    # TFLite multiplies and divides the scales in float here.
    return float(np.float32(scale_of(source)) * np.float32(scale_of(weights)) / np.float32(scale_of(out)))


STATEFUL: Mapping[str, Lowering] = {
    "ASSIGN_VARIABLE": _assign,
    "CALL_ONCE": _call_once,
    "READ_VARIABLE": _read,
    "SVDF": _svdf,
    "VAR_HANDLE": lambda emitter, operator: "",
}
