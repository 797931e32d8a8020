"""Evaluation: models, data and task become runs with accuracy and latency."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.comparing.subjects import native_runtime
from edgewise.errors import BadInput, EdgewiseError, StoreError, Unavailable
from edgewise.evaluating.added_metrics import with_custom_metrics
from edgewise.evaluating.calibrated import read_calibrated, score_without
from edgewise.evaluating.checkpoint import Entry
from edgewise.evaluating.data_options import (
    DataOptions,
    assume_task,
    find_task,
    open_splits,
    read_instructions,
    select_samples,
)
from edgewise.evaluating.dataset import refuse_unlabelled
from edgewise.evaluating.evaluator import (
    ModelAdapter,
    ModelUnderTest,
    SampleResults,
    SampleSelection,
    fit_sizes,
    run_samples,
)
from edgewise.evaluating.instructions import Instructions, find_instructions
from edgewise.evaluating.language_model import (
    OF_LANGUAGE_MODELS,
    adapter_of,
    check_language_task,
    is_language_model,
)
from edgewise.evaluating.other_preparation import doubt_preparation
from edgewise.evaluating.output_format import OutputFormat
from edgewise.evaluating.plausibility import check_plausible
from edgewise.evaluating.reference import OutputCache, ReferenceScorer
from edgewise.evaluating.run_records import cautions_of, describe, inference_time, measurement_of
from edgewise.evaluating.scores import MetricDifference, Score, compare_tables, score
from edgewise.evaluating.shards import select_shard, write_results
from edgewise.evaluating.task import AsksLanguageModel, ClassAnswer, Scorer, Task, TaskContext
from edgewise.model.identity import open_model, read_graph
from edgewise.model.random_operators import random_words
from edgewise.progress import JobStarted, RunFinished, emit
from edgewise.record import Caution, Failure, Job, Run, Scenario, Stopping, TargetSpec, new_run_id
from edgewise.record.facts import emulation_of
from edgewise.record.run import Cause
from edgewise.run.complexity import complexity_of
from edgewise.run.dispatch import Dispatcher, Interrupted
from edgewise.run.executor import executor_at
from edgewise.run.facts import environment_at
from edgewise.run.language_models import longest_context
from edgewise.run.plan import Axes, Plan, make_plan
from edgewise.run.run_builder import METERS_OFF, RunBuilder, Sensors
from edgewise.run.trust import about_emulation
from edgewise.runtime.base import KEEPS_STATE
from edgewise.shown import Shown
from edgewise.workload.input_shapes import open_axes

if TYPE_CHECKING:
    from edgewise.optimizing.changed_answers import ChangedAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan:
    """Which models are evaluated on what.

    Attributes:
        jobs: models with their settings.
        task: None where only agreement or custom metrics are wanted.
        assumed: as `assume_task`.
        data: the user's options.
        instructions: of the models, in place of what `find_instructions` finds; None finds them.
        own: custom metrics: ``module:function`` …
        reference: a job whose outputs are taken as right, where there are no labels.
        form: format of its outputs; None compares them as class scores.
        latency: whether the latency is measured too, as `bench` does.
        fresh: ignore checkpoints of interrupted evaluations.
    """

    jobs: tuple[Job, ...]
    selection: SampleSelection
    task: Task | None
    assumed: str = ""
    data: DataOptions = field(default_factory=DataOptions)
    instructions: Instructions | None = None
    own: tuple[str, ...] = ()
    reference: Job | None = None
    form: OutputFormat | None = None
    latency: bool = True
    fresh: bool = False

    @property
    def task_name(self) -> str:
        """As records have it."""
        if self.reference is not None:
            return "agreement"
        return "own" if self.task is None else self.task.name

    def model(self, job: Job) -> ModelUnderTest:
        """Return the model of `job` with its instructions. Raises `BadInput`."""
        path, options = Path(job.model.path), self.data
        found = self.instructions or find_instructions(
            path, form=job.model.format, flags=options.prepare, file=options.file
        )
        return ModelUnderTest(job=job, instructions=found)


def plan_evaluation(
    models: Sequence[str | os.PathLike[str]],
    data: DataOptions,
    *,
    own: Sequence[str] = (),
    reference: Path | None = None,
    axes: Axes,
    stopping: Stopping,
    target: TargetSpec,
    latency: bool = True,
    keep_state: bool = False,
    fresh: bool = False,
    generating: Scenario = Scenario(),
) -> EvaluationPlan:
    """Return the plan of `edgewise evaluate`.

    Args:
        own: custom metrics.
        reference: a model whose outputs are taken as right.
        keep_state: as `Workload.keep_state`.
        axes: without runtimes, the engine whose own format a model has.
        generating: the scenario of a language model.

    Raises:
        BadInput, BadModel, Unavailable.
    """
    if not models:
        raise BadInput("no model given", advice="edgewise evaluate MODEL --data PATH --task TASK")

    def plan_jobs(path: Path) -> tuple[Job, ...]:
        chosen = axes if axes.runtimes else replace(axes, runtimes=native_runtime(path, target))
        scenario = generating if is_language_model(path) else Scenario()
        plan = make_plan(
            [path], axes=chosen, scenario=scenario, stopping=stopping, target=target, seed=data.seed,
            with_tools=executor_at(target).evaluates,
        )  # fmt: skip
        if plan.skipped and not plan.jobs:
            raise Unavailable("; ".join(plan.skipped), advice="see 'edgewise doctor'")
        return tuple(replace(job, workload=replace(job.workload, keep_state=keep_state)) for job in plan.jobs)

    paths = [Path(model) for model in models]
    jobs = tuple(job for path in paths for job in plan_jobs(path))
    selection = select_samples(data, open_splits(data))
    task, assumed = None, ""
    if reference is None:
        instructions = read_instructions(paths[0], data)
        if not own or data.task or instructions.task:  # with custom metrics no task is needed
            task = find_task(data.task, instructions, selection.data)
            assumed = assume_task(data.task, instructions, selection.data)
    if reference is not None:
        for path in (reference, *paths):
            _check_repeats(path)
    return EvaluationPlan(
        jobs=jobs, selection=selection, task=task, assumed=assumed, data=data, own=tuple(own),
        reference=None if reference is None else plan_jobs(reference)[0], latency=latency, fresh=fresh,
    )  # fmt: skip


def _check_repeats(path: Path) -> None:
    """Raise `BadInput` where the outputs of the model at `path` are random: no reference has the same."""
    try:
        random = random_words(read_graph(path))
    except EdgewiseError:  # its reader tells no network
        return
    if random:
        raise BadInput(f"{path.name}: {random}", advice="use data with labels instead of ⟦reference⟧")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEvaluation:
    """The result for one model.

    Attributes:
        run: with its accuracy, and its latency where that was measured.
        scores: of all metrics; empty where the evaluation failed.
        differences: from the first model, on the samples that both answered; empty for the first.
        notes: how samples were prepared, one line per input.
        resumed: samples that come from an earlier, interrupted evaluation.
        answers: of each sample that the reference and the model answer with a class: the sample, None for its label,
            the reference's answer, the model's.
        changed: those of `answers` that differ; None where answers are not classes, or there is no reference.
    """

    run: Run
    scores: tuple[Score, ...] = ()
    differences: tuple[MetricDifference, ...] = ()
    headline: str = ""
    notes: tuple[str, ...] = ()
    resumed: int = 0
    answers: tuple[tuple[Entry, None, ClassAnswer, ClassAnswer], ...] = field(default=(), repr=False)
    changed: ChangedAnswers | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EvaluationResults(Shown):
    """The results of all models.

    Attributes:
        save_errors: why runs could not be saved; the evaluation goes on.
        interrupted: whether it ended early on request; the same command resumes it.
        thumbnails: number of a sample → picture, of the first model with changed answers, and how they were drawn.
        shard: of a shard its results, a row per model (`run_shard`); there are no models then.
    """

    models: tuple[ModelEvaluation, ...]
    save_errors: tuple[StoreError, ...] = ()
    interrupted: bool = False
    thumbnails: tuple[Mapping[int, str], str] = field(default=({}, ""), repr=False)
    shard: tuple[Mapping[str, Any], ...] = ()

    @property
    def runs(self) -> tuple[Run, ...]:
        """One per model."""
        return tuple(one.run for one in self.models)


def run_evaluation(
    plan: EvaluationPlan,
    *,
    save: Callable[[Run], None],
    sensors: Sensors | None = METERS_OFF,
    alone: AbstractContextManager[None] | None = None,
    shards: Callable[[Sequence[ModelUnderTest]], Sequence[SampleResults]] | None = None,
) -> EvaluationResults:
    """Measure the latency of every model, run the samples through it, and score its outputs.

    Emits the events of `Dispatcher` and `run_samples`, and `RunFinished` at the end of each model. Ctrl-C and the
    cancel token in force end it with what is finished.

    Args:
        save: keeps a run.
        alone: holds the device; it is entered once the data is known to fit.
        shards: has other processes run the samples of all models; None runs them here.

    Raises `BadInput`, `Unavailable`: before anything was measured, or where samples, labels and model don't fit.
    """
    evaluator = _Evaluator(plan, save=save)
    # Models that don't fit are refused before anything is measured.
    admitted = [evaluator.admit(job) for job in plan.jobs]
    jobs = tuple(tested.job for tested, _ in admitted)
    ready = None if shards is None else shards([tested for tested, _ in admitted])
    done: list[ModelEvaluation] = []
    errors: list[BadInput | Unavailable] = []
    interrupted = False
    with alone or nullcontext():
        try:
            dispatcher = Dispatcher(save=save, sensors=sensors)
            runs = dispatcher.execute(Plan(jobs=jobs)) if plan.latency else _make_runs(jobs)
        except Interrupted as stop:
            runs, interrupted = list(stop.runs), True
        for index, ((tested, scorer), run) in enumerate(zip(admitted, runs, strict=False)):
            if interrupted or run.status != "done":
                done.append(ModelEvaluation(run=run, headline="" if interrupted else scorer.headline))
                continue
            if not plan.latency:
                emit(JobStarted(job=tested.job, index=index, total=len(admitted)))
            try:
                evaluated, interrupted = evaluator.evaluate(tested, scorer, run, ready[index] if ready else None)
            except (BadInput, Unavailable) as error:
                errors.append(error)
                if len(errors) == len(admitted):  # it is about the data, or the only model
                    raise errors[0] from None
                evaluated = evaluator.fail(run, scorer, error)
            emit(RunFinished(run=evaluated.run))
            done.append(evaluated)
    return EvaluationResults(models=tuple(done), interrupted=interrupted)


def run_shard(plan: EvaluationPlan, number: int, count: int) -> EvaluationResults:
    """Run the samples of shard `number` of `count`, from 1, through all models. Raises as `run_evaluation`."""
    evaluator = _Evaluator(plan, save=lambda run: None)
    part = replace(plan.selection, indices=select_shard(plan.selection.indices, number, count))
    rows: list[dict[str, Any]] = []
    for tested, scorer in map(evaluator.admit, plan.jobs):  # inputs have the sizes that all samples give
        adapter = adapter_of(tested, scorer, builder=evaluator.builder)
        results = run_samples(tested, part, scorer, builder=evaluator.builder, adapter=adapter)
        if results.interrupted:
            return EvaluationResults(models=(), interrupted=True)
        if (failure := results.failure) is not None:  # the other models have their samples all the same
            rows.append({"status": "failed", "failure": {"cause": failure.cause, "message": failure.message}})
        else:
            rows.append({"samples": write_results(tested, results)})
    return EvaluationResults(models=(), shard=tuple(rows))


def _make_runs(jobs: Sequence[Job]) -> list[Run]:
    """Return runs of one group, without a latency."""
    created, group = datetime.now(UTC).isoformat(timespec="milliseconds"), new_run_id()
    environments = [environment_at(job.target) for job in jobs]
    return [
        Run(
            id=new_run_id(), created_at=created, job=job, status="done", group=group, environment=environment,
            measurements=complexity_of(job), cautions=about_emulation(environment),
        )
        for job, environment in zip(jobs, environments, strict=True)
    ]  # fmt: skip


class _Evaluator:
    def __init__(self, plan: EvaluationPlan, *, save: Callable[[Run], None]) -> None:
        self.builder = RunBuilder(save=save, sensors=METERS_OFF)
        self._plan = plan
        self._first: tuple[SampleResults, Scorer] | None = None
        self._outputs = OutputCache()

    def admit(self, job: Job) -> tuple[ModelUnderTest, Scorer]:
        """Return the model with its instructions and its scorer. Raises `BadInput`, `Unavailable`."""
        plan = self._plan
        tested = plan.model(job)
        scorer = self._make_scorer(tested)
        if isinstance(scorer, AsksLanguageModel):
            return tested, scorer
        if plan.latency or any(open_axes(spec) for spec in job.workload.inputs):
            # Otherwise the samples are run at once, which finds the same errors.
            tested = fit_sizes(tested, plan.selection, builder=self.builder)
        return tested, scorer

    def evaluate(
        self, tested: ModelUnderTest, scorer: Scorer, run: Run, results: SampleResults | None = None
    ) -> tuple[ModelEvaluation, bool]:
        """Return the run with its scores, saved; and whether it was interrupted. `results`: where others ran them."""
        identity = {
            "task": self._plan.task_name,
            "settings": dict(scorer.settings),
            "own": self._plan.own,
            "reference": scorer.identity if isinstance(scorer, ReferenceScorer) else None,
        }
        with ExitStack() as holding:
            results = results or run_samples(
                tested, self._plan.selection, scorer, builder=self.builder, identity=identity, fresh=self._plan.fresh,
                holding=holding, adapter=adapter_of(tested, scorer, builder=self.builder),
            )  # fmt: skip
            interrupted = results.interrupted
            try:
                evaluated = self._score(tested, scorer, results, run)
            except KeyboardInterrupt:  # the samples stay in the checkpoint
                run = replace(run, status="cancelled")
                evaluated, interrupted = ModelEvaluation(run=run, headline=scorer.headline, notes=results.notes), True
            self.builder.save(evaluated.run)
            if results.checkpoint is not None and evaluated.run.status == "done":
                results.checkpoint.discard()
        return evaluated, interrupted

    def fail(self, run: Run, scorer: Scorer, error: EdgewiseError) -> ModelEvaluation:
        """Return the run of a model whose evaluation ended with `error`, saved."""
        cause: Cause = "Unavailable" if isinstance(error, Unavailable) else "BadInput"
        failure = Failure(cause=cause, message=error.message, advice=error.advice, phase="evaluate")
        run = replace(run, status="failed", failure=failure)
        self.builder.save(run)
        return ModelEvaluation(run=run, headline=scorer.headline)

    def _make_scorer(self, tested: ModelUnderTest) -> Scorer:
        plan, data, instructions = self._plan, self._plan.selection.data, tested.instructions
        language = is_language_model(tested.job.model)
        if language:
            check_language_task(tested, plan.task, others=plan.reference is not None or bool(plan.own))
        if plan.reference is not None:
            adapter = ModelAdapter(plan.model(plan.reference), data, builder=self.builder)
            return ReferenceScorer(adapter, name=plan.reference.model.name, cache=self._outputs, form=plan.form)
        if not data.labelled:
            raise refuse_unlabelled(data)
        if plan.task is not None and data.kind not in plan.task.kinds:
            raise BadInput(
                f"{plan.task.name} does not support {data.kind} samples",
                advice=f"give samples of the kind {' or '.join(plan.task.kinds)}, or set the kind with ⟦data_format⟧ "
                "or ⟦data_option⟧",
            )
        context = TaskContext(
            signature=open_model(tested.job.model).signature,
            data=data,
            options={**instructions.task_options, **plan.data.task_options},
            classes=plan.data.classes or instructions.classes,
            classes_from="" if plan.data.classes else instructions.classes_from,
            classes_given=plan.data.classes_given,
            language=language,
            longest=longest_context(tested.job.model) if language else None,
        )
        scorer = None if plan.task is None else plan.task.prepare(context)
        return with_custom_metrics(scorer, plan.own, context)

    def _score(self, tested: ModelUnderTest, scorer: Scorer, results: SampleResults, run: Run) -> ModelEvaluation:
        plan, selection = self._plan, self._plan.selection
        if results.failure is not None or (results.interrupted and not results.records):
            run = replace(run, status="failed" if results.failure else "cancelled", failure=results.failure)
            return ModelEvaluation(run=run, headline=scorer.headline, notes=results.notes)
        if not results.records:
            why = next((f" ({entry.name}: {entry.reason})" for entry in results.entries if entry.reason), "")
            raise BadInput(
                f"none of the samples of {selection.data.name} could be used{why}",
                advice="check the data, and how samples are prepared (⟦prepare⟧)",
            )
        table = scorer.tabulate(results.records)
        # A part of the samples gets no interval, so there is no need to resample, which takes seconds.
        wanted = () if results.interrupted else None
        scores = score(table, seed=selection.seed, only=wanted)
        if results.interrupted:
            # The first samples of a data set, often ordered by class, are not a random part: there is no interval.
            how = f"of the first {table.n} samples in the data's order, not the rest"
            scores = tuple(replace(one, low=None, high=None, method=how) for one in scores)
        differences = self._compare(results, scorer, only=wanted)
        if self._first is None:
            self._first = results, scorer
        calibrated = None
        if not results.interrupted and plan.reference is None:
            seen = read_calibrated(tested.job.model)
            calibrated = score_without(seen, results, scorer, seed=selection.seed) if seen else None
        variation = run.variation if plan.latency else self.builder.usual_variation(run.job.target)
        untimed = emulation_of(run.environment) or results.untimed
        time = inference_time(results, scorer, task=plan.task_name, variation=variation, untimed=untimed)
        run = replace(
            run,
            status="cancelled" if results.interrupted else run.status,
            measurements=(*run.measurements, time, *map(measurement_of, scores)),
            evaluation=describe(
                results, table, selection=selection,
                instructions=replace(
                    tested.instructions,
                    task_options={**tested.instructions.task_options, **plan.data.task_options},
                    classes=plan.data.classes or tested.instructions.classes,
                ),
                settings=scorer.settings, task=plan.task_name,
                reference=None if plan.reference is None else plan.reference.model.sha256, calibrated=calibrated,
            ),
            effective=run.effective or dict(results.effective),
        )  # fmt: skip
        if results.effective.get("states"):
            told = Caution.of(KEEPS_STATE, results.notes[-1])
            run = replace(run, cautions=(*(each for each in run.cautions if each.code != KEEPS_STATE), told))
        doubt = check_plausible(scores, table, headline=scorer.headline, results=results, settings=scorer.settings)
        about_data = () if run.evaluation is None else cautions_of(run.evaluation, results.processors)
        about_pictures: tuple[Caution, ...] = ()
        if run.status == "done" and plan.reference is None:
            about_pictures = doubt_preparation(tested, selection, scorer, results, builder=self.builder)
        if doubt is not None and isinstance(scorer, AsksLanguageModel):
            doubt = replace(doubt, advice=OF_LANGUAGE_MODELS)
        doubts = [] if doubt is None else [doubt]
        run = replace(run, cautions=(*run.cautions, *doubts, *about_pictures, *about_data))
        return ModelEvaluation(
            run=run, scores=scores, differences=differences, headline=scorer.headline,
            notes=(*filter(None, [plan.assumed]), *results.notes), resumed=results.resumed,
            answers=_collect_answers(results.entries, scorer),
        )  # fmt: skip

    def _compare(
        self, results: SampleResults, scorer: Scorer, *, only: tuple[str, ...] | None
    ) -> tuple[MetricDifference, ...]:
        """Compare with the first model, on the samples that both answered, where they were the same samples."""
        if self._first is None:
            return ()
        first, first_scorer = self._first
        own = {entry.index: entry for entry in results.entries if not entry.reason}
        pairs = [
            (entry.record, own[entry.index].record)
            for entry in first.entries
            if not entry.reason and entry.index in own and own[entry.index].digest == entry.digest
        ]
        if not pairs:
            return ()
        return compare_tables(
            first_scorer.tabulate([before for before, _ in pairs]),
            scorer.tabulate([after for _, after in pairs]),
            seed=self._plan.selection.seed,
            only=only,
        )


def _collect_answers(
    entries: Sequence[Entry], scorer: Scorer
) -> tuple[tuple[Entry, None, ClassAnswer, ClassAnswer], ...]:
    """Return `ModelEvaluation.answers` of the samples in `entries`."""
    if not isinstance(scorer, ReferenceScorer):
        return ()
    known = ((entry, scorer.classes_of(entry.record, entry.record)) for entry in entries if not entry.reason)
    return tuple((entry, *classes) for entry, classes in known if classes is not None)
