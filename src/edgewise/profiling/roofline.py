"""How far each layer is from what the machine can do (S. Williams, A. Waterman, D. Patterson, "Roofline", 2009).

A layer can't be faster than its operations at the machine's peak of its data type, nor than its bytes at the bandwidth
of memory. The bandwidth is that of a buffer of the layer's own size, since small layers live in caches. The peaks are
measured on the machine and not promised by a data sheet; so a layer may come out above its roof (`RoofShare`). A peak
that a layer beats by more than a little, with both in their intervals, is no roof: nothing is held against it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from edgewise.record import Layer, Peak
from edgewise.units import format_bytes, format_si

ABOVE_ROOF = 1.05
"""A peak that a layer beats by more, in the intervals of both, is too low to be a roof for any layer."""
_DTYPES = {
    "f32": "float32", "fp32": "float32", "float32": "float32", "float": "float32",
    "bf16": "bfloat16", "bfloat16": "bfloat16",
    "f16": "float16", "fp16": "float16", "float16": "float16", "half": "float16",
    "i8": "int8", "u8": "int8", "int8": "int8", "uint8": "int8", "qs8": "int8", "qu8": "int8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RoofShare:
    """The share of its roof that a layer attains.

    Attributes:
        value: as measured; above 1 where the peak, or the layer's time, was measured too low.
        least: the share at the upper ends of the intervals of the layer's time and of the peak.
    """

    value: float
    least: float

    @property
    def is_at_limit(self) -> bool:
        """Whether the value is above 1 and its interval reaches down to 1: the layer can't be told from its roof."""
        return self.least <= 1.0 < self.value

    @property
    def is_above(self) -> bool:
        """Whether the whole interval is above 1: the peak is no roof for the layer, and nothing may rest on it."""
        return self.least > 1.0

    @property
    def possible(self) -> float | None:
        """The value, at most 1; None where the peak is no roof for the layer."""
        return None if self.is_above else min(self.value, 1.0)


def share_of_roof(layer: Layer, peaks: Sequence[Peak]) -> RoofShare | None:
    """Return the share of its roof that a layer attains, by the intervals of its time and of its peak in `peaks`."""
    if layer.roof_share is None:
        return None
    least = layer.roof_share * (layer.time / layer.high if layer.time and layer.high else 1.0)
    is_compute = layer.bound == "compute"
    peak = peak_of(peaks, find_dtype(layer)) if is_compute else bandwidth_of(peaks, _bytes_of(layer))
    return RoofShare(layer.roof_share, least * (peak.value / peak.high if peak and peak.high else 1.0))


def find_dtype(layer: Layer) -> str | None:
    """Return the layer's data type by numpy's name, signs of 8-bit integers apart; None where it is none with a
    peak.
    """
    words = (layer.dtype or "").lower().replace(",", " ").split()
    return next((_DTYPES[word] for word in words if word in _DTYPES), None)


def peak_dtypes(layers: Sequence[Layer]) -> tuple[str, ...]:
    """Return data types of the layers that compute, each once."""
    found = (find_dtype(layer) for layer in layers if layer.kind == "operator" and layer.macs)
    return tuple(dict.fromkeys(dtype for dtype in found if dtype))


def place(layers: Sequence[Layer], peaks: Sequence[Peak], *, beaten: Collection[Peak] = ()) -> tuple[Layer, ...]:
    """Return the layers with what they attain and what their roof is, as far as time, cost and peaks are known.

    Args:
        beaten: those of `peaks` that are no roof.
    """
    return tuple(_place(layer, peaks, beaten) for layer in layers)


