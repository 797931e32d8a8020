"""Whether recordings have the sampling rate and the channels that a model takes.

No model file has its rate. A recording of another rate than the training data's has the right shape once it is cut or
padded, and a meaningless answer: what does not fit is refused, with the steps that make it fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, cast

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Sample
from edgewise.evaluating.step_settings import Step
from edgewise.record import InputSpec
from edgewise.workload.input_shapes import open_axes

if TYPE_CHECKING:
    from edgewise.workload.arrays import Array

RATES = (16000, 48000, 44100, 22050, 8000, 24000, 32000)
"""Usual sampling rates, those of most models first."""
_SAME_LENGTH = 0.01


def guess_rate(frames: int, rate: int, wanted: int) -> int | None:
    """Return the sampling rate that a model with an input of `wanted` frames probably has; None where it may be `rate`.

    That at which the recording fills the input; else a usual one at which the input lasts whole milliseconds. `frames`,
    `rate`: of a recording.
    """
    if frames == wanted:
        return None
    for each in RATES:
        if each != rate and abs(frames * each / rate - wanted) <= _SAME_LENGTH * wanted:
            return each
    if wanted * 1000 % rate == 0:
        return None
    return next((each for each in RATES if wanted * 1000 % each == 0), RATES[0])


class SoundCheck:
    """Rate and channels of the recordings for one input.

    Args:
        spec: of the input.
        steps: that prepare it.
    """

    def __init__(self, spec: InputSpec, steps: Sequence[Step]) -> None:
        self._spec = spec
        self._names = {step.name for step in steps}
        self._features = any(step.gives == "array" for step in steps)
        self._first: Sample | None = None

    def check(self, sample: Sample) -> None:
        """Raise `BadInput` for a recording that does not fit the input, or is unlike the first one."""
        if self._first is None:
            self._check_fit(sample)
            self._first = sample
            return
        first = self._first
        rate = "rate" not in self._names and sample.rate != first.rate
        channels = "mono" not in self._names and _channels(sample) != _channels(first)
        if rate or channels:
            have, other = (_describe(each, rate=rate, channels=channels) for each in (sample, first))
            raise BadInput(
                f"{sample.name} has {have}, {first.name} has {other}", advice=self._advise(first, other=sample)
            )

    def assumption(self, sample: Sample) -> str:
        """Describe the assumed rate; empty where a step sets it or the first recording fills the input."""
        fills = not self._features and self._first is not None and prod(_shape(self._first)) == prod(self._spec.shape)
        if sample.rate is None or "rate" in self._names or (fills and not open_axes(self._spec)):
            return ""
        return f"fed at their own {sample.rate} Hz, as no step sets a rate"

    def _check_fit(self, sample: Sample) -> None:
        one_for_two = _channels(sample) == 1 and 2 in self._spec.shape[1:]
        if self._features or open_axes(self._spec) or one_for_two:
            return
        wanted, channels, steps = self._wanted(sample), _channels(sample), self._steps(sample)
        others = [step for step in steps if not step.startswith("length")]
        if self._names >= {step.partition("=")[0] for step in others} or prod(_shape(sample)) == prod(self._spec.shape):
            return
        raise BadInput(
            f"{sample.name} has {_describe(sample)}, input {self._spec.name!r} takes {wanted} frames of "
            f"{'1 channel' if 'mono' in steps or channels == 1 else f'{channels} channels'}",
            advice=self._advise(sample),
        )

    def _wanted(self, sample: Sample) -> int:
        """Return the number of frames that the input takes."""
        channels, shape = _channels(sample), self._spec.shape
        return prod(shape) // (channels if channels in shape[1:] else 1)

    def _steps(self, sample: Sample) -> list[str]:
        """Return the steps that bring the recording to the input."""
        frames, wanted = len(sample.data), self._wanted(sample)
        rate = None if sample.rate is None else guess_rate(frames, sample.rate, wanted)
        mono = _channels(sample) not in (1, *self._spec.shape[1:])
        return [
            *(["mono"] if mono else []),
            *([f"rate={rate}"] if rate is not None else []),
            *([f"length={wanted}"] if rate is not None or frames != wanted else []),
        ]

    def _advise(self, sample: Sample, other: Sample | None = None) -> str:
        steps = self._steps(sample)
        if other is not None:
            mono = ["mono"] if _channels(other) != _channels(sample) else []
            rate = [f"rate={sample.rate or RATES[0]}"] if other.rate != sample.rate else []
            rest = [] if self._features or open_axes(self._spec) else [f"length={self._wanted(sample)}"]
            steps = [*(mono or [step for step in steps if step == "mono"]), *rate, *rest]
        said = " ".join(f"⟦prepare⟧ {step}" for step in steps)
        return said + (" (the rate that the model was trained with)" if "rate=" in said else "")


def _channels(sample: Sample) -> int:
    return _shape(sample)[1] if len(_shape(sample)) == 2 else 1


def _shape(sample: Sample) -> tuple[int, ...]:
    return tuple(cast("Array", sample.data).shape)


def _describe(sample: Sample, *, rate: bool = True, channels: bool = True) -> str:
    count = _channels(sample)
    return " and ".join([
        *([f"{sample.rate or 'an unknown number of'} frames per second"] if rate else []),
        *([f"{count} channel{'s' if count != 1 else ''}"] if channels else []),
    ])  # fmt: skip
