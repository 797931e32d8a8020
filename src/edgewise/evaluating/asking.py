"""From what a user says of data and task to what models are asked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgewise.comparing.contenders import native_runtime
from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.dataset import SPLITS_TO_JUDGE, Dataset, choose_samples, choose_split, open_data
from edgewise.evaluating.evaluator import Question
from edgewise.evaluating.examination import Examination
from edgewise.evaluating.instructions import Instructions, find_instructions
from edgewise.evaluating.task import Task, tasks
from edgewise.model.identity import open_model
from edgewise.record import Job, Scenario, Stopping, TargetSpec
from edgewise.run.plan import Axes, make_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class DataWish:
    """What a user says of the data, and of how to judge on it.

    Attributes:
        source: a path, or ``module:function``.
        format, options: how to read it; None and empty leave that to the data.
        split: None is the first of the usual ones.
        limit: so many samples; None is all.
        strict: a sample that can't be used is an error.
        task: None takes that of the instructions beside the model.
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


def open_splits(wish: DataWish) -> Mapping[str, Dataset]:
    """The splits of the data. Raises `BadInput`, `Unavailable`."""
    return open_data(wish.source, form=wish.format, options=wish.options)


def make_question(wish: DataWish, splits: Mapping[str, Dataset], *, order: Sequence[str] = SPLITS_TO_JUDGE) -> Question:
    """What models are asked: the samples of one split. Raises `BadInput`, `Unavailable`."""
    data = choose_split(splits, wish.split, order)
    indices = choose_samples(len(data), limit=wish.limit, seed=wish.seed)
    return Question(data=data, indices=tuple(indices), limit=wish.limit, seed=wish.seed, strict=wish.strict)


def find_task(name: str | None, instructions: Instructions) -> Task:
    """The task that was asked for, else that of the instructions. Raises `BadInput` where nobody says."""
    wanted = name or instructions.task
    if wanted is None:
        raise BadInput(
            "nobody says what the model's task is", advice=f"give --task, one of: {', '.join(tasks().names())}"
        )
    return tasks().get(wanted)


def read_instructions(model: Path, wish: DataWish) -> Instructions:
    """What stands beside the model, with what the user says. Raises `BadModel`, `BadInput`."""
    form = open_model(model).ref.format if model.exists() and not _is_code(model) else ""
    return find_instructions(model, form=form, flags=wish.prepare, file=wish.file)


def make_examination(
    models: Sequence[str | os.PathLike[str]],
    wish: DataWish,
    *,
    own: Sequence[str] = (),
    reference: Path | None = None,
    axes: Axes,
    stopping: Stopping,
    target: TargetSpec,
    latency: bool = True,
    fresh: bool = False,
) -> Examination:
    """What `edgewise evaluate` does.

    Args:
        own: metrics of the user's own.
        reference: a model whose outputs are taken as right.
        axes: without runtimes, the engine whose own format a model has.

    Raises:
        BadInput, BadModel, Unavailable.
    """
    if not models:
        raise BadInput("there is no model to evaluate", advice="edgewise evaluate MODEL --data PATH --task TASK")
    paths = [Path(model) for model in models]
    jobs = [job for path in paths for job in _jobs(path, axes, stopping=stopping, target=target, seed=wish.seed)]
    question = make_question(wish, open_splits(wish))
    if wish.task is None and own and reference is None:
        named = read_instructions(paths[0], wish).task
        task = None if named is None else tasks().get(named)
    elif reference is not None:
        task = None
    else:
        task = find_task(wish.task, read_instructions(paths[0], wish))
    return Examination(
        jobs=tuple(jobs),
        question=question,
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
    chosen = axes if axes.runtimes else replace(axes, runtimes=native_runtime(path))
    plan = make_plan([path], axes=chosen, scenario=Scenario(), stopping=stopping, target=target, seed=seed)
    if plan.skipped and not plan.jobs:
        raise Unavailable("; ".join(plan.skipped), advice="see 'edgewise doctor'")
    return list(plan.jobs)


def _is_code(path: Path) -> bool:
    return path.suffix == ".py"
