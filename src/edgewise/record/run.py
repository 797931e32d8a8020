"""Runs: executed jobs with their measurements. These documents are stored, exported and reported."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import UUID

from edgewise.errors import unmarked
from edgewise.metrics import METRICS
from edgewise.record.caution import Caution
from edgewise.record.evaluation import Evaluation
from edgewise.record.job import Job
from edgewise.record.layer import Layer, Profile
from edgewise.record.source import Source
from edgewise.record.sustained import Sustained
from edgewise.shown import Shown

SCHEMA = 2
"""Version of the record. Within a version, fields may be added, and none changes its meaning."""

Basis = Literal["measured", "simulated", "estimated", "derived"]
Status = Literal["done", "failed", "cancelled"]
Cause = Literal[
    "Unsupported",
    "OutOfMemory",
    "BadModel",
    "BadInput",
    "Unavailable",
    "Timeout",
    "EngineError",
    "Killed",
    "Garbage",
    "LinkLost",
    "ClockJumped",
    "CommandFailed",
]
Grade = Literal["A", "B", "C", "D"]
VariationSource = Literal["learnt", "assumed", "spread"]
RatioVerdict = Literal["faster", "slower", "same", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Statistics of raw samples, in the unit of their measurement.

    Attributes:
        n: number of samples in all sessions.
        percentiles: ``"p50"``, ``"p99.9"`` … → value; only those with enough samples, n ≥ 10/(1−p).
        outliers: number of samples more than 1.4826 × 10 MADs from the median; none is dropped.
        autocorrelation: lag-1 autocorrelation of the samples, averaged over sessions.
        between_sessions: relative standard deviation of the sessions' medians; None with one session.
    """

    n: int
    mean: float
    std: float
    min: float
    max: float
    median: float
    mad: float
    percentiles: dict[str, float] = field(default_factory=dict)
    outliers: int = 0
    autocorrelation: float | None = None
    between_sessions: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One value with its unit, basis, method and interval.

    Attributes:
        metric: id from the metric catalogue.
        unit: SI base unit of `value`, `low`, `high` and `samples`.
        basis: how the value is known.
        method: how the value was obtained, in words.
        value: the headline value; None if unknown, with the reason in `absent_because`.
        low, high: 95 % interval of `value`; None if there is none. For a time or a rate it covers a re-run on this
            machine, so it includes `Run.variation`.
        within_low, within_high: 95 % interval within this run, without `Run.variation`; None where there is only one.
        samples: raw values in the order they were taken, session after session.
        session_lengths: number of `samples` from each session.
    """

    metric: str
    unit: str
    basis: Basis | None
    method: str
    value: float | None
    low: float | None = None
    high: float | None = None
    within_low: float | None = None
    within_high: float | None = None
    samples: tuple[float, ...] = ()
    session_lengths: tuple[int, ...] = ()
    summary: Summary | None = None
    absent_because: str | None = None

    @classmethod
    def of(cls, metric: str, value: float, method: str, *, basis: Basis = "measured", **more: Any) -> Measurement:
        """Return a value with the catalogue's unit; `more` are further fields."""
        return cls(metric=metric, unit=METRICS[metric].unit, basis=basis, method=method, value=float(value), **more)

    @classmethod
    def absent(cls, metric: str, reason: str) -> Measurement:
        """Return a measurement without a value, with the reason, in which fields may be in marks."""
        unit = METRICS[metric].unit
        return cls(metric=metric, unit=unit, basis=None, method="", value=None, absent_because=unmarked(reason))

    @property
    def half_width(self) -> float | None:
        """Wider side of the interval, relative to the value; None if there is no interval or the value is 0."""
        return half_width(self.value, self.low, self.high)

    @property
    def within_half_width(self) -> float | None:
        """The same for the interval within this run; `half_width` where there is only one interval."""
        return half_width(self.value, *self.within_ends)

    @property
    def within_ends(self) -> tuple[float | None, float | None]:
        """Both ends of the interval within this run; of the only one where there is only one."""
        if self.within_low is None or self.within_high is None:
            return self.low, self.high
        return self.within_low, self.within_high


