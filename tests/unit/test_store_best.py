"""The kept best runs and the matrix of them, against looking at every run."""

import random
import sqlite3
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import timedelta
from itertools import permutations

import pytest

from edgewise.errors import StoreError
from edgewise.metrics import METRICS
from edgewise.record import Run, Scenario
from edgewise.record.run import Trust
from edgewise.store import best, open_store
from edgewise.store.best import ModelFile, Workload
from messages import says
from random_runs import START, random_changes, random_run
from stores import DATABASES, new_store


@pytest.fixture(params=DATABASES)
def store(request, tmp_path):
    with new_store(request.param, tmp_path) as opened:
        yield opened


def machine_of(run: Run) -> str:
    local = run.environment["cpu"]["model"] if run.environment else "local"
    return local if run.job.target.device == "local" else run.job.target.device


def expected_cells(stored: dict[str, Run], **wanted: object) -> dict[tuple[object, ...], tuple[str, float, int]]:
    """(workload, model, shapes, machine, basis) → id, value and number of the best runs."""
    groups, numbers = defaultdict(dict), Counter()
    for run in stored.values():
        job, row = run.job, run.measurement(run.headline)
        settings = {"runtime": job.runtime.name, "precision": job.runtime.precision or "", "model": job.model.name}
        grade = run.trust.grade if run.trust else "Z"
        if run.status == "done" and row is not None and wanted.items() <= settings.items() and grade != "D":
            workload = Workload(row.metric, job.workload.scenario.kind, job.workload.batch)
            sign = 1 if METRICS[row.metric].better == "higher" else -1
            shapes = (None, "1x3x8x8", "1x3x8x8, scalar")[len(job.workload.inputs)]
            key = workload, job.model.name, shapes, machine_of(run), row.basis
            numbers[key] += 1
            rank = (-ord(grade), run.created_at, run.id), (sign * row.value, run.id, row.value)
            groups[key][str(job.runtime)] = max(groups[key].get(str(job.runtime), rank), rank)
    chosen = {key: max(value for _, value in group.values()) for key, group in groups.items()}
    return {key: (one[1], one[2], numbers[key]) for key, one in chosen.items()}


def check_matrices(store, stored: dict[str, Run], **wanted) -> None:
    expected = expected_cells(stored, **wanted)
    asked = {"models": [wanted["model"]]} if "model" in wanted else {}
    asked |= {name: value for name, value in wanted.items() if name != "model"}
    first = store.matrix(**asked)
    numbers = defaultdict(int)
    for (workload, *_), (_, _, number) in expected.items():
        numbers[workload] += number
    assert dict(first.workloads) == numbers
    assert first.workload == min(numbers, key=lambda one: (-numbers[one], one), default=None)
    for workload in numbers:
        found = store.matrix(workload=workload, **asked)
        cells = {
            (workload, cell.model, cell.shapes, cell.machine, cell.basis): (cell.run, cell.value, cell.runs)
            for cell in found.cells
        }
        assert cells == {key: cell for key, cell in expected.items() if key[0] == workload}
        assert len(cells) == len(found.cells) and not found.more_models and not found.more_machines
        assert {(file.model, file.shapes) for file in found.models} == {(key[1], key[2] or "") for key in cells}
        assert set(found.machines) == {key[3] for key in cells}
        for cell in found.cells:
            run = stored[cell.run]
            row = run.measurement(cell.metric)
            told = (cell.device, cell.runtime, cell.precision, cell.sha256, cell.low, cell.high, cell.unit)
            runtime = run.job.runtime
            assert told == (
                run.job.target.device, runtime.name, runtime.precision, run.job.model.sha256, row.low, row.high, row.unit,
            )  # fmt: skip


def kept_rows(store) -> set[tuple[object, ...]]:
    from sqlalchemy import select

    from edgewise.store.tables import best as table

    with store._database.reading() as connected:
        return set(map(tuple, connected.execute(select(table))))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_the_best_runs_stay_the_best(store, seed):
    for step, stored in enumerate(random_changes(store, seed, steps=50)):
        if step % 16 == 0:
            check_matrices(store, stored)
    check_matrices(store, stored, runtime="litert")
    check_matrices(store, stored, precision="")
    check_matrices(store, stored, precision="bf16", model="net_a.onnx")
    before = kept_rows(store)
    store.reindex()
    assert kept_rows(store) == before
    store.remove(stored)
    assert kept_rows(store) == set()


