"""One command's evaluation: models, data and task brought together, runs with accuracy and latency coming out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from edgewise.errors import BadInput, StoreError
from edgewise.evaluating.evaluator import Answers, Prompter, Pupil, Question, ask, fit_sizes
from edgewise.evaluating.form import Form
from edgewise.evaluating.instructions import Instructions, find_instructions
from edgewise.evaluating.own_metric import with_own_metrics
from edgewise.evaluating.plausibility import check_plausible
from edgewise.evaluating.recording import describe, inference_time, measurement_of
from edgewise.evaluating.reference import Kept, ReferenceJudge
from edgewise.evaluating.scores import Gap, Score, compare_tables, score
from edgewise.evaluating.task import Judge, Setting, Task
from edgewise.model.identity import open_model
from edgewise.record import Job, Run, new_run_id
from edgewise.run.assembly import METERS_OFF, Assembly, Sensors
from edgewise.run.complexity import complexity_of
from edgewise.run.dispatch import Dispatcher, Interrupted, Observer
from edgewise.run.environment import fingerprint
from edgewise.run.plan import Plan
from edgewise.workload.sizes import open_axes


class Spectator(Protocol):
    """Told how the pass over the data goes."""

    def pass_started(self, job: Job, *, total: int) -> None:
        """Samples begin to be answered."""

    def answered(self, done: int, total: int) -> None:
        """So many are done."""

    def pass_finished(self, answers: Answers) -> None:
        """No more come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What is asked of whom.

    Attributes:
        jobs: models with their settings.
        task: None where only agreement or metrics of the user's own are wanted.
        options: of the task, by the user; they win over those beside the model.
        classes: names in the order of the models' outputs, by the user; empty leaves it to model and data.
        prepare: ``STEP=VALUE`` words of the user.
        file: instructions to read instead of those beside a model.
        instructions: of all models, where they are known already; None finds them.
        own: metrics of the user's own: ``module:function`` …
        reference: a job whose outputs are taken as right, where there are no labels.
        form: what its outputs are; None compares them as class scores.
        latency: whether the latency is measured too, as `bench` does.
        fresh: forget passes that were cut off.
    """

    jobs: tuple[Job, ...]
    question: Question
    task: Task | None
    options: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    file: Path | None = None
    instructions: Instructions | None = None
    own: tuple[str, ...] = ()
    reference: Job | None = None
    form: Form | None = None
    latency: bool = True
    fresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What one model came to.

    Attributes:
        run: with its accuracy, and its latency where that was measured.
        scores: of all metrics; empty where the pass failed.
        gaps: to the first model, on the samples that both answered; empty for the first.
    """

    run: Run
    scores: tuple[Score, ...] = ()
    gaps: tuple[Gap, ...] = ()
    headline: str = ""
    notes: tuple[str, ...] = ()
    resumed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Of all models."""

    examined: tuple[Examined, ...]
    save_errors: tuple[StoreError, ...] = ()
    interrupted: bool = False


def examine(
    exam: Examination,
    *,
    save: Callable[[Run], None],
    observer: Observer | None = None,
    spectator: Spectator | None = None,
    sensors: Sensors | None = METERS_OFF,
) -> Results:
    """Measure the latency of every model, put the question to it, and score its answers.

    Raises:
        BadInput, Unavailable: before anything was measured, or where samples, labels and model don't fit.
    """
    examiner = _Examiner(exam, save=save, spectator=spectator)
    pupils = [examiner.admit(job) for job in exam.jobs]  # what does not fit is refused before anything is measured
    exam = replace(exam, jobs=tuple(pupil.job for pupil, _ in pupils))
    runs, interrupted, errors = _measure(exam, save=save, observer=observer, sensors=sensors)
    done: list[Examined] = []
    for (pupil, judge), run in zip(pupils, runs, strict=False):
        if interrupted:
            done.append(Examined(run=run))
            continue
        examined, interrupted = examiner.examine(pupil, judge, run)
        done.append(examined)
    return Results(examined=tuple(done), save_errors=(*errors, *examiner.assembly.save_errors), interrupted=interrupted)


def _measure(
    exam: Examination, *, save: Callable[[Run], None], observer: Observer | None, sensors: Sensors | None
) -> tuple[list[Run], bool, tuple[StoreError, ...]]:
    """One run per job: measured, or without any numbers where latency is not wanted; whether Ctrl-C ended it."""
    if not exam.latency:
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        group, environment = new_run_id(), fingerprint()
        runs = [
            Run(
                id=new_run_id(),
                created_at=created,
                job=job,
                status="done",
                group=group,
                environment=environment,
                measurements=complexity_of(job),
            )
            for job in exam.jobs
        ]
        return runs, False, ()
    dispatcher = Dispatcher(save=save, observer=observer, sensors=sensors)
    try:
        measured, interrupted = dispatcher.execute(Plan(jobs=exam.jobs)), False
    except Interrupted as stop:
        measured, interrupted = list(stop.runs), True
    return measured, interrupted, tuple(dispatcher.save_errors)


class _Examiner:
    def __init__(self, exam: Examination, *, save: Callable[[Run], None], spectator: Spectator | None) -> None:
        self.assembly = Assembly(save=save, sensors=METERS_OFF)
        self._exam = exam
        self._spectator = spectator
        self._first: tuple[Answers, Judge] | None = None
        self._kept = Kept()

    def admit(self, job: Job) -> tuple[Pupil, Judge]:
        """The model with its instructions, and who judges it. Raises `BadInput`, `Unavailable`."""
        exam = self._exam
        instructions = exam.instructions or find_instructions(
            Path(job.model.path), form=job.model.format, flags=exam.prepare, file=exam.file
        )
        pupil, judge = Pupil(job=job, instructions=instructions), self._judge(job, instructions)
        if exam.latency or any(open_axes(spec) for spec in job.workload.inputs):
            # without either, the pass begins at once and says the same
            pupil = fit_sizes(pupil, exam.question, assembly=self.assembly)
        return pupil, judge

    def examine(self, pupil: Pupil, judge: Judge, run: Run) -> tuple[Examined, bool]:
        """The run with its scores, saved; and whether Ctrl-C ended the pass."""
        if run.status != "done":
            return Examined(run=run, headline=judge.headline), False
        exam, question = self._exam, self._exam.question
        if self._spectator is not None:
            self._spectator.pass_started(pupil.job, total=len(question.indices))
        answers = ask(
            pupil,
            question,
            judge,
            assembly=self.assembly,
            progress=None if self._spectator is None else self._spectator.answered,
            identity=self._identity(judge),
            fresh=exam.fresh,
        )
        if self._spectator is not None:
            self._spectator.pass_finished(answers)
        examined = self._score(pupil, judge, answers, run)
        self.assembly.save(examined.run)
        return examined, answers.interrupted

    def _judge(self, job: Job, instructions: Instructions) -> Judge:
        exam, data = self._exam, self._exam.question.data
        setting = Setting(
            signature=open_model(job.model.path).signature,
            data=data,
            options={**instructions.task_options, **exam.options},
            classes=exam.classes or instructions.classes,
        )
        if exam.reference is not None:
            reference = Pupil(
                job=exam.reference,
                instructions=exam.instructions
                or find_instructions(
                    Path(exam.reference.model.path),
                    form=exam.reference.model.format,
                    flags=exam.prepare,
                    file=exam.file,
                ),
            )
            prompter = Prompter(reference, data, assembly=self.assembly)
            return ReferenceJudge(prompter, name=exam.reference.model.name, kept=self._kept, form=exam.form)
        if not data.labelled:
            raise BadInput(
                f"{data.name} has no labels to judge answers by",
                advice="give --reference MODEL to compare outputs with another model's",
            )
        if exam.task is not None and data.kind not in exam.task.kinds:
            raise BadInput(
                f"{exam.task.name} is no task for {data.kind} samples",
                advice=f"it takes {', '.join(exam.task.kinds)}; say what the data is with --data-format, --data-option",
            )
        judge = None if exam.task is None else exam.task.prepare(setting)
        return with_own_metrics(judge, exam.own, setting)

    @property
    def _reference_hash(self) -> str | None:
        return None if self._exam.reference is None else self._exam.reference.model.sha256

    @property
    def _task(self) -> str:
        if self._exam.reference is not None:
            return "agreement"
        return "own" if self._exam.task is None else self._exam.task.name

    def _identity(self, judge: Judge) -> dict[str, Any]:
        return {
            "task": self._task,
            "settings": dict(judge.settings),
            "own": self._exam.own,
            "reference": None if not isinstance(judge, ReferenceJudge) else judge.identity,
        }

    def _score(self, pupil: Pupil, judge: Judge, answers: Answers, run: Run) -> Examined:
        if answers.failure is not None:
            failed = replace(run, status="failed", failure=answers.failure)
            return Examined(run=failed, headline=judge.headline, notes=answers.notes)
        if answers.interrupted and not answers.records:
            return Examined(run=replace(run, status="cancelled"), headline=judge.headline, notes=answers.notes)
        if not answers.records:
            raise BadInput(
                f"not one sample of {self._exam.question.data.name} could be used{_first_reason(answers)}",
                advice="look at the data, or at how samples are prepared (--prepare)",
            )
        table = judge.tabulate(answers.records)
        scores = score(table, seed=self._exam.question.seed)
        if answers.interrupted:
            scores = tuple(_of_a_part(one) for one in scores)
        gaps = self._compare(answers, judge)
        if self._first is None:
            self._first = answers, judge
        variation = run.variation if self._exam.latency else self.assembly.usual_variation()
        time = inference_time(answers, judge, task=self._task, variation=variation)
        run = replace(
            run,
            status="cancelled" if answers.interrupted else run.status,
            measurements=(*run.measurements, time, *map(measurement_of, scores)),
            evaluation=describe(
                answers,
                table,
                question=self._exam.question,
                instructions=pupil.instructions,
                settings=judge.settings,
                task=self._task,
                classes=self._exam.classes,
                reference=self._reference_hash,
            ),
            effective=run.effective or dict(answers.effective),
        )
        doubt = check_plausible(scores, table, headline=judge.headline, answers=answers, settings=judge.settings)
        if doubt is not None:
            run = replace(run, cautions=(*run.cautions, doubt))
        return Examined(
            run=run, scores=scores, gaps=gaps, headline=judge.headline, notes=answers.notes, resumed=answers.resumed
        )

    def _compare(self, answers: Answers, judge: Judge) -> tuple[Gap, ...]:
        """Against the first model, on the samples that both answered, where they were the same samples."""
        if self._first is None:
            return ()
        first, first_judge = self._first
        own = {entry.index: entry for entry in answers.entries if not entry.reason}
        pairs = [
            (entry.record, own[entry.index].record)
            for entry in first.entries
            if not entry.reason and entry.index in own and own[entry.index].digest == entry.digest
        ]
        if not pairs:
            return ()
        return compare_tables(
            first_judge.tabulate([before for before, _ in pairs]),
            judge.tabulate([after for _, after in pairs]),
            seed=self._exam.question.seed,
        )


def _of_a_part(one: Score) -> Score:
    """The score without an interval: the first samples of a data set, often in the order of their classes, are no
    random ones, and say nothing of the rest.
    """
    method = f"of the first {one.n} samples in the data's order: no estimate of the rest"
    return replace(one, low=None, high=None, method=method)


def _first_reason(answers: Answers) -> str:
    entry = next((entry for entry in answers.entries if entry.reason), None)
    return "" if entry is None else f" ({entry.name}: {entry.reason})"
