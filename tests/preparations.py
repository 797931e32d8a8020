"""Short ways to prepare one sample, for tests."""

from __future__ import annotations

import shlex
from itertools import pairwise
from typing import Any

import numpy as np

from edgewise.evaluating.dataset import Kind, Sample
from edgewise.evaluating.instructions import Instructions, read_flags
from edgewise.evaluating.preparing import Preparer
from edgewise.evaluating.step_settings import Item
from edgewise.evaluating.steps import parse_step
from edgewise.evaluating.task import Preparation
from edgewise.model.graph import Quantization
from edgewise.record import InputSpec


def preparer(
    *flags: str,
    shape: tuple[int, ...] = (1, 4),
    dtype: str = "float32",
    quantization: Quantization | None = None,
    kind: Kind = "array",
) -> Preparer:
    """Of a model with the one input ``x``."""
    return Preparer(
        Instructions(steps=read_flags(flags)),
        specs=[InputSpec(name="x", shape=shape, dtype=dtype)],
        quantizations=[quantization],
        kind=kind,
    )


def sample(data: Any, *, name: str = "s", rate: int | None = None) -> Sample:
    return Sample(index=0, name=name, data=data, rate=rate)


def prepare(data: Any, *flags: str, rate: int | None = None, **model: Any) -> tuple[np.ndarray, Preparation]:
    """The array that the model's only input is fed."""
    (array,), preparation = preparer(*flags, **model).prepare(sample(data, rate=rate))
    return array, preparation


def prepare_flags(advice: str) -> list[str]:
    """The values of the ``--prepare`` options in an advice, as a shell passes them."""
    words = shlex.split(advice)
    return [value for flag, value in pairwise(words) if flag == "--prepare"]


def apply(data: Any, name: str, *, rate: int | None = None, channels: int | None = None, **settings: Any) -> np.ndarray:
    """What one step makes of `data`."""
    item = Item(data=data, sample="s", input="x", rate=rate, channels=channels)
    step = parse_step(name, settings, where="test")
    step.check()
    step.apply(item)
    return item.data
