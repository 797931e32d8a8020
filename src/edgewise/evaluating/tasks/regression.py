"""Regression: how far numbers are from what they should be.

Of several outputs per sample, each metric is the mean over outputs of each one's ("uniform average"), as scikit-learn
has it. R² of an output whose labels are all the same is not defined, and neither is then the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Kind, Sample
from edgewise.evaluating.task import MetricTable, Preparation, Record, Table, TaskContext
from edgewise.evaluating.tasks.outputs import OutputOptions, OutputScorer, OutputTask, brief, elements_of
from edgewise.workload.arrays import Array

Floats = NDArray[np.float64]

MOST_OUTPUTS = 4096
"""Per sample; all of them are kept, since R² is one per output."""

NEGLIGIBLE = 1e-24
"""Share of the labels' sum of squares below which their spread is rounding."""


class RegressionTable(Table):
    """Answers and labels, float64 (samples, outputs)."""

    def __init__(self, answers: Floats, labels: Floats) -> None:
        self.n = int(labels.shape[0])
        self.bounds = {
            "mae": (0.0, np.inf), "rmse": (0.0, np.inf), "r2": (-np.inf, 1.0)
        }  # fmt: skip
        self._broken: NDArray[np.bool_] = np.asarray(~np.isfinite(answers).all(axis=1))
        errors = np.where(np.isfinite(answers), answers - labels, np.nan)
        self._labels = labels
        self._distances, self._squares = np.abs(errors), errors**2

    def _calculate(self, counts: Array) -> Mapping[str, float]:
        total = float(counts.sum())
        used = counts > 0.0
        if total <= 0.0 or bool(self._broken[used].any()):
            return dict.fromkeys(("mae", "rmse", "r2"), float("nan"))
        if self._broken.any():  # 0 × NaN is NaN, too
            counts = counts[used]
            distances, squares = self._distances[used], self._squares[used]
            labels = self._labels[used]
        else:
            distances, squares, labels = self._distances, self._squares, self._labels
        missed = counts @ squares
        # Two passes: equal labels then have no spread but that of rounding their mean.
        spread = counts @ (labels - counts @ labels / total) ** 2
        flat = spread <= NEGLIGIBLE * np.maximum(counts @ labels**2, np.finfo(np.float64).tiny)
        r2 = np.where(flat, np.nan, 1.0 - missed / np.where(flat, 1.0, spread))
        return {
            "mae": float((counts @ distances / total).mean()),
            "rmse": float(np.sqrt(missed / total).mean()),
            "r2": float(r2.mean()),
        }

    def explain(self, metric: str) -> str | None:
        """Return why `metric` is not defined."""
        broken = int(np.count_nonzero(self._broken))
        if broken:
            return f"the outputs of {broken} of {self.n} samples are NaN or infinite"
        if metric != "r2":
            return None
        if self.n == 1:
            return "one sample has no spread"
        return "all labels of an output are the same"


class RegressionScorer(OutputScorer):
    """A record is ``[answers, labels]``, two lists of numbers; an answer is None where it is not finite."""

    headline = "mae"

    def __init__(self, context: TaskContext, options: OutputOptions, *, task: str) -> None:
        super().__init__(context, options, task=task)
        self._check_size(elements_of(self._spec) or 1)

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """As `Scorer.record`."""
        answers = np.asarray(outputs[self._number]).astype(np.float64).reshape(-1)
        self._check_size(answers.size)
        labels = self._read(sample)
        if labels.size != answers.size:
            raise BadInput(
                f"the label of {sample.name} of {self._data} has {labels.size} numbers, and the output {answers.size}",
                advice="choose another output with ⟦task_option=output=NAME⟧; is the data made for this model?",
            )
        return [[float(each) if np.isfinite(each) else None for each in answers], [float(each) for each in labels]]

    def tabulate(self, records: Sequence[Record]) -> MetricTable:
        """As `Scorer.tabulate`."""
        widths = {len(record[1]) for record in records}
        if len(widths) > 1:
            raise BadInput(
                f"samples of {self._data} have {min(widths)} to {max(widths)} outputs", advice="all need as many"
            )
        width = max(widths, default=1)
        answers = np.array([record[0] for record in records], dtype=np.float64).reshape(-1, width)
        labels = np.array([record[1] for record in records], dtype=np.float64).reshape(-1, width)
        return RegressionTable(answers, labels)

    def _read(self, sample: Sample) -> Floats:
        try:
            labels = np.asarray(sample.label).astype(np.float64).reshape(-1)
        except (TypeError, ValueError):
            labels = np.array([np.nan])
        if not labels.size or not np.isfinite(labels).all():
            raise BadInput(
                f"{sample.name} of {self._data} has the label {brief(sample.label)}, which is not a finite number",
                advice="labels of a regression are numbers",
            )
        return labels

    def _check_size(self, size: int) -> None:
        if not 0 < size <= MOST_OUTPUTS:
            raise BadInput(
                f"regression supports 1 to {MOST_OUTPUTS} outputs per sample, not {size}",
                advice="score them with a function of your own: ⟦metric⟧ module:function",
            )


class Regression(OutputTask):
    """``regression``: one number or several per sample."""

    name = "regression"
    title = "Regression"
    kinds: Sequence[Kind] = ("array", "image", "audio")
    metrics: Sequence[str] = ("mae", "rmse", "r2")
    options = OutputOptions
    scorer = RegressionScorer
