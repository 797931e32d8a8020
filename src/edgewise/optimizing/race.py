"""Races variants against the original, in turns, until it is clear which are faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgewise.clock import now
from edgewise.comparing.comparison import ComparisonResult, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.metrics import compare_runs
from edgewise.comparing.trial import TrialSettings, run_trial
from edgewise.progress import reporting_to
from edgewise.record import Job, Run, Stopping
from edgewise.record.caution import loads_of
from edgewise.run.dispatch import Dispatcher
from edgewise.run.plan import Plan
from edgewise.run.run_builder import METERS_OFF

MOST = 8
"""Most variants in a race besides the original; of more, a short measurement chooses the fastest."""
BASE_S, EACH_S = 20.0, 12.0
"""Time of a race, and the time that each variant adds, s."""
UNDECIDED_SHARE = 0.65
"""Share of the time left that an undecided race may take in any case."""
ROUNDS, LEAST_ROUNDS, TURNS_S = 8, 5, 0.5
"""Number of rounds for which a race should have time, and must have time, since verdicts are given after the fifth and
the eighth; time of the turns of a variant in a round, s, besides its start."""
FAR_BEHIND = 1.5
"""Variants that take this many times as long as the fastest one in a short measurement are not raced."""
BEYOND_LOAD = 3.0
"""A variant whose fastest inference took this many times the original's latency is slower, whatever else was running.

