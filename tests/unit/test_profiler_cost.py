"""Ordinary and profiled inferences in turns, by a scripted clock; ratios of pairs; what interruptions add."""

import numpy as np
import pytest

from edgewise.runtime.fake import FakeClock
from edgewise.runtime.profiler_cost import Alternation, take_turns
from edgewise.stats.paired import paired_ratio
from edgewise.stats.undisturbed import undisturbed, without_interruptions

MS = 1_000_000


class Machine:
    """Ordinary inferences of `plain` ns and profiled ones that take 1.1 times as long; what ran is in `log`."""

    def __init__(self, plain, *, slower_from=None):
        self.clock = FakeClock()
        self.log = ""
        self._plain = plain
        self._slower_from = slower_from

    def _pass(self, nanoseconds):
        slow = self._slower_from is not None and self.clock.now >= self._slower_from
        self.clock.advance(nanoseconds * 3 // 2 if slow else nanoseconds)

    def plain(self):
        self.log += "o"
        self._pass(self._plain)

    def profiled(self, count):
        times = []
        for _ in range(count):
            self.log += "p"
            begin = self.clock()
            self._pass(self._plain * 11 // 10)
            times.append((self.clock() - begin, 7))
        return times

    def take(self, inferences, **given):
        return take_turns(self.plain, self.profiled, inferences, clock=self.clock, **given)


def test_windows_alternate_and_their_order_too():
    machine = Machine(1 * MS)
    turns = machine.take(12)
    # two to find their length; then windows of five, five and two, each after one that is not timed
    assert machine.log == "oo" + "oooooo" + "pppppp" + "pppppp" + "oooooo" + "ooo" + "ppp"
    assert turns.plain == [1 * MS] * 12
    assert turns.walls == [1_100_000] * 12
    assert turns.pairs == [(1_100_000, 1 * MS)] * 3
    assert turns.counted == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 14]
    assert turns.total == 15


def test_windows_are_short():
    assert Machine(6 * MS).take(6).pairs == [(6_600_000, 6 * MS)] * 2
    slow = Machine(3_000 * MS)
    turns = slow.take(3)
    assert slow.log == "oo" + "op" + "po" + "op"
    assert len(turns.pairs) == 3 and turns.counted == [0, 1, 2]


def test_inferences_before_are_counted():
    turns = Machine(1 * MS).take(2, begun=3)
    assert (turns.counted, turns.total) == ([4, 5], 6)


def test_a_machine_that_changes_its_speed_does_not_change_the_ratio():
    turns = Machine(1 * MS, slower_from=60 * MS).take(50)
    assert {1 * MS, 1_500_000} == set(turns.plain)
    assert paired_ratio(turns.pairs) == (pytest.approx(1 / 1.1), 0.0)
    assert turns.excess_us(1_100_000) == pytest.approx(100)


def test_one_thread_is_compared_by_its_processor_time():
    turns = Machine(1 * MS).take(5, by_processor=True)
    assert [profiled for profiled, _ in turns.pairs] == [7]
    assert turns.walls == [1_100_000] * 5


def test_a_ratio_that_chance_explains_is_one():
    noisy = [(100, 80), (100, 125), (100, 90), (100, 112)]
    ratio, half = paired_ratio(noisy)
    assert ratio == 1.0 and half > 0.1
    assert paired_ratio([(100, 80)]) == (0.8, 0.0)
    assert Alternation(pairs=noisy).excess_us(1000) == 0.0


def test_the_cost_of_profiling_gives_no_second_time_under_the_profiler():
    turns = Alternation(walls=[120_000] * 9, pairs=[(120_000, 100_000)] * 9)
    assert turns.describe_cost([4.0, 2.0]) == (
        "profiling added 20.0 µs to an inference of 2 steps (by turns with ordinary ones); 6.0 µs of it were inside "
        "the steps and were subtracted, at most 4.00 µs from each; the rest is between them"
    )


def test_the_interval_of_a_ratio_holds_the_true_one():
    """By simulation: 25 pairs whose ratios scatter by 5 %."""
    generator = np.random.default_rng(6)
    held = 0
    for _ in range(400):
        pairs = [(1.0, 0.5 * each) for each in generator.normal(1.0, 0.05, 25)]
        ratio, half = paired_ratio(pairs)
        held += abs(ratio - 0.5) <= half
    assert 0.9 <= held / 400 <= 0.99


def test_an_interrupted_part_has_what_it_usually_takes():
    parts = np.full((3, 10), 100_000.0)
    parts[1, 4] = 5_000_000.0
    parts[2, 7] = -3_000_000.0  # a difference of readings, of which one was interrupted
    assert (without_interruptions(parts, steps=2)[0] == 100_000.0).all()


def test_parts_of_a_slower_repetition_stay_as_they_are():
    parts = np.outer([100_000.0, 300_000.0, 50_000.0], [1.0] * 6 + [2.0] * 5)
    cut, slowness = without_interruptions(parts, steps=3)
    assert cut == pytest.approx(parts)
    assert list(slowness[0]) == [1.0] * 6 + [2.0] * 5
    interrupted = parts.copy()
    interrupted[0, 8] += 4e6
    assert without_interruptions(interrupted, steps=3)[0] == pytest.approx(parts)


def test_the_shortest_repetitions_are_kept():
    assert list(undisturbed([5.0, 1.0, 9.0])) == [0, 1, 2]
    assert list(undisturbed([10.0] * 8 + [12.0, 13.0, 90.0])) == list(range(9))
    # a quarter at least, where hardly any were alike
    assert list(undisturbed([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0])) == [0, 1]
