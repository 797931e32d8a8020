import itertools
import json
import os
import random
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edgewise.errors import BadInput, StoreError
from edgewise.metrics import METRICS
from edgewise.record import (
    Caution,
    Failure,
    InputSpec,
    Job,
    Measurement,
    ModelRef,
    Run,
    RuntimeSpec,
    Scenario,
    SessionRecord,
    Trust,
    Workload,
)
from edgewise.record.reference import machine_key
from edgewise.store import connection, database, filters, from_document, open_store, to_document
from edgewise.store.database import MergeResult, ReindexResult
from edgewise.store.location import find_location
from edgewise.store.tables import shapes_of
from messages import has, says, wording
from stores import DATABASES, POSTGRESQL, new_store

GOLDEN = Path(__file__).parents[1] / "golden" / "schema2"
START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def golden(name="done") -> Run:
    return from_document(json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8")))


def run(number, **changes) -> Run:
    """Run `number`, made so many minutes after the start; ids sort the other way, so that order is never by chance."""
    job = Job(
        model=ModelRef(name=f"net{number}.onnx", path="/net", format="onnx", sha256=f"{number:02x}" * 32, size_bytes=1),
        runtime=RuntimeSpec(name="fake"),
    )
    fields = {
        "id": f"0{9 - number}9{number}0000-0000-7000-8000-00000000000{number}", "job": job, "status": "done",
        "created_at": (START + timedelta(minutes=number)).isoformat(),
        "measurements": (Measurement(metric="latency", unit="s", basis="measured", method="m", value=number / 8, low=0.0, high=9.0),),
    }  # fmt: skip
    return Run(**(fields | changes))


@pytest.fixture(params=DATABASES)
def store(request, tmp_path):
    with new_store(request.param, tmp_path) as opened:
        yield opened


@pytest.mark.skipif(
    not os.environ.get(POSTGRESQL), reason=f"{POSTGRESQL} holds no URL: the tests of this file ran on SQLite alone"
)
def test_postgresql_is_tested_too(request, store):
    assert "postgresql" in request.node.callspec.id or "runs.db" in store.name


@pytest.mark.parametrize("name", ["done", "failed", "cancelled"])
def test_what_is_saved_is_got(store, name):
    store.save(golden(name))
    assert store.get(golden(name).id) == golden(name)


def test_saving_again_replaces(store):
    store.save(golden())
    changed = replace(golden(), measurements=golden().measurements[:1], tags=("other",))
    store.save(changed)
    assert store.resolve(["all"]) == [changed]
    assert store.list()[0].tags == ("other",)


def test_text_that_databases_dislike_is_kept(store):
    odd = run(1)
    odd = replace(odd, job=replace(odd.job, model=replace(odd.job.model, name="a\x00b\u2028💡'\"%_")), tags=("x\x00y",))
    store.save(odd)
    assert store.get(odd.id) == odd
    assert store.list()[0].model == "a�b\u2028💡'\"%_"
    store.reindex()
    assert store.get("last") == odd


def test_a_run_that_can_not_be_written_leaves_the_store_as_it_was(store):
    store.save(run(1))
    with pytest.raises(BadInput, match=r"environment\.x: object"):
        store.save(run(1, environment={"x": object()}, status="failed"))
    assert store.resolve(["all"]) == [run(1)]


# references


def test_last_is_by_time_and_not_by_id_or_saving(store):
    for number in (2, 1, 3):
        store.save(run(number))
    assert store.get("last") == run(3)
    assert store.get("last~0") == run(3)
    assert store.get("last~2") == run(1)
    with pytest.raises(BadInput, match=says("there-no-run-store", reference="last~3", count=3)):
        store.get("last~3")


def test_times_compare_across_offsets_and_spellings(store):
    late = run(1, created_at="2026-01-31T14:00:00.5+01:00")
    early = run(2, created_at="2026-01-31T12:59:59Z")
    for one in (late, early):
        store.save(one)
    assert [row.id for row in store.list()] == [late.id, early.id]
    assert [row.id for row in store.list(since=datetime(2026, 1, 31, 13, tzinfo=UTC))] == [late.id]


def test_prefixes(store):
    a, b = run(1, id="0193aaaa-1111"), run(2, id="0193aaaa-2222")
    store.save(a)
    store.save(b)
    assert store.get("0193aaaa-1") == a
    with pytest.raises(
        BadInput, match=says("matches-several-runs", reference="0193", listed="0193aaaa-1111, 0193aaaa-2222")
    ):
        store.get("0193")
    with pytest.raises(BadInput, match=says("give-least-characters-id", min_prefix=4)):
        store.get("019")
    for absent in ("0193b", "____", "%%%%", "", "ALL", "last~", "last~x"):
        with pytest.raises(BadInput, match=says("there-no-run-in-references")):
            store.get(absent)


def test_stray_bytes_name_no_run(store):
    """What a command line holds may be no text at all, and a database can't be asked for that."""
    store.save(run(1))
    words = ("\udcff", "\udcff" * 8, "group:\udcff", "last\udcff", "0193\x00", "0193\x1b[31m", "a\nb")
    asks = (store.get, lambda one: store.find([one]), lambda one: store.resolve(["last", one]))
    for word, ask in itertools.product(words, asks):
        with pytest.raises(BadInput, match=r"^there is no (run|group) '") as caught:
            ask(word)
        caught.value.message.encode()
        assert caught.value.advice and not set("\x00\x1b\n") & set(caught.value.message)
    for word in words:
        with pytest.raises(BadInput, match=says("cant-tag")):
            store.tag(word, "last")
    assert store.list()[0].id == run(1).id


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.find(["group:\udcff\udcff\udcff\udcff"]),
        lambda store: store.remove(["\udcff"]),
        lambda store: store.untag("\udcff"),
    ],
    ids=["find", "remove", "untag"],
)
def test_stray_bytes_name_no_group_no_whole_id_and_no_tag(store, ask):
    with pytest.raises(BadInput):
        ask(store)


