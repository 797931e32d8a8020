"""Several jobs measured side by side: in each round a fresh process of every job, taking turns in random order.

Rounds are the unit of replication (randomised multiple interleaved trials: Abedi and Brecht, ICPE 2017). Within a round
the processes are alive together and time a few inferences each, again and again, so that what moves slowly under one
moves under all; a process on this machine is stopped until its next turn. Scenarios that have a schedule of their own
are measured one process after the other, in random order.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from edgewise.clock import now
from edgewise.device.target import Target
from edgewise.errors import BadInput
from edgewise.folders import job_folder
from edgewise.progress import JobStarted, RunFinished, SessionStarted, emit
from edgewise.record import Job, Run, Scenario, Workload, new_run_id
from edgewise.record.job import Interleave
from edgewise.run.dispatch import Interrupted
from edgewise.run.executor import target_of
from edgewise.run.host import LiveSession
from edgewise.run.host_protocol import SessionResult
from edgewise.run.run_builder import RunBuilder, Sensors
from edgewise.run.variation import History

TURN_S = 0.004
MOST_A_TURN = 50
TURNS = 100
"""Turns of one job in a round, each of `TURN_S` and at most `MOST_A_TURN` inferences. Turns are short, because what
disturbs a machine lasts tens of milliseconds: on a busy virtual one, 100 turns of 4 ms found the ratio of a model to
itself ten times as exactly as 16 turns of 25 ms (standard deviation between rounds 0.4 % instead of 4 %) in 8 % more
time."""

LEAST_TURNS, ROUND_S = 5, 1.5
"""With slow models a round ends after `LEAST_TURNS` once its jobs have spent `ROUND_S` in turns on average."""
FEW_TURNS, LONG_ROUND_S = 2, 6.0
"""The same for models so slow that five turns would leave time for hardly another round."""

REQUESTS = 3
"""Timed requests of a language model in a process, unless they are prescribed. Few, as a verdict counts processes."""

LONGEST_S = 7 * 24 * 3600.0

Judge = Callable[[Sequence[Run]], str | Collection[int] | None]
"""Told the runs so far; gives the reason to stop, or the places of the jobs that are measured no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How long and in which way jobs are measured side by side.

    Attributes:
        budget_s: time limit of the whole comparison, s.
        seed: of the order of turns.
        looks: numbers of rounds at which the judge is asked; it is asked once more when the budget ends.
        most_rounds: end there whatever the judge says; None leaves it to the budget.
        turns: of a round, with fast models; None is `TURNS`. With slow ones a round is shorter in proportion.
    """

    budget_s: float
    seed: int = 0
    looks: tuple[int, ...] = ()
    most_rounds: int | None = None
    turns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaved:
    """Results of a schedule.

    Attributes:
        runs: one per job, in order; session `i` of each belongs to session `i` of the others. One that the judge took
            out has fewer.
        rounds: how many are complete.
        elapsed_s: from the start of the first worker to the end of the last.
        stopped_because: the judge's reason, or that the budget ended.
    """

    runs: tuple[Run, ...]
    rounds: int
    elapsed_s: float
    stopped_because: str


@dataclass(slots=True, kw_only=True)
class _State:
    """What the rounds have given so far.

    Attributes:
        sessions: of each job, one per complete round and a last one that failed.
        places: of the jobs that have not failed and were not taken out, shuffled in every round.
    """

    jobs: list[Job]
    sessions: list[list[SessionResult]]
    ids: list[str]
    created: str
    places: list[int]
    order: random.Random
    rounds: int = 0

    def take_places(self) -> None:
        """Shuffle the order of starts; every second round reverses that of the round before.

        Were it random alone, all of a few rounds could give the same job the better place, and the verdict would be
        about places: with an advantage above the margin, 7 % of comparisons of a model with itself would find a
        difference (``benchmarks/decisions.py``).
        """
        if self.rounds % 2:
            self.places.reverse()
        else:
            self.order.shuffle(self.places)

    def target(self, place: int) -> Target:
        """Where a job runs: all on one device, each perhaps in an environment of its own."""
        return target_of(self.jobs[place].target)


class Interleaver:
    """Measures jobs side by side, round after round, until a judge or the budget ends it.

    Args:
        save: keeps a run; all runs are saved at every look, so that a kill loses little.
        sensors: as for the dispatcher; they are read by every process, after its turns.
        history: as for the dispatcher.
    """

    def __init__(
        self, *, save: Callable[[Run], None], sensors: Sensors | None = None, history: History | None = None
    ) -> None:
        self._builder = RunBuilder(save=save, sensors=sensors, history=history)

    def execute(self, jobs: Sequence[Job], schedule: Schedule, judge: Judge) -> Interleaved:
        """Return runs of `jobs`, which are two or more. A job that fails drops out; two are needed to go on.

        Args:
            judge: asked at every look.

        Raises:
            BadInput: a budget of no time, or of more than a week.
            Interrupted: Ctrl-C, with the runs of all rounds that were complete.
        """
        check_budget(schedule)
        manner = _manner(jobs)
        begin = now()
        end_by = begin + schedule.budget_s
        state = _State(
            jobs=[replace(job, workload=_side_by_side(job.workload, manner)) for job in jobs],
            sessions=[[] for _ in jobs],
            ids=[new_run_id() for _ in jobs],
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            places=list(range(len(jobs))),
            order=random.Random(schedule.seed),  # noqa: S311 - an order, not a secret
        )
        reason: str | None = None
        round_s = look_s = 0.0
        try:
            with job_folder() as folder:
                # A round that the last ones say can't be finished and looked at is not begun.
                while reason is None and len(state.places) > 1 and now() + round_s + 2 * look_s < end_by:
                    started = now()
                    emit(SessionStarted(index=state.rounds, total=_expected(begin, schedule, state.rounds)))
                    with TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as room:
                        complete = self._round(state, Path(room), schedule, end_by=end_by)
                        if complete and state.rounds == 1:
                            self._runs(state)  # the outputs are noted while their files are there
                    if complete:
                        looked, alive = now(), len(state.places)
                        round_s = max(round_s, looked - started)
                        reason = self._look(state, schedule, judge)
                        round_s *= len(state.places) / alive
                        look_s = max(look_s, now() - looked)
            runs = self._finish(state)
        except KeyboardInterrupt:
            raise Interrupted(self._finish(state, cancelled=True)) from None
        if reason is None and len(state.places) > 1:
            told = judge(runs) if state.rounds and state.rounds not in schedule.looks else None
            reason = told if isinstance(told, str) else f"the time budget of {schedule.budget_s:g} s ended"
        return Interleaved(
            runs=tuple(runs),
            rounds=state.rounds,
            elapsed_s=now() - begin,
            stopped_because=reason or "too few variants are left to compare",
        )

    def _look(self, state: _State, schedule: Schedule, judge: Judge) -> str | None:
        """Return the judge's reason to stop, where this is the time to ask; take out whom it says."""
        last = state.rounds == schedule.most_rounds
        if not last and state.rounds not in schedule.looks:
            return None
        runs = self._runs(state)
        for run in runs:
            self._builder.save(run)
        told = judge(runs)
        if isinstance(told, str):
            return told
        if told:
            state.places = [place for place in state.places if place not in told]
        return f"the maximum of {state.rounds} round{'s' if state.rounds > 1 else ''} was reached" if last else None

    def _runs(self, state: _State) -> list[Run]:
        """Return the runs so far; one that another's failure left without any result is cancelled."""
        runs = []
        for job, sessions, run_id in zip(state.jobs, state.sessions, state.ids, strict=True):
            run = self._builder.build(job, sessions, created=state.created, run_id=run_id)
            runs.append(self._builder.note_outputs(run, sessions) if sessions else replace(run, status="cancelled"))
        return runs

    def _finish(self, state: _State, *, cancelled: bool = False) -> list[Run]:
        """Return the runs as they are kept: with the agreement of their outputs."""
        runs = self._runs(state)
        if cancelled:
            runs = [replace(run, status="cancelled") if run.status == "done" else run for run in runs]
        runs = self._builder.with_agreement(runs)
        for index, run in enumerate(runs):
            if run.sessions or run.failure is not None:
                self._builder.save(run)
            emit(JobStarted(job=run.job, index=index, total=len(runs)))
            emit(RunFinished(run=run))
        return runs

    def _round(self, state: _State, room: Path, schedule: Schedule, *, end_by: float) -> bool:
        """One fresh process of every job; whether the round is complete. An incomplete one leaves its failures only.

        A worker that is ended with the budget is no failure, unless it is in the first round: then there is nothing
        to tell but that the budget was too short.
        """
        state.take_places()
        if state.jobs[0].workload.interleave == "rounds":
            told = self._one_by_one(state, room, end_by=end_by)
        else:
            told = self._together(state, room, turns=schedule.turns or TURNS, end_by=end_by)
        failed = {place: result for place, (result, _) in told.items() if result.failure is not None}
        if not failed:
            for place, (result, _) in told.items():
                state.sessions[place].append(result)
            state.rounds += 1
            return True
        for place, result in failed.items():
            if state.rounds and told[place][1]:
                continue
            state.sessions[place].append(result)
            state.places.remove(place)
        return False

    def _one_by_one(self, state: _State, room: Path, *, end_by: float) -> dict[int, tuple[SessionResult, bool]]:
        """Place → what its worker told, and whether it ran out of time; ends with the first failure."""
        told = {}
        for place in state.places:
            folder = room / str(place)
            folder.mkdir()
            request = self._builder.request(state.jobs[place], index=state.rounds)
            with LiveSession(request, folder=folder, end_by=end_by) as live:
                live.start(state.target(place))
                live.wait_for("done")
            told[place] = (live.result, live.out_of_time)
            if live.result.failure is not None:
                break
        return told

    def _together(
        self, state: _State, room: Path, *, turns: int, end_by: float
    ) -> dict[int, tuple[SessionResult, bool]]:
        """As `_one_by_one`, with all processes alive; each starts and warms up while the others wait."""
        live: dict[int, LiveSession] = {}
        with ExitStack() as stack:
            broken: int | None = None
            for place in state.places:
                folder = room / str(place)
                folder.mkdir()
                request = self._builder.request(state.jobs[place], index=state.rounds, mode="turns")
                live[place] = stack.enter_context(LiveSession(request, folder=folder, end_by=end_by))
                live[place].start(state.target(place))
                if not live[place].wait_for("ready"):
                    broken = place
                    break
                live[place].pause()
            used_s = 0.0
            if broken is None:
                broken = _order(live, "count", answer="counted")
                begin_s = time.process_time()
                broken = _take_turns(live, turns, order=state.order) if broken is None else broken
                broken = _order(live, "count", answer="counted") if broken is None else broken
                used_s = time.process_time() - begin_s
            if broken is None:
                broken = _order(live, "end", answer="done")
            if broken is not None:
                # What the others did is of no use without it.
                for place, session in live.items():
                    if place != broken:
                        session.dismiss()
        told = {place: (session.result, session.out_of_time) for place, session in live.items()}
        if broken is None:
            is_here = state.target(state.places[0]).is_here
            counters = [result.facts["counters"] for result, _ in told.values() if "counters" in result.facts]
            leave_out_own_load(counters, host_cpu_s=used_s if is_here else 0.0)
        return told


