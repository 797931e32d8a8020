"""The integer arithmetic of TFLite's quantisation: real multipliers as 32-bit fixed point.

Formulas: tensorflow/lite/kernels/internal/quantization_util.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

INT8 = (-128, 127)


def quantize_multiplier(real: float, *, most: float = 2.0**30) -> tuple[int, int]:
    """`real` as ``multiplier · 2^(shift − 31)``; a positive shift is to the left. Raises ValueError from `most` on."""
    if real == 0.0:
        return 0, 0
    if not 0 < real < most:
        raise ValueError(f"the scales give the factor {real:g}, which is not between 0 and {most:g}")
    mantissa, shift = math.frexp(real)
    fixed = math.floor(mantissa * 2**31 + 0.5)
    if fixed == 2**31:
        fixed, shift = fixed // 2, shift + 1
    return (0, 0) if shift < -31 else (fixed, shift)


def activation_range(function: str, scale: float, zero_point: int) -> tuple[int, int]:
    """Smallest and largest int8 that a fused activation leaves."""
    low, high = INT8

    def quantized(value: float) -> int:
        # TFLite divides in float and rounds half away from zero.
        return zero_point + _round(float(np.float32(value) / np.float32(scale)))

    if function == "RELU":
        return max(low, quantized(0.0)), high
    if function == "RELU6":
        return max(low, quantized(0.0)), min(high, quantized(6.0))
    if function == "RELU_N1_TO_1":
        return max(low, quantized(-1.0)), min(high, quantized(1.0))
    return low, high


def _round(value: float) -> int:
    return math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1)


def softmax_scaling(beta: float, scale: float) -> tuple[int, int, int]:
    """Multiplier, left shift, and the least difference from the maximum whose exponential is not 0."""
    integer_bits = 5
    real = min(float(beta) * float(np.float32(scale)) * (1 << (31 - integer_bits)), 2.0**31 - 1)
    multiplier, shift = quantize_multiplier(real, most=2.0**31)
    radius = ((1 << integer_bits) - 1) * (1 << (31 - integer_bits)) / (1 << shift)
    return multiplier, shift, -math.floor(radius)


def mean_multiplier(real: float, count: int) -> tuple[int, int]:
    """`real / count` as TFLite makes it of the multiplier of `real`."""
    multiplier, shift = quantize_multiplier(real)
    by = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << by) // count, shift - by


def multiply(value: int, multiplier: int, shift: int) -> int:
    """`value` times a multiplier of `quantize_multiplier`, rounded twice."""
    return _divide(_high(value << max(shift, 0), multiplier), max(-shift, 0))


def _saturate(value: int, bits: int = 32) -> int:
    return max(-(1 << bits - 1), min((1 << bits - 1) - 1, value))


def _high(a: int, b: int, bits: int = 32) -> int:
    """Return the product of two fixed-point numbers without integer bits, rounded half up."""
    return _saturate((a * b + (1 << bits - 2)) >> bits - 1, bits)


def _divide(value: int, power: int) -> int:
    """`value / 2^power`, rounded half away from zero."""
    half = (1 << power) >> 1
    return (value + half) >> power if value >= 0 else -((-value + half) >> power)


# Functions of fixed-point numbers, as in gemmlowp's fixedpoint.h (https://github.com/google/gemmlowp).

_ONE = 2**31 - 1
_EXP_MINUS_EIGHTH, _THIRD = round(2**31 * math.exp(-1 / 8)), round(2**31 / 3)
_EXPS = tuple(round(2**31 * math.exp(-(2.0**power))) for power in range(-2, 5))


def _exp(value: int, integer_bits: int) -> int:
    """``exp(value)`` of a number ≤ 0, without integer bits: a polynomial below 1/4, a factor per higher bit."""
    if value == 0:
        return _ONE
    fraction = 31 - integer_bits
    quarter = 1 << fraction - 2
    low = (value & quarter - 1) - quarter
    x = (low << integer_bits) + (1 << 28)
    x2 = _high(x, x)
    x3, x4 = _high(x2, x), _high(x2, x2)
    series = _divide(_high(_divide(x4, 2) + x3, _THIRD) + x2, 1)
    result = _EXP_MINUS_EIGHTH + _high(_EXP_MINUS_EIGHTH, x + series)
    for place, factor in enumerate(_EXPS[: integer_bits + 2]):
        if (low - value) & quarter << place:
            result = _high(result, factor)
    return result


def _reciprocal(value: int) -> int:
    """``2 / (1 + value)`` with 2 integer bits, for `value` in 0 … 1 without, in three steps of Newton's."""
    half = (value + _ONE + 1) // 2
    x = round(48 / 17 * 2**29) + _high(half, -round(32 / 17 * 2**29))
    for _ in range(3):
        x += _saturate(_high(x, (1 << 29) - _high(half, x)) << 2)
    return x


