"""A program of `edgewise exec` is sampled, given up and found late exactly when it should be, by a scripted clock."""

from __future__ import annotations

import io
import os
from types import SimpleNamespace

import pytest

from edgewise.constraints.base import Usage
from edgewise.run.command import Execution, _follow, load_beside
from edgewise.run.counters import Counters
from edgewise.run.limit_alarm import LimitAlarm


class Scripted:
    """A program that ends after `seconds` by the clock, and counters that take `slow_s` to read."""

    cgroup = None

    def __init__(self, clock, *, seconds=None, slow_s=()):
        self.end, self._ends = os.pipe()
        reading, self._writing = os.pipe()
        self.child = SimpleNamespace(stdin=io.BytesIO(), stdout=os.fdopen(reading, "rb"))
        self.killed = False
        self._clock, self._slow = clock, iter(slow_s)
        clock.silent_when = lambda: True  # what happens is an action of the clock
        if seconds is not None:
            clock.after(seconds, lambda: os.write(self._ends, b"x"))

    def close(self):
        self.child.stdout.close()
        for descriptor in (self.end, self._ends, self._writing):
            os.close(descriptor)

    def say(self, text):
        os.write(self._writing, text)

    def has_ended(self):
        return True

    def usage(self):
        self._clock.let_pass(next(self._slow, 0.0))
        return Usage()

    def network(self):
        return None

    def kill(self):
        self.killed = True

    def conclude(self, execution, output):
        pass


@pytest.fixture
def follow(clock):
    """A function: how a scripted program is followed, and the program."""
    made = []

    def run(*, sample_s=0.0, timeout_s=None, script=lambda program: None, **settings):
        made.append(Scripted(clock, **settings))
        script(made[-1])
        execution = Execution(started_at="", mechanism="", cannot_hold="")
        alarm = LimitAlarm(memory_bytes=0, pid=1, watch=None)
        _follow(made[-1], execution, alarm, sample_s=sample_s, timeout_s=timeout_s, show=False)
        return execution, made[-1]

    yield run
    for program in made:
        program.close()


def test_it_is_sampled_until_it_ends(follow):
    execution, program = follow(seconds=2.25, sample_s=0.5, timeout_s=30.0)
    assert [at for at, _ in execution.samples] == [0.5, 1.0, 1.5, 2.0]
    assert (execution.seconds, execution.late, program.killed) == (2.25, False, False)


def test_one_that_never_ends_is_killed_at_its_deadline(follow, clock):
    def script(program):
        clock.after(29.5, lambda: program.say(b"last words"))

    execution, program = follow(timeout_s=30.0, script=script)
    assert (execution.seconds, execution.late, program.killed) == (30.0, True, True)
    assert execution.tail == "last words"


def test_time_in_which_edgewise_itself_stood_still_is_told(follow):
    execution, _ = follow(seconds=6.25, sample_s=0.5, slow_s=(3.0,))
    # It looked at 0.5 s, and again at 3.5 s instead of 1.0 s; what it missed is not made up for.
    assert execution.paused_s == 2.5
    assert [at for at, _ in execution.samples][1:] == [3.5, 4.0, 4.5, 5.0, 5.5, 6.0]


def test_without_a_deadline_it_is_waited_for(follow):
    execution, _ = follow(seconds=7 * 24 * 3600.0)
    assert (execution.seconds, execution.late, execution.samples) == (7 * 24 * 3600.0, False, [])


@pytest.mark.parametrize(("cpu_s", "others"), [(0.5, 0.75), (None, None)])
def test_processor_time_of_the_program_is_not_that_of_others(cpu_s, others):
    def counters(seconds, **values):
        return Counters(monotonic_ns=int(seconds * 1e9), cores=(0, 1), iowait_s=0.0, steal_s=0.0, **values)

    execution = Execution(started_at="", mechanism="", cannot_hold="", usage=Usage(cpu_s=cpu_s))
    before = counters(1.0, process_cpu_s=7.0, busy_s=10.0, idle_s=10.0)
    after = counters(2.0, process_cpu_s=7.0, busy_s=12.0, idle_s=10.0)
    found = load_beside(execution, before, after)
    assert (found["busy_share"], found["busy_share_of_others"], found["steal_share"]) == (1.0, others, 0.0)