A load delays many inferences, but not each of hundreds.
"""
SHORT_TURNS, LONG_TURNS = 25, 100
"""Turns in a short measurement; and where it is repeated for variants that seemed far behind on a busy machine."""
SCREEN_SHARE = 0.3
"""Share of the time left after which no further variants are measured briefly, since the race needs the rest."""
REPEAT_SHARE = 0.25
"""Share of the time left that such a repetition may take."""

_LATENCY = Criteria(metrics=("latency",), force=True)
_TERMS = replace(_LATENCY, metrics=("latency", "memory_peak", "model_size"))
"""Forced: variants may differ in engine, settings and outputs; the outputs were compared before."""

NamedJob = tuple[str, Job]


def how_many(seconds: float, each: float) -> int:
    """Return number of variants to race in `seconds` with the original, where each takes `each` s; at least one."""
    return max(1, min(MOST, int(seconds // each) - 1))


def time_of_each(round_s: float | None) -> float:
    """Return the time that each variant adds to a race, s, where a round took each `round_s`; None is not known yet."""
    return max(LEAST_ROUNDS * round_s, min(EACH_S, ROUNDS * round_s)) if round_s else EACH_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """Results of short measurements.

    Attributes:
        times: id → time over the original's time.
        failures: id → why there is no time.
        unreached: ids without a time because the search's time ended.
        busy: id → the load of other processes meanwhile; only of those that were timed on a busy machine.
        least: id → time of its fastest inference over the original's time.
    """

    times: Mapping[str, float]
    failures: Mapping[str, str]
    unreached: tuple[str, ...] = ()
    busy: Mapping[str, str] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)

    def is_slower(self, name: str) -> bool:
        """Whether it is slower than the original by more than a load explains."""
        return self.least.get(name, 0.0) > BEYOND_LOAD

    @property
    def near(self) -> list[str]:
        """Ids, the fastest first, without those that are far slower."""
        limit = FAR_BEHIND * min(self.times.values(), default=0.0)
        return sorted((name for name, taken in self.times.items() if taken <= limit), key=lambda name: self.times[name])

    @property
    def doubtful(self) -> list[str]:
        """Ids of those that are far slower, the fastest first, but were timed on a busy machine.

        A load does not slow all engines alike: OpenVINO pins its threads, so that they wait for the processors of their
        own, and took 8 times as long beside one busy process where ONNX Runtime took the same.
        """
        far = self.times.keys() & self.busy.keys() - set(self.near)
        return sorted((name for name in far if not self.is_slower(name)), key=lambda name: (self.times[name], name))

    @property
    def order(self) -> list[str]:
        """Ids in which to race them: the near ones and then the doubtful ones."""
        return [*self.near, *self.doubtful]


def screen(original: NamedJob, candidates: Sequence[NamedJob], *, end_by: float, seed: int) -> Screening:
    """Time each candidate in one short round with the original, a few candidates at a time.

    They take turns: on a busy machine the speed changes from one second to the next by more than good variants differ.
    Those that seem far slower on a busy machine are timed once more, in a longer round.

    Args:
        candidates: the most promising first, as time may end before all were measured.
        end_by: monotonic time, s.
    """
    begin = now()
    stop_by = begin + SCREEN_SHARE * (end_by - begin)
    short = _time_briefly(original, candidates, turns=SHORT_TURNS, end_by=end_by, stop_by=stop_by, seed=seed)
    again = [one for one in candidates if one[0] in short.doubtful]
    timed = max(1, len(candidates) - len(short.unreached))
    needed_s = (now() - begin) * len(again) / timed * LONG_TURNS / SHORT_TURNS
    if not again or needed_s > REPEAT_SHARE * (end_by - now()):
        return short
    longer = _time_briefly(original, again, turns=LONG_TURNS, end_by=end_by, stop_by=end_by, seed=seed)
    known = {name: load for name, load in short.busy.items() if name not in longer.times}
    return replace(
        short,
        times={**short.times, **longer.times},
        busy={**known, **longer.busy},
        least={**short.least, **longer.least},
    )


def _time_briefly(
    original: NamedJob, candidates: Sequence[NamedJob], *, turns: int, end_by: float, stop_by: float, seed: int
) -> Screening:
    """Return the times of one round of `turns` turns.

    Args:
        stop_by: monotonic time at which all but the first few candidates must be timed, s.
    """
    started = now()
    times: dict[str, float] = {}
    failures: dict[str, str] = {}
    busy: dict[str, str] = {}
    least: dict[str, float] = {}
    for begin in range(0, len(candidates), MOST):
        if begin and now() + (now() - started) * MOST / begin > stop_by:
            break
        some = [original, *candidates[begin : begin + MOST]]
        budget_s = max(1.0, end_by - now())
        with reporting_to(lambda event: None):  # a few seconds need no progress
            found = run_trial(
                [job for _, job in some],
                labels=[name for name, _ in some],
                criteria=_LATENCY,
                trial=TrialSettings(budget_s=budget_s, seed=seed, rounds=1, turns=turns),
                save=lambda run: None,
                sensors=METERS_OFF,
            )
        if found.interrupted:
            raise KeyboardInterrupt
        told = {row.b: row.ratio for row in found.comparisons if row.ratio is not None}
        times |= told
        failures |= found.failures
        least |= _fastest_inferences(found)
        for load in [load for one in found.variants for load in loads_of(one.run.cautions)][:1]:
            busy |= dict.fromkeys(told, load)
    unreached = tuple(name for name, _ in candidates if name not in times and name not in failures)
    return Screening(times=times, failures=failures, unreached=unreached, busy=busy, least=least)


def _fastest_inferences(found: ComparisonResult) -> dict[str, float]:
    """Id → time of its fastest inference over the latency of the first variant, the original."""
    rows = {one.label: one.run.measurement("latency") for one in found.variants}
    own = rows.pop(found.variants[0].label)
    if own is None or not own.value:
        return {}
    return {name: min(row.samples) / own.value for name, row in rows.items() if row is not None and row.samples}


def measure_alone(job: Job, *, budget_s: float, save: Callable[[Run], None]) -> Run:
    """Return the run of one job, in at most half the time of a session of a race."""
    dispatcher = Dispatcher(save=save, sensors=METERS_OFF)
    stopping = Stopping(sessions=3, max_s=max(0.1, min(2.0, budget_s / 6)), min_s=0.1)
    job = replace(job, workload=replace(job.workload, stopping=stopping))
    with reporting_to(lambda event: None):
        return dispatcher.execute(Plan(jobs=(job,)))[0]


def race(
    original: NamedJob,
    candidates: Sequence[NamedJob],
    *,
    budget_s: float,
    seed: int,
    save: Callable[[Run], None],
) -> ComparisonResult:
    """Race the original against `candidates`, until every verdict is decided or no open one can be the fastest.

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
    """Time limit of a race with this number of variants, s: enough on a quiet machine, and more for a busy one.

    A race ends as soon as it is decided, and deciding it is worth more than the stages after it.
    """
    return min(left, max(BASE_S + EACH_S * count, UNDECIDED_SHARE * left))


def _settled(variants: Sequence[Variant]) -> str | None:
    """Why to stop; None while a variant with an open verdict may be the fastest."""
    if variants[0].run.status == "failed":
        return "the original failed"
    rows = [row for row in compare_runs(variants, _LATENCY) if row.ratio is not None]
    if not rows:
        return None
    open_rows = [row for row in rows if row.verdict == "inconclusive"]
    if not open_rows:
        return "all verdicts on latency are decided"
    faster = [row.high for row in rows if row.verdict == "faster" and row.high is not None]
    if faster and all(row.low is not None and row.low > min(faster) for row in open_rows):
        return "no variant with an open verdict can be the fastest"
    return None
