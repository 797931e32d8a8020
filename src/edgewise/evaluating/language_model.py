"""A language model under evaluation: it is asked about texts instead of being fed arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Sample
from edgewise.evaluating.evaluator import ModelAdapter, ModelUnderTest
from edgewise.evaluating.task import AsksLanguageModel, Preparation, Scorer, Task
from edgewise.model.identity import format_of, open_model
from edgewise.record import ModelRef
from edgewise.run.inference import Inference
from edgewise.run.language_models import generates, read_language_header
from edgewise.run.language_samples import pack_question
from edgewise.run.run_builder import RunBuilder
from edgewise.runtime.base import runtimes
from edgewise.workload.arrays import Array

OF_LANGUAGE_MODELS = "check the prompt (⟦task_option=prompt=…⟧), and a file of the model that is quantised less"
"""What to do about answers that are no better than guesses."""


def is_language_model(model: ModelRef | Path) -> bool:
    """Whether it makes text in an engine, and has no inputs and outputs of its own. Raises `BadModel`."""
    form, file = format_of(model.path if isinstance(model, ModelRef) else model)
    if not any(generates(runtime, form) for _, runtime in runtimes()):
        return False
    if read_language_header(file, form) is not None:
        return True
    signature = open_model(model).signature
    return not signature.inputs and not signature.outputs


class LanguageAdapter(ModelAdapter):
    """Asks a language model the questions of a scorer."""

    def __init__(self, tested: ModelUnderTest, scorer: AsksLanguageModel, *, builder: RunBuilder) -> None:
        self._scorer, self._end_by = scorer, None
        self.batch, self.ranges, self.times, self.notes = 1, {}, [], ()
        self.inference = Inference(tested.job, builder=builder)

    def prepare(self, sample: Sample) -> tuple[list[Array], Preparation]:
        """Return the question about a sample."""
        return pack_question(self._scorer.question(sample)), Preparation()

    def infer(self, feeds: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """As `ModelAdapter.infer`."""
        return self.inference.infer(feeds)

    def note_times(self, indices: Sequence[int], reading: Sequence[float]) -> None:
        """Keep none: the time of a question is none of a request."""


def adapter_of(tested: ModelUnderTest, scorer: Scorer, *, builder: RunBuilder) -> LanguageAdapter | None:
    """Return what asks a language model; None for models that are fed arrays."""
    return LanguageAdapter(tested, scorer, builder=builder) if isinstance(scorer, AsksLanguageModel) else None


def check_language_task(tested: ModelUnderTest, task: Task | None, *, others: bool) -> None:
    """Refuse what only models that are fed arrays have.

    Args:
        others: whether a reference or a metric of the user's own is to judge the model.

    Raises:
        BadInput: one of them, another task, steps of preparation, or a state that is kept.
    """
    name = tested.job.model.name
    if others or not getattr(task, "language_models", False):
        raise BadInput(
            f"{name} is a language model, which has other tasks",
            advice="use ⟦task=perplexity⟧, ⟦task=multiple-choice⟧ or ⟦task=text-generation⟧, without ⟦reference⟧ and "
            "⟦metric⟧",
        )
    unused = {"prepare": tested.instructions.steps, "keep_state": tested.job.workload.keep_state}
    if given := [f"⟦{field}⟧" for field, value in unused.items() if value]:
        raise BadInput(f"{name} takes texts as they are, each by itself", advice=f"leave {given[0]} out")
