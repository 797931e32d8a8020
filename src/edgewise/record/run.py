"""What happened: an executed job with its measurements. The document that is stored, exported and reported from."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from edgewise.record.caution import Caution
from edgewise.record.evaluation import Evaluation
from edgewise.record.job import Job
from edgewise.record.layer import Layer, Profile

SCHEMA = 2
"""The integer version of the record. Fields may be added within a number; none changes its meaning."""

Basis = Literal["measured", "simulated", "estimated", "derived"]
Status = Literal["done", "failed", "cancelled"]
Cause = Literal[
    "Unsupported", "OutOfMemory", "BadModel", "BadInput", "Unavailable", "Timeout", "EngineError", "Killed", "Garbage"
]
Grade = Literal["A", "B", "C", "D"]
VariationSource = Literal["learnt", "assumed", "spread"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Statistics of raw samples, in the unit of their measurement.

    Attributes:
        n: samples in all sessions.
        percentiles: ``"p50"``, ``"p99.9"`` … → value; only those that n supports, n ≥ 10/(1−p).
        outliers: samples beyond 1.4826 × 10 MADs of the median (counted, never dropped).
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
    """One number with where it came from.

    Attributes:
        metric: an id of the metric catalogue.
        unit: SI base unit of `value`, `low`, `high` and `samples`.
        basis: how it is known.
        method: how it was obtained, in words.
        value: the headline; None when it can't be known, and then `absent_because` says why.
        low, high: its 95 % interval, None where one sample can't give any. Of a time or a rate it is the interval for a
            re-run on this machine: it contains `Run.variation`.
        within_low, within_high: the 95 % interval within this run, without that part; None where it is not told apart.
        samples: raw values in the order they were taken, session after session.
        session_lengths: how many of `samples` belong to each session.
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

    @property
    def half_width(self) -> float | None:
        """The wider side of the interval over the value; None where there is no interval or the value is 0."""
        if not self.value or self.low is None or self.high is None:
            return None
        return max(self.value - self.low, self.high - self.value) / abs(self.value)

    @property
    def within_half_width(self) -> float | None:
        """The same of the interval within this run; that of `half_width` where the two are not told apart."""
        if not self.value or self.within_low is None or self.within_high is None:
            return self.half_width
        return max(self.value - self.within_low, self.within_high - self.value) / abs(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run has no result.

    Attributes:
        phase: the last phase that had begun.
        stderr_tail: the last lines the worker's libraries printed.
    """

    cause: Cause
    message: str
    phase: str = ""
    advice: str = ""
    exit_code: int | None = None
    signal: str | None = None
    stderr_tail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """One fresh worker process of a run.

    Attributes:
        started_at: ISO 8601, UTC.
        phases: seconds per phase (``python``, ``import``, ``load``, ``first``, ``steady`` …).
        warmup: how many inferences were treated as warm-up.
        warmup_samples: the times of the first ones, at most 1000, s.
        stopped_because: which stopping rule ended it.
        facts: what the worker saw: RSS figures, context switches, processor time, load, steal.
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
    """How the speed of a machine varies from run to run, beyond what the sessions of one run show.

    Attributes:
        sigma: relative standard deviation between runs.
        degrees: degrees of freedom of `sigma`; None where it is assumed.
        source: ``learnt`` from the reference kernel's earlier times on this machine, ``assumed`` from the kind of
            machine, or ``spread``: the sessions lay so far apart that the interval within the run contains it.
        method: how it came about, in words.
        shift: logarithm of the reference kernel's time in this run over its usual one; 0 where that is within what is
            usual or not known.
    """

    sigma: float
    degrees: float | None
    source: VariationSource
    method: str
    shift: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """How far the headline latency can be trusted: a grade from A to D and every reason it is not A."""

    grade: Grade
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """An executed job.

    Attributes:
        id: UUID version 7: sorts by time.
        created_at: ISO 8601, UTC.
        group: id shared by the runs of one command, so that runs side by side are found together.
        effective: what came into force in the engine: precision, threads, provider, versions.
        environment: fingerprint of host, device and engine.
        variation: how this machine's speed varies between runs; None in records of before it was told, and where a
            session brought its own clock.
        layers: of a profiled run, in the order of execution, overheads and eliminated operators included.
        profile: what the layers add up to; None where the run was not profiled.
        profile_absent_because: why a run that should have been profiled was not.
        evaluation: the conditions of its accuracy; None where it was not evaluated.
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
    layers: tuple[Layer, ...] = ()
    profile: Profile | None = None
    profile_absent_because: str | None = None
    evaluation: Evaluation | None = None
    cautions: tuple[Caution, ...] = ()
    trust: Trust | None = None
    artifacts: tuple[dict[str, Any], ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The metric that this run is about, by its scenario."""
        return self.job.workload.scenario.headline

    def measurement(self, metric: str) -> Measurement | None:
        """The measurement of `metric`, or None where the run has no row for it."""
        return next((row for row in self.measurements if row.metric == metric), None)

    def value(self, metric: str) -> float | None:
        """The headline value of `metric`, or None where it is absent."""
        row = self.measurement(metric)
        return None if row is None else row.value


def new_run_id() -> str:
    """A UUID version 7 (RFC 9562): 48 bits of Unix milliseconds, then random bits."""
    value = int.from_bytes(os.urandom(16), "big")
    value = (time.time_ns() // 1_000_000) << 80 | value & ((1 << 80) - 1)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(UUID(int=value))
