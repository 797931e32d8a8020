"""Records as they were written once: every later edgewise must read them, with the same meaning."""

import json
import math
from pathlib import Path

import pytest

from edgewise.record import SCHEMA
from edgewise.store import from_document, to_document

FOLDER = Path(__file__).parent / "schema2"


def read(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def holds(part, whole):
    """Whether everything in `part` is in `whole`: fields may be added, none may go or change."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and holds(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(holds, part, whole))
    return part == whole and type(part) is type(whole)


@pytest.mark.parametrize("name", ["done", "failed", "cancelled", "openvino"])
def test_written_again_a_golden_record_is_unchanged_but_for_its_schema(name):
    document = read(name)
    assert holds({**document, "schema": SCHEMA}, to_document(from_document(document)))


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
