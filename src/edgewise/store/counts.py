"""How many runs there are: in all, and of each model, runtime, device, status and tag within a filter.

`run_counts` keeps the number of runs of each value of a facet, and of each pair of values of two facets. With up to one
other condition, these are the facets' counts. With more, runs are counted one by one: at most the newest `COUNTED` that
match, among at most the newest `SOUGHT` of one condition; the facets share both. Past that, a count says that it is a
lower bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, false, func, literal, select, tuple_, union_all
from sqlalchemy import text as sql

from edgewise.metrics import is_score
from edgewise.store.filters import (
    Condition,
    RunFilter,
    Search,
    counted,
    kept_count,
    search_of,
    unindexed,
    whole,
)
from edgewise.store.tables import FACETS, NEWEST, measurements, run_counts, runs, tags

COUNTED = 10_000
"""Runs that are counted, where the store does not keep their number."""
SOUGHT = 30_000
"""Runs of the rarest condition among which those that meet the others are sought."""
TAGGED = 2_000
"""Tags whose runs are looked up one by one; of more, only those of the counted runs are."""
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


def count(connection: Connection, conditions: Sequence[Condition], *, most: int) -> Count:
    """Return the number of runs that meet `conditions`; past `most` it may be a lower bound."""
    if len(conditions) <= 2 and all(one.values for one in conditions):
        return Count(value=kept_count(connection, conditions))
    sought = max(SOUGHT, most)
    search = search_of(connection, conditions, most=sought)
    matching, complete = _matching(connection, search, ["id"], sought)
    found = connection.scalar(select(func.count()).select_from(matching.limit(most + 1).subquery())) or 0
    return Count(value=min(found, most), more=found > most or not complete)


def count_files(connection: Connection, files: Sequence[str], *, by: str = "sha256") -> dict[str, int]:
    """Return the number of runs of each model file, by this column; files without runs are left out."""
    found: dict[str, int] = {}
    for first in range(0, len(files), _PART):
        part = files[first : first + _PART]
        query = select(runs.c[by], func.count()).where(runs.c[by].in_(part)).group_by(runs.c[by])
        found |= {row[0]: row[1] for row in connection.execute(query)}
    return found


def facets(
    connection: Connection, conditions: Sequence[Condition], wanted: RunFilter, *, most: int
) -> dict[str, FacetValues]:
    """Return the values of each facet among the runs that meet the `conditions` of `wanted` but that on the facet
    itself.
    """
    chosen = {"runtime": wanted.get("runtime"), "device": wanted.get("device")}
    chosen |= {"status": wanted.get("status"), "tag": wanted.get("tag")}
    others_of = {facet: [one for one in conditions if one.name != facet] for facet in FACETS}
    is_kept = {facet: len(others) <= 1 and all(one.values for one in others) for facet, others in others_of.items()}
    found, read, parts = dict[str, FacetValues](), dict[int, list[str]](), len(FACETS) - sum(is_kept.values())
    for facet, others in others_of.items():
        if is_kept[facet]:
            ranked = connection.execute(_kept_values(facet, others).limit(most + 2)).all()
            its_runs = 0 if chosen.get(facet) is None else kept_count(connection, conditions)
            found[facet] = _values(ranked, most=most, chosen=(chosen.get(facet), its_runs))
        elif facet == "tag" and counted(connection, [tags.c.name.is_not(None)], most=TAGGED) <= TAGGED:
            ranked = connection.execute(_tags_of_all(others)).all()
            found[facet] = _values(ranked, most=most, chosen=_among(ranked, chosen[facet]))
        else:  # facets that leave out no condition share a search
            read.setdefault(FACETS.index(facet) if len(others) < len(conditions) else -1, []).append(facet)
    known: dict[tuple[str, ...], int] = {}
    for names in read.values():
        search = search_of(connection, others_of[names[0]], most=SOUGHT // parts, known=known)
        ranked_by, complete = _read(connection, search, names, parts=parts)
        for facet, ranked in ranked_by.items():
            chosen_one = _among(ranked, chosen.get(facet))
            found[facet] = _values(ranked, most=most, chosen=chosen_one, complete=complete)
    return {facet: found[facet] for facet in FACETS}


def tags_of(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Run → its tags, sorted, for those of `ids` that have any."""
    tagged = dict[str, tuple[str, ...]]()
    for first in range(0, len(ids), _PART):
        some = tags.c.run.in_(ids[first : first + _PART])
        for run, name in connection.execute(select(tags.c.run, tags.c.name).where(some).order_by(tags.c.name)):
            tagged[run] = (*tagged.get(run, ()), name)
    return tagged


