"""Cautions about the preparation of pictures: values that few networks take, and another usual preparation that scores
clearly better on a part of the data.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgewise.clock import now
from edgewise.errors import EdgewiseError
from edgewise.evaluating.dataset import CorruptSample, Sample
from edgewise.evaluating.evaluator import ModelUnderTest, SampleResults, SampleSelection, run_samples
from edgewise.evaluating.instructions import Instructions, write_flags
from edgewise.evaluating.scores import MetricDifference, compare_tables
from edgewise.evaluating.step_settings import Item, Step
from edgewise.evaluating.steps_image import Crop, Letterbox, Pad, Resize
from edgewise.evaluating.task import Scorer
from edgewise.formatting import points_range
from edgewise.metrics import SHARES
from edgewise.progress import reporting_to
from edgewise.record import Caution
from edgewise.run.run_builder import RunBuilder
from edgewise.units import significant
from edgewise.workload.arrays import Array

RANGE, BETTER = "unusual-values", "better-preparation"
MOST_SAMPLES = 500
"""Samples on which another preparation is tried."""
_LEAST_GAIN, _MOST_RISK = 0.02, 0.01
"""From which on a gain is told. Several ways are tried, so the risk is less than the usual 5 %."""
_MOST_VALUE, _LEAST_SPAN = 256.0, 1 / 64
"""Pixels are 0 to 255; scaled they span 1 or more. Scaled twice they span 1/255."""
_LEAST_S = 5.0
"""Least time limit of the trial of another preparation, s; otherwise a quarter of the evaluation's time."""
_FEW, _ROUNDING = 8, 0.01
"""Samples by which two preparations are told apart, and the share of a picture's range that is rounding."""
_MOVING = (Resize, Crop, Letterbox, Pad)


def check_range(fed: Mapping[str, tuple[float, float]]) -> Caution | None:
    """Return a caution where pictures' values lie far outside what networks take; `fed`: input → least and largest."""
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
    """Return a caution where another usual way to the input's size scores clearly better on a part of the samples.

    Args:
        run: gives the answers of the model to a part of the samples.
        compare: the metric that the task is about, on those answers less on the first ones; None where it has none.
    """
    every = len(selection.indices)
    part = replace(selection, indices=tuple(selection.indices[:: -(-every // MOST_SAMPLES)]))
    found: list[tuple[float, str]] = []
    for instructions in _vary_size(tested.instructions, _read(part)):
        try:
            answers = run(replace(tested, instructions=instructions), part)
            if answers.interrupted:
                return None
            difference = None if answers.failure else compare(answers)
        except (EdgewiseError, CorruptSample):
            continue
        if difference is None or difference.difference is None or difference.p_value is None:
            continue
        if difference.difference < _LEAST_GAIN or difference.p_value > _MOST_RISK:
            continue
        gain, ends = 100 * difference.difference, points_range(difference.metric, difference.low, difference.high)
        words = " ".join(f"⟦prepare⟧ {shlex.quote(flag)}" for flag in write_flags(instructions.steps))
        text = f"{words} scores {gain:.2f} {ends} points better on {difference.n} of {every} samples (measured)"
        found.append((difference.difference, text))
    return Caution.of(BETTER, max(found)[1]) if found else None


def doubt_preparation(
    tested: ModelUnderTest, selection: SampleSelection, scorer: Scorer, results: SampleResults, *, builder: RunBuilder
) -> tuple[Caution, ...]:
    """Return cautions about the preparation of pictures; another way is tried only where they have labels."""
    if selection.data.kind != "image":
        return ()
    first = {entry.index: entry.record for entry in results.entries if not entry.reason}

    def compare(others: SampleResults) -> MetricDifference | None:
        pairs = [(first[each.index], each.record) for each in others.entries if not each.reason and each.index in first]
        tables = (scorer.tabulate(list(records)) for records in zip(*pairs, strict=True))
        found = compare_tables(*tables, seed=selection.seed, only=(scorer.headline,)) if pairs else ()
        return next((each for each in found if each.metric == scorer.headline), None)

    def run(other: ModelUnderTest, part: SampleSelection) -> SampleResults:
        return run_samples(other, part, scorer, builder=builder, end_by=now() + max(_LEAST_S, results.seconds / 4))

    labelled = selection.data.labelled and not tested.job.workload.keep_state
    better = None
    if labelled and scorer.headline in SHARES:
        with reporting_to(lambda event: None):
            better = find_better(tested, selection, run, compare)
    return tuple(each for each in (better, check_range(results.fed)) if each is not None)


def _vary_size(instructions: Instructions, samples: Sequence[Sample]) -> Iterator[Instructions]:
    """Yield the same preparation with another usual way to the input's size.

    What the steps make of `samples` tells the size, and whether a way is another one: many words give the same.
    """
    for name, steps in instructions.steps.items():
        moving = [at for at, step in enumerate(steps) if isinstance(step, _MOVING)]
        shapes = {one.shape[:2] for one in _apply_steps(name, steps[: moving[-1] + 1], samples)} if moving else set()
        if len(shapes) != 1:
            continue
        pair = list(shapes.pop())
        ways: list[list[Step]] = [
            [Resize(size=pair, filter="bilinear")],
            [Pad(size=pair, place="centre", value=0)],
            [Letterbox(size=pair, filter="bilinear", place="centre", value=114, enlarge=True)],
            [Resize(size=max(pair) * 8 // 7, filter="bilinear"), Crop(size=pair)],
        ]
        # Values of padding are those of pixels.
        at = min([moving[0], *(at for at, step in enumerate(steps) if step.real)])
        kept = [step for step in steps if not isinstance(step, _MOVING)]
        seen = [_apply_steps(name, steps, samples)]
        for way in ways:
            changed = (*kept[:at], *way, *kept[at:])
            made = _apply_steps(name, changed, samples)
            if made and any(_are_same(made, each) for each in seen):
                continue
            seen.append(made)
            yield replace(instructions, steps={**instructions.steps, name: changed})


def _apply_steps(name: str, steps: Sequence[Step], samples: Sequence[Sample]) -> list[Array]:
    """Return the samples after `steps`; nothing where a step refuses one."""
    made = []
    for sample in samples:
        data = sample.data.get(name) if isinstance(sample.data, Mapping) else sample.data
        if not isinstance(data, np.ndarray):
            return []
        colours = np.stack([data] * 3, axis=2) if data.ndim == 2 else data
        item = Item(data=colours, sample=sample.name, input=name, channels=-1)
        try:
            for step in steps:
                step.apply(item)
        except (EdgewiseError, CorruptSample):
            return []
        made.append(np.asarray(item.data))
    return made


def _are_same(one: Sequence[Array], other: Sequence[Array]) -> bool:
    """Return whether pictures are the same but for rounding."""
    pairs = list(zip(one, other, strict=False))
    return len(one) == len(other) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=0, atol=_ROUNDING * float(np.ptp(b))) for a, b in pairs
    )


def _read(selection: SampleSelection) -> list[Sample]:
    """Return the first few samples that can be read."""
    found: list[Sample] = []
    for index in selection.indices:
        if len(found) == _FEW:
            break
        with contextlib.suppress(CorruptSample):
            found.append(selection.data.read(index))
    return found
