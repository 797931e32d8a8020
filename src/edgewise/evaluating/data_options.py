"""The user's options for data and task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import SPLITS_TO_JUDGE, Dataset, choose_samples, choose_split, open_data
from edgewise.evaluating.evaluator import SampleSelection
from edgewise.evaluating.formats.files import Files
from edgewise.evaluating.instructions import Instructions, find_instructions
from edgewise.evaluating.task import Task, tasks
from edgewise.model.identity import format_of
from edgewise.progress import LogLine, emit


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
        task_options: of the task; they take precedence over those beside the model.
        classes: names in the order of the models' outputs; empty takes them from model and data.
        classes_given: where the user gives them, as a marked field; else empty.
        prepare: ``STEP=VALUE`` words.
        file: instructions to read instead of those beside the model.
    """

    source: str = ""
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    split: str | None = None
    limit: int | None = None
    seed: int = 0
    strict: bool = False
    task: str | None = None
    task_options: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    classes_given: str = ""
    prepare: tuple[str, ...] = ()
    file: Path | None = None


def open_splits(wish: DataOptions) -> Mapping[str, Dataset]:
    """Return the splits of the data. Raises `BadInput`, `Unavailable`."""
    return open_data(wish.source, form=wish.format, options=wish.options)


def select_samples(wish: DataOptions, splits: Mapping[str, Dataset]) -> SampleSelection:
    """Return the samples of one split. Raises `BadInput`, `Unavailable`."""
    data = choose_split(splits, wish.split, SPLITS_TO_JUDGE)
    for name, reason in getattr(data, "absent", ())[:1] if wish.strict else ():
        raise BadInput(f"{name} can't be used: {reason}", advice="fix it, or omit ⟦strict⟧ to skip it")
    indices = choose_samples(len(data), limit=wish.limit, seed=wish.seed)
    return SampleSelection(data=data, indices=tuple(indices), limit=wish.limit, seed=wish.seed, strict=wish.strict)


def assume_task(name: str | None, instructions: Instructions, data: Dataset) -> str:
    """Return in words that pictures in a folder per class are a classification, where no task is named; else ""."""
    pictures = isinstance(data, Files) and data.format == "folders" and data.labels is not None
    if name or instructions.task or not pictures:
        return ""
    return f"task: classification, as {data.path} has a folder per class"


def find_task(name: str | None, instructions: Instructions, data: Dataset) -> Task:
    """Return the task: requested, of the instructions, or as `assume_task` assumes and reports. Raises `BadInput`."""
    wanted = name or instructions.task
    if assumed := assume_task(name, instructions, data):
        emit(LogLine(text=assumed))
        wanted = "classification"
    if wanted is None:
        raise BadInput("no task given", advice=f"give ⟦task⟧: one of {', '.join(tasks().names())}")
    return tasks().get(wanted)


def read_instructions(model: Path, wish: DataOptions) -> Instructions:
    """Return the instructions beside the model, with the user's options. Raises `BadModel`, `BadInput`."""
    form = format_of(model)[0] if model.exists() and model.suffix != ".py" else ""
    return find_instructions(model, form=form, flags=wish.prepare, file=wish.file)
