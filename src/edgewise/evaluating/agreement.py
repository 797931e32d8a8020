"""Without labels: the difference of a model's outputs, or of the boxes in them, from a reference's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import BadInput
from edgewise.evaluating.task import Record, Table
from edgewise.evaluating.tasks.boxes import Detections, overlaps
from edgewise.stats.differences import Sums, decibels
from edgewise.workload.arrays import Array

Floats = NDArray[np.float64]

WORST = "output_snr_worst"
OVERLAP = 0.5
"""Intersection over union from which two boxes are the same."""
METRICS = ("agreement_top1", "output_snr", WORST, "output_max_abs_error")


class AgreementTable(Table):
    """Agreement over samples: float64 (samples,) each.

    Args:
        rows, same: rows of outputs, and those whose largest element is where the reference has it.
        signal, noise: sums of squares of the reference and of the difference from it; NaN where an output is not
            finite.
        worst: largest absolute differences; NaN where an output is not finite.
        outputs: signal and noise of every output alone (samples, outputs, 2); no outputs where they were not kept.
    """

    def __init__(
        self, *, rows: Floats, same: Floats, signal: Floats, noise: Floats, worst: Floats, outputs: Floats
    ) -> None:
        self.n = int(rows.size)
        self._rows, self._same, self._signal, self._noise, self._worst = rows, same, signal, noise, worst
        self._outputs = outputs
        # With one row a sample, rows are samples: independent of each other, and a share of them.
        self.proportions = {"agreement_top1": same} if self.n and bool((rows == 1).all()) else {}
        self.bounds = {
            "output_snr": (-math.inf, math.inf), WORST: (-math.inf, math.inf), "output_max_abs_error": (0.0, math.inf)
        }  # fmt: skip
        self.no_interval: Mapping[str, str] = {
            "output_max_abs_error": "the maximum over these samples does not bound that of others"
        }

    def _calculate(self, counts: Array) -> Mapping[str, float]:
        used = counts > 0.0
        total = float(counts @ self._rows)
        # 0 × NaN is NaN: samples that don't count are left out.
        signal = float(counts[used] @ self._signal[used])
        noise = float(counts[used] @ self._noise[used])
        # Identical outputs have no finite ratio; neither has a reference of zeros.
        found = {
            "agreement_top1": float(counts @ self._same) / total if total > 0.0 else math.nan,
            "output_snr": decibels(signal, noise),
            "output_max_abs_error": float(self._worst[used].max()) if used.any() else math.nan,
        }
        if self._outputs.shape[1]:
            sums = np.tensordot(counts[used], self._outputs[used], axes=1)
            ratios = [decibels(*each) for each in sums.tolist() if each[1] != 0.0]
            found[WORST] = math.nan if any(map(math.isnan, ratios)) else min(ratios, default=math.nan)
        return found

    def worst_output(self) -> int | None:
        """Return the number of the output with the lowest signal-to-noise ratio; None where that is not known."""
        sums = self._outputs.sum(axis=0).tolist()
        ratios = [(decibels(*each), number) for number, each in enumerate(sums) if each[1] != 0.0]
        return None if not ratios or any(math.isnan(each) for each, _ in ratios) else min(ratios)[1]

    def explain(self, metric: str) -> str | None:
        """Return why `metric` is not defined."""
        if metric == "agreement_top1":
            return "no output has rows of two or more elements"
        broken = int(np.count_nonzero(~np.isfinite(self._noise + self._signal + self._worst)))
        if broken:
            return f"outputs of {broken} of {self.n} samples are NaN, infinite or too large to square"
        if self._noise.sum() == 0.0:
            return "outputs are identical"
        if metric == WORST:
            return "all of the reference's values of one output are 0"
        return "all of the reference's outputs are 0"


def compare_sample(
    outputs: Sequence[Array], reference: Sequence[Array], *, probabilities: Sequence[bool] | None = None
) -> Record:
    """Return how far one sample's outputs are from the reference's.

    A record is ``[rows, same, signal, noise, worst]``, of several outputs followed by the signal and the noise of each.
    Rows run along the last dimension of outputs with two or more; of equally large elements any counts, for ties are
    common in int8. A row of the reference with NaN is no row; a row with NaN against one without is not the same. All
    but the first two are None where an element is not finite. `probabilities`: which outputs are probabilities: their
    signal alone is 1 for every element, for they may all be near 0 and right. None: not known, and signal and noise of
    a single output are not kept once more. Raises `BadInput`: outputs of another number or size.
    """
    if [array.size for array in outputs] != [array.size for array in reference]:
        raise BadInput(
            f"outputs of shapes {_shapes(outputs)} can't be compared with a reference's of {_shapes(reference)}",
            advice="both models must give the same outputs in the same order",
        )
    rows, same, signal, noise, worst = 0, 0, 0.0, 0.0, 0.0
    alone: list[float] = []
    for number, (own, right) in enumerate(zip(outputs, reference, strict=True)):
        if own.dtype.kind not in "fiub" or right.dtype.kind not in "fiub":
            raise BadInput(
                f"outputs of {right.dtype.name} can't be compared number by number",
                advice="compare models with numbers",
            )
        b = right.astype(np.float64)
        a = own.astype(np.float64).reshape(b.shape)
        if b.size == 0:
            alone += [0.0, 0.0]
            continue
        if b.ndim >= 2 and b.shape[-1] >= 2:
            counted, agreed = _count_same(a.reshape(-1, b.shape[-1]), b.reshape(-1, b.shape[-1]))
            rows, same = rows + counted, same + agreed
        with np.errstate(invalid="ignore", over="ignore"):
            sums = Sums()
            sums.add(b.ravel(), a.ravel())
        signal, noise = signal + sums.signal, noise + sums.noise
        alone += [float(b.size) if probabilities is not None and probabilities[number] else sums.signal, sums.noise]
        worst = max(worst, sums.largest) if math.isfinite(sums.largest) else math.nan
        worst = math.nan if math.isnan(signal) or math.isnan(noise) else worst
    kept = alone if probabilities is not None or len(reference) > 1 else []
    return [rows, same, *(each if math.isfinite(each) else None for each in (signal, noise, worst, *kept))]


def tabulate(records: Sequence[Record]) -> AgreementTable:
    """Return the table of all samples."""
    columns: Any = np.array(records, dtype=np.float64).reshape(len(records), -1) if records else np.zeros((0, 5))
    rows, same, signal, noise, worst = columns[:, :5].T
    outputs = columns[:, 5:].reshape(len(columns), (columns.shape[1] - 5) // 2, 2)
    return AgreementTable(rows=rows, same=same, signal=signal, noise=noise, worst=worst, outputs=outputs)


def _count_same(a: Floats, b: Floats) -> tuple[int, int]:
    """Return rows of `b` without NaN, and those of them where `a`'s largest element is one of `b`'s largest."""
    whole = ~np.isnan(b).any(axis=-1)
    a, b = a[whole], b[whole]
    chosen = np.take_along_axis(b, a.argmax(axis=-1)[:, None], axis=-1)[:, 0]
    same = (chosen == b.max(axis=-1)) & ~np.isnan(a).any(axis=-1)
    return int(whole.sum()), int(same.sum())


def _shapes(outputs: Sequence[Array]) -> str:
    return ", ".join(str(list(array.shape)) for array in outputs) or "none"


def compare_boxes(own: Detections, reference: Detections) -> Record:
    """Return ``[matched, own, reference]``: the number of boxes that are the same, and of each model's boxes.

    The best of `own` chooses first, among the boxes of its class that are left, the one that it overlaps most.
    """
    left = np.ones(len(reference.scores), dtype=bool)
    matched = 0
    for place in np.argsort(-own.scores, kind="stable"):
        free = left & (reference.classes == own.classes[place])
        shared = np.where(free, overlaps(own.boxes[place], reference.boxes), 0.0)
        if shared.size and shared.max() >= OVERLAP:
            left[int(shared.argmax())] = False
            matched += 1
    return [matched, len(own.scores), len(reference.scores)]


class BoxTable(Table):
    """Boxes over samples. Args: records of `compare_boxes`."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.n = len(records)
        self._counts = np.array(records, dtype=np.float64).reshape(-1, 3)

    def _calculate(self, counts: Array) -> Mapping[str, float]:
        matched, own, reference = counts @ self._counts
        total = own + reference
        return {"agreement_boxes": float(2.0 * matched / total) if total > 0 else float("nan")}

    def explain(self, metric: str) -> str | None:
        """Return why it is not defined."""
        return "neither model found a box"
