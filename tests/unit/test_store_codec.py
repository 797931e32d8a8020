import enum
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.metrics import METRICS
from edgewise.record import SCHEMA, Measurement, Run, SessionRecord, Stopping, Summary
from edgewise.store import codec, from_document, to_document
from edgewise.store.upgrade import schema_of, upgrade
from messages import says, wording
from patience import LIMIT_S

GOLDEN = Path(__file__).parents[1] / "golden" / "schema2"


def document(name="done"):
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def golden(name="done") -> Run:
    return from_document(document(name))


def measurement(**changes):
    return replace(Measurement(metric="latency", unit="s", basis="measured", method="m", value=1.0), **changes)


@pytest.mark.parametrize("name", ["done", "failed", "cancelled"])
def test_there_and_back(name):
    run = golden(name)
    assert from_document(to_document(run)) == run
    assert codec.decode(codec.encode(run)) == run


def test_the_document_shares_nothing_with_the_run():
    run = golden()
    to_document(run)["environment"]["host"]["cpu"] = "changed"
    assert run.environment["host"]["cpu"] == "Cortex-A76"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_headline_that_is_not_finite_is_absent_with_that_reason(value):
    row = to_document(replace(golden(), measurements=(measurement(value=value, high=value),)))["measurements"][0]
    assert row["value"] is None
    assert row["high"] is None
    assert row["absent_because"] == f"the number obtained was {value}"


def test_a_reason_that_is_there_stays():
    rows = (measurement(value=math.nan, absent_because="the sensor broke"),)
    assert to_document(replace(golden(), measurements=rows))["measurements"][0]["absent_because"] == "the sensor broke"


def test_samples_and_statistics_that_are_not_finite_come_back_as_nan():
    summary = Summary(
        n=2, mean=math.nan, std=math.inf, min=1.0, max=2.0, median=1.5, mad=0.5, percentiles={"p50": math.nan}
    )
    session = SessionRecord(index=0, started_at="", pid=1, phases={"load": math.nan}, warmup_samples=(math.nan, 1.0))
    run = replace(
        golden(),
        measurements=(measurement(samples=(1.0, math.inf, 2.0), summary=summary),),
        sessions=(session,),
        environment={"load": math.nan},
    )
    text = codec.encode(run)
    assert json.loads(text)["measurements"][0]["samples"] == [1.0, None, 2.0]
    back = codec.decode(text)
    row = back.measurements[0]
    assert row.samples[::2] == (1.0, 2.0)
    assert math.isnan(row.samples[1])
    assert math.isnan(row.summary.mean)
    assert math.isnan(row.summary.std)
    assert row.summary.autocorrelation is None
    assert math.isnan(row.summary.percentiles["p50"])
    assert math.isnan(back.sessions[0].phases["load"])
    assert back.sessions[0].warmup_samples[1] == 1.0
    assert back.environment == {"load": None}


def test_a_setting_that_is_not_finite_is_refused_by_name():
    run = golden()
    workload = replace(run.job.workload, stopping=Stopping(max_s=math.inf))
    with pytest.raises(BadInput, match=r"job\.workload\.stopping\.max_s: inf"):
        to_document(replace(run, job=replace(run.job, workload=workload)))


def test_what_engines_hand_over_becomes_plain_json():
    class Mode(enum.StrEnum):
        FAST = "fast"

    environment = {
        "array": np.array([[1, 2], [3, 4]], dtype=np.int8), "scalar": np.float32(0.5), "whole": np.int64(7),
        "flag": np.bool_(True), "path": PurePosixPath("/a/b"), "mode": Mode.FAST, 3: ("x", None), "nan": np.float64("nan"),
    }  # fmt: skip
    plain = to_document(replace(golden(), environment=environment))["environment"]
    assert plain == {
        "array": [[1, 2], [3, 4]], "scalar": 0.5, "whole": 7, "flag": True, "path": "/a/b", "mode": "fast",
        "3": ["x", None], "nan": None,
    }  # fmt: skip
    assert {type(value) for value in plain.values()} == {list, float, int, bool, str, type(None)}