@pytest.mark.parametrize("filters", [{"model": "\udcff"}, {"runtime": "\udcff"}])
def test_stray_bytes_match_nothing(store, filters):
    store.save(run(1))
    assert store.list(**filters) == []


def test_a_whole_id_is_never_ambiguous(store):
    store.save(run(1, id="abcd"))
    store.save(run(2, id="abcde"))
    assert store.get("abcd").id == "abcd"


def test_an_ambiguous_prefix_lists_a_few(store):
    for number in range(12):
        store.save(run(1, id=f"0193-{number:02}"))
    with pytest.raises(BadInput) as caught:
        store.get("0193")
    listed = ", ".join(f"0193-{n:02}" for n in range(8)) + ", …"
    assert caught.value.message == wording("matches-several-runs", reference="0193", listed=listed)


def test_resolve_keeps_the_order_that_was_asked_for_and_each_run_once(store):
    for number in (1, 2, 3):
        store.save(run(number))
    assert store.resolve(["last", run(1).id, "last~0"]) == [run(3), run(1)]
    assert store.resolve([]) == []
    assert store.resolve(["all"]) == [run(1), run(2), run(3)]
    assert store.find(["last~1", "all"]) == [run(2).id, run(1).id, run(3).id]


def test_groups(store):
    for number, group in ((1, "0193-group-a"), (2, "0193-group-b"), (3, "0193-group-a"), (4, None)):
        store.save(run(number, group=group))
    assert store.resolve(["group:0193-group-a"]) == [run(1, group="0193-group-a"), run(3, group="0193-group-a")]
    assert store.find(["group:last"]) == [run(1).id, run(3).id]
    with pytest.raises(
        BadInput, match=says("matches-several-runs", reference="group:0193", listed="0193-group-a, 0193-group-b")
    ):
        store.resolve(["group:0193"])
    for absent in ("group:", "group:019", "group:0194"):
        with pytest.raises(BadInput, match=says("there-no-group")):
            store.resolve([absent])


def test_an_empty_store(store):
    assert store.list() == []
    assert store.resolve(["all"]) == []
    assert store.reindex() == ReindexResult(indexed=0, unreadable=())
    for reference in ("last", "group:last", "0193aaaa"):
        with pytest.raises(BadInput):
            store.resolve([reference])


# listing


def test_list_is_newest_first_and_says_what_is_needed(store):
    for number in (1, 3, 2):
        store.save(run(number))
    assert [row.id for row in store.list()] == [run(number).id for number in (3, 2, 1)]
    assert [row.id for row in store.list(limit=2)] == [run(3).id, run(2).id]
    row = store.list(limit=1)[0]
    assert (row.model, row.runtime, row.threads, row.batch, row.scenario) == (
        "net3.onnx",
        "fake",
        None,
        1,
        "single-stream",
    )
    assert (row.metric, row.value, row.low, row.high, row.unit, row.basis) == (
        "latency",
        0.375,
        0.0,
        9.0,
        "s",
        "measured",
    )


def test_list_filters(store):
    failed = golden("failed")
    for one in (run(1), run(2), failed):
        store.save(one)
    assert [row.id for row in store.list(model="NET")] == [run(2).id, run(1).id]
    assert [row.id for row in store.list(model="net2")] == [run(2).id]
    assert [row.id for row in store.list(model="01" * 4)] == [run(1).id]
    assert store.list(model="01" * 3) == []
    assert store.list(model="n_t") == []
    assert store.list(model="%") == []
    assert [row.id for row in store.list(runtime="litert")] == [failed.id]
    assert [row.cause for row in store.list(status="failed")] == ["Timeout"]
    assert [row.id for row in store.list(since=START + timedelta(minutes=2))] == [run(2).id]
    assert store.list(model="net", runtime="litert") == []
    store.tag("release", run(1).id)
    assert [row.id for row in store.list(tag="release")] == [run(1).id]
    assert len(store.list(device="local")) == 3 and store.list(device="board") == []
    assert [row.id for row in store.list(device="local", tag="release", model="net")] == [run(1).id]


