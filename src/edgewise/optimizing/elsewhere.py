"""Judges variants for a device that is not at hand: accuracy is measured here, speed and memory are estimated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from edgewise.clock import now
from edgewise.errors import EdgewiseError
from edgewise.optimizing.choice import (
    Aim,
    Choice,
    check_bounds,
    check_quality,
    choose,
    in_words,
    judged_words,
)
from edgewise.optimizing.variant import SMALLER, Bound, Candidate, DeviceEstimate, MetricValue, emit_candidate, smallest
from edgewise.progress import StageStarted, emit

TIMES = ("latency", "cpu_cycles", "accelerator_cycles")
"""What tells which of two variants is faster on a device, the best first."""
NO_ESTIMATE = "the original has no estimate there"
"""Why it has no numbers of the device; what refused it is told once, with the conclusion."""
AS_FAST = 1.05
"""Estimates that differ by at most this factor count as equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Estimates models on a device.

    Attributes:
        device: as the user named it.
        estimate: path of a model → its estimate. Raises any `EdgewiseError` for a model that has none.
        int8: whether the device computes in int8 alone, so that only full int8 variants are of use.
    """

    device: str
    estimate: Callable[[str], DeviceEstimate]
    int8: bool


def judge_all(
    judge: Judge,
    original: Candidate,
    candidates: Mapping[str, Candidate],
    *,
    bounds: tuple[Bound, ...],
    headline: str,
    aim: Aim,
    end_by: float,
) -> tuple[Candidate, dict[str, Candidate]]:
    """Return the original and the candidates with their numbers on the device, and whether each is accepted."""
    emit(StageStarted(title=f"Estimates for {judge.device}"))
    original = _estimated(original, judge)
    found = dict(candidates)
    for name, one in candidates.items():
        if not one.may_race:
            continue
        if now() >= end_by:
            found[name] = one.leave("not estimated: the time budget left no room")
            continue
        found[name] = _decide(_estimated(one, judge), original, bounds, headline=headline, aim=aim)
        emit_candidate(found[name])
    return original, found


def choose_estimated(candidates: Mapping[str, Candidate], *, headline: str, aim: Aim) -> Choice | None:
    """Return the best accepted variant: of those about as fast as the fastest one, as `choose` does without a race.

    Of variants whose time is known in part, and about the same, those with the fewest other operators are the fastest.
    Variants without an estimated time count as equally fast.
    """
    accepted = [one for one in candidates.values() if one.accepted]
    if accepted and aim == "size":
        accepted = smallest(accepted)
    metric = next((name for name in TIMES if any(one.value(name) for one in accepted)), None)
    if metric is None:
        return choose(accepted, None, headline=headline, aim=aim)
    times = {one.id: time for one in accepted if (time := one.value(metric))}
    least = min(times.values())
    accepted = [one for one in accepted if times.get(one.id, math.inf) <= AS_FAST * least]
    fewest = min(len(_untimed(one)) for one in accepted)
    accepted = [one for one in accepted if len(_untimed(one)) == fewest]
    return choose(accepted, None, headline=headline, aim=aim, time=lambda one: times[one.id])


def _estimated(one: Candidate, judge: Judge) -> Candidate:
    """Return the candidate with its estimate; of the original the stage stays."""
    assert one.model is not None
    try:
        found = judge.estimate(one.model.path)
    except EdgewiseError as error:
        found = DeviceEstimate(device=judge.device, refused=error.message, advice=error.advice)
    stage = one.stage if one.parent is None else "estimated"
    return replace(one.advance(stage, found.metrics), elsewhere=found)


def _decide(one: Candidate, original: Candidate, bounds: tuple[Bound, ...], *, headline: str, aim: Aim) -> Candidate:
    assert one.elsewhere is not None and original.elsewhere is not None
    device, refused = one.elsewhere.device, one.elsewhere.refused
    if refused:
        return one.reject(f"{device}: {refused}")
    speed = _speedup(one, original)
    if original.elsewhere.refused:
        accepted, why = True, f"estimated for {device}, where the original has no estimate"
    elif speed.value is None:
        accepted = _is_smaller(one, original)
        why = "smaller" if accepted else "not smaller"
        why = f"{why}; {speed.absent_because}"
    elif (speed.low or speed.value) > 1.0:
        accepted, why = True, f"faster by the estimates: {in_words(speed)}"
    elif aim == "size" and _is_smaller(one, original) and speed.value * AS_FAST >= 1.0:
        accepted, why = True, f"smaller and as fast by the estimates: {in_words(speed, 'the speed')}"
    else:
        accepted, why = False, f"not shown to be faster by the estimates: {in_words(speed, 'the speed')}"
    one = one.advance("estimated", {"speedup": speed})
    both = [with_device_memory({"memory_sram": _NO_MEMORY, **each.metrics}) for each in (one, original)]
    if accepted and (unmet := check_bounds(both[0], bounds, both[1])):
        return one.reject(f"{why}, but {'; '.join(unmet)}")
    if not accepted:
        return one.reject(why)
    if headline:
        one = replace(one, quality=check_quality(one, original.metrics, bounds, headline=headline))
        why = f"{why}; {judged_words(one.metrics, headline)}{', not proven' if one.unproven else ''}"
    return replace(one, accepted=True, why=why)


def with_device_memory(metrics: Mapping[str, MetricValue]) -> Mapping[str, MetricValue]:
    """`metrics` with a peak memory, which of a microcontroller is its SRAM."""
    return {"memory_peak": metrics["memory_sram"], **metrics} if "memory_sram" in metrics else metrics


_NO_MEMORY = MetricValue(value=None, absent_because="the memory is not estimated")


def _speedup(one: Candidate, original: Candidate) -> MetricValue:
    """Return the original's time over the variant's, by the first number that both have."""
    assert original.elsewhere is not None
    if original.elsewhere.refused:
        return MetricValue(value=None, absent_because=NO_ESTIMATE)
    for each, name in ((original, "the original"), (one, "the variant")):
        if each.elsewhere is not None and each.elsewhere.untimed:
            return MetricValue(
                value=None, absent_because=f"the time of {name} is known in part: {each.elsewhere.bound}"
            )
    for metric in TIMES:
        before, after = original.metrics.get(metric), one.metrics.get(metric)
        if before is None or after is None or not before.value or not after.value:
            continue
        ends = (before.low, before.high, after.low, after.high)
        low = high = None
        if all(ends):
            low, high = (before.low or 0.0) / (after.high or 1.0), (before.high or 0.0) / (after.low or 1.0)
        return MetricValue(
            value=before.value / after.value, low=low, high=high, basis="estimated",
            coverage=min(before.coverage, after.coverage),
            method=f"{metric} of the original over the variant's, both estimated; the ends are those of both intervals",
        )  # fmt: skip
    return MetricValue(value=None, absent_because="the estimates have no time")


def _untimed(one: Candidate) -> tuple[str, ...]:
    return () if one.elsewhere is None else one.elsewhere.untimed


def _is_smaller(one: Candidate, original: Candidate) -> bool:
    return (one.value("model_size") or 0.0) <= SMALLER * (original.value("model_size") or 0.0)
