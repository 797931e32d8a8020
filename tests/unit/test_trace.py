"""The Chrome trace: structure, order, nesting, and nothing that is not known."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from edgewise.report.profile.trace import INFERENCE, LAYERS, OVERHEADS, place_in_latency, render_trace, trace_document
from messages import wording
from sample_profiles import MEMORY, faster_run, layer_of, many_layers_run, profiled_run, unprofiled_run

RUNS = [profiled_run(), faster_run(), unprofiled_run()]


def events(phase, *, runs=RUNS, process=1):
    return [each for each in trace_document(runs)["traceEvents"] if each["ph"] == phase and each["pid"] == process]


def spans(thread, **more):
    return [each for each in events("X", **more) if each["tid"] == thread]


@pytest.mark.parametrize("run", [profiled_run(), faster_run(), many_layers_run()])
def test_events_are_sorted_and_inside_their_inference(run):
    found = [each for each in trace_document([run])["traceEvents"] if each["ph"] != "M"]
    assert [each["ts"] for each in found] == sorted(each["ts"] for each in found)
    [parent] = spans(INFERENCE, runs=[run])
    for each in found:
        assert each["ts"] >= 0
        assert each.get("dur", 0) >= 0
        assert parent["ts"] <= each["ts"]
        assert each["ts"] + each.get("dur", 0) <= parent["ts"] + parent["dur"] + 1e-6


@pytest.mark.parametrize("run", [profiled_run(), faster_run(), many_layers_run()])
def test_spans_of_a_thread_do_not_overlap(run):
    for thread in (LAYERS, OVERHEADS):
        found = spans(thread, runs=[run])
        for first, second in pairwise(found):
            assert first["ts"] + first["dur"] <= second["ts"] + 1e-6


def test_layers_are_where_the_engine_saw_them():
    found = spans(LAYERS)
    assert [(each["ts"], each["dur"]) for each in found] == [
        (10, 300), (342, 250), (593, 200), (794, 80), (875, 60), (936, 30),
    ]  # fmt: skip
    assert found[0]["cat"] == "Conv"
    assert found[0]["args"]["nodes"][1:] == ["bn1", "relu1"]
    assert (found[0]["args"]["low_us"], found[0]["args"]["macs"]) == (pytest.approx(294), 6_000_000)
    assert "macs" not in found[3]["args"]  # whirl's cost is not known


def test_overheads_without_a_place_follow_the_layers():
    found = spans(OVERHEADS)
    assert [(each["name"], each["ts"], each["dur"]) for each in found] == [
        ("reorder a", 311, 30), ("between operators", 966, 20), ("session", 986, 10),
    ]  # fmt: skip
    assert "position" not in found[0]["args"]
    assert found[1]["args"]["position"].startswith("not known")


def test_noise_in_beginnings_is_moved_and_told():
    run = profiled_run()
    layers = tuple(replace(each, start=590e-6) if each.name == "pw1" else each for each in run.layers)
    pointwise = next(each for each in spans(LAYERS, runs=[replace(run, layers=layers)]) if each["name"] == "pw1")
    assert pointwise["ts"] == 592
    assert pointwise["args"]["began_us"] == pytest.approx(590)


def test_layers_at_the_same_time_get_a_thread_of_their_own_where_they_take_longer_than_the_whole():
    run = profiled_run()
    layers = tuple(replace(each, start=400e-6) if each.name == "pw1" else each for each in run.layers)
    quick = replace(run, layers=layers, profile=replace(run.profile, profiled_latency=800e-6))
    assert [each["name"] for each in spans(LAYERS + 1, runs=[quick])] == ["pw1"]
    assert spans(LAYERS + 1, runs=[replace(run, layers=layers)]) == []


def test_layers_without_a_beginning_are_laid_end_to_end_and_say_so():
    run = profiled_run()
    found = spans(LAYERS, runs=[replace(run, layers=tuple(replace(each, start=None) for each in run.layers))])
    assert [each["ts"] for each in found] == [0, 300, 550, 750, 830, 890]
    assert all(wording("engine-does-not-report-when") in each["args"]["position"] for each in found)


def test_memory_is_a_counter_that_ends_at_nothing():
    found = events("C")
    assert [each["args"]["bytes"] for each in found] == [60_000, 90_112, 70_000, 30_000, 12_000, 4_000, 0]
    assert max(each["args"]["bytes"] for each in found) == max(MEMORY["live_bytes"])
    assert events("C", process=2) == []  # its memory is not known


def test_each_profiled_run_is_a_process_with_named_threads():
    document = trace_document(RUNS)
    assert {each["pid"] for each in document["traceEvents"]} == {1, 2}
    names = [each["args"]["name"] for each in events("M") if each["name"] in ("process_name", "thread_name")]
    assert names == [
        "kws.onnx · onnxruntime/cpu · median latency 1.00 ± 0.01 ms", "inference", "overheads of the engine", "layers",
    ]  # fmt: skip
    assert [each["args"]["profiled_latency_us"] for each in spans(INFERENCE, process=2)] == [900]


def test_it_is_json_without_control_characters():
    text = render_trace(RUNS)
    assert json.loads(text) == trace_document(RUNS)
    assert "\\n" not in text


def test_along_the_latency_only_what_lies_between_layers_is_shortened():
    layers = (
        layer_of(0, "a", "Conv", 30, start=5e-6),
        layer_of(1, "b", "Conv", 40, start=205e-6),
        layer_of(2, "sum", "dispatch", 4, kind="overhead"),
    )
    run = profiled_run()
    run = replace(run, layers=layers, profile=replace(run.profile, latency=79e-6, profiled_latency=250e-6))
    found = [(layer.name, lane, ts, dur) for layer, lane, ts, dur in place_in_latency(run)]
    # 5 of 79 µs lie outside what is known, and are shared out among 5 and 170 µs.
    share = 5 / 175
    expected = [("a", 0, 5 * share, 30.0), ("b", 0, 35.0, 40.0), ("sum", None, 75.0, 4.0)]
    assert [each[:2] for each in found] == [each[:2] for each in expected]
    assert [number for each in found for number in each[2:]] == pytest.approx(
        [number for each in expected for number in each[2:]]
    )
    slow = replace(run, profile=replace(run.profile, latency=1.0))
    assert [ts for _, _, ts, _ in place_in_latency(slow)] == pytest.approx([5.0, 205.0, 245.0])
