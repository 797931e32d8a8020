"""OpenVINO operators that look at windows or neighbours: pooling, resizing, regions, embeddings, transforms.

An interpolation of t samples costs 2·t − 1 operations, as `edgewise.model.cost` counts it: 7 for bilinear.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.openvino_products import count_all, known, multiply, output_sizes, sizes_at, tensor_at
from edgewise.model.signature import Dimension

_BILINEAR = 7


def numbers(value: Any) -> tuple[int, ...] | None:
    """An option that is a list of whole numbers; one number is a list of one."""
    words = value if isinstance(value, tuple) else (value,)
    return tuple(words) if all(type(word) is int for word in words) else None


def pool(raw: RawOperator) -> Semantics:
    """``kernel`` elements, whatever their dilation."""
    window = numbers(raw.attributes.get("kernel"))
    size = math.prod(window) if window is not None else None
    return Semantics(kind="pooling", geometry=known(window=size, average=raw.op == "AvgPool"))


def pool_adaptively(raw: RawOperator) -> Semantics:
    """Windows from ⌊i·in/out⌋ to ⌈(i+1)·in/out⌉: equal where the sizes divide, else counted one by one."""
    return _pool_areas(sizes_at(raw, 0), output_sizes(raw), average=raw.op == "AdaptiveAvgPool")


def _pool_areas(before: Sequence[Dimension] | None, after: Sequence[Dimension] | None, *, average: bool) -> Semantics:
    outputs = multiply(after)
    if before is None or after is None or outputs is None or multiply(before) is None or len(before) != len(after):
        return Semantics(kind="pooling", geometry={"average": average})
    pairs = [(one, other) for one, other in zip(before, after, strict=True) if isinstance(one, int)]
    if any(not isinstance(new, int) or new == 0 for _, new in pairs):
        return Semantics(kind="pooling", geometry={"average": average, "window": 0})
    spans = [(old, int(new or 0)) for old, new in pairs]
    if all(old % new == 0 for old, new in spans):
        window = math.prod(old // new for old, new in spans)
        return Semantics(kind="pooling", geometry={"window": window, "average": average})
    # Σ (⌈(i+1)·in/out⌉ − ⌊i·in/out⌋) = in + out − gcd(in, out): each inner bound that is no integer counts twice.
    taken = math.prod(old + new - math.gcd(old, new) for old, new in spans)
    return count_all(0, taken + (outputs if average else 0))


def interpolate(raw: RawOperator) -> Semantics:
    """Modes of Interpolate 1, 4 and 11; only the dimensions that change cost anything."""
    mode = str(raw.attributes.get("mode", ""))
    before, after = sizes_at(raw, 0), output_sizes(raw)
    if mode == "nearest":
        return Semantics(kind="resize", geometry={"per_element": 0})
    if before is None or after is None or len(before) != len(after):
        return Semantics(kind="resize")
    changed = _changed(raw, before, after)
    if changed is None:
        return Semantics(kind="resize")
    shrinks = any(_is_less(after[at], before[at]) for at in changed)
    if mode == "area":
        return _pool_areas(before, after, average=True)
    if shrinks and (mode.endswith("_pillow") or raw.attributes.get("antialias") is True):
        return Semantics(why="when it shrinks, the number of samples depends on the scale and the engine")
    taps = {"linear": 2, "linear_onnx": 2, "bilinear_pillow": 2, "cubic": 4, "bicubic_pillow": 4}.get(mode)
    if taps is None:
        return Semantics(why=f"the mode {mode[:40]!r} has no known cost")
    per_element = 2 * taps ** len(changed) - 1 if changed else 0
    return Semantics(kind="resize", geometry={"per_element": per_element})


def _changed(raw: RawOperator, before: Sequence[Dimension], after: Sequence[Dimension]) -> list[int] | None:
    """Dimensions that get another size; None where that can't be known."""
    named = numbers(raw.attributes.get("axes", ()))
    if not named:
        at = 2 if raw.version >= 11 else 3
        found = raw.values(at)
        named = tuple(int(axis) for axis in found) if found is not None else tuple(range(len(before)))
    axes = {axis + len(before) if axis < 0 else axis for axis in named}
    if not all(0 <= axis < len(before) for axis in axes):
        return None
    open_sizes = [at for at in axes if not isinstance(before[at], int) or not isinstance(after[at], int)]
    if open_sizes:
        return None
    return sorted(at for at in axes if before[at] != after[at])


def _is_less(one: Dimension, other: Dimension) -> bool:
    return isinstance(one, int) and isinstance(other, int) and one < other


def sample_grid(raw: RawOperator) -> Semantics:
    """Nearest 0, bilinear 7, bicubic 31 operations per output."""
    taps = {"nearest": 0, "bilinear": _BILINEAR, "bicubic": 31}
    return Semantics(kind="resize", geometry=known(per_element=taps.get(str(raw.attributes.get("mode", "bilinear")))))


def pool_regions(raw: RawOperator) -> Semantics:
    """Bilinear ROIPooling takes one interpolated sample per output; by maximum the regions decide the windows."""
    if raw.attributes.get("method") == "bilinear":
        return Semantics(kind="resize", geometry={"per_element": _BILINEAR})
    return Semantics(kind="sorting", why="how many values a bin holds depends on the regions")


