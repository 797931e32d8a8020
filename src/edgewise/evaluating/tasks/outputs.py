"""What tasks share: their options, the output that they read, and labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Sample, refuse_unlabelled
from edgewise.evaluating.step_settings import Accepts, accepted
from edgewise.evaluating.task import Scorer, TaskContext
from edgewise.model.signature import TensorSpec

if TYPE_CHECKING:
    from edgewise.workload.arrays import Array

WIDE_INTEGERS = ("int32", "int64", "uint32", "uint64")
"""Types of class numbers; narrower integers are quantised real numbers."""
MOST_CLASSES = 256
"""Classes of a confusion matrix."""
_BRIEF = 60


Count = Annotated[int, Field(ge=0, lt=10**9), Accepts("a whole number of at least 0")]
Finite = Annotated[float, Field(allow_inf_nan=False), Accepts("a number")]
YesNo = Literal["yes", "no"]


class TaskOptions(BaseModel):
    """Options of a task, ``--task-option NAME=VALUE``. The description of a field is shown beside its name."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class OutputOptions(TaskOptions):
    """Options of a task that reads one output."""

    output: str | None = Field(None, description="NAME")


class ClassOptions(OutputOptions):
    """Options of a task whose answers are classes."""

    offset: Count = Field(0, description="1 (outputs before the first class)")
    positive: Literal["logit", "probability"] | None = Field(
        None, description="logit or probability (what a single output is)"
    )
    threshold: Finite | None = Field(None, description="NUMBER (of a single output; above it the answer is class 1)")

    @property
    def limit(self) -> float:
        """The value of a single output above which the answer is class 1."""
        if self.threshold is not None:
            return self.threshold
        return 0.5 if self.positive == "probability" else 0.0

    @property
    def settings(self) -> dict[str, Any]:
        """How a single output is read, for the record."""
        return {} if self.positive is None else {"positive": self.positive, "threshold": self.limit}


_Options = TypeVar("_Options", bound=TaskOptions)


def read_options(kind: type[_Options], given: Mapping[str, str], task: str) -> _Options:
    """Return the options of a task. Raises `BadInput` for one that the task does not have, or an invalid value."""
    for name in given:
        if name not in kind.model_fields:
            known = ", ".join(f"{key}={field.description}" for key, field in kind.model_fields.items())
            raise BadInput(f"{task} has no option {name!r}", advice=f"its options are {known}")
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        name = str(error.errors(include_url=False)[0]["loc"][0])
    field = kind.model_fields[name]
    raise BadInput(
        f"⟦task_option⟧ {name} must be {accepted(field.annotation, field.metadata)}, not {given[name]}",
        advice=f"{name}={field.description}",
    )


class OutputTask:
    """A task whose scorer reads one output: subclasses set the attributes of `Task`.

    Attributes:
        options: the class of the task's options.
        scorer: made from the context, the options and the task's name.
    """

    name: str
    options: type[TaskOptions]
    scorer: type[Any]

    def prepare(self, context: TaskContext) -> Scorer:
        """As `Task.prepare`."""
        options = read_options(self.options, context.options, self.name)
        if not context.data.labelled:
            raise refuse_unlabelled(context.data, f", which {self.name} needs")
        found: Scorer = self.scorer(context, options, task=self.name)
        return found


class OutputScorer:
    """Base of the scorers of one output.

    Attributes:
        settings: as `Scorer.settings`; subclasses add theirs.
    """

    def __init__(self, context: TaskContext, options: OutputOptions, *, task: str) -> None:
        self._data = context.data.name
        self._task = task
        self._number = choose_output(context, options.output, task)
        self._spec = context.signature.outputs[self._number]
        self.settings: Mapping[str, Any] = {"output": self._spec.name}


def count_confusion(labels: Array, answers: Array, counts: Array, *, classes: int) -> list[list[int]]:
    """Count by [label][answer]; samples without an answer (-1) are in no cell. Empty with more than `MOST_CLASSES`."""
    import numpy as np

    if classes > MOST_CLASSES:
        return []
    known = answers >= 0
    codes = labels[known] * classes + answers[known]
    cells = np.bincount(codes, weights=counts[known], minlength=classes * classes)
    rows: list[list[int]] = cells.astype(np.int64).reshape(classes, classes).tolist()
    return rows


def scalar_label(sample: Sample) -> Any:
    """Return the label, a single element of an array as a number, and a truth value as 0 or 1."""
    import numpy as np

    label = sample.label
    if isinstance(label, np.ndarray | np.generic) and label.size == 1:
        label = label.reshape(-1)[0].item()
    return int(label) if isinstance(label, bool) else label


def brief(label: Any) -> str:
    """Return a label on one short line, for messages."""
    text = " ".join(repr(label).split())
    return text if len(text) <= _BRIEF else text[: _BRIEF - 1] + "…"


def choose_output(context: TaskContext, asked: str | None, task: str) -> int:
    """Return the number of the output to read: the output `asked` for (a name or a number), else the only one.

    Raises `BadInput`: several outputs and no option, or no such output.
    """
    outputs = context.signature.outputs
    names = [each.name for each in outputs]
    listed = ", ".join(f"{number}: {each.name} {describe_shape(each)}" for number, each in enumerate(outputs)) or "none"
    if asked is None:
        if len(outputs) == 1:
            return 0
        raise BadInput(
            f"the model has {len(outputs)} outputs and {task} reads one",
            advice=f"choose one with ⟦task_option=output=NAME⟧: {listed}",
        )
    if asked in names:
        return names.index(asked)
    if asked.isdecimal() and int(asked) < len(outputs):
        return int(asked)
    raise BadInput(f"the model has no output {asked!r}", advice=f"its outputs are {listed}")


def elements_of(spec: TensorSpec) -> int | None:
    """Return numbers per sample of an output; None where a size other than the leading one is not known."""
    if spec.shape is None or len(spec.shape) < 2:
        return None
    sizes = [size for size in spec.shape[1:] if isinstance(size, int)]
    return math.prod(sizes) if len(sizes) == len(spec.shape) - 1 else None


def row_of(array: Array, *, task: str) -> Array:
    """Return the output as one row: at most one of its sizes is not 1. Raises `BadInput`."""
    if sum(size != 1 for size in array.shape) > 1 or array.size == 0:
        raise BadInput(
            f"an output of shape {list(array.shape)} is not one row of numbers per sample, which {task} reads",
            advice="choose another output with ⟦task_option=output=NAME⟧, or another task",
        )
    return array.reshape(-1)


def describe_shape(spec: TensorSpec) -> str:
    """Return the shape of an output in words: ``[1, ?, 4]``."""
    if spec.shape is None:
        return "of any shape"
    return "[" + ", ".join("?" if size is None else str(size) for size in spec.shape) + "]"
