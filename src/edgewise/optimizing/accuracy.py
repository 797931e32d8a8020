"""What variants are worth: loaded at all, in agreement with the original, and as right on the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.agreement import compare_sample, tabulate
from edgewise.evaluating.dataset import CorruptSample, Dataset, Kind, Sample, choose_samples
from edgewise.evaluating.evaluator import Answers, Array, Progress, Prompter, Pupil, Question, ask
from edgewise.evaluating.recording import describe, measurement_of
from edgewise.evaluating.reference import Kept, ReferenceJudge
from edgewise.evaluating.scores import Score, compare_tables, score
from edgewise.evaluating.task import Judge, Setting
from edgewise.model.identity import open_model
from edgewise.optimizing.choice import drop_of
from edgewise.optimizing.commission import Commission
from edgewise.optimizing.variant import Number
from edgewise.record import Evaluation, Failure, InputSpec, Job, Measurement
from edgewise.run.assembly import Assembly
from edgewise.run.inference import InferenceFailed
from edgewise.workload.inputs import make_arrays

ANSWERS = "answers"
"""Below the folder of a search: what was made of the samples by every variant."""
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
        measurements, evaluation: for its run.
    """

    answers: Answers
    metrics: Mapping[str, Number] = field(default_factory=dict)
    measurements: tuple[Measurement, ...] = ()
    evaluation: Evaluation | None = None


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
        original: marks of the original; None without data or labels.
        end_by: monotonic time, s, at which judging ends; None: when it is done.
    """

    def __init__(self, commission: Commission, original: Job, *, assembly: Assembly) -> None:
        self._commission = commission
        self._assembly = assembly
        self._job = original
        self._data: Dataset = commission.judged.data if commission.judged else RandomData(original.workload.inputs)
        self._few: list[Sample] = []
        self._outputs: list[list[Array]] = []
        self._kept = Kept()
        self.original: Marks | None = None
        self.headline = ""
        self.end_by: float | None = None

    def begin(self, progress: Progress | None = None) -> Look:
        """Look at the original and judge it. Its failure is in the answer. Raises `BadInput`."""
        wanted = choose_samples(len(self._data), limit=FEW, seed=self._commission.seed)
        self._few = self._usable([sample for index in wanted if (sample := self._read(index)) is not None])
        try:
            self._outputs = self._answers(self._pupil(self._job))
        except InferenceFailed as error:
            return Look(failure=error.failure, broken=error.failure.message)
        broken = _find_broken(self._outputs)
        if self._commission.judged is not None:
            self.headline = "agreement_top1"
            if self._commission.task is not None:
                judge = self._judge(self._job)
                self.headline = judge.headline
                self.original = self._grade(self._job, self._commission.judged.indices, judge, progress=progress)
                if self.original.answers.failure is not None:
                    return Look(failure=self.original.answers.failure, broken=self.original.answers.failure.message)
        return Look(broken=broken)

    def look(self, job: Job) -> Look:
        """A few samples through a variant."""
        try:
            outputs = self._answers(self._pupil(job))
        except InferenceFailed as error:
            return Look(failure=error.failure, broken=f"{job.runtime.name} can't run it: {error.failure.message}")
        except CorruptSample as error:
            return Look(broken=f"samples of the original don't fit it: {error.reason}")
        broken = _find_broken(outputs, self._outputs)
        if broken:
            return Look(broken=broken)
        pairs = zip(outputs, self._outputs, strict=True)
        scores = score(tabulate([compare_sample(own, other) for own, other in pairs]), seed=self._commission.seed)
        return Look(metrics={one.metric: _number(one) for one in scores})

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
        headline = {self.headline: metrics[self.headline]} if self.headline in metrics else {}
        snr = {} if self._commission.task else {key: metrics[key] for key in ("output_snr",) if key in metrics}
        # The original's answers are what others are paired with; theirs are not needed again, and there may be many.
        return Marks(
            answers=answers if self.original is None and drop is None else replace(answers, entries=()),
            metrics={**headline, **snr, **({"accuracy_drop": drop} if drop is not None else {})},
            measurements=tuple(map(measurement_of, scores)),
            evaluation=evaluation,
        )

    def _drop(self, judge: Judge, answers: Answers, metrics: Mapping[str, Number]) -> Number | None:
        """How much worse than the original, on the same samples; None for the original itself."""
        if self._commission.task is None:
            agreement = metrics.get("agreement_top1")
            return None if agreement is None else _complement(agreement)
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
        return (self.headline, "output_snr")

    def _judge(self, job: Job) -> Judge:
        commission = self._commission
        if commission.task is None:
            original = Prompter(self._pupil(self._job), self._data, assembly=self._assembly)
            return ReferenceJudge(original, name="the original", kept=self._kept)
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


class RandomData:
    """Random inputs, where there is no data: enough to see whether two models compute the same."""

    name = "random inputs"
    path: Path | None = None
    format = "random"
    split = "all"
    kind: Kind = "array"
    classes: Sequence[str] = ()
    labelled = False

    def __init__(self, specs: Sequence[InputSpec]) -> None:
        self._specs = specs

    def __len__(self) -> int:
        return FEW

    def read(self, index: int) -> Sample:
        """Arrays as the model is fed them."""
        arrays = make_arrays(self._specs, seed=index)
        data: Any = {spec.name: array for spec, array in zip(self._specs, arrays, strict=True)}
        return Sample(index=index, name=f"random[{index}]", data=data if len(arrays) > 1 else arrays[0])

    def stamp(self) -> str:
        """Nothing of it is stored."""
        return ""


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


def _complement(agreement: Number) -> Number:
    """Disagreement with the original, which is what is lost where there are no labels."""
    if agreement.value is None:
        return agreement
    return replace(
        agreement,
        value=1.0 - agreement.value,
        low=None if agreement.high is None else 1.0 - agreement.high,
        high=None if agreement.low is None else 1.0 - agreement.low,
        method=f"share of samples whose best class is not the original's; {agreement.method}",
    )
