"""Counts and facets of stored runs, against counting the runs one by one."""

import random
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise.record import Run, RuntimeSpec
from edgewise.store import counts, filters
from edgewise.store.counts import FACETS, Count, Facet
from edgewise.store.tables import run_counts
from messages import says
from random_runs import START, random_changes, random_run
from stores import DATABASES, new_store


@pytest.fixture(params=DATABASES)
def store(request, tmp_path):
    with new_store(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module", params=DATABASES)
def random_store(request, tmp_path_factory):
    """A store of 40 random runs, and these by their ids."""
    choose = random.Random(7)
    stored = {run.id: run for run in (random_run(number, choose) for number in range(40))}
    with new_store(request.param, tmp_path_factory.mktemp("store")) as opened:
        opened.merge(stored.values())
        yield opened, stored


def values_of(run: Run) -> dict[str, tuple[str, ...]]:
    job = run.job
    one = {"model": job.model.name, "runtime": job.runtime.name, "device": job.target.device, "status": run.status}
    return {name: (value,) for name, value in one.items()} | {"tag": run.tags}


def matches(run: Run, wanted: dict[str, object]) -> bool:
    created = datetime.fromisoformat(run.created_at)
    checks = {
        "model": lambda part: part.lower() in run.job.model.name.lower() or (
            len(part) >= 8 and run.job.model.sha256.startswith(part)),
        "since": lambda moment: created >= moment,
        "until": lambda moment: created < moment,
        "metric": lambda metric: run.status != "failed" and run.value(metric) is not None,
    }  # fmt: skip
    return all(
        checks[name](value) if name in checks else value in values_of(run)[name] for name, value in wanted.items()
    )


FILTERS = [
    {}, {"model": "NET"}, {"model": "net_a.onnx"}, {"model": "cat"}, {"model": f"{sum(b'net_b.onnx'):064x}"},
    {"model": f"{0:060x}"}, {"runtime": "litert"}, {"device": "pi"}, {"status": "failed"}, {"tag": "red"}, {"tag": "no"},
    {"runtime": "litert", "status": "done"}, {"model": "net", "tag": "blue"}, {"tag": "red", "device": "phone"},
    {"model": "other", "runtime": "onnxruntime", "device": "local"}, {"since": START + timedelta(minutes=20)},
    {"runtime": "litert", "until": START + timedelta(minutes=10)}, {"metric": "latency"}, {"metric": "energy"},
    {"metric": "latency", "tag": "green", "status": "failed", "model": "net"},
    {"since": START + timedelta(minutes=5), "until": START + timedelta(minutes=30), "tag": "blue"},
]  # fmt: skip


def check_all(store, stored: dict[str, Run], filters=FILTERS) -> None:
    for wanted in filters:
        chosen = [run for run in stored.values() if matches(run, wanted)]
        assert store.count(**wanted) == Count(value=len(chosen)), wanted
        assert {row.id for row in store.rows(**wanted)} == {run.id for run in chosen}
        number, found = store.count_and_facets(**wanted)
        assert number == Count(value=len(chosen)) and tuple(found) == FACETS
        for facet in FACETS:
            others = {name: value for name, value in wanted.items() if name != facet}
            expected = Counter(
                value for run in stored.values() if matches(run, others) for value in values_of(run)[facet]
            )
            assert {one.value: one.count for one in found[facet]} == expected, (wanted, facet)
            ranked = [(-one.count, one.value) for one in found[facet]]
            assert ranked == sorted(ranked) and not found[facet].more and not any(one.more for one in found[facet])


WANTED = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["net_a.onnx", "net", "e", "x", f"{sum(b'net_b.onnx'):064x}"]),
        "runtime": st.sampled_from(["litert", "onnxruntime", "no"]),
        "device": st.sampled_from(["pi", "local", "no"]),
        "status": st.sampled_from(["done", "failed"]),
        "tag": st.sampled_from(["red", "blue", "no"]),
        "metric": st.sampled_from(["latency", "throughput", "energy"]),
        "since": st.integers(0, 40).map(lambda minutes: START + timedelta(minutes=minutes)),
        "until": st.integers(0, 40).map(lambda minutes: START + timedelta(minutes=minutes)),
    },
)


@given(WANTED, st.sampled_from([0, 5, 20_000]), st.sampled_from([0, 1000]))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_filter_finds_and_counts_what_reading_each_run_does(random_store, wanted, few, tagged):
    """`few` and `tagged` decide what is looked up in an index, and what is checked on each run."""
    opened, stored = random_store
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(filters, "FEW", few)
        patched.setattr(counts, "TAGGED", tagged)
        check_all(opened, stored, [wanted])


