"""The metrics that a user adds to a task's own: functions, and modules of Hugging Face."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.errors import BadInput
from edgewise.evaluating.custom_metric import CustomMetric
from edgewise.evaluating.dataset import Sample, refuse_unlabelled
from edgewise.evaluating.scores import JoinedTable
from edgewise.evaluating.task import HasAnswers, MetricTable, Preparation, Record, Scorer, TaskContext
from edgewise.evaluating.tasks.huggingface_metric import MODULE_PREFIX, HuggingFaceMetric, read_metric
from edgewise.workload.arrays import Array

AddedMetric = CustomMetric | HuggingFaceMetric
"""A metric beside a task's own."""


class CustomScorer:
    """A task's scorer, if any, and other metrics. A record is ``[the task's record, [what each metric keeps]]``."""

    def __init__(self, scorer: Scorer | None, metrics: Sequence[AddedMetric], *, headline: str) -> None:
        self._scorer, self._metrics = scorer, metrics
        self.headline = headline
        settings: dict[str, Any] = {} if scorer is None else dict(scorer.settings)
        for each in metrics:
            settings[each.group] = [*settings.get(each.group, ()), each.settings]
        self.settings: Mapping[str, Any] = settings
        for name in ("run_model", "top_classes"):  # optional abilities are recognised by their methods
            if hasattr(scorer, name):
                setattr(self, name, getattr(scorer, name))

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """As `Scorer.record`."""
        task = None if self._scorer is None else self._scorer.record(outputs, sample, preparation)
        single = [array[0] if array.ndim and array.shape[0] == 1 else array for array in outputs]
        given = single[0] if len(single) == 1 else single
        return [task, [each.keep(given, sample.label) for each in self._metrics]]

    def tabulate(self, records: Sequence[Record]) -> MetricTable:
        """As `Scorer.tabulate`."""
        own = [task for task, _ in records]
        parts = [] if self._scorer is None else [self._scorer.tabulate(own)]
        for number, metric in enumerate(self._metrics):
            parts.append(metric.tabulate([kept[number] for _, kept in records], own, self._scorer))
        return JoinedTable(parts)


def with_custom_metrics(scorer: Scorer | None, texts: Sequence[str], context: TaskContext) -> Scorer:
    """Return a scorer of the task's metrics and of those that `texts` name; without a task, of these alone.

    Raises:
        BadInput: a function that does not exist or can't be called, two of one name, or neither task nor metric.
        Unavailable: a metric of Hugging Face, without the evaluate package.
    """
    if not texts:
        if scorer is None:
            raise BadInput("nothing to evaluate", advice="give ⟦task=TASK⟧, ⟦metric⟧ module:function, or both")
        return scorer
    if not context.data.labelled:
        raise refuse_unlabelled(context.data, " to give to a metric")
    modules: list[AddedMetric] = [_read_module(scorer, text) for text in texts if text.startswith(MODULE_PREFIX)]
    functions = [CustomMetric(text) for text in texts if not text.startswith(MODULE_PREFIX)]
    names = [each.metric.partition(":")[2] for each in functions]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"two metrics are called {twice!r}", advice="give one of the functions another name")
    headline = functions[0].metric if scorer is None else scorer.headline
    return CustomScorer(scorer, [*modules, *functions], headline=headline)


def _read_module(scorer: Scorer | None, text: str) -> AddedMetric:
    if scorer is None:
        raise BadInput(f"{text} needs a task's answers", advice="give ⟦task=TASK⟧ too")
    if not isinstance(scorer, HasAnswers):
        raise BadInput(
            f"the metric {text} can't be used here: this task has no single answer per sample",
            advice="use it with classification and text tasks",
        )
    return read_metric(text)
