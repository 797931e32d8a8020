"""Sustained measurements: bins on a scripted clock, and what scripted bins show, to the digit."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest

from comparable_runs import run_of
from edgewise.record import Scenario
from edgewise.run.host_protocol import SessionResult
from edgewise.run.meters.base import Reading
from edgewise.run.sustained import timing as worker_side
from edgewise.run.sustained.result import completed, sustained_of
from edgewise.run.sustained.timing import measure_sustained, window_of
from edgewise.run.timing import Clock, recorder_of
from messages import has, is_in, says

MS = 1_000_000
MINUTES = 30 * 60.0


class TracedSession:
    """An engine whose inferences take what `trace` says of the time at which they begin, ns → ns."""

    inputs = outputs = ()
    effective = {}

    def __init__(self, trace):
        self.trace = trace
        self.now = 0
        self.naps = 0

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.naps += 1
        self.now += round(seconds * 1e9)

    def invoke(self):
        self.now += self.trace(self.now)


class Meter:
    """A meter whose readings of window n are ``rows[n]``."""

    name, title, metrics = "scripted", "Scripted", ("energy", "clock_rate")

    def __init__(self, *rows):
        self.rows = list(rows)

    def begin(self):
        pass

    def sample(self):
        pass

    def end(self):
        row = self.rows.pop(0) if len(self.rows) > 1 else self.rows[0]
        return [Reading(metric=metric, value=value, method="scripted") for metric, value in row.items()]


class Beats:
    def beat(self):
        pass

    def lines(self, done, average_s):
        raise AssertionError("not requested")


def measure(trace, *meters, **scenario):
    """The bins of a sustained measurement, and the session."""
    session, bins = TracedSession(trace), []
    given = asdict(Scenario(**scenario))
    measure_sustained(
        recorder_of(session, Clock.of(session), given),
        scenario=given,
        clock=Clock.of(session),
        reporter=Beats(),
        meters=meters,
        tell=lambda kind, **fields: bins.append(fields),
    )
    return bins, session


def result_of(bins, *, sustained_s=MINUTES, absences=None, kind="single-stream", fps=None, counters=None):
    """What bins of these columns show; missing columns are made up."""
    session = SessionResult(index=0, started_at="")
    session.bins = bins
    session.facts = {"counters": counters or {}}
    job = run_of(scenario=Scenario(kind=kind, fps=fps, sustained_s=sustained_s)).job
    return sustained_of(job, session, absences=absences or {})


def bins_of(medians, *, bin_s=3.0, **columns):
    """Bins of `bin_s` with these medians, in ms, and columns of one number per bin."""
    return [
        {"begin_s": index * bin_s, "end_s": (index + 1) * bin_s, "inferences": 100.0, "median": median * 1e-3,
         "max": median * 2e-3, "p99": None, **{name: values[index] for name, values in columns.items()}}
        for index, median in enumerate(medians)
    ]  # fmt: skip


# --- the worker's bins ---


@pytest.mark.parametrize(
    ("duration", "window"),
    [(1800.0, 60.0), (240.0, 60.0), (100.0, 25.0), (4.0, 1.0), (6 * 3600.0, 60.0), (24 * 3600.0, 240.0)],
)
def test_the_window_is_a_minute_and_less_of_short_measurements(duration, window):
    assert window_of(duration) == pytest.approx(window)


def test_bins_have_the_times_of_a_throttling_engine_to_the_digit():
    bins, _ = measure(lambda now: 10 * MS if now < 120e9 else 15 * MS, sustained_s=240.0)
    assert len(bins) == 80
    assert (bins[0]["begin_s"], bins[0]["inferences"], bins[0]["median"], bins[0]["max"]) == (0.0, 301, 0.01, 0.01)
    assert [round(each["median"], 9) for each in bins] == [0.01] * 40 + [0.015] * 40
    assert bins[0]["p99"] is None  # of 301 inferences
    assert all(one["end_s"] <= other["begin_s"] for one, other in pairwise(bins))
    assert sum(len(each["values_ns"]) for each in bins) == sum(each["inferences"] for each in bins)


def test_a_percentile_is_given_from_a_thousand_inferences_on():
    bins, _ = measure(lambda now: MS, sustained_s=240.0)
    assert all(each["inferences"] > 1000 and each["p99"] == 1e-3 for each in bins)


def test_samples_are_every_kth_inference_whatever_the_length(monkeypatch):
    monkeypatch.setattr(worker_side, "MOST_SAMPLES", 100)
    calls = iter(range(10**6))
    bins, _ = measure(lambda now: 10 * MS + next(calls), sustained_s=40.0)
    kept = [value - 10 * MS for each in bins for value in each["values_ns"]]
    strides = {later - earlier for earlier, later in pairwise(kept)}
    assert len(strides) == 1 and 90 <= len(kept) <= 110 and kept[0] == 0


def test_a_bin_of_a_slow_model_has_five_inferences_and_the_last_bin_takes_the_rest():
    bins, session = measure(lambda now: 2_000 * MS, sustained_s=64.0)
    # bins of 0.8 s become 10 s; the seventh ends with the first inference that is complete after 64 s
    assert [each["inferences"] for each in bins] == [5] * 7 and session.now == 70_000 * MS


def test_paced_arrivals_keep_their_schedule_over_bins_and_misses_are_counted():
    bins, session = measure(lambda now: 10 * MS if now < 30e9 else 60 * MS, kind="paced", fps=20.0, sustained_s=60.0)
    early = [each for each in bins if each["end_s"] <= 30.0]
    assert all(each["missed"] == 0 for each in early) and session.naps == 600
    assert sum(each["inferences"] for each in early) == round((early[-1]["end_s"] - 0.01) * 20) + 1
    late = [each for each in bins if each["begin_s"] >= 31.0]
    assert all(each["missed"] == each["inferences"] for each in late)


def test_energy_becomes_power():
    meter = Meter({"energy": 6.0, "clock_rate": 2e9}, {"energy": 12.0, "clock_rate": 1e9})
    bins, _ = measure(lambda now: 10 * MS, meter, sustained_s=240.0)
    seconds = bins[0]["end_s"] - bins[0]["begin_s"]
    assert bins[0]["readings"] == {"power": 6.0 / seconds, "clock_rate": 2e9}
    assert bins[1]["readings"]["power"] == pytest.approx(12.0 / (bins[1]["end_s"] - bins[1]["begin_s"]))


class BrokenMeter(Meter):
    def end(self):
        raise OSError("unplugged")


def test_a_meter_that_fails_is_the_reason_of_what_is_absent():
    bins, _ = measure(lambda now: 10 * MS, BrokenMeter({}), sustained_s=240.0)
    why = "scripted: the meter failed: OSError: unplugged"
    assert bins[0]["readings"] == {} and bins[0]["problems"] == {"energy": why, "clock_rate": why}


def test_power_is_that_of_the_meter_that_sees_the_most():
    def reading(metric, value, covers, seconds=None):
        return {"metric": metric, "value": value, "covers": covers, "seconds": seconds}

    rows = [reading("energy", 6.0, "processor"), reading("power", 5.0, "device"), reading("energy", 1.0, "", 0.5)]
    assert worker_side.values_of(rows, 3.0) == {"power": 5.0}
    assert worker_side.values_of(rows[:1] + rows[2:], 3.0) == {"power": 2.0}
    assert worker_side.values_of(rows[2:], 3.0) == {"power": 2.0}


# --- what bins show ---


def test_a_throttle_at_a_known_time_is_found_with_its_ratio_and_clock():
    slow = [10.0] * 250 + [15.0] * 350
    clock = [2.4e9] * 250 + [1.6e9] * 350
    heat = [320.0] * 250 + [355.15] * 350
    found = result_of(bins_of(slow, clock_rate=clock, temperature=heat))
    assert (found.verdict, found.ratio, found.cause) == ("slower", pytest.approx(1.5), "clock")
    assert (found.slowdown_from_s, found.slowdown_until_s) == (750.0, None)
    assert found.slow_share == 350 / 600
    assert found.explanation == "clock fell from 2.40 GHz to 1.60 GHz; temperature rose from 46.9 °C to 82.0 °C"
    assert (found.first.bins, found.first.value, found.last.value) == (20, 0.01, 0.015)
    assert found.first.readings["clock_rate"] == 2.4e9
    assert found.absent == {"power": "no meter gave a reading"}


def test_a_constant_latency_is_the_same_and_no_time_is_made_up():
    found = result_of(bins_of([10.0] * 600), absences={"clock_rate": "no cpufreq", "energy": "no rapl"})
    assert (found.verdict, found.ratio, found.slowdown_from_s, found.cause) == ("same", 1.0, None, None)
    assert found.explanation == "" and found.slow_share == 0.0 and found.drift == 0.0
    assert found.absent["clock_rate"] == "no cpufreq" and found.absent["power"] == "no rapl"


@pytest.mark.parametrize(
    ("columns", "cause", "words"),
    [
        ({}, "unknown", "clock not readable; cause unknown"),
        ({"clock_rate": (2e9, 2e9)}, "unknown", "clock did not fall (2.00 GHz); cause unknown"),
        ({"busy_share_of_others": (0.02, 0.4)}, "disturbance", "other processes rose from 2.0% to 40.0%"),
        ({"steal_share": (0.0, 0.1)}, "disturbance", "other virtual machines rose from 0.0% to 10.0%"),
        ({"throttled_share": (0.0, 0.3)}, "limit", "a quota paused the worker rose from 0.0% to 30.0%"),
        (
            {"clock_rate": (2e9, 1e9), "steal_share": (0.0, 0.1)},
            "clock",
            says("clock-fell", quantity="2.00 GHz", quantity_2=has("1.00 GHz")),
        ),
    ],
)
def test_only_a_clock_that_fell_is_called_throttling(columns, cause, words):
    rows = {name: [first] * 300 + [later] * 300 for name, (first, later) in columns.items()}
    found = result_of(bins_of([10.0] * 300 + [12.0] * 300, **rows))
    assert (found.verdict, found.cause) == ("slower", cause) and is_in(words, found.explanation)


@pytest.mark.parametrize(
    ("counters", "columns", "cause", "words"),
    [
        ({"busy_share_of_others": 0.8}, {}, "disturbance",
         "other processes used 80% of the processor time over the whole measurement; clock not readable"),
        ({"steal_share": 0.05}, {}, "disturbance",
         "other virtual machines used 5% of the processor time over the whole measurement; clock not readable"),
        ({"busy_share_of_others": 0.08, "steal_share": None}, {}, "unknown", "clock not readable; cause unknown"),
        ({"busy_share_of_others": 0.8}, {"clock_rate": (2e9, 1e9)}, "clock",
         "clock fell from 2.00 GHz to 1.00 GHz"),
    ],
)  # fmt: skip
def test_other_work_that_was_there_all_along_may_be_the_cause(counters, columns, cause, words):
    rows = {name: [first] * 300 + [later] * 300 for name, (first, later) in columns.items()}
    found = result_of(bins_of([10.0] * 300 + [12.0] * 300, **rows), counters=counters)
    assert (found.cause, found.explanation) == (cause, words)


def test_a_slowdown_that_ends_is_told_with_its_end_and_short_ones_are_not():
    found = result_of(bins_of([10.0] * 100 + [12.0] * 30 + [10.0] * 470))
    assert (found.slowdown_from_s, found.slowdown_until_s, found.verdict) == (300.0, 390.0, "same")
    found = result_of(bins_of([10.0] * 100 + [12.0] * 19 + [10.0] * 481))
    assert found.slowdown_from_s is None and found.slow_share == 19 / 600


def test_two_disturbed_bins_neither_end_nor_begin_a_slowdown():
    medians = [10.0] * 100 + [12.0] * 500
    medians[300:302] = [10.0] * 2
    medians[50:52] = [30.0] * 2
    assert result_of(bins_of(medians)).slowdown_from_s == 300.0


def test_less_than_two_minutes_give_no_verdict():
    found = result_of(bins_of([10.0] * 30))
    assert found.verdict == "inconclusive" and found.first is None
    assert found.explanation == "only 30 bins in 1.5 min: too few for a verdict"


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_noise_alone_raises_no_alarm(correlation):
    """Of measurements of a steady, noisy engine at most 3 % are called slower or faster, or seem to slow down."""
    alarms = slowdowns = 0
    for seed in range(100):
        noise = np.random.default_rng(seed).normal(0.0, 0.02, 600)
        for index in range(1, 600):
            noise[index] += correlation * noise[index - 1]
        found = result_of(bins_of(10.0 * np.exp(noise)))
        alarms += found.verdict in ("slower", "faster")
        slowdowns += found.slowdown_from_s is not None
    assert alarms <= 3 and slowdowns <= 3


def test_a_slowdown_in_noise_is_found_where_it_begins():
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(0.0, 0.02, 600)
        found = result_of(bins_of(np.exp(noise) * ([10.0] * 200 + [12.0] * 400)))
        assert found.verdict == "slower" and abs(found.slowdown_from_s - 600.0) <= 6.0


def test_a_session_that_ended_early_gets_what_its_bins_know():
    session = SessionResult(index=0, started_at="")
    rows = {"steal_share": [0.1] * 40, "throttled_share": [0.5] * 40, "missed": [1.0] * 40}
    session.bins = bins_of([10.0] * 40, busy_share_of_others=[None] * 40, **rows)
    steady = completed(session).facts["steady"]
    assert steady["stopped_because"] == "it was ended after 2 min"
    assert (steady["arrivals"], steady["deadline_misses"]) == (4000, 40)
    counters = session.facts["counters"]
    assert counters["steal_share"] == pytest.approx(0.1) and counters["throttled_s"] == pytest.approx(60.0)
    assert counters["busy_share_of_others"] is None
