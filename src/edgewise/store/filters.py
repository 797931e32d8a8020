"""Which runs are wanted: the conditions of a filter, as clauses on the index tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from sqlalchemy import ColumnElement, Connection, exists, func, select

from edgewise.store.references import begins
from edgewise.store.tables import measurements, run_counts, runs, tags

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
        clause: on the columns of `runs`.
        values: the same on a column of values of the facet `name`; None if a facet's value does not decide it.
        indexed: whether an index finds the runs.
        in_order: whether that index has them in the order of time.
    """

    name: str
    clause: Clause
    values: Clause | None = None
    indexed: bool = True
    in_order: bool = False


def possible(wanted: Mapping[str, object]) -> bool:
    """Whether a run can match: none has stray bytes of a command line. Raises `TypeError` for an unknown condition."""
    if unknown := wanted.keys() - RunFilter.__annotations__.keys():
        raise TypeError(f"unknown arguments: {', '.join(sorted(unknown))}")
    return all(text.isprintable() for text in wanted.values() if isinstance(text, str))


def conditions_of(connection: Connection, wanted: RunFilter, *, kept: bool) -> list[Condition]:
    """The conditions of `wanted`, without its page (`before`, `after`, `limit`).

    Args:
        kept: whether the store has the kept tables.
    """
    found = []
    if (model := wanted.get("model")) is not None:
        found.append(_of_model(connection, model, kept=kept))
    equal = {"runtime": wanted.get("runtime"), "device": wanted.get("device"), "status": wanted.get("status")}
    found += [_equal(name, value) for name, value in equal.items() if value is not None]
    if (tag := wanted.get("tag")) is not None:
        found.append(_in_table(connection, "tag", tags.c.run, tags.c.name, tag))
    if (metric := wanted.get("metric")) is not None:
        has_value = measurements.c.value.is_not(None)
        found.append(_in_table(connection, "metric", measurements.c.run, measurements.c.metric, metric, has_value))
    if (since := wanted.get("since")) is not None:
        earliest = since.timestamp()
        found.append(Condition(name="since", clause=lambda of: of.created >= earliest, in_order=True))
    if (until := wanted.get("until")) is not None:
        latest = until.timestamp()
        found.append(Condition(name="until", clause=lambda of: of.created < latest, in_order=True))
    return found


def counted(connection: Connection, clauses: Iterable[ColumnElement[bool]], *, most: int) -> int:
    """The number of rows that meet `clauses`, and `most` + 1 for more than `most`."""
    rows = select(1).where(*clauses).limit(most + 1).subquery()
    return connection.scalar(select(func.count()).select_from(rows)) or 0


def _equal(name: str, value: str) -> Condition:
    return Condition(
        name=name, clause=lambda of: of[name] == value, values=lambda column: column == value, in_order=True
    )


def _of_model(connection: Connection, part: str, *, kept: bool) -> Condition:
    names = _models_with(connection, part) if kept else None
    by_hash = len(part) >= MIN_SHA256 and bool(
        counted(connection, [begins(connection, runs.c.sha256, part.lower())], most=1)
    )
    if names is not None and len(names) == 1 and not by_hash:
        return _equal("model", names[0])

    def named(column: Any) -> ColumnElement[bool]:
        found: ColumnElement[bool] = column.icontains(part, autoescape=True) if names is None else column.in_(names)
        return found

    def clause(of: Any) -> ColumnElement[bool]:
        if not by_hash:
            return named(of.model)
        hashed: ColumnElement[bool] = begins(connection, of.sha256, part.lower())
        return hashed if names == [] else named(of.model) | hashed

    return Condition(name="model", clause=clause, values=None if by_hash else named, indexed=names is not None)


def _models_with(connection: Connection, part: str) -> list[str] | None:
    """The models whose names contain `part`, in any case; None where they, or all models, are too many to list."""
    of = run_counts.c
    every = connection.scalars(select(of.value).where(of.facet == "model", of.other == "").limit(_MOST_MODELS)).all()
    found = [name for name in every if part.lower() in str(name).lower()]
    return None if len(every) == _MOST_MODELS or len(found) > _MOST_NAMED else found


def _in_table(
    connection: Connection, name: str, run: Any, column: Any, value: str, *more: ColumnElement[bool]
) -> Condition:
    """The condition that a table of rows of runs has `value` in `column` for the run."""
    few = counted(connection, [column == value], most=FEW) <= FEW
    chosen = select(run).where(column == value, *more)

    def clause(of: Any) -> ColumnElement[bool]:
        # Of many, whether a run is among them is looked up by the run: the concatenation hides the column's index.
        return of.id.in_(chosen) if few else exists().where(run == of.id, column.concat("") == value, *more)

    values: Clause | None = (lambda of: of == value) if name == "tag" else None
    return Condition(name=name, clause=clause, values=values, indexed=few)