def test_what_a_failed_run_measured_before_is_no_result_of_a_list(store):
    lost = run(2, status="failed", failure=Failure(cause="LinkLost", message="unplugged", phase="steady"))
    for one in (run(1), lost):
        store.save(one)
    row = store.list(status="failed")[0]
    assert (row.cause, row.metric, row.value, row.low, row.high, row.basis) == (
        "LinkLost", "latency", None, None, None, None,
    )  # fmt: skip
    assert [row.id for row in store.list(metric="latency")] == [run(1).id]
    assert store.get(lost.id).value("latency") == 0.25


@pytest.mark.parametrize("limits", [{"_MOST_MODELS": 2}, {"_MOST_NAMED": 0}])
def test_models_are_found_by_part_of_their_name_however_many_there_are(store, monkeypatch, limits):
    for number in range(1, 5):
        store.save(run(number))
    expected = [row.id for row in store.list(model="NET")]
    assert expected and [row.id for row in store.list(model="net2")] == [run(2).id]
    for name, value in limits.items():
        monkeypatch.setattr(filters, name, value)
    assert [row.id for row in store.list(model="NET")] == expected
    assert [row.id for row in store.list(model="net2")] == [run(2).id] and store.list(model="cat") == []


def test_each_run_has_its_tags_where_a_list_is_read_in_parts(store, monkeypatch):
    monkeypatch.setattr(database, "_PART", 2)
    for number in range(1, 6):
        store.save(run(number))
    for number in (1, 4):
        store.tag(f"tag-{number}", run(number).id)
    store.tag("another", run(4).id)
    assert {row.id: row.tags for row in store.list() if row.tags} == {
        run(1).id: ("tag-1",), run(4).id: ("another", "tag-4"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "metrics", "headline"),
    [
        ("single-stream", ["throughput", "latency"], "latency"),
        ("offline", ["latency", "throughput"], "throughput"),
        ("offline", ["latency"], None),
        ("paced", ["latency", "latency_paced"], "latency_paced"),
        ("single-stream", ["throughput"], None),
    ],
)
def test_the_headline_is_that_of_the_scenario(store, kind, metrics, headline):
    one = run(1)
    rows = tuple(
        Measurement(metric=name, unit=METRICS[name].unit, basis="measured", method="", value=1.0) for name in metrics
    )
    job = replace(one.job, workload=Workload(scenario=Scenario(kind=kind)))
    store.save(replace(one, job=job, measurements=rows))
    assert store.list()[0].metric == headline


def test_an_absent_headline_stays_absent(store):
    rows = (Measurement(metric="latency", unit="s", basis=None, method="", value=None, absent_because="x"),)
    store.save(run(1, measurements=rows))
    row = store.list()[0]
    assert (row.metric, row.value, row.unit) == (None, None, None)


# tags, removal, index


def test_tags(store):
    for number in (1, 2):
        store.save(run(number))
    assert store.tag("baseline", "last~1") == run(1).id
    assert store.tag("baseline", "last~1") == run(1).id
    assert store.get("baseline") == run(1, tags=("baseline",))
    assert [row.tags for row in store.list()] == [(), ("baseline",)]
    with pytest.raises(BadInput, match=says("tag-run", name="baseline", others=run(1).id)):
        store.tag("baseline", "last")
    store.tag("baseline", "last", move=True)
    assert store.get("baseline").id == run(2).id
    for misspelt in (lambda: store.get("basline"), lambda: store.untag("basline"), lambda: store.find(["basline"])):
        with pytest.raises(BadInput) as raised:
            misspelt()
        assert raised.value.advice == "similar tags: baseline; see 'edgewise runs list'"
    with pytest.raises(BadInput) as raised:
        store.get("nothing")
    assert raised.value.advice == wording("see-edgewise-runs-list")
    assert store.get(run(1).id) == run(1)
    assert store.untag("baseline") == 1
    with pytest.raises(BadInput, match=says("there-no-run-tag")):
        store.untag("baseline")
    with pytest.raises(BadInput, match=says("there-no-run-in-references")):
        store.get("baseline")