def _take_turns(live: dict[int, LiveSession], turns: int, *, order: random.Random) -> int | None:
    """Run the turns in random order; returns the place of a worker that failed."""
    spent = dict.fromkeys(live, 0.0)
    usual_s, longest_s = (seconds * turns / TURNS for seconds in (ROUND_S, LONG_ROUND_S))
    for turn in range(turns):
        average = sum(spent.values()) / len(spent)
        if (turn >= LEAST_TURNS and average >= usual_s) or (turn >= FEW_TURNS and average >= longest_s):
            break
        places = list(live)
        order.shuffle(places)
        for place in places:
            begin = now()
            live[place].send("turn", seconds=TURN_S, most=MOST_A_TURN)
            if not live[place].wait_for("turned"):
                return place
            spent[place] += now() - begin
            live[place].pause()
    return None


def _order(live: dict[int, LiveSession], order: str, *, answer: str) -> int | None:
    """Give every worker an order, one after the other; returns the place of one that fails before its answer."""
    for place, session in live.items():
        session.send(order)
        if not session.wait_for(answer):
            return place
        if answer != "done":
            session.pause()
    return None


def leave_out_own_load(counters: Sequence[dict[str, float | None]], *, host_cpu_s: float) -> None:
    """Take the processor time of edgewise's own processes out of each one's ``busy_share_of_others``.

    Args:
        counters: of all workers of a round, each over the same window, changed in place: what only served this is
            removed. The share is unknown where the processor time of one of them is.
        host_cpu_s: processor time of this process in that window, s, where it runs on the same machine.
    """
    windows = [(each.pop("window_s", 0.0), each.pop("window_cores", 0), each.pop("window_cpu_s", None))
               for each in counters]  # fmt: skip
    for place, (each, (seconds, cores, _)) in enumerate(zip(counters, windows, strict=True)):
        others, used = each.get("busy_share_of_others"), [cpu for at, (*_, cpu) in enumerate(windows) if at != place]
        if others is None or None in used or not seconds or not cores:
            each["busy_share_of_others"] = None
            continue
        own = (sum(cpu or 0.0 for cpu in used) + host_cpu_s) / (seconds * cores)
        each["busy_share_of_others"] = max(0.0, others - own)


