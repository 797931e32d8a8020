"""Without labels: how far a model's outputs are from those of a reference model, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.agreement import BoxTable, compare_boxes, compare_sample, tabulate
from edgewise.evaluating.dataset import CorruptSample, Sample
from edgewise.evaluating.evaluator import ModelAdapter
from edgewise.evaluating.output_format import OutputFormat
from edgewise.evaluating.scores import JoinedTable
from edgewise.evaluating.task import ClassAnswer, MetricTable, Preparation, Record
from edgewise.evaluating.tasks.boxes import UnreadableOutputs
from edgewise.run.inference import InferenceFailed
from edgewise.workload.arrays import Array

CACHE_BYTES = 256 * 2**20
"""Of the reference's outputs, for further models that are compared on the same samples."""


class OutputCache:
    """A reference's outputs by the sample's number, up to a number of bytes."""

    def __init__(self, room: int = CACHE_BYTES) -> None:
        self._room = room
        self._outputs: dict[int, list[Array]] = {}

    def get(self, index: int) -> list[Array] | None:
        """Return the outputs for a sample; None where they are not in the cache."""
        return self._outputs.get(index)

    def add(self, index: int, outputs: list[Array]) -> None:
        """Keep them if there is room."""
        size = sum(array.nbytes for array in outputs)
        if size <= self._room:
            self._room -= size
            self._outputs[index] = outputs


class ReferenceScorer:
    """Compares outputs with another model's: a context manager whose end stops that model's worker.

    The worker starts with the first sample whose outputs are not in the cache.

    Attributes:
        headline: id of the metric that the comparison is about.
        adapter: runs the reference.
        identity: what decides the reference's outputs, JSON-shaped.

    Args:
        cache: outputs of the same model on the same data; new ones are added.
        form: format of the outputs; None compares them as class scores.
    """

    def __init__(
        self, adapter: ModelAdapter, *, name: str, cache: OutputCache | None = None, form: OutputFormat | None = None
    ) -> None:
        self.adapter = adapter
        self.identity = adapter.identity
        self.settings: Mapping[str, Any] = {"reference": name, **({} if form is None else form.to_document())}
        self.headline = "agreement_top1" if form is None else form.headline
        self._form = form
        self._cache = OutputCache(0) if cache is None else cache
        self._outputs: dict[int, list[Array]] = {}
        self._stack = ExitStack()
        self._started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        self._started = False

    def begin_batch(self, samples: Sequence[Sample]) -> None:
        """Run the samples that come next through the reference. Raises `BadInput`, `InferenceFailed`."""
        known = {sample.index: outputs for sample in samples if (outputs := self._cache.get(sample.index)) is not None}
        self._outputs = known
        missing = [sample for sample in samples if sample.index not in known]
        if not missing:
            return
        feeds = []
        for sample in missing:
            try:
                feeds.append(self.adapter.prepare(sample)[0])
            except CorruptSample as error:
                raise BadInput(
                    f"{error.name} fits the model but not the reference: {error.reason}",
                    advice="both models must take the same data",
                ) from error
        try:
            if not self._started:
                self._stack.enter_context(self.adapter.inference)
                self._started = True
            answers = self.adapter.infer(feeds)
        except InferenceFailed as error:
            # Not to be taken for a failure of the model under test.
            failure = replace(error.failure, message=f"the reference failed: {error.failure.message}")
            raise InferenceFailed(failure) from error
        for sample, outputs in zip(missing, answers, strict=True):
            self._outputs[sample.index] = outputs
            self._cache.add(sample.index, outputs)

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """Return the difference from the other model's outputs. Raises `BadInput` where they can't be compared."""
        form, reference = self._form, self._outputs[sample.index]
        if form is None or form.kind == "classes":
            return [compare_sample(outputs, reference), _find_best_classes(outputs, reference)]
        near = None if form.is_list else compare_sample(outputs, reference, probabilities=form.probabilities)
        if form.boxes is None:
            return near
        try:
            return [compare_boxes(form.boxes.find(outputs), form.boxes.find(reference)), near]
        except UnreadableOutputs as error:
            raise BadInput(f"{sample.name}: {error}", advice="set how boxes are read with ⟦task_option⟧") from error

    def tabulate(self, records: Sequence[Record]) -> MetricTable:
        """Return the agreement over all samples."""
        if self._form is None or self._form.kind == "classes":
            return tabulate([record[0] for record in records])
        if self._form.boxes is None:
            return tabulate(records)
        boxes = BoxTable([record[0] for record in records])
        if self._form.is_list:
            return boxes
        return JoinedTable((boxes, tabulate([record[1] for record in records])))

    def classes_of(self, before: Record, after: Record) -> tuple[None, ClassAnswer, ClassAnswer] | None:
        """As `HasClasses.classes_of`; the reference's answer is in the model's record `after`, too."""
        is_classes = self._form is None or self._form.kind == "classes"
        return (None, *after[1]) if is_classes and after[1] is not None else None


def _find_best_classes(outputs: Sequence[Array], reference: Sequence[Array]) -> Record:
    """Return ``[class, score]`` of the reference and of the model; None unless one output is a row of scores."""
    rows = [at for at, each in enumerate(reference) if each.ndim >= 2 and each.shape[-1] >= 2]
    if len(rows) != 1 or reference[rows[0]].size != reference[rows[0]].shape[-1] or np.isnan(reference[rows[0]]).any():
        return None
    right, own = reference[rows[0]].reshape(-1), outputs[rows[0]].reshape(-1)
    if np.isnan(own).any():
        return [[int(right.argmax()), float(right.max())], [None, None]]
    after = int(own.argmax())
    # Of equally large elements of the reference any counts, as in `compare_sample`.
    before = after if right[after] == right.max() else int(right.argmax())
    return [[before, float(right[before])], [after, float(own[after])]]