def test_what_can_not_be_a_tag(store):
    store.save(run(1))
    for name in ("", "all", "last", "last~1", "group:x", "01", "a b", "x" * 65, "é", "-a", "\n"):
        with pytest.raises(BadInput, match=says("cant-tag")):
            store.tag(name, "last")
    assert store.list()[0].tags == ()


@pytest.mark.parametrize("name", ["last-week", "lastly", "all-green"])
def test_only_whole_references_are_reserved(store, name):
    for number in (1, 2):
        store.save(run(number))
    store.tag(name, "last~1")
    assert store.get(name).id == run(1).id


def test_a_tag_that_several_have_is_ambiguous(store):
    for number in (1, 2):
        store.save(run(number, tags=("nightly",)))
    with pytest.raises(BadInput, match=says("matches-several-runs", reference="nightly")):
        store.get("nightly")
    assert store.untag("nightly") == 2


def test_remove_is_all_or_nothing(store):
    for number in (1, 2, 3):
        store.save(run(number, tags=("t",)))
    with pytest.raises(BadInput, match=says("there-no-run-id", one="last")):
        store.remove([run(1).id, "last"])
    assert len(store.list()) == 3
    assert store.remove([run(1).id, run(3).id, run(1).id]) == 2
    assert store.resolve(["all"]) == [run(2, tags=("t",))]
    assert store.reindex() == ReindexResult(indexed=1, unreadable=())


def test_merge(store):
    store.save(run(1))
    store.tag("local", "last")
    assert store.merge([run(1), run(2)]) == MergeResult(added=1, skipped=1)
    assert store.get("local").id == run(1).id
    with pytest.raises(BadInput, match=says("run-already-stored-different-content")):
        store.merge([run(3), run(2, status="failed")])
    assert store.find(["all"]) == [run(1).id, run(2).id]
    nan = run(
        4,
        measurements=(
            Measurement(metric="latency", unit="s", basis="measured", method="", value=1.0, samples=(float("nan"),)),
        ),
    )
    assert store.merge([nan]) == MergeResult(added=1, skipped=0)
    assert store.merge([nan]) == MergeResult(added=0, skipped=1)


def test_merge_keeps_the_later_version_of_a_run(store):
    """A run is saved when it was measured and again when its outputs were compared; the second may have failed."""
    first = run(1, cautions=(Caution.of("fewer-sessions", "2 of 5"),), trust=Trust(grade="B"))
    agreement = Measurement(metric="agreement_top1", unit="1", basis="measured", method="", value=0.5)
    later = replace(
        first,
        measurements=(*first.measurements, agreement),
        cautions=(*first.cautions, Caution.of("output-mismatch", "the odd one out")),
        trust=Trust(grade="D"),
    )
    store.save(first)
    store.tag("mine", first.id)
    assert store.merge([replace(later, tags=("theirs",)), run(2)]) == MergeResult(added=1, skipped=0, updated=1)
    assert store.get(first.id) == replace(later, tags=("mine",))
    assert store.merge([later, first]) == MergeResult(added=0, skipped=2)
    assert store.get(first.id) == replace(later, tags=("mine",))
    other = replace(later, measurements=(*first.measurements, replace(agreement, value=0.6)))
    for conflict in (other, replace(later, trust=Trust(grade="A")), replace(later, status="failed")):
        with pytest.raises(BadInput, match=says("run-already-stored-different-content")):
            store.merge([conflict])


def test_pages_of_a_list_meet_without_gap_or_overlap(store):
    same = [run(number, created_at="2026-01-31T12:00:00+00:00") for number in range(1, 6)]
    store.merge([*same, run(6, created_at="2026-01-31T12:00:01+00:00")])
    whole = [row.id for row in store.list()]
    pages: list[str] = []
    while page := store.list(limit=2, before=pages[-1] if pages else None):
        pages += [row.id for row in page]
    assert pages == whole and len(whole) == 6
    with pytest.raises(BadInput, match=says("there-no-run-in-references")):
        store.list(before="nothing")


def read(*moments, machine="box"):
    """The fields of a run with reference times at each of `moments`, twice a session."""
    told = {"at": 0.0, "compute_s": 1e-3, "copy_s": 2e-3}
    return {
        "environment": {
            "architecture": "x", "cpu": {"model": machine, "logical_cores": 2, "quota_cores": None},
            "memory": {"total_bytes": 2**30}, "virtualisation": {"vendor": None},
        },
        "sessions": tuple(
            SessionRecord(index=0, started_at="", pid=1, facts={"reference": {
                "version": 1, "start": told | {"at": float(moment)}, "end": told | {"at": moment + 0.5}}})
            for moment in moments
        ),
    }  # fmt: skip


