"""OpenVINO operators of networks: convolutions, products, attention, recurrent layers, pooling, resizing, transforms.

Layouts of filters and inputs are those of the operation specifications,
https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs.html.
An interpolation of t samples costs 2·t − 1 operations, as `edgewise.model.cost` counts it: 7 for bilinear.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import (
    USUAL_FUNCTIONS,
    RawOperator,
    Semantics,
    attention,
    counted,
    data_dependent,
    elements,
    mean,
    multiply,
    other_functions,
    per_element,
    pool_areas,
    product_of,
    rank,
    shape_of,
    size_of,
    unknown,
)
from edgewise.model.dialects.einsum import read_einsum
from edgewise.model.graph import Tensor
from edgewise.model.signature import Dimension


def convolve(raw: RawOperator) -> Semantics:
    """Filters [O, I, k…] or in groups [G, O/G, I/G, k…]; transposed [I, O, k…] or [G, I/G, O/G, k…]."""
    filters, grouped = shape_of(raw.input(1)), raw.op.startswith("Group")
    inner = filters[2 if grouped else 1 :]
    transposed = raw.op.endswith("BackpropData")
    groups = filters[0] if grouped and filters else 1
    return mean(
        "transposed-convolution" if transposed else "convolution",
        reduction=multiply(*inner) if inner else None,
        depthwise=isinstance(groups, int) and groups > 1 and inner[:1] == (1,) and not transposed,
        weights=(1,),
    )


def convolve_deformed(raw: RawOperator) -> Semantics:
    """Data, offsets, filters [O, I/G, k…] and perhaps a mask: each sample is interpolated (7 ops) and masked (1)."""
    data, filters, result = raw.input(0), raw.input(2), raw.output()
    if (rank(data) or 0) < 2 or (rank(filters) or 0) < 3 or (rank(result) or 0) < 2:
        return mean("counted", weights=(2,))
    macs = multiply(elements(result), product_of(filters, 1))
    samples = multiply(product_of(data, 0, 2), product_of(filters, 2), product_of(result, 2))
    if macs is None or samples is None:
        return counted(None, None, weights=(2,))
    return counted(macs, 2 * macs + samples * (8 if raw.given(3) else 7), weights=(2,))


def multiply_matrices(raw: RawOperator) -> Semantics:
    """The inner dimension, from either side; one-dimensional inputs are not transposed."""
    inner: int | None = None
    for at, option, usual in ((0, "transpose_a", -1), (1, "transpose_b", -2)):
        turned = raw.attributes.get(option) is True
        axis = 0 if rank(raw.input(at)) == 1 else (-3 - usual) if turned else usual
        inner = size_of(raw.input(at), axis) if inner is None else inner
    return mean("matrix-multiplication", reduction=inner, weights=(0, 1))


def connect_fully(raw: RawOperator) -> Semantics:
    """FullyConnected: weights [O, I]. GroupedMatMul: [G, M, K] by [G, N, K], or [T, K] by [G, N, K], rows by group."""
    inner = size_of(raw.input(0 if raw.op == "GroupedMatMul" else 1), -1)
    return mean("matrix-multiplication", reduction=inner, weights=(1,))


def attend(raw: RawOperator) -> Semantics:
    """Query […, heads, L, E], key […, heads, S, E], value […, heads, S, V]; a mask changes nothing that is counted."""
    query = raw.input(0)
    return attention(raw, batch=product_of(query, 0, -3), heads=product_of(query, -3, -2))


_GATES = {"LSTM": 4, "GRU": 3, "AUGRU": 3, "RNN": 1}


def recur(raw: RawOperator) -> Semantics:
    """A cell or a sequence: X, H, (C), (lengths), W [D, G·H, I], R [D, G·H, H], B; a cell's have no direction D.

    Sequences are counted to their full length, whatever the lengths say.
    """
    family = raw.op.removesuffix("Sequence").removesuffix("Cell")
    sequence = raw.op.endswith("Sequence")
    first = (3 if family == "LSTM" else 2) + sequence
    peepholes = family == "LSTM" and raw.version in (0, 1) and raw.given(first + 3)
    weights = (first, first + 1, first + 2, *([first + 3] if peepholes else []))
    data, recurrent = raw.input(0), raw.input(first + 1)
    if rank(data) != 2 + sequence or rank(recurrent) != 2 + sequence:
        return mean("recurrent", weights=weights)
    gates, text = _GATES[family], raw.attributes.get("activations", "")
    # LSTM: i, o and f by the first, candidate by the second, cell by the third; GRU: z and r by the first.
    usual = [name for name, _ in USUAL_FUNCTIONS[gates]]
    named = [word.strip().lower() for word in str(text).split(",")] if text else usual
    if len(named) < len(usual) or not all(name in ACTIVATIONS for name in named):
        return Semantics(weights=weights, why=f"its activations {', '.join(named)} have no known cost")
    further = other_functions(gates, [ACTIVATIONS[name] for name in named])
    clip = raw.attributes.get("clip", 0)
    further += 2 * gates if isinstance(clip, int | float) and clip > 0 else 0
    # A bias of its own in the candidate's recurrent part; z ← (1 − a)·z.
    further += (raw.attributes.get("linear_before_reset") is True) + (2 if family == "AUGRU" else 0)
    directions = size_of(recurrent, 0) if sequence else 1
    return mean(
        "recurrent",
        gates=gates,
        hidden=size_of(recurrent, -1),
        input=size_of(data, -1),
        steps=size_of(data, 1) if sequence else 1,
        batch=size_of(data, 0) if directions is not None else None,
        directions=directions,
        biases=1 if raw.given(first + 2) else 0,
        peepholes=3 if peepholes else 0,
        further=multiply(directions, further),
        weights=weights,
    )


def sum_products(raw: RawOperator) -> Semantics:
    """Einsum of one or two inputs; with more the order of contraction decides the cost."""
    found = read_einsum(raw, most=2)
    return found if len(raw.inputs) > 1 else replace(found, weights=())


_BILINEAR = 7


def numbers(value: Any) -> tuple[int, ...] | None:
    """An option that is a list of whole numbers; one number is a list of one."""
    words = value if isinstance(value, tuple) else (value,)
    return tuple(words) if all(type(word) is int for word in words) else None


def pool(raw: RawOperator) -> Semantics:
    """``kernel`` elements, whatever their dilation."""
    window = numbers(raw.attributes.get("kernel"))
    return mean("pooling", window=multiply(*window) if window is not None else None, average=raw.op == "AvgPool")


def pool_adaptively(raw: RawOperator) -> Semantics:
    """Windows from ⌊i·in/out⌋ to ⌈(i+1)·in/out⌉."""
    return pool_areas(_sizes(raw.input(0)), _sizes(raw.output()), average=raw.op == "AdaptiveAvgPool")


def _sizes(tensor: Tensor | None) -> tuple[Dimension, ...] | None:
    return tensor.shape if tensor is not None else None


def _interpolated(samples: int) -> Semantics:
    """Bilinear samples per output, each with one operation to gather it."""
    return per_element((_BILINEAR + 1) * samples, kind="resize")


def interpolate(raw: RawOperator) -> Semantics:
    """Modes of Interpolate 1, 4 and 11; only the dimensions that change cost anything."""
    mode = str(raw.attributes.get("mode", ""))
    before, after = _sizes(raw.input(0)), _sizes(raw.output())
    if mode == "nearest":
        return per_element(0, kind="resize")
    if before is None or after is None or len(before) != len(after):
        return mean("resize")
    changed = _changed(raw, before, after)
    if changed is None:
        return mean("resize")
    if mode == "area":
        return pool_areas(before, after, average=True)
    shrinks = any(after[at] < before[at] for at in changed)  # type: ignore[operator]
    if shrinks and (mode.endswith("_pillow") or raw.attributes.get("antialias") is True):
        return unknown("when it shrinks, the number of samples depends on the scale and the engine")
    taps = {"linear": 2, "linear_onnx": 2, "bilinear_pillow": 2, "cubic": 4, "bicubic_pillow": 4}.get(mode)
    if taps is None:
        return unknown(f"the mode {mode[:40]!r} has no known cost")
    return per_element(2 * taps ** len(changed) - 1 if changed else 0, kind="resize")


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


def sample_grid(raw: RawOperator) -> Semantics:
    """Nearest 0, bilinear 7, bicubic 31 operations per output."""
    operations = {"nearest": 0, "bilinear": _BILINEAR, "bicubic": 31}
    return per_element(operations.get(str(raw.attributes.get("mode", "bilinear"))), kind="resize")


_BINS = data_dependent("how many values a bin holds depends on the regions")


def pool_regions(raw: RawOperator) -> Semantics:
    """Bilinear ROIPooling takes one interpolated sample per output; by maximum the regions decide the windows."""
    return per_element(_BILINEAR, kind="resize") if raw.attributes.get("method") == "bilinear" else _BINS


def align_regions(raw: RawOperator) -> Semantics:
    """``sampling_ratio``² bilinear samples per output."""
    ratio = raw.attributes.get("sampling_ratio")
    if type(ratio) is not int or ratio <= 0:
        return data_dependent("how many samples a bin takes depends on the regions")
    return _interpolated(ratio * ratio)


def pool_positions(raw: RawOperator) -> Semantics:
    """PSROIPooling and its deformable form: ``spatial_bins_x`` × ``spatial_bins_y`` bilinear samples per output.

    How much an average takes depends on the regions.
    """
    if raw.op == "PSROIPooling" and raw.attributes.get("mode", "average") != "bilinear":
        return _BINS
    bins = numbers((raw.attributes.get("spatial_bins_x", 1), raw.attributes.get("spatial_bins_y", 1)))
    return _interpolated(math.prod(bins)) if bins else mean("resize")


def embed_bag(raw: RawOperator) -> Semantics:
    """Rows of a table that are added up, with weights of their own (then products are added) or a mean at the end."""
    at = {"EmbeddingBagPacked": 2, "EmbeddingBagPackedSum": 2, "EmbeddingSegmentsSum": 5}.get(raw.op, 4)
    weighted, outputs = raw.given(at), elements(raw.output())
    row = product_of(raw.input(0), 1) if shape_of(raw.input(0)) else None
    added = multiply(elements(raw.input(1)), row)
    if added is None or outputs is None:
        return counted(None, None, weights=(0,))
    mean_ops = outputs if str(raw.attributes.get("reduction", "sum")) == "mean" else 0
    return counted(added if weighted else 0, (2 if weighted else 1) * added + mean_ops, weights=(0,))


def transform(raw: RawOperator) -> Semantics:
    """5·N·log₂N operations for a complex transform of N points, half for a real one.

    That is the count fast Fourier transforms are compared by (http://www.fftw.org/speed/method.html), not what an
    engine executes.
    """
    real = raw.op in ("RDFT", "IRDFT")
    signal, spectrum = _sizes(raw.input(0)), _sizes(raw.output())
    whole = signal if raw.op == "RDFT" else spectrum
    axes = raw.values(1)
    if whole is None or signal is None or axes is None or not all(abs(axis) <= len(whole) for axis in axes):
        return counted(None, None)
    # The last dimension of complex tensors is the pair of real and imaginary part; axes do not count it.
    rank = len(whole) if real else len(whole) - 1
    places = [int(axis) + rank if axis < 0 else int(axis) for axis in axes]
    lengths = list(whole[:rank])
    given = raw.values(2)
    for place, length in zip(places, given or (), strict=False):
        if 0 <= place < rank and length >= 0:
            lengths[place] = int(length)
    points = multiply(*(lengths[place] for place in places if 0 <= place < rank))
    total = multiply(*lengths)
    if not points or total is None:
        return counted(None, None)
    return counted(0, round((2.5 if real else 5) * total * math.log2(points)))


def transform_frames(raw: RawOperator) -> Semantics:
    """STFT and ISTFT: per frame of N points a product with the window and a real transform (2.5·N·log₂N).

    The inverse also adds frames up where they overlap, and divides by the windows' sum.
    """
    found = raw.values(2)
    frame = int(found[0]) if found else 0
    back = raw.op == "ISTFT"
    outputs = elements(raw.output())
    spectrum = elements(raw.input(0)) if back else outputs
    if frame <= 0 or spectrum is None or outputs is None:
        return counted(None, None)
    frames = spectrum // (2 * (frame // 2 + 1))
    each = frame + round(2.5 * frame * math.log2(frame))
    return counted(0, frames * (each + (frame if back else 0)) + (outputs if back else 0))


def find_objects(raw: RawOperator) -> Semantics:
    """RegionYolo: sigmoids of centre and objectness (12 operations), and a sigmoid (4) or softmax (5) per class."""
    softmax = raw.attributes.get("do_softmax") is True
    mask = numbers(raw.attributes.get("mask", ())) or ()
    regions = raw.attributes.get("num") if softmax else len(mask)
    classes, sizes = raw.attributes.get("classes"), _sizes(raw.input(0))
    cells = multiply(sizes[0], *sizes[2:]) if sizes is not None and len(sizes) == 4 else None
    if type(regions) is not int or type(classes) is not int or cells is None:
        return counted(None, None)
    return counted(0, cells * regions * (12 + classes * (5 if softmax else 4)))
