"""The best run of each model on each machine: kept as runs come and go, and shown as models × machines.

The best run is the one with the best value of the headline metric. Runs compare only if they did the same work on the
same machine: the same file, shapes of inputs, metric, scenario and batch, and values of the same basis. Runtime,
provider, precision and threads are free to choose. The table `best` keeps one row for each runtime and precision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, case, delete, func, insert, select

from edgewise.errors import StoreError
from edgewise.metrics import METRICS
from edgewise.store.filters import unindexed
from edgewise.store.tables import best, run_counts, runs

FEW_ROWS = 40_000
"""Rows of `best` that one matrix is made of, at most."""

_PART = 1000
_AT_ONCE = 20_000
_T = TypeVar("_T")
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
    "batch": runs.c.batch,
}
"""The key of a run in `best`."""
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
        """The file and shapes of a best run."""
        return cls(run.model, run.sha256, run.shapes or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best run of a model file with the same shapes on a machine, with values of one basis.

    Attributes:
        shapes: of the inputs; None where they are not known.
        machine: the device, or the processor of a run on the machine that asked; the device where it is not known.
        run: its id.
        value, low, high: of `metric` in `unit`, with the 95 % interval.
        runs: number of runs it is the best of.
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
class Matrix:
    """The best runs of models × machines under one workload.

    Attributes:
        workload: the one that the cells have; None if there are no runs.
        workloads: each workload of the models, with its number of runs, the most frequent first.
        models, machines: rows and columns; the most measured ones, sorted.
        cells: at most one per row, column and basis.
        more_models, more_machines: whether there are others, or may be.
    """

    workload: Workload | None
    workloads: tuple[tuple[Workload, int], ...]
    models: tuple[ModelFile, ...]
    machines: tuple[str, ...]
    cells: tuple[Best, ...]
    more_models: bool = False
    more_machines: bool = False


class Changes:
    """Changes of the best runs, gathered over a transaction."""

    def __init__(self) -> None:
        self._number = Counter[tuple[Any, ...]]()
        self._offered: dict[tuple[Any, ...], tuple[float, str]] = {}
        self._removed: dict[tuple[Any, ...], set[str]] = {}

    def add(self, row: Mapping[Any, Any]) -> None:
        """Note that the run with this row was written."""
        key = _key_of(row)
        if key is not None:
            self._number[key] += 1
            offered = (row["value"], row["id"])
            self._offered[key] = max(
                self._offered.get(key, offered), offered, key=lambda one: _rank(row["metric"], *one)
            )

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
            candidates = [] if kept is None else [(kept.value, kept.run)]
            candidates += [self._offered[key]] if key in self._offered else []
            if any(run in self._removed.get(key, ()) for _, run in candidates):
                candidates = _best_of(connection, key)
            connection.execute(delete(best).where(*its_row))
            if number > 0 and candidates:
                row = dict(zip(_KEY, key, strict=True), runs=number)
                value, run = max(candidates, key=lambda one: _rank(row["metric"], *one))
                connection.execute(insert(best), {**row, "run": run, "value": value})


def fill(connection: Connection) -> None:
    """Make the kept best runs again from the index, after the counts, some models at a time: that sorts in memory."""
    connection.execute(delete(best))
    of = run_counts.c
    names = connection.execute(
        select(of.value, of.runs).where(of.facet == "model", of.other == "").order_by(of.value)
    ).all()
    first, number = 0, 0
    for last, row in enumerate(names):
        number += row.runs
        if number >= _AT_ONCE or last == len(names) - 1:
            _fill_models(connection, names[first].value, row.value)
            first, number = last + 1, 0


def _fill_models(connection: Connection, first: str, last: str) -> None:
    """Make the kept best runs of the models whose names are from `first` to `last`."""
    columns = [column.label(name) for name, column in _KEY.items()]
    place = func.row_number().over(partition_by=list(_KEY.values()), order_by=[_signed().desc(), runs.c.id.desc()])
    number = func.count().over(partition_by=list(_KEY.values()))
    ranked = select(*columns, runs.c.id, runs.c.value, number.label("runs"), place.label("place"))
    found = ranked.where(*_eligible(), runs.c.model.between(first, last)).subquery()
    chosen = select(*(found.c[name] for name in (*_KEY, "id", "value", "runs"))).where(found.c.place == 1)
    connection.execute(insert(best).from_select([*_KEY, "run", "value", "runs"], chosen))


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
    """The matrix of `Store.matrix`."""
    names, more_models = _names(connection, models, part, most=most_models)
    conditions: list[ColumnElement[bool]] = [best.c.model.in_(names)]
    conditions += [] if machines is None else [best.c.machine.in_(list(machines))]
    conditions += [] if runtime is None else [best.c.runtime == runtime]
    conditions += [] if precision is None else [best.c.precision == precision]
    query = select(best).where(*conditions).order_by(*_OF_FILE).limit(FEW_ROWS + 1)
    rows = connection.execute(query).all()
    if not all(isinstance(row.value, float | int) and isinstance(row.runs, int) for row in rows):
        raise StoreError("the index of the store is damaged", advice="'edgewise runs reindex' repairs it")
    if len(rows) > FEW_ROWS:  # without the last file, whose rows may be cut
        more_models, last = True, _file_of(rows[-1])
        rows = [row for row in rows if _file_of(row) != last]
    numbers = _runs_by(rows, lambda row: Workload(row.metric, row.scenario, row.batch))
    workloads = tuple(sorted(numbers.items(), key=lambda pair: (-pair[1], pair[0])))
    if workload is None and workloads:
        workload = workloads[0][0]
    rows = [row for row in rows if (row.metric, row.scenario, row.batch) == workload]
    files = _runs_by(rows, _file_of).most_common(most_models + 1)
    columns = _runs_by(rows, lambda row: row.machine).most_common(most_machines + 1)
    shown_files = tuple(sorted(ModelFile(*file) for file, _ in files[:most_models]))
    shown_machines = tuple(sorted(machine for machine, _ in columns[:most_machines]))
    of_files = frozenset(shown_files)
    rows = [row for row in rows if row.machine in shown_machines and _file_of(row) in of_files]
    return Matrix(
        workload=workload,
        workloads=workloads,
        models=shown_files,
        machines=shown_machines,
        cells=_cells(connection, rows),
        more_models=more_models or len(files) > most_models,
        more_machines=len(columns) > most_machines,
    )


def _names(
    connection: Connection, models: Iterable[str] | None, part: str | None, *, most: int
) -> tuple[list[str], bool]:
    """The names of the models of a matrix, and whether there are more; those with the most runs are chosen."""
    of = run_counts.c
    query = select(of.value).where(of.facet == "model", of.other == "").order_by(of.runs.desc(), of.value)
    if models is not None:
        query = query.where(of.value.in_(list(models)))
    if part is not None:
        query = query.where(of.value.icontains(part, autoescape=True))
    found = connection.scalars(query.limit(most + 1)).all()
    return list(found[:most]), len(found) > most


def _file_of(row: Any) -> tuple[str, str, str]:
    """The fields of the `ModelFile` of a row of `best`: its first columns, which are read sooner by place."""
    file: tuple[str, str, str] = row[: len(_OF_FILE)]
    return file


def _runs_by(rows: Sequence[Any], key: Callable[[Any], _T]) -> Counter[_T]:
    number = Counter[_T]()
    for row in rows:
        number[key(row)] += row.runs
    return number


def _cells(connection: Connection, rows: Sequence[Any]) -> tuple[Best, ...]:
    """The best of the rows of each file with its shapes, machine and basis, with what `runs` has of it."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for row in rows:
        groups.setdefault((*_file_of(row), row.machine, row.basis), []).append(row)
    chosen = {}
    for group in groups.values():
        top = max(group, key=lambda row: _rank(row.metric, row.value, row.run))
        chosen[top.run] = (top.machine, sum(row.runs for row in group))
    names = [field.name for field in fields(Best) if field.name not in ("machine", "run", "runs")]
    ids, cells = list(chosen), []
    for first in range(0, len(ids), _PART):
        query = select(runs.c.id, *(runs.c[name] for name in names)).where(runs.c.id.in_(ids[first : first + _PART]))
        for run, *values in connection.execute(query):
            machine, number = chosen[run]
            cells.append(Best(run=run, machine=machine, runs=number, **dict(zip(names, values, strict=True))))
    return tuple(sorted(cells, key=lambda cell: (*ModelFile.of(cell), cell.machine, cell.basis or "")))


