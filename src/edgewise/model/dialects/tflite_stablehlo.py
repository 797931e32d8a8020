"""StableHLO's operators inside TFLite files, after https://openxla.org/stablehlo/spec."""

from __future__ import annotations

from collections.abc import Callable

from edgewise.model.dialects.base import Meaning, Question
from edgewise.model.dialects.tflite_sizes import known, parameters, product, size_at

_BODY = "what it computes per element is a graph of its own"


def convolve(question: Question) -> Meaning:
    """STABLEHLO_CONVOLUTION: data and filter, whose dimensions' meaning the options give.

    The filter's input channels are those of one group. Where the data are dilated it is a transposed convolution, which
    multiplies no inserted zeros.
    """
    options = question.attributes
    axes, inner = options.get("kernel_spatial_dimensions"), options.get("kernel_input_feature_dimension")
    outer, groups = options.get("kernel_output_feature_dimension"), options.get("feature_group_count") or 1
    if not isinstance(axes, tuple) or not isinstance(inner, int) or not isinstance(outer, int):
        return Meaning(kind="convolution")
    window = product(*(size_at(question, 1, axis) for axis in axes))
    weights = parameters(question, 1)
    dilation = options.get("lhs_dilation") or ()
    if isinstance(dilation, tuple) and any(each > 1 for each in dilation):
        outputs = size_at(question, 1, outer)
        reduction = product(window, outputs // groups if outputs is not None and groups > 0 else None)
        geometry = known(reduction=reduction, data=0, bias=False, activation="none")
        return Meaning(kind="transposed-convolution", geometry=geometry, weights=weights)
    channels = size_at(question, 1, inner)
    depthwise = channels == 1 and groups > 1
    geometry = known(reduction=product(window, channels), depthwise=depthwise, bias=False, activation="none")
    return Meaning(kind="convolution", geometry=geometry, weights=weights)


def multiply(question: Question) -> Meaning:
    """STABLEHLO_DOT_GENERAL: the product of the contracted dimensions of the left side is summed over."""
    axes = question.attributes.get("lhs_contracting_dimensions")
    reduction = product(*(size_at(question, 0, axis) for axis in axes)) if isinstance(axes, tuple) else None
    geometry = known(reduction=reduction, bias=False, activation="none")
    return Meaning(kind="matrix-multiplication", geometry=geometry, weights=parameters(question, 0, 1))


def _arithmetic(per_element: int = 1) -> Callable[[Question], Meaning]:
    def read(question: Question) -> Meaning:
        geometry = {"per_element": per_element}
        return Meaning(
            kind="elementwise", geometry=geometry, weights=parameters(question, *range(len(question.inputs)))
        )

    return read


def _activation(name: str) -> Callable[[Question], Meaning]:
    return lambda question: Meaning(kind="activation", geometry={"activation": name})


def _plain(kind: str, why: str = "") -> Callable[[Question], Meaning]:
    return lambda question: Meaning(kind=kind, why=why)


_ARITHMETIC = (
    "ADD SUBTRACT MULTIPLY DIVIDE MAXIMUM MINIMUM POWER REMAINDER ABS NEGATE FLOOR COSINE CBRT AND OR COMPARE CONVERT "
    "SHIFT_LEFT"
)
_MOVEMENT = (
    "RESHAPE CONCATENATE BROADCAST_IN_DIM SLICE SELECT DYNAMIC_SLICE DYNAMIC_UPDATE_SLICE PAD IOTA GATHER TRANSPOSE"
)

_TABLE: dict[str, Callable[[Question], Meaning]] = {
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
    "RNG_BIT_GENERATOR": _plain("", "what a random number costs is the generator's affair"),
}

STABLEHLO = {f"STABLEHLO_{name}": read for name, read in _TABLE.items()}
"""Operator → its meaning."""
