"""Weights of few bits that operators of ONNX Runtime read from bytes, described as the weights that they stand for.

``MatMulNBits`` has its weight [N, K] as uint8 [N, blocks, bytes of a block], ``MatMulBnb4`` and ``MatMulFpQ4`` as one
row of bytes, ``GatherBlockQuantized`` with the last dimension packed. The layouts:
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from edgewise.model.graph import BITS, Quantization, Tensor

SCALES: dict[str, tuple[int, ...]] = {
    "MatMulNBits": (2, 3), "GatherBlockQuantized": (2, 3), "MatMulBnb4": (2,), "MatMulFpQ4": (),
}  # fmt: skip
"""Operator of ``com.microsoft`` → positions of its scales and zero points."""
WEIGHTS = {"GatherBlockQuantized": 0}
"""Operator → position of its weight, where that is not 1."""

Numbers = tuple[int | float, ...] | None


def unpack(
    op: str, options: Mapping[str, Any], inputs: Sequence[Tensor | None], numbers: tuple[float | None, Numbers]
) -> Tensor | None:
    """Return the weight that an operator computes with, from the bytes that the file has.

    Args:
        inputs: of the operator, in its order.
        numbers: the first number of its input 2 (scales), and all of them where they are few (of `MatMulFpQ4` the shape
            of its weight); None for what can't be read.

    Returns:
        None where the weight is no constant of bytes, or has another size than the options say.
    """
    weight = inputs[WEIGHTS.get(op, 1)]
    if weight is None or not weight.constant or weight.shape is None:
        return None
    if op == "GatherBlockQuantized":
        return _unpack_rows(weight, options, inputs[2], numbers[0])
    if weight.dtype != "uint8":
        return None
    if op == "MatMulNBits":
        return _unpack_blocks(weight, options, inputs[2], numbers[0])
    rows, columns = options.get("N"), options.get("K")
    if op == "MatMulFpQ4":
        rows, columns = numbers[1] if numbers[1] and len(numbers[1]) == 2 else (None, None)
        return _describe(weight, (rows, columns), "int4")
    return _describe(weight, (rows, columns), "nf4" if options.get("quant_type", 0) == 1 else "fp4")


def _describe(weight: Tensor, shape: tuple[Any, ...], dtype: str) -> Tensor | None:
    if not all(isinstance(size, int) and 0 < size < 2**31 for size in shape):
        return None
    bits = int("".join(filter(str.isdigit, dtype)))
    needed, there = -(-prod(shape) * bits // 8), weight.elements or 0
    if there < needed:
        return None
    return replace(
        weight,
        shape=shape,
        dtype=dtype,
        container=weight.dtype,
        stored_bytes=there if weight.stored_bytes is None and there != needed else weight.stored_bytes,
        data=None,
    )


def _unpack_blocks(
    weight: Tensor, options: Mapping[str, Any], scales: Tensor | None, scale: float | None
) -> Tensor | None:
    rows, columns, bits, block = (options.get(*each) for each in (("N", 0), ("K", 0), ("bits", 4), ("block_size", 0)))
    if (
        not all(isinstance(each, int) and each > 0 for each in (rows, columns, bits, block))
        or f"uint{bits}" not in BITS
        or bits > 8
    ):
        return None
    # Every row is filled up to whole blocks.
    pitch = -(-columns // block) * block
    full = _describe(weight, (rows, pitch), f"uint{bits}")
    if full is None or options.get("weight_prepacked", 0):
        return None
    found = replace(full, shape=(rows, columns))
    if pitch != columns:
        found = replace(found, stored_bytes=weight.elements if weight.stored_bytes is None else weight.stored_bytes)
    return _quantize(found, scales, (1, block, 2 ** (bits - 1)), scale)


def _unpack_rows(
    weight: Tensor, options: Mapping[str, Any], scales: Tensor | None, scale: float | None
) -> Tensor | None:
    shape, bits, found, zero = weight.shape or (), options.get("bits", 4), weight, 0
    if weight.dtype == "uint8" and shape:
        if bits not in (2, 4, 8):
            return None
        unpacked = _describe(weight, (*shape[:-1], int(str(shape[-1])) * (8 // bits)), f"uint{bits}")
        if unpacked is None:
            return None
        found, zero = unpacked, 2 ** (bits - 1)
    block, axis = options.get("block_size", 128), options.get("quantize_axis", 1)
    if not isinstance(block, int) or block < 0 or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None
    return _quantize(found, scales, (axis % len(shape), block, zero), scale)


def _quantize(weight: Tensor, scales: Tensor | None, scheme: tuple[int, int, int], scale: float | None) -> Tensor:
    """`weight` with its scales. `scheme`: the dimension along which blocks lie, their size, the usual zero point."""
    axis, block, usual = scheme
    if scale is None or scales is None:
        return replace(weight, data=None)
    quantization = Quantization(
        scale=scale, zero_point=usual, channels=scales.elements or 1, axis=axis, block=block or None
    )
    return replace(weight, quantization=quantization, data=None)