def test_reference_times_are_found_by_machine(store):
    store.save(run(1, **read(1, 2)))
    store.save(run(2, **read(3, machine="other")))
    turns = replace(run(3).job, workload=Workload(interleave="turns"))
    store.save(run(3, **read(4)))
    store.save(run(4, job=turns, **read(5)))  # the kernels are timed while the others wait
    key = machine_key(read(1)["environment"])
    found = store.readings(key)
    assert [reading.at for reading in found] == [5.5, 5.0, 4.5, 4.0, 2.5, 2.0, 1.5, 1.0]
    assert {(reading.version, reading.compute, reading.copy) for reading in found} == {(1, 1e-3, 2e-3)}
    runs = run(1), run(3), replace(run(4), job=turns)
    assert {(reading.run, reading.job, reading.value) for reading in found} == {
        (each.id, each.job.key, each.value("latency")) for each in runs
    }
    store.remove([run(3).id])
    assert len(store.readings(key)) == 6
    assert store.readings("0" * 16) == []
    assert store.forget_readings(key) == 6
    assert store.readings(key) == [] and store.forget_readings(key) == 0
    assert len(store.readings(machine_key(read(3, machine="other")["environment"]))) == 2
    assert store.get(run(1).id).sessions  # the runs are kept


def rows_of(store):
    from sqlalchemy import select

    from edgewise.store.tables import index_rows

    with store._database.reading() as connected:
        return [sorted(map(tuple, connected.execute(select(table))), key=repr) for table in index_rows(golden())]


def test_reindex_makes_the_same_index_again(store):
    from sqlalchemy import delete

    from edgewise.store.tables import index_rows

    for one in (run(1, **read(1, 2)), run(2, tags=("t",), **read(3)), golden(), golden("failed")):
        store.save(one)
    before = rows_of(store)
    assert [len(rows) for rows in before] == [4, 5, 6, 2]
    with store._database.writing() as connected:
        for table in index_rows(golden()):
            connected.execute(delete(table))
    assert store.list() == []
    assert store.reindex() == ReindexResult(indexed=4, unreadable=())
    assert rows_of(store) == before


def test_a_document_that_can_not_be_read_is_named_and_can_be_removed(store):
    from sqlalchemy import update

    from edgewise.store.tables import documents

    for number in (1, 2, 3):
        store.save(run(number))
    newer = json.dumps({**to_document(run(2)), "schema": 99})
    with store._database.writing() as connected:
        connected.execute(update(documents).where(documents.c.id == run(1).id).values(document="{"))
        connected.execute(update(documents).where(documents.c.id == run(2).id).values(document=newer))
    with pytest.raises(StoreError, match=says("run-cant-read", run_id=run(1).id, message=has("not JSON"))):
        store.get(run(1).id)
    with pytest.raises(StoreError, match=says("schema-written-newer-edgewise-one")) as caught:
        store.get(run(2).id)
    assert wording("update-edgewise") in caught.value.advice
    with pytest.raises(StoreError, match=says("schema-written-newer-edgewise-one")):
        store.tag("t", run(2).id)
    done = store.reindex()
    assert done.indexed == 1
    assert sorted(one for one, _ in done.unreadable) == sorted([run(1).id, run(2).id])
    assert len(store.list()) == 3
    store.remove(store.find([run(1).id]))
    assert store.find(["all"]) == [run(2).id, run(3).id]


def test_a_tag_keeps_fields_that_a_later_edgewise_added(store):
    from sqlalchemy import select, update

    from edgewise.store.tables import documents

    store.save(run(1))
    with store._database.writing() as connected:
        connected.execute(update(documents).values(document=json.dumps({**to_document(run(1)), "later": 1})))
    store.tag("t", "last")
    with store._database.reading() as connected:
        assert json.loads(connected.scalar(select(documents.c.document)))["later"] == 1


# the database itself


def test_a_condition_that_does_not_exist_is_refused(store):
    with pytest.raises(TypeError, match=says("unknown-arguments", unknown="modle")):
        store.list(modle="net")


def described(store) -> dict[str, object]:
    """Columns, indexes and key of each table in the database."""
    from sqlalchemy import inspect

    with store._database.reading() as connected:
        found = inspect(connected)
        return {
            name: (
                {column["name"]: (str(column["type"]), column["nullable"]) for column in found.get_columns(name)},
                sorted((index["name"], *index["column_names"]) for index in found.get_indexes(name)),
                found.get_pk_constraint(name)["constrained_columns"],
            )
            for name in found.get_table_names()
        }


def test_shapes_are_one_text_and_long_ones_stay_apart():
    def shapes(*found: tuple[int, ...]) -> str | None:
        inputs = tuple(InputSpec(name=f"x{number}", shape=shape, dtype="float32") for number, shape in enumerate(found))
        return shapes_of(run(1, job=replace(run(1).job, workload=Workload(inputs=inputs))))

    assert shapes() is None
    assert shapes((1, 3, 224, 224), (), (7,)) == "1x3x224x224, scalar, 7"
    caches = [(1, 8, length, 64) for length in range(60)]
    first, second = shapes(*caches), shapes(*caches[:-1], (1, 8, 9, 64))
    assert first.startswith("1x8x0x64, 1x8x1x64, ") and len(first) == len(second) == 200
    assert first[:187] == second[:187] and first != second


