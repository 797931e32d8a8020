"""Measuring side by side, with workers that are threads: who has a turn when, and what every bad end leaves behind."""

from __future__ import annotations

import itertools
import queue
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.progress import Event, RunFinished, SessionStarted, reporting_to
from edgewise.record import Job, Run, Scenario, Stopping, TargetSpec
from edgewise.run import interleaving
from edgewise.run.counters import Counters
from edgewise.run.dispatch import Interrupted
from edgewise.run.interleaving import Interleaved, Interleaver, Schedule, leave_out_own_load
from edgewise.run.measurements import WARMUP_KEPT
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import Sensors
from edgewise.testing import write_fake_model
from messages import says, wording
from scripted_clock import ScriptedClock
from threaded_workers import Line, Part, ThreadProcess, install, interrupt_round, play_worker

MS = 1_000_000
NO_METERS = Sensors(absences={"energy": "no meter was asked"})


@pytest.fixture(autouse=True)
def transport(monkeypatch, clock):
    """All workers are threads; what they heard is written down. Time is what the tests say."""
    return install(monkeypatch, turns=5)


def job_of(folder: Path, name: str, *, scenario: Scenario | None = None, timeout: float = 120.0, **script) -> Job:
    """A job that measures a scripted model called `name`."""
    path = write_fake_model(folder / name, **{"latency_ns": [MS], **script})
    plan = make_plan(
        [path],
        axes=Axes(runtimes=("fake",)),
        scenario=scenario or Scenario(),
        stopping=Stopping(timeout_s=timeout),
        target=TargetSpec(),
    )
    return plan.jobs[0]


