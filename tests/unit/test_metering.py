"""The sensors' pass: windows in turn, a thread for every meter, and what a broken meter costs."""

import json
import math
import threading
import time

import pytest

from edgewise.run.metering import IDLE_S, LOAD_S, LONGEST_S, ROUNDS, MeterThread, check_metered, read_meters
from edgewise.run.meters.base import NoReading, Reading
from messages import wording
from patience import LIMIT_S


class FakeTime:
    def __init__(self):
        self.ns = 0

    def now(self):
        return self.ns

    def sleep(self, seconds):
        self.ns += round(seconds * 1e9)


class FastTime:
    """Real time, a hundred times as fast."""

    @staticmethod
    def now():
        return time.monotonic_ns() * 100

    @property
    def ns(self):
        return self.now()


class FakeMeter:
    """5 W idle, 9 W in loaded windows, which come second, third, sixth, seventh …"""

    name, title, metrics = "fake", "Fake", ("energy",)
    clock = FakeTime()

    def __init__(self):
        self.windows = 0

    def begin(self):
        self.start = self.clock.ns

    def sample(self):
        pass

    def end(self):
        watts = 5.0 if self.windows % 4 in (0, 3) else 9.0
        self.windows += 1
        joules = watts * (self.clock.ns - self.start) / 1e9
        return [Reading(metric="energy", value=joules, method="fake energy")]


def run(*meters, seconds=0.01, clock=None, **given):
    clock = clock or FakeTime()
    for meter in meters:
        meter.clock = clock
    return read_meters(meters, lambda: clock.sleep(seconds), now=clock.now, sleep=clock.sleep, **given)


