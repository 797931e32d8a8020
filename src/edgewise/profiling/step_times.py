"""Durations of steps over many profiled inferences and several processes, so that parts add up to wholes.

Medians of parts don't add up to the median of a whole; means do, but one interruption spoils them. So the same
inferences are taken for every part: in each process those whose whole time lies between its quartiles, and of them the
mean. An engine's clock that counts whole microseconds cuts every duration by half a step on average; half a step is
added back for every reading, and what that correction may be off by widens the interval. Where steps are shorter than
the clock can tell, half a step each would come to more than the whole: what the cuts can have taken at most is what the
whole leaves over, and no more is added back. How far such a correction is off is alike for all steps, so that it adds
up over them.

Where a profiler adds to the steps that it times, the engine's module takes that out (`EngineNode.taken_out_ns`). Their
total is measured; how it is shared out is an assumption, so the interval of a step is widened by its part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

import numpy as np
import numpy.typing as npt

from edgewise.runtime.base import EngineProfile
from edgewise.stats.central_half import central, central_half_mean
from edgewise.stats.intervals import mean_interval

_ONE_PROCESS = 2.0
"""By how much the interval of one process is widened: the central half of its inferences scatters less than all of them
do. By simulation (12 to 200 log-normal inferences that scatter by 3 %, two steps that vary together) the true mean is
covered in 96 to 99 % with it, and in 74 to 86 % without."""

Samples = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanDuration:
    """A mean duration, s, with its 95 % interval (None with too few inferences)."""

    value: float
    low: float | None
    high: float | None


class StepTimings:
    """What the profilers of several processes told, ready to be summed over any set of steps.

    Attributes:
        steps: how many each inference has.
        inferences: used, in all processes.
        sessions: processes used.
        total_s: mean of the used inferences' whole time, s.
        profiler_s: what the profiler added to all steps of an inference and was taken out of them, s.
        latency_s: the whole that the parts should add up to, s: the mean of ordinary inferences in turns with the
            profiled ones, of those between their quartiles; without any, what was given.
    """

    def __init__(self, profiles: Sequence[EngineProfile], *, latency: float | None = None) -> None:
        first = profiles[0]
        names = [node.name for node in first.nodes]
        # Processes that compiled the model otherwise have other steps; they can't be averaged with the first. The same
        # steps in another order (branches that don't depend on each other) can.
        agreeing = [profile for profile in profiles if {node.name for node in profile.nodes} == set(names)]
        self.left_out = len(profiles) - len(agreeing)
        self.steps = len(names)
        self.sessions = len(agreeing)
        self._step_s = first.resolution_ns * 1e-9
        self._cut = np.array(
            [first.truncates if node.truncates is None else node.truncates for node in first.nodes], bool
        )
        kept = [central(profile.inference_ns) for profile in agreeing]
        self._lengths = tuple(map(len, kept))
        # Of means of several inferences each one stands for several.
        per_time = [(profile.inferences or 0) / len(profile.inference_ns) or 1 for profile in agreeing]
        self.inferences = round(sum(map(mul, self._lengths, per_time)))
        # (steps,), s
        self._taken_out: Samples = np.mean([_taken_out(profile, names) for profile in agreeing], axis=0) * 1e-9
        self.profiler_s = float(self._taken_out.sum())
        pairs = list(zip(agreeing, kept, strict=True))
        wholes = [np.asarray(profile.inference_ns, dtype=float)[keep] for profile, keep in pairs]
        self.total_s = float(np.concatenate(wholes).mean()) * 1e-9
        # (inferences, steps), s
        self._times: Samples = np.concatenate([_durations(profile, names, keep) for profile, keep in pairs]) * 1e-9
        ordinary = [central_half_mean(profile.unprofiled_ns) for profile in agreeing if profile.unprofiled_ns]
        # Weighted like the steps, or a slow process would count more in the whole than in its parts.
        self.latency_s = (
            float(np.average(ordinary, weights=self._lengths)) * 1e-9 if len(ordinary) == len(agreeing) else latency
        )
        self._half_s = self._half_step(self.latency_s)
        self.overheads = {overhead.name: self._overhead(at, pairs) for at, overhead in enumerate(first.overheads)}

    def _half_step(self, latency: float | None) -> float:
        """What a cut reading lacks on average, s: half a step of the clock, or less where the whole has no room."""
        count = int(self._cut.sum())
        if not count:
            return 0.0
        half = self._step_s / 2
        if latency is None:
            return half
        room = max(0.0, latency - float(self._times.mean(axis=0).sum()))
        return min(half, room / count)

    def _overhead(self, at: int, pairs: Sequence[tuple[EngineProfile, npt.NDArray[np.int64]]]) -> float:
        """Mean of one overhead, s, over the processes that tell it."""
        values = [
            np.asarray(profile.overheads[at].times_ns, dtype=float)[keep]
            for profile, keep in pairs
            if at < len(profile.overheads)
        ]
        return float(np.concatenate(values).mean()) * 1e-9

    def duration(self, steps: Sequence[int]) -> MeanDuration:
        """Of all `steps` together."""
        if not steps:
            return MeanDuration(value=0.0, low=0.0, high=0.0)
        samples = self._times[:, list(steps)].sum(axis=1)
        correction = self.correction(steps)
        interval = mean_interval(samples, self._lengths)
        value = float(samples.mean()) + correction
        if interval is None:
            return MeanDuration(value=value, low=None, high=None)
        biases = [self._bias(step) for step in steps]
        # Corrections that the whole leaves no room for are off together; others each in their own way.
        bias = sum(biases) if self._half_s < self._step_s / 2 else math.hypot(*biases)
        widening = _ONE_PROCESS if self.sessions == 1 else 1.0
        bias = math.hypot(bias, *self._taken_out[list(steps)])
        below = math.hypot(widening * (float(samples.mean()) - interval.low), bias)
        above = math.hypot(widening * (interval.high - float(samples.mean())), bias)
        return MeanDuration(value=value, low=max(0.0, value - below), high=value + above)

    def correction(self, steps: Sequence[int]) -> float:
        """What readings of `steps` by a clock that cuts are too short by on average, s."""
        return float(self._cut[list(steps)].sum()) * self._half_s

    def _bias(self, step: int) -> float:
        """What the correction of one step may be off by, s.

        The mean of rounded readings with a normal scatter σ is off by at most Δ/π · exp(−2π²σ²/Δ²) (B. Widrow,
        "Statistical theory of quantization", 1996); without scatter by half a step.
        """
        if not self._cut[step] or not self._step_s:
            return 0.0
        scatter = float(self._times[:, step].std()) / self._step_s
        if scatter < 0.5:
            return self._step_s / 2 if self._half_s else 0.0
        return self._step_s / math.pi * math.exp(-2 * (math.pi * scatter) ** 2)


def _taken_out(profile: EngineProfile, names: Sequence[str]) -> list[float]:
    """What the profiler added to the steps called `names`, ns, in that order."""
    found = {node.name: node.taken_out_ns for node in profile.nodes}
    return [found[name] for name in names]


def _durations(profile: EngineProfile, names: Sequence[str], kept: npt.NDArray[np.int64]) -> Samples:
    """Times of the steps called `names` in the inferences `kept`, ns, of shape (inferences, steps)."""
    times = {node.name: node.times_ns for node in profile.nodes}
    table = np.asarray([times[name] for name in names], dtype=float)
    return table.T[kept] if names else np.zeros((len(kept), 0))
