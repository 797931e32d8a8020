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
from edgewise.evaluating.evaluator import Answers, Array, Progress, Prompter, Pupil, Question, ask
from edgewise.evaluating.form import Form, read_form
from edgewise.evaluating.plausibility import check_plausible
from edgewise.evaluating.recording import describe, measurement_of
from edgewise.evaluating.reference import Kept, ReferenceJudge
from edgewise.evaluating.scores import Score, compare_tables, score
from edgewise.evaluating.task import Judge, Setting, Table
from edgewise.metrics import SHARES
from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing.choice import drop_of
from edgewise.optimizing.commission import Commission
from edgewise.optimizing.random_data import RandomData
from edgewise.optimizing.variant import Number
from edgewise.record import Caution, Evaluation, Failure, InputSpec, Job, Measurement
from edgewise.run.assembly import Assembly
from edgewise.run.inference import InferenceFailed

ANSWERS = "answers"
"""Below the folder of a search: what was made of the samples by every variant."""
_NEARNESS = ("output_snr", WORST, "output_max_abs_error")
FEW = 16
"""Samples of the first look."""
SLICE = 256
"""Samples on which a variant is judged before it is judged on all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The first look at a variant: a few samples, outputs against the original's.

    Attributes:
        broken: why it can't be used; empty where it can.
        failure: the engine's, where it could not load or run it.
    """

    metrics: Mapping[str, Number] = field(default_factory=dict)
    broken: str = ""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What a variant got for its answers.

    Attributes:
        metrics: the headline and ``accuracy_drop``.
        worst: name of the output that the headline is about, where it is about one of several; else empty.
        measurements, evaluation: for its run.
        doubt: why its accuracy is not plausible; None where it is.
    """

    answers: Answers
    metrics: Mapping[str, Number] = field(default_factory=dict)
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


class Examiner:
    """Judges variants against the original, which is judged first.

    Attributes:
        headline: metric id of what accuracy means here; "" without data.
        form: what the original's outputs are, where no labels say what is right; None before `find_form`.
        original: marks of the original; None without data or labels.
        end_by: monotonic time, s, at which judging ends; None: when it is done.
    """

    def __init__(self, commission: Commission, original: Job, *, assembly: Assembly) -> None:
        self._commission = commission
        self._assembly = assembly
        self._job = original
        self._data: Dataset = commission.judged.data if commission.judged else RandomData(original.workload.inputs, FEW)
        self._few: list[Sample] = []
        self._outputs: list[list[Array]] = []
        self._kept = Kept()
        self.form: Form | None = None
        self.original: Marks | None = None
        self.headline = ""
        self.end_by: float | None = None

    def find_form(self) -> Form | None:
        """What the original's outputs are; None where labels say what is right, or the original does not run.

        Raises:
            BadInput: the outputs are not those of the task that the user named.
        """
        commission = self._commission
        if commission.task is not None:
            return None
        try:
            self._ask_few()
        except InferenceFailed:  # `begin` tells it
            return None
        if not self._outputs or _find_broken(self._outputs):
            return None
        inputs = self._job.workload.inputs
        graph = read_graph(Path(self._job.model.path), shapes={spec.name: spec.shape for spec in inputs})
        setting = Setting(
            signature=open_model(Path(self._job.model.path)).signature,
            data=self._data,
            options={**commission.instructions.task_options, **commission.task_options},
            classes=commission.classes or commission.instructions.classes,
        )
        self.form = read_form(graph, self._outputs, setting, image=_image_size(inputs), task=commission.task_name)
        if commission.judged is None:  # random inputs show no classes and no boxes
            self.form = replace(self.form, kind="values", boxes=None, because="there is no data")
        return self.form

    def adopt(self, commission: Commission) -> None:
        """What is asked has become clearer: the bounds that suit the form of the outputs."""
        self._commission = commission

    def begin(self, progress: Progress | None = None) -> Look:
        """Look at the original and judge it. Its failure is in the answer. Raises `BadInput`."""
        try:
            self._ask_few()
        except InferenceFailed as error:
            return Look(failure=error.failure, broken=error.failure.message)
        broken = _find_broken(self._outputs)
        if self._commission.judged is not None:
            self.headline = "agreement_top1" if self.form is None else self.form.headline
            if self._commission.task is not None:
                judge = self._judge(self._job)
                self.headline = judge.headline
                self.original = self._grade(self._job, self._commission.judged.indices, judge, progress=progress)
                if self.original.answers.failure is not None:
                    return Look(failure=self.original.answers.failure, broken=self.original.answers.failure.message)
        return Look(broken=broken)

    def _ask_few(self) -> None:
        """The original's outputs for a few samples, unless they are there. Raises `BadInput`, `InferenceFailed`."""
        if self._outputs:
            return
        wanted = choose_samples(len(self._data), limit=FEW, seed=self._commission.seed)
        self._few = self._usable([sample for index in wanted if (sample := self._read(index)) is not None])
        self._outputs = self._answers(self._pupil(self._job))

    def look(self, job: Job) -> Look:
        """A few samples through a variant."""
        try:
            outputs = self._answers(self._pupil(job))
        except InferenceFailed as error:
            return Look(failure=error.failure, broken=f"{job.runtime.name} can't run it: {error.failure.message}")
        except CorruptSample as error:
            return Look(broken=f"samples of the original don't fit it: {error.reason}")
        is_list = self.form is not None and self.form.is_list
        broken = _find_broken(outputs, None if is_list else self._outputs)
        if broken or is_list:
            return Look(broken=broken)
        ends = None if self.form is None else self.form.probabilities
        pairs = zip(outputs, self._outputs, strict=True)
        table = tabulate([compare_sample(own, other, probabilities=ends) for own, other in pairs])
        return Look(metrics={one.metric: _number(one) for one in score(table, seed=self._commission.seed)})

    def grade_slice(self, job: Job, *, progress: Progress | None = None) -> Marks | None:
        """Marks on a part of the data; None where the data is small, so that a part would say little."""
        judged = self._commission.judged
        if judged is None or len(judged.indices) < 2 * SLICE:
            return None
        pool = judged.indices
        if self.original is not None:
            pool = [entry.index for entry in self.original.answers.entries if not entry.reason]
        chosen = choose_samples(len(pool), limit=SLICE, seed=self._commission.seed)
        return self._grade(job, [pool[at] for at in chosen], self._judge(job), progress=progress)

    def grade(self, job: Job, *, progress: Progress | None = None) -> Marks | None:
        """Marks on all of the data; None without data."""
        judged = self._commission.judged
        if judged is None:
            return None
        return self._grade(job, judged.indices, self._judge(job), progress=progress)

    def prepare(self, question: Question, job: Job) -> Prepared:
        """Samples prepared for a model, with their labels where these are classes.

        Raises:
            BadInput: no sample of this data can be fed to the model.
        """
        prompter = Prompter(self._pupil(job), question.data, assembly=self._assembly)
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

    def _grade(self, job: Job, indices: Sequence[int], judge: Judge, *, progress: Progress | None) -> Marks:
        assert self._commission.judged is not None
        question = replace(self._commission.judged, indices=tuple(indices))
        answers = ask(
            self._pupil(job),
            question,
            judge,
            assembly=self._assembly,
            progress=progress,
            identity={
                "task": self._commission.task.name if self._commission.task else "agreement",
                "settings": dict(judge.settings),
                "threads": job.runtime.threads,
                "original": self._job.model.sha256,
            },
            notebooks=self._commission.folder / ANSWERS,
            end_by=self.end_by,
        )
        if answers.interrupted:
            raise KeyboardInterrupt
        if answers.failure is not None or not answers.records:
            return Marks(answers=answers)
        return self._mark(job, question, judge, answers)

    def _mark(self, job: Job, question: Question, judge: Judge, answers: Answers) -> Marks:
        table = judge.tabulate(answers.records)
        scores = score(table, seed=self._commission.seed, only=self._about)
        metrics = {one.metric: _number(one) for one in scores}
        drop = self._drop(judge, answers, metrics)
        evaluation = describe(
            answers,
            table,
            question=question,
            instructions=self._commission.instructions,
            settings=judge.settings,
            task=self._commission.task.name if self._commission.task else "agreement",
            classes=self._commission.classes,
            reference=None if self._commission.task else self._job.model.sha256,
        )
        if self.form is not None and self.form.kind != "classes":
            # Of these outputs the largest element means nothing.
            scores = tuple(one for one in scores if one.metric != "agreement_top1")
        headline = {self.headline: metrics[self.headline]} if self.headline in metrics else {}
        snr = {} if self._commission.task else {key: metrics[key] for key in _NEARNESS if key in metrics}
        # The original's answers are what others are paired with; theirs are not needed again, and there may be many.
        return Marks(
            answers=answers if self.original is None and drop is None else replace(answers, entries=()),
            metrics={**headline, **snr, **({"accuracy_drop": drop} if drop is not None else {})},
            worst=self._name_worst(table),
            measurements=tuple(map(measurement_of, scores)),
            evaluation=evaluation,
            doubt=check_plausible(scores, table, headline=self.headline, answers=answers, settings=judge.settings),
        )

    def _name_worst(self, table: Table) -> str:
        """The output with the lowest SNR, by its name; empty where there is one output, or something else counts."""
        if self.headline != WORST or not isinstance(table, AgreementTable) or len(self._outputs[0]) < 2:
            return ""
        place = table.worst_output()
        outputs = open_model(Path(self._job.model.path)).signature.outputs
        return "" if place is None or place >= len(outputs) else outputs[place].name

    def _drop(self, judge: Judge, answers: Answers, metrics: Mapping[str, Number]) -> Number | None:
        """How much worse than the original, on the same samples; None for the original itself, and of an SNR."""
        if self._commission.task is None:
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
        gaps = {gap.metric: gap for gap in compare_tables(before, after, seed=self._commission.seed, only=self._about)}
        gap = gaps.get(self.headline)
        if gap is None:
            return Number(value=None, absent_because=f"{self.headline} is not known of both")
        return drop_of(
            Number(
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

    def _judge(self, job: Job) -> Judge:
        commission = self._commission
        if commission.task is None:
            original = Prompter(self._pupil(self._job), self._data, assembly=self._assembly)
            return ReferenceJudge(original, name="the original", kept=self._kept, form=self.form)
        return commission.task.prepare(
            Setting(
                signature=open_model(Path(job.model.path)).signature,
                data=self._data,
                options={**commission.instructions.task_options, **commission.task_options},
                classes=commission.classes or commission.instructions.classes,
            )
        )

    def _pupil(self, job: Job) -> Pupil:
        return Pupil(job=job, instructions=self._commission.instructions)

    def _answers(self, pupil: Pupil) -> list[list[Array]]:
        prompter = Prompter(pupil, self._data, assembly=self._assembly)
        feeds = [prompter.prepare(sample)[0] for sample in self._few]
        with prompter.inference:
            return prompter.infer(feeds)

    def _usable(self, samples: Sequence[Sample]) -> list[Sample]:
        """Those that can be fed to the original."""
        prompter = Prompter(self._pupil(self._job), self._data, assembly=self._assembly)
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


def _number(one: Score) -> Number:
    return Number(
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


def _complement(agreement: Number, metric: str) -> Number:
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
