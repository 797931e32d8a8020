"""Peaks are measured by real workers, kept per machine, and absent with a reason."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from edgewise.record import TargetSpec
from edgewise.report.profile.cells import history_of, peak_rows
from edgewise.run import peaks
from edgewise.run.environment import fingerprint
from edgewise.run.peaks import find_peaks, forget_peaks, kept_peaks, known_rates, make_product


@pytest.fixture
def asked(monkeypatch):
    """What workers were asked, answered with one millisecond a repetition."""
    requests = []

    def answer(place, request, *, model=None):
        requests.append(request)
        return {"seconds": [1e-3] * 9}

    monkeypatch.setattr(peaks, "_ask", answer)
    return requests


def test_bandwidth_counts_what_is_read_and_written(tmp_path, asked):
    found, why = find_peaks((), 2, cache=tmp_path / "peaks.json")
    assert why is None
    by_size = {peak.size_bytes: peak.value for peak in found}
    # 256 KiB, 64 times, on two threads, in 1 ms
    assert by_size[256 * 2**10] == pytest.approx(256 * 2**10 * 64 * 2 / 1e-3)
    assert by_size[256 * 2**20] == pytest.approx(256 * 2**20 * 2 / 1e-3)
    assert [request["threads"] for request in asked] == [2] * 4


def test_what_was_measured_is_kept_for_this_machine_only(tmp_path, asked, monkeypatch):
    cache = tmp_path / "deep" / "peaks.json"
    first = find_peaks((), 1, cache=cache)
    asked.clear()
    assert find_peaks((), 1, cache=cache) == first
    assert asked == []
    find_peaks((), 2, cache=cache)
    assert len(asked) == 4
    asked.clear()
    find_peaks((), 1, cache=cache)
    assert asked == []
    conditions = peaks._conditions(TargetSpec())
    monkeypatch.setattr(peaks, "_conditions", lambda place: conditions | {"host": "another"})
    find_peaks((), 1, cache=cache)
    assert len(asked) == 4
    monkeypatch.undo()
    assert find_peaks((), 1, cache=cache) == first  # the other one did not replace it


def test_known_rates_are_macs_of_the_kept_peaks_and_measure_none(tmp_path, asked, monkeypatch):
    cache = tmp_path / "peaks.json"
    monkeypatch.setattr(peaks, "usable_cores", lambda: (0, 1, 2))
    assert known_rates(cache) is None
    find_peaks((), 1, cache=cache)
    assert known_rates(cache) is None  # copies are no arithmetic
    document = json.loads(cache.read_text())
    document["machines"][0]["peaks"]["float32/2"] = [
        {"kind": "compute", "dtype": "float32", "threads": 2, "value": 4e9}
    ]
    cache.write_text(json.dumps(document))
    asked.clear()
    assert known_rates(cache) == pytest.approx((1e9, 3e9)) and asked == []


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", '{"machine": 1}', '{"machines": 3}', '{"machines": [3]}'),
        *('{"machines": [{"conditions": OWN, "peaks": ' + own + "}]}" for own in ("3", '{"a": 3}', '{"a": [{}]}')),
    ],
)
def test_a_damaged_cache_is_measured_anew(tmp_path, asked, content):
    cache = tmp_path / "peaks.json"
    cache.write_text(content.replace("OWN", json.dumps(peaks._conditions(TargetSpec()))))
    assert forget_peaks(cache=tmp_path / "none.json") == 0 and kept_peaks(cache=cache) == []
    find_peaks((), 1, cache=cache)
    assert len(asked) == 4
    assert len(kept_peaks(cache=cache)) == 4
    assert forget_peaks(cache=cache) == 4 and kept_peaks(cache=cache) == []


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path, asked):
    (tmp_path / "file").write_text("")
    found, _ = find_peaks((), 1, cache=tmp_path / "file" / "peaks.json")
    assert found


def test_peaks_nobody_could_measure_are_absent_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(peaks, "_ask", lambda place, request, **_: {"error": "no"})
    found, why = find_peaks(("float32",), 1, cache=tmp_path / "peaks.json")
    assert found == ()
    assert "float32" in why and "bandwidth" in why


def test_a_worker_that_crashes_answers_nothing(monkeypatch):
    monkeypatch.setattr("edgewise.device.target.command_of", lambda module: ("/bin/false",))
    assert peaks._ask(TargetSpec(), {"threads": 1}) == {}


def test_a_worker_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr("edgewise.device.target.command_of", lambda module: ("/bin/sleep", "600"))
    monkeypatch.setattr(peaks, "_TIMEOUT_S", 0.1)  # real time: it has to end, on any machine
    assert peaks._ask(TargetSpec(), {"threads": 1}) == {}


def test_a_real_copy_of_memory():
    answer = peaks._ask(TargetSpec(), {"kind": "bandwidth", "size_bytes": 2**16, "threads": 2, "repeat": 1})
    assert len(answer["seconds"]) >= 7 and min(answer["seconds"]) > 0
    assert "load" in answer


@pytest.mark.engine
@pytest.mark.parametrize("quantised", [False, True])
def test_the_product_is_a_product(quantised, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
    session = onnxruntime.InferenceSession(make_product(8, quantised=quantised), providers=["CPUExecutionProvider"])
    generator = np.random.default_rng(0)
    if not quantised:
        weights = generator.standard_normal((8, 8), dtype=np.float32)
        x = np.eye(8, dtype=np.float32) * 2
        np.testing.assert_allclose(session.run(None, {"x": x})[0], 2 * weights, rtol=1e-5)
        return
    weights = generator.integers(-127, 127, (8, 8), np.int8)
    x = generator.integers(0, 255, (8, 8)).astype(np.uint8)
    real = (x.astype(float) - 128) * 0.02 @ (weights.astype(float) * 0.02)
    expected = np.clip(np.round(real / 4.0) + 128, 0, 255)
    assert np.abs(session.run(None, {"x": x})[0].astype(int) - expected).max() <= 1


@pytest.mark.engine
def test_a_real_product_in_a_real_worker(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
    monkeypatch.setattr(peaks, "SIDE", 64)
    found = list(peaks._products("float32", 1, TargetSpec()))
    assert found and all(peak.value > 0 and peak.dtype == "float32" and "64³" in peak.method for peak in found)


def test_a_layer_that_always_beats_its_roof_does_not_measure_for_ever(tmp_path, asked):
    cache = tmp_path / "peaks.json"
    find_peaks((), 1, cache=cache)
    for _ in range(5):
        found, _ = find_peaks((), 1, again=True, cache=cache)
    assert {peak.times_measured for peak in found} == {3}
    assert len(asked) == 3 * 4


def test_peaks_measured_beside_other_work_are_measured_again_until_it_is_quiet(tmp_path, monkeypatch):
    loads, asked = iter([0.5] * 8 + [0.0] * 4), []

    def answer(place, request, **_):
        asked.append(request)
        return {"seconds": [1e-3 * len(asked)] * 9, "load": next(loads)}

    monkeypatch.setattr(peaks, "_ask", answer)
    cache = tmp_path / "peaks.json"
    first, _ = find_peaks((), 1, cache=cache)
    assert {peak.load for peak in first} == {0.5}
    assert {peak.load for peak in find_peaks((), 1, cache=cache)[0]} == {0.5}
    quiet, _ = find_peaks((), 1, cache=cache)
    # The highest is the first one, and one measurement was quiet.
    assert {peak.load for peak in quiet} == {0.0} and [peak.value for peak in quiet] == [peak.value for peak in first]
    assert find_peaks((), 1, cache=cache) == (quiet, None) and len(asked) == 12


def test_of_several_measurements_the_highest_is_kept(tmp_path, monkeypatch):
    seconds = iter([2e-3] * 4 + [1e-3] * 4 + [4e-3] * 4)
    monkeypatch.setattr(peaks, "_ask", lambda place, request, **_: {"seconds": [next(seconds)] * 9})
    cache = tmp_path / "peaks.json"
    first, _ = find_peaks((), 1, cache=cache)
    second, _ = find_peaks((), 1, again=True, cache=cache)
    third, _ = find_peaks((), 1, again=True, cache=cache)
    assert [peak.value for peak in second] == [pytest.approx(2 * peak.value) for peak in first]
    assert [peak.value for peak in third] == [peak.value for peak in second]


@pytest.mark.parametrize("seconds", [[1e-9, 1e-9, *[1e-3] * 9], [*[1e-3] * 5, 0.0, 1e-12]])
def test_a_clock_that_jumps_makes_no_peak_that_stays(tmp_path, monkeypatch, seconds):
    monkeypatch.setattr(peaks, "_ask", lambda place, request, **_: {"seconds": seconds})
    found, _ = find_peaks((), 1, cache=tmp_path / "peaks.json")
    assert [peak.value for peak in found] == pytest.approx([peak.high for peak in found])
    assert found[-1].value == pytest.approx(256 * 2**20 / 1e-3)


def test_the_best_that_was_ever_measured_is_told_with_how_often_and_since_when(tmp_path, monkeypatch):
    """Load makes a peak lower: 21.9 µs, then 34.0 µs must not become the limits of one network."""
    seconds, days = iter([2e-3] * 4 + [1e-3] * 4 + [5e-3] * 4), iter([day for day in (1, 2, 3) for _ in range(4)])
    monkeypatch.setattr(peaks, "_ask", lambda place, request, **_: {"seconds": [next(seconds)] * 9, "load": 0.5})

    class Days(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 11, next(days), tzinfo=tz)

    monkeypatch.setattr(peaks, "datetime", Days)
    rates = []
    for times in (1, 2, 3):
        found, _ = find_peaks((), 1, cache=tmp_path / "peaks.json")
        rates.append(found[0].value)
        assert {peak.times_measured for peak in found} == {times}
        assert {peak.since[:10] for peak in found} == {"2026-11-01"}
    assert rates[1] == rates[2] == 2 * rates[0]
    assert {peak.measured_at[:10] for peak in found} == {"2026-11-02"}
    assert history_of(found[0]) == "measured 3 times since 2026-11-01, the highest rate counts: that of 2026-11-02"
    name, rate, how = peak_rows(found)[0]
    assert (name, rate) == ("bandwidth in 256 KiB", "16.8 GB/s")
    assert how.endswith(", 1 thread, " + history_of(found[0]))
    assert history_of(replace(found[0], times_measured=1)) == "measured once, 2026-11-01"
    bare = replace(found[0], since="", measured_at="")
    assert history_of(bare) == "measured 3 times, the highest rate counts"


@pytest.mark.parametrize(
    "change",
    [
        {"cores": [0]},
        {"cpu": {"model": "another"}},
        {"cpu": {"quota_cores": 0.5}},
        {"clock": {"limit_hz": 1_000_000_000}},
        {"virtualisation": {"container": "another"}},
        {"engines": {"onnxruntime": "0.1"}},
        {"numpy": "0.1"},
    ],
)
def test_a_kept_peak_does_not_survive_a_change_of_the_machine_or_of_what_a_process_may_use(
    tmp_path, asked, monkeypatch, change
):
    cache = tmp_path / "peaks.json"
    before = peaks._conditions(TargetSpec())
    assert before.keys() > change.keys()
    find_peaks((), 1, cache=cache)
    now = {
        name: {**before[name], **change.get(name, {})} if isinstance(before[name], dict) else change.get(name, value)
        for name, value in before.items()
    }
    monkeypatch.setattr(peaks, "_conditions", lambda place: now)
    assert kept_peaks(cache=cache) == [] and known_rates(cache) is None
    asked.clear()
    find_peaks((), 1, cache=cache)
    assert len(asked) == 4
    assert forget_peaks(cache=cache) == 8  # of this host under all conditions


def test_the_quota_and_the_cores_of_the_process_are_among_the_conditions(monkeypatch):
    here = fingerprint()
    monkeypatch.setattr(peaks, "environment_at", lambda place: here | {"cpu": {**here["cpu"], "quota_cores": 1.5}})
    monkeypatch.setattr(peaks, "cores_at", lambda place: (1, 3))
    found = peaks._conditions(TargetSpec())
    assert (found["cpu"]["quota_cores"], found["cores"]) == (1.5, [1, 3])


def test_what_two_processes_measure_at_once_is_all_kept(tmp_path, monkeypatch):
    cache = tmp_path / "peaks.json"
    rates = iter([4e-3] * 8)

    def answer(place, request, **_):
        if next(rates, None) and request["threads"] == 1 and not kept_peaks(cache=cache):
            find_peaks((), 2, cache=cache)  # another process, meanwhile
        return {"seconds": [1e-3] * 9}

    monkeypatch.setattr(peaks, "_ask", answer)
    find_peaks((), 1, cache=cache)
    assert sorted({peak.threads for peak in kept_peaks(cache=cache)}) == [1, 2]


def test_the_peaks_of_the_last_machines_are_kept(tmp_path, asked, monkeypatch):
    cache = tmp_path / "peaks.json"
    here = peaks._conditions(TargetSpec())
    for number in range(peaks.MOST_KEPT + 2):
        monkeypatch.setattr(peaks, "_conditions", lambda place, number=number: here | {"host": f"h{number}"})
        find_peaks((), 1, cache=cache)
    hosts = [each["conditions"]["host"] for each in json.loads(cache.read_text())["machines"]]
    assert hosts == [f"h{number}" for number in range(2, peaks.MOST_KEPT + 2)]