def test_a_large_matrix_is_cut_and_says_so(store, monkeypatch):
    choose = random.Random(2)
    stored = {run.id: run for run in (random_run(number, choose) for number in range(120))}
    store.merge(stored.values())
    whole = store.matrix()
    cut = store.matrix(most_models=2, most_machines=1)
    assert len(cut.models) == 2 and cut.more_models and len(cut.machines) == 1 and cut.more_machines
    rows = set(cut.models)
    inside = [cell for cell in whole.cells if ModelFile.of(cell) in rows and cell.machine in cut.machines]
    assert list(cut.cells) == inside
    for place, shown in ((ModelFile.of, cut.models), (lambda cell: cell.machine, cut.machines)):
        numbers = Counter()
        for cell in whole.cells:
            numbers[place(cell)] += cell.runs
        assert shown == tuple(sorted(sorted(numbers, key=lambda one: (-numbers[one], one))[: len(shown)]))
    monkeypatch.setattr(best, "FEW_ROWS", 20)
    few = store.matrix()
    assert few.more_models and set(few.models) < set(whole.models)
    assert list(few.cells) == [cell for cell in whole.cells if ModelFile.of(cell) in set(few.models)]


def test_parts_of_names_and_machines_choose_rows_and_columns(store):
    choose = random.Random(4)
    store.merge(random_run(number, choose) for number in range(60))
    assert {row.model for row in store.matrix(model="NET").models} == {"net_a.onnx", "net_b.onnx"}
    assert store.matrix(machines=["pi", "no"]).machines == ("pi",)
    nothing = store.matrix(model="no such model")
    assert (nothing.workload, nothing.workloads, nothing.models, nothing.cells) == (None, (), (), ())
    assert store.matrix(workload=Workload("latency", "paced", 1)).cells == ()


@pytest.mark.parametrize("column", ["value", "runs"])
def test_damaged_best_runs_are_said_and_made_again(tmp_path, column):
    path = tmp_path / "runs.db"
    with open_store(str(path)) as opened:
        for stored in random_changes(opened, 3, steps=10):  # noqa: B007
            pass
        before = kept_rows(opened)
    with sqlite3.connect(path) as direct:
        direct.execute(f"UPDATE best SET {column} = 'x'")
    with open_store(str(path)) as opened:
        with pytest.raises(StoreError, match=says("index-store-damaged")) as caught:
            opened.matrix()
        assert "reindex" in caught.value.advice
        opened.save(next(iter(stored.values())))
        opened.reindex()
        assert kept_rows(opened) == before


def test_the_newest_of_the_best_grade_counts_in_whatever_order_runs_come_and_go(store):
    choose = random.Random(1)
    base = next(run for run in (random_run(0, choose) for _ in range(99)) if run.status == "done" and run.measurements)
    grades = {4: "C", 3: "B", 1: "A", 2: "A"}  # hour and id
    runs = {
        hour: replace(
            base, id=f"{hour:08x}", trust=Trust(grade=grade), created_at=(START + timedelta(hours=hour)).isoformat()
        )
        for hour, grade in grades.items()
    }

    def best_of() -> int:
        (cell,) = store.matrix().cells
        return int(cell.run, 16)

    for order in list(permutations(runs))[::4]:
        for number, hour in enumerate(order, 1):
            store.save(runs[hour])
            there = order[:number]
            assert best_of() == max(there, key=lambda each: (-ord(grades[each]), each)), there
        left = []
        for _ in order:
            left.append(best_of())
            store.remove([f"{left[-1]:08x}"])
        assert left == [2, 1, 3, 4]


def test_a_lucky_value_of_a_worse_grade_is_not_the_best(store):
    choose = random.Random(1)
    base = next(run for run in (random_run(0, choose) for _ in range(99)) if run.status == "done" and run.measurements)
    times = {"B": 0.0116, "C": 0.009, "D": 0.004}  # newest and least last
    for at, (grade, value) in enumerate(times.items()):
        row = replace(base.measurements[0], value=value, low=value, high=value, metric="latency", unit="s")
        job = replace(base.job, workload=replace(base.job.workload, scenario=Scenario()))
        moment = (START + timedelta(hours=at)).isoformat()
        store.save(
            replace(base, id=f"{at:08x}", job=job, measurements=(row,), trust=Trust(grade=grade), created_at=moment)
        )
        (cell,) = store.matrix().cells
        assert (cell.value, cell.grade, cell.runs) == (0.0116, "B", min(at + 1, 2))
    store.remove(["00000000", "00000001"])
    assert store.matrix().cells == ()
