"""A comparison that measures: jobs side by side until the verdict is decided or the time is spent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from edgewise.cancellation import Cancelled
from edgewise.comparing.assessment import assess, require_fair
from edgewise.comparing.comparison import Comparison, ComparisonResult, Variant
from edgewise.comparing.criteria import Criteria, check_criteria, check_metric
from edgewise.comparing.fairness import check_fairness, check_jobs
from edgewise.comparing.metrics import compare_runs
from edgewise.errors import BadInput
from edgewise.record import Job, Run
from edgewise.run.dispatch import Interrupted
from edgewise.run.facts import require_real_processor
from edgewise.run.host_protocol import refuses_sizes
from edgewise.run.interleaving import Interleaved, Interleaver, Schedule, check_budget
from edgewise.run.plan import with_other_sizes
from edgewise.run.run_builder import Sensors
from edgewise.run.variation import History
from edgewise.stats.comparison import LOOKS

BUDGET_S = 60.0
FURTHER_S = 30.0
"""The time budget where none is given: for two variants, and for every further one."""
LONGER = 3
"""Times as much for language models, whose processes answer several prompts each."""

MOST_VARIANTS = 32
"""All processes of a round are alive at once."""

Settled = Callable[[Sequence[Variant]], str | Collection[str] | None]
"""Told the variants at every look; gives why to stop, or the labels of those that are measured no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    """How variants are measured side by side.

    Attributes:
        budget_s: the time budget; None means `BUDGET_S` for two variants and `FURTHER_S` for every further one,
            and `LONGER` times as much for language models.
        seed: of the order.
        until: the metric whose verdicts end it; None means the scenario's headline.
        rounds: number of rounds at most; None leaves it to the verdicts and the budget. The last
            of `LOOKS` ends it in any case.
        turns: of a round; None is the usual number. Fewer are quicker and less exact.
    """

    budget_s: float | None = None
    seed: int = 0
    until: str | None = None
    rounds: int | None = None
    turns: int | None = None


class ComparisonInterrupted(Cancelled):
    """Interrupted; the result until then is in `findings`."""

    def __init__(self, findings: ComparisonResult) -> None:
        super().__init__("interrupted")
        self.findings = findings


def run_trial(
    jobs: Sequence[Job],
    *,
    labels: Sequence[str],
    criteria: Criteria,
    trial: TrialSettings,
    save: Callable[[Run], None],
    sensors: Sensors | None = None,
    history: History | None = None,
    settled: Settled | None = None,
    holding: Callable[[], AbstractContextManager[None]] = nullcontext,
    variant: Callable[[str, Run], Variant] | None = None,
) -> ComparisonResult:
    """Measure `jobs` side by side and compare the later ones with the first.

    Args:
        labels: one per job, all different.
        save: keeps a run; all are saved at every look and in the end.
        sensors: None asks the meters, which every process then reads after its turns.
        history: the reference times of earlier runs on this machine; None reads those in the user's own store.
        settled: asked at every look. Without it measuring stops once every verdict on `trial.until` is decided.
        holding: the device is held inside; entered once the jobs were checked.
        variant: makes a variant of a label and its run; it may know more of the model.

    Returns:
        The result; its `interrupted` says whether Ctrl-C ended the measuring.

    Raises:
        BadInput: fewer than two jobs, jobs that can't be compared fairly (unless forced), or that can't run at once.
        Unavailable: the processor of the target is emulated.
    """
    _check(jobs, labels, criteria)
    _check_amount(trial)
    require_real_processor(jobs[0].target)
    until = _choose_until(trial.until, criteria, jobs[0].workload.scenario.headline)
    judged = (
        replace(criteria, metrics=tuple(dict.fromkeys((*criteria.metrics, until)))) if criteria.metrics else criteria
    )
    interleaver = Interleaver(save=save, sensors=sensors, history=history)
    schedule = Schedule(
        budget_s=_usual_budget(jobs) if trial.budget_s is None else trial.budget_s,
        seed=trial.seed,
        looks=(1, *LOOKS),
        # A look after the last one would not be allowed for.
        most_rounds=min(trial.rounds or LOOKS[-1], LOOKS[-1]),
        turns=trial.turns,
    )

    def variants_of(runs: Sequence[Run]) -> list[Variant]:
        made = variant or (lambda label, run: Variant(label=label, run=run))
        return list(map(made, labels, runs))

    def judge(runs: Sequence[Run]) -> str | Collection[int] | None:
        variants = variants_of(runs)
        # What the networks put out is known after the first round only.
        require_fair(check_fairness(variants).obstacles, force=criteria.force)
        if max(len(run.sessions) for run in runs) < min(LOOKS[0], trial.rounds or LOOKS[0]):
            return None
        if settled is not None:
            told = settled(variants)
            return told if told is None or isinstance(told, str) else [labels.index(label) for label in told]
        if variants[0].run.status == "failed":
            return f"{labels[0]}, which the others are compared with, failed"
        return _is_safe(compare_runs(variants, judged), until)

    check_budget(schedule)
    try:
        with holding():
            done = interleaver.execute(jobs, schedule, judge)
            if _are_sizes_refused(done):
                for changed in _with_other_sizes(jobs):
                    again = interleaver.execute(changed, schedule, judge)
                    if not _are_sizes_refused(again):
                        done = again
                        break
    except Interrupted as stop:
        findings = assess(variants_of(stop.runs), criteria, stopped_because="interrupted")
        return replace(findings, interrupted=True)
    return assess(
        variants_of(done.runs),
        criteria,
        seconds_per_pair=done.elapsed_s / done.rounds if done.rounds else None,
        stopped_because=done.stopped_because,
        elapsed_s=done.elapsed_s,
        pairs=done.rounds,
    )