@given(WANTED, st.sampled_from([0, 20_000]), st.sampled_from([0, 1000]), st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_where_counting_stops_numbers_are_lower_bounds(random_store, wanted, few, tagged, counted, sought):
    opened, stored = random_store
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(filters, "FEW", few)
        for name, value in (("TAGGED", tagged), ("COUNTED", counted), ("SOUGHT", sought)):
            patched.setattr(counts, name, value)
        number, found = opened.count_and_facets(**wanted)
        assert opened.facets(**wanted) == found
    true = sum(matches(run, wanted) for run in stored.values())
    assert number.value <= true if number.more else number.value == true
    for facet in FACETS:
        others = {name: value for name, value in wanted.items() if name != facet}
        expected = Counter(value for run in stored.values() if matches(run, others) for value in values_of(run)[facet])
        for one in found[facet]:
            assert one.count <= expected[one.value] if one.more else one.count == expected[one.value]
        assert found[facet].more or {one.value for one in found[facet]} == expected.keys()


@pytest.mark.parametrize("sought", [1, 5, 10, 15, 50])
def test_the_newest_runs_of_a_filter_are_sought(random_store, monkeypatch, sought):
    """Also among runs of the same time, of which the later ids are the newer ones."""
    opened, stored = random_store
    wanted = {"runtime": "litert", "since": START + timedelta(minutes=2), "tag": "red"}
    monkeypatch.setattr(filters, "FEW", 0)  # only an index in the order of time serves
    monkeypatch.setattr(counts, "SOUGHT", sought)
    others = {name: value for name, value in wanted.items() if name != "tag"}
    candidates = [run for run in stored.values() if matches(run, others)]
    candidates.sort(key=lambda run: (datetime.fromisoformat(run.created_at), run.id), reverse=True)
    expected = sum("red" in run.tags for run in candidates[:sought])
    assert opened.count(most=sought, **wanted) == Count(value=expected, more=len(candidates) > sought)


def plans(store, ask) -> list[str]:
    """The plans of the queries of `ask` that read the index of the runs."""
    from sqlalchemy import event, text

    engine, found = store._database.engine, []

    def explain(connected, cursor, statement, parameters, context, many):
        if "FROM runs" in statement and not statement.startswith("EXPLAIN"):
            query = "EXPLAIN QUERY PLAN " if connected.dialect.name == "sqlite" else "EXPLAIN "
            rows = connected.exec_driver_sql(query + statement, parameters).all()
            found.append(" | ".join(str(row[-1]) for row in rows))

    event.listen(engine, "before_cursor_execute", explain)
    try:
        if engine.dialect.name == "postgresql":  # which reads small tables as a whole otherwise
            with engine.begin() as connected:
                connected.execute(text("SET enable_seqscan = off"))
                connected.execute(text("SET enable_bitmapscan = off"))
        ask()
    finally:
        event.remove(engine, "before_cursor_execute", explain)
    return found


@pytest.mark.parametrize(
    ("rarest", "wanted"),
    [
        ("runtime", {"runtime": "litert", "device": "pi", "status": "done"}),
        ("device", {"runtime": "onnxruntime", "device": "phone", "status": "done"}),
        ("model", {"model": "net_b", "runtime": "onnxruntime", "status": "done", "since": START}),
        ("status", {"status": "failed", "runtime": "onnxruntime", "until": START + timedelta(days=1)}),
        ("created", {"since": START + timedelta(minutes=10)}),
    ],
)
@pytest.mark.parametrize("sought", [30_000, 20])
def test_any_combination_is_found_in_the_index_of_its_rarest_condition(store, monkeypatch, rarest, wanted, sought):
    """Runs are found by one index, and their other conditions checked and facets counted in it; no table is read."""
    monkeypatch.setattr(counts, "SOUGHT", sought)
    pattern, number = random_run(0, random.Random(0)), iter(range(1000))
    sizes = [("net_a", "onnxruntime", "pi", "done", 40), ("net_b", "onnxruntime", "pi", "done", 9),
             ("net_a", "litert", "pi", "done", 9), ("net_a", "onnxruntime", "phone", "done", 9),
             ("net_a", "onnxruntime", "pi", "failed", 5), ("net_b", "litert", "phone", "failed", 1)]  # fmt: skip
    store.merge(
        replace(
            pattern,
            id=f"{next(number):08x}",
            status=status,
            job=replace(
                pattern.job,
                model=replace(pattern.job.model, name=model),
                runtime=RuntimeSpec(name=runtime),
                target=replace(pattern.job.target, device=device),
            ),
        )
        for model, runtime, device, status, count in sizes
        for _ in range(count)
    )
    found = plans(store, lambda: (store.list(limit=5, **wanted), store.count(most=20, **wanted)))
    assert len(found) >= 2
    assert all(f"ix_runs_{rarest}" in plan for plan in found), found
    found += plans(store, lambda: store.facets(**wanted))
    if store._database.engine.dialect.name == "sqlite":
        assert all("COVERING INDEX ix_runs_" in plan and "SCAN runs" not in plan for plan in found), found
    else:
        assert not any("Seq Scan on runs" in plan for plan in found), found
    monkeypatch.setattr(counts, "TAGGED", 0)
    found = plans(store, lambda: store.facets(**wanted))  # with the tags of the runs found
    assert not any("SCAN tags" in plan or "Seq Scan on tags" in plan for plan in found), found


def kept_rows(store) -> set[tuple[object, ...]]:
    from sqlalchemy import select

    with store._database.reading() as connected:
        return set(map(tuple, connected.execute(select(run_counts))))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_counts_stay_those_of_the_runs(store, seed):
    """Saving, replacing, merging, removing and tagging keep every count; making them anew changes nothing."""
    for step, stored in enumerate(random_changes(store, seed, steps=26)):
        if step == 12:
            check_all(store, stored)
    check_all(store, stored)
    files = Counter(run.job.model.sha256 for run in stored.values())
    assert store.count_files([*files, *(f"{number:064x}" for number in range(2000))]) == files
    before = kept_rows(store)
    store.reindex()
    assert kept_rows(store) == before
    store.remove(stored)
    assert kept_rows(store) == set()


@pytest.mark.parametrize("limit", ["COUNTED", "SOUGHT"])
def test_what_was_not_counted_to_the_end_says_so(store, monkeypatch, limit):
    monkeypatch.setattr(counts, limit, 10)
    monkeypatch.setattr(counts, "TAGGED", 0)
    choose = random.Random(3)
    stored = [random_run(number, choose) for number in range(50)]
    store.merge(stored)
    wanted = {"since": START, "status": "done"}
    most = sum(matches(run, wanted) for run in stored)
    counted = store.count(most=10, **wanted)
    assert counted.more and 0 < counted.value <= 10 < most and str(counted).endswith("+")
    found = store.facets(**wanted)
    for facet in FACETS:
        others = {name: value for name, value in wanted.items() if name != facet}
        true = Counter(value for run in stored if matches(run, others) for value in values_of(run)[facet])
        assert found[facet].more and all(one.more and one.count <= true[one.value] for one in found[facet])
    assert store.count(most=50, **wanted) == Count(value=most)
    # The counts that are kept are exact all the same.
    assert store.count(most=10) == Count(value=50)
    assert sum(one.count for one in store.facets()["status"]) == 50


def test_a_facet_has_the_most_frequent_values_and_the_chosen_one(store):
    choose = random.Random(1)
    for number in range(12):
        one = random_run(number, choose)
        runtime = f"engine-{int(number**0.5)}"  # one run of the first, three, five and three of the others
        store.save(replace(one, job=replace(one.job, runtime=RuntimeSpec(name=runtime)), status="done"))
    found = store.facets(most=2)["runtime"]
    assert found == (Facet(value="engine-2", count=5), Facet(value="engine-1", count=3)) and found.more
    chosen = store.facets(most=2, runtime="engine-0")["runtime"]
    assert chosen == (*found, Facet(value="engine-0", count=1)) and chosen.more
    with_time = store.facets(most=3, runtime="engine-0", since=START)["runtime"]
    assert [one.value for one in with_time] == ["engine-2", "engine-1", "engine-3", "engine-0"] and not with_time.more


def test_an_unknown_condition_is_refused_and_stray_bytes_match_nothing(store):
    store.save(random_run(1, random.Random(1)))
    for method in (store.count, store.facets):
        with pytest.raises(TypeError, match=says("unknown-arguments", unknown="modle")):
            method(modle="net")
    assert store.count(runtime="\udcff") == Count(value=0)
    assert store.facets(runtime="\udcff") == dict.fromkeys(FACETS, ())


def test_pages_backwards_meet_without_gap_or_overlap(store):
    choose = random.Random(5)
    store.merge(random_run(number, choose) for number in range(25))
    every = [row.id for row in store.list()]
    pages, place = [], every[-1]
    while page := [row.id for row in store.list(after=place, limit=7)]:
        pages.append(page)
        place = page[0]
    assert [one for page in reversed(pages) for one in page] == every[:-1]
    assert [row.id for row in store.list(after=every[10], before=every[4])] == every[5:10]
    assert [row.id for row in store.list(after=every[3])] == every[:3]