def jobs_of(folder: Path, *names: str, **settings) -> list[Job]:
    """One job per name, of 1.0 ms, 1.1 ms, 1.2 ms …"""
    return [
        job_of(folder, name, **{"latency_ns": [MS + place * MS // 10], **settings}) for place, name in enumerate(names)
    ]


def never(runs: Sequence[Run]) -> None:
    """A judge that never has enough."""


def measure(
    jobs: Sequence[Job], *, rounds: int | None = 1, judge=never, saved: list[Run] | None = None, progress=None, **facts
) -> Interleaved:
    """`jobs` side by side."""
    kept = saved if saved is not None else []
    schedule = Schedule(**{"budget_s": 30.0, "most_rounds": rounds, **facts})
    with reporting_to(progress):
        return Interleaver(save=kept.append, sensors=NO_METERS).execute(jobs, schedule, judge)


def samples_of(run: Run) -> tuple[float, ...]:
    row = run.measurement("latency")
    return row.samples if row else ()


def turn_counts(run: Run) -> list[list[int]]:
    return [session.facts["steady"]["turns"] for session in run.sessions]


# --- turns ---


def test_numbers_are_the_scripts_and_sessions_belong_together(tmp_path):
    a, b = measure(jobs_of(tmp_path, "a.fake", "b.fake"), rounds=3).runs
    assert [len(run.sessions) for run in (a, b)] == [3, 3]
    assert set(samples_of(a)) == {1e-3} and set(samples_of(b)) == {1.1e-3}
    assert a.group == b.group is not None and a.id != b.id
    assert {run.job.workload.interleave for run in (a, b)} == {"turns"}
    assert a.status == b.status == "done" and a.failure is None
    for run in (a, b):
        assert [session.index for session in run.sessions] == [0, 1, 2]
        assert sum(map(sum, turn_counts(run))) == len(samples_of(run))


def test_turns_last_as_long_for_a_slow_model_as_for_a_fast_one(tmp_path, monkeypatch):
    install(monkeypatch, turns=100)
    jobs = [
        job_of(tmp_path, name, latency_ns=[nanoseconds])
        for name, nanoseconds in {"short": 10_000, "one": MS, "three": 3 * MS, "long": 20 * MS}.items()
    ]
    counts = [Counter(turn_counts(run)[0]) for run in measure(jobs).runs]
    assert counts == [Counter({50: 100}), Counter({4: 100}), Counter({1: 100}), Counter({1: 100})]


def test_every_worker_has_one_turn_in_each_cycle_and_the_order_is_random(tmp_path, monkeypatch):
    transport = install(monkeypatch, turns=100)
    jobs = jobs_of(tmp_path, "a", "b", "c")
    measure(jobs, rounds=2)
    turns = transport.turns()
    cycles = [tuple(turns[place : place + 3]) for place in range(0, len(turns), 3)]
    assert len(turns) == 2 * 3 * interleaving.TURNS
    assert {tuple(sorted(cycle)) for cycle in cycles} == {("a", "b", "c")}
    counts = Counter(cycles)
    assert len(counts) == 6  # every order
    # 200 cycles: 33 of each order expected; 10 would be 4.4 standard deviations away.
    assert min(counts.values()) > 10


def test_whom_the_judge_takes_out_is_measured_no_more(tmp_path, transport):
    def judge(runs: Sequence[Run]) -> list[int]:
        return [1]

    done = measure(jobs_of(tmp_path, "a", "b", "c"), rounds=3, looks=(1,), judge=judge)
    assert [len(run.sessions) for run in done.runs] == [3, 1, 3] and done.rounds == 3
    assert [run.status for run in done.runs] == ["done"] * 3
    assert Counter(transport.turns()) == {"a": 15, "b": 5, "c": 15}


def test_one_that_is_left_alone_is_measured_no_more(tmp_path):
    done = measure(jobs_of(tmp_path, "a", "b"), rounds=3, looks=(1,), judge=lambda runs: [0])
    assert (done.rounds, done.stopped_because) == (1, "too few variants are left to compare")


def test_one_worker_runs_at_a_time(tmp_path, monkeypatch):
    running: set[int] = set()
    most: list[int] = []
    number = itertools.count()

    def begin(process: ThreadProcess, *words: object) -> None:
        started(process, *words)
        process.mark = next(number)
        running.add(process.mark)

    def resume(process: ThreadProcess) -> None:
        running.add(process.mark)
        most.append(len(running))

    started = ThreadProcess.__init__
    monkeypatch.setattr(ThreadProcess, "__init__", begin)
    monkeypatch.setattr(ThreadProcess, "pause", lambda process: running.discard(process.mark), raising=False)
    monkeypatch.setattr(ThreadProcess, "resume", resume, raising=False)
    measure(jobs_of(tmp_path, "a", "b", "c"))
    # counts at both ends, five turns and the end; those that have ended stay resumed
    assert most[: 3 + 15 + 3] == [1] * 21 and most[21:] == [1, 2, 3]


def order_of_turns(folder, monkeypatch, *, seed, scenario=None) -> list[tuple[str, str]]:
    threads = install(monkeypatch, turns=10)
    measure(jobs_of(folder, "a", "b", scenario=scenario), rounds=2, seed=seed)
    return [(Path(job["model"]).name, "start") for job in threads.jobs] + threads.orders


@pytest.mark.parametrize("scenario", [None, Scenario(kind="offline")])
def test_one_seed_gives_one_order_and_another_seed_another(tmp_path, monkeypatch, scenario):
    orders = {}
    for seed in (1, 1, 2, 3, 4, 5):
        found = order_of_turns(tmp_path, monkeypatch, seed=seed, scenario=scenario)
        assert orders.setdefault(seed, found) == found
    assert len({tuple(found) for found in orders.values()}) > 1


def test_workers_start_in_random_order(tmp_path, transport, monkeypatch):
    measure(jobs_of(tmp_path, "a", "b"), rounds=12)
    first = [Path(job["model"]).name for job in transport.jobs][::2]
    assert set(first) == {"a", "b"}


def starts_by_round(transport, jobs: int) -> list[list[str]]:
    """Models in the order of the starts, one list per round."""
    started = [Path(job["model"]).name for job in transport.jobs]
    return [started[place : place + jobs] for place in range(0, len(started), jobs)]


def test_every_second_round_has_the_places_the_other_way_round(tmp_path, transport, monkeypatch):
    measure(jobs_of(tmp_path, "a", "b", "c"), rounds=6)
    rounds = starts_by_round(transport, 3)
    assert rounds[1::2] == [found[::-1] for found in rounds[::2]]


def test_all_processes_of_a_round_are_alive_before_the_first_turn(tmp_path, transport, monkeypatch):
    seen: list[int] = []
    real = transport.start

    def start(*words, **facts):
        seen.append(len(transport.turns()))
        return real(*words, **facts)

    monkeypatch.setattr(transport, "start", start)
    measure(jobs_of(tmp_path, "a", "b", "c"), rounds=2)
    assert seen == [0, 0, 0, 15, 15, 15]


def test_a_slow_model_ends_a_round_by_time_but_not_before_some_turns(tmp_path, monkeypatch):
    install(monkeypatch, turns=100)
    monkeypatch.setattr(interleaving, "ROUND_S", 0.0)
    a, b = measure(jobs_of(tmp_path, "a", "b")).runs
    assert len(turn_counts(a)[0]) == len(turn_counts(b)[0]) == interleaving.LEAST_TURNS
    monkeypatch.setattr(interleaving, "LONG_ROUND_S", 0.0)
    a, b = measure(jobs_of(tmp_path, "a", "b")).runs
    assert len(turn_counts(a)[0]) == len(turn_counts(b)[0]) == interleaving.FEW_TURNS


class Player:
    """A live session whose turns take `seconds` of `clock`."""

    def __init__(self, clock: ScriptedClock, seconds: float) -> None:
        self.turns = 0
        self._clock = clock
        self._seconds = seconds

    def send(self, kind: str, **fields: float) -> None:
        assert kind == "turn"
        assert fields == {"seconds": interleaving.TURN_S, "most": interleaving.MOST_A_TURN}

    def pause(self) -> None:
        """Time passes in turns only."""

    def wait_for(self, kind: str) -> bool:
        assert kind == "turned"
        self.turns += 1
        self._clock.let_pass(self._seconds)
        return True


def turns_of(clock, *seconds: float, turns: int = 100) -> int:
    """How many turns each has in a round, where one turn takes them so long."""
    assert interleaving.TURNS == 100
    live = dict(enumerate(Player(clock, each) for each in seconds))
    assert interleaving._take_turns(live, turns, order=Random(1)) is None
    (count,) = {player.turns for player in live.values()}
    return count


@pytest.mark.parametrize(
    ("seconds", "turns"),
    [
        ((0.004, 0.004), 100),  # as many as there are
        ((0.0625, 0.0625), 24),  # 1.5 s each
        ((0.125, 0.0), 24),  # 1.5 s on average: the fast one does not keep the slow one at it
        ((0.375, 0.0, 0.0), 12),  # 4.5 s of one and nothing of two
        ((1.0, 0.001), 5),  # above 1.5 s after three turns, but not before five
        ((4.0, 0.0), 3),  # 6 s on average after three turns
        ((8.0, 0.001), 2),  # 8 s on average after two turns
        ((60.0, 0.001), 2),  # above 6 s after one turn, but one has no neighbour
    ],
)
def test_a_round_ends_by_what_all_of_its_turns_took(monkeypatch, clock, seconds, turns):
    monkeypatch.setattr(interleaving, "TURNS", 100)
    assert turns_of(clock, *seconds) == turns
    assert turns_of(clock, *seconds[::-1]) == turns


@pytest.mark.parametrize(
    ("seconds", "turns"),
    [
        ((0.004, 0.004), 25),
        ((0.0625, 0.0625), 6),  # 0.375 s each, a quarter of the usual
        ((0.125, 0.125), 5),  # above it after four turns, but not before five
        ((1.0, 0.001), 3),  # above 1.5 s after three turns
        ((8.0, 0.001), 2),
    ],
)
def test_a_short_round_is_shorter_in_proportion(monkeypatch, clock, seconds, turns):
    monkeypatch.setattr(interleaving, "TURNS", 100)
    assert turns_of(clock, *seconds, turns=25) == turns


def test_a_schedule_may_ask_for_few_turns(tmp_path, monkeypatch):
    install(monkeypatch, turns=100)
    a, b = measure(jobs_of(tmp_path, "a", "b"), turns=7).runs
    assert len(turn_counts(a)[0]) == len(turn_counts(b)[0]) == 7


def test_places_of_odd_rounds_are_those_of_the_round_before_reversed():
    jobs = range(4)
    state = interleaving._State(jobs=[], sessions=[], ids=[], created="", places=list(jobs), order=Random(3))
    seen = []
    for state.rounds in range(40):
        state.take_places()
        seen.append(tuple(state.places))
    assert [places[::-1] for places in seen[::2]] == seen[1::2]
    assert len(set(seen[::2])) > 10
    # So everyone is as often before as after everyone else.
    before = Counter((a, b) for places in seen for a in jobs for b in jobs if places.index(a) < places.index(b))
    assert set(before.values()) == {20} and len(before) == 12


def test_a_prescribed_warmup_is_kept_and_not_in_the_samples(tmp_path):
    jobs = [job_of(tmp_path, name, latency_ns=[MS], warmup_ns=[9 * MS, 8 * MS, 7 * MS, 6 * MS]) for name in ("a", "b")]
    jobs = [
        replace(job, workload=replace(job.workload, stopping=replace(job.workload.stopping, warmup=4))) for job in jobs
    ]
    for run in measure(jobs).runs:
        assert set(samples_of(run)) == {1e-3}
        assert run.value("latency_first") == pytest.approx(9e-3)
        (session,) = run.sessions
        assert session.warmup == 4
        assert session.warmup_samples == pytest.approx((8e-3, 7e-3, 6e-3))


def test_of_a_long_warmup_the_first_times_are_kept_and_the_count_of_all(tmp_path):
    rising = [(1000 + step) * 1000 for step in range(1500)]
    jobs = [job_of(tmp_path, name, warmup_ns=rising) for name in ("a", "b")]
    jobs = [
        replace(job, workload=replace(job.workload, stopping=replace(job.workload.stopping, warmup=1500)))
        for job in jobs
    ]
    for run in measure(jobs).runs:
        (session,) = run.sessions
        assert session.warmup == 1500
        assert len(session.warmup_samples) == WARMUP_KEPT == 1000
        # The first inference of all is told apart.
        assert session.warmup_samples == pytest.approx([value * 1e-9 for value in rising[1:1001]])
        assert set(samples_of(run)) == {1e-3}


def test_the_warmup_that_the_data_show_is_left_out(tmp_path):
    jobs = [job_of(tmp_path, name, warmup_ns=[9 * MS] * 8) for name in ("a", "b")]
    for run in measure(jobs).runs:
        assert set(samples_of(run)) == {1e-3}


def test_a_model_that_never_settles_is_measured_all_the_same(tmp_path):
    rising = [round(MS * 1.02**step) for step in range(200)]
    runs = measure([job_of(tmp_path, "a", latency_ns=rising), job_of(tmp_path, "b")]).runs
    assert [run.status for run in runs] == ["done", "done"]
    assert runs[0].sessions[0].facts["steady"]["warmup_found"] is False


def test_the_call_is_the_headline_and_the_engines_own_clock_is_kept(tmp_path):
    jobs = [job_of(tmp_path, name, latency_ns=[MS], engine_latency_ns=[900_000]) for name in ("a", "b")]
    for run in measure(jobs).runs:
        assert set(samples_of(run)) == {1e-3}
        assert run.value("latency_engine") == pytest.approx(9e-4)


# --- the load of other processes ---


def counted(others: float | None, *, cpu_s: float | None = 0.5, cores: float = 2) -> dict[str, float | None]:
    """What a worker tells of a window of 2 s."""
    return {"busy_share_of_others": others, "window_s": 2.0, "window_cpu_s": cpu_s, "window_cores": cores}


@pytest.mark.parametrize(
    ("workers", "host_cpu_s", "shares"),
    [
        # Two workers of 0.5 s each, in 2 s of two cores: each sees 0.125 of the other.
        ([counted(0.875), counted(0.875)], 0.0, [0.75, 0.75]),
        ([counted(0.125), counted(0.125)], 0.0, [0.0, 0.0]),
        ([counted(0.875), counted(0.875)], 0.25, [0.6875, 0.6875]),  # the host's 0.25 s are no others' either
        ([counted(0.875, cpu_s=1.0), counted(0.75)], 0.0, [0.75, 0.5]),
        ([counted(0.0625), counted(0.0625)], 0.0, [0.0, 0.0]),  # ticks and exact times are booked apart
        ([counted(0.5, cpu_s=0.25)] * 1, 0.0, [0.5]),
        ([counted(None), counted(0.5)], 0.0, [None, 0.375]),
        ([counted(0.5), counted(0.5, cpu_s=None)], 0.0, [None, 0.375]),  # the second's own time is not in its share
        ([counted(0.5, cores=0), counted(0.5)], 0.0, [None, 0.375]),
        ([{}, counted(0.5)], 0.0, [None, None]),
    ],
)
def test_the_load_of_others_is_without_what_takes_turns(workers, host_cpu_s, shares):
    found = [dict(each) for each in workers]
    leave_out_own_load(found, host_cpu_s=host_cpu_s)
    assert found == [{"busy_share_of_others": share} for share in shares]


def test_all_count_before_the_first_turn_and_after_the_last(tmp_path, transport):
    measure(jobs_of(tmp_path, "a", "b"))
    kinds = [kind for _, kind in transport.orders]
    assert kinds == ["count"] * 2 + ["turn"] * 10 + ["count"] * 2 + ["end"] * 2


BUSY = Counters(monotonic_ns=0, process_cpu_s=0.0, cores=(0, 1), busy_s=0.0, idle_s=0.0, iowait_s=0.0, steal_s=0.0)


def test_a_run_in_turns_has_the_caution_and_the_grade_of_a_busy_machine(tmp_path, monkeypatch):
    """2 s of two cores: 3.5 s were busy, 0.5 s by each of the two workers, so that others used 2.5 of 4 s."""
    later = replace(BUSY, monotonic_ns=2_000_000_000, process_cpu_s=0.5, busy_s=3.5, idle_s=0.5)
    before, after = itertools.repeat(BUSY, 6), itertools.repeat(later)  # loading, the phase and the count of each
    monkeypatch.setattr("edgewise.run.counters.read_counters", itertools.chain(before, after).__next__)
    monkeypatch.setattr("edgewise.run.interleaving.time", SimpleNamespace(process_time=lambda: 0.0))
    runs = measure(jobs_of(tmp_path, "a", "b")).runs
    for run in runs:
        (session,) = run.sessions
        assert session.facts["counters"]["busy_share_of_others"] == 0.625
        assert [each.message for each in run.cautions if each.code == "busy-host"] == [
            "other processes used up to 62% of the processor time"
        ]
        assert run.trust.grade == "C"
        assert run.measurement("cpu_utilization").absent_because == wording("turns-process-processor-part-time")


# --- scenarios ---


@pytest.mark.parametrize(
    ("scenario", "metric", "value"),
    [
        (Scenario(kind="offline"), "throughput", 1000.0),
        (Scenario(kind="paced", fps=100.0), "latency_paced", 1e-3),
    ],
)
def test_scenarios_with_a_schedule_run_one_after_the_other(tmp_path, transport, scenario, metric, value):
    a, b = measure(jobs_of(tmp_path, "a", "b", scenario=scenario), rounds=2).runs
    assert {run.job.workload.interleave for run in (a, b)} == {"rounds"}
    assert transport.orders == [] and all(job["mode"] == "measure" for job in transport.jobs)
    assert a.value(metric) == pytest.approx(value, rel=0.01)
    assert len(a.sessions) == len(b.sessions) == 2


def test_jobs_of_two_scenarios_run_one_after_the_other(tmp_path):
    jobs = [job_of(tmp_path, "a"), job_of(tmp_path, "b", scenario=Scenario(kind="offline"))]
    for order in (jobs, jobs[::-1]):
        runs = measure(order).runs
        assert [run.status for run in runs] == ["done", "done"], [run.failure for run in runs]


# --- when it ends ---


def test_the_judge_is_asked_at_the_looks_only_and_its_reason_ends_it(tmp_path, monkeypatch):
    asked: list[int] = []

    def judge(runs: Sequence[Run]) -> str | None:
        asked.append(len(runs[0].sessions))
        return "enough" if len(asked) == 3 else None

    saved: list[Run] = []
    done = measure(jobs_of(tmp_path, "a", "b"), rounds=None, looks=(1, 2, 4, 7), judge=judge, saved=saved)
    assert asked == [1, 2, 4]
    assert (done.rounds, done.stopped_because) == (4, "enough")
    # All runs are saved at every look, each time under the same name.
    counts = [(run.id, len(run.sessions)) for run in saved]
    a, b = (run.id for run in done.runs)
    assert counts[:6] == [(a, 1), (b, 1), (a, 2), (b, 2), (a, 4), (b, 4)]
    assert {run_id for run_id, _ in counts} == {a, b}


def test_so_many_rounds_and_no_more(tmp_path, monkeypatch):
    done = measure(jobs_of(tmp_path, "a", "b"), rounds=3)
    assert (done.rounds, done.stopped_because) == (3, "the maximum of 3 rounds was reached")


def test_a_round_that_would_not_fit_is_not_begun(tmp_path, clock):
    """A round takes more than half of the budget: there is one, and the judge is asked in the end."""
    begun = []

    def slow(event: Event) -> None:
        if isinstance(event, SessionStarted):
            begun.append(event)
            clock.let_pass(60.0)

    asked: list[int] = []

    def judge(runs: Sequence[Run]) -> str | None:
        asked.append(len(runs[0].sessions))
        return None

    done = measure(jobs_of(tmp_path, "a", "b"), rounds=None, budget_s=100.0, judge=judge, progress=slow)
    assert len(begun) == done.rounds == 1
    assert asked == [1]
    assert done.stopped_because == wording("time-budget-s-ended", budget_s=100)
    assert [len(run.sessions) for run in done.runs] == [1, 1]
    assert done.elapsed_s == 60.0


def test_a_judge_that_refuses_ends_it(tmp_path, transport):
    def judge(runs: Sequence[Run]) -> str | None:
        raise BadInput("another task")

    with pytest.raises(BadInput, match="another task"):
        measure(jobs_of(tmp_path, "a", "b"), rounds=None, looks=(1,), judge=judge)
    assert len(transport.jobs) == len(transport.ended) == 2


def test_every_round_and_every_run_is_an_event(tmp_path):
    events: list[Event] = []
    measure(jobs_of(tmp_path, "a", "b"), rounds=3, progress=events.append)
    rounds = [event for event in events if isinstance(event, SessionStarted)]
    assert [event.index for event in rounds] == [0, 1, 2]
    # A bar that is full before the work is done would lie.
    assert all(event.index < event.total for event in rounds)
    finished = [event.run.job.model.name for event in events if isinstance(event, RunFinished)]
    assert finished == ["a", "b"] and isinstance(events[-1], RunFinished)


# --- bad ends ---


def come_to_turn(line: Line) -> None:
    """As every worker does until its first turn."""
    line.say_hello()
    line.send("ready")
    assert line.hear()["kind"] == "count"
    line.send("counted")
    assert line.hear()["kind"] == "turn"


def vanish(line: Line) -> None:
    """A worker that dies in its second turn."""
    come_to_turn(line)
    line.send("turned", count=1)
    line.hear()


def saying(*messages: bytes) -> Part:
    """A worker that says this in its first turn, and then nothing any more."""

    def part(line: Line) -> None:
        come_to_turn(line)
        for message in messages:
            line.write(message)
        line.hear()

    return part


def silent(line: Line) -> None:
    """A worker that hangs in its first turn."""
    come_to_turn(line)
    line.sleep()


def dead_at_once(line: Line) -> None:
    """A worker that never says a word."""


def failing(line: Line) -> None:
    """A worker whose engine can't load the model."""
    line.say_hello()
    line.send("failed", cause="Unsupported", message="no such operator")


BAD_ENDS: dict[str, tuple[Part, str, str]] = {
    "dies in a turn": (vanish, "Killed", "killed"),
    "dies at once": (dead_at_once, "Killed", "killed"),
    "says that it can't": (failing, "Unsupported", "no such operator"),
    "talks nonsense": (saying(b"\x00\xff nonsense\n"), "Garbage", "protocol"),
    "turns a list": (saying(b"[]\n"), "Garbage", "protocol"),
    "an unknown kind": (saying(b'{"kind":"hurray"}\n'), "Garbage", "protocol"),
    "a turn of nothing": (saying(b'{"kind":"turned"}\n'), "Garbage", "count"),
    "samples of words": (
        saying(b'{"kind":"samples","name":"latency","values_ns":["x"]}\n'), "Garbage", "protocol"
    ),
    "done in a turn": (saying(b'{"kind":"done"}\n'), "Garbage", "done before the host"),
    "hangs in a turn": (silent, "Timeout", "no message from the worker"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("how", "at"),
    [*((how, 0) for how in BAD_ENDS), ("done in a turn", 2), ("hangs in a turn", 2), ("samples of words", 2)],
)
def test_one_of_three_fails_and_the_others_go_on(tmp_path, transport, clock, how, at):
    part, cause, words = BAD_ENDS[how]
    transport.parts = {("b", at): part}
    saved: list[Run] = []
    begin, hangs = clock.now(), how == "hangs in a turn"
    done = measure(jobs_of(tmp_path, "a", "b", "c"), rounds=4, saved=saved, budget_s=3600.0)
    assert clock.now() - begin == (120.0 if hangs else 0.0)  # the timeout
    b = done.runs[1]
    assert [run.status for run in done.runs] == ["done", "failed", "done"]
    assert b.failure.cause == cause and words in b.failure.message, b.failure
    # The round in which it failed leaves nothing, and pairs stay pairs.
    assert [len(run.sessions) for run in done.runs] == [4, at, 4]
    assert done.rounds == 4
    assert samples_of(b) == () if at == 0 else set(samples_of(b)) == {1.1e-3}
    assert {run.id for run in saved} == {run.id for run in done.runs}
    assert len(transport.ended) == len(transport.jobs)


def test_of_two_one_fails_and_nothing_is_left_to_compare(tmp_path, transport):
    transport.parts = {("a", 0): failing}
    done = measure(jobs_of(tmp_path, "a", "b"), rounds=4)
    a, b = done.runs
    assert (a.status, b.status) == ("failed", "cancelled")
    assert done.rounds == 0 and done.stopped_because == wording("too-few-variants-left-compare")
    assert b.failure is None and not b.sessions


def test_of_two_one_fails_later_and_the_complete_rounds_stay(tmp_path, transport, monkeypatch):
    transport.parts = {("a", 2): vanish}
    a, b = measure(jobs_of(tmp_path, "a", "b"), rounds=6).runs
    assert (a.status, b.status) == ("failed", "done")
    assert [len(run.sessions) for run in (a, b)] == [2, 2]


def test_both_fail_one_after_the_other(tmp_path, transport, monkeypatch):
    transport.parts = {(name, start): failing for name in "abc" for start in range(6)}
    done = measure(jobs_of(tmp_path, "a", "b", "c"), rounds=4)
    assert Counter(run.status for run in done.runs) == {"failed": 2, "cancelled": 1}
    assert done.rounds == 0


def test_a_failure_of_rounds_leaves_the_round_incomplete(tmp_path, transport):
    transport.parts = {("b", 1): failing}
    jobs = jobs_of(tmp_path, "a", "b", "c", scenario=Scenario(kind="offline"))
    done = measure(jobs, rounds=3)
    assert [run.status for run in done.runs] == ["done", "failed", "done"]
    assert [len(run.sessions) for run in done.runs] == [3, 1, 3]


def test_a_worker_that_cannot_be_started_is_a_failed_run(tmp_path, transport, monkeypatch):
    real = transport.start

    def start(*words, folder, environment, stderr):
        if len(transport.jobs) == 1:
            raise OSError("no more processes")
        return real(*words, folder=folder, environment=environment, stderr=stderr)

    monkeypatch.setattr(transport, "start", start)
    runs = measure(jobs_of(tmp_path, "a", "b"), rounds=1).runs
    (failed,) = [run for run in runs if run.status == "failed"]
    assert failed.failure.cause == "Unavailable" and "no more processes" in failed.failure.message


def honest_but_early(line: Line) -> None:
    """A worker that tells everything at once, without waiting for a turn."""
    fake_line = Line({**line.job, "mode": "measure"}, line.number, queue.SimpleQueue(), line._channel)
    play_worker(fake_line)


@pytest.mark.parametrize("place", ["a", "b"])
def test_a_worker_that_is_done_without_any_turn_broke_the_protocol(tmp_path, transport, monkeypatch, place):
    transport.parts = {(place, start): honest_but_early for start in range(4)}
    done = measure(jobs_of(tmp_path, "a", "b"), rounds=1)
    (failed,) = [run for run in done.runs if run.status == "failed"]
    assert failed.job.model.name == place and failed.failure.cause == "Garbage"


def chatty(line: Line) -> None:
    """A worker that is alive, alive, alive … for ever."""
    line.say_hello()
    while True:
        line.send("alive")
        line.sleep(0.25)


def test_a_worker_that_talks_without_end_does_not_outlast_the_budget(tmp_path, transport):
    transport.parts = {("b", 0): chatty, ("a", 0): chatty}
    done = measure(jobs_of(tmp_path, "a", "b"), budget_s=0.5)
    assert done.elapsed_s == 0.5


# --- the budget ends in a round ---


def test_a_budget_that_ends_in_the_first_round_is_the_one_reason(tmp_path, transport):
    transport.parts = {("b", 0): silent}
    done = measure(jobs_of(tmp_path, "a", "b"), budget_s=0.7)
    assert done.elapsed_s == pytest.approx(0.7)  # the job's own timeout is 120 s
    a, b = done.runs
    assert (a.status, b.status) == ("cancelled", "failed")
    assert b.failure.cause == "Timeout" and re.search(says("time-budget-ended-phase-so"), b.failure.message)
    assert "--time-budget" in b.failure.advice
    assert done.rounds == 0


@pytest.mark.parametrize("scenario", [None, Scenario(kind="offline")])
def test_a_budget_that_ends_in_a_later_round_leaves_the_complete_ones(tmp_path, transport, monkeypatch, scenario):
    transport.parts = {("b", 2): silent if scenario is None else lambda line: line.sleep()}
    done = measure(jobs_of(tmp_path, "a", "b", scenario=scenario), rounds=None, budget_s=2.5)
    assert done.elapsed_s == 2.5  # the job's own timeout is 120 s
    assert [run.status for run in done.runs] == ["done", "done"], [run.failure for run in done.runs]
    assert [len(run.sessions) for run in done.runs] == [2, 2]
    assert done.stopped_because == wording("time-budget-s-ended", budget_s="2.5")


# --- Ctrl-C ---


def test_ctrl_c_keeps_the_complete_rounds(tmp_path, transport, monkeypatch):
    interrupt_round(monkeypatch, 2)
    saved: list[Run] = []
    with pytest.raises(Interrupted) as caught:
        measure(jobs_of(tmp_path, "a", "b"), rounds=5, saved=saved)
    assert [run.status for run in caught.value.runs] == ["cancelled", "cancelled"]
    assert [len(run.sessions) for run in caught.value.runs] == [2, 2]
    assert {run.id for run in saved} == {run.id for run in caught.value.runs}
    assert len(transport.ended) == len(transport.jobs) == 6


def test_ctrl_c_in_the_first_round_leaves_nothing(tmp_path, transport, monkeypatch):
    interrupt_round(monkeypatch, 0)
    saved: list[Run] = []
    with pytest.raises(Interrupted) as caught:
        measure(jobs_of(tmp_path, "a", "b"), rounds=5, saved=saved)
    assert [run.status for run in caught.value.runs] == ["cancelled", "cancelled"]
    assert saved == []
    assert len(transport.ended) == len(transport.jobs) == 2


# --- outputs ---


def test_outputs_are_compared_where_one_model_runs_in_two_settings(tmp_path, monkeypatch):
    job = job_of(tmp_path, "a")
    other = replace(job, runtime=replace(job.runtime, threads=2))
    runs = measure([job, other], rounds=3, looks=(1,)).runs
    assert all(run.value("output_max_abs_error") == 0.0 for run in runs[1:])


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("looks", [(), (1,)])
def test_outputs_that_are_no_numbers_are_told_in_the_runs_that_are_kept(tmp_path, monkeypatch, rounds, looks):
    jobs = [job_of(tmp_path, "a"), job_of(tmp_path, "b", behaviour={"at": "outputs", "do": "nan"})]
    saved: list[Run] = []
    done = measure(jobs, rounds=rounds, looks=looks, saved=saved)
    for run in (done.runs[1], saved[-1]):
        assert "output-not-finite" in {caution.code for caution in run.cautions}, run.cautions


def test_temporary_folders_are_gone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    measure(jobs_of(tmp_path, "a.fake", "b.fake"), rounds=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.fake", "b.fake"]


def test_the_ratio_of_turns_is_exact_where_the_scripts_ratio_is(tmp_path):
    """Times that swing by a quarter, B's always 1.05 of A's: what turns share does not hide the ratio."""
    swing = [round(MS * (1.0 + 0.25 * np.sin(step / 3.0))) * 20 for step in range(200)]
    jobs = [
        job_of(tmp_path, "a", latency_ns=swing, warmup_ns=[20 * MS]),
        job_of(tmp_path, "b", latency_ns=[value * 21 // 20 for value in swing], warmup_ns=[20 * MS]),
    ]
    jobs = [
        replace(job, workload=replace(job.workload, stopping=replace(job.workload.stopping, warmup=1))) for job in jobs
    ]
    a, b = measure(jobs).runs
    assert np.divide(samples_of(b), samples_of(a)) == pytest.approx(1.05, rel=1e-6)
