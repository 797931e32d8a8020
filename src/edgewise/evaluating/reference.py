"""Where there are no labels: how far a model's outputs are from those of another one, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgewise.errors import BadInput
from edgewise.evaluating.agreement import compare_sample, tabulate
from edgewise.evaluating.dataset import CorruptSample, Sample
from edgewise.evaluating.evaluator import Array, Prompter
from edgewise.evaluating.task import Feed, Record, Table
from edgewise.record import Failure
from edgewise.run.inference import InferenceFailed


def blame_reference(failure: Failure) -> Failure:
    """The failure of the other model, which shall not be taken for that of the one that is judged."""
    return replace(failure, message=f"the reference failed: {failure.message}")


class ReferenceJudge:
    """Takes another model's outputs as right. Its worker must be alive (`prompter.inference`) while it judges.

    Attributes:
        prompter: the other model's side of the pass.
        identity: what makes its answers the same as those of another time, JSON-shaped.
    """

    headline = "agreement_top1"

    def __init__(self, prompter: Prompter, *, name: str) -> None:
        self.prompter = prompter
        self.identity = prompter.identity
        self.settings: Mapping[str, Any] = {"reference": name}
        self._outputs: dict[int, list[Array]] = {}

    def watch(self, samples: Sequence[Sample]) -> None:
        """Ask the other model about the samples that come next."""
        feeds = []
        for sample in samples:
            try:
                feeds.append(self.prompter.prepare(sample)[0])
            except CorruptSample as error:
                raise BadInput(
                    f"{error.name} suits the model and not its reference: {error.reason}",
                    advice="both must be fed the same data",
                ) from error
        try:
            answers = self.prompter.infer(feeds)
        except InferenceFailed as error:
            raise InferenceFailed(blame_reference(error.failure)) from error
        self._outputs = {sample.index: outputs for sample, outputs in zip(samples, answers, strict=True)}

    def record(self, outputs: Sequence[Array], sample: Sample, feed: Feed) -> Record:
        """How far the outputs are from the other model's. Raises `BadInput` where they can't be compared."""
        del feed
        return compare_sample(outputs, self._outputs[sample.index])

    def tabulate(self, records: Sequence[Record]) -> Table:
        """Agreement over all samples."""
        return tabulate(records)