def scores_of(connection: Connection, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Run → metric, value, low, high, unit and basis of its first known score, for those of `ids` that have one."""
    told = dict[str, dict[str, Any]]()
    columns = [measurements.c[name] for name in ("metric", "value", "low", "high", "unit", "basis")]
    for first in range(0, len(ids), _PART):
        some = measurements.c.run.in_(ids[first : first + _PART]), measurements.c.value.is_not(None)
        query = select(measurements.c.run, *columns).where(*some).order_by(measurements.c.position)
        for run, metric, *rest in connection.execute(query):
            if run not in told and is_score(metric):
                names = (column.name for column in columns)
                told[run] = dict(zip(names, (metric, *rest), strict=True))
    return told


def _tags_of_all(conditions: Sequence[Condition]) -> Any:
    """Return the query for each tag and the number of its runs that meet `conditions`, beginning with the tags."""
    query = select(tags.c.name, func.count()).join_from(tags, runs, runs.c.id == tags.c.run)
    return _ranked(query.where(*(one.check(runs.c) for one in conditions)), tags.c.name)


def _ranked(query: Any, value: Any) -> Any:
    return query.group_by(value).order_by(func.count().desc(), value)


def _among(ranked: Sequence[Any], chosen: str | None) -> tuple[str | None, int]:
    """`chosen` with its number in `ranked`, 0 if it is not there."""
    return chosen, dict(map(tuple, ranked)).get(chosen, 0)


def _values(ranked: Sequence[Any], *, most: int, chosen: tuple[str | None, int], complete: bool = True) -> FacetValues:
    """Return the `most` first of `ranked`, pairs of a value and a number, and `chosen`, if it has runs."""
    pairs: list[Any] = [tuple(pair) for pair in ranked[:most]]
    pairs += [chosen] if chosen[1] and chosen[0] not in [value for value, _ in pairs] else []
    found = FacetValues(Facet(value=str(value), count=whole(number), more=not complete) for value, number in pairs)
    found.more = len(ranked) > len(pairs) or not complete
    return found


def _kept_values(facet: str, conditions: Sequence[Condition]) -> Any:
    """Return the query for each value of `facet` and its number of runs, under at most one condition on another
    facet.
    """
    of = run_counts.c
    if not conditions:
        return select(of.value, of.runs).where(of.facet == facet, of.other == "").order_by(of.runs.desc(), of.value)
    (one,) = conditions
    first, second = sorted((facet, one.name), key=FACETS.index)
    column, conditioned = (of.value, of.other_value) if first == facet else (of.other_value, of.value)
    assert one.values is not None
    value = unindexed(column)  # grouped by the column itself, SQLite would read a whole index in its order
    query = select(value, func.sum(of.runs)).where(of.facet == first, of.other == second, one.values(conditioned))
    return query.group_by(value).order_by(func.sum(of.runs).desc(), value)


def _read(
    connection: Connection, search: Search, names: Sequence[str], *, parts: int
) -> tuple[dict[str, list[Any]], bool]:
    """Values of the facets `names` with their numbers among at most `COUNTED` runs of `search`, and whether it is all.

    Args:
        parts: the number of facets that are read, which share what may be counted.
    """
    most = COUNTED // parts
    columns = ["id", *(name for name in names if name != "tag")]
    matching, complete = _matching(connection, search, columns, SOUGHT // parts)
    found = matching.limit(most).cte()  # which both databases make once for all that is counted in it
    queries = [select(literal(""), literal(""), func.count()).select_from(found)]
    for name in names:
        value: Any = unindexed(tags.c.name) if name == "tag" else found.c[name]
        source = found.join(tags, tags.c.run == found.c.id) if name == "tag" else found
        queries.append(select(literal(name), value, func.count()).select_from(source).group_by(value))
    ranked: dict[str, list[Any]] = {name: [] for name in ("", *names)}
    for name, value, number in connection.execute(union_all(*queries)):
        ranked[name].append((value, number))
    ((_, number),) = ranked.pop("")
    by_number = {name: sorted(pairs, key=lambda pair: (-pair[1], str(pair[0]))) for name, pairs in ranked.items()}
    return by_number, bool(complete and number < most)


def _matching(connection: Connection, search: Search, columns: Sequence[str], sought: int) -> tuple[Select[Any], bool]:
    """Return the query for `columns` of the runs that `search` finds, among `sought` that it seeks: the newest, if
    in order.

    Returns:
        The query, and whether it reaches all runs that meet the conditions.
    """
    place = (runs.c.created, runs.c.id)
    candidates, in_order = select(*place).where(*search.seek_clauses()), all(one.in_order for one in search.seek)
    if in_order:
        candidates = candidates.order_by(*NEWEST)
    beyond = None if search.size <= sought else connection.execute(candidates.offset(sought).limit(1)).first()
    wanted = [runs.c[name] for name in columns]
    if beyond is None:
        clauses = search.check_clauses() if search.size else [false()]
        return candidates.with_only_columns(*wanted).where(*clauses), True
    if in_order and connection.dialect.name == "sqlite":
        # A limit would make it copy each run. The time has one lower bound, because an index serves only one.
        seek = [one.clause(runs.c) for one in search.seek if one.name != "since"]
        newer = select(*wanted).where(*seek, tuple_(*place) > beyond, *search.check_clauses())
        return newer.order_by(*NEWEST), False
    # PostgreSQL checks the runs within a limit one by one, but all runs with a tag or a metric where there is none.
    read = [*_OF_RUN, "created", "id"] + (["sha256"] if any(one.hashed for one in search.check) else [])
    found = candidates.with_only_columns(*(runs.c[name] for name in read)).limit(sought).subquery()
    return select(*(found.c[name] for name in columns)).where(*search.check_clauses(found.c)), False
