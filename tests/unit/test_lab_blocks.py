"""Whether a device of a lab is fit: its bands, the reference kernels' own history, and what a block of jobs does."""

import math
import os
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pytest

from edgewise.cancellation import Cancelled, CancelToken
from edgewise.clock import now
from edgewise.device.agent import lock_file, try_lock
from edgewise.errors import StoreError, Unavailable
from edgewise.run import facts_worker
from edgewise.run.reference import VERSION
from edgewise.stats.between_runs import LEAST_BLOCKS
from edgewise.stats.distributions import t_quantile
from edgewise.store import open_store
from edgewise.store.lab import LabDevice
from edgewise.store.lab_gauges import Gauge
from edgewise.verbs.lab import blocks as lab_blocks
from edgewise.verbs.lab.blocks import BLOCK_S, FRESH_S, IDLE_S, RISK, SETTLE_S, STEP_S, Blocks, flag, judge, unsettled
from edgewise.verbs.lab.gauge import last_use
from sample_runs import make_run

DEVICE = LabDevice(host="h", name="pi4", identity="ssh://pi4", answers=("pi4",))


def told(factor=1.0, at=0.0, **state):
    readings = [{"at": at + 0.1 * each, "compute_s": 1e-4 * factor, "copy_s": 2e-4 * factor} for each in range(4)]
    return {"load": 0.01, "temperature": 320.0, "clock": 1.5e9, "version": VERSION, "readings": readings} | state


def history(factors, every=60.0):
    return [Gauge.of(told(factor), at=1e9 - number * every) for number, factor in enumerate(factors)]


QUIET = [1.0 + 0.002 * (-1) ** each for each in range(16)]


def test_the_readings_of_a_gauge_get_the_times_of_the_database():
    found = Gauge.of(told(at=5.0), at=100.0)
    assert [one.at for one in found.readings] == pytest.approx([100.0, 100.1, 100.2, 100.3])
    assert (found.load, found.temperature, found.clock, found.readings[0].copy) == (0.01, 320.0, 1.5e9, 2e-4)
    assert Gauge.of({}) == Gauge()


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "fit"), (1.02, "fit"), (1.2, "suspect"), (0.8, "suspect")])
def test_a_device_is_suspect_where_its_reference_is_outside_its_own_history(factor, verdict):
    found, why = judge(history(QUIET), Gauge.of(told(factor)))
    assert found == verdict
    word = "slower" if factor > 1 else "faster"
    assert why == (
        f"the reference kernel ran {max(factor, 1 / factor):.2f}× {word} than usual on this device"
        if verdict == "suspect"
        else ""
    )


def test_a_device_without_kernels_or_history_is_not_judged():
    assert judge(history(QUIET), Gauge()) == ("not judged", "no reference kernel runs on it")
    few = "earlier gauges are too few or too close"
    assert judge(history(QUIET[: LEAST_BLOCKS - 1]), Gauge.of(told(9.0))) == ("not judged", f"7 {few}")
    assert judge(history(QUIET, every=1.0), Gauge.of(told(9.0))) == ("not judged", f"16 {few}")


def test_a_fit_device_is_called_suspect_as_rarely_as_stated():
    """Gauges that all come from one distribution; of 600, more than 4 would be a chance of 1 in 2,500 at `RISK`."""
    random = np.random.default_rng(33)
    wrong = 0
    for _ in range(600):
        *earlier, last = np.exp(random.normal(0.0, 0.05, 25))
        wrong += judge(history(earlier), Gauge.of(told(last)))[0] == "suspect"
    assert wrong <= 4
    assert judge(history(np.exp(random.normal(0.0, 0.05, 24))), Gauge.of(told(1.6)))[0] == "suspect"


def test_a_band_ends_where_the_next_value_would_be():
    loads = [0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1, 0.2]
    earlier = [Gauge(load=load, clock=1.5e9) for load in loads]
    end = 0.15 + t_quantile(1 - RISK, 7) * np.std(loads, ddof=1) * math.sqrt(1 + 1 / 8)
    assert list(unsettled(earlier, Gauge(load=end - 1e-6))) == []
    assert list(unsettled(earlier, Gauge(load=end + 1e-6))) == ["load 42%, where its band ends at 42%"]
    assert list(unsettled(earlier, Gauge(load=0.0, clock=1.481e9))) == []
    assert list(unsettled(earlier, Gauge(clock=1.4e9, temperature=999.0))) == [
        "clock 1.40 GHz, where its band ends at 1.48 GHz"
    ]
    assert list(unsettled(earlier[1:], Gauge(load=1.0))) == []


