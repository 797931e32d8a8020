"""From a sample as stored to the arrays that a model is fed, step by step.

Each input's steps are done in order; then the value must have the input's shape (axes of size 1 aside) and becomes its
type: real numbers become integers by the input's own quantisation, integers become real numbers only by a
step. What no step covers is refused, not assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, Kind, Sample
from edgewise.evaluating.input_conversion import InputPlan, UnconvertedPixels, steps_for
from edgewise.evaluating.instructions import Instructions, find_instructions
from edgewise.evaluating.sound_check import SoundCheck
from edgewise.evaluating.step_settings import Item, Step, suggest
from edgewise.evaluating.steps_array import check_finite
from edgewise.evaluating.task import Preparation
from edgewise.model.graph import Quantization
from edgewise.model.identity import read_graph
from edgewise.record import InputSpec
from edgewise.workload.arrays import Array


def prepare_as_written(
    model: str, sample: Any, *, kind: Kind = "array", shapes: Mapping[str, tuple[int, ...]] | None = None
) -> list[Array]:
    """Return the arrays that the model is fed for one sample, prepared by the instructions beside it.

    Args:
        sample: a stored image or array, or a mapping from inputs to arrays.
        shapes: of inputs with open dimensions.

    Raises:
        BadInput, BadModel, CorruptSample.
    """
    graph = read_graph(model, shapes=shapes)
    tensors = [graph.tensors[name] for name in graph.inputs]
    specs = [
        InputSpec(name=each.name, shape=tuple(int(size or 0) for size in each.shape or ()), dtype=each.dtype)
        for each in tensors
    ]
    preparer = Preparer(
        find_instructions(Path(model), form=graph.format), specs=specs, kind=kind,
        quantizations=[each.quantization for each in tensors],
    )  # fmt: skip
    return preparer.prepare(Sample(index=0, name="sample", data=sample))[0]


class Preparer:
    """Prepares samples for one model.

    Args:
        instructions: what to do.
        specs: what the model is fed, in its order; every leading dimension is that of one sample.
        quantizations: of each input, None where it is not quantised: real values are then brought to integers by it.
        kind: of the samples.
        example: reads one, for an error that names everything that it lacks.

    Attributes:
        notes: what is done, one line an input.

    Raises:
        BadInput: steps that don't fit the kind or the inputs, or none that converts pixels to real numbers.
        Unavailable: a step's package is not installed.
    """

    def __init__(
        self,
        instructions: Instructions,
        *,
        specs: Sequence[InputSpec],
        quantizations: Sequence[Quantization | None],
        kind: Kind,
        example: Callable[[], Sample] | None = None,
    ) -> None:
        self._kind = kind
        self._names = [spec.name for spec in specs]
        self._proven = False
        self._plans = [
            InputPlan(spec=spec, quantization=quantization, steps=steps_for(steps, spec, kind=kind))
            for spec, quantization, steps in zip(
                specs, quantizations, _find_steps(instructions, self._names, kind), strict=True
            )
        ]
        for plan in self._plans:
            try:
                plan.check(kind)
            except UnconvertedPixels as error:
                raise error if example is None else self._refuse(plan, example, error) from None
        self._sounds = [SoundCheck(plan.spec, plan.steps) for plan in self._plans] if kind == "audio" else []
        self.notes = tuple(plan.describe() for plan in self._plans)

    def _refuse(self, plan: InputPlan, example: Callable[[], Sample], missing: BadInput) -> BadInput:
        """Return the error `missing`, of pixels without a conversion, with all other steps that the picture lacks."""
        try:
            return plan.refuse_pixels(self._take(plan, example()))
        except BadInput as error:
            return error
        except CorruptSample as error:
            return BadInput(f"{missing.message}; {error}", advice=missing.advice)

    def prepare(self, sample: Sample) -> tuple[list[Array], Preparation]:
        """Return one array per input, of exactly its shape and dtype, and how an image was brought there.

        An error with the first sample is taken as an error of the data set; after one has been prepared, as an error of
        the sample.

        Raises:
            CorruptSample: this sample can't be used (not finite, of another size than the others, too short).
            BadInput: no sample of this data set can be, or sounds of several rates or numbers of channels are mixed: it
                ends the evaluation.
        """
        import numpy as np

        for each in self._sounds:
            each.check(sample)
        try:
            with np.errstate(all="ignore"):
                items = [self._take(plan, sample) for plan in self._plans]
                arrays = [plan.apply(item) for plan, item in zip(self._plans, items, strict=True)]
        except BadInput as error:
            if not self._proven:
                raise
            reason = error.message.removeprefix(f"{sample.name} ")
            raise CorruptSample(sample.name, f"{reason} (those before it were fine)") from error
        self._proven = True
        seen = next((item for item in items if item.pixels is not None), None)
        preparation = Preparation()
        if seen is not None:
            preparation = Preparation(scale=seen.scale, offset=seen.offset, size=seen.stored, input_size=seen.pixels)
        assumed = [each.assumption(sample) for each in self._sounds]
        made = [change for item in items for change in item.changes]
        changes = dict.fromkeys(filter(None, [*sample.changes, *assumed, *made]))
        return arrays, replace(preparation, changes=tuple(changes))

    def _take(self, plan: InputPlan, sample: Sample) -> Item:
        """Return the part of a sample that goes to an input. Raises `BadInput` and `CorruptSample`."""
        import numpy as np

        data, name = sample.data, plan.spec.name
        alone = len(self._names) == 1
        if isinstance(data, Mapping):
            if name not in data:
                raise BadInput(
                    f"{sample.name} holds nothing for input {name!r}", advice=f"it holds: {', '.join(map(str, data))}"
                )
            data = data[name]
        elif not alone and not isinstance(data, str):
            raise BadInput(
                f"{sample.name} is one array, the model takes {len(self._names)}: {', '.join(self._names)}",
                advice="give data whose samples name an array for each input",
            )
        item = Item(data=data, sample=sample.name, input=name, alone=alone, rate=sample.rate)
        if isinstance(data, str):
            return item
        data = item.data = np.asarray(data)
        if data.dtype.kind not in "biuf":
            raise BadInput(f"{sample.name} is {data.dtype}, which can't be fed", advice="give numbers")
        if plan.steps:
            check_finite(data, sample.name, "it")
        if self._kind == "image" and data.ndim in (2, 3):
            item.channels = -1 if data.ndim == 3 else None
            item.stored = item.pixels = (data.shape[1], data.shape[0])
            plan.recolour(item, sample.stored)
        return item


def _find_steps(instructions: Instructions, names: Sequence[str], kind: Kind) -> list[tuple[Step, ...]]:
    """Return the steps of each input, in the model's order. Raises `BadInput` for an input that is not there."""
    for name in instructions.steps:
        if name and name not in names:
            raise BadInput(f"there are steps for {name!r}, which is not an input", advice=suggest(name, names))
    shared = instructions.steps.get("", ())
    if shared and len(names) > 1 and kind != "text":
        raise BadInput(
            f"the model has {len(names)} inputs, and the steps don't name theirs",
            advice=f"⟦prepare⟧ INPUT:STEP=VALUE, or inputs as a mapping in YAML: {', '.join(names)}",
        )
    if len(names) == 1 and shared and names[0] in instructions.steps:
        raise BadInput(
            f"there are steps for the only input and for {names[0]!r}, which is the same",
            advice="give one list of steps",
        )
    return [instructions.steps.get(name, shared) for name in names]
