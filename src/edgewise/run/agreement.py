"""Do the runtimes compute the same? Outputs on the same inputs, compared pairwise; the odd one out is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import as_flag
from edgewise.record import Caution, Measurement

EXACT_TOLERANCE = 2e-3
"""Of the largest output: float32 kernels that add in another order differ by far less, wrong ones by far more."""
REDUCED_TOLERANCE = 6e-2
"""Of the largest output, where the model is quantised or a side of reduced precision: roundings of steps add up."""


NOISE = 1e-6
"""An absolute difference that float32 arithmetic explains by itself."""

PIECE = 2**20
"""Elements that are compared at a time."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What one run computed.

    Attributes:
        label: how the run is called in messages.
        reduced: what was not computed in float32, such as ``the model computes in int8``; "" where all was.
        original: whether the network ran in the framework that it was written in, which all exports must agree with.
    """

    run_id: str
    label: str
    arrays: tuple[NDArray[np.generic], ...]
    reduced: str = ""
    original: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one run's outputs are from another's.

    Attributes:
        max_abs: largest absolute difference of any element; NaN where no element is finite.
        max_rel: the same over the largest magnitude (quantised: the type's range) of that output in the reference.
        top1: share of rows whose largest element is in the same place; None where there are no rows to speak of.
        close: whether the difference is within what roundings explain.
        why: of an infinite difference, what makes it one; why there is none.
        allowed: the tolerance of `max_rel`, why it is this one, and how many elements are finite in neither.
    """

    max_abs: float
    max_rel: float
    top1: float | None
    close: bool
    why: str = ""
    allowed: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What agreement adds to one run."""

    measurements: tuple[Measurement, ...]
    cautions: tuple[Caution, ...]


def compare_outputs(outputs: Sequence[Outputs]) -> dict[str, Verdict]:
    """Run id → measurements against the reference and, where it disagrees with the majority, a caution.

    The reference is the original network; without one, the first run of the largest group that agrees within itself.
    Fewer than two runs give nothing.
    """
    if len(outputs) < 2:
        return {}
    original = next((index for index, own in enumerate(outputs) if own.original), None)
    if original is None:
        groups = _groups(outputs)
        majority = groups[0]
        clear = len(groups) == 1 or len(majority) > len(groups[1])
    else:
        others = (index for index in range(len(outputs)) if index != original)
        majority = [original, *(i for i in others if difference_of(outputs[i], outputs[original]).close)]
        clear = True
    reference = outputs[majority[0]]
    verdicts = {}
    for index, own in enumerate(outputs):
        difference = difference_of(own, reference)
        cautions = []
        if index not in majority or not clear:
            cautions.append(_mismatch(own, outputs, majority if clear else None))
        rows = (
            absent_measurements(REFERENCE)
            if own is reference
            else measurements_of_difference(difference, reference.label)
        )
        verdicts[own.run_id] = Verdict(rows, tuple(cautions))
    return verdicts


def check_finite(outputs: Outputs) -> tuple[Caution, ...]:
    """Return a caution where any output holds NaN or infinity: for such inputs neither speed nor agreement means
    much.
    """
    lost = sum(map(_count_lost, outputs.arrays))
    if not lost:
        return ()
    share = lost / sum(array.size for array in outputs.arrays)
    return (Caution.of("output-not-finite", f"{share:.0%} of the outputs of {outputs.label} are NaN or infinite"),)


def _count_lost(array: NDArray[np.generic]) -> int:
    """Return how many elements are NaN or infinite."""
    return int(np.count_nonzero(~np.isfinite(array))) if np.issubdtype(array.dtype, np.floating) else 0


def difference_of(own: Outputs, reference: Outputs) -> Difference:
    """How far `own` is from `reference`; outputs of another number or size are infinitely far."""
    if [array.size for array in own.arrays] != [array.size for array in reference.arrays]:
        why = f"outputs have shapes {_shapes(own)}, those of the reference {_shapes(reference)}"
        return Difference(float("inf"), float("inf"), None, close=False, why=why)
    largest, relative = 0.0, 0.0
    reasons: dict[str, None] = {}
    tops: list[NDArray[np.bool_]] = []
    for mine, theirs in zip(own.arrays, reference.arrays, strict=True):
        if not np.issubdtype(theirs.dtype, np.number) and theirs.dtype != np.bool_:
            same = bool((mine.reshape(theirs.shape) == theirs).all())
            if not same:
                largest, relative = float("inf"), float("inf")
                reasons["non-numeric outputs differ"] = None
            continue
        if theirs.size == 0:
            continue
        worst = 0.0
        for a, b in _pieces(mine, theirs):
            with np.errstate(invalid="ignore"):  # ∞ − ∞
                gap = np.abs(a - b)
            gap[np.isnan(a) & np.isnan(b)] = 0.0
            gap[a == b] = 0.0  # equal infinities
            worst = max(worst, float(np.where(np.isnan(gap), np.inf, gap).max()))
        if worst == float("inf"):
            reasons[ELSEWHERE] = None
        scale = _scale(theirs)
        largest = max(largest, worst)
        # What is below any engine's rounding is no difference, however small the outputs are.
        relative = max(relative, worst / scale if scale > 0 else (0.0 if worst <= NOISE else float("inf")))
        if theirs.ndim >= 2 and theirs.shape[-1] >= 2:
            tops.append(_same_top(mine, theirs))
    reduced = own.reduced or reference.reduced
    tolerance = REDUCED_TOLERANCE if reduced else EXACT_TOLERANCE
    allowed = f"{tolerance:.1%} is allowed: {reduced or 'everything computes in float32, as far as known'}"
    if not reasons and (lost := sum(map(_count_lost, reference.arrays))):
        size = sum(array.size for array in reference.arrays)
        if lost == size:
            return Difference(float("nan"), float("nan"), None, close=True, why=NOT_FINITE)
        allowed += f"; {lost} of {size} elements are NaN or infinite in both"
    rows = np.concatenate(tops) if tops else np.empty(0)
    top1 = float(rows.mean()) if rows.size else None
    return Difference(
        largest,
        relative,
        top1,
        allowed=allowed,
        close=relative <= tolerance or largest <= NOISE,
        why=" and ".join(reasons),
    )


def _shapes(outputs: Outputs) -> str:
    return ", ".join("×".join(map(str, array.shape)) or "a number" for array in outputs.arrays) or "none"


def _pieces(*arrays: NDArray[np.generic]) -> Iterator[tuple[NDArray[np.float64], ...]]:
    """Yield the elements of arrays of one size, some at a time and in double precision: all at once take eight
    times more.
    """
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, PIECE):
        yield tuple(each[start : start + PIECE].astype(np.float64) for each in flat)


def _scale(reference: NDArray[np.generic]) -> float:
    """Return what a difference is relative to: the largest magnitude; of quantised values the range of their type."""
    if reference.dtype in (np.int8, np.uint8, np.int16, np.uint16):
        return 2.0 ** (8 * reference.dtype.itemsize) - 1.0
    return max(float(np.abs(piece[np.isfinite(piece)]).max(initial=0.0)) for (piece,) in _pieces(reference))


def _same_top(a: NDArray[np.generic], b: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Per row: is `a`'s largest element one of `b`'s largest? Ties, common in int8, count as agreement."""
    width = b.shape[-1]
    rows_a, rows_b, step = a.reshape(-1, width), b.reshape(-1, width), max(1, PIECE // width)
    found: list[NDArray[np.bool_]] = []
    for start in range(0, len(rows_b), step):
        some_a, some_b = rows_a[start : start + step], rows_b[start : start + step]
        # Where there is NaN there is no largest element to speak of.
        whole = ~(np.isnan(some_a).any(axis=-1) | np.isnan(some_b).any(axis=-1))
        chosen = np.take_along_axis(some_b, some_a.argmax(axis=-1)[:, None], axis=-1)[:, 0]
        found.append((chosen == some_b.max(axis=-1))[whole])
    return np.concatenate(found)


def _groups(outputs: Sequence[Outputs]) -> list[list[int]]:
    """Return indices of runs that agree with each other, directly or through others, largest group first."""
    parent = list(range(len(outputs)))

    def root(index: int) -> int:
        while parent[index] != index:
            index = parent[index]
        return index

    for one, other in combinations(range(len(outputs)), 2):
        if difference_of(outputs[other], outputs[one]).close:
            parent[max(root(one), root(other))] = min(root(one), root(other))
    groups: dict[int, list[int]] = {}
    for index in range(len(outputs)):
        groups.setdefault(root(index), []).append(index)
    return sorted(groups.values(), key=lambda group: (-len(group), group[0]))


def _mismatch(own: Outputs, outputs: Sequence[Outputs], majority: Sequence[int] | None) -> Caution:
    if majority is None:
        others = [other for other in outputs if other is not own and not difference_of(own, other).close]
        difference = difference_of(own, others[0])
        who = f"{own.label} and {', '.join(other.label for other in others)} compute different outputs"
        return Caution.of("output-mismatch", f"{who}, and {NO_MAJORITY} ({difference_words(difference)})")
    reference = outputs[majority[0]]
    agreed = ", ".join(outputs[index].label for index in majority)
    who = f"{reference.label}, the original" if reference.original else f"{agreed}, which agree"
    difference = difference_of(own, reference)
    return Caution.of(
        "output-mismatch", f"the outputs of {own.label} differ from those of {who} ({difference_words(difference)})"
    )


def difference_words(difference: Difference) -> str:
    """How large a difference is, and which one is allowed."""
    if difference.why:
        return difference.why
    top1 = f", top-1 agreement {difference.top1:.0%}" if difference.top1 is not None else ""
    share = f"{difference.max_rel:.2%} of the output's scale; {difference.allowed}"
    return f"max abs error {difference.max_abs:.3g}, {share if np.isfinite(difference.max_rel) else ALL_ZERO}{top1}"


NOT_FINITE = "all outputs are NaN or infinite with these inputs, so there is nothing to compare"
ELSEWHERE = "NaN or infinity in different places"
REAL_INPUTS = f"give real inputs with {as_flag('input_data')}"
ALL_ZERO = "the reference's output is 0 everywhere, so there is no scale"
NO_MAJORITY = "there is no majority, so it is unknown which is right"
BEYOND = "more than rounding explains"
"""Ends the method of a difference that is no rounding."""

REFERENCE = "this run is the reference"
"""Why the reference has no difference: it was not compared with anything."""

METRICS_OF_AGREEMENT = ("output_max_abs_error", "output_max_rel_error", "agreement_top1")


def compared_with(label: str) -> str:
    """Return the method of a comparison of outputs with those of `label`."""
    return f"outputs of one inference compared with those of {label}, on the same inputs"


def not_compared(label: str) -> str:
    """How the reason begins why outputs were not compared with those of `label`."""
    return f"not compared with those of {label}: "


def absent_measurements(because: str) -> tuple[Measurement, ...]:
    """Return what agreement adds to a run that was not compared."""
    return tuple(Measurement.absent(metric, because) for metric in METRICS_OF_AGREEMENT)


def measurements_of_difference(difference: Difference, label: str) -> tuple[Measurement, ...]:
    """How far a run's outputs are from those of `label`."""
    method = compared_with(label)
    method += "" if difference.close else f"; {BEYOND}"
    rows = []
    for metric, value in zip(
        METRICS_OF_AGREEMENT, (difference.max_abs, difference.max_rel, difference.top1), strict=True
    ):
        if value is not None and np.isfinite(value):
            rows.append(Measurement.of(metric, value, method))
            continue
        nothing = "no output has rows of class scores without NaN" if value is None else ALL_ZERO
        why = f"{NOT_FINITE}: {REAL_INPUTS}" if difference.why == NOT_FINITE else difference.why
        rows.append(Measurement.absent(metric, why or nothing))
    return tuple(rows)