def beaten_peaks(layers: Sequence[Layer], peaks: Sequence[Peak], *, times: float = ABOVE_ROOF) -> dict[Peak, Layer]:
    """Return the peaks that layers beat by more than `times`, with the layer that beats each the most.

    A layer much smaller than the buffer that was copied says nothing of it: it may live in a nearer cache.
    """
    found: dict[Peak, tuple[float, Layer]] = {}
    for layer in layers:
        if (limit := _limit(layer, peaks)) is None or (beaten := _times_beaten(layer, *limit)) <= times:
            continue
        peak, _ = limit
        is_alike = peak.size_bytes is None or 2 * _bytes_of(layer) > peak.size_bytes
        if is_alike and beaten > found.get(peak, (0.0, layer))[0]:
            found[peak] = (beaten, layer)
    return {peak: layer for peak, (_, layer) in found.items()}


def describe_beaten(peak: Peak, layer: Layer) -> str:
    """Return ``"the measured float32 peak, 12 Gop/s, is too low for a roof of a: it attains at least 20 Gop/s"``."""
    if peak.kind == "compute":
        name, unit, amount = f"{peak.dtype} peak", "op/s", layer.ops or 0
    else:
        name, unit, amount = f"bandwidth in {format_bytes(peak.size_bytes or 0)}", "B/s", _bytes_of(layer)
    least = amount / (layer.high or layer.time or 1.0)
    return (
        f"the measured {name}, {format_si(peak.value, unit)}, is too low for a roof of "
        f"{layer.title}: it attains at least {format_si(least, unit)}"
    )


def _place(layer: Layer, peaks: Sequence[Peak], beaten: Collection[Peak]) -> Layer:
    if layer.kind != "operator" or not layer.time or layer.ops is None or layer.is_bounded:
        return layer
    rate = layer.ops / layer.time
    layer = replace(layer, ops_per_second=rate, roof=None, roof_share=None, bound=None)
    limit = _limit(layer, peaks)
    if limit is None or limit[0] in beaten or _times_beaten(layer, *limit) > ABOVE_ROOF:
        return layer
    peak, per_unit = limit
    roof = peak.value * per_unit
    return replace(layer, roof=roof, roof_share=rate / roof, bound="compute" if peak.kind == "compute" else "memory")


def _limit(layer: Layer, peaks: Sequence[Peak]) -> tuple[Peak, float] | None:
    """Return the peak that limits a layer, and the layer's operations per unit of it; None without both kinds of
    peaks.
    """
    if layer.kind != "operator" or not layer.time or not layer.ops or not layer.intensity or layer.is_bounded:
        return None
    compute, memory = peak_of(peaks, find_dtype(layer)), bandwidth_of(peaks, _bytes_of(layer))
    if compute is None or memory is None:
        return None
    return (compute, 1.0) if compute.value <= layer.intensity * memory.value else (memory, layer.intensity)


def _times_beaten(layer: Layer, peak: Peak, per_unit: float) -> float:
    """Return the least rate of `layer` by the highest rate of `peak`."""
    return (layer.ops or 0) / (layer.high or layer.time or 1.0) / ((peak.high or peak.value) * per_unit)


def _bytes_of(layer: Layer) -> int:
    return round((layer.ops or 0) / (layer.intensity or 1.0))


def has_limit(layer: Layer, peaks: Sequence[Peak]) -> bool:
    """Whether `peaks` include those that limit a layer: without a roof, it beats the one that does."""
    return _limit(layer, peaks) is not None


def peak_of(peaks: Sequence[Peak], dtype: str | None) -> Peak | None:
    """Return the peak of arithmetic in `dtype`."""
    return next((peak for peak in peaks if peak.kind == "compute" and peak.dtype == dtype), None)


def bandwidth_of(peaks: Sequence[Peak], size_bytes: int) -> Peak | None:
    """Return the bandwidth of the smallest measured buffer that is not smaller than `size_bytes`, else of the
    largest.
    """
    found = sorted((peak for peak in peaks if peak.kind == "bandwidth"), key=lambda peak: peak.size_bytes or 0)
    return next((peak for peak in found if (peak.size_bytes or 0) >= size_bytes), found[-1] if found else None)