def _usual_budget(jobs: Sequence[Job]) -> float:
    usual = BUDGET_S + FURTHER_S * (len(jobs) - 2)
    return usual * LONGER if jobs[0].workload.scenario.kind == "generate" else usual


def _are_sizes_refused(done: Interleaved) -> bool:
    return any(refuses_sizes(run.failure, run.job) for run in done.runs)


def _with_other_sizes(jobs: Sequence[Job]) -> list[list[Job]]:
    """All jobs with other plausible sizes where sizes were assumed, so that they stay alike."""
    others = [with_other_sizes(job) for job in jobs]
    return [
        [each[min(attempt, len(each) - 1)] if each else job for job, each in zip(jobs, others, strict=True)]
        for attempt in range(max(map(len, others)))
    ]


def _choose_until(asked: str | None, criteria: Criteria, headline: str) -> str:
    """Return the metric whose verdict ends measuring: the given one, else the headline, else the first compared."""
    if asked is not None:
        return check_metric(asked)
    return headline if not criteria.metrics or headline in criteria.metrics else criteria.metrics[0]


def _is_safe(rows: Sequence[Comparison], until: str) -> str | None:
    """Why no more measuring is needed: every variant that has a ratio in `until` has a verdict on it."""
    open_rows = [row for row in rows if row.metric == until and row.ratio is not None]
    if not open_rows or any(row.verdict == "inconclusive" for row in open_rows):
        return None
    return f"the verdict on {until} is decided" if len(open_rows) == 1 else f"all verdicts on {until} are decided"


def _check_amount(trial: TrialSettings) -> None:
    if trial.rounds is not None and trial.rounds < 1:
        raise BadInput(
            f"the number of rounds must be at least 1, not {trial.rounds}", advice="leave it out for as many as needed"
        )


def _check(jobs: Sequence[Job], labels: Sequence[str], criteria: Criteria) -> None:
    check_criteria(criteria)
    if len(jobs) < 2:
        raise BadInput(
            "there is nothing to compare with", advice="give two models, or settings with ⟦vary=threads=1,2⟧"
        )
    if len(jobs) > MOST_VARIANTS:
        raise BadInput(f"{len(jobs)} variants are too many at once", advice=f"compare up to {MOST_VARIANTS}")
    check_all(jobs, labels, force=criteria.force)


def check_all(jobs: Sequence[Job], labels: Sequence[str], *, force: bool) -> None:
    """Refuse jobs that can't be compared fairly with the first, as far as that is known. Raises `BadInput`."""
    obstacles = [
        text
        for job, label in zip(jobs[1:], labels[1:], strict=True)
        for text in check_jobs(jobs[0], job, labels=(labels[0], label))
    ]
    require_fair(obstacles, force=force)