def make_older(store, revision, *statements):
    """Make the store one of an older edgewise."""
    from sqlalchemy import text

    with store._database.writing() as connected:
        for statement in (*statements, f"UPDATE alembic_version SET version_num = '{revision}'"):
            connected.execute(text(statement))


@pytest.mark.parametrize("revision", ["0001", "0010"])
def test_the_tables_of_an_older_store_are_made_again_from_its_documents(store, revision):
    for one in (run(1), run(2, tags=("t",)), golden()):
        store.save(one)
    newest, rows, index = described(store), store.list(), rows_of(store)
    make_older(
        store, revision, "DROP TABLE readings", "ALTER TABLE runs DROP COLUMN machine", "UPDATE runs SET value = 7",
        "DROP TABLE jobs", "DROP INDEX ix_runs_model", "UPDATE run_counts SET runs = 9",
    )  # fmt: skip
    assert described(store) != newest
    connection._bring_up_to_date(store._database)
    assert (described(store), store.list(), rows_of(store)) == (newest, rows, index)
    assert (store.count().value, store.get("t")) == (3, run(2, tags=("t",)))
    with store._database.reading() as connected:
        assert connection._revision(connected, name="") == connection.REVISION


def test_an_older_store_with_a_run_that_can_not_be_read_is_refused_and_left_alone(store):
    store.save(run(1))
    store.save(run(2))
    old = json.dumps({**to_document(run(1)), "schema": 1})
    make_older(
        store,
        "0004",
        f"UPDATE documents SET document = '{old}', schema = 1 WHERE id = '{run(1).id}'",
        "DROP TABLE jobs",
    )
    before = described(store)
    with pytest.raises(StoreError, match=r"can't read 1 of its runs: run .* schema 1, which this edgewise") as caught:
        connection._bring_up_to_date(store._database)
    assert "export its runs with that edgewise" in caught.value.advice
    assert described(store) == before and store.get(run(2).id) == run(2)


def test_a_read_only_store_of_an_older_revision_is_refused_with_advice(tmp_path, monkeypatch):
    path = tmp_path / "runs.db"
    with open_store(str(path)) as opened:
        make_older(opened, "0001")
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda one, mode: tmp_path not in [*Path(one).parents, Path(one)] and access(one, mode)
    )
    with pytest.raises(StoreError, match=says("store-read-only-tables-older")) as caught:
        open_store(str(path))
    assert wording("copy-writable-folder-use-copy") in caught.value.advice


def test_sqlite_is_set_up_to_survive(tmp_path):
    with open_store(str(tmp_path / "runs.db")) as store, store._database.reading() as connected:
        pragmas = {
            name: connected.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2, "busy_timeout": 30_000}


def test_a_writer_holds_the_lock_from_the_start(tmp_path):
    path = tmp_path / "runs.db"
    with open_store(str(path)) as store:
        other = sqlite3.connect(path, timeout=0, isolation_level=None)
        with store._database.writing(), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        with store._database.reading():
            other.execute("BEGIN IMMEDIATE")
        other.close()


def test_a_store_in_memory_and_one_by_url(tmp_path):
    with open_store("sqlite://") as store:
        store.save(run(1))
        assert store.get("last") == run(1)
    with open_store(f"sqlite:///{tmp_path}/a#b %?.db".replace("?", "")) as store:
        store.save(run(1))
    assert (tmp_path / "a#b %.db").exists()


def test_odd_file_names_are_taken_literally(tmp_path):
    path = tmp_path / "what? é#%20.db"
    with open_store(str(path)) as store:
        store.save(run(1))
        assert store.name == str(path)
    assert path.exists()
    with open_store(str(path), create=False) as store:
        assert store.get("last") == run(1)


def test_threads_share_a_store(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with open_store(str(tmp_path / "runs.db")) as store:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: store.save(run(1, id=f"0193-{n:04}")), range(40)))
        assert len(store.list()) == 40


# location


