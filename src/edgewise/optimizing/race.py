"""Which variants are really faster: the original and the variants side by side, in turns, to a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from edgewise.comparing.comparison import ComparisonResult, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.metrics import compare_runs
from edgewise.comparing.trial import TrialSettings, run_trial
from edgewise.progress import Event, reporting_to
from edgewise.record import Job, Run, Stopping
from edgewise.run.dispatch import Dispatcher
from edgewise.run.plan import Plan
from edgewise.run.run_builder import METERS_OFF

MOST = 8
"""Variants in a race beside the original; more are first thinned out by a short measurement of each."""
BASE_S, EACH_S = 20.0, 12.0
"""What a race takes, and what every variant adds, s."""
UNDECIDED_SHARE = 0.65
"""Of the time left, what a race may take in any case while it is not decided."""
ROUNDS, TURNS_S = 8, 0.5
"""A race should have room for so many rounds: verdicts are given after the fifth and the eighth. In each, everybody is
started as for a short measurement, and takes its turns for so long."""
FAR_BEHIND = 1.5
"""Who takes so many times as long as the fastest in a short measurement is not raced."""
SHORT_TURNS = 25
"""Of the short measurement that more variants are thinned out by."""

_LATENCY = Criteria(metrics=("latency",), force=True)
_TERMS = replace(_LATENCY, metrics=("latency", "memory_peak", "model_size"))
"""Forced: that variants differ in engine, settings and outputs is the point, and outputs were compared before."""

NamedJob = tuple[str, Job]


def how_many(seconds: float, each: float) -> int:
    """How many variants to race in `seconds` with the original, where everyone takes `each`; at least one."""
    return max(1, min(MOST, int(seconds // each) - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """What short measurements side by side gave.

    Attributes:
        times: id → its time over the original's, of those that could be measured.
        failures: id → why it could not be.
    """

    times: Mapping[str, float]
    failures: Mapping[str, str]

    @property
    def order(self) -> list[str]:
        """Ids, the fastest first, without those that are far behind."""
        limit = FAR_BEHIND * min(self.times.values(), default=0.0)
        return sorted((name for name, taken in self.times.items() if taken <= limit), key=lambda name: self.times[name])


def screen(original: NamedJob, candidates: Sequence[NamedJob], *, end_by: float, seed: int) -> Screening:
    """One short round of everybody beside the original, a few at a time.

    In turns, and not one after the other: on a busy machine a second of one and the next second of another differ by
    more than good variants do.

    Args:
        end_by: monotonic time, s.
    """
    times: dict[str, float] = {}
    failures: dict[str, str] = {}
    for begin in range(0, len(candidates), MOST):
        some = [original, *candidates[begin : begin + MOST]]
        budget_s = max(1.0, end_by - time.monotonic())
        with reporting_to(_ignore):
            found = run_trial(
                [job for _, job in some],
                labels=[name for name, _ in some],
                criteria=_LATENCY,
                trial=TrialSettings(budget_s=budget_s, seed=seed, rounds=1, turns=SHORT_TURNS),
                save=_forget,
                sensors=METERS_OFF,
            )
        if found.interrupted:
            raise KeyboardInterrupt
        times |= {row.b: row.ratio for row in found.comparisons if row.ratio is not None}
        failures |= found.failures
    for name, _ in candidates:
        if name not in times:
            failures.setdefault(name, "the time budget left no room for a short measurement")
    return Screening(times=times, failures=failures)


def measure_alone(job: Job, *, budget_s: float, save: Callable[[Run], None]) -> Run:
    """The run of one job, in no more than half of the time a process of a race has."""
    dispatcher = Dispatcher(save=save, sensors=METERS_OFF)
    stopping = Stopping(sessions=3, max_s=max(0.1, min(2.0, budget_s / 6)), min_s=0.1)
    job = replace(job, workload=replace(job.workload, stopping=stopping))
    with reporting_to(_ignore):
        return dispatcher.execute(Plan(jobs=(job,)))[0]


def race(
    original: NamedJob,
    candidates: Sequence[NamedJob],
    *,
    budget_s: float,
    seed: int,
    save: Callable[[Run], None],
) -> ComparisonResult:
    """The original against `candidates`, until every verdict is safe or what is open can't win any more.

    Raises:
        BadInput: as `run_trial`.
    """
    everybody = [original, *candidates]
    return run_trial(
        [job for _, job in everybody],
        labels=[name for name, _ in everybody],
        criteria=_TERMS,
        trial=TrialSettings(budget_s=room_for(len(candidates), left=budget_s), seed=seed, until="latency"),
        save=save,
        sensors=METERS_OFF,
        settled=_settled,
    )


def room_for(count: int, *, left: float) -> float:
    """Time limit of a race with this number of variants, s: enough on a quiet machine, with room for a busy one.

    A race ends as soon as it is decided. What it could not decide is worth more time than what may follow.
    """
    return min(left, max(BASE_S + EACH_S * count, UNDECIDED_SHARE * left))


def _settled(variants: Sequence[Variant]) -> str | None:
    """Why to stop: no verdict is open but those of variants that are behind the leader."""
    if variants[0].run.status == "failed":
        return "the original failed"
    rows = [row for row in compare_runs(variants, _LATENCY) if row.ratio is not None]
    if not rows:
        return None
    open_rows = [row for row in rows if row.verdict == "inconclusive"]
    if not open_rows:
        return "all verdicts on latency are safe"
    faster = [row.high for row in rows if row.verdict == "faster" and row.high is not None]
    if faster and all(row.low is not None and row.low > min(faster) for row in open_rows):
        return "what is still open can't be the fastest"
    return None


def _forget(run: Run) -> None:
    """A short measurement is a hint and no record."""


def _ignore(event: Event) -> None:
    """A few seconds of measuring have no progress of their own."""
