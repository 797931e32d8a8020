"""Any run goes into a document and a store, and comes out as it was."""

import json
import math
import string

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise.errors import BadInput
from edgewise.metrics import METRICS
from edgewise.record import (
    Caution,
    Failure,
    Finding,
    InputSpec,
    Job,
    Layer,
    LayerTensor,
    Measurement,
    ModelRef,
    Peak,
    Profile,
    Run,
    RuntimeSpec,
    Scenario,
    SessionRecord,
    Summary,
    Trust,
    Workload,
)
from edgewise.store import codec, from_document, open_store, to_document

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
floats = st.floats(allow_nan=False, allow_infinity=False)
whole = st.integers(-(2**62), 2**62)
json_values = st.recursive(
    st.none() | st.booleans() | whole | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
mappings = st.dictionaries(texts, json_values, max_size=3)
optional_texts = st.none() | texts


names = st.lists(texts, max_size=2).map(tuple)
numbers = st.none() | floats
layers = st.builds(
    Layer,
    index=whole, name=texts, op=texts, kind=st.sampled_from(["operator", "overhead", "eliminated", "unmatched"]), nodes=names,
    operators=st.lists(whole, max_size=2).map(tuple), engine_nodes=names, engine_op=texts, time=numbers, low=numbers,
    high=numbers, time_absent_because=optional_texts, share=numbers, start=numbers, macs=st.none() | whole,
    ops=st.none() | whole, intensity=numbers, dtype=optional_texts,
    inputs=st.lists(
        st.builds(
            LayerTensor, name=texts, dtype=texts,
            shape=st.none() | st.lists(st.none() | whole | texts, max_size=3).map(tuple),
        ),
        max_size=1,
    ).map(tuple),
    attributes=mappings, supported=st.none() | st.booleans(), error=optional_texts, roof=numbers,
    bound=st.sampled_from(["compute", "memory", None]),
)  # fmt: skip
profiles = st.builds(
    Profile,
    method=texts, sessions=whole, inferences=whole, latency=floats, operators_time=floats, operators_low=numbers,
    operators_high=numbers, overheads_time=floats, conservation=floats, attributed=floats, unattributed=floats,
    profiled_latency=floats,
    peaks=st.lists(
        st.builds(Peak, kind=st.sampled_from(["compute", "bandwidth"]), dtype=optional_texts, threads=whole, value=floats),
        max_size=1,
    ).map(tuple),
    memory=st.none() | mappings,
    findings=st.lists(
        st.builds(
            Finding, code=texts, message=texts, suggestion=texts, saving=floats, layers=st.lists(whole).map(tuple),
            evidence=st.dictionaries(texts, floats, max_size=2),
        ),
        max_size=1,
    ).map(tuple),
    notes=names,
)  # fmt: skip


@st.composite
def measurements(draw):
    lengths = draw(st.lists(st.integers(0, 3), max_size=3))
    metric = draw(st.sampled_from(sorted(METRICS)) | texts)
    return Measurement(
        metric=metric,
        unit=METRICS[metric].unit if metric in METRICS else draw(texts),
        basis=draw(st.sampled_from(["measured", "simulated", "estimated", "derived", None])),
        method=draw(texts),
        value=draw(st.none() | floats),
        low=draw(st.none() | floats),
        high=draw(st.none() | floats),
        samples=tuple(draw(st.lists(floats, min_size=sum(lengths), max_size=sum(lengths)))),
        session_lengths=tuple(lengths),
        summary=draw(
            st.none()
            | st.builds(
                Summary, n=whole, mean=floats, std=floats, min=floats, max=floats, median=floats, mad=floats,
                percentiles=st.dictionaries(texts, floats, max_size=2), autocorrelation=st.none() | floats,
            )
        ),
        absent_because=draw(optional_texts),
    )  # fmt: skip


jobs = st.builds(
    Job,
    model=st.builds(ModelRef, name=texts, path=texts, format=texts, sha256=texts, size_bytes=whole),
    runtime=st.builds(RuntimeSpec, name=texts, version=optional_texts, threads=st.none() | whole, options=mappings),
    workload=st.builds(
        Workload,
        scenario=st.builds(
            Scenario, kind=st.sampled_from(["single-stream", "offline", "paced"]), fps=st.none() | floats
        ),
        batch=whole,
        inputs=st.lists(
            st.builds(InputSpec, name=texts, shape=st.lists(whole, max_size=3).map(tuple), dtype=texts), max_size=2
        ).map(tuple),
    ),
)
runs = st.builds(
    Run,
    id=st.text(string.ascii_letters + string.digits, min_size=1, max_size=64),
    created_at=st.datetimes().map(lambda moment: moment.isoformat() + "+00:00"),
    job=jobs,
    status=st.sampled_from(["done", "failed", "cancelled"]),
    group=optional_texts,
    failure=st.none() | st.builds(Failure, cause=st.just("Timeout"), message=texts, exit_code=st.none() | whole),
    effective=mappings,
    environment=mappings,
    measurements=st.lists(measurements(), max_size=3).map(tuple),
    sessions=st.lists(
        st.builds(
            SessionRecord, index=whole, started_at=texts, pid=whole, phases=st.dictionaries(texts, floats, max_size=2),
            warmup_samples=st.lists(floats, max_size=3).map(tuple), facts=mappings,
        ),
        max_size=2,
    ).map(tuple),
    layers=st.lists(layers, max_size=2).map(tuple),
    profile=st.none() | profiles,
    profile_absent_because=optional_texts,
    cautions=st.lists(st.builds(Caution, code=texts, message=texts), max_size=2).map(tuple),
    trust=st.none() | st.builds(Trust, grade=st.sampled_from("ABCD"), reasons=st.lists(texts, max_size=2).map(tuple)),
    tags=st.lists(texts, max_size=3).map(tuple),
)  # fmt: skip


@given(runs)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_run_survives_document_and_text(run):
    document = to_document(run)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert from_document(document) == run
    assert codec.decode(codec.encode(run)) == run


@given(st.lists(runs, max_size=3, unique_by=lambda run: run.id))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_runs_survive_the_store_and_its_index(some):
    with open_store("sqlite://") as store:
        for run in some:
            store.save(run)
        for run in some:
            assert store.resolve([run.id]) == [run] or run.id in ("all", "last")
        listed = store.list()
        assert {row.id for row in listed} == {run.id for run in some}
        times = [codec.parse_time(row.created_at) for row in listed]
        assert times == sorted(times, reverse=True)
        assert store.reindex().indexed == len(some)
        assert store.list() == listed
        assert store.merge(some).skipped == len(some)


@given(st.recursive(json_values | st.just({"schema": 2}), lambda inner: st.dictionaries(
    st.sampled_from(["schema", "id", "job", "model", "measurements", "sessions", "samples", "summary", "status"]), inner
)))  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_anything_else_is_bad_input_and_nothing_worse(document):
    try:
        from_document(document)
    except BadInput as error:
        assert error.message
    else:
        raise AssertionError("a run was made of this")


@given(runs, st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_document_is_read_as_a_whole_run_or_is_bad_input(run, data):
    document = to_document(run)
    place = document
    while True:
        key = data.draw(st.sampled_from(sorted(place)) if isinstance(place, dict) else st.integers(0, len(place) - 1))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        place = inner
    place[key] = data.draw(json_values | st.just(math.inf))
    try:
        read = from_document(document)
    except BadInput:
        return
    assert from_document(to_document(read)) == read or "null" in json.dumps(document)
