"""ONNX operators of signal processing, linear algebra, regions of pictures, and losses: counted by their definitions.

A Fourier transform of N complex values counts 5·N·log₂ N operations and one of N real values half of that, FFTW's
convention (http://www.fftw.org/speed/method.html), whatever algorithm runs.
"""

from __future__ import annotations

from edgewise.model.dialects.base import (
    RawOperator,
    Rule,
    Semantics,
    Unclear,
    add,
    counted,
    data_dependent,
    divide,
    each,
    elements,
    mean,
    multiply,
    per_element,
    product_of,
    rank,
    size,
    transform_operations,
)  # fmt: skip


def read_fourier_transform(raw: RawOperator) -> Semantics:
    """DFT of [batch…, N, 1 or 2] along an axis, real where one side is enough or the input has no imaginary part."""
    signal, result = raw.input(0), raw.output()
    dimensions = rank(signal)
    if raw.version and raw.version < 20:
        axis: int | None = raw.integer("axis", 1)
    else:
        values = raw.values(2) if raw.given(2) else (-2,)
        axis = values[0] if values and isinstance(values[0], int) else None
    if axis is None or dimensions is None:
        return counted(0, None)
    onesided, inverse = raw.integer("onesided", 0), raw.integer("inverse", 0)
    length = raw.constant_size(1)
    if length is None and raw.given(1):
        length = None if onesided and not inverse else size(result, axis)
    elif length is None:
        length = size(signal, axis)
        if length is not None and onesided and inverse:
            length = max(2 * (length - 1), 0)
    parts = size(signal, -1)
    if parts is None:
        return counted(0, None)
    transforms = product_of(signal, 0, -1)
    along = size(signal, axis)
    times = 0 if along == 0 else divide(transforms, along)
    real = parts == 1 or bool(onesided)
    return counted(0, multiply(times, transform_operations(length, real=real)))


def read_short_transforms(raw: RawOperator) -> Semantics:
    """STFT: per frame a product with the window, where there is one, and a transform."""
    signal, frames = raw.input(0), size(raw.output(), 1)
    length = raw.constant_size(3)
    if length is None:
        length = size(raw.input(2), 0)
    real = rank(signal) == 2 or size(signal, -1) == 1
    if not real and (rank(signal) is None or size(signal, -1) is None):
        return counted(0, None)
    window = multiply(length, (1 if real else 2) if raw.given(2) else 0)
    each = add(window, transform_operations(length, real=real))
    return counted(0, multiply(size(signal, 0), frames, each))


def read_determinant(raw: RawOperator) -> Semantics:
    """LU decomposition (Golub and Van Loan, Matrix Computations, 3.2) and the product of the diagonal."""
    matrices, order = raw.input(0), size(raw.input(0), -1)
    if order is None:
        return counted(None, None)
    count = product_of(matrices, 0, -2)
    macs = (order - 1) * order * (2 * order - 1) // 6 if order else 0
    divisions, products = order * (order - 1) // 2, max(order - 1, 0)
    return counted(multiply(count, macs), multiply(count, 2 * macs + divisions + products))


def read_inverse(raw: RawOperator) -> Semantics:
    """Gauss–Jordan elimination: n³ products and divisions, n³ − 2n² + n sums."""
    matrices, order = raw.input(0), size(raw.input(0), -1)
    if order is None:
        return counted(None, None)
    count = product_of(matrices, 0, -2)
    sums = order**3 - 2 * order**2 + order
    return counted(multiply(count, sums), multiply(count, order**3 + sums))


def read_region_alignment(raw: RawOperator) -> Semantics:
    """RoiAlign: `sampling_ratio`² bilinear samples per output, 7 operations each, and their mean or maximum."""
    ratio = raw.integer("sampling_ratio", 0)
    if ratio < 1:
        return data_dependent("how many samples it takes depends on the regions' sizes")
    samples = ratio * ratio
    combining = samples - 1 if raw.text("mode", "avg") == "max" else samples
    return mean("resize", per_element=7 * samples + combining)


def _likelihood_operations(raw: RawOperator, targets: int | None) -> int | None:
    """Pick, negate, weigh, and sum or average."""
    weighted, reduction = raw.given(2), raw.text("reduction", "mean")
    if reduction not in ("none", "sum", "mean"):
        raise Unclear(f"it has no reduction {reduction!r}")
    each = 1 + weighted + ("ignore_index" in raw.attributes)
    each += {"none": 0, "sum": 1, "mean": 1 + weighted}[reduction]
    return add(multiply(targets, each), 1 if reduction == "mean" else 0)


def read_likelihood_loss(raw: RawOperator) -> Semantics:
    """Negative log-likelihood of the targets."""
    return counted(0, _likelihood_operations(raw, elements(raw.input(1))), weights=(2,))


def read_cross_entropy_loss(raw: RawOperator) -> Semantics:
    """A log-softmax of the scores, 6 per element, and the negative log-likelihood of the targets."""
    scores = multiply(6, elements(raw.input(0)))
    targets = _likelihood_operations(raw, elements(raw.input(1)))
    return counted(0, add(scores, targets), weights=(2,))


TABLE: dict[str, Rule] = {
    "DFT": read_fourier_transform,
    "STFT": read_short_transforms,
    # Both slopes of a triangle (subtract, divide), the smaller of them, and not below 0; its edges are not counted.
    "MelWeightMatrix": per_element(6),
    # a₀ − a₁·cos(c·n)
    **each("HannWindow HammingWindow", per_element(4)),
    # a₀ − a₁·cos(c·n) + a₂·cos(2·c·n)
    "BlackmanWindow": per_element(8),
    "Det": read_determinant,
    "RoiAlign": read_region_alignment,
    "NegativeLogLikelihoodLoss": read_likelihood_loss,
    "SoftmaxCrossEntropyLoss": read_cross_entropy_loss,
}
"""Operator of the standard set → what it means."""
