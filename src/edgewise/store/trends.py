"""A model over time: one metric of its runs, the newest of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from edgewise.store.filters import unindexed
from edgewise.store.tables import NEWEST, RunRow, measurements, row_columns, runs

_OF_VALUE = ("metric", "value", "low", "high", "unit", "basis")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The newest runs of a model that have a value.

    Attributes:
        points: newest first, without tags; metric, value, interval, unit and basis are those of the trend's metric.
        more: whether there are older ones.
    """

    points: tuple[RunRow, ...]
    more: bool


def trend(
    connection: Connection, model: str, *, runtime: str | None, device: str | None, metric: str | None, limit: int
) -> Trend:
    """Return the trend of `Store.trend`."""
    source: Any = runs if metric is None else measurements
    columns = row_columns() | {name: source.c[name] for name in _OF_VALUE}
    query = select(*columns.values()).where(
        runs.c.model == model, unindexed(runs.c.status) == "done", source.c.value.is_not(None)
    )
    if metric is not None:
        query = query.join(measurements, measurements.c.run == runs.c.id)
        query = query.where(unindexed(measurements.c.metric) == metric)
    for column, wanted in ((runs.c.runtime, runtime), (runs.c.device, device)):
        if wanted is not None:
            query = query.where(unindexed(column) == wanted)
    rows = connection.execute(query.order_by(*NEWEST).limit(limit + 1)).all()
    points = tuple(RunRow(**dict(zip(columns, row, strict=True))) for row in rows[:limit])
    return Trend(points=points, more=len(rows) > limit)