def logistic(value: int) -> int:
    """``1 / (1 + exp(-value))`` without integer bits, of a number with 4."""
    if value == 0:
        return 1 << 30
    positive = _saturate(_reciprocal(_exp(-abs(value), 4)) << 1)
    return positive if value > 0 else _ONE - positive


def tanh(value: int) -> int:
    """``tanh(value)`` without integer bits, of a number with 4."""
    if value == 0:
        return 0
    positive = _saturate((_reciprocal(_exp(-abs(value), 5)) - (1 << 29)) << 2)
    return positive if value > 0 else -positive


def sigmoid_table(
    function: Callable[[int], int], scale: float, zero_point: int, *, bits: int, out_zero: int
) -> list[int]:
    """Return `function` of every int8, in order; the result has `bits` bits after the point."""
    multiplier, shift = quantize_multiplier(float(np.float32(scale)) * (1 << 27), most=2.0**60)
    radius = math.floor(15 * (1 << 27) / 2.0**shift)
    table = []
    for value in range(-128, 128):
        x = value - zero_point
        if abs(x) >= radius:
            table.append(-128 if x <= -radius else 127)
        else:
            result = _divide(function(multiply(x, multiplier, shift)), 31 - bits) + out_zero
            table.append(max(-128, min(127, result)))
    return table


def hard_swish(value: int, scale: float, out_scale: float, out_zero: int) -> int:
    """``value · relu6(value + 3) / 6`` of an int8 less its zero point, in 16 bits."""
    fine = np.float32(1 / 128) * np.float32(scale)
    to_out, out_shift = quantize_multiplier(float(fine / np.float32(out_scale)))
    to_relu, shift = quantize_multiplier(float(fine / (np.float32(3) / np.float32(32768))))
    to_out, to_relu = (min((each + (1 << 15)) >> 16, 2**15 - 1) for each in (to_out, to_relu))
    x = _saturate(value << 7, 16)
    gate = _saturate(x << max(shift - 1, 0), 16)
    gate = _high(gate, to_relu, 16)
    gate = _saturate(gate << 1, 16) if shift > 0 else _divide(gate, max(-shift, 0))
    gate = (gate + (1 << 15)) >> 1
    product = gate * _high(x, to_out, 16)
    product = abs(product) // 2**15 * (1 if product >= 0 else -1)
    return max(-128, min(127, _divide(product, -out_shift) + out_zero))


def interpolation(size: int, out_size: int, *, corners: bool, half: bool) -> list[tuple[int, int, int]]:
    """Per place of a resized dimension: the two neighbours, and the distance from the first in units of 1/1024.

    Formulas: tensorflow/lite/kernels/internal/reference/resize_bilinear.h.
    """
    span, out_span = (size - 1, out_size - 1) if corners and out_size > 1 else (size, out_size)
    scale = (1024 * span + out_span // 2) // out_span
    places = []
    for at in range(out_size):
        place = at * scale + (scale // 2 - 512 if half else 0)
        low = max(place, 0) // 1024
        places.append((low, min(max(place + 1023, 0) // 1024, size - 1), place - 1024 * low))
    return places
