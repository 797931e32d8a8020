"""The integer arithmetic of TFLite's quantisation: real multipliers as 32-bit fixed point.

Formulas: tensorflow/lite/kernels/internal/quantization_util.cc.
"""

from __future__ import annotations

import math

import numpy as np

INT8 = (-128, 127)


def quantize_multiplier(real: float) -> tuple[int, int]:
    """`real` as ``multiplier · 2^(shift − 31)``; a positive shift is to the left."""
    if real == 0.0:
        return 0, 0
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
    multiplier, shift = quantize_multiplier(real)
    radius = ((1 << integer_bits) - 1) * (1 << (31 - integer_bits)) / (1 << shift)
    return multiplier, shift, -math.floor(radius)
