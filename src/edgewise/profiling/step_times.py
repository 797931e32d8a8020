"""Durations of steps over many profiled inferences and several processes, so that parts add up to wholes.

Medians of parts don't add up to the median of a whole; means do, but one interruption spoils them. So the same
inferences are taken for every part: in each process those that other work disturbed least, and of them the mean,
without interruptions (`edgewise.stats.undisturbed`). An engine's clock that counts whole microseconds cuts every
duration by half a step on average; half a step is added back for every reading, and what that correction may be off by
widens the interval. Where steps are shorter than the clock can tell, half a step each would come to more than the
whole: what the cuts can have taken at most is what the whole leaves over, and no more is added back. How far such a
correction is off is alike for all steps, so that it adds up over them.

Shares are what profiled inferences tell best: a machine that is slower for a while slows a step and its inference
alike. So each process gives shares: a step's mean over what an ordinary inference takes. Where one thread does all of
the work, that is known in processor time; else it is the mean of the profiled ones times the ratio of the two kinds,
the median over pairs of adjacent windows of both. A step's time is its share of the latency, which is measured in the
same windows. The clock of an engine goes on while another program has the processor, so that the steps of an inference
may add up to more than its processor time: each then counts as its share of their sum.

What the latency and the ratio may be off by multiplies all times alike. Where an interval reaches further down than
half of its time, its lower end is therefore one of ratios: a step of which the clock tells much more than its own error
has a time above 0, however much inferences, processes and the latency differ.

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
from edgewise.stats.intervals import mean_interval
from edgewise.stats.paired import paired_ratio
from edgewise.stats.undisturbed import USUAL, least_disturbed, undisturbed_mean

_ONE_PROCESS = 2.0
"""By how much the interval of one process is widened, which does not show how processes differ."""

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
        total_s: what an inference takes under the profiler, s.
        profiler_s: what the profiler added to all steps of an inference and was taken out of them, s.
        in_turns: ordinary inferences were timed in turns with the profiled ones, in every process.
        latency_s: the whole that the parts should add up to, s.
        stretched: what the steps of profiled inferences added up to, over what these inferences took; where that is
            above 1, parts are divided by it.

    Args:
        latency: the whole, s; None takes the mean of ordinary inferences in the conditions of the profiled ones. Where
            none were timed in turns, the parts are left as they were measured.
        uncertainty: half-width of its interval, relative.
    """

    def __init__(
        self, profiles: Sequence[EngineProfile], *, latency: float | None = None, uncertainty: float = 0.0
    ) -> None:
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
        told = [_read_times(profile, names) for profile in agreeing]
        self._lengths = tuple(len(each.steps) for each in told)
        # Of means of several inferences each one stands for several.
        per_time = [(profile.inferences or 0) / len(profile.inference_ns) or 1 for profile in agreeing]
        self.inferences = round(sum(map(mul, self._lengths, per_time)))
        walls = [each.whole * 1e-9 for each in told]
        self.in_turns = all(profile.unprofiled_ns for profile in agreeing)
        scales, self._uncertainty = np.ones(len(agreeing)), 0.0
        if self.in_turns:
            ratios = [paired_ratio(profile.pairs_ns or _one_pair(profile)) for profile in agreeing]
            if min(walls) <= 0.0:
                raise ValueError("inferences that took no time")
            ordinary = [wall * ratio for wall, (ratio, _) in zip(walls, ratios, strict=True)]
            for at, (profile, (ratio, _)) in enumerate(zip(agreeing, ratios, strict=True)):
                if profile.processor_ns and profile.pairs_ns:
                    # Told directly: what a profiler adds may scatter far more than the inference itself.
                    ordinary[at] = float(np.quantile([plain for _, plain in profile.pairs_ns], USUAL)) * 1e-9
                    walls[at] = ordinary[at] / ratio
            if latency is None:
                latency = float(np.average(ordinary, weights=self._lengths))
            scales = latency / np.asarray(ordinary)
            self._uncertainty = math.hypot(uncertainty, math.hypot(*(h / r for r, h in ratios)) / len(ratios))
        self.latency_s = latency
        stretched = np.array([each.sum * 1e-9 / wall if wall else 1.0 for each, wall in zip(told, walls, strict=True)])
        self.stretched = float(np.average(stretched, weights=self._lengths))
        # (steps,), s
        taken = [_taken_out(profile, names) for profile in agreeing]
        self._taken_out: Samples = (np.asarray(taken).T * scales).mean(axis=1) * 1e-9
        self.profiler_s = float(self._taken_out.sum())
        self.total_s = float(np.average(scales * walls, weights=self._lengths))
        scales = scales / np.maximum(stretched, 1.0)
        # (inferences, steps), s
        rows = [each.steps * scale * 1e-9 for each, scale in zip(told, scales, strict=True)]
        self._times: Samples = np.concatenate(rows)
        self._step_s *= float(np.average(scales, weights=self._lengths))
        self._half_s = self._half_step(self.latency_s)
        # Means over the processes that tell them.
        self.overheads = {
            overhead.name: float(np.concatenate(values).mean()) * 1e-9
            for at, overhead in enumerate(first.overheads)
            if (
                values := [
                    each.overheads[at] * scale
                    for each, scale in zip(told, scales, strict=True)
                    if at < len(each.overheads)
                ]
            )
        }

    def _half_step(self, latency: float | None) -> float:
        """Return what a cut reading lacks on average, s: half a step of the clock, or less where the whole has
        no room.
        """
        count = int(self._cut.sum())
        if not count:
            return 0.0
        half = self._step_s / 2
        if latency is None:
            return half
        room = max(0.0, latency - float(self._times.mean(axis=0).sum()))
        return min(half, room / count)

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
        bias, mean = math.hypot(bias, *self._taken_out[list(steps)]), float(samples.mean())
        below = math.hypot(widening * (mean - interval.low), bias, value * self._uncertainty)
        above = math.hypot(widening * (interval.high - mean), bias, value * self._uncertainty)
        ratio = max(0.0, interval.low / mean) ** widening / (1.0 + self._uncertainty) if mean else 0.0
        least = min(value / 2, (value - bias) * ratio)
        return MeanDuration(value=value, low=max(0.0, value - below, least), high=value + above)

    def correction(self, steps: Sequence[int]) -> float:
        """Return what readings of `steps` by a clock that cuts are too short by on average, s."""
        return float(self._cut[list(steps)].sum()) * self._half_s

    def _bias(self, step: int) -> float:
        """Return what the correction of one step may be off by, s.

        The mean of rounded readings with a normal scatter σ is off by at most Δ/π · exp(−2π²σ²/Δ²) (B. Widrow,
        "Statistical theory of quantization", 1996); without scatter by half a step.
        """
        if not self._cut[step] or not self._step_s:
            return 0.0
        scatter = float(self._times[:, step].std()) / self._step_s
        if scatter < 0.5:
            return self._step_s / 2 if self._half_s else 0.0
        return self._step_s / math.pi * math.exp(-2 * (math.pi * scatter) ** 2)


