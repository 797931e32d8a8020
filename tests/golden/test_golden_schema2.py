"""A record of schema 2 as it was written once: every later edgewise must read it, with the same meaning."""

import json
from pathlib import Path

from test_golden_schema1 import holds

from edgewise.record import SCHEMA
from edgewise.store import from_document, to_document

DOCUMENT = json.loads((Path(__file__).parent / "schema2" / "openvino.json").read_text(encoding="utf-8"))


def test_written_again_a_golden_record_is_unchanged_but_for_its_schema():
    assert DOCUMENT["schema"] == 2
    assert holds({**DOCUMENT, "schema": SCHEMA}, to_document(from_document(DOCUMENT)))


def test_latency_is_the_call_and_the_engines_own_clock_is_apart():
    run = from_document(DOCUMENT)
    call, engine = run.measurement("latency"), run.measurement("latency_engine")
    assert all(own < whole for own, whole in zip(engine.samples, call.samples, strict=True))
    assert call.method.startswith("monotonic clock around each call of the engine")
    assert engine.method.startswith("the engine's own clock, same inferences as latency")
    assert len(run.sessions[0].warmup_samples) > 0