@dataclass
class Store:
    """The part of a lab that blocks use."""

    earlier_ones: list = field(default_factory=list)
    kept: list = field(default_factory=list)
    closed: list = field(default_factory=list)
    known: dict = field(default_factory=dict)
    fails: bool = False
    use: int = 1

    @property
    def leases(self):
        return self

    def fence(self, device):
        assert device == DEVICE.identity
        return self.use

    @property
    def gauges(self):
        return self

    jobs = gauges

    def verdicts(self):
        return self.known

    def earlier(self, identity, moment):
        if self.fails:
            raise StoreError("the database is away")
        assert identity == DEVICE.identity
        return self.earlier_ones

    def add(self, _identity, moment, told, *, verdict, why):
        self.kept.append((moment, verdict, why, bool(told)))

    def close_block(self, block, why, *, flag, ring):
        self.closed.append((block, why))


@pytest.fixture
def lines():
    return []


def blocks_of(store, answers, lines):
    answers = iter(answers)

    def ask(_device):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Blocks(lab=store, device=DEVICE, ask=ask, say=lines.append)


def call(write):
    return write()


def test_a_block_begins_once_and_ends_after_ten_minutes_or_without_jobs(clock, lines):
    store = Store(history(QUIET))
    blocks = blocks_of(store, [told(), told(), told()], lines)
    assert blocks.enter() == "" and blocks.enter() == ""
    first = blocks.id
    assert not blocks.is_over(waiting=True)
    assert blocks.is_over(waiting=False)
    assert not blocks.is_idle
    clock.let_pass(IDLE_S)
    assert blocks.is_idle
    blocks.touch()
    assert not blocks.is_idle
    clock.let_pass(BLOCK_S - IDLE_S - 1.0)
    assert not blocks.is_over(waiting=True)
    clock.let_pass(1.0)
    assert blocks.is_over(waiting=True)
    assert blocks.close(call) == ""
    assert blocks.id is None and not blocks.is_idle and not blocks.is_over(waiting=False)
    assert blocks.close(call) == ""  # there is none
    assert store.closed == [(first, "")]
    assert store.kept == [("before", "fit", "", True), ("after", "fit", "", True)]
    assert blocks.enter() == "" and blocks.id != first
    assert lines == []


def moments(store):
    return [moment for moment, *_ in store.kept]


def test_a_device_that_was_fit_after_its_last_block_is_not_gauged_again_before_the_next(clock, lines):
    store = Store(history(QUIET))
    blocks = blocks_of(store, [told(), told(use=1), told(use=1), told(use=1), told()], lines)
    for pause in (0.0, FRESH_S - 1.0, FRESH_S):
        clock.let_pass(pause)
        blocks.enter()
        blocks.close(call)
    assert moments(store) == ["before", "after", "after", "before", "after"]
    assert FRESH_S == BLOCK_S


def use(blocks, store):
    store.use += 1


def clear(blocks, store):
    store.known = {DEVICE.identity: ("suspect", "slow")}
    assert blocks.enter() == "slow"
    store.known = {}


@pytest.mark.parametrize("between", [use, clear, lambda blocks, _: blocks.disturb()])
def test_a_device_that_was_used_since_its_last_block_is_gauged_before_the_next(between, clock, lines):
    store = Store(history(QUIET))
    blocks = blocks_of(store, [told(), told(use=1), told(use=1), told(use=1)], lines)
    blocks.enter()
    blocks.close(call)
    between(blocks, store)
    blocks.enter()
    assert moments(store) == ["before", "after", "before"]


@pytest.mark.parametrize("after", [told(1.3, use=1), told(), told(readings=[], use=1), Unavailable("it is off")])
def test_only_a_gauge_that_found_the_device_fit_and_knows_its_use_serves_the_next_block(after, clock, lines):
    store = Store(history(QUIET))
    blocks = blocks_of(store, [told(), after, told(), told()], lines)
    blocks.enter()
    blocks.close(call)
    blocks.enter()
    assert moments(store) == ["before", "after", "before"]


def test_jobs_after_which_the_device_differs_go_back_though_no_gauge_came_before_them(clock, lines):
    store = Store(history(QUIET))
    blocks = blocks_of(store, [told(), told(use=1), told(1.3, use=1)], lines)
    blocks.enter()
    blocks.close(call)
    blocks.enter()
    assert "1.30× slower" in blocks.close(call)
    assert [bool(why) for _, why in store.closed] == [False, True]


def test_every_hold_of_this_machine_is_another_use_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path))
    assert last_use("local", None) is None
    os.close(try_lock(lock_file(), "somebody"))
    os.utime(lock_file(), (1, 1))
    assert last_use("local", None) == 10**9
    os.close(try_lock(lock_file(), "somebody"))
    assert last_use("local", None) > 10**9
    with open_store(str(tmp_path / "runs.db")) as store:
        assert last_use("ssh://pi4", store.leases) is None
        for fence in (1, 2):
            store.leases.release(store.leases.acquire("ssh://pi4", "somebody", seconds=9.0))
            assert last_use("ssh://pi4", store.leases) == fence


