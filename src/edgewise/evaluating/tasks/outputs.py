"""Which output of a model a task reads, and what the user may say about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.evaluating.task import Setting
from edgewise.model.signature import TensorSpec

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

WIDE_INTEGERS = ("int32", "int64", "uint32", "uint64")
"""What class numbers come in; narrower integers are quantised real numbers."""


def check_options(setting: Setting, task: str, known: Mapping[str, str]) -> None:
    """Raises `BadInput` for an option that the task does not know; `known` says what each one takes."""
    for name in setting.options:
        if name not in known:
            raise BadInput(
                f"{task} has no option {name!r}",
                advice="it knows " + ", ".join(f"{key}={meaning}" for key, meaning in known.items()),
            )


def check_labelled(setting: Setting, task: str) -> None:
    """Raises `BadInput` where the data has no labels."""
    if not setting.data.labelled:
        raise BadInput(
            f"{setting.data.name} has no labels, and {task} needs them",
            advice="without labels, outputs can be compared with another model's: --reference MODEL",
        )


def choose_output(setting: Setting, task: str) -> int:
    """The number of the output to read: the option ``output`` (a name or a number), else the only one.

    Raises:
        BadInput: several outputs and nobody says which, or no such output.
    """
    outputs = setting.signature.outputs
    names = [each.name for each in outputs]
    listed = ", ".join(f"{number}: {each.name} {_shape(each)}" for number, each in enumerate(outputs)) or "none"
    asked = setting.options.get("output")
    if asked is None:
        if len(outputs) == 1:
            return 0
        raise BadInput(
            f"the model has {len(outputs)} outputs and {task} reads one",
            advice=f"say which with --task-option output=NAME; there are {listed}",
        )
    if asked in names:
        return names.index(asked)
    if asked.isdecimal() and int(asked) < len(outputs):
        return int(asked)
    raise BadInput(f"the model has no output {asked!r}", advice=f"there are {listed}")


def choose_word(setting: Setting, name: str, words: Sequence[str]) -> str | None:
    """The option `name`, one of `words`; None where it is not given. Raises `BadInput`."""
    given = setting.options.get(name)
    if given is not None and given not in words:
        raise BadInput(f"--task-option {name}={given} makes no sense", advice=f"it is one of {', '.join(words)}")
    return given


def choose_number(setting: Setting, name: str) -> float | None:
    """The option `name`, a finite number; None where it is not given. Raises `BadInput`."""
    given = setting.options.get(name)
    if given is None:
        return None
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInput(f"--task-option {name}={given} makes no sense", advice=f"{name} is a number")
    return value


def choose_count(setting: Setting, name: str, *, default: int) -> int:
    """The option `name`, a whole number from 0. Raises `BadInput`."""
    given = setting.options.get(name)
    if given is None:
        return default
    if not given.isdecimal() or len(given) > 9:
        raise BadInput(f"--task-option {name}={given} makes no sense", advice=f"{name} is a whole number, 0 or more")
    return int(given)


def elements_of(spec: TensorSpec) -> int | None:
    """How many numbers an output has per sample, where its shape tells: all sizes but the leading one's are known."""
    if spec.shape is None or len(spec.shape) < 2:
        return None
    sizes = [size for size in spec.shape[1:] if isinstance(size, int)]
    return math.prod(sizes) if len(sizes) == len(spec.shape) - 1 else None


def row_of(array: Array, *, task: str) -> Array:
    """The output as one row: all its sizes are 1, but for one at most. Raises `BadInput`."""
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
