"""Records of schema 1 as they were written once: every later edgewise must read them, with the same meaning."""

import json
import math
from pathlib import Path

import pytest

from edgewise.record import SCHEMA
from edgewise.store import from_document, to_document

FOLDER = Path(__file__).parent / "schema1"


def read(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def holds(part, whole):
    """Whether everything in `part` is in `whole`: fields may be added, none may go or change."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and holds(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(holds, part, whole))
    return part == whole and type(part) is type(whole)


@pytest.mark.parametrize("name", ["done", "failed", "cancelled"])
def test_written_again_a_golden_record_is_unchanged_but_for_its_schema(name):
    document = read(name)
    assert holds({**document, "schema": SCHEMA}, to_document(from_document(document)))


def rows_of(document):
    return {row["metric"]: row for row in document["measurements"]}


def test_latency_of_schema_1_is_the_call_where_that_was_recorded():
    """Written by edgewise of schema 1 on OpenVINO: its latency was by the engine's own clock."""
    document, old = read("openvino"), rows_of(read("openvino"))
    assert old["latency_call"]["value"] > old["latency"]["value"]
    run = from_document(document)
    new = rows_of(to_document(run))
    assert holds({**old["latency_call"], "metric": "latency"}, new["latency"])
    assert holds({**old["latency"], "metric": "latency_engine"}, new["latency_engine"])
    assert new["latency"]["method"].startswith("monotonic clock around the engine's Python call")
    assert new["latency_engine"]["method"].startswith("the engine's own clock")
    assert run.measurements[0].metric == "latency" and "latency_call" not in new
    others = old.keys() - {"latency", "latency_call"}
    assert all(holds(old[name], new[name]) for name in others)
    assert new["throughput"]["value"] == pytest.approx(12 / sum(new["latency"]["samples"]))
    # The warm-up's times were by the engine's clock as well.
    for before, session in zip(document["sessions"], run.sessions, strict=True):
        assert session.warmup_samples == ()
        assert list(session.facts["warmup_samples_engine"]) == before["warmup_samples"]


def test_what_schema_1_has_by_the_engines_clock_alone_is_no_latency():
    """A paced run on OpenVINO: the calls were not recorded, and the method said that they were."""
    old = rows_of(read("openvino_paced"))
    assert old["latency_paced"]["method"].startswith("monotonic clock around each call")
    run = from_document(read("openvino_paced"))
    for metric in ("latency_paced", "latency"):
        row = run.measurement(metric)
        assert (row.value, row.basis, row.samples) == (None, None, ())
        assert "by the engine's own clock alone (median " in row.absent_because
    engine = run.measurement("latency_engine")
    assert (engine.value, list(engine.samples)) == (old["latency_paced"]["value"], old["latency_paced"]["samples"])
    assert engine.method.startswith("the engine's own clock around each inference, arrivals every 1/200 s")
    gap = run.measurement("idle_gap_penalty")
    assert gap.value == old["idle_gap_penalty"]["value"] and gap.method.endswith(", both by the engine's own clock")
    assert run.value("response_time") == old["response_time"]["value"]
    assert (run.trust.grade, run.trust.reasons) == ("D", ("no headline value",))


def test_a_paced_run_of_an_engine_without_a_clock_keeps_its_latency():
    document = read("openvino_paced")
    document["job"]["runtime"]["name"] = "onnxruntime"
    assert from_document(document).value("latency_paced") == rows_of(document)["latency_paced"]["value"]


def test_an_upgraded_record_stays_as_it_is():
    for name in ("openvino", "openvino_paced"):
        document = to_document(from_document(read(name)))
        assert document["schema"] == SCHEMA == 2
        assert to_document(from_document(document)) == document


def test_the_comparison_itself_can_fail():
    document = read("done")
    changed = read("done")
    changed["measurements"][0]["samples"][3] = 0.0022
    assert not holds(changed, document)
    assert not holds({**document, "more": 1}, document)


def test_done():
    run = from_document(read("done"))
    assert run.id == "01936b2a-7c10-7abc-8def-0123456789ab"
    assert run.job.workload.inputs[0].shape == (1, 96, 96, 1)
    latency = run.measurement("latency")
    assert (latency.value, latency.low, latency.high) == (0.0021, 0.00205, 0.00216)
    assert latency.samples == (0.0021, 0.0022, 0.002, 0.0021)
    assert latency.session_lengths == (2, 2)
    assert latency.summary.percentiles == {"p50": 0.0021}
    assert run.value("model_size") == 300568.0
    assert run.value("energy") is None
    assert run.measurement("energy").absent_because == "no energy meter on this machine"
    assert run.sessions[1].stopped_because == "time budget"
    assert run.layers[0].op == "CONV_2D"
    assert run.trust.grade == "D"
    assert run.tags == ("baseline",)


def test_failed():
    failure = from_document(read("failed")).failure
    assert (failure.cause, failure.phase, failure.signal) == ("Timeout", "load", "SIGKILL")


def test_minimal_takes_the_defaults_and_ignores_what_it_does_not_know():
    run = from_document(read("minimal"))
    assert run.job.workload.stopping.sessions == 5
    assert run.job.runtime.threads is None
    samples = run.measurement("latency").samples
    assert samples[0] == 0.5
    assert math.isnan(samples[1])
    assert "a_later_field" not in to_document(run)
