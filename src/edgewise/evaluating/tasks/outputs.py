"""What tasks share: their options, the output that they read, and labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Sample
from edgewise.evaluating.task import Scorer, TaskContext
from edgewise.model.signature import TensorSpec

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

WIDE_INTEGERS = ("int32", "int64", "uint32", "uint64")
"""Types of class numbers; narrower integers are quantised real numbers."""
_BRIEF = 60


class OutputTask:
    """A task whose scorer reads one output: subclasses set the attributes of `Task`.

    Attributes:
        options: name → the values that it takes, in words.
        scorer: made from the context and the task's name.
    """

    name: str
    options: Mapping[str, str]
    scorer: type[Any]

    def prepare(self, context: TaskContext) -> Scorer:
        """As `Task.prepare`."""
        for name in context.options:
            if name not in self.options:
                known = ", ".join(f"{key}={meaning}" for key, meaning in self.options.items())
                raise BadInput(f"{self.name} has no option {name!r}", advice=f"its options are {known}")
        check_labelled(context, self.name)
        found: Scorer = self.scorer(context, task=self.name)
        return found


class OutputScorer:
    """What scorers of one output share.

    Attributes:
        settings: as `Scorer.settings`; subclasses add theirs.
    """

    def __init__(self, context: TaskContext, *, task: str) -> None:
        self._data = context.data.name
        self._task = task
        self._number = choose_output(context, task)
        self._spec = context.signature.outputs[self._number]
        self.settings: Mapping[str, Any] = {"output": self._spec.name}


class Binary:
    """How a single number becomes class 0 or 1: the options ``positive`` and ``threshold``.

    Attributes:
        positive: ``logit`` or ``probability``; None where it is not given.
        threshold: above it the answer is class 1.
        settings: for the record.
    """

    OPTIONS: Mapping[str, str] = {
        "positive": "logit or probability (what a single output is)",
        "threshold": "NUMBER (of a single output; above it the answer is class 1)",
    }

    def __init__(self, context: TaskContext) -> None:
        defaults = {"logit": 0.0, "probability": 0.5}
        self.positive = choose_word(context, "positive", tuple(defaults))
        self.threshold = choose_number(context, "threshold")
        self.settings: Mapping[str, Any] = {}
        if self.positive is not None:
            self.threshold = defaults[self.positive] if self.threshold is None else self.threshold
            self.settings = {"positive": self.positive, "threshold": self.threshold}


def check_labelled(context: TaskContext, task: str) -> None:
    """Raises `BadInput` where the data has no labels."""
    if not context.data.labelled:
        raise BadInput(
            f"{context.data.name} has no labels, which {task} needs",
            advice="without labels, compare the outputs with another model's: --reference MODEL",
        )


def scalar_label(sample: Sample) -> Any:
    """The label, a single element of an array as a number, and a truth value as 0 or 1."""
    import numpy as np

    label = sample.label
    if isinstance(label, np.ndarray | np.generic) and label.size == 1:
        label = label.reshape(-1)[0].item()
    return int(label) if isinstance(label, bool) else label


def brief(label: Any) -> str:
    """A label on one short line, for messages."""
    text = " ".join(repr(label).split())
    return text if len(text) <= _BRIEF else text[: _BRIEF - 1] + "…"


def choose_output(context: TaskContext, task: str) -> int:
    """The number of the output to read: the option ``output`` (a name or a number), else the only one.

    Raises:
        BadInput: several outputs and no option, or no such output.
    """
    outputs = context.signature.outputs
    names = [each.name for each in outputs]
    listed = ", ".join(f"{number}: {each.name} {_shape(each)}" for number, each in enumerate(outputs)) or "none"
    asked = context.options.get("output")
    if asked is None:
        if len(outputs) == 1:
            return 0
        raise BadInput(
            f"the model has {len(outputs)} outputs and {task} reads one",
            advice=f"choose one with --task-option output=NAME: {listed}",
        )
    if asked in names:
        return names.index(asked)
    if asked.isdecimal() and int(asked) < len(outputs):
        return int(asked)
    raise BadInput(f"the model has no output {asked!r}", advice=f"its outputs are {listed}")


def choose_word(context: TaskContext, name: str, words: Sequence[str]) -> str | None:
    """The option `name`, one of `words`; None where it is not given. Raises `BadInput`."""
    given = context.options.get(name)
    if given is not None and given not in words:
        raise BadInput(f"--task-option {name} must be {' or '.join(words)}, not {given}")
    return given


def choose_number(context: TaskContext, name: str) -> float | None:
    """The option `name`, a finite number; None where it is not given. Raises `BadInput`."""
    given = context.options.get(name)
    if given is None:
        return None
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInput(f"--task-option {name} must be a number, not {given}")
    return value


def choose_count(context: TaskContext, name: str, *, default: int) -> int:
    """The option `name`, a whole number from 0. Raises `BadInput`."""
    given = context.options.get(name)
    if given is None:
        return default
    if not given.isdecimal() or len(given) > 9:
        raise BadInput(f"--task-option {name} must be a whole number of at least 0, not {given}")
    return int(given)


def elements_of(spec: TensorSpec) -> int | None:
    """Numbers per sample of an output; None where a size other than the leading one is not known."""
    if spec.shape is None or len(spec.shape) < 2:
        return None
    sizes = [size for size in spec.shape[1:] if isinstance(size, int)]
    return math.prod(sizes) if len(sizes) == len(spec.shape) - 1 else None


def row_of(array: Array, *, task: str) -> Array:
    """The output as one row: at most one of its sizes is not 1. Raises `BadInput`."""
    if sum(size != 1 for size in array.shape) > 1 or array.size == 0:
        raise BadInput(
            f"an output of shape {list(array.shape)} is not one row of numbers per sample, which {task} reads",
            advice="choose another output with --task-option output=NAME, or another task",
        )
    return array.reshape(-1)


def _shape(spec: TensorSpec) -> str:
    if spec.shape is None:
        return "of any shape"
    return "[" + ", ".join("?" if size is None else str(size) for size in spec.shape) + "]"
