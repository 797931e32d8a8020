"""Multiple choice: whether the right one of several texts is the one that a language model finds most probable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Choices, Kind, Sample
from edgewise.evaluating.task import MetricTable, Preparation, Record, Table, TaskContext
from edgewise.evaluating.tasks.language import (
    PromptOptions,
    check_prompt,
    check_room,
    choose_context,
    require_language_model,
    text_of,
)
from edgewise.evaluating.tasks.outputs import OutputTask, brief
from edgewise.workload.arrays import Array

CONTEXT = 2048
_BEST = 3


class ChoiceOptions(PromptOptions):
    """Options of multiple choice."""

    divide: Literal["bytes", "tokens", "none"] = Field(
        "bytes", description="bytes, tokens or none (what a choice's log-probability is divided by)"
    )


class ChoiceTable(Table):
    """Whether each sample was answered rightly.

    Attributes:
        chance: the share that guessing would answer rightly.
    """

    def __init__(self, right: Sequence[bool], chances: Sequence[float]) -> None:
        self.n = len(right)
        self.chance = float(np.mean(chances)) if chances else 0.0
        self.proportions: Mapping[str, Array] = {"accuracy_top1": np.array(right, np.float64)}

    def _calculate(self, counts: Array) -> Mapping[str, float]:
        total = float(counts.sum())
        return {"accuracy_top1": float(counts @ self.proportions["accuracy_top1"]) / total if total else math.nan}


class ChoiceScorer:
    """Records: ``[scores of the choices, the number of the right one]``; a score that is not finite is None."""

    headline = "accuracy_top1"

    def __init__(self, context: TaskContext, options: ChoiceOptions, *, task: str) -> None:
        require_language_model(context, task)
        self._divide, self._prompt = options.divide, check_prompt(options.prompt)
        self._context = choose_context(options, CONTEXT, context)
        self.settings: Mapping[str, Any] = {
            "context": self._context, "prompt": options.prompt, "divided_by": options.divide,
            "score": "log-probability of a space and the choice after the prompt",
        }  # fmt: skip

    def question(self, sample: Sample) -> Mapping[str, Any]:
        """As `AsksLanguageModel.question`."""
        texts = [f" {text}" for text in _choices_of(sample).texts]
        return {"before": self._prompt.replace("{}", text_of(sample)), "texts": texts, "context": self._context}

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """As `Scorer.record`."""
        texts, answer = _choices_of(sample)
        rows = outputs[0].tolist()
        for number, (_, tokens, before) in enumerate(rows, 1):
            check_room(sample, f"choice {number}", int(tokens), int(before), self._context)
        scores = [self._score(row[0], row[1], text) for row, text in zip(rows, texts, strict=True)]
        return [[each if math.isfinite(each) else None for each in scores], answer]

    def _score(self, probability: float, tokens: float, text: str) -> float:
        sizes = {"bytes": len(text.encode()), "tokens": tokens, "none": 1}
        return probability / sizes[self._divide]

    def tabulate(self, records: Sequence[Record]) -> MetricTable:
        """As `Scorer.tabulate`."""
        right = [_best_of(scores) == answer for scores, answer in records]
        return ChoiceTable(right, [1 / len(scores) for scores, _ in records])

    def answer(self, record: Record) -> tuple[int | None, int]:
        """As `HasAnswers.answer`."""
        return _best_of(record[0]), record[1]

    def top_classes(self, outputs: Sequence[Array], sample: Sample) -> Mapping[str, Any]:
        """As `RanksClasses.top_classes`."""
        scores, answer = self.record(outputs, sample, Preparation())
        known = [(score, number) for number, score in enumerate(scores) if score is not None]
        best = sorted(known, key=lambda each: (-each[0], each[1]))[:_BEST]
        return {"label": answer, "top": [[number, score] for score, number in best]}


def _best_of(scores: Sequence[float | None]) -> int | None:
    """Return the number of the best choice, the first of equal ones; None where no score is known."""
    known = [-math.inf if score is None else score for score in scores]
    return None if all(score is None for score in scores) else known.index(max(known))


def _choices_of(sample: Sample) -> Choices:
    if isinstance(sample.label, Choices):
        return sample.label
    raise BadInput(
        f"{sample.name} has the label {brief(sample.label)} and no choices",
        advice='give lines such as {"prompt": "…", "choices": ["…", "…"], "answer": 0}',
    )


class MultipleChoice(OutputTask):
    """``multiple-choice``: which of several texts a language model finds most probable."""

    name = "multiple-choice"
    title = "Multiple choice"
    kinds: Sequence[Kind] = ("text",)
    metrics: Sequence[str] = ("accuracy_top1",)
    language_models = True
    options = ChoiceOptions
    scorer = ChoiceScorer
