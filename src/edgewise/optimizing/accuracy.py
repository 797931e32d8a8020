"""The quality of a variant: whether it loads, agrees with the original, and is as accurate on the data."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.comparing.allowed_loss import PairedAnswers
from edgewise.errors import BadInput
from edgewise.evaluating.agreement import WORST, AgreementTable, compare_sample, tabulate
from edgewise.evaluating.checkpoint import Entry
from edgewise.evaluating.class_order import find_better_order
from edgewise.evaluating.dataset import CorruptSample, Dataset, Kind, Sample, choose_samples
from edgewise.evaluating.evaluator import (
    ModelAdapter,
    ModelUnderTest,
    SampleResults,
    SampleSelection,
    run_samples,
)
from edgewise.evaluating.other_preparation import doubt_preparation
from edgewise.evaluating.output_format import CLASS_TASKS, OutputFormat, find_output_format
from edgewise.evaluating.plausibility import check_plausible
from edgewise.evaluating.reference import OutputCache, ReferenceScorer
from edgewise.evaluating.run_records import describe, measurement_of
from edgewise.evaluating.scores import Score, compare_tables, score
from edgewise.evaluating.task import HasClasses, MetricTable, Scorer, TaskContext
from edgewise.metrics import METRICS, SHARES
from edgewise.model.identity import open_model, read_graph
from edgewise.model.random_operators import random_words
from edgewise.optimizing.changed_answers import ChangedAnswers, find_changes
from edgewise.optimizing.choice import drop_of
from edgewise.optimizing.search_settings import SearchSettings
from edgewise.optimizing.variant import MetricValue
from edgewise.record import Caution, Evaluation, Failure, InputSpec, Job, Measurement
from edgewise.run.inference import InferenceFailed
from edgewise.run.run_builder import RunBuilder
from edgewise.workload.arrays import Array
from edgewise.workload.inputs import make_arrays

ANSWERS = "answers"
"""Folder of the checkpoints in the folder of a search: the records of every variant's outputs."""
FEW = 16
"""Samples of the first check of a variant."""
PART = 256
"""Samples on which a variant is judged before it is judged on all of them."""
_OUTPUT_METRICS = ("output_snr", WORST, "output_max_abs_error")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """A variant's outputs on a few samples against the original's.

    Attributes:
        broken: why the variant can't be used; empty where it can.
        failure: the engine's, where it could not load or run the variant.
    """

    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    broken: str = ""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """A variant's accuracy on samples.

    Attributes:
        metrics: the headline and ``accuracy_drop``; without labels also the outputs' distance from the original's.
        worst: name of the output that the headline is about, where the model has several; else empty.
        measurements, evaluation: for the variant's run.
        doubts: why the accuracy is not plausible, and of the original how pictures are better prepared.
        paired: how the answers differ from the original's where the headline is a share of samples; else None.
        changes: the samples whose class is not the original's; None for the original and where answers are not classes.
    """

    answers: SampleResults
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    worst: str = ""
    measurements: tuple[Measurement, ...] = ()
    evaluation: Evaluation | None = None
    doubts: tuple[Caution, ...] = ()
    paired: PairedAnswers | None = None
    changes: ChangedAnswers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Samples for passes.

    Attributes:
        digests: SHA-256 of each sample as it is stored.
        fed: SHA-256 over the arrays as they are fed, and the labels.
    """

    feeds: list[list[Array]]
    labels: list[int] | None
    digests: list[str]
    fed: str

    @property
    def digest(self) -> str:
        """SHA-256 over the samples as they are stored."""
        return sha256("".join(f"{each}\n" for each in self.digests).encode()).hexdigest()


class RandomData:
    """Random inputs as a data set, where the user gives none: they show whether two models compute the same."""

    name = "random inputs"
    path: Path | None = None
    format = "random"
    split = "all"
    kind: Kind = "array"
    classes: Sequence[str] = ()
    labelled = False

    def __init__(self, specs: Sequence[InputSpec], count: int) -> None:
        self._specs, self._count = specs, count

    def __len__(self) -> int:
        return self._count

    def read(self, index: int) -> Sample:
        """Arrays of the shapes and types of the inputs, from the seed `index`."""
        arrays = make_arrays(self._specs, seed=index)
        data: Any = {spec.name: array for spec, array in zip(self._specs, arrays, strict=True)}
        return Sample(index=index, name=f"random[{index}]", data=data if len(arrays) > 1 else arrays[0])

    def stamp(self) -> str:
        """Empty: nothing is stored that could change."""
        return ""


class AccuracyChecker:
    """Judges variants against the original, which is judged first.

    Attributes:
        headline: id of the metric that accuracy means in this search; "" without data.
        form: format of the original's outputs, where there are no labels; None before `find_form`.
        original: accuracy of the original; None without data or labels.
        end_by: monotonic time at which judging ends, s; None sets no limit.
    """

    def __init__(self, settings: SearchSettings, original: Job, *, builder: RunBuilder) -> None:
        self._settings = settings
        self._builder = builder
        self._job = original
        self._data: Dataset = settings.judged.data if settings.judged else RandomData(original.workload.inputs, FEW)
        self._few: list[Sample] = []
        self._outputs: list[list[Array]] = []
        self._cache = OutputCache()
        self._shared: ExitStack | None = None
        self._adapter: ModelAdapter | None = None
        self.form: OutputFormat | None = None
        self.original: Accuracy | None = None
        self.headline = ""
        self.end_by: float | None = None

    def find_form(self) -> OutputFormat | None:
        """Return the format of the original's outputs; None where there are labels, or the original does not run.

        Raises:
            BadInput: the outputs are not those of the task that the user named.
        """
        settings = self._settings
        if settings.task is not None:
            return None
        try:
            self._run_few()
        except InferenceFailed:  # reported by `begin`
            return None
        if not self._outputs or _find_broken(self._outputs):
            return None
        inputs = self._job.workload.inputs
        graph = read_graph(self._job.model, shapes={spec.name: spec.shape for spec in inputs})
        if random := random_words(graph):
            raise BadInput(f"{self._job.model.name}: {random}", advice="use data with labels: ⟦data⟧ and ⟦task⟧")
        self.form = find_output_format(
            graph, self._outputs, self._context(self._job), image=_image_size(inputs), task=settings.task_name
        )
        if settings.judged is None:  # random inputs show no classes and no boxes
            self.form = replace(self.form, kind="values", boxes=None, because="there is no data")
        return self.form

    def adopt(self, settings: SearchSettings) -> None:
        """Replace the settings, once the bounds follow from the format of the outputs."""
        self._settings = settings

    def begin(self) -> OutputCheck:
        """Check the original's outputs and judge it. Raises `BadInput`."""
        with self.one_worker():
            try:
                self._run_few()
            except InferenceFailed as error:
                return OutputCheck(failure=error.failure, broken=error.failure.message)
            if self._settings.judged is not None:
                self.headline = "agreement_top1" if self.form is None else self.form.headline
                if self._settings.task is not None:
                    scorer = self._scorer(self._job)
                    self.headline = scorer.headline
                    self.original = self._judge_original()
                    if (failure := self.original.answers.failure) is not None:
                        return OutputCheck(failure=failure, broken=failure.message)
                    self._doubt_original(scorer)
        return OutputCheck(broken=_find_broken(self._outputs))

    def _judge_original(self) -> Accuracy:
        """Judge the original. Raises `BadInput` where its answers show that the classes are in a wrong order."""
        settings = self._settings
        assert settings.judged is not None and settings.task is not None
        # A wrong order shows on a part, in seconds; its answers are kept for the whole.
        part = self.measure_part(self._job) if settings.task.name in CLASS_TASKS else None
        if part is not None:
            if part.answers.failure is not None:
                return part
            _require_order(part.evaluation, settings)
        whole = self._measure(self._job, settings.judged.indices, self._scorer(self._job))
        _require_order(whole.evaluation, settings)
        return whole

    def _doubt_original(self, scorer: Scorer) -> None:
        judged, own = self._settings.judged, self.original
        if judged is not None and own is not None and own.answers.records:
            tested = self._tested(self._job)
            more = doubt_preparation(tested, judged, scorer, own.answers, builder=self._builder)
            self.original = replace(own, doubts=(*more, *own.doubts))

    @contextmanager
    def one_worker(self) -> Iterator[None]:
        """Inside, all checks are of one model and share one worker, which starts with the first of them.

        A start takes longer than the samples of a small network, and each model has up to three checks.
        """
        with ExitStack() as stack:
            self._shared = stack
            try:
                yield
            finally:
                self._shared = self._adapter = None

    @contextmanager
    def _running(self, job: Job) -> Iterator[ModelAdapter]:
        """Yield the model in its worker: that of `one_worker`, or one that ends with this block. Raises
        `InferenceFailed`.
        """
        with ExitStack() as own:
            if self._shared is None:
                adapter = self._adapt(job)
                own.enter_context(adapter.inference)
                yield adapter
                return
            if self._adapter is None:
                adapter = self._adapt(job)
                self._shared.enter_context(adapter.inference)
                self._adapter = adapter
            yield self._adapter

    def _run_few(self) -> None:
        """Run the original on the first few samples that it takes, once. Raises `BadInput`, `InferenceFailed`."""
        if self._outputs:
            return
        adapter = self._adapt(self._job)
        refused: BadInput | None = None
        for index in choose_samples(len(self._data), limit=FEW, seed=self._settings.seed):
            try:
                sample = self._data.read(index)
                adapter.prepare(sample)
                self._few.append(sample)
            except CorruptSample:
                continue
            except BadInput as error:  # the first sample may be the only one that does not fit
                refused = refused or error
        if refused is not None and not self._few:
            raise refused
        self._outputs = self._run(self._job)

    def check_outputs(self, job: Job) -> OutputCheck:
        """Return a variant's outputs on a few samples against the original's."""
        try:
            outputs = self._run(job)
        except InferenceFailed as error:
            words = f"{job.runtime.name} can't run it: {error.failure.message}"
            return OutputCheck(failure=error.failure, broken=words)
        except CorruptSample as error:
            return OutputCheck(broken=f"samples of the original don't fit it: {error.reason}")
        is_list = self.form is not None and self.form.is_list
        broken = _find_broken(outputs, None if is_list else self._outputs)
        if broken or is_list:
            return OutputCheck(broken=broken)
        ends = None if self.form is None else self.form.probabilities
        pairs = zip(outputs, self._outputs, strict=True)
        table = tabulate([compare_sample(own, other, probabilities=ends) for own, other in pairs])
        return OutputCheck(metrics={one.metric: _value_of(one) for one in score(table, seed=self._settings.seed)})

    def measure_part(self, job: Job) -> Accuracy | None:
        """Accuracy on a part of the data; None where the data is small, so that a part would say little."""
        judged = self._settings.judged
        if judged is None or len(judged.indices) < 2 * PART:
            return None
        pool = judged.indices
        if self.original is not None:
            pool = [entry.index for entry in self.original.answers.entries if not entry.reason]
        chosen = choose_samples(len(pool), limit=PART, seed=self._settings.seed)
        return self._measure(job, [pool[at] for at in chosen], self._scorer(job))

    def measure(self, job: Job) -> Accuracy | None:
        """Accuracy on all of the data; None without data."""
        judged = self._settings.judged
        return None if judged is None else self._measure(job, judged.indices, self._scorer(job))

    def prepare(self, selection: SampleSelection, job: Job) -> Prepared:
        """Return samples prepared for a model, with their labels where these are classes.

        Raises:
            BadInput: the model takes no sample of this data.
        """
        adapter = ModelAdapter(self._tested(job), selection.data, builder=self._builder)
        feeds: list[list[Array]] = []
        labels: list[int] = []
        refused: BadInput | None = None
        unusable: CorruptSample | None = None
        digests: list[str] = []
        fed = sha256()
        for index in selection.indices:
            try:
                sample = selection.data.read(index)
                feeds.append(adapter.prepare(sample)[0])
            except CorruptSample as error:
                if selection.strict:
                    raise BadInput(
                        f"{error.name} can't be used to calibrate: {error.reason}",
                        advice="fix it, or omit ⟦strict⟧ to skip it",
                    ) from error
                unusable = unusable or error
                continue
            except BadInput as error:  # the first sample may be the only one that does not fit
                refused = refused or error
                continue
            digests.append(sample.digest())
            for array in feeds[-1]:
                head = f"{array.dtype}{array.shape}{sample.label!r}".encode()
                fed.update(head + np.ascontiguousarray(array).tobytes())
            if isinstance(sample.label, int | np.integer):
                labels.append(int(sample.label))
        if refused is not None and not feeds:
            raise refused
        if not feeds:
            raise BadInput(
                f"no sample of {selection.data.name} can be used to calibrate" + (f": {unusable}" if unusable else ""),
                advice="check the data and the preparation of samples (⟦prepare⟧)",
            )
        joined = adapter.join(feeds)
        return Prepared(
            feeds=joined,
            labels=labels if len(labels) == len(joined) else None,
            digests=digests,
            fed=fed.hexdigest(),
        )

    def _measure(self, job: Job, indices: Sequence[int], scorer: Scorer) -> Accuracy:
        assert self._settings.judged is not None
        selection = replace(self._settings.judged, indices=tuple(indices))
        answers = run_samples(
            self._tested(job),
            selection,
            scorer,
            builder=self._builder,
            identity={
                "task": self._task_name,
                "settings": dict(scorer.settings),
                "threads": job.runtime.threads,
                "original": self._job.model.sha256,
            },
            checkpoints=self._settings.folder / ANSWERS,
            end_by=self.end_by,
            running=self._adapter,
        )
        if answers.interrupted:
            raise KeyboardInterrupt
        if answers.failure is not None or not answers.records:
            return Accuracy(answers=answers)
        return self._score_answers(selection, scorer, answers)

    def _score_answers(self, selection: SampleSelection, scorer: Scorer, answers: SampleResults) -> Accuracy:
        table = scorer.tabulate(answers.records)
        # Only for these is an interval found by bootstrap, which takes seconds; intervals of proportions cost nothing.
        about = (self.headline, "output_snr", WORST)
        scores = score(table, seed=self._settings.seed, only=about)
        metrics = {one.metric: _value_of(one) for one in scores}
        drop, paired = self._drop(scorer, answers, metrics, about)
        evaluation = describe(
            answers,
            table,
            selection=selection,
            instructions=replace(
                self._settings.instructions, classes=self._settings.classes or self._settings.instructions.classes
            ),
            settings=scorer.settings,
            task=self._task_name,
            reference=None if self._settings.task else self._job.model.sha256,
            apart=self._apart,
        )
        if self.form is not None and self.form.kind != "classes":
            # The largest element of these outputs has no meaning.
            scores = tuple(one for one in scores if one.metric != "agreement_top1")
        doubt = check_plausible(scores, table, headline=self.headline, results=answers, settings=scorer.settings)
        kept = (self.headline, *(() if self._settings.task else _OUTPUT_METRICS))
        return Accuracy(
            # Only the original's answers are compared with others; of other variants there may be many.
            answers=answers if self.original is None and drop is None else replace(answers, entries=()),
            metrics={name: metrics[name] for name in kept if name in metrics}
            | ({} if drop is None else {"accuracy_drop": drop}),
            worst=self._name_worst(table),
            measurements=tuple(map(measurement_of, scores)),
            evaluation=evaluation,
            doubts=() if doubt is None else (doubt,),
            paired=paired,
            changes=self._find_changes(scorer, answers),
        )

    @cached_property
    def _apart(self) -> Mapping[int, str]:
        """Number → digest of the samples that are set apart to calibrate with."""
        found = {}
        for index in self._settings.set_apart:
            with suppress(CorruptSample):
                found[index] = self._data.read(index).digest()
        return found

    @property
    def _task_name(self) -> str:
        return self._settings.task.name if self._settings.task else "agreement"

    def _name_worst(self, table: MetricTable) -> str:
        """Return the name of the output with the lowest SNR; empty for a single output or another headline."""
        if self.headline != WORST or not isinstance(table, AgreementTable) or len(self._outputs[0]) < 2:
            return ""
        place = table.worst_output()
        outputs = open_model(self._job.model).signature.outputs
        return "" if place is None or place >= len(outputs) else outputs[place].name

    def _drop(
        self, scorer: Scorer, answers: SampleResults, metrics: Mapping[str, MetricValue], about: Sequence[str]
    ) -> tuple[MetricValue | None, PairedAnswers | None]:
        """Return the headline's loss against the original on the same samples, and how answers differ where
        these are shares.

        No loss for the original and for an SNR.
        """
        headline = self.headline
        if self._settings.task is None:
            agreement = metrics.get(headline) if headline in SHARES else None
            return None if agreement is None else _complement(agreement, headline), None
        if self.original is None:
            return None, None
        pairs = self._pair(answers)
        before = scorer.tabulate([theirs.record for theirs, _ in pairs])
        after = scorer.tabulate([own.record for _, own in pairs])
        gaps = {gap.metric: gap for gap in compare_tables(before, after, seed=self._settings.seed, only=about)}
        gap = gaps.get(headline)
        if gap is None:
            return MetricValue(value=None, absent_because=f"{headline} is not known of both models"), None
        difference = MetricValue(
            value=gap.difference, low=gap.low, high=gap.high, method=gap.method, absent_because=gap.absent_because
        )
        paired = None
        if gap.n and headline in before.proportions and headline in after.proportions:
            tables = (before, after) if METRICS[headline].better == "higher" else (after, before)
            paired = PairedAnswers.of(*(list(map(float, table.proportions[headline])) for table in tables))
        return drop_of(difference, headline), paired

    def _pair(self, answers: SampleResults) -> list[tuple[Entry, Entry]]:
        """Return the original's entry and the variant's of every sample that both answered; without a task one
        entry twice.
        """
        original = answers if self.original is None else self.original.answers
        theirs = {entry.index: entry for entry in original.entries if not entry.reason}
        return [(theirs[one.index], one) for one in answers.entries if not one.reason and one.index in theirs]

    def _find_changes(self, scorer: Scorer, answers: SampleResults) -> ChangedAnswers | None:
        """Return the samples whose class is not the original's; None for the original and where answers are not
        classes.
        """
        settings, labelled = self._settings, self._settings.task is not None
        if not isinstance(scorer, HasClasses) or (labelled and self.original is None):
            return None
        known = [(own, scorer.classes_of(theirs.record, own.record)) for theirs, own in self._pair(answers)]
        told = [(entry, *classes_of) for entry, classes_of in known if classes_of is not None]
        classes = settings.classes or settings.instructions.classes or self._data.classes
        return find_changes(told, labelled=labelled, classes=classes) if told else None

    def _scorer(self, job: Job) -> Scorer:
        if self._settings.task is None:
            return ReferenceScorer(self._adapt(self._job), name="the original", cache=self._cache, form=self.form)
        return self._settings.task.prepare(self._context(job))

    def _context(self, job: Job) -> TaskContext:
        settings = self._settings
        return TaskContext(
            signature=open_model(job.model).signature,
            data=self._data,
            options={**settings.instructions.task_options, **settings.task_options},
            classes=settings.classes or settings.instructions.classes,
            classes_from="" if settings.classes else settings.instructions.classes_from,
            classes_given=settings.classes_given,
        )

    def _tested(self, job: Job) -> ModelUnderTest:
        return ModelUnderTest(job=job, instructions=self._settings.instructions)

    def _adapt(self, job: Job) -> ModelAdapter:
        return ModelAdapter(self._tested(job), self._data, builder=self._builder, end_by=self.end_by)

    def _run(self, job: Job) -> list[list[Array]]:
        """Return outputs of a model on the few samples. Raises `InferenceFailed`, `CorruptSample`, `BadInput`."""
        with self._running(job) as adapter:
            return adapter.infer([adapter.prepare(sample)[0] for sample in self._few])