def test_location(monkeypatch, tmp_path):
    monkeypatch.delenv("EDGEWISE_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.chdir(tmp_path)
    own = find_location()
    assert (own.path, own.chosen, own.url) == (tmp_path / "edgewise" / "runs.db", False, "")
    for text, path in {
        "a.db": tmp_path / "a.db",
        "/x/a.db": Path("/x/a.db"),
        "~/a.db": Path("/home/ada/a.db"),
        "sqlite:///a.db": tmp_path / "a.db",
        "sqlite:////x/a.db": Path("/x/a.db"),
        "sqlite+pysqlite:////x/a.db": Path("/x/a.db"),
    }.items():
        found = find_location(text)
        assert (found.path, found.chosen, found.url) == (path, True, "")
    for scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        assert find_location(f"{scheme}://u:p@h/d").url == "postgresql+psycopg://u:p@h/d"
    assert find_location("postgresql+pg8000://h/d").url == "postgresql+pg8000://h/d"
    monkeypatch.setenv("EDGEWISE_STORE", "from-environment.db")
    assert find_location().path == tmp_path / "from-environment.db"
    assert find_location().chosen
    assert find_location("b.db").path == tmp_path / "b.db"


def test_the_own_store_is_private(monkeypatch, tmp_path):
    monkeypatch.delenv("EDGEWISE_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with open_store() as store:
        assert store.name == str(tmp_path / "edgewise" / "runs.db")
    assert (tmp_path / "edgewise").stat().st_mode & 0o777 == 0o700


# errors: each one line, with advice


def refused(url, *, match, **options):
    with pytest.raises(StoreError, match=match) as caught:
        open_store(url, **options)
    assert "\n" not in caught.value.message
    assert caught.value.advice
    assert caught.value.exit_code == 3
    return caught.value


def test_a_missing_store_is_not_made_where_one_was_expected(tmp_path):
    refused(str(tmp_path / "no" / "runs.db"), create=False, match="there is no store at")
    assert not (tmp_path / "no").exists()


def test_a_folder_is_no_store(tmp_path):
    refused(str(tmp_path), match="is a folder")


def test_a_path_through_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    refused(str(tmp_path / "file" / "runs.db"), match="can't be opened")
    refused("a\x00b", match="is not a file name")
    refused("x" * 5000, match="can't be opened")


@pytest.mark.parametrize("size", [1, 100, 4096, 100_000])
def test_random_bytes(tmp_path, size):
    path = tmp_path / "runs.db"
    path.write_bytes(bytes(itertools.islice(itertools.cycle(range(7, 250, 3)), size)))
    before = path.read_bytes()
    refused(str(path), match="corrupt or not a store")
    assert path.read_bytes() == before


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_store(tmp_path, share):
    path = tmp_path / "runs.db"
    with open_store(str(path)) as store:
        store.merge(replace(golden(), id=f"0193-{number:04}") for number in range(200))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(StoreError, match=says("store-corrupt-not-store")) as caught, open_store(str(path)) as store:
        store.resolve(["all"])
    assert ".recover" in caught.value.advice


def test_a_database_of_something_else(tmp_path):
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.commit()
    other.close()
    refused(str(path), match="but not a store of edgewise")
    other = sqlite3.connect(path)
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]
    other.close()


def test_a_newer_store(tmp_path):
    path = tmp_path / "runs.db"
    open_store(str(path)).close()
    newer = sqlite3.connect(path)
    newer.execute("UPDATE alembic_version SET version_num = '9999'")
    newer.commit()
    newer.close()
    assert (
        wording("update-edgewise-use-another-store") in refused(str(path), match="written by a newer edgewise").advice
    )


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("mysql://h/d", "'mysql' is not supported"),
        ("nonsense://h/d", "'nonsense' is not supported"),
        ("postgresql+nonsense://h/d", "no such driver"),
        ("postgresql+pg8000://h/d", "driver is not installed"),
        ("postgresql://user:secret@h:port/d", "is not a database URL"),
        ("sqlite:///", "does not name a SQLite file"),
        ("sqlite:///a.db?mode=ro", "does not name a SQLite file"),
        ("sqlite:a.db", "is not a database URL"),
    ],
)
def test_urls_that_can_not_be_used(url, match):
    assert "secret" not in refused(url, match=match).message


def test_a_server_that_is_not_there():
    pytest.importorskip("psycopg", reason="psycopg is not installed: edgewise[postgresql]")
    error = refused("postgresql://u:secret@127.0.0.1:1/d", match="127.0.0.1")
    assert "secret" not in error.message


def damaged(tmp_path, table: str, column: str, value) -> Path:
    """A store with two runs of which the first has `value` in a column, bytes as text."""
    path = tmp_path / "damaged.db"
    with open_store(str(path)) as store:
        store.merge([run(1), run(2)])
    with sqlite3.connect(path) as connected:
        new = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
        key = "id" if table != "measurements" else "run"
        connected.execute(f'UPDATE {table} SET "{column}" = {new} WHERE {key} = ?', (value, run(1).id))
    return path