def _one_pair(profile: EngineProfile) -> list[tuple[float, float]]:
    """All profiled and all ordinary inferences of a profiler that tells no windows."""
    times = (max(1.0, undisturbed_mean(times)) for times in (profile.inference_ns, profile.unprofiled_ns))
    return [(next(times), next(times))]


def _taken_out(profile: EngineProfile, names: Sequence[str]) -> list[float]:
    """Return what the profiler added to the steps called `names`, ns, in that order."""
    found = {node.name: node.taken_out_ns for node in profile.nodes}
    return [found[name] for name in names]


@dataclass(frozen=True, slots=True)
class _Told:
    """What one process told of the inferences that were disturbed least, ns.

    Attributes:
        steps: of shape (inferences, steps).
        overheads: of shape (overheads, inferences).
        whole: mean of the inferences, by their processor time where that is known.
        sum: mean of all steps together.
    """

    steps: Samples
    overheads: Samples
    whole: float
    sum: float


def _read_times(profile: EngineProfile, names: Sequence[str]) -> _Told:
    """Return times of the steps called `names`, in that order, of the overheads, and of what is neither."""
    times = {node.name: node.times_ns for node in profile.nodes}
    rows = [times[name] for name in names] + [overhead.times_ns for overhead in profile.overheads]
    walls = np.asarray(profile.inference_ns, dtype=float)
    told = np.asarray(rows, dtype=float).reshape(len(rows), len(walls))
    parts = np.vstack([told, walls - told.sum(axis=0)])
    kept, whole = least_disturbed(parts, steps=len(names), processor=profile.processor_ns)
    return _Told(kept[: len(names)].T, kept[len(names) : -1], whole, float(kept[: len(names)].sum(axis=0).mean()))
