"""Peaks are measured by real workers, kept per machine, and absent with a reason."""

from __future__ import annotations

import json

import numpy as np
import pytest

from edgewise.record import TargetSpec
from edgewise.run import peaks
from edgewise.run.peaks import find_peaks, known_rates, make_product


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
    monkeypatch.setattr(peaks, "_machine", lambda place: "another")
    find_peaks((), 1, cache=cache)
    assert len(asked) == 4


def test_known_rates_are_macs_of_the_kept_peaks_and_measure_none(tmp_path, asked, monkeypatch):
    cache = tmp_path / "peaks.json"
    monkeypatch.setattr(peaks, "usable_cores", lambda: (0, 1, 2))
    assert known_rates(cache) is None
    find_peaks((), 1, cache=cache)
    assert known_rates(cache) is None  # copies are no arithmetic
    document = json.loads(cache.read_text())
    document["peaks"]["float32/2"] = [{"kind": "compute", "dtype": "float32", "threads": 2, "value": 4e9}]
    cache.write_text(json.dumps(document))
    asked.clear()
    assert known_rates(cache) == pytest.approx((1e9, 3e9)) and asked == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"machine": 1}', '{"machine": null, "peaks": 3}'])
def test_a_damaged_cache_is_measured_anew(tmp_path, asked, content):
    cache = tmp_path / "peaks.json"
    cache.write_text(content)
    find_peaks((), 1, cache=cache)
    assert len(asked) == 4
    assert json.loads(cache.read_text())["peaks"]


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
