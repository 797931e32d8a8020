"""The user's options for data and task, and the evaluation that they make."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgewise.comparing.subjects import native_runtime
from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.dataset import SPLITS_TO_JUDGE, Dataset, choose_samples, choose_split, open_data
from edgewise.evaluating.evaluation import EvaluationPlan
from edgewise.evaluating.evaluator import SampleSelection
from edgewise.evaluating.instructions import Instructions, find_instructions
from edgewise.evaluating.task import Task, tasks
from edgewise.model.identity import open_model
from edgewise.record import Job, Scenario, Stopping, TargetSpec
from edgewise.run.plan import Axes, make_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions:
    """The user's options for data and task.

    Attributes:
        source: a path, or ``module:function``.
        format, options: how to read it; None detects the format.
        split: None takes the first of the usual ones.
        limit: number of samples; None is all.
        strict: a sample that can't be used is an error.
        task: None takes the one in the instructions beside the model.
        prepare: ``STEP=VALUE`` words.
        file: instructions to read instead of those beside the model.
    """

    source: str
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    split: str | None = None
    limit: int | None = None
    seed: int = 0
    strict: bool = False
    task: str | None = None
    task_options: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    file: Path | None = None


def open_splits(wish: DataOptions) -> Mapping[str, Dataset]:
    """The splits of the data. Raises `BadInput`, `Unavailable`."""
    return open_data(wish.source, form=wish.format, options=wish.options)


def select_samples(
    wish: DataOptions, splits: Mapping[str, Dataset], *, order: Sequence[str] = SPLITS_TO_JUDGE
) -> SampleSelection:
    """The samples of one split. Raises `BadInput`, `Unavailable`."""
    data = choose_split(splits, wish.split, order)
    indices = choose_samples(len(data), limit=wish.limit, seed=wish.seed)
    return SampleSelection(data=data, indices=tuple(indices), limit=wish.limit, seed=wish.seed, strict=wish.strict)


def find_task(name: str | None, instructions: Instructions) -> Task:
    """The requested task, else that of the instructions. Raises `BadInput` where neither names one."""
    wanted = name or instructions.task
    if wanted is None:
        raise BadInput("no task given", advice=f"give --task: one of {', '.join(tasks().names())}")
    return tasks().get(wanted)


def read_instructions(model: Path, wish: DataOptions) -> Instructions:
    """The instructions beside the model, with the user's options. Raises `BadModel`, `BadInput`."""
    form = open_model(model).ref.format if model.exists() and not _is_code(model) else ""
    return find_instructions(model, form=form, flags=wish.prepare, file=wish.file)


def plan_evaluation(
    models: Sequence[str | os.PathLike[str]],
    wish: DataOptions,
    *,
    own: Sequence[str] = (),
    reference: Path | None = None,
    axes: Axes,
    stopping: Stopping,
    target: TargetSpec,
    latency: bool = True,
    fresh: bool = False,
) -> EvaluationPlan:
    """The plan of `edgewise evaluate`.

    Args:
        own: custom metrics.
        reference: a model whose outputs are taken as right.
        axes: without runtimes, the engine whose own format a model has.

    Raises:
        BadInput, BadModel, Unavailable.
    """
    if not models:
        raise BadInput("no model given", advice="edgewise evaluate MODEL --data PATH --task TASK")
    paths = [Path(model) for model in models]
    jobs = [job for path in paths for job in _jobs(path, axes, stopping=stopping, target=target, seed=wish.seed)]
    selection = select_samples(wish, open_splits(wish))
    if wish.task is None and own and reference is None:
        named = read_instructions(paths[0], wish).task
        task = None if named is None else tasks().get(named)
    elif reference is not None:
        task = None
    else:
        task = find_task(wish.task, read_instructions(paths[0], wish))
    return EvaluationPlan(
        jobs=tuple(jobs),
        selection=selection,
        task=task,
        options=wish.task_options,
        classes=wish.classes,
        prepare=wish.prepare,
        file=wish.file,
        own=tuple(own),
        reference=None
        if reference is None
        else _jobs(reference, axes, stopping=stopping, target=target, seed=wish.seed)[0],
        latency=latency,
        fresh=fresh,
    )


def _jobs(path: Path, axes: Axes, *, stopping: Stopping, target: TargetSpec, seed: int) -> list[Job]:
    chosen = axes if axes.runtimes else replace(axes, runtimes=native_runtime(path, target))
    plan = make_plan([path], axes=chosen, scenario=Scenario(), stopping=stopping, target=target, seed=seed)
    if plan.skipped and not plan.jobs:
        raise Unavailable("; ".join(plan.skipped), advice="see 'edgewise doctor'")
    return list(plan.jobs)


def _is_code(path: Path) -> bool:
    return path.suffix == ".py"