@pytest.mark.parametrize("value", [b"\xff\xfe", b'{"a', "", 5, 1e300, "[" * 100_000])
def test_a_damaged_document_costs_no_other_run(tmp_path, value):
    with open_store(str(damaged(tmp_path, "documents", "document", value))) as store:
        told: list[StoreError] = []
        assert list(store.each(["all"], unreadable=told.append)) == [run(2)]
        assert len(told) == 1 and run(1).id in told[0].message
        with pytest.raises(StoreError, match=says("run-cant-read")):
            store.resolve(["all"])
        assert [one for one, _ in store.reindex().unreadable] == [run(1).id]
        assert store.remove([run(1).id]) == 1


@pytest.mark.parametrize(("column", "value"), [("model", b"\xff"), ("value", "x"), ("created_at", b"\x80")])
def test_a_damaged_index_is_said_and_made_again(tmp_path, column, value):
    with open_store(str(damaged(tmp_path, "runs", column, value))) as store:
        with pytest.raises(StoreError) as caught:
            store.list()
        assert "runs reindex" in caught.value.advice
        store.reindex()
        assert len(store.list()) == 2


@pytest.mark.parametrize("seed", range(25))
def test_flipped_bytes_are_never_an_internal_error(tmp_path, seed):
    path = damaged(tmp_path, "runs", "model", "m")
    source, content = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(source.choice([1, 3, 30])):
        content[source.randrange(len(content))] = source.randrange(256)
    path.write_bytes(content)
    for ask in (lambda store: store.list(), lambda store: store.resolve(["all"]), lambda store: store.reindex()):
        try:
            with open_store(str(path)) as store:
                ask(store)
        except (StoreError, BadInput) as error:
            assert error.message


# --- leases ---


def test_a_lease_is_one_holders_until_it_is_released(store):
    first = store.leases.acquire("ssh://board", "anna", seconds=60.0)
    assert (first.device, first.fence) == ("ssh://board", 1)
    assert store.leases.acquire("ssh://board", "ben", seconds=60.0) == "anna"
    assert store.leases.acquire("ssh://other", "ben", seconds=60.0).fence == 1
    assert store.leases.renew(first, seconds=60.0)
    store.leases.release(first)
    second = store.leases.acquire("ssh://board", "ben", seconds=60.0)
    assert second.fence == 2
    # What comes late from the first holder changes nothing.
    assert not store.leases.renew(first, seconds=60.0)
    store.leases.release(first)
    assert store.leases.acquire("ssh://board", "anna", seconds=60.0) == "ben"


def test_a_lease_expires_on_the_databases_clock(store, monkeypatch):
    lease = store.leases.acquire("ssh://board", "anna", seconds=-1.0)
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert store.leases.renew(lease, seconds=-1.0)  # nobody has taken it
    assert store.leases.acquire("ssh://board", "ben", seconds=60.0).fence == 2
    assert not store.leases.renew(lease, seconds=60.0)


def test_one_of_many_gets_a_lease(store):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: store.leases.acquire("ssh://board", str(name), seconds=60.0), range(8)))
    holders = [each for each in found if isinstance(each, str)]
    assert len(holders) == 7 and len(set(holders)) == 1


def test_hosts_that_share_a_server_take_turns(store, monkeypatch, tmp_path, clock):
    from edgewise.progress import LogLine, reporting_to
    from edgewise.verbs import leasing

    monkeypatch.setattr("edgewise.store.open_store", lambda url: store)
    monkeypatch.setattr(store, "close", lambda: None)
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    lines = []

    def note(event):
        if isinstance(event, LogLine):
            lines.append(event.text)
            store.leases.release(other)

    other = store.leases.acquire("ssh://board", "ben", seconds=60.0)
    with reporting_to(note), leasing.leased("postgresql://server/runs", "ssh://board"):
        assert "process" in store.leases.acquire("ssh://board", "ben", seconds=60.0)
    assert lines == ["waiting for ssh://board: in use by ben"]
    assert store.leases.acquire("ssh://board", "ben", seconds=60.0).fence == 3
    with leasing.leased(str(tmp_path / "runs.db"), "ssh://third"), leasing.leased("postgresql://x/y", "local"):
        assert store.leases.acquire("ssh://third", "ben", seconds=60.0).fence == 1


@pytest.mark.slow
def test_opening_a_store_again_drops_no_lock_of_the_connections_that_this_process_has(tmp_path):
    """Otherwise another process takes the store for unused, and what is written later damages it."""
    path = tmp_path / "runs.db"
    locked = (
        "import fcntl, sys\n"
        "with open(sys.argv[1], 'r+b') as file:\n"
        "    try:\n        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)\n"  # where readers hold theirs
        "    except OSError:\n        print('locked')\n"
    )
    with open_store(str(path)) as one, one._database.reading():
        open_store(str(path)).close()
        done = subprocess.run([sys.executable, "-c", locked, path], capture_output=True, text=True, check=True)
    assert done.stdout == "locked\n"
