"""What a profile's advice says of stored runs of the same model with more threads, and of its int8 variants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.record.job import ModelRef
from edgewise.report.profile.findings import next_section, unmeasured_words
from edgewise.store import open_store
from edgewise.verbs.context import Context
from edgewise.verbs.profile.stored_runs import find_measured
from sample_profiles import profiled_run
from sample_runs import KWS, make_run

LATER = "2026-03-07T05:00:00.000+00:00"
INT8 = ModelRef(name="kws_int8.onnx", path="/m/kws_int8.onnx", format="onnx", sha256="8" * 64, size_bytes=9)


@pytest.fixture
def store(tmp_path):
    with open_store(str(tmp_path / "runs.db")) as opened:
        yield opened


def own_run():
    """One thread, 1 ms ± 1 %, with four cores."""
    run = make_run(1, latency=1e-3, half=1e-5)
    environment = {**run.environment, "cpu": {**run.environment.get("cpu", {}), "usable_cores": 4}}
    return replace(run, created_at=LATER, profile=profiled_run().profile, environment=environment)


def found_for(store, *others):
    run = own_run()
    for each in (run, *others):
        store.save(replace(each, environment=run.environment))
    return run, find_measured([run], Context(store=store))[run.id]


def int8_variant(*, accepted: bool = True, parent: str = KWS.sha256):
    artifact = {"kind": "variant", "parent": parent, "passes": [{"name": "onnx-static-int8"}], "accepted": accepted}
    return replace(make_run(3, model=INT8, latency=2.5e-4, half=1e-6), artifacts=(artifact,))


def test_a_stored_run_with_more_threads_stands_in_place_of_general_advice(store):
    run, found = found_for(store, make_run(2, threads=2, latency=5e-4, half=5e-6))
    assert found == {
        "threads": "2 threads: 2.00× faster (500 ± 5 µs against 1.00 ± 0.01 ms here), "
        f"run {make_run(2).id}, grade B, measured 2 days ago"
    }
    assert unmeasured_words(run, found).startswith("; measured before: 2 threads: 2.00× faster, see Next; what int8 ")
    lines = next_section([run], {}, known={run.id: found}).lines
    assert found["threads"] in lines[0] and not any("--threads" in line for line in lines)


@pytest.mark.parametrize(
    "other",
    [
        make_run(2, threads=2, latency=5e-4, grade="D"),
        make_run(2, threads=1, latency=5e-4),
        make_run(2, threads=2, latency=5e-4, batch=8),
        replace(make_run(2, threads=2, latency=5e-4), status="failed"),
        make_run(2, threads=2, latency=5e-4, runtime="openvino"),
        int8_variant(accepted=False),
        int8_variant(parent="9" * 64),
    ],
)
def test_runs_that_prove_nothing_are_left_out(store, other):
    assert found_for(store, other)[1] == {}


def test_an_accepted_int8_variant_is_named(store):
    _, found = found_for(store, int8_variant())
    assert found["int8"].startswith("kws_int8.onnx on onnxruntime/cpu: 4.00× faster (250 ± 1 µs against ")


def test_intervals_that_overlap_prove_no_difference(store):
    _, found = found_for(store, make_run(2, threads=2, latency=9.9e-4, half=1e-4))
    assert found["threads"].startswith("2 threads: no clear difference (")


def test_nothing_is_looked_up_where_nothing_is_kept(store):
    run, _ = found_for(store)
    assert find_measured([run], Context(store=store, keep=False)) == {}
