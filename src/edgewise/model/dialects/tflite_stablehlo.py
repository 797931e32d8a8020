"""StableHLO's operators inside TFLite files, after https://openxla.org/stablehlo/spec."""

from __future__ import annotations

from collections.abc import Callable

from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.tflite_sizes import known, parameters, product, size_at

_BODY = "its computation per element is a separate graph"


def convolve(raw: RawOperator) -> Semantics:
    """STABLEHLO_CONVOLUTION: data and filter, whose dimensions' roles the options give.

    The filter's input channels are those of one group. Where the data are dilated it is a transposed convolution, which
    multiplies no inserted zeros.
    """
    options = raw.attributes
    axes, inner = options.get("kernel_spatial_dimensions"), options.get("kernel_input_feature_dimension")
    outer, groups = options.get("kernel_output_feature_dimension"), options.get("feature_group_count") or 1
    if not isinstance(axes, tuple) or not isinstance(inner, int) or not isinstance(outer, int):
        return Semantics(kind="convolution")
    window = product(*(size_at(raw, 1, axis) for axis in axes))
    weights = parameters(raw, 1)
    dilation = options.get("lhs_dilation") or ()
    if isinstance(dilation, tuple) and any(each > 1 for each in dilation):
        outputs = size_at(raw, 1, outer)
        reduction = product(window, outputs // groups if outputs is not None and groups > 0 else None)
        geometry = known(reduction=reduction, data=0, bias=False, activation="none")
        return Semantics(kind="transposed-convolution", geometry=geometry, weights=weights)
    channels = size_at(raw, 1, inner)
    depthwise = channels == 1 and groups > 1
    geometry = known(reduction=product(window, channels), depthwise=depthwise, bias=False, activation="none")
    return Semantics(kind="convolution", geometry=geometry, weights=weights)


def multiply(raw: RawOperator) -> Semantics:
    """STABLEHLO_DOT_GENERAL: the product of the contracted dimensions of the left side is summed over."""
    axes = raw.attributes.get("lhs_contracting_dimensions")
    reduction = product(*(size_at(raw, 0, axis) for axis in axes)) if isinstance(axes, tuple) else None
    geometry = known(reduction=reduction, bias=False, activation="none")
    return Semantics(kind="matrix-multiplication", geometry=geometry, weights=parameters(raw, 0, 1))


def _arithmetic(per_element: int = 1) -> Callable[[RawOperator], Semantics]:
    def read(raw: RawOperator) -> Semantics:
        geometry = {"per_element": per_element}
        return Semantics(kind="elementwise", geometry=geometry, weights=parameters(raw, *range(len(raw.inputs))))

    return read


def _activation(name: str) -> Callable[[RawOperator], Semantics]:
    return lambda raw: Semantics(kind="activation", geometry={"activation": name})


def _plain(kind: str, why: str = "") -> Callable[[RawOperator], Semantics]:
    return lambda raw: Semantics(kind=kind, why=why)


_ARITHMETIC = (
    "ADD SUBTRACT MULTIPLY DIVIDE MAXIMUM MINIMUM POWER REMAINDER ABS NEGATE FLOOR COSINE CBRT AND OR COMPARE CONVERT "
    "SHIFT_LEFT"
)
_MOVEMENT = (
    "RESHAPE CONCATENATE BROADCAST_IN_DIM SLICE SELECT DYNAMIC_SLICE DYNAMIC_UPDATE_SLICE PAD IOTA GATHER TRANSPOSE"
)

_TABLE: dict[str, Callable[[RawOperator], Semantics]] = {
    **dict.fromkeys(_ARITHMETIC.split(), _arithmetic()),
    **dict.fromkeys(_MOVEMENT.split(), _plain("movement")),
    "LOGISTIC": _activation("sigmoid"),
    "TANH": _activation("tanh"),
    "EXPONENTIAL": _activation("exp"),
    "LOG": _activation("log"),
    "CLAMP": _activation("clamp"),
    "RSQRT": _arithmetic(2),  # root, divide
    "CONVOLUTION": convolve,
    "DOT_GENERAL": multiply,
    "SORT": _plain("sorting"),
    "WHILE": _plain("loop"),
    "CASE": _plain("branch"),
    "COMPOSITE": _plain("branch"),
    "REDUCE": _plain("", _BODY),
    "REDUCE_WINDOW": _plain("", _BODY),
    "SCATTER": _plain("", _BODY),
    "CUSTOM_CALL": _plain("", "it calls a function outside the model"),
    "RNG_BIT_GENERATOR": _plain("", "the cost of a random number depends on the generator"),
}

STABLEHLO = {f"STABLEHLO_{name}": read for name, read in _TABLE.items()}
"""Operator → its semantics."""
