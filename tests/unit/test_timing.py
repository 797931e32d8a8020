"""The timed loops, exact on a scripted clock."""

from dataclasses import asdict
from itertools import pairwise

import pytest

from edgewise.record import Stopping
from edgewise.run import timing
from edgewise.run.timing import Clock, Recorder, offline, paced, single_stream
from messages import wording

MS = 1_000_000


class ScriptedSession:
    """An engine whose n-th inference takes ``script[n]`` ns; the last one repeats."""

    inputs = outputs = ()
    effective = {}

    def __init__(self, *script):
        self.script = script
        self.time = 0
        self.calls = 0
        self.sleeps = []

    def clock(self):
        return self.time

    def sleep(self, seconds):
        self.sleeps.append(seconds)
        self.time += round(seconds * 1e9)

    def invoke(self):
        self.time += self.script[min(self.calls, len(self.script) - 1)]
        self.calls += 1


class EngineClockSession(ScriptedSession):
    """The engine says that an inference took 100 ns less than the call."""

    def engine_latency_ns(self):
        return self.script[min(self.calls, len(self.script)) - 1] - 100


def stopping(**values):
    return asdict(Stopping(**values))


class Lines:
    """A reporter that keeps what it is told."""

    def __init__(self):
        self.told = []
        self.beats = 0

    def lines(self, done, average_s):
        self.told.append((done, average_s))

    def beat(self):
        self.beats += 1


class NoLines(Lines):
    def lines(self, done, average_s):
        raise AssertionError("nobody asked for a line")


def test_the_clock_of_the_session_is_used():
    session = ScriptedSession(MS)
    assert Clock.of(session).now() == 0
    assert Clock.of(object()).now.__name__ == "perf_counter_ns"


def test_prescribed_warmup_and_iterations_to_the_digit():
    script = [9 * MS] * 50 + [n * 1000 for n in range(1, 1001)]
    session = ScriptedSession(*script)
    session.invoke()  # the first inference is the caller's and the first of the warm-up
    reporter = Lines()
    steady = single_stream(
        session,
        stopping=stopping(warmup=50, iterations=1000, report_every=50),
        clock=Clock.of(session),
        reporter=reporter,
    )
    assert session.calls == 1050
    assert steady.samples == {"latency": script[50:]}
    assert steady.warmup == [9 * MS] * 49
    assert steady.stopped_because == "1000 iterations"
    assert steady.elapsed_ns == sum(script[50:])
    assert [done for done, _ in reporter.told] == list(range(50, 1001, 50))
    assert reporter.told[0][1] == pytest.approx(sum(range(1, 51)) * 1e-6 / 50, rel=1e-12)


def test_iterations_that_are_no_multiple_of_the_report_stay_exact():
    session = ScriptedSession(MS)
    reporter = Lines()
    steady = single_stream(
        session,
        stopping=stopping(warmup=0, iterations=120, report_every=50),
        clock=Clock.of(session),
        reporter=reporter,
    )
    assert len(steady.samples["latency"]) == 120
    assert [done for done, _ in reporter.told] == [50, 100]  # a line speaks of whole steps


def test_lines_average_the_calls_also_where_the_engine_has_a_clock():
    session = EngineClockSession(1000)
    reporter = Lines()
    single_stream(
        session, stopping=stopping(warmup=0, iterations=4, report_every=2), clock=Clock.of(session), reporter=reporter
    )
    assert [done for done, _ in reporter.told] == [2, 4]
    assert [average for _, average in reporter.told] == pytest.approx([1e-6, 1e-6])


def test_a_slow_model_gives_signs_of_life_between_blocks():
    session = ScriptedSession(2_000 * MS)
    reporter = NoLines()
    single_stream(session, stopping=stopping(warmup=0, iterations=5), clock=Clock.of(session), reporter=reporter)
    assert reporter.beats == 5


