"""Cautions about the preparation of pictures: values that few networks take, and another usual preparation that scores
clearly better on a part of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from edgewise.errors import EdgewiseError
from edgewise.evaluating.evaluator import ModelUnderTest, SampleResults, SampleSelection
from edgewise.evaluating.instructions import Instructions
from edgewise.evaluating.scores import MetricDifference
from edgewise.evaluating.step_settings import Step
from edgewise.evaluating.steps_image import Crop, Letterbox, Pad, Resize
from edgewise.formatting import points_range
from edgewise.record import Caution
from edgewise.units import significant

RANGE, BETTER = "unusual-values", "better-preparation"
MOST_SAMPLES = 500
"""Samples on which another preparation is tried."""
_LEAST_GAIN, _MOST_RISK = 0.02, 0.01
"""From which on a gain is told. Several ways are tried, so the risk is less than the usual 5 %."""
_MOST_VALUE, _LEAST_SPAN = 256.0, 1 / 64
"""Pixels are 0 to 255; scaled they span 1 or more. Scaled twice they span 1/255."""


def check_range(fed: Mapping[str, tuple[float, float]]) -> Caution | None:
    """A caution where the values of pictures lie far outside what networks take.

    Args:
        fed: input → smallest and largest value, as real numbers.
    """
    odd = [
        f"values fed to {name}: {significant(low)} to {significant(high)}"
        for name, (low, high) in fed.items()
        if max(-low, high) > _MOST_VALUE or 0 < high - low < _LEAST_SPAN
    ]
    return Caution.of(RANGE, "; ".join(odd)) if odd else None


def find_better(
    tested: ModelUnderTest,
    selection: SampleSelection,
    run: Callable[[ModelUnderTest, SampleSelection], SampleResults],
    compare: Callable[[SampleResults], MetricDifference | None],
) -> Caution | None:
    """A caution where another usual way to the input's size scores clearly better on a part of the samples.

    Args:
        run: gives the answers of the model to a part of the samples.
        compare: the metric that the task is about, on those answers less on the first ones; None where it has none.
    """
    every = len(selection.indices)
    part = replace(selection, indices=tuple(selection.indices[:: -(-every // MOST_SAMPLES)]))
    found: list[tuple[float, str]] = []
    for words, instructions in _others(tested.instructions):
        try:
            answers = run(replace(tested, instructions=instructions), part)
            if answers.interrupted:
                return None
            difference = None if answers.failure else compare(answers)
        except EdgewiseError:  # pictures that are too large to be padded, for one
            continue
        if difference is None or difference.difference is None or difference.p_value is None:
            continue
        if difference.difference < _LEAST_GAIN or difference.p_value > _MOST_RISK:
            continue
        gain, ends = 100 * difference.difference, points_range(difference.metric, difference.low, difference.high)
        text = f"{words} scores {gain:.2f} {ends} points better on {difference.n} of {every} samples (measured)"
        found.append((difference.difference, text))
    return Caution.of(BETTER, max(found)[1]) if found else None


def _others(instructions: Instructions) -> Iterator[tuple[str, Instructions]]:
    """The same preparation with another usual way to the input's size, in words."""
    for name, steps in instructions.steps.items():
        at = next((at for at, step in enumerate(steps) if isinstance(step, Resize | Letterbox | Pad)), None)
        if at is None:
            continue
        given = steps[at]
        assert isinstance(given, Resize | Letterbox | Pad)
        after = 2 if at + 1 < len(steps) and isinstance(steps[at + 1], Crop) else 1
        last = steps[at + after - 1]
        size = getattr(last, "size", None)
        if isinstance(size, int) or size is None or any(isinstance(each, Crop) for each in steps[at + after :]):
            continue
        pair = list(size)
        ways: list[list[Step]] = [
            [Resize(size=pair, filter="bilinear")],
            [Pad(size=pair, place="centre", value=0)],
            [Letterbox(size=pair, filter="bilinear", place="centre", value=114, enlarge=True)],
            [Resize(size=max(pair) * 8 // 7, filter="bilinear"), Crop(size=pair)],
        ]
        for way in ways:
            if [type(each) for each in way] != [type(each) for each in steps[at : at + after]]:
                words = " and ".join(each.describe() for each in way)
                changed = (*steps[:at], *way, *steps[at + after :])
                yield words, replace(instructions, steps={**instructions.steps, name: changed})
