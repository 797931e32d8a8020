"""Where there are no labels: how far a model's outputs are from those of another one, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from edgewise.errors import BadInput
from edgewise.evaluating.agreement import compare_sample, tabulate
from edgewise.evaluating.box_agreement import BoxTable, compare_boxes
from edgewise.evaluating.dataset import CorruptSample, Sample
from edgewise.evaluating.evaluator import Array, Prompter
from edgewise.evaluating.form import Form
from edgewise.evaluating.own_metric import JoinedTable
from edgewise.evaluating.task import Feed, Record, Table
from edgewise.evaluating.tasks.boxes import Unreadable
from edgewise.run.inference import InferenceFailed

KEPT_BYTES = 256 * 2**20
"""Of a reference's outputs, for further models that are asked about the same samples."""


class Kept:
    """A reference's outputs by the number of the sample, as far as there is room."""

    def __init__(self, room: int = KEPT_BYTES) -> None:
        self._room = room
        self._outputs: dict[int, list[Array]] = {}

    def get(self, index: int) -> list[Array] | None:
        """The outputs for a sample, None where they were not kept."""
        return self._outputs.get(index)

    def add(self, index: int, outputs: list[Array]) -> None:
        """Keep them where there is room."""
        size = sum(array.nbytes for array in outputs)
        if size <= self._room:
            self._room -= size
            self._outputs[index] = outputs


class ReferenceJudge:
    """Takes another model's outputs as right: a context, at whose end that model's worker is gone.

    The worker starts when a sample comes whose outputs are not known yet.

    Attributes:
        headline: id of the metric that the comparison is about.
        prompter: the other model's side of the pass.
        identity: what makes its answers the same as those of another time, JSON-shaped.

    Args:
        kept: what the same model said of the same data before; what it says now is added.
        form: what the outputs are; None compares them as class scores.
    """

    def __init__(self, prompter: Prompter, *, name: str, kept: Kept | None = None, form: Form | None = None) -> None:
        self.prompter = prompter
        self.identity = prompter.identity
        self.settings: Mapping[str, Any] = {"reference": name, **({} if form is None else form.to_document())}
        self.headline = "agreement_top1" if form is None else form.headline
        self._form = form
        self._kept = Kept(0) if kept is None else kept
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

    def watch(self, samples: Sequence[Sample]) -> None:
        """Ask the other model about the samples that come next. Raises `BadInput`, `InferenceFailed`."""
        known = {sample.index: outputs for sample in samples if (outputs := self._kept.get(sample.index)) is not None}
        self._outputs = known
        strange = [sample for sample in samples if sample.index not in known]
        if not strange:
            return
        feeds = []
        for sample in strange:
            try:
                feeds.append(self.prompter.prepare(sample)[0])
            except CorruptSample as error:
                raise BadInput(
                    f"{error.name} suits the model and not its reference: {error.reason}",
                    advice="both must be fed the same data",
                ) from error
        try:
            if not self._started:
                self._stack.enter_context(self.prompter.inference)
                self._started = True
            answers = self.prompter.infer(feeds)
        except InferenceFailed as error:
            # Not to be taken for a failure of the model that is judged.
            failure = replace(error.failure, message=f"the reference failed: {error.failure.message}")
            raise InferenceFailed(failure) from error
        for sample, outputs in zip(strange, answers, strict=True):
            self._outputs[sample.index] = outputs
            self._kept.add(sample.index, outputs)

    def record(self, outputs: Sequence[Array], sample: Sample, feed: Feed) -> Record:
        """How far the outputs are from the other model's. Raises `BadInput` where they can't be compared."""
        del feed
        form, reference = self._form, self._outputs[sample.index]
        if form is None or form.kind == "classes":
            return compare_sample(outputs, reference)
        near = None if form.is_list else compare_sample(outputs, reference, probabilities=form.probabilities)
        if form.boxes is None:
            return near
        try:
            return [compare_boxes(form.boxes.find(outputs), form.boxes.find(reference)), near]
        except Unreadable as error:
            raise BadInput(f"{sample.name}: {error}", advice="say how boxes are read with --task-option") from error

    def tabulate(self, records: Sequence[Record]) -> Table:
        """Agreement over all samples."""
        if self._form is None or self._form.boxes is None:
            return tabulate(records)
        boxes = BoxTable([record[0] for record in records])
        if self._form.is_list:
            return boxes
        return JoinedTable((boxes, tabulate([record[1] for record in records])))
