"""What variants are worth: loaded at all, in agreement with the original, and as right on the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.agreement import WORST, AgreementTable, compare_sample, tabulate
from edgewise.evaluating.dataset import CorruptSample, Dataset, Sample, choose_samples
from edgewise.evaluating.evaluator import (
    Array,
    ModelAdapter,
    ModelUnderTest,
    SampleResults,
    SampleSelection,
    run_samples,
)
from edgewise.evaluating.output_format import OutputFormat, find_output_format
from edgewise.evaluating.plausibility import check_plausible
from edgewise.evaluating.reference import OutputCache, ReferenceScorer
from edgewise.evaluating.run_records import describe, measurement_of
from edgewise.evaluating.scores import Score, compare_tables, score
from edgewise.evaluating.task import MetricTable, Scorer, TaskContext
from edgewise.metrics import SHARES
from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing.choice import drop_of
from edgewise.optimizing.random_data import RandomData
from edgewise.optimizing.search_settings import SearchSettings
from edgewise.optimizing.variant import MetricValue
from edgewise.record import Caution, Evaluation, Failure, InputSpec, Job, Measurement
from edgewise.run.inference import InferenceFailed
from edgewise.run.run_builder import RunBuilder

ANSWERS = "answers"
"""Below the folder of a search: what was made of the samples by every variant."""
_NEARNESS = ("output_snr", WORST, "output_max_abs_error")
FEW = 16
"""Samples of the first look."""
SLICE = 256
"""Samples on which a variant is judged before it is judged on all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """The first look at a variant: a few samples, outputs against the original's.

    Attributes:
        broken: why it can't be used; empty where it can.
        failure: the engine's, where it could not load or run it.
    """

    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    broken: str = ""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """What a variant got for its answers.

    Attributes:
        metrics: the headline and ``accuracy_drop``.
        worst: name of the output that the headline is about, where it is about one of several; else empty.
        measurements, evaluation: for its run.
        doubt: why its accuracy is not plausible; None where it is.
    """

    answers: SampleResults
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    worst: str = ""
    measurements: tuple[Measurement, ...] = ()
    evaluation: Evaluation | None = None
    doubt: Caution | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Samples for passes.

    Attributes:
        digest: SHA-256 over the samples as they are stored.
        fed: SHA-256 over the arrays as they are fed, and the labels.
    """

    feeds: list[list[Array]]
    labels: list[int] | None
    digest: str
    fed: str


class AccuracyChecker:
    """Judges variants against the original, which is judged first.

    Attributes:
        headline: metric id of what accuracy means here; "" without data.
        form: what the original's outputs are, where no labels say what is right; None before `find_form`.
        original: marks of the original; None without data or labels.
        end_by: monotonic time, s, at which judging ends; None: when it is done.
    """

    def __init__(self, settings: SearchSettings, original: Job, *, builder: RunBuilder) -> None:
        self._settings = settings
        self._builder = builder
        self._job = original
        self._data: Dataset = settings.judged.data if settings.judged else RandomData(original.workload.inputs, FEW)
        self._few: list[Sample] = []
        self._outputs: list[list[Array]] = []
        self._kept = OutputCache()
        self.form: OutputFormat | None = None
        self.original: Accuracy | None = None
        self.headline = ""
        self.end_by: float | None = None

    def find_form(self) -> OutputFormat | None:
        """What the original's outputs are; None where labels say what is right, or the original does not run.

        Raises:
            BadInput: the outputs are not those of the task that the user named.
        """
        settings = self._settings
        if settings.task is not None:
            return None
        try:
            self._ask_few()
        except InferenceFailed:  # `begin` tells it
            return None
        if not self._outputs or _find_broken(self._outputs):
            return None
        inputs = self._job.workload.inputs
        graph = read_graph(Path(self._job.model.path), shapes={spec.name: spec.shape for spec in inputs})
        setting = TaskContext(
            signature=open_model(Path(self._job.model.path)).signature,
            data=self._data,
            options={**settings.instructions.task_options, **settings.task_options},
            classes=settings.classes or settings.instructions.classes,
        )
        self.form = find_output_format(
            graph, self._outputs, setting, image=_image_size(inputs), task=settings.task_name
        )
        if settings.judged is None:  # random inputs show no classes and no boxes
            self.form = replace(self.form, kind="values", boxes=None, because="there is no data")
        return self.form

    def adopt(self, settings: SearchSettings) -> None:
        """What is asked has become clearer: the bounds that suit the form of the outputs."""
        self._settings = settings

    def begin(self) -> OutputCheck:
        """OutputCheck at the original and judge it. Its failure is in the answer. Raises `BadInput`."""
        try:
            self._ask_few()
        except InferenceFailed as error:
            return OutputCheck(failure=error.failure, broken=error.failure.message)
        broken = _find_broken(self._outputs)
        if self._settings.judged is not None:
            self.headline = "agreement_top1" if self.form is None else self.form.headline
            if self._settings.task is not None:
                judge = self._judge(self._job)
                self.headline = judge.headline
                self.original = self._measure(self._job, self._settings.judged.indices, judge)
                if self.original.answers.failure is not None:
                    return OutputCheck(
                        failure=self.original.answers.failure, broken=self.original.answers.failure.message
                    )
        return OutputCheck(broken=broken)

    def _ask_few(self) -> None:
        """The original's outputs for a few samples, unless they are there. Raises `BadInput`, `InferenceFailed`."""
        if self._outputs:
            return
        wanted = choose_samples(len(self._data), limit=FEW, seed=self._settings.seed)
        self._few = self._usable([sample for index in wanted if (sample := self._read(index)) is not None])
        self._outputs = self._answers(self._pupil(self._job))

    def check_outputs(self, job: Job) -> OutputCheck:
        """A few samples through a variant."""
        try:
            outputs = self._answers(self._pupil(job))
        except InferenceFailed as error:
            return OutputCheck(
                failure=error.failure, broken=f"{job.runtime.name} can't run it: {error.failure.message}"
            )
        except CorruptSample as error:
            return OutputCheck(broken=f"samples of the original don't fit it: {error.reason}")
        is_list = self.form is not None and self.form.is_list
        broken = _find_broken(outputs, None if is_list else self._outputs)
        if broken or is_list:
            return OutputCheck(broken=broken)
        ends = None if self.form is None else self.form.probabilities
        pairs = zip(outputs, self._outputs, strict=True)
        table = tabulate([compare_sample(own, other, probabilities=ends) for own, other in pairs])
        return OutputCheck(metrics={one.metric: _number(one) for one in score(table, seed=self._settings.seed)})

    def measure_part(self, job: Job) -> Accuracy | None:
        """Accuracy on a part of the data; None where the data is small, so that a part would say little."""
        judged = self._settings.judged
        if judged is None or len(judged.indices) < 2 * SLICE:
            return None
        pool = judged.indices
        if self.original is not None:
            pool = [entry.index for entry in self.original.answers.entries if not entry.reason]
        chosen = choose_samples(len(pool), limit=SLICE, seed=self._settings.seed)
        return self._measure(job, [pool[at] for at in chosen], self._judge(job))

    def measure(self, job: Job) -> Accuracy | None:
        """Accuracy on all of the data; None without data."""
        judged = self._settings.judged
        if judged is None:
            return None
        return self._measure(job, judged.indices, self._judge(job))

    def prepare(self, question: SampleSelection, job: Job) -> Prepared:
        """Samples prepared for a model, with their labels where these are classes.

        Raises:
            BadInput: no sample of this data can be fed to the model.
        """
        prompter = ModelAdapter(self._pupil(job), question.data, builder=self._builder)
        feeds: list[list[Array]] = []
        labels: list[int] = []
        refused: BadInput | None = None
        found, fed = sha256(), sha256()
        for index in question.indices:
            try:
                sample = question.data.read(index)
                feeds.append(prompter.prepare(sample)[0])
            except CorruptSample as error:
                if question.strict:
                    raise BadInput(
                        f"{error.name} can't be used to calibrate: {error.reason}",
                        advice="mend it, or leave --strict out to skip it",
                    ) from error
                continue
            except BadInput as error:  # the first that is tried may be the only one that does not fit
                refused = refused or error
                continue
            found.update(f"{sample.digest()}\n".encode())
            for array in feeds[-1]:
                fed.update(
                    f"{array.dtype}{array.shape}{sample.label!r}".encode() + np.ascontiguousarray(array).tobytes()
                )
            if isinstance(sample.label, int | np.integer):
                labels.append(int(sample.label))
        if refused is not None and not feeds:
            raise refused
        joined = prompter.join(feeds)
        return Prepared(
            feeds=joined,
            labels=labels if len(labels) == len(joined) else None,
            digest=found.hexdigest(),
            fed=fed.hexdigest(),
        )

    def _measure(self, job: Job, indices: Sequence[int], judge: Scorer) -> Accuracy:
        assert self._settings.judged is not None
        question = replace(self._settings.judged, indices=tuple(indices))
        answers = run_samples(
            self._pupil(job),
            question,
            judge,
            builder=self._builder,
            identity={
                "task": self._settings.task.name if self._settings.task else "agreement",
                "settings": dict(judge.settings),
                "threads": job.runtime.threads,
                "original": self._job.model.sha256,
            },
            checkpoints=self._settings.folder / ANSWERS,
            end_by=self.end_by,
        )
        if answers.interrupted:
            raise KeyboardInterrupt
        if answers.failure is not None or not answers.records:
            return Accuracy(answers=answers)
        return self._score_answers(job, question, judge, answers)

    def _score_answers(self, job: Job, question: SampleSelection, judge: Scorer, answers: SampleResults) -> Accuracy:
        table = judge.tabulate(answers.records)
        scores = score(table, seed=self._settings.seed, only=self._about)
        metrics = {one.metric: _number(one) for one in scores}
        drop = self._drop(judge, answers, metrics)
        evaluation = describe(
            answers,
            table,
            selection=question,
            instructions=self._settings.instructions,
            settings=judge.settings,
            task=self._settings.task.name if self._settings.task else "agreement",
            classes=self._settings.classes,
            reference=None if self._settings.task else self._job.model.sha256,
        )
        if self.form is not None and self.form.kind != "classes":
            # Of these outputs the largest element means nothing.
            scores = tuple(one for one in scores if one.metric != "agreement_top1")
        headline = {self.headline: metrics[self.headline]} if self.headline in metrics else {}
        snr = {} if self._settings.task else {key: metrics[key] for key in _NEARNESS if key in metrics}
        # The original's answers are what others are paired with; theirs are not needed again, and there may be many.
        return Accuracy(
            answers=answers if self.original is None and drop is None else replace(answers, entries=()),
            metrics={**headline, **snr, **({"accuracy_drop": drop} if drop is not None else {})},
            worst=self._name_worst(table),
            measurements=tuple(map(measurement_of, scores)),
            evaluation=evaluation,
            doubt=check_plausible(scores, table, headline=self.headline, results=answers, settings=judge.settings),
        )

    def _name_worst(self, table: MetricTable) -> str:
        """The output with the lowest SNR, by its name; empty where there is one output, or something else counts."""
        if self.headline != WORST or not isinstance(table, AgreementTable) or len(self._outputs[0]) < 2:
            return ""
        place = table.worst_output()
        outputs = open_model(Path(self._job.model.path)).signature.outputs
        return "" if place is None or place >= len(outputs) else outputs[place].name

    def _drop(self, judge: Scorer, answers: SampleResults, metrics: Mapping[str, MetricValue]) -> MetricValue | None:
        """How much worse than the original, on the same samples; None for the original itself, and of an SNR."""
        if self._settings.task is None:
            agreement = metrics.get(self.headline) if self.headline in SHARES else None
            return None if agreement is None else _complement(agreement, self.headline)
        if self.original is None:
            return None
        theirs = {entry.index: entry for entry in self.original.answers.entries if not entry.reason}
        pairs = [
            (theirs[entry.index].record, entry.record)
            for entry in answers.entries
            if not entry.reason and entry.index in theirs
        ]
        before, after = judge.tabulate([a for a, _ in pairs]), judge.tabulate([b for _, b in pairs])
        gaps = {gap.metric: gap for gap in compare_tables(before, after, seed=self._settings.seed, only=self._about)}
        gap = gaps.get(self.headline)
        if gap is None:
            return MetricValue(value=None, absent_because=f"{self.headline} is not known of both")
        return drop_of(
            MetricValue(
                value=gap.difference,
                low=gap.low,
                high=gap.high,
                method=gap.method,
                absent_because=gap.absent_because,
            ),
            self.headline,
        )

    @property
    def _about(self) -> tuple[str, ...]:
        """What intervals are worked out for, beside proportions, which cost nothing: a bootstrap takes seconds."""
        return (self.headline, "output_snr", WORST)

    def _judge(self, job: Job) -> Scorer:
        settings = self._settings
        if settings.task is None:
            original = ModelAdapter(self._pupil(self._job), self._data, builder=self._builder)
            return ReferenceScorer(original, name="the original", cache=self._kept, form=self.form)
        return settings.task.prepare(
            TaskContext(
                signature=open_model(Path(job.model.path)).signature,
                data=self._data,
                options={**settings.instructions.task_options, **settings.task_options},
                classes=settings.classes or settings.instructions.classes,
            )
        )

    def _pupil(self, job: Job) -> ModelUnderTest:
        return ModelUnderTest(job=job, instructions=self._settings.instructions)

    def _answers(self, pupil: ModelUnderTest) -> list[list[Array]]:
        prompter = ModelAdapter(pupil, self._data, builder=self._builder)
        feeds = [prompter.prepare(sample)[0] for sample in self._few]
        with prompter.inference:
            return prompter.infer(feeds)

    def _usable(self, samples: Sequence[Sample]) -> list[Sample]:
        """Those that can be fed to the original."""
        prompter = ModelAdapter(self._pupil(self._job), self._data, builder=self._builder)
        found, refused = [], None
        for sample in samples:
            try:
                prompter.prepare(sample)
                found.append(sample)
            except CorruptSample:
                continue
            except BadInput as error:
                refused = refused or error
        if refused is not None and not found:
            raise refused
        return found

    def _read(self, index: int) -> Sample | None:
        try:
            return self._data.read(index)
        except CorruptSample:
            return None