def _manner(jobs: Sequence[Job]) -> Interleave:
    return "rounds" if any(job.workload.scenario != Scenario() for job in jobs) else "turns"


def _side_by_side(workload: Workload, manner: Interleave) -> Workload:
    """`workload` as it is measured in turns; language models answer the same prompts, however fast they are."""
    stopping = workload.stopping
    if workload.scenario.kind == "generate":
        stopping = replace(stopping, iterations=stopping.iterations or REQUESTS, duration_s=None)
    return replace(workload, interleave=manner, stopping=stopping)


def _expected(begin: float, schedule: Schedule, rounds: int) -> int:
    """Return rounds that the budget seems to have room for, for progress bars."""
    if not rounds:
        return schedule.looks[0] if schedule.looks else schedule.most_rounds or 1
    fit = int(schedule.budget_s * rounds / max(1e-9, now() - begin))
    nxt = next((look for look in schedule.looks if look > rounds), rounds + 1)
    return max(rounds + 1, min(nxt, fit, schedule.most_rounds or fit))


def check_budget(schedule: Schedule) -> None:
    """Raise `BadInput` for a budget of no time, or of more than `LONGEST_S`."""
    if not 0.0 < schedule.budget_s <= LONGEST_S:
        raise BadInput(
            f"the time budget must be above 0 s and at most a week, not {schedule.budget_s:g} s",
            advice="for example ⟦time_budget=60s⟧",
        )
