"""From a label of the data to an output of the model."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from edgewise.errors import BadInput
from edgewise.evaluating.class_order import BY_NAME, ORDER, SAME_NAMES
from edgewise.evaluating.dataset import Sample
from edgewise.evaluating.task import TaskContext
from edgewise.evaluating.tasks.outputs import brief, scalar_label

_LISTED = 5


class LabelMapping:
    """Maps labels to outputs.

    Where the names of the model's outputs and those of the data's classes are both known and differ, labels are matched
    by name; otherwise label i is output i + `offset`. `offset`: outputs before the first class, such as a background
    class.

    Attributes:
        count: of the model's outputs; None until it is known.
        by_name: label → output; None where labels are outputs.

    Raises `BadInput`: names that can't be matched, or as many names as there are no outputs.
    """

    def __init__(self, context: TaskContext, *, offset: int = 0) -> None:
        self._data, self._format = context.data.name, context.data.format
        self._own = [str(name) for name in context.data.classes]
        self._model = [str(name) for name in context.classes]
        self._source = context.classes_from
        self.offset = offset
        self.count: int | None = None
        self.by_name: tuple[int, ...] | None = None
        shared = share_names(self._own, self._model)
        # Names in the model's file are not the user's words: where they say nothing, labels are outputs as without.
        follow = not self._source or (shared and not offset)
        if self._own and self._model and self._own != self._model and follow:
            if offset:
                raise BadInput(
                    "labels are matched by name, so no offset is needed",
                    advice="leave offset out, or leave the names of the model's classes out",
                )
            there = context.classes_given or self._source
            self.by_name = _match(self._own, self._model, self._data, there=there or "what names the model's classes")

    @property
    def settings(self) -> dict[str, Any]:
        """How labels are read, for the record."""
        words = "" if self.offset else describe_order(self._own, self._model, self._source, matched=self.by_name)
        doubt = {ORDER: words} if words else {}
        if self.by_name is not None:
            matched = {"labels": BY_NAME, "outputs_of_labels": list(self.by_name)}
            return matched | doubt
        same = SAME_NAMES if self._own and self._own == self._model else "label i is output i"
        return {"labels": f"label i is output i + {self.offset}" if self.offset else same} | doubt

    @property
    def known(self) -> int | None:
        """How many classes there are, from the outputs, else from names."""
        if self.count is not None:
            return self.count
        return len(self._model) or (len(self._own) + self.offset if self._own else None)

    def settle(self, count: int) -> None:
        """Set the number of outputs. Raises `BadInput` where the names don't match it."""
        if self.count == count:
            return
        if self._source and self.by_name is None and len(self._model) != count:
            self._model = []
        if self._model and len(self._model) != count:
            raise BadInput(
                f"{len(self._model)} names of classes for a model with {count} outputs",
                advice="give one name per output, in their order",
            )
        if not self._model and self._own and len(self._own) + self.offset != count:
            background = " and an offset of " + str(self.offset) if self.offset else ""
            own = f"{len(self._own)} class{'es' if len(self._own) != 1 else ''}{background}"
            raise BadInput(f"{self._data} has {own}, and the model {count} outputs", advice=self._advise(count))
        self.count = count

    def _advise(self, count: int) -> str:
        advice = "name the outputs with ⟦classes⟧"
        if len(self._own) + 1 == count:
            advice += ", or use ⟦task_option=offset=1⟧ for a background class"
        if self._format != "folders":
            return advice
        named = ", ".join(self._own[:_LISTED]) + (", …" if len(self._own) > _LISTED else "")
        return f"is it the right folder? Its sub-folders were taken for the classes: {named}; if they are, {advice}"

    def read(self, sample: Sample) -> int:
        """Return the output that is right for `sample`. Raises `BadInput` naming the sample and its label."""
        label = scalar_label(sample)
        if not isinstance(label, int):
            raise BadInput(
                f"{sample.name} of {self._data} has the label {brief(sample.label)}, which is not a class",
                advice="a label is the number of its class, from 0",
            )
        return self.output_of(label, sample.name)

    def output_of(self, label: int, name: str) -> int:
        """Return the output for `label`, of the sample called `name`. Raises `BadInput`."""
        if self.by_name is not None:
            if not 0 <= label < len(self.by_name):
                raise BadInput(
                    f"{name} has the label {label}, and {self._data} names {len(self.by_name)} classes",
                    advice="labels count from 0",
                )
            return self.by_name[label]
        output, known = label + self.offset, self.known
        if label < 0 or (known is not None and output >= known):
            rest = f"the model has {known} classes" if known is not None else "labels count from 0"
            shift = f" (output {output})" if self.offset else ""
            raise BadInput(
                f"{name} of {self._data} has the label {label}{shift}, and {rest}",
                advice="is the data made for this model? Labels count from 0",
            )
        return output


def _match(own: Sequence[str], model: Sequence[str], data: str, *, there: str) -> tuple[int, ...]:
    """Return, for each class of the data, the number of the model's class, named `there`, of the same name."""
    exact: dict[str, list[int]] = {}
    folded: dict[str, list[int]] = {}
    for number, name in enumerate(model):
        exact.setdefault(name, []).append(number)
        folded.setdefault(fold_name(name), []).append(number)
    found, missing = [], []
    for name in own:
        numbers = exact.get(name) or folded.get(fold_name(name)) or []
        if len(numbers) > 1:
            raise BadInput(
                f"{len(numbers)} of the model's classes are called {name!r}",
                advice="give every class a name of its own",
            )
        missing += [] if numbers else [name]
        found += numbers
    if missing:
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        matched = {fold_name(name) for name in own}
        free = {name: number for name, number in folded.items() if name not in matched}
        near = [get_close_matches(fold_name(name), free, n=1) for name in missing[:_LISTED]]
        named = [
            name + (f" (similar: {model[free[like[0]][0]]})" if like else "")
            for name, like in zip(missing, near, strict=False)
        ]
        raise BadInput(
            f"{data} has classes that {there} does not have: {', '.join(named)}{more}",
            advice="give the names of the model's classes as the data has them, in the order of its outputs",
        )
    if len(set(found)) < len(found):
        raise BadInput(f"{data} has two classes for one of the model's", advice="give every class a name of its own")
    return tuple(found)


def fold_name(name: str) -> str:
    """Return a class's name without what does not tell classes apart: case, and underscores for spaces."""
    return " ".join(name.replace("_", " ").split()).casefold()


def share_names(own: Sequence[str], model: Sequence[str]) -> bool:
    """Return whether a class of the data has the name of one of the model's."""
    return not {fold_name(name) for name in own}.isdisjoint(map(fold_name, model))


def describe_order(
    own: Sequence[str], model: Sequence[str], source: str, *, matched: Sequence[int | None] | None
) -> str:
    """Describe doubts about the order of the classes; empty where data and model, or the user, name the same ones.

    Args:
        own: names of the data's classes.
        model: names of the model's, from `source`, or from the user where that is empty.
        matched: class of the one for each of the other, by their names; None where they were not matched.
    """
    if matched is not None:
        if not source or list(matched) == list(range(len(matched))):
            return ""
        return f"the model's classes ({source}) are in another order than the data's: matched by name"
    if [*map(fold_name, own)] in ([], [*map(fold_name, model)]):
        return ""
    if model:
        why = f"the names in {source}, such as {model[0]}, are none of the data's"
    elif list(own) == [str(number) for number in range(len(own))]:
        return ""
    else:
        why = "the model's file does not name its classes"
    more = " …" if len(own) > _LISTED else ""
    return f"{why}: they are taken in the data's order, {', '.join(own[:_LISTED])}{more}"