def test_iterations_alone_get_a_brief_warmup():
    session = ScriptedSession(MS)
    steady = single_stream(session, stopping=stopping(iterations=10), clock=Clock.of(session), reporter=NoLines())
    assert len(steady.samples["latency"]) == 10
    assert len(steady.warmup) * MS >= timing.BRIEF_WARMUP_S * 1e9


def test_duration_ends_at_the_time():
    session = ScriptedSession(MS)
    steady = single_stream(
        session, stopping=stopping(warmup=0, duration_s=0.5), clock=Clock.of(session), reporter=NoLines()
    )
    assert 0.5e9 <= steady.elapsed_ns < 0.55e9
    assert len(steady.samples["latency"]) == steady.elapsed_ns // MS


def test_adaptive_stops_on_precision_when_the_noise_is_none():
    session = ScriptedSession(MS)
    steady = single_stream(session, stopping=stopping(), clock=Clock.of(session), reporter=NoLines())
    assert steady.stopped_because == wording("median-known", stopping="0.01")
    assert steady.warmup == [] and steady.warmup_found
    assert 0.25e9 <= steady.elapsed_ns < 0.5e9


def test_adaptive_finds_the_warmup_in_the_data():
    session = ScriptedSession(*[5 * MS] * 12, MS)
    steady = single_stream(session, stopping=stopping(), clock=Clock.of(session), reporter=NoLines())
    assert set(steady.samples["latency"]) == {MS}
    assert 5 * MS in steady.warmup


def test_an_engine_with_its_own_clock_gives_both_times():
    session = EngineClockSession(1000, 2000, 3000)
    steady = single_stream(
        session, stopping=stopping(warmup=0, iterations=3), clock=Clock.of(session), reporter=NoLines()
    )
    assert steady.samples == {"latency": [1000, 2000, 3000], "latency_engine": [900, 1900, 2900]}


def test_paced_counts_misses_and_queueing():
    # Five warm-ups, then a period of 10 ms: the second inference takes 25 ms and delays the third and fourth.
    session = ScriptedSession(*[MS] * 5, 2 * MS, 25 * MS, 2 * MS, 2 * MS, 2 * MS, MS)
    steady = paced(session, fps=100, stopping=stopping(iterations=5), clock=Clock.of(session), reporter=NoLines())
    assert steady.samples["latency_paced"] == [2 * MS, 25 * MS, 2 * MS, 2 * MS, 2 * MS]
    assert steady.samples["response_time"] == [2 * MS, 25 * MS, 17 * MS, 9 * MS, 2 * MS]
    assert steady.extra["deadline_misses"] == 2
    assert steady.extra["arrivals"] == 5
    assert set(steady.samples["latency"]) == {MS}
    assert session.sleeps == pytest.approx([0.008, 0.001])


def test_a_slow_schedule_gives_signs_of_life():
    """Sixty arrivals at 10 a second: the host takes a silence of the timeout for a hang, whatever the schedule."""

    class Beats(NoLines):
        def beat(self):
            told.append(session.time)

    session, told = ScriptedSession(MS), [0]
    paced(session, fps=10, stopping=stopping(iterations=60), clock=Clock.of(session), reporter=Beats())
    assert told[-1] >= 5_900 * MS
    assert max(after - before for before, after in pairwise(told)) <= 1_100 * MS


def test_paced_latency_is_the_call_too():
    session = EngineClockSession(MS)
    steady = paced(session, fps=100, stopping=stopping(iterations=4), clock=Clock.of(session), reporter=NoLines())
    assert set(steady.samples["latency_paced"]) == set(steady.samples["latency"]) == {MS}
    assert steady.samples["latency_engine"] == [MS - 100] * 4  # of the paced inferences


