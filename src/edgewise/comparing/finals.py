"""Runs of one command, measured once more in turns: what their ratios prove."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations

from edgewise.comparing.comparison import Comparison, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.metrics import compare_pairs
from edgewise.comparing.rerun import rows_with_reruns
from edgewise.comparing.session_values import scatter_of_processes
from edgewise.comparing.trial import FURTHER_S, TrialSettings, run_trial
from edgewise.progress import reporting_to
from edgewise.record import InTurns, Run
from edgewise.record.facts import emulation_of
from edgewise.record.run import RatioVerdict
from edgewise.run.executor import executor_for
from edgewise.run.run_builder import METERS_OFF
from edgewise.run.variation import History

MOST = 8
"""Most finalists, two models in two engines with two numbers of threads: each costs time."""
EACH_S = 15.0
"""Time limit for each finalist, s. Two cheap models are decided in about ten seconds on a quiet machine."""
SWEPT_S = 2 * FURTHER_S
"""Time limit for each finalist of a sweep, s. Beside six busy programs on two cores, a round of four places took 17 s
instead of 5 s, and nobody waits at the terminal for a sweep."""
PROFILED_S = 10.0
"""The same for each profiled run, s: they all take turns, also where one measurement told them apart."""

_OPPOSITE: dict[RatioVerdict, RatioVerdict] = {
    "faster": "slower", "slower": "faster", "same": "same", "inconclusive": "inconclusive"
}  # fmt: skip


def can_take_turns(run: Run) -> bool:
    """Whether the job of `run` can take turns with others: in an engine's worker, with a clock of its own."""
    return executor_for(run.job).is_worker and not run.job.command and not emulation_of(run.environment)


def with_turns(finalists: Sequence[Run], history: History, *, each_s: float = EACH_S) -> list[Run]:
    """`finalists`, two or more of one headline and target, with the ratios that measuring them in turns found.

    The runs in turns have no profiler and are not kept: a latency beside others is not the one that is asked for.

    Args:
        each_s: time limit for each finalist, s.

    Raises `KeyboardInterrupt` where it is interrupted.
    """
    metric = finalists[0].headline
    criteria = Criteria(metrics=(metric,), force=True)  # other models, threads and engines are what is asked for

    bracket = _Bracket(criteria, history)
    scatter = {run.id: scatter_of_processes(run) for run in finalists}
    with reporting_to(lambda event: None):  # a row of progress for each of them again would look like a second run
        found = run_trial(
            [replace(run.job, workload=replace(run.job.workload, profile=False)) for run in finalists],
            labels=[run.id for run in finalists],
            criteria=criteria,
            trial=TrialSettings(budget_s=each_s * len(finalists)),
            save=lambda run: None,
            sensors=METERS_OFF,
            history=history,
            settled=bracket.settle,
            variant=lambda label, run: Variant(label=label, run=run, scatter=scatter[label]),
        )
    if found.interrupted:
        raise KeyboardInterrupt
    rows = bracket.end(found.variants)
    return [
        replace(run, in_turns=_joined([_told(row, run.id) for row in rows if run.id in (row.a, row.b)], run.in_turns))
        for run in finalists
    ]


class _Bracket:
    """Who is still in, and what is proven: one that is proven slower than the leader is out, so that the rest has its
    time.

    Pairs of those that are still in are corrected together: Holm's method goes on so, and it keeps its risk where each
    step is corrected for the looks (``benchmarks/decisions.py``). Whom the leader of that look beats, a later leader
    beats, too.

    Args:
        history: as of `with_turns`.
    """

    def __init__(self, criteria: Criteria, history: History) -> None:
        self._criteria, self._history = criteria, history
        self._out: set[str] = set()
        self._rows: list[Comparison] = []

    def settle(self, variants: Sequence[Variant]) -> str | Collection[str] | None:
        """Return why to stop, or those that are out."""
        while len(left := self._left(variants)) > 1:
            rows, rest = _of_leader_and_rest(left, self._criteria)
            apart = [row for row in rows if row.verdict in ("slower", "faster")]
            beaten = {row.b if row.verdict == "slower" else row.a for row in apart}
            if not beaten:
                break
            told = [row for row in (*rows, *rest) if beaten & {row.a, row.b} and row.ratio is not None]
            self._rows += rows_with_reruns(told, left, self._history)
            self._out |= beaten
        if len(left) < 2 or not any(row.verdict == "inconclusive" and row.ratio is not None for row in rows):
            return "it is decided which are the fastest"
        return self._out

    def end(self, variants: Sequence[Variant]) -> list[Comparison]:
        """Return a row for each pair that has a ratio, as it was when one of the two was out, or measuring ended."""
        left = self._left(variants)
        if len(left) > 1:
            told = [row for some in _of_leader_and_rest(left, self._criteria) for row in some if row.ratio is not None]
            self._rows += rows_with_reruns(told, left, self._history)
        return self._rows

    def _left(self, variants: Sequence[Variant]) -> list[Variant]:
        return [variant for variant in variants if variant.label not in self._out]


def _joined(found: Sequence[InTurns], earlier: Sequence[InTurns]) -> tuple[InTurns, ...]:
    """Return what was found, and what `earlier` turns found of other runs."""
    known = {one.against for one in found}
    return (*found, *(one for one in earlier if one.against not in known))


def _of_leader_and_rest(
    variants: Sequence[Variant], criteria: Criteria
) -> tuple[Sequence[Comparison], Sequence[Comparison]]:
    """Return the one that is ahead of most others against each of them, and the rest of the pairs.

    All pairs are corrected together, as it is the data that say who leads: corrected for the leader's own rows alone, a
    difference was found in 2.5 % of simulated turns of four equal ones, instead of 1 %.
    """
    places = range(len(variants))
    pairs = list(combinations(places, 2))
    every = compare_pairs(variants, pairs, criteria.metrics, criteria=criteria)
    wins = [sum(row.is_ahead(variants[place].label) for row in every) for place in places]
    leader = max(places, key=lambda place: wins[place])
    own = [(leader, place) for place in places if place != leader]
    others = [pair for pair in pairs if leader not in pair]
    rows = compare_pairs(variants, [*own, *others], criteria.metrics, criteria=criteria)
    return rows[: len(own)], rows[len(own) :]


def _told(row: Comparison, own: str) -> InTurns:
    """`row` from the side of the run `own`."""
    ratio, low, high = row.ratio_of(own)
    assert ratio is not None
    against, verdict, apart = row.a, row.verdict, row.disagreement
    if own == row.a:
        against, verdict, apart = row.b, _OPPOSITE[row.verdict], apart and apart.inverse()
    rerun_low, rerun_high = row.rerun_of(own)
    proof_low, proof_high = row.proof_of(own)
    return InTurns(
        against=against, ratio=ratio, low=low, high=high, verdict=verdict, method=row.method, disagreement=apart,
        rerun_low=rerun_low, rerun_high=rerun_high, proof_low=proof_low, proof_high=proof_high,
    )  # fmt: skip