def test_numpy_samples_are_stored_as_floats():
    run = replace(golden(), measurements=(measurement(samples=tuple(np.array([0.25, 0.5]))),))
    assert codec.decode(codec.encode(run)).measurements[0].samples == (0.25, 0.5)


def test_what_json_has_no_place_for_is_named():
    with pytest.raises(BadInput, match=says("cant-stored", path="environment.deep[1].key", name="object")):
        to_document(replace(golden(), environment={"deep": [1, {"key": object()}]}))


def test_a_file_name_that_is_not_unicode_is_stored_visibly():
    run = golden()
    run = replace(run, job=replace(run.job, model=replace(run.job.model, path="/models/\udcff.onnx")))
    assert codec.decode(codec.encode(run)).job.model.path == "/models/\\udcff.onnx"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("id",), 5, "id: input should be a valid string"),
        (("id",), "", "id: '' is not a run id"),
        (("id",), "\x1b[31mred", "is not a run id"),
        (("created_at",), "yesterday", "created_at: 'yesterday' is not a time"),
        (("status",), "maybe", r"status: input should be 'done', 'failed' or 'cancelled'"),
        (("job", "model", "size_bytes"), "300", r"job\.model\.size_bytes: input should be a valid integer"),
        (("measurements", 1, "value"), "5", r"measurements\[1\]\.value: input should be a valid number"),
        (("measurements", 1, "value"), True, r"measurements\[1\]\.value: input should be a valid number"),
        (("measurements", 1, "value"), math.inf, r"measurements\[1\]: a value that is not finite"),
        (("measurements", 0, "basis"), "guessed", r"measurements\[0\]\.basis: input should be 'measured'"),
        (("measurements", 0, "samples", 2), "x", r"measurements\[0\]\.samples\[2\]: input should be a valid number"),
        (("measurements", 0, "session_lengths"), [2, 3], r"measurements\[0\]\.session_lengths: they sum to 5"),
        (("measurements", 0), None, r"measurements\[0\]: input should be"),
        (("measurements",), 7, r"measurements: input should be"),
        (("trust", "grade"), "E", r"trust\.grade: input should be"),
        (("schema",), True, "schema: a record must have its schema number"),
        (("schema",), "1", "schema: a record must have its schema number"),
        (("schema",), 0, "schema: a record must have its schema number"),
        (("schema",), 99, "schema 99: it was written by a newer edgewise"),
    ],
)
def test_a_bad_field_is_named_by_its_path(path, value, message):
    bad = document()
    place = bad
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(BadInput, match=message) as caught:
        from_document(bad)
    assert caught.value.advice or "session_lengths" in message


@pytest.mark.parametrize(("place", "unit"), [(0, "ms"), (0, ""), (1, "MB"), (2, "s"), (0, "\x1b[31m" + "x" * 1000)])
def test_a_measurement_in_another_unit_than_the_catalogues_is_refused(place, unit):
    """A time in milliseconds that is read as seconds would make every verdict a wrong one."""
    bad = document()
    bad["measurements"][place]["unit"] = unit
    row = METRICS[bad["measurements"][place]["metric"]]
    with pytest.raises(BadInput, match=rf"^measurements\[{place}\]\.unit: {row.id} is in {row.unit}, not ") as caught:
        from_document(bad)
    assert caught.value.advice and len(caught.value.message) < 120 and "\x1b" not in caught.value.message


def test_a_metric_that_the_catalogue_does_not_know_may_have_any_unit():
    told = document()
    told["measurements"][0] |= {"metric": "fan_speed", "unit": "furlongs"}
    run = from_document(told)
    assert (run.measurements[0].metric, run.measurements[0].unit) == ("fan_speed", "furlongs")
    assert from_document(to_document(run)) == run


@pytest.mark.parametrize("missing", ["schema", "id", "created_at", "job", "status"])
def test_a_missing_field_is_named(missing):
    bad = document()
    del bad[missing]
    with pytest.raises(BadInput, match=f"^{missing}: "):
        from_document(bad)


