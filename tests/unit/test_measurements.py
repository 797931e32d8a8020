"""From what workers told to measurements: exact values from hand-made sessions."""

import math
import re

import pytest

from edgewise.metrics import METRICS
from edgewise.record import Job, ModelRef, RuntimeSpec, Scenario, Workload
from edgewise.run.host_protocol import SessionResult
from edgewise.run.measurements import Z95, measurements_of, session_record
from edgewise.run.rates import distribution
from edgewise.run.variation import FLOOR
from messages import says, wording

MS = 1_000_000
MEMORY = {"VmRSS": 50_000_000, "VmHWM": 60_000_000}


def job(kind="single-stream", *, batch=1, fps=None):
    return Job(
        model=ModelRef(name="m", path="/m", format="fake", sha256="0", size_bytes=123),
        runtime=RuntimeSpec(name="fake", threads=1),
        workload=Workload(scenario=Scenario(kind=kind, fps=fps), batch=batch),
    )


def session(index=0, *, samples, steady=None, **facts):
    return SessionResult(
        index=index,
        started_at="2026-01-01T00:00:00+00:00",
        pid=100 + index,
        phases={
            "python": 0.02,
            "prepare": 0.01,
            "import": 0.2,
            "inputs": 9.0,
            "load": 0.1,
            "first": 0.005,
            "steady": 1.0,
        },
        samples=samples,
        facts={
            "memory_baseline": {"VmRSS": 40_000_000, "VmHWM": 41_000_000},
            "memory_load": MEMORY,
            "memory_peak": MEMORY,
            "peak_was_reset": True,
            "counters": {"process_cpu_s": 0.9, "wall_s": 1.0},
            "steady": {"warmup": 2, "warmup_found": True, "stopped_because": "20 iterations", **(steady or {})},
            **facts,
        },
    )


def rows_of(the_job, *sessions, absences=None):
    return {row.metric: row for row in measurements_of(the_job, sessions, meter_absences=absences or {})}


def latencies(*values):
    return {"latency": [value * MS for value in values], "latency_first": [7 * MS], "warmup": [5 * MS]}


def test_single_stream():
    rows = rows_of(job(batch=4), session(samples=latencies(1, 2, 3)), session(1, samples=latencies(2, 3, 4)))
    assert rows["latency"].value == pytest.approx(2.5e-3)
    assert rows["latency"].samples == pytest.approx((1e-3, 2e-3, 3e-3, 2e-3, 3e-3, 4e-3))
    assert rows["latency"].session_lengths == (3, 3)
    assert rows["throughput"].value == pytest.approx(6 * 4 / 15e-3)
    assert rows["throughput"].basis == "derived"
    assert rows["latency_first"].value == pytest.approx(7e-3)
    assert rows["startup_time"].value == pytest.approx(0.02 + 0.01 + 0.2 + 0.1 + 0.005)  # inputs are ours
    assert rows["import_time"].value == pytest.approx(0.2)
    assert rows["memory_delta"].value == pytest.approx(20_000_000)
    assert rows["memory_delta"].basis == "derived"
    assert rows["cpu_utilization"].value == pytest.approx(0.9)
    assert rows["model_size"].value == 123


@pytest.mark.parametrize(("scenario", "headline"), [(job(), "latency"), (job("paced", fps=30), "latency_paced")])
def test_latency_is_the_call_and_the_engines_own_clock_has_a_row_of_its_own(scenario, headline):
    samples = latencies(2, 3, 4) | {"latency_engine": [MS, 2 * MS, 3 * MS]}
    if headline == "latency_paced":
        samples |= {"latency_paced": [3 * MS], "response_time": [3 * MS]}
    rows = rows_of(scenario, session(samples=samples, steady={"deadline_misses": 0, "arrivals": 1}))
    assert rows["latency"].value == pytest.approx(3e-3)
    assert rows[headline].method.startswith("monotonic clock around each call of the engine, ")
    assert rows["latency_engine"].value == pytest.approx(2e-3)
    assert rows["latency_engine"].method.startswith(f"the engine's own clock, same inferences as {headline}, ")
    assert "latency_engine" not in rows_of(job(), session(samples=latencies(1, 2, 3)))


def test_offline_rates_come_from_windows_of_completions():
    stamps = [MS * n for n in range(1, 101)]
    rows = rows_of(job("offline", batch=2), session(samples={"completions": stamps, "latency_first": [MS]}))
    assert rows["throughput"].value == pytest.approx(2000.0)
    assert rows["throughput"].samples == pytest.approx([2000.0] * 10)
    assert re.search(says("completions-batch-time-s-process", sum=100, batch=2, total="0.1"), rows["throughput"].method)
    assert rows["latency"].value is None


def test_offline_throughput_is_completions_over_time_also_with_a_stall():
    stamps = [MS * n for n in range(1, 51)] + [MS * (n + 100) for n in range(51, 101)]
    rows = rows_of(job("offline"), session(samples={"completions": stamps, "latency_first": [MS]}))
    assert rows["throughput"].value == pytest.approx(100 / 0.2)
    assert rows["throughput"].low < rows["throughput"].value < rows["throughput"].high


