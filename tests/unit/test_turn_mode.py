"""Inferences timed when the host says so, on a clock that only the script moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from edgewise.run.counters import Counters
from edgewise.run.timing import Clock, Steady
from edgewise.run.turn_mode import SETTLE_BELOW_S, WARM_S, take_turns
from edgewise.runtime.base import LoadOptions
from edgewise.testing import FakeRuntime, write_fake_model
from messages import has, says

MS = 1_000_000
TURN = {"kind": "turn", "seconds": 0.004, "most": 50}
END = {"kind": "end"}
COUNT = {"kind": "count"}
BEFORE = Counters(
    monotonic_ns=0, process_cpu_s=1.0, involuntary_switches=5, cores=(0, 1), busy_s=10.0, idle_s=10.0, iowait_s=0.0,
    steal_s=0.0, throttled_s=(0.0,), memory_pressure_us=0,
)  # fmt: skip
AFTER = Counters(  # 2 s later, of which this process computed 0.5 s, and two processors 3.5 s
    monotonic_ns=2_000_000_000, process_cpu_s=1.5, involuntary_switches=45, cores=(0, 1), busy_s=13.5, idle_s=10.25,
    iowait_s=0.0, steal_s=0.25, throttled_s=(0.125,), memory_pressure_us=500_000,
)  # fmt: skip


class Patience:
    """Counts signs of life, and loses patience."""

    def __init__(self, most: int = 5000) -> None:
        self.beats = 0
        self._most = most

    def lines(self, done: int, average_s: float) -> None:
        raise AssertionError("nobody asked for lines")

    def beat(self) -> None:
        self.beats += 1
        if self.beats > self._most:
            raise TimeoutError("the pass does not end")


def session_of(folder, **script):
    """A scripted session that has made its first inference, and how often it was invoked since."""
    import numpy as np

    path = write_fake_model(folder / "m.fake", **{"latency_ns": [MS], **script})
    runtime = FakeRuntime()
    runtime.import_engine()
    session = runtime.load(path, LoadOptions(provider="cpu", shapes={}, dtypes={}, threads=1))
    session.bind([np.zeros((1, 4), dtype=np.float32)])
    session.invoke()
    return session


def turns(
    session,
    orders: Sequence[Mapping[str, Any]],
    *,
    warmup: int | None = 1,
    reporter: Patience | None = None,
    counters: Sequence[Counters] = (),
) -> tuple[Steady, list[tuple[str, Mapping[str, Any]]]]:
    """What came of `orders`, and what the host was told."""
    told: list[tuple[str, Mapping[str, Any]]] = []
    waiting = iter(orders)
    steady = take_turns(
        session,
        stopping={"warmup": warmup},
        clock=Clock.of(session),
        reporter=reporter or Patience(),
        tell=lambda kind, **fields: told.append((kind, fields)),
        next_order=lambda: next(waiting),
        read_counters=iter(counters).__next__,
    )
    return steady, told


def test_it_is_ready_before_the_first_turn_and_answers_each(tmp_path):
    steady, told = turns(session_of(tmp_path), [TURN, TURN, END])
    assert told == [("ready", {}), ("turned", {"count": 4}), ("turned", {"count": 4})]
    assert steady.samples == {"latency": [MS] * 8}
    assert steady.extra["turns"] == [4, 4]
    assert steady.stopped_because == "2 turns"
    assert steady.elapsed_ns == 8 * MS


@pytest.mark.parametrize(
    ("latency_ns", "order", "count"),
    [
        (10_000, TURN, 50),  # never more than was allowed
        (MS, TURN, 4),
        (3 * MS, TURN, 1),
        (5 * MS, TURN, 1),  # a turn too short for one inference has one
        (100 * MS, TURN, 1),
        (MS, {**TURN, "seconds": 0.0}, 1),
        (MS, {**TURN, "seconds": 1.0, "most": 7}, 7),
        (MS, {**TURN, "most": 0}, 1),
        (1, {**TURN, "most": 50}, 50),
    ],
)
def test_a_turn_has_as_many_inferences_as_fit(tmp_path, latency_ns, order, count):
    steady, _ = turns(session_of(tmp_path, latency_ns=[latency_ns]), [order, END])
    assert steady.extra["turns"] == [count]
    assert steady.samples["latency"] == [latency_ns] * count


def test_the_first_inference_of_a_turn_is_not_timed_where_inferences_are_short(tmp_path):
    """Per turn 5 ms for the cold one and 1 ms for the warm ones; the first inference and one warm-up go before."""
    cold, warm = 5 * MS, MS
    script = [warm, warm] + [cold, warm, warm, warm, warm] * 3
    steady, _ = turns(session_of(tmp_path, latency_ns=script), [TURN] * 3 + [END], warmup=2)
    assert steady.samples["latency"] == [warm] * 12


def test_long_inferences_are_all_timed(tmp_path):
    long = int(SETTLE_BELOW_S * 1e9)
    script = [long + step for step in range(20)]
    steady, _ = turns(session_of(tmp_path, latency_ns=script), [TURN] * 5 + [END], warmup=2)
    assert steady.warmup == [long + 1]
    assert steady.samples["latency"] == [long + step for step in range(2, 7)]


@pytest.mark.parametrize("warmup", [0, 1, 2, 3, 50])
def test_a_prescribed_warmup_counts_the_first_inference_and_leaves_no_trace(tmp_path, warmup):
    script = [9 * MS] * max(2, warmup)
    steady, _ = turns(session_of(tmp_path, latency_ns=[MS], warmup_ns=script), [TURN, END], warmup=warmup)
    assert set(steady.samples["latency"]) <= {MS}
    assert steady.warmup == [9 * MS] * (len(script) - 1)
    assert steady.warmup_found


def test_the_warmup_in_the_data_is_found(tmp_path):
    session = session_of(tmp_path, warmup_ns=[9 * MS] * 8)
    steady, _ = turns(session, [TURN, END], warmup=None)
    assert steady.warmup_found
    assert set(steady.samples["latency"]) == {MS}
    assert steady.warmup.count(9 * MS) == 7


def test_a_session_that_never_settles_warms_up_for_half_a_second(tmp_path):
    growing = [round(MS * 1.02**step) for step in range(400)]
    session = session_of(tmp_path, latency_ns=growing)
    begin = session.clock()
    steady, _ = turns(session, [END], warmup=None)
    assert not steady.warmup_found
    spent = (session.clock() - begin) * 1e-9
    # The last block was begun before the time was over; a block lasts 20 ms, or one inference.
    assert WARM_S <= spent < WARM_S + 0.04
    assert steady.samples == {"latency": []}


def test_signs_of_life_come_while_warming_up_and_after_each_turn(tmp_path):
    reporter = Patience()
    turns(session_of(tmp_path), [TURN] * 3 + [END], warmup=500, reporter=reporter)
    assert reporter.beats > 3 + 5


def test_no_turn_at_all_gives_no_samples(tmp_path):
    steady, told = turns(session_of(tmp_path), [END])
    assert told == [("ready", {})]
    assert steady.samples == {"latency": []} and steady.extra["turns"] == [] and steady.elapsed_ns == 0


def test_an_engine_that_fails_in_a_turn_fails(tmp_path):
    session = session_of(tmp_path, behaviour={"at": "invoke", "after": 3, "do": "raise"})
    with pytest.raises(RuntimeError, match=says("valuethe-noun-problem", noun="script", problem=has("says so"))):
        turns(session, [TURN, TURN, END])


def test_calls_are_the_samples_and_the_engines_own_times_are_kept(tmp_path):
    session = session_of(tmp_path, engine_latency_ns=[900_000])
    steady, _ = turns(session, [TURN, END])
    assert steady.samples == {"latency": [MS] * 4, "latency_engine": [900_000] * 4}


def test_inferences_that_take_no_time_do_not_warm_up_for_ever(tmp_path):
    steady, _ = turns(session_of(tmp_path, latency_ns=[0]), [TURN, END], warmup=None, reporter=Patience(200))
    assert set(steady.samples["latency"]) == {0}


def test_what_reading_the_clock_takes_is_in_every_sample_once(tmp_path):
    steady, _ = turns(session_of(tmp_path, tick_ns=100), [TURN, END])
    assert steady.samples["latency"] == [MS + 100] * 3


def test_the_counters_are_of_the_time_between_the_first_and_the_last_turn(tmp_path):
    orders = [COUNT, *[TURN] * 50, COUNT, END]
    steady, told = turns(session_of(tmp_path), orders, counters=[BEFORE, AFTER])
    assert told[1] == told[-1] == ("counted", {}) and len(told) == 53
    assert steady.elapsed_ns == 200 * MS
    assert steady.extra["counters"] == {
        "busy_share_of_others": 0.75,  # of the other workers, too: the host takes these out
        "steal_share": 0.0625,
        "memory_pressure_share": 0.25,
        "throttled_s": 0.125,
        "involuntary_per_s": pytest.approx(200.0),  # 40 in the 0.2 s of its own turns
        "window_s": 2.0,
        "window_cpu_s": 0.5,
        "window_cores": 2,
    }


def test_switches_have_no_rate_where_the_turns_are_too_short_for_one(tmp_path):
    steady, _ = turns(session_of(tmp_path), [COUNT, TURN, COUNT, END], counters=[BEFORE, AFTER])
    assert steady.elapsed_ns == 4 * MS
    assert steady.extra["counters"]["involuntary_per_s"] is None
    assert steady.extra["counters"]["busy_share_of_others"] == 0.75


def test_without_two_counts_nothing_is_known_of_the_machine(tmp_path):
    steady, _ = turns(session_of(tmp_path), [COUNT, TURN, END], counters=[BEFORE])
    assert steady.extra["counters"] == {}


def test_the_processor_time_of_each_turn_is_beside_its_time(tmp_path):
    """Turns of 4 ms and of 2 inferences, 2 ms; the processor's clock advances by half a millisecond a reading."""
    session = session_of(tmp_path)
    readings = iter(range(0, 100 * MS, MS // 2))
    own = Clock.of(session)
    orders = iter([TURN, {**TURN, "most": 2}, END])
    steady = take_turns(
        session,
        stopping={"warmup": 1},
        clock=Clock(own.now, own.sleep, readings.__next__),
        reporter=Patience(),
        tell=lambda kind, **fields: None,
        next_order=orders.__next__,
        read_counters=iter(()).__next__,
    )
    assert steady.extra["turn_wall_ns"] == [4 * MS, 2 * MS]
    assert steady.extra["turn_processor_ns"] == [MS // 2, MS // 2]
    assert steady.elapsed_ns == 6 * MS


def test_a_scripted_clock_has_no_processor_time(tmp_path):
    steady, _ = turns(session_of(tmp_path), [TURN, END])
    assert not {"turn_wall_ns", "turn_processor_ns"} & steady.extra.keys()
