"""Which runs are wanted: the conditions of a filter, as clauses on the index tables, and the fastest way to such runs.

Neither database finds the way by itself: SQLite keeps no statistics and takes any index, PostgreSQL expects the values
of different columns to be independent. So the rarest condition, which the kept counts tell, is looked up in its index;
the others are written so that no index serves them, and are checked on each run found. The indexes of facets contain
all facets, so that only the runs of a page are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations
from operator import ge, lt
from typing import Any, TypedDict

from sqlalchemy import ColumnElement, Connection, Text, exists, func, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from edgewise.errors import StoreError
from edgewise.store.references import begins
from edgewise.store.tables import FACETS, measurements, run_counts, runs, tags

FEW = 20_000
"""Runs that are read one by one where their order must be made, or their number counted."""

MIN_SHA256 = 8
_MOST_MODELS = 20_000
_MOST_NAMED = 50
"""If more models than this match, a page is found soon by reading the runs from the newest on."""

Clause = Callable[[Any], ColumnElement[bool]]


class RunFilter(TypedDict, total=False):
    """Which runs `Store.rows` lists. None and what is left out set no condition.

    Attributes:
        model: part of the model's name, in any case, or the beginning of its sha256 (eight characters or more).
        runtime, device: their names.
        tag: one that the run has.
        status: ``done``, ``failed`` or ``cancelled``.
        since, until: made then or later; made before then.
        metric: only runs that have a value of it.
        before: only those that come after this run in the list: with `limit`, the next page. As in `Store.get`.
        after: only those that come before this run in the list: with `limit`, the previous page.
        limit: the most rows.
    """

    model: str | None
    runtime: str | None
    device: str | None
    tag: str | None
    status: str | None
    since: datetime | None
    until: datetime | None
    metric: str | None
    before: str | None
    after: str | None
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition of a filter.

    Attributes:
        name: its field in `RunFilter`.
        clause: on the columns of `runs`; an index serves it if `indexed`.
        check: the same without its index, for runs that another condition found.
        values: the same on a column of values of the facet `name`; None if a facet's value does not decide it.
        indexed: whether an index finds the runs.
        in_order: whether that index has them in the order of time.
        cost: of reading a run by that index, about, with that of an index in the order of time as the unit.
        size: the number of runs that meet it; infinite where it is not kept and more than `FEW`, or not indexed.
        hashed: whether it reads the column `sha256`, which the indexes of facets don't have.
    """

    name: str
    clause: Clause
    check: Clause
    values: Clause | None = None
    indexed: bool = True
    in_order: bool = False
    cost: int = 1
    size: float = float("inf")
    hashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A way to the runs that meet all conditions.

    Attributes:
        seek: conditions that an index serves, in the order of time or for at most `FEW` runs.
        check: the other conditions.
        size: the number of runs that meet `seek`, 0 if none meets all conditions; infinite where it is not known.
    """

    seek: Sequence[Condition]
    check: Sequence[Condition]
    size: float

    def seek_clauses(self) -> list[ColumnElement[bool]]:
        """`seek` on the columns of `runs`."""
        return [one.clause(runs.c) for one in self.seek]

    def check_clauses(self, of: Any = runs.c) -> list[ColumnElement[bool]]:
        """`check` on the columns `of`."""
        return [one.check(of) for one in self.check]


def possible(wanted: Mapping[str, object]) -> bool:
    """Whether a run can match: none has stray bytes of a command line. Raises `TypeError` for an unknown condition."""
    if unknown := wanted.keys() - RunFilter.__annotations__.keys():
        raise TypeError(f"unknown arguments: {', '.join(sorted(unknown))}")
    return all(text.isprintable() for text in wanted.values() if isinstance(text, str))


def conditions_of(connection: Connection, wanted: RunFilter) -> list[Condition]:
    """Return the conditions of `wanted` but its page (`before`, `after`, `limit`); those that are checked soonest
    first.
    """
    equal = {"runtime": wanted.get("runtime"), "device": wanted.get("device"), "status": wanted.get("status")}
    found = [_equal(name, value) for name, value in equal.items() if value is not None]
    if (model := wanted.get("model")) is not None:
        found.append(_of_model(connection, model))
    if (tag := wanted.get("tag")) is not None:
        found.append(_in_table(connection, "tag", tags.c.run, tags.c.name, tag))
    if (metric := wanted.get("metric")) is not None:
        has_value = measurements.c.value.is_not(None)
        found.append(_in_table(connection, "metric", measurements.c.run, measurements.c.metric, metric, has_value))
    times = []
    if (since := wanted.get("since")) is not None:
        times.append(_in_time("since", ge, since))
    if (until := wanted.get("until")) is not None:
        times.append(_in_time("until", lt, until))
    return [*(replace(one, size=_size(connection, one)) for one in found), *times]


def search_of(
    connection: Connection,
    conditions: Sequence[Condition],
    *,
    most: float = float("inf"),
    known: dict[tuple[str, ...], int] | None = None,
) -> Search:
    """Return the search that seeks by the rarest of `conditions`, in view of the cost, and by time.

    Args:
        most: the most runs that are read where they are in the order of time.
        known: the numbers of runs of pairs of conditions, by their names; what is read is added.
    """
    times = [one for one in conditions if one.name in ("since", "until")]
    usable = [one for one in conditions if one not in times and (one.in_order or one.size <= FEW)]
    rarest = min(usable, key=lambda one: min(one.size, most) if one.in_order else one.cost * one.size, default=None)
    seek = times if rarest is None else [*times, rarest]
    size = float("inf") if rarest is None else rarest.size
    equal = [one for one in conditions if one.values and one.in_order]
    known = {} if known is None else known
    for pair in combinations(equal, 2) if size > FEW else ():
        names = tuple(one.name for one in pair)
        if names not in known:
            known[names] = kept_count(connection, pair)
        if known[names] == 0:
            size = 0
    return Search(seek=seek, check=[one for one in conditions if one not in seek], size=size)


def kept_count(connection: Connection, conditions: Sequence[Condition]) -> int:
    """Return the number of runs that meet up to two conditions, each on another facet."""
    of = run_counts.c
    first, second = [*sorted(conditions, key=lambda one: FACETS.index(one.name)), None, None][:2]
    query = select(func.coalesce(func.sum(of.runs), 0)).where(of.facet == (first.name if first else "status"))
    query = query.where(of.other == (second.name if second else ""))
    for one, column in ((first, of.value), (second, of.other_value)):
        if one is not None and one.values is not None:
            query = query.where(one.values(column))
    return whole(connection.scalar(query))


def whole(number: object) -> int:
    """Return a kept number, or a sum of some. Raises `StoreError` where the database holds something else."""
    try:
        return int(str(number))
    except ValueError as error:
        raise StoreError("the index of the store is damaged", advice="'edgewise runs reindex' repairs it") from error


def counted(connection: Connection, clauses: Iterable[ColumnElement[bool]], *, most: int) -> int:
    """Return the number of rows that meet `clauses`, and `most` + 1 for more than `most`."""
    rows = select(1).where(*clauses).limit(most + 1).subquery()
    return connection.scalar(select(func.count()).select_from(rows)) or 0


class unindexed(FunctionElement[str]):  # noqa: N801 - a part of a statement, as `func` has them
    """The text of a column, as an expression that no index serves."""

    type = Text()
    inherit_cache = True


@compiles(unindexed)
def _concatenated(element: unindexed, compiler: SQLCompiler, **how: Any) -> str:
    return f"({compiler.process(element.clauses, **how)} || '')"


@compiles(unindexed, "sqlite")
def _signed(element: unindexed, compiler: SQLCompiler, **how: Any) -> str:
    return f"+{compiler.process(element.clauses, **how)}"  # SQLite's way, which makes no new text for each run


def _size(connection: Connection, condition: Condition) -> float:
    """Return the `size` of `condition`."""
    if condition.values is not None:
        return kept_count(connection, [condition])
    number = counted(connection, [condition.clause(runs.c)], most=FEW) if condition.indexed else FEW + 1
    return number if number <= FEW else float("inf")


def _in_time(name: str, compare: Callable[[Any, float], ColumnElement[bool]], moment: datetime) -> Condition:
    end = moment.timestamp()
    return Condition(
        name=name,
        clause=lambda of: compare(of.created, end),
        check=lambda of: compare(of.created + 0, end),  # no index serves the sum
        in_order=True,
    )


def _equal(name: str, value: str) -> Condition:
    return Condition(
        name=name,
        clause=lambda of: of[name] == value,
        check=lambda of: unindexed(of[name]) == value,
        values=lambda column: column == value,
        in_order=True,
    )


def _of_model(connection: Connection, part: str) -> Condition:
    names = _models_with(connection, part)
    by_hash = len(part) >= MIN_SHA256 and bool(
        counted(connection, [begins(connection, runs.c.sha256, part.lower())], most=1)
    )
    if names is not None and len(names) == 1 and not by_hash:
        return _equal("model", names[0])

    def named(column: Any) -> ColumnElement[bool]:
        found: ColumnElement[bool] = column.icontains(part, autoescape=True) if names is None else column.in_(names)
        return found

    def clause(of: Any, text: Callable[[Any], Any] = lambda column: column) -> ColumnElement[bool]:
        if not by_hash:
            return named(text(of.model))
        hashed: ColumnElement[bool] = begins(connection, text(of.sha256), part.lower())
        return hashed if names == [] else named(text(of.model)) | hashed

    return Condition(
        name="model",
        clause=clause,
        check=lambda of: clause(of, unindexed),
        values=None if by_hash else named,
        indexed=names is not None,
        cost=2,
        hashed=by_hash,
    )


def _models_with(connection: Connection, part: str) -> list[str] | None:
    """Return the models whose names contain `part`, in any case; None where they, or all models, are too many to
    list.
    """
    of = run_counts.c
    every = connection.scalars(select(of.value).where(of.facet == "model", of.other == "").limit(_MOST_MODELS)).all()
    lowered = part.lower()
    found = [name for name in every if lowered in str(name).lower()]
    return None if len(every) == _MOST_MODELS or len(found) > _MOST_NAMED else found


def _in_table(
    connection: Connection, name: str, run: Any, column: Any, value: str, *more: ColumnElement[bool]
) -> Condition:
    """Return the condition that a table of rows of runs has `value` in `column` for the run."""
    chosen = select(run).where(column == value, *more)

    def of_run(of: Any) -> ColumnElement[bool]:
        return exists().where(run == of.id, unindexed(column) == value, *more)

    values: Clause | None = (lambda of: of == value) if name == "tag" else None
    found = Condition(name=name, clause=of_run, check=of_run, values=values, indexed=False, cost=25)
    if values is not None:
        few = kept_count(connection, [found]) <= FEW
    else:
        few = counted(connection, [column == value], most=FEW) <= FEW
    return replace(found, clause=lambda of: of.id.in_(chosen), indexed=True) if few else found