@pytest.mark.parametrize(
    ("stamps", "requests", "rate"),
    [
        ([200, 200, 400, 400, 600, 600], 2, 10.0),  # two requests of 200 ms end together
        ([200, 200.1, 400, 400.2], 2, 4 / 0.4002),
        (list(range(100, 1600, 100)), 1, 10.0),  # fifteen do not divide into ten windows
        ([500], 1, 2.0),
    ],
)
def test_offline_throughput_does_not_depend_on_windows(stamps, requests, rate):
    samples = {"completions": [round(stamp * MS) for stamp in stamps], "latency_first": [MS]}
    rows = rows_of(job("offline"), session(samples=samples, effective={"requests": requests}))
    assert rows["throughput"].value == pytest.approx(rate)


def test_single_stream_throughput_is_of_the_wall_even_where_the_engine_has_a_clock():
    samples = latencies(2, 3, 5) | {"latency_engine": [MS, 2 * MS, 3 * MS]}
    rows = rows_of(job(), session(samples=samples))
    assert rows["throughput"].value == pytest.approx(3 / 10e-3)


def test_offline_without_a_completion_has_no_throughput():
    rows = rows_of(job("offline"), session(samples={"completions": [], "latency_first": [MS]}))
    assert (
        rows["throughput"].value is None
        and wording("no-inference-completed-time-given") in rows["throughput"].absent_because
    )


def test_paced_adds_up_the_misses_of_all_sessions():
    def one(index, missed):
        samples = {"latency_paced": [4 * MS] * 20, "response_time": [5 * MS] * 20, "latency": [2 * MS] * 20}
        return session(index, samples=samples, steady={"deadline_misses": missed, "arrivals": 20})

    rows = rows_of(job("paced", fps=30), one(0, 1), one(1, 3))
    row = rows["deadline_miss_rate"]
    assert row.value == pytest.approx(0.1)
    assert (row.low, row.high) == pytest.approx((0.0396, 0.2305), abs=1e-4)  # Wilson's interval of 4 in 40
    assert rows["idle_gap_penalty"].value == pytest.approx(2.0)
    assert rows["idle_gap_penalty"].basis == "derived"


def test_a_peak_that_could_not_be_reset_says_so():
    rows = rows_of(job(), session(samples=latencies(1, 2, 3), peak_was_reset=False))
    assert wording("could-not-reset-includes-loading") in rows["memory_peak"].method


def test_memory_that_is_not_told_is_absent_with_the_reason():
    nothing = {"memory_baseline": {}, "memory_load": {}, "memory_peak": {}}
    rows = rows_of(job(), session(samples=latencies(1, 2, 3), **nothing))
    for metric in ("memory_baseline", "memory_load", "memory_peak", "memory_delta"):
        assert rows[metric].value is None and rows[metric].absent_because


def test_meters_that_are_not_there_leave_their_reasons():
    rows = rows_of(job(), session(samples=latencies(1, 2, 3)), absences={"energy": "rapl: no such file"})
    assert rows["energy"].absent_because == rows["power"].absent_because == "rapl: no such file"
    assert rows["temperature"].absent_because


def test_a_meter_that_is_there_gives_its_metrics():
    def reading(metric, value, window, meter="fake"):
        return {
            "meter": meter,
            "part": "",
            "metric": metric,
            "value": value,
            "method": f"{meter} sensor",
            "window": window,
        }

    load = [
        reading("temperature", 320.0, 0),
        reading("temperature", 330.0, 1),
        reading("temperature", 99.0, 1, "other"),
    ]
    load.append(reading("gpu_utilization", 0.25, 0))
    sensors = [{"name": "fake", "metrics": ["temperature", "clock_rate"]}]
    problems = [{"meter": "fake", "window": 0, "reason": "it was unplugged"}]
    meters = {
        "sensors": sensors,
        "idle": {"readings": [], "problems": []},
        "load": {"readings": load, "problems": problems},
    }
    rows = rows_of(job(), session(samples=latencies(1, 2, 3), meters=meters))
    assert (rows["temperature"].value, rows["temperature"].samples) == (330.0, (320.0, 330.0))
    assert rows["gpu_utilization"].value == 0.25
    assert rows["clock_rate"].absent_because == "fake: it was unplugged"
    assert rows["energy"].absent_because == wording("no-energy-meter-available")


def test_every_metric_is_in_the_catalogue_with_its_unit():
    for row in measurements_of(job(), [session(samples=latencies(1, 2, 3))], meter_absences={}):
        assert row.unit == METRICS[row.metric].unit
        assert (row.value is None) == (row.absent_because is not None) == (row.basis is None)


def test_even_constant_samples_leave_room_for_the_next_command():
    row = distribution("latency", [[1e-3] * 20, [1e-3] * 20], "test")
    assert row.high / row.value == row.value / row.low == pytest.approx(math.exp(Z95 * FLOOR))


def test_the_floor_adds_in_quadrature():
    samples = [[1.0, 1.1, 0.9, 1.05, 0.95] * 10, [1.2, 1.3, 1.1, 1.25, 1.15] * 10]
    plain = distribution("cpu_utilization", samples, "test")  # no unit of time: no floor
    timed = distribution("latency", samples, "test")
    assert timed.low < timed.value < timed.high
    assert plain.low is not None
    assert timed.high - timed.value > math.sqrt(2) * Z95 * FLOOR * timed.value


def test_a_session_record_keeps_the_warmup_in_seconds():
    record = session_record(session(samples=latencies(1, 2, 3)))
    assert record.warmup_samples == pytest.approx((5e-3,))
    assert record.stopped_because == "20 iterations"
    assert record.pid == 100
