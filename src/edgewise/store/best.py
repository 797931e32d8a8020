"""The best run of each model on each machine: kept as runs come and go, and shown as models × machines.

Of runs with the same settings (runtime, provider, precision, threads) the newest of the best grade counts, never one of
grade D: the least of many noisy values is too small. Of these, the best run is the one with the best value of the
headline metric. Runs compare only if they did the same work on the same machine: the same file, shapes of inputs,
metric, scenario and batch, and values of the same basis. The table `best` keeps one row for each of the settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, case, delete, func, insert, select, tuple_

from edgewise.errors import StoreError
from edgewise.metrics import METRICS
from edgewise.store.filters import unindexed, whole
from edgewise.store.tables import best, run_counts, runs

FEW_ROWS = 40_000
"""Rows of `best` that one matrix is made of, at most."""

_PART = 1000
_HIGHER = sorted(name for name, metric in METRICS.items() if metric.better == "higher")
_COMPARED = sorted(name for name, metric in METRICS.items() if metric.better != "none")
_KEY = {
    "model": runs.c.model,
    "sha256": runs.c.sha256,
    "shapes": func.coalesce(runs.c.shapes, ""),
    "machine": func.coalesce(runs.c.machine, runs.c.device),
    "metric": runs.c.metric,
    "scenario": runs.c.scenario,
    "basis": func.coalesce(runs.c.basis, ""),
    "runtime": runs.c.runtime,
    "precision": func.coalesce(runs.c.precision, ""),
    "provider": func.coalesce(runs.c.provider, ""),
    "threads": func.coalesce(runs.c.threads, 0),
    "batch": runs.c.batch,
}
"""The key of a run in `best`."""
_WORST = "D"
_GRADES = {"A": 3, "B": 2, "C": 1}
"""Of a run without a grade it is 0."""
_OF_FILE = (best.c.model, best.c.sha256, best.c.shapes)


class Workload(NamedTuple):
    """What values must share to compare between machines and runtimes."""

    metric: str
    scenario: str
    batch: int

    @property
    def word(self) -> str:
        """``latency/single-stream/1``."""
        return f"{self.metric}/{self.scenario}/{self.batch}"


class ModelFile(NamedTuple):
    """A model by its file and the shapes of its inputs: files of one name may differ, and open shapes between runs."""

    model: str
    sha256: str
    shapes: str
    """As `edgewise.store.tables.shapes_of` writes them; "" where they are not known."""

    @classmethod
    def of(cls, run: Best) -> ModelFile:
        """Return the file and shapes of a best run."""
        return cls(run.model, run.sha256, run.shapes or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best run of a model file with the same shapes on a machine, with values of one basis.

    Attributes:
        shapes: of the inputs; None where they are not known.
        machine: the device, or the processor of a run on the machine that asked; the device where it is not known.
        run: its id.
        value, low, high: of `metric` in `unit`, with the 95 % interval.
        runs: number of runs it is the best of, without those of grade D.
    """

    model: str
    sha256: str
    shapes: str | None
    machine: str
    device: str
    runtime: str
    version: str | None
    provider: str | None
    threads: int | None
    precision: str | None
    metric: str
    unit: str | None
    value: float
    low: float | None
    high: float | None
    basis: str | None
    grade: str | None
    run: str
    created_at: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """The finished runs of grade D of a model file on a machine with values of one basis, which no cell has.

    Attributes:
        runs: number of them.
        run, device, runtime: the one with the best value, which is `value` in `unit`.
    """

    file: ModelFile
    machine: str
    basis: str
    runs: int
    run: str
    device: str
    runtime: str
    value: float
    unit: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The best runs of models × machines under one workload.

    Attributes:
        workload: the one that the cells have; None if there are no runs.
        workloads: each workload of the models, with its number of runs, the most frequent first.
        models, machines: rows and columns; the most measured ones, sorted.
        cells: at most one per row, column and basis.
        more_models, more_machines: whether there are others, or may be.
        left_out: runs of grade D of the cells' models on their machines.
    """

    workload: Workload | None
    workloads: tuple[tuple[Workload, int], ...]
    models: tuple[ModelFile, ...]
    machines: tuple[str, ...]
    cells: tuple[Best, ...]
    more_models: bool = False
    more_machines: bool = False
    left_out: tuple[LeftOut, ...] = ()


class _Candidate(NamedTuple):
    """A run that may stand for those of its settings; the larger one does."""

    grade: int
    created: float
    run: str
    value: float


class Changes:
    """Changes of the best runs, gathered over a transaction."""

    def __init__(self) -> None:
        self._number = Counter[tuple[Any, ...]]()
        self._offered: dict[tuple[Any, ...], _Candidate] = {}
        self._removed: dict[tuple[Any, ...], set[str]] = {}

    def add(self, row: Mapping[Any, Any]) -> None:
        """Note that the run with this row was written."""
        key = _key_of(row)
        if key is not None:
            self._number[key] += 1
            offered = _Candidate(_GRADES.get(row["grade"], 0), row["created"], row["id"], row["value"])
            self._offered[key] = max(self._offered.get(key, offered), offered)

    def remove(self, row: Mapping[Any, Any]) -> None:
        """Note that the run with this row is no longer what it was."""
        key = _key_of(row)
        if key is not None:
            self._number[key] -= 1
            self._removed.setdefault(key, set()).add(row["id"])

    def apply(self, connection: Connection) -> None:
        """Write the changes."""
        for key in sorted(self._offered.keys() | self._removed.keys(), key=str):
            its_row = [best.c[name] == value for name, value in zip(_KEY, key, strict=True)]
            kept = connection.execute(select(best.c.value, best.c.run, best.c.runs).where(*its_row)).first()
            if kept is not None and not (isinstance(kept.value, float | int) and isinstance(kept.runs, int)):
                kept = None  # damaged, which reindexing repairs: it must not keep a run from being saved
            number = self._number[key] + (0 if kept is None else kept.runs)
            candidates = [self._offered[key]] if key in self._offered else []
            known = {one.run for one in candidates} | (set() if kept is None else {kept.run})
            if known & self._removed.get(key, set()):
                candidates = _candidates(connection, key)
            elif kept is not None:
                candidates += _candidates(connection, key, run=kept.run)
            connection.execute(delete(best).where(*its_row))
            if number > 0 and candidates:
                connection.execute(insert(best), _best_row(key, max(candidates), number=number))

    def fill(self, connection: Connection) -> None:
        """Write the changes, which only add runs, in place of all that is kept."""
        connection.execute(delete(best))
        rows = [_best_row(key, offered, number=self._number[key]) for key, offered in self._offered.items()]
        if rows:
            connection.execute(insert(best), rows)


def _best_row(key: Sequence[Any], chosen: _Candidate, *, number: int) -> dict[str, Any]:
    return {**dict(zip(_KEY, key, strict=True)), "run": chosen.run, "value": chosen.value, "runs": number}


def matrix(
    connection: Connection,
    *,
    models: Iterable[str] | None,
    part: str | None,
    machines: Iterable[str] | None,
    runtime: str | None,
    precision: str | None,
    workload: Workload | None,
    most_models: int,
    most_machines: int,
) -> Matrix:
    """Return the matrix of `Store.matrix`."""
    names, more_models = _names(connection, models, part, most=most_models)
    wanted: list[ColumnElement[bool]] = [best.c.model.in_(names)]
    wanted += [] if machines is None else [best.c.machine.in_(list(machines))]
    wanted += [] if runtime is None else [best.c.runtime == runtime]
    wanted += [] if precision is None else [best.c.precision == precision]
    numbers, rows = _workloads(connection, wanted)
    if rows > FEW_ROWS:  # only the files before the one that the limit cuts
        more_models = True
        wanted.append(tuple_(*_OF_FILE) < _file_at(connection, wanted, FEW_ROWS))
        numbers, rows = _workloads(connection, wanted)
    workloads = tuple(sorted(numbers.items(), key=lambda pair: (-pair[1], pair[0])))
    if workload is None and workloads:
        workload = workloads[0][0]
    if workload not in numbers:
        return Matrix(workload=workload, workloads=workloads, models=(), machines=(), cells=(), more_models=more_models)
    wanted += [best.c[name] == value for name, value in zip(Workload._fields, workload, strict=True)]
    files = [ModelFile(*row) for row in _most_measured(connection, wanted, _OF_FILE, most=most_models + 1)]
    columns = [name for (name,) in _most_measured(connection, wanted, [best.c.machine], most=most_machines + 1)]
    shown_files, shown_machines = sorted(files[:most_models]), sorted(columns[:most_machines])
    return Matrix(
        workload=workload,
        workloads=workloads,
        models=tuple(shown_files),
        machines=tuple(shown_machines),
        cells=_cells(connection, [*wanted, best.c.machine.in_(shown_machines)], shown_files),
        more_models=more_models or len(files) > most_models,
        more_machines=len(columns) > most_machines,
        left_out=_left_out(connection, workload, shown_files, shown_machines, runtime=runtime, precision=precision),
    )


def _names(
    connection: Connection, models: Iterable[str] | None, part: str | None, *, most: int
) -> tuple[list[str], bool]:
    """Return the names of the models of a matrix, and whether there are more; those with the most runs are chosen."""
    of = run_counts.c
    query = select(of.value).where(of.facet == "model", of.other == "").order_by(of.runs.desc(), of.value)
    if models is not None:
        query = query.where(of.value.in_(list(models)))
    if part is not None:
        query = query.where(of.value.icontains(part, autoescape=True))
    found = connection.scalars(query.limit(most + 1)).all()
    return list(found[:most]), len(found) > most


def _workloads(connection: Connection, wanted: Sequence[ColumnElement[bool]]) -> tuple[dict[Workload, int], int]:
    """Each workload of the wanted rows of `best` with its number of runs, and the number of these rows."""
    columns = [best.c[name] for name in Workload._fields]
    query = select(func.count(), func.sum(best.c.runs), *columns).where(*wanted).group_by(*columns)
    found = connection.execute(query).all()
    return {Workload(*values): whole(number) for _, number, *values in found}, sum(rows for rows, *_ in found)


def _file_at(connection: Connection, wanted: Sequence[ColumnElement[bool]], place: int) -> Any:
    """Return the file of the wanted row of `best` that `place` rows come before."""
    return connection.execute(select(*_OF_FILE).where(*wanted).order_by(*_OF_FILE).offset(place).limit(1)).one()


def _most_measured(
    connection: Connection, wanted: Sequence[ColumnElement[bool]], columns: Sequence[Any], *, most: int
) -> Sequence[Any]:
    """Return the `most` values of `columns` with the most runs in the wanted rows of `best`."""
    query = select(*columns).where(*wanted).group_by(*columns)
    return connection.execute(query.order_by(func.sum(best.c.runs).desc(), *columns).limit(most)).all()


def _cells(
    connection: Connection, wanted: Sequence[ColumnElement[bool]], files: Sequence[ModelFile]
) -> tuple[Best, ...]:
    """Return the best of the wanted rows of each file with its shapes, machine and basis, with what `runs` has of
    it.
    """
    same = [*_OF_FILE, best.c.machine, best.c.basis]
    value = case((best.c.metric.in_(_HIGHER), best.c.value), else_=-best.c.value)
    place = func.row_number().over(partition_by=same, order_by=[value.desc(), best.c.run.desc()])
    number = func.sum(best.c.runs).over(partition_by=same)
    ranked = select(best.c.machine, best.c.run, best.c.value, number.label("runs"), place.label("place")).where(*wanted)
    names = [field.name for field in fields(Best) if field.name not in ("machine", "run", "runs")]
    cells = []
    for first in range(0, len(files), _PART):
        found = ranked.where(tuple_(*_OF_FILE).in_(files[first : first + _PART])).subquery()
        of_cell = (found.c.value, found.c.runs, found.c.machine, found.c.run)
        query = select(*of_cell, *(runs.c[name] for name in names)).join_from(found, runs, runs.c.id == found.c.run)
        for kept, total, machine, run, *values in connection.execute(query.where(found.c.place == 1)):
            if not isinstance(kept, float | int):
                raise StoreError("the index of the store is damaged", advice="'edgewise runs reindex' repairs it")
            told = dict(zip(names, values, strict=True))
            cells.append(Best(run=run, machine=machine, runs=whole(total), **told))
    return tuple(sorted(cells, key=lambda cell: (*ModelFile.of(cell), cell.machine, cell.basis or "")))


def _left_out(
    connection: Connection,
    workload: Workload,
    files: Sequence[ModelFile],
    machines: Sequence[str],
    *,
    runtime: str | None,
    precision: str | None,
) -> tuple[LeftOut, ...]:
    """Return what is left out beside the cells of `files` and `machines`, by file, machine and basis."""
    same = [runs.c.model, runs.c.sha256, _KEY["shapes"], _KEY["machine"], _KEY["basis"]]
    wanted: list[ColumnElement[bool]] = [
        unindexed(runs.c.status) == "done",
        runs.c.grade == _WORST,
        runs.c.value.is_not(None),
        _KEY["machine"].in_(machines),
        *(_KEY[name] == value for name, value in zip(Workload._fields, workload, strict=True)),
    ]
    wanted += [] if runtime is None else [unindexed(runs.c.runtime) == runtime]
    wanted += [] if precision is None else [_KEY["precision"] == precision]
    value = case((runs.c.metric.in_(_HIGHER), runs.c.value), else_=-runs.c.value)
    place = func.row_number().over(partition_by=same, order_by=[value.desc(), runs.c.id.desc()])
    number = func.count().over(partition_by=same)
    told = (runs.c.id, runs.c.device, runs.c.runtime, runs.c.value, runs.c.unit)
    shown, found = set(files), []
    models = sorted({file.model for file in files})
    for first in range(0, len(models), _PART):
        of_some = [runs.c.model.in_(models[first : first + _PART]), *wanted]
        ranked = select(
            *(column.label(f"key{at}") for at, column in enumerate(same)), number.label("number"), *told,
            place.label("place"),
        ).where(*of_some).subquery()  # fmt: skip
        for *key, count, run, device, engine, best_value, unit, _ in connection.execute(
            select(ranked).where(ranked.c.place == 1)
        ):
            file = ModelFile(*key[:3])
            if file in shown and isinstance(best_value, float | int):
                found.append(
                    LeftOut(file=file, machine=key[3], basis=key[4], runs=whole(count), run=run, device=device,
                            runtime=engine, value=best_value, unit=unit)
                )  # fmt: skip
    return tuple(sorted(found, key=lambda one: (*one.file, one.machine, one.basis)))


def _key_of(row: Mapping[Any, Any]) -> tuple[Any, ...] | None:
    """Return the key of a row of `runs`; None if the run has no value to compare."""
    if row["status"] != "done" or row["metric"] not in _COMPARED or not isinstance(row["value"], float | int):
        return None
    if row["grade"] == _WORST:
        return None
    instead = {"machine": row["device"], "shapes": "", "basis": "", "precision": "", "provider": "", "threads": 0}
    return tuple(row[name] if row[name] is not None else instead.get(name) for name in _KEY)


def _eligible() -> list[ColumnElement[bool]]:
    graded = func.coalesce(runs.c.grade, "") != _WORST
    return [unindexed(runs.c.status) == "done", runs.c.value.is_not(None), runs.c.metric.in_(_COMPARED), graded]


def _order() -> list[ColumnElement[Any]]:
    """Of runs with the same settings: the best grade, then the newest, first."""
    return [_grade().desc(), runs.c.created.desc(), runs.c.id.desc()]


def _grade() -> ColumnElement[int]:
    return case(_GRADES, value=runs.c.grade, else_=0)


def _candidates(connection: Connection, key: Sequence[Any], *, run: str | None = None) -> list[_Candidate]:
    """Return the run that stands for those with this key, if there is one; with `run` that one, if it still has the
    key.
    """
    columns = {**_KEY, "runtime": unindexed(runs.c.runtime)}  # found by the model or its file, which have fewer runs
    same = [column == value for column, value in zip(columns.values(), key, strict=True)]
    same += [] if run is None else [runs.c.id == run]
    query = select(_grade(), runs.c.created, runs.c.id, runs.c.value).where(*_eligible(), *same).order_by(*_order())
    return [_Candidate(*row) for row in connection.execute(query.limit(1))]