@pytest.mark.parametrize("text", ["", "{", "[1,]", b"\xff\xfe", "NaN", '{"a": Infinity}', "[" * 100_000])
def test_text_that_is_not_json_is_bad_input(text):
    with pytest.raises(BadInput):
        codec.parse(text)


@pytest.mark.parametrize("value", [None, 3, "text", [1]])
def test_only_an_object_is_a_record(value):
    with pytest.raises(BadInput, match=says("record-json-object")):
        from_document(value)


def test_deep_nesting_is_bad_input():
    deep = document()
    deep["environment"] = json.loads('{"a":' * 400 + "1" + "}" * 400)
    with pytest.raises(BadInput):
        from_document(deep)


@pytest.mark.parametrize(
    "text",
    ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00", "2026-01-31T13:00:00+01:00", "2026-01-31T12:00:00.000000+00:00"],
)
def test_times_are_utc_where_they_name_no_offset(text):
    assert codec.parse_time(text).timestamp() == 1769860800.0


def test_schema_is_published_with_the_catalogue():
    schema = codec.json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:edgewise:schema:run:{SCHEMA}"
    assert schema["title"] == "edgewise run"
    assert schema["properties"]["schema"]["const"] == SCHEMA
    assert {"schema", "id", "created_at", "job", "status"} == set(schema["required"])
    measurement_schema = schema["$defs"]["Measurement"]["properties"]
    known, own = measurement_schema["metric"]["anyOf"]
    assert set(known["enum"]) == set(METRICS)
    assert re.search(own["pattern"], "score:my_metric") and not re.search(own["pattern"], "latencies")
    assert set(measurement_schema["unit"]["enum"]) == {metric.unit for metric in METRICS.values()}
    for unit in measurement_schema["unit"]["enum"]:
        assert f"{unit} (" in measurement_schema["unit"]["description"]
    assert measurement_schema["samples"]["items"] == {"type": ["number", "null"]}
    json.dumps(schema, allow_nan=False)


# upgrade


def rename(old):
    """A step: what was called `made` is called `created_at`."""
    return {**{key: value for key, value in old.items() if key != "made"}, "created_at": old["made"]}


def test_an_older_record_goes_through_every_step():
    oldest = {"schema": 1, "made": "then", "value": 5}
    steps = {1: rename, 2: lambda old: {**old, "value": old["value"] / 1000}}
    assert upgrade(oldest, steps=steps, target=3) == {"schema": 3, "created_at": "then", "value": 0.005}
    assert oldest == {"schema": 1, "made": "then", "value": 5}
    assert upgrade({"schema": 2, "created_at": "then", "value": 5}, steps=steps, target=3)["value"] == 0.005


def test_a_record_of_an_older_schema_is_read(monkeypatch):
    from edgewise.store import upgrade as module

    new = golden()
    old = document()
    old["made"], old["schema"] = old.pop("created_at"), 1
    with pytest.raises(BadInput, match=r"schema 1, which this edgewise can't read \(it writes 2\)") as caught:
        from_document(old)
    assert caught.value.advice == "read it with the edgewise that wrote it, or measure again"
    monkeypatch.setitem(module.STEPS, 1, rename)
    assert from_document(old) == new
    assert codec.decode(json.dumps(old)) == new


def test_newer_is_refused_with_advice():
    with pytest.raises(BadInput, match=says("record-schema-written-newer-edgewise")) as caught:
        upgrade({"schema": 9})
    assert wording("update-edgewise") in caught.value.advice


def test_schema_of():
    assert schema_of({"schema": 4}) == 4


def test_importing_the_package_imports_no_library():
    code = (
        "import sys, edgewise.store\n"
        "print(sorted({'pydantic', 'sqlalchemy', 'numpy'} & set(sys.modules)))\n"
        "assert set(edgewise.store.__all__) <= {name for name in edgewise.store.__all__ if getattr(edgewise.store, name)}\n"
        "try: edgewise.store.nothing\n"
        "except AttributeError as error: print(error)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert answer.stdout == "[]\nmodule 'edgewise.store' has no attribute 'nothing'\n"
