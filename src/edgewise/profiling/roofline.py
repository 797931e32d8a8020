"""How far each layer is from what the machine can do (S. Williams, A. Waterman, D. Patterson, "Roofline", 2009).

A layer can't be faster than its operations at the machine's peak of its data type, nor than its bytes at the bandwidth
of memory. The bandwidth is that of a buffer of the layer's own size, since small layers live in caches. The peaks are
measured on the machine and not promised by a data sheet; so a layer may come out a little above its roof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgewise.record import Layer, Peak

_DTYPES = {
    "f32": "float32", "fp32": "float32", "float32": "float32", "float": "float32",
    "bf16": "bfloat16", "bfloat16": "bfloat16",
    "f16": "float16", "fp16": "float16", "float16": "float16", "half": "float16",
    "i8": "int8", "u8": "int8", "int8": "int8", "uint8": "int8", "qs8": "int8", "qu8": "int8",
}  # fmt: skip


def find_dtype(layer: Layer) -> str | None:
    """The layer's data type by numpy's name, signs of 8-bit integers apart; None where it is none with a peak."""
    words = (layer.dtype or "").lower().replace(",", " ").split()
    return next((_DTYPES[word] for word in words if word in _DTYPES), None)


def peak_dtypes(layers: Sequence[Layer]) -> tuple[str, ...]:
    """Data types of the layers that compute, each once."""
    found = (find_dtype(layer) for layer in layers if layer.kind == "operator" and layer.macs)
    return tuple(dict.fromkeys(dtype for dtype in found if dtype))


def place(layers: Sequence[Layer], peaks: Sequence[Peak]) -> tuple[Layer, ...]:
    """The layers with what they attain and what their roof is, as far as time, cost and peaks are known."""
    return tuple(_place(layer, peaks) for layer in layers)


def _place(layer: Layer, peaks: Sequence[Peak]) -> Layer:
    if layer.kind != "operator" or not layer.time or layer.ops is None or layer.is_bounded:
        return layer
    layer = replace(layer, ops_per_second=layer.ops / layer.time)
    compute = peak_of(peaks, find_dtype(layer))
    if compute is None or not layer.ops or not layer.intensity:
        return layer
    memory = bandwidth_of(peaks, round(layer.ops / layer.intensity))
    if memory is None:
        return layer
    from_memory = layer.intensity * memory.value
    roof = min(compute.value, from_memory)
    return replace(
        layer,
        roof=roof,
        roof_share=(layer.ops_per_second or 0.0) / roof,
        bound="compute" if compute.value <= from_memory else "memory",
    )


def peak_of(peaks: Sequence[Peak], dtype: str | None) -> Peak | None:
    """The peak of arithmetic in `dtype`."""
    return next((peak for peak in peaks if peak.kind == "compute" and peak.dtype == dtype), None)


def bandwidth_of(peaks: Sequence[Peak], size_bytes: int) -> Peak | None:
    """The bandwidth of the smallest measured buffer that is not smaller than `size_bytes`, else of the largest."""
    found = sorted((peak for peak in peaks if peak.kind == "bandwidth"), key=lambda peak: peak.size_bytes or 0)
    return next((peak for peak in found if (peak.size_bytes or 0) >= size_bytes), found[-1] if found else None)