def _require_order(evaluation: Evaluation | None, settings: SearchSettings) -> None:
    """Raise `BadInput` where the original's answers fit another order of the classes than an assumed one."""
    if evaluation is None or settings.classes:
        return
    better = find_better_order(evaluation)
    if better is not None and better.by_name:
        keep = shlex.quote(",".join(evaluation.classes))
        raise BadInput(
            f"the original's answers to {evaluation.n} samples: {better.words}",
            advice=f"{better.advice}; to keep the present order: ⟦classes={keep}⟧"
            if better.advice
            else "give the classes in the order of the outputs, one per line of a file: ⟦classes=FILE⟧",
        )


def _find_broken(outputs: Sequence[Sequence[Array]], reference: Sequence[Sequence[Array]] | None = None) -> str:
    """Return what is wrong with outputs of any meaning, such as infinite values; empty where nothing is."""
    for place, each in enumerate(outputs):
        for own, array in enumerate(each):
            if _is_broken([array]):
                count = sum(map(_is_broken, outputs))
                return f"broken: output {own} is not finite for {count} of {len(outputs)} samples"
            if reference is None:
                continue
            if len(each) != len(reference[place]) or array.shape != reference[place][own].shape:
                return f"broken: output {own} has the shape {array.shape}, not the original's"
    return ""


def _is_broken(outputs: Sequence[Array]) -> bool:
    return any(np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all() for array in outputs)


def _value_of(one: Score) -> MetricValue:
    method = f"{one.method}, n = {one.n}"
    return MetricValue(value=one.value, low=one.low, high=one.high, method=method, absent_because=one.absent_because)


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
    """Disagreement with the original: the loss where there are no labels."""
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
