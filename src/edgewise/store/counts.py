"""How many runs there are: in all, and of each model, runtime, device, status and tag within a filter.

`run_counts` keeps the number of runs of each value of a facet, and of each pair of values of two facets. With up to one
other condition, these are the facets' counts. With more, the runs of the rarest condition are read, at most the newest
`EXAMINED`: past that, a count says that it is a lower bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, insert, literal, select
from sqlalchemy import text as sql

from edgewise.errors import StoreError
from edgewise.store.filters import FEW, Condition, RunFilter, conditions_of, counted
from edgewise.store.tables import NEWEST, run_counts, runs, tags

FACETS = ("model", "runtime", "device", "status", "tag")
EXAMINED = 10_000
_OF_RUN = FACETS[:-1]
_PART = 1000
_KEY = ("facet", "other", "value", "other_value")
_ADD = sql(
    "INSERT INTO run_counts (facet, other, value, other_value, runs) "
    "VALUES (:facet, :other, :value, :other_value, :runs) "
    "ON CONFLICT (facet, other, value, other_value) DO UPDATE SET runs = run_counts.runs + excluded.runs"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number of runs.

    Attributes:
        more: whether `value` is a lower bound, where counting stopped.
    """

    value: int
    more: bool = False

    def __str__(self) -> str:
        return f"{self.value:,}" + ("+" if self.more else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """A value of a facet, and how many runs have it.

    Attributes:
        more: whether `count` is a lower bound, where counting stopped.
    """

    value: str
    count: int
    more: bool = False


class FacetValues(tuple[Facet, ...]):
    """The values of a facet with the most runs, those with more runs first; the one that a filter chose is among them.

    Attributes:
        more: whether there are, or may be, further values.
    """

    more: bool = False


class Changes:
    """Changes of the kept counts, summed over the runs of a transaction."""

    def __init__(self) -> None:
        self._sums = Counter[tuple[str, str, str, str]]()

    def add(self, row: Mapping[Any, Any], tagged: Iterable[str], sign: int) -> None:
        """Count the run with this row and these tags once more (`sign` 1) or once less (-1)."""
        values = [(name, row[name]) for name in _OF_RUN] + [("tag", name) for name in tagged]
        for facet, value in values:
            self._sums[facet, "", value, ""] += sign
        for (facet, value), (other, other_value) in combinations(values, 2):
            if facet != other:
                self._sums[facet, other, value, other_value] += sign

    def apply(self, connection: Connection) -> None:
        """Write the changes."""
        changes = {key: change for key, change in self._sums.items() if change}
        if changes:
            rows = [dict(zip(_KEY, key, strict=True), runs=change) for key, change in changes.items()]
            connection.execute(_ADD, rows)
        fewer = [key for key, change in changes.items() if change < 0]
        if fewer:
            names = [f"its_{name}" for name in _KEY]
            gone = [run_counts.c[name] == bindparam(f"its_{name}") for name in _KEY]
            empty = delete(run_counts).where(*gone, run_counts.c.runs <= 0)
            connection.execute(empty, [dict(zip(names, key, strict=True)) for key in fewer])


def fill(connection: Connection) -> None:
    """Make the kept counts again from the index tables."""
    connection.execute(delete(run_counts))
    columns = {name: runs.c[name] for name in _OF_RUN} | {"tag": tags.c.name}
    for facet, value in columns.items():
        query = select(literal(facet), literal(""), value, literal(""), func.count()).group_by(value)
        connection.execute(insert(run_counts).from_select([*_KEY, "runs"], query))
    for (facet, value), (other, other_value) in combinations(columns.items(), 2):
        query = select(literal(facet), literal(other), value, other_value, func.count()).group_by(value, other_value)
        if other == "tag":
            query = query.join_from(runs, tags, runs.c.id == tags.c.run)
        connection.execute(insert(run_counts).from_select([*_KEY, "runs"], query))


def count(connection: Connection, wanted: RunFilter, *, most: int, kept: bool) -> Count:
    """The number of runs that match `wanted`; past `most` it may be a lower bound."""
    conditions = conditions_of(connection, wanted, kept=kept)
    if kept and len(conditions) <= 2 and all(one.values for one in conditions):
        return Count(value=_kept_count(connection, conditions))
    query, complete = _newest(connection, conditions, kept=kept, examined=max(EXAMINED, most))
    found = connection.scalar(select(func.count()).select_from(query.limit(most + 1).subquery())) or 0
    return Count(value=min(found, most), more=found > most or not complete)


def count_files(connection: Connection, sha256s: Sequence[str]) -> dict[str, int]:
    """The number of runs of each model file, by its sha256; files without runs are left out."""
    found: dict[str, int] = {}
    for first in range(0, len(sha256s), _PART):
        part = sha256s[first : first + _PART]
        query = select(runs.c.sha256, func.count()).where(runs.c.sha256.in_(part)).group_by(runs.c.sha256)
        found |= {row[0]: row[1] for row in connection.execute(query)}
    return found


def facets(connection: Connection, wanted: RunFilter, *, most: int, kept: bool) -> dict[str, FacetValues]:
    """The values of each facet among the runs that match `wanted`, but for its condition on the facet itself."""
    conditions = conditions_of(connection, wanted, kept=kept)
    chosen = {"runtime": wanted.get("runtime"), "device": wanted.get("device")}
    chosen |= {"status": wanted.get("status"), "tag": wanted.get("tag")}
    found, to_read = dict[str, FacetValues](), dict[str, list[str]]()
    for facet in FACETS:
        others = [one for one in conditions if one.name != facet]
        if kept and len(others) <= 1 and all(one.values for one in others):
            ranked = connection.execute(_kept_values(facet, others).limit(most + 2)).all()
            its_runs = 0 if chosen.get(facet) is None else _kept_count(connection, conditions)
            found[facet] = _values(ranked, most=most, chosen=(chosen.get(facet), its_runs))
        else:
            to_read.setdefault(facet if len(others) < len(conditions) else "", []).append(facet)
    for own, names in to_read.items():
        others = [one for one in conditions if one.name != own]
        query, complete = _newest(connection, others, kept=kept, examined=EXAMINED // len(to_read))
        ids, *values = list(zip(*connection.execute(query).all(), strict=True)) or [()] * len(FACETS)
        of_facet = dict(zip(_OF_RUN, values, strict=True))
        for facet in names:
            number = Counter[str | None](_tags_among(connection, ids) if facet == "tag" else of_facet[facet])
            in_order = sorted(number.items(), key=lambda pair: (-pair[1], pair[0]))
            its_runs = number[chosen.get(facet)]
            found[facet] = _values(in_order, most=most, chosen=(chosen.get(facet), its_runs), complete=complete)
    return {facet: found[facet] for facet in FACETS}


def tags_of(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Run → its tags, sorted, for those of `ids` that have any."""
    tagged = dict[str, tuple[str, ...]]()
    for first in range(0, len(ids), _PART):
        some = tags.c.run.in_(ids[first : first + _PART])
        for run, name in connection.execute(select(tags.c.run, tags.c.name).where(some).order_by(tags.c.name)):
            tagged[run] = (*tagged.get(run, ()), name)
    return tagged


def _tags_among(connection: Connection, ids: Sequence[str]) -> Iterator[str]:
    """The tags of the runs with these ids, each as often as it occurs."""
    if counted(connection, [tags.c.name.is_not(None)], most=len(ids)) > len(ids):
        yield from chain.from_iterable(tags_of(connection, ids).values())
    else:  # there are fewer tags than runs: all of them are read sooner
        among = frozenset(ids)
        yield from (name for run, name in connection.execute(select(tags.c.run, tags.c.name)) if run in among)


def _values(ranked: Sequence[Any], *, most: int, chosen: tuple[str | None, int], complete: bool = True) -> FacetValues:
    """The `most` first of `ranked`, pairs of a value and a number, and `chosen`, if it has runs."""
    pairs: list[Any] = [tuple(pair) for pair in ranked[:most]]
    pairs += [chosen] if chosen[1] and chosen[0] not in [value for value, _ in pairs] else []
    found = FacetValues(Facet(value=str(value), count=_whole(number), more=not complete) for value, number in pairs)
    found.more = len(ranked) > len(pairs) or not complete
    return found


def _whole(number: object) -> int:
    """A kept number, or a sum of some. Raises `StoreError` where the database holds something else."""
    try:
        return int(str(number))
    except ValueError as error:
        raise StoreError("the index of the store is damaged", advice="'edgewise runs reindex' repairs it") from error


def _kept_count(connection: Connection, conditions: Sequence[Condition]) -> int:
    """The number of runs that meet up to two conditions, each on another facet."""
    of = run_counts.c
    first, second = [*sorted(conditions, key=lambda one: FACETS.index(one.name)), None, None][:2]
    query = select(func.coalesce(func.sum(of.runs), 0)).where(of.facet == (first.name if first else "status"))
    query = query.where(of.other == (second.name if second else ""))
    for one, column in ((first, of.value), (second, of.other_value)):
        if one is not None and one.values is not None:
            query = query.where(one.values(column))
    return _whole(connection.scalar(query))


def _kept_values(facet: str, conditions: Sequence[Condition]) -> Any:
    """The query for each value of `facet` and its number of runs, under at most one condition on another facet."""
    of = run_counts.c
    if not conditions:
        return select(of.value, of.runs).where(of.facet == facet, of.other == "").order_by(of.runs.desc(), of.value)
    (one,) = conditions
    first, second = sorted((facet, one.name), key=FACETS.index)
    column, conditioned = (of.value, of.other_value) if first == facet else (of.other_value, of.value)
    assert one.values is not None
    value = column.concat("")  # grouped by the column itself, SQLite would read a whole index in its order
    query = select(value, func.sum(of.runs)).where(of.facet == first, of.other == second, one.values(conditioned))
    return query.group_by(value).order_by(func.sum(of.runs).desc(), value)


def _newest(
    connection: Connection, conditions: Sequence[Condition], *, kept: bool, examined: int
) -> tuple[Select[Any], bool]:
    """The query for the runs that meet `conditions` among the newest `examined` of the rarest one, with their facets.

    Returns:
        The query, and whether it reaches all runs that meet the conditions.
    """
    times = [one for one in conditions if one.name in ("since", "until")]
    sizes = {one.name: _size(connection, one, kept=kept) for one in conditions if one not in times}
    usable = [one for one in conditions if one.name in sizes and (one.in_order or sizes[one.name] <= FEW)]
    rarest = min(usable, key=lambda one: sizes[one.name], default=None)
    inner = times if rarest is None else [*times, rarest]
    columns = [runs.c[name] for name in ("id", *_OF_RUN, "created", "sha256")]
    candidates = select(*columns).where(*(one.clause(runs.c) for one in inner)).order_by(*NEWEST)
    complete = rarest is not None and sizes[rarest.name] <= examined
    if not complete:
        complete = connection.execute(candidates.with_only_columns(runs.c.id).offset(examined).limit(1)).first() is None
    found = candidates.limit(examined).subquery()
    rest = [one.clause(found.c) for one in conditions if one not in inner]
    return select(*(found.c[name] for name in ("id", *_OF_RUN))).where(*rest), complete


def _size(connection: Connection, condition: Condition, *, kept: bool) -> float:
    """The number of runs that meet `condition`, counted up to `FEW` where none is kept; infinite if that takes long."""
    if kept and condition.values is not None:
        return _kept_count(connection, [condition])
    return counted(connection, [condition.clause(runs.c)], most=FEW) if condition.indexed else float("inf")