def half_width(value: float | None, low: float | None, high: float | None) -> float | None:
    """Wider side of an interval, relative to its value; None if there is no interval or the value is 0."""
    if not value or low is None or high is None:
        return None
    return max(value - low, high - value) / abs(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run failed.

    Attributes:
        phase: the last phase that began.
        stderr_tail: the last lines on the worker's standard error.
    """

    cause: Cause
    message: str
    phase: str = ""
    advice: str = ""
    exit_code: int | None = None
    signal: str | None = None
    stderr_tail: str = ""

    def __post_init__(self) -> None:
        """Name fields that are in marks (`edgewise.errors`) by their flags."""
        for name in ("message", "advice"):
            object.__setattr__(self, name, unmarked(getattr(self, name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """One worker process of a run.

    Attributes:
        started_at: ISO 8601, UTC.
        phases: duration of each phase (``python``, ``import``, ``load``, ``first``, ``steady`` …), s.
        warmup: number of inferences treated as warm-up.
        warmup_samples: times of the first of them, at most 1000, s.
        stopped_because: the stopping rule that ended the session.
        facts: observations of the worker: memory, context switches, processor time, load, steal.
    """

    index: int
    started_at: str
    pid: int
    phases: dict[str, float] = field(default_factory=dict)
    warmup: int = 0
    warmup_samples: tuple[float, ...] = ()
    stopped_because: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """How the speed of a machine varies from run to run, in addition to the variation between sessions of one run.

    Attributes:
        sigma: relative standard deviation between runs.
        degrees: degrees of freedom of `sigma`; None where it is a constant.
        source: ``learnt`` from earlier runs on this machine, ``assumed`` from the kind of machine, the scatter within
            this run and the few earlier runs, or ``spread`` if session starts were spread so far that the interval
            already includes it.
        method: how it was obtained, in words.
        shift: logarithm of the reference kernel's time in this run divided by its usual time; 0 if the difference is
            not unusual, or unknown.
    """

    sigma: float
    degrees: float | None
    source: VariationSource
    method: str
    shift: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """One ratio by several statistics of the same turns, which say different things: something kept inferences waiting,
    and long ones not as much as short ones.

    Attributes:
        quoted: the statistic whose ratio is the one that is told.
        ratios: of all, by statistic.
        others: share of the processors that other programs and virtual machines used, 0…1; None where not known.
    """

    quoted: str
    ratios: dict[str, float]
    others: float | None

    def inverse(self) -> Disagreement:
        """Return the same from the other side."""
        return replace(self, ratios={name: 1.0 / ratio for name, ratio in self.ratios.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class InTurns:
    """What measuring two runs of one command in turns found.

    Attributes:
        against: id of the other run.
        ratio, low, high: this run's headline over the other's, and its 95 % interval; None where there is none.
        verdict: of this run: ``faster`` is the better side, ``same`` within what doesn't matter.
        method: how that came about, in words.
        rerun_low, rerun_high: its 95 % interval at another time; None where it is not known.
        proof_low, proof_high: the interval that a verdict rests on, with a risk of error of 1 % over all pairs, where
            it contains 1 though `low` to `high` leaves it out; else None.
        disagreement: why the interval spans the ratios of several statistics; None where it is that of one.
    """

    against: str
    ratio: float
    low: float | None
    high: float | None
    verdict: RatioVerdict
    method: str
    rerun_low: float | None = None
    rerun_high: float | None = None
    proof_low: float | None = None
    proof_high: float | None = None
    disagreement: Disagreement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The trust grade of the headline, A to D, with every reason that it is not A."""

    grade: Grade
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabPlace:
    """Where in a lab a run was made.

    Attributes:
        job: the key of the sweep's cell.
        attempt: which start of the job it was, from 1.
        fence: of this start; what an earlier one gives is refused.
        worker: the process.
    """

    job: str
    attempt: int
    fence: int
    host: str
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, weakref_slot=True)
class Run(Shown):
    """An executed job.

    Attributes:
        id: UUID version 7, which sorts by time.
        created_at: ISO 8601, UTC.
        group: id shared by the runs of one command.
        effective: settings in effect, as the engine reports them: precision, threads, provider, versions.
        environment: description of host, device and engine.
        variation: how this machine's speed varies between runs; None in records of earlier versions, and if a session
            used a simulated clock.
        in_turns: against each other run of its command that was measured in turns with it; empty where none was.
        layers: layers of a profiled run in the order of execution, with overheads and eliminated operators.
        profile: what the layers add up to; None if the run was not profiled.
        profile_absent_because: why a requested profile is missing.
        evaluation: conditions of the accuracy; None if the run was not evaluated.
        sustained: the latency over time; None if the scenario does not keep it.
        source: the file of another tool that the run was imported from; None if edgewise measured it.
        lab: the host and the start of a job of a lab; None if no lab measured it.
    """

    id: str
    created_at: str
    job: Job
    status: Status
    schema: int = SCHEMA
    group: str | None = None
    failure: Failure | None = None
    effective: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    measurements: tuple[Measurement, ...] = ()
    sessions: tuple[SessionRecord, ...] = ()
    variation: Variation | None = None
    in_turns: tuple[InTurns, ...] = ()
    layers: tuple[Layer, ...] = ()
    profile: Profile | None = None
    profile_absent_because: str | None = None
    evaluation: Evaluation | None = None
    sustained: Sustained | None = None
    cautions: tuple[Caution, ...] = ()
    trust: Trust | None = None
    artifacts: tuple[dict[str, Any], ...] = ()
    tags: tuple[str, ...] = ()
    source: Source | None = None
    lab: LabPlace | None = None

    @property
    def headline(self) -> str:
        """The main metric of this run's scenario; of an imported run without it, the first that its file has."""
        own = self.job.workload.scenario.headline
        if self.source is None or self.value(own) is not None:
            return own
        return next((metric for metric in _INSTEAD if self.value(metric) is not None), own)

    def turns_against(self, other: Run) -> InTurns | None:
        """Return what measuring this run in turns with `other` found, from the side of this one; None where
        they were not.
        """
        return next((each for each in self.in_turns if each.against == other.id), None)

    def measurement(self, metric: str) -> Measurement | None:
        """Return the measurement of `metric`; None if the run has no row for it."""
        return next((row for row in self.measurements if row.metric == metric), None)

    def value(self, metric: str) -> float | None:
        """Return the headline value of `metric`; None if it is absent."""
        row = self.measurement(metric)
        return None if row is None else row.value


_INSTEAD = ("latency_engine", "latency_mean", "throughput", "decode_rate", "ttft_model", "prefill_rate")
"""Headlines of imported runs whose file lacks the scenario's own, in the order of preference."""


ID_SIZES = (13, 16, 18, 23)
"""Lengths of the beginnings of ids that are shown: the time in milliseconds, and the groups of digits after it."""


def new_run_id() -> str:
    """Return a UUID version 7 (RFC 9562): Unix milliseconds, 12 bits of their fraction, so that ids sort as they were
    made also within a millisecond, and random bits.
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    value = milliseconds << 80 | 0x7 << 76 | rest * 4096 // 1_000_000 << 64
    return str(UUID(int=value | 0x2 << 62 | int.from_bytes(os.urandom(8), "big") >> 2))