def align_regions(raw: RawOperator) -> Semantics:
    """``sampling_ratio``² bilinear samples per output, each 7 operations and one to gather it."""
    ratio = raw.attributes.get("sampling_ratio")
    if type(ratio) is not int or ratio <= 0:
        return Semantics(kind="sorting", why="how many samples a bin takes depends on the regions")
    return Semantics(kind="resize", geometry={"per_element": (_BILINEAR + 1) * ratio * ratio})


def pool_positions(raw: RawOperator) -> Semantics:
    """PSROIPooling: a bilinear sample in each of the bins; how much an average takes depends on the regions."""
    if raw.attributes.get("mode", "average") != "bilinear":
        return Semantics(kind="sorting", why="how many values a bin holds depends on the regions")
    bins = numbers((raw.attributes.get("spatial_bins_x", 1), raw.attributes.get("spatial_bins_y", 1)))
    return Semantics(kind="resize", geometry=known(per_element=math.prod(bins) * (_BILINEAR + 1) if bins else None))


def pool_deformed(raw: RawOperator) -> Semantics:
    """DeformablePSROIPooling: ``spatial_bins_x`` × ``spatial_bins_y`` bilinear samples per output."""
    bins = numbers((raw.attributes.get("spatial_bins_x", 1), raw.attributes.get("spatial_bins_y", 1)))
    return Semantics(kind="resize", geometry=known(per_element=math.prod(bins) * (_BILINEAR + 1) if bins else None))


def embed_bag(raw: RawOperator) -> Semantics:
    """Rows of a table that are added up, with weights of their own (then products are added) or a mean at the end."""
    table, indices = sizes_at(raw, 0), multiply(sizes_at(raw, 1))
    at = {"EmbeddingBagPacked": 2, "EmbeddingBagPackedSum": 2, "EmbeddingSegmentsSum": 5}.get(raw.op, 4)
    weighted = tensor_at(raw, at) is not None
    outputs = multiply(output_sizes(raw))
    row = multiply(table[1:]) if table else None
    if indices is None or row is None or outputs is None:
        return Semantics(kind="counted", weights=(0,))
    mean = outputs if str(raw.attributes.get("reduction", "sum")) == "mean" else 0
    added = indices * row
    return count_all(added if weighted else 0, (2 if weighted else 1) * added + mean, weights=(0,))


def transform(raw: RawOperator) -> Semantics:
    """5·N·log₂N operations for a complex transform of N points, half for a real one.

    That is the count fast Fourier transforms are compared by (http://www.fftw.org/speed/method.html), not what an
    engine executes.
    """
    real = raw.op in ("RDFT", "IRDFT")
    signal, spectrum = sizes_at(raw, 0), output_sizes(raw)
    whole = signal if raw.op == "RDFT" else spectrum
    axes = raw.values(1)
    if whole is None or signal is None or axes is None or not all(abs(axis) <= len(whole) for axis in axes):
        return Semantics(kind="counted")
    # The last dimension of complex tensors is the pair of real and imaginary part; axes do not count it.
    rank = len(whole) if real else len(whole) - 1
    places = [int(axis) + rank if axis < 0 else int(axis) for axis in axes]
    lengths = list(whole[:rank])
    given = raw.values(2)
    for place, length in zip(places, given or (), strict=False):
        if 0 <= place < rank and length >= 0:
            lengths[place] = int(length)
    points = multiply([lengths[place] for place in places if 0 <= place < rank])
    total = multiply(lengths)
    if not points or total is None:
        return Semantics(kind="counted")
    return count_all(0, round((2.5 if real else 5) * total * math.log2(points)))


def transform_frames(raw: RawOperator) -> Semantics:
    """STFT and ISTFT: per frame of N points a product with the window and a real transform (2.5·N·log₂N).

    The inverse also adds frames up where they overlap, and divides by the windows' sum.
    """
    found = raw.values(2)
    frame = int(found[0]) if found else 0
    back = raw.op == "ISTFT"
    spectrum = multiply(sizes_at(raw, 0) if back else output_sizes(raw))
    outputs = multiply(output_sizes(raw))
    if frame <= 0 or spectrum is None or outputs is None:
        return Semantics(kind="counted")
    frames = spectrum // (2 * (frame // 2 + 1))
    each = frame + round(2.5 * frame * math.log2(frame))
    return count_all(0, frames * (each + (frame if back else 0)) + (outputs if back else 0))


def find_objects(raw: RawOperator) -> Semantics:
    """RegionYolo: sigmoids of centre and objectness (12 operations), and a sigmoid (4) or softmax (5) per class."""
    softmax = raw.attributes.get("do_softmax") is True
    mask = numbers(raw.attributes.get("mask", ())) or ()
    regions = raw.attributes.get("num") if softmax else len(mask)
    classes, sizes = raw.attributes.get("classes"), sizes_at(raw, 0)
    cells = multiply((sizes[0], *sizes[2:])) if sizes is not None and len(sizes) == 4 else None
    if type(regions) is not int or type(classes) is not int or cells is None:
        return Semantics(kind="counted")
    return count_all(0, cells * regions * (12 + classes * (5 if softmax else 4)))