def test_a_device_that_is_slower_after_a_block_puts_its_jobs_back(clock, lines):
    store = Store(history(QUIET))
    blocks = blocks_of(store, [told(), told(1.3)], lines)
    blocks.enter()
    why = "the reference kernel ran 1.30× slower than usual on this device"
    assert blocks.close(call) == why
    assert [reason for _, reason in store.closed] == [why]
    assert lines == [f"pi4: suspect after its jobs: {why}"]


def test_a_suspect_device_is_not_asked_before_it_is_cleared(lines):
    store = Store(history(QUIET), known={DEVICE.identity: ("suspect", "slow")})
    blocks = blocks_of(store, [], lines)
    assert blocks.enter() == "slow"
    assert blocks.id is None


def test_a_device_settles_before_a_block(clock, lines):
    store = Store(history(QUIET))
    blocks = blocks_of(store, [told(load=0.9), told(load=0.9), told(temperature=350.0), told()], lines)
    begun = now()
    assert blocks.enter() == ""
    assert now() - begun == 3 * STEP_S
    assert lines == [
        "pi4: waits until it has settled: load 90%, where its band ends at 3%",
        "pi4: waits until it has settled: temperature 76.9 °C, where its band ends at 47.9 °C",
    ]
    assert store.kept == [("before", "fit", "", True)]


def test_a_device_that_does_not_settle_is_out(clock, lines):
    store, begun = Store(history(QUIET)), now()
    blocks = blocks_of(store, (told(load=0.9) for _ in count()), lines)
    why = "it has not settled within 300 s: load 90%, where its band ends at 3%"
    assert blocks.enter() == why
    assert now() - begun == SETTLE_S
    assert store.kept == [("before", "suspect", why, True)]


def test_a_wait_for_a_device_to_settle_is_cancelled(clock, lines):
    token = CancelToken()
    token.cancel("stopped")
    blocks = blocks_of(Store(history(QUIET)), [told(load=0.9)], lines)
    with lab_blocks.cancellable(token), pytest.raises(Cancelled):
        blocks.enter()


def test_a_device_that_can_not_be_asked_is_not_judged_and_that_is_said_once(lines):
    store = Store(history(QUIET))
    blocks = blocks_of(store, [Unavailable("pi4 is off"), {}, Unavailable("pi4 is off"), {"readings": [{}]}], lines)
    assert blocks.enter() == "" and blocks.id is not None
    assert blocks.close(call) == ""
    assert lines == [
        "pi4: not judged before its jobs: pi4 is off",
        "pi4: not judged after its jobs: no reference kernel runs on it",
    ]
    blocks.enter()
    assert blocks.close(call) == ""
    assert store.kept[2:] == [
        ("before", "not judged", "pi4 is off", False),
        ("after", "not judged", "it gave no gauge: 'version'", False),
    ]


def test_a_block_ends_without_a_gauge_where_its_host_ends_or_the_database_is_away(lines):
    store = Store(history(QUIET))
    blocks = blocks_of(store, [told(), told()], lines)
    blocks.enter()
    assert blocks.close(call, judged=False) == ""
    blocks.enter()
    store.fails = True
    assert blocks.close(call) == ""
    assert [why for _, why in store.closed] == ["", ""]
    assert lines == ["pi4: not judged after its jobs: the database is away"]


def test_a_gauge_that_is_given_up_leaves_the_jobs_as_they_are(lines):
    store = Store(history(QUIET))
    blocks = blocks_of(store, [told()], lines)
    blocks.enter()
    blocks.stop()  # nothing is being asked

    def ask(_device):
        blocks.stop()
        raise Cancelled("stopped")

    blocks.ask = ask
    assert blocks.close(call) == ""
    assert [why for _, why in store.closed] == [""]


def test_a_run_of_a_doubted_block_has_a_caution_that_limits_its_grade():
    run = flag(make_run(1), "it was slow")
    caution = run.cautions[-1]
    assert (caution.code, caution.message) == ("suspect-device", "after the jobs beside this one it was slow")
    assert run.trust.grade >= "C"
    assert run.measurements == make_run(1).measurements


def test_a_target_gauges_itself(monkeypatch):
    slept = []
    monkeypatch.setattr("edgewise.run.reference.time_reference", lambda: {"at": 1.0, "compute_s": 2.0, "copy_s": 3.0})
    found = facts_worker.gauge(0.5, 2, sleep=slept.append)
    assert slept == [0.5]
    assert found["readings"] == [{"at": 1.0, "compute_s": 2.0, "copy_s": 3.0}] * 2
    assert found["version"] == VERSION
    assert set(found) == {"load", "temperature", "clock", "readings", "version"}
    monkeypatch.setattr("edgewise.run.reference.time_reference", lambda: None)
    assert facts_worker.gauge(0.5, 2, sleep=slept.append)["readings"] == []
