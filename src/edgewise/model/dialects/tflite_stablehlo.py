"""StableHLO's operators inside TFLite files, after https://openxla.org/stablehlo/spec."""

from __future__ import annotations

from edgewise.model.dialects.base import (
    RANDOM,
    RawOperator,
    Rule,
    Semantics,
    data_dependent,
    each,
    function,
    mean,
    moving,
    multiply,
    per_element,
    size_of,
    unknown,
)

_BODY = unknown("its computation per element is a separate graph")


def convolve(raw: RawOperator) -> Semantics:
    """STABLEHLO_CONVOLUTION: data and filter, whose dimensions' roles the options give.

    The filter's input channels are those of one group. Where the data are dilated it is a transposed convolution, which
    multiplies no inserted zeros.
    """
    options, filters = raw.attributes, raw.input(1)
    axes, inner = options.get("kernel_spatial_dimensions"), options.get("kernel_input_feature_dimension")
    outer, groups = options.get("kernel_output_feature_dimension"), options.get("feature_group_count") or 1
    if not isinstance(axes, tuple) or not isinstance(inner, int) or not isinstance(outer, int):
        return mean("convolution")
    window = multiply(*(size_of(filters, axis) for axis in axes))
    dilation = options.get("lhs_dilation") or ()
    if isinstance(dilation, tuple) and any(each > 1 for each in dilation):
        outputs = size_of(filters, outer)
        own = outputs // groups if outputs is not None and groups > 0 else None
        return mean("transposed-convolution", reduction=multiply(window, own), weights=(1,))
    channels = size_of(filters, inner)
    depthwise = channels == 1 and groups > 1
    return mean("convolution", reduction=multiply(window, channels), depthwise=depthwise, weights=(1,))


def multiply_matrices(raw: RawOperator) -> Semantics:
    """STABLEHLO_DOT_GENERAL: the product of the contracted dimensions of the left side is summed over."""
    axes = raw.attributes.get("lhs_contracting_dimensions")
    reduction = multiply(*(size_of(raw.input(0), axis) for axis in axes)) if isinstance(axes, tuple) else None
    return mean("matrix-multiplication", reduction=reduction, weights=(0, 1))


def _arithmetic(raw: RawOperator) -> Semantics:
    return per_element(2 if raw.op == "STABLEHLO_RSQRT" else 1, weights=raw.positions)  # root, divide


_ARITHMETIC = (
    "ADD SUBTRACT MULTIPLY DIVIDE MAXIMUM MINIMUM POWER REMAINDER ABS NEGATE FLOOR COSINE CBRT AND OR COMPARE CONVERT "
    "SHIFT_LEFT RSQRT"
)
_MOVEMENT = (
    "RESHAPE CONCATENATE BROADCAST_IN_DIM SLICE SELECT DYNAMIC_SLICE DYNAMIC_UPDATE_SLICE PAD IOTA GATHER TRANSPOSE"
)

_TABLE: dict[str, Rule] = {
    **each(_ARITHMETIC, _arithmetic),
    **each(_MOVEMENT, moving()),
    "LOGISTIC": function("sigmoid"),
    "TANH": function("tanh"),
    "EXPONENTIAL": function("exp"),
    "LOG": function("log"),
    "CLAMP": function("clamp"),
    "CONVOLUTION": convolve,
    "DOT_GENERAL": multiply_matrices,
    "SORT": data_dependent(),
    "WHILE": mean("loop"),
    **each("CASE COMPOSITE", mean("branch")),
    **each("REDUCE REDUCE_WINDOW SCATTER", _BODY),
    "CUSTOM_CALL": unknown("it calls a function outside the model"),
    "RNG_BIT_GENERATOR": RANDOM,
}

STABLEHLO = {f"STABLEHLO_{name}": rule for name, rule in _TABLE.items()}
"""Operator → its semantics."""