def _key_of(row: Mapping[Any, Any]) -> tuple[Any, ...] | None:
    """The key of a row of `runs`; None if the run has no value to compare."""
    if row["status"] != "done" or row["metric"] not in _COMPARED or not isinstance(row["value"], float | int):
        return None
    instead = {"machine": row["device"], "shapes": "", "basis": "", "precision": ""}
    return tuple(row[name] if row[name] is not None else instead.get(name) for name in _KEY)


def _rank(metric: str, value: float, run: str) -> tuple[float, str]:
    """What is larger for a better value; of equal values, for the later run."""
    return (value if metric in _HIGHER else -value, run)


def _signed() -> ColumnElement[Any]:
    return case((runs.c.metric.in_(_HIGHER), runs.c.value), else_=-runs.c.value)


def _eligible() -> list[ColumnElement[bool]]:
    return [unindexed(runs.c.status) == "done", runs.c.value.is_not(None), runs.c.metric.in_(_COMPARED)]


def _best_of(connection: Connection, key: Sequence[Any]) -> list[tuple[float, str]]:
    """Value and id of the best run with this key, if there is one."""
    columns = {**_KEY, "runtime": unindexed(runs.c.runtime)}  # found by the model or its file, which have fewer runs
    same = [column == value for column, value in zip(columns.values(), key, strict=True)]
    query = select(runs.c.value, runs.c.id).where(*_eligible(), *same).order_by(_signed().desc(), runs.c.id.desc())
    return [(row.value, row.id) for row in connection.execute(query.limit(1))]