def _find_broken(outputs: Sequence[Sequence[Array]], reference: Sequence[Sequence[Array]] | None = None) -> str:
    """What is wrong with outputs whatever they mean; empty where nothing is."""
    for place, each in enumerate(outputs):
        for own, array in enumerate(each):
            if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
                return (
                    f"broken: output {own} is not finite for {sum(map(_is_broken, outputs))} of {len(outputs)} samples"
                )
            if reference is None:
                continue
            if len(each) != len(reference[place]) or array.shape != reference[place][own].shape:
                return f"broken: output {own} has the shape {array.shape}, not the original's"
    return ""


def _is_broken(outputs: Sequence[Array]) -> bool:
    return any(np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all() for array in outputs)


def _number(one: Score) -> MetricValue:
    return MetricValue(
        value=one.value,
        low=one.low,
        high=one.high,
        method=f"{one.method}, n = {one.n}",
        absent_because=one.absent_because,
    )


def _image_size(inputs: Sequence[InputSpec]) -> tuple[int, int] | None:
    """Height and width of the only input, where it is a picture."""
    if len(inputs) != 1 or len(inputs[0].shape) != 4:
        return None
    _, *sizes = inputs[0].shape
    if sizes[0] in _CHANNELS:
        return sizes[1], sizes[2]
    return (sizes[0], sizes[1]) if sizes[2] in _CHANNELS else None


_CHANNELS = (1, 3, 4)


def _complement(agreement: MetricValue, metric: str) -> MetricValue:
    """Disagreement with the original, which is what is lost where there are no labels."""
    if agreement.value is None:
        return agreement
    what = "boxes without a match" if metric == "agreement_boxes" else "samples whose best class is not the original's"
    return replace(
        agreement,
        value=1.0 - agreement.value,
        low=None if agreement.high is None else 1.0 - agreement.high,
        high=None if agreement.low is None else 1.0 - agreement.low,
        method=f"share of {what}; {agreement.method}",
    )
