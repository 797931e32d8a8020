"""What is going on, as typed events that a terminal, a web page and a test can all draw.

Code that works calls `emit`; a `Progress` is put in force with `reporting_to`. As with
`edgewise.cancellation`, the context carries it, so that it need not be handed through every call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from edgewise.record import Job, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted:
    """A new stage of a longer command begins; `title` is one line of text."""

    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """Job `index` (from 0) of `total` begins."""

    job: Job
    index: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    """A fresh worker process of the current job, or a round of all jobs side by side, begins.

    Attributes:
        index: from 0.
        total: most sessions or rounds; measuring may end after fewer.
    """

    index: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InferencesDone:
    """Timed inferences of the current session so far, and the mean of the latest ones, s."""

    done: int
    average_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsDone:
    """Timed requests of a language model in the current session so far, and how fast the latest ones were.

    Attributes:
        elapsed_s: since the first of them began.
        prefill_rate, decode_rate: of the requests since the event before, tokens/s; None where no time passed.
    """

    done: int
    elapsed_s: float
    prefill_rate: float | None
    decode_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineUpdated:
    """The headline of the current job from its sessions so far, by the statistics of the result.

    Attributes:
        metric: its id; `value` and its 95 % interval from `low` to `high`, None where there is none, are in `unit`.
        n: number of samples.
        sessions: number of sessions that they come from.
    """

    metric: str
    unit: str
    value: float
    low: float | None
    high: float | None
    n: int
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BinDone:
    """A time bin of a sustained measurement is complete.

    Attributes:
        elapsed_s: since the measurement began, of `total_s`.
        latency_s: median of the bin.
    """

    elapsed_s: float
    total_s: float
    latency_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """The run of the current job is complete."""

    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesStarted:
    """A model begins to answer the samples of a data set."""

    job: Job
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesDone:
    """Samples of the current data set that are answered so far."""

    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesFinished:
    """The data set is through, or was given up.

    Attributes:
        answered: samples with an answer.
        skipped: samples that could not be used.
        resumed: answers kept from an earlier, interrupted pass.
        seconds: how long it took.
        failure: why it was given up; empty where it was not.
    """

    answered: int
    skipped: int
    resumed: int
    seconds: float
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantPredicted:
    """What the pre-flight expects of a pass in an engine: a factor of speed with its interval, None where unknown."""

    name: str
    speedup: float | None
    low: float | None
    high: float | None
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantTested:
    """A variant of a model was accepted, rejected, or came as far as `stage`.

    Attributes:
        why: why it was rejected; empty otherwise.
        metrics: what is known of it so far, by the metric's id, in SI units.
    """

    id: str
    stage: str
    accepted: bool
    why: str
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTested:
    """One layer was changed alone: the signal-to-noise ratio of the network's outputs, dB, or why there is none."""

    layer: str
    op: str
    snr_db: float | None
    absent_because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line for the log: nothing that changes the state of the work."""

    text: str


Event = (
    StageStarted
    | JobStarted
    | SessionStarted
    | InferencesDone
    | RequestsDone
    | HeadlineUpdated
    | BinDone
    | RunFinished
    | SamplesStarted
    | SamplesDone
    | SamplesFinished
    | VariantPredicted
    | VariantTested
    | LayerTested
    | LogLine
)


class Progress(Protocol):
    """Receives events as they happen. An exception that it raises ends the work."""

    def __call__(self, event: Event, /) -> None:
        """Something happened."""


_PROGRESS: ContextVar[Progress | None] = ContextVar("edgewise_progress", default=None)


def is_watched() -> bool:
    """Whether anybody receives events: what costs time is computed only then."""
    return _PROGRESS.get() is not None


def emit(event: Event) -> None:
    """Send `event` to the progress in force, if there is one."""
    progress = _PROGRESS.get()
    if progress is not None:
        progress(event)


@contextlib.contextmanager
def reporting_changed(change: Callable[[Event], Event]) -> Iterator[None]:
    """Give the progress in force what `change` returns for each event of the block."""
    before = _PROGRESS.get()
    with reporting_to(None if before is None else lambda event: before(change(event))):
        yield


@contextlib.contextmanager
def reporting_to(progress: Progress | None) -> Iterator[None]:
    """`progress` receives the events of the block; None leaves the one in force."""
    if progress is None:
        yield
        return
    before = _PROGRESS.set(progress)
    try:
        yield
    finally:
        _PROGRESS.reset(before)
