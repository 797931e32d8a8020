"""What a task is told in tests: a model's outputs, a data set, options; and samples one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgewise.evaluating.dataset import Sample
from edgewise.evaluating.task import Preparation, TaskContext
from edgewise.model.signature import Signature, TensorSpec


@dataclass
class Data:
    """A data set that nobody reads from."""

    classes: tuple[str, ...] = ()
    labelled: bool = True
    kind: str = "array"
    name: str = "pets.npz"
    path: None = None
    format: str = "npz"
    split: str = "test"

    def __len__(self):
        return 0

    def read(self, index):
        raise AssertionError("tasks don't read")

    def stamp(self):
        return ""


def context(*shapes, dtype="float32", data=(), model=(), labelled=True, inputs=((1, 4),), **options):
    """A setting: outputs of these shapes, called out0, out1 …; class names of the data and of the model."""
    return TaskContext(
        signature=Signature(
            inputs=tuple(
                TensorSpec(name=f"in{i}", shape=tuple(shape), dtype="float32") for i, shape in enumerate(inputs)
            ),
            outputs=tuple(TensorSpec(name=f"out{i}", shape=shape, dtype=dtype) for i, shape in enumerate(shapes)),
        ),
        data=Data(classes=tuple(data), labelled=labelled),
        options={key: str(value) for key, value in options.items()},
        classes=tuple(model),
    )


def judge_all(scorer, outputs, labels, *, data=None, preparation=None):
    """Records of samples with these outputs (the leading 1 is added) and labels."""
    data = [np.zeros(4, np.float32)] * len(labels) if data is None else data
    return [
        scorer.record(
            [np.asarray(output)[None]],
            Sample(index=i, name=f"x[{i}]", data=each, label=label),
            preparation or Preparation(),
        )
        for i, (output, label, each) in enumerate(zip(outputs, labels, data, strict=True))
    ]