class TellTale(EngineClockSession):
    """Notes in which order it is asked: for the time, to infer, for the engine's time."""

    def __init__(self, *script):
        super().__init__(*script)
        self.asked = []
        clock, invoke = self.clock, self.invoke

        def note(word, function):
            def noted():
                self.asked.append(word)
                return function()

            return noted

        self.clock, self.invoke = note("clock", clock), note("invoke", invoke)
        self.engine_latency_ns = note("engine", super().engine_latency_ns)


@pytest.mark.parametrize("way", ["back to back", "paced"])
def test_the_engine_is_asked_for_its_time_after_the_second_reading_of_the_clock(way):
    session = TellTale(MS)
    if way == "paced":
        paced(session, fps=100, stopping=stopping(iterations=3), clock=Clock.of(session), reporter=NoLines())
    else:
        Recorder(session, Clock.of(session)).take(3)
    timed = [at for at, word in enumerate(session.asked) if word == "engine"]
    assert len(timed) >= 3
    assert all(session.asked[at - 3 : at] == ["clock", "invoke", "clock"] for at in timed)


def test_offline_stamps_completions_from_the_start():
    session = ScriptedSession(MS)
    steady = offline(session, stopping=stopping(warmup=3, iterations=4), clock=Clock.of(session), reporter=NoLines())
    assert steady.samples == {"completions": [MS, 2 * MS, 3 * MS, 4 * MS]}
    assert len(steady.warmup) == 3
    assert steady.elapsed_ns == 4 * MS


def test_the_loop_itself_costs_less_than_a_microsecond_of_calls():
    """Between the clock readings stands one call: an engine that counts sees exactly two readings per inference."""
    readings = 0

    class Counting(ScriptedSession):
        def clock(self):
            nonlocal readings
            readings += 1
            return super().clock()

    session = Counting(10)
    recorder = timing.Recorder(session, Clock.of(session))
    recorder.take(100)
    assert readings == 200
    assert list(recorder.wall) == [10] * 100


@pytest.mark.parametrize(
    ("prescribed", "fps", "count"),
    [
        ({}, 30, 60),  # two seconds
        ({}, 5, 30),  # thirty, which take six seconds
        ({}, 0.5, 5),  # what ten seconds have
        ({}, 0.01, 3),  # never fewer than three
        ({"duration_s": 1.0}, 2, 2),
        ({"duration_s": 1.0}, 0.1, 1),
        ({"iterations": 7}, 2, 7),
    ],
)
def test_how_many_inputs_arrive(prescribed, fps, count):
    assert timing.arrivals(stopping(**prescribed), fps) == count


def test_an_overloaded_worker_stops_a_second_after_the_last_arrival():
    session = ScriptedSession(50 * MS)
    steady = paced(session, fps=1000, stopping=stopping(duration_s=1.0), clock=Clock.of(session), reporter=NoLines())
    assert steady.extra["arrivals"] == len(steady.samples["latency_paced"]) == 41
    assert steady.extra["deadline_misses"] == 41


def test_every_slow_inference_of_an_adaptive_session_counts():
    session = ScriptedSession(600 * MS)
    session.invoke()
    steady = single_stream(session, stopping=stopping(), clock=Clock.of(session), reporter=NoLines())
    assert len(steady.samples["latency"]) == session.calls - 1 == 9  # until ten time budgets are spent


def test_a_prescribed_warmup_gives_signs_of_life():
    session, reporter = ScriptedSession(2_000 * MS), NoLines()
    session.invoke()
    single_stream(session, stopping=stopping(warmup=8, iterations=1), clock=Clock.of(session), reporter=reporter)
    assert session.calls == 9 and reporter.beats == 8


def test_counted_offline_inferences_come_in_stretches_with_signs_of_life():
    session, reporter = ScriptedSession(1_000 * MS), NoLines()
    steady = offline(session, stopping=stopping(warmup=0, iterations=50), clock=Clock.of(session), reporter=reporter)
    assert len(steady.samples["completions"]) == 50
    assert steady.samples["completions"] == [1_000 * MS * n for n in range(1, 51)]
    assert reporter.beats >= 4