def test_idle_and_loaded_windows_take_turns_in_both_orders():
    clock, told = FakeTime(), []
    facts = run(FakeMeter(), clock=clock, tell=lambda kind, **fields: told.append(tuple(fields.values())))
    assert facts["idle"]["seconds"] == pytest.approx(IDLE_S)
    assert facts["load"]["seconds"] == pytest.approx(LOAD_S)
    assert facts["load"]["inferences"] == round(LOAD_S / 0.01)
    assert facts["idle"]["windows"] == [{"seconds": pytest.approx(IDLE_S / ROUNDS), "inferences": 0}] * ROUNDS
    watts = {kind: [each["value"] / LOAD_S * ROUNDS for each in facts[kind]["readings"]] for kind in ("idle", "load")}
    assert watts["load"] == pytest.approx([9.0] * ROUNDS)
    assert [each["window"] for each in facts["load"]["readings"]] == list(range(ROUNDS))
    begun = [name for name, event in filter(None, told) if event == "begin"]
    assert begun == ["idle", "load", "load", "idle"] * (ROUNDS // 2)
    assert told.count(()) == 2 * ROUNDS  # signs of life


def test_every_reading_names_its_meter_and_the_traits_are_in_the_facts():
    class Board(FakeMeter):
        name, place, rate_hz, resolution, cannot_see = "board", "host", 100.0, {"power": 0.5}, "the fan"

    facts = run(FakeMeter(), Board())
    assert [each["meter"] for each in facts["idle"]["readings"]] == ["fake", "board"] * ROUNDS
    unknown = {"place": "target", "rate_hz": None, "resolution": {}, "cannot_see": ""}
    assert facts["sensors"] == [
        {"name": "fake", "title": "Fake", "metrics": ["energy"], **unknown},
        {
            "name": "board",
            "title": "Fake",
            "metrics": ["energy"],
            "place": "host",
            "rate_hz": 100.0,
            "resolution": {"power": 0.5},
            "cannot_see": "the fan",
        },
    ]


@pytest.mark.parametrize(("slow", "idle_s"), [(100.0, IDLE_S), (10.0, 4 / 10 * ROUNDS), (0.01, 15.0)])
def test_a_slow_sensor_gets_longer_windows_up_to_a_limit(slow, idle_s):
    class Slow(FakeMeter):
        rate_hz = slow

    for facts in (run(Slow()), run(FakeMeter(), slowest_hz=slow)):
        assert facts["idle"]["seconds"] == pytest.approx(idle_s)
        assert facts["load"]["seconds"] == pytest.approx(2 * idle_s)
        assert facts["idle"]["seconds"] * 4 <= LONGEST_S


def test_the_process_settles_before_a_window():
    """What a slow sensor still shows of the state before is over when the window begins."""
    clock, events = FakeTime(), []

    class Rate(FakeMeter):
        rate_hz = 10.0

        def begin(self):
            events.append((clock.ns / 1e9, "begin"))
            super().begin()

    def sleep(seconds):
        events.append((clock.ns / 1e9, "rest"))
        clock.sleep(seconds)

    meter = Rate()
    meter.clock = clock
    read_meters([meter], lambda: clock.sleep(0.01), now=clock.now, sleep=sleep)
    assert events[:3] == [(0.0, "rest"), (0.2, "begin"), (0.2, "rest")]
    assert events[3] == (pytest.approx(0.6 + 0.2), "begin")  # 0.4 s idle, then two periods of load


def test_a_slow_model_gets_fewer_rounds():
    facts = run(FakeMeter(), seconds=30.0)
    assert (facts["load"]["inferences"], len(facts["idle"]["windows"])) == (4, 4)


def test_a_meter_is_sampled_while_the_model_runs():
    sampled, windows, runs = threading.Event(), [], []

    class Sampled(FakeMeter):
        def sample(self):
            sampled.set()

    def tell(kind, **fields):
        windows.append(fields)
        sampled.clear()

    def invoke():
        if windows and windows[-1] == {"name": "load", "event": "begin"}:
            runs.append(sampled.wait(60.0))

    meter = Sampled()
    meter.clock = FastTime()

    def give_way(seconds):
        time.sleep(0.001)  # real time: the thread that samples needs the processor

    facts = read_meters([meter], invoke, tell=tell, now=FastTime.now, sleep=give_way)
    assert runs and all(runs) and facts["load"]["readings"]


class Stops(FakeMeter):
    """Fails after two windows."""

    def begin(self):
        super().begin()
        if self.windows >= 2:
            raise OSError(5, "Input/output error")


def test_a_meter_that_stops_in_the_middle_loses_the_other_windows_only():
    facts = run(Stops(), FakeMeter())
    assert len(facts["load"]["readings"]) == 1 + ROUNDS
    problems = facts["idle"]["problems"] + facts["load"]["problems"]
    assert {each["reason"] for each in problems} == {"the meter failed: OSError: [Errno 5] Input/output error"}
    assert len(problems) == 2 * ROUNDS - 2


@pytest.mark.parametrize("error", [NoReading("gone"), ValueError("odd"), SystemExit(1), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["begin", "end"])
def test_whatever_a_meter_raises_is_a_reason(error, call):
    meter = FakeMeter()

    def fail():
        raise error

    setattr(meter, call, fail)
    facts = run(meter)
    assert not facts["load"]["readings"]
    words = "gone" if isinstance(error, NoReading) else f"the meter failed: {type(error).__name__}: {error}"
    assert facts["load"]["problems"][0] == {"meter": "fake", "window": 0, "reason": words}


@pytest.mark.parametrize(
    ("reading", "reason"),
    [
        ({"metric": "energy", "value": 3}, "{'metric': 'energy', 'value': 3} is not a Reading"),
        (Reading(metric="energy", value="much", method="x"), "energy is much (None to None, None s)"),
        (Reading(metric="energy", value=math.nan, method="x"), "energy is nan (None to None, None s)"),
        (Reading(metric="heat", value=1.0, method="x"), wording("reads-which-not-among-metrics", metric="heat")),
        (Reading(metric="energy", value=1.0, method=None), wording("no-method-words", metric="energy")),
        (
            Reading(metric="energy", value=1.0, method="x", part="a\nb"),
            wording("part-not-printable-name-most", metric="energy", longest_part=64),
        ),
    ],
)
def test_a_reading_that_breaks_the_contract_is_a_reason(reading, reason):
    meter = FakeMeter()
    meter.end = lambda: [reading]
    facts = run(meter)
    assert not facts["load"]["readings"]
    assert facts["load"]["problems"][0]["reason"] == reason


def test_what_read_meters_returns_passes_the_check_of_the_host_and_garbage_does_not():
    good = json.loads(json.dumps(run(FakeMeter(), Stops())))
    check_metered(good)
    for path, value in (
        (("sensors",), None), (("sensors", 0, "name"), "a\nb"), (("sensors", 0, "resolution"), {"power": "x"}), (("sensors", 0, "resolution"), [1]), (("idle",), 3), (("idle", "windows", 0, "seconds"), 0.0), (("load", "windows"), []),
        (("load", "windows", 0, "inferences"), 0), (("load", "readings", 0, "value"), "x"), (("idle", "problems"), [{}]),
        (("load", "readings", 0, "window"), -1), (("load", "readings", 0, "window"), 6), (("load", "readings", 0, "x"), 1),
        (("load", "readings", 0, "meter"), "other"), (("load", "readings", 0, "covers"), "all"), (("idle", "windows"), 7),
        (("load", "readings", 0, "value"), math.inf), (("load", "readings", 0, "seconds"), -1.0),
    ):  # fmt: skip
        bad = json.loads(json.dumps(good))
        place = bad
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        with pytest.raises((ValueError, TypeError, LookupError, AttributeError)):
            check_metered(bad)


@pytest.mark.parametrize("call", ["begin", "sample", "end"])
def test_a_meter_that_blocks_is_given_up(call):
    reached, free = threading.Event(), threading.Event()
    meter = FakeMeter()
    setattr(meter, call, lambda: reached.set() or free.wait())
    thread = MeterThread(meter, patience_s=0.2)
    thread.begin()
    assert call == "end" or reached.wait(LIMIT_S)
    assert thread.end() == ([], "the meter did not answer within 0.2 s")
    thread.begin()
    assert thread.end() == ([], "the meter did not answer within 0.2 s")
    free.set()
    thread.close()


def test_without_room_for_another_thread_the_meter_is_not_read(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    facts = run(FakeMeter())
    assert facts["load"]["inferences"] and not facts["load"]["readings"]
    assert facts["load"]["problems"][0]["reason"] == "the meter has no thread: can't start new thread"
