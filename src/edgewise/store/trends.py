"""A model over time: one metric of its runs, the newest of them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, select

from edgewise.store.tables import NEWEST, RunRow, measurements, runs

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
    connection: Connection, *, model: str, runtime: str | None, device: str | None, metric: str | None, limit: int
) -> Trend:
    """The trend of `Store.trend`."""
    names = [field.name for field in fields(RunRow) if field.name != "tags"]
    source: Any = runs if metric is None else measurements
    columns = [source.c[name] if name in _OF_VALUE else runs.c[name] for name in names]
    query = select(*columns).where(runs.c.model == model, runs.c.status == "done", source.c.value.is_not(None))
    if metric is not None:  # found by the run: the concatenation hides the index of metrics
        query = query.join(measurements, measurements.c.run == runs.c.id)
        query = query.where(measurements.c.metric.concat("") == metric)
    for column, wanted in ((runs.c.runtime, runtime), (runs.c.device, device)):
        if wanted is not None:
            query = query.where(column.concat("") == wanted)
    rows = connection.execute(query.order_by(*NEWEST).limit(limit + 1)).all()
    points = tuple(RunRow(**dict(zip(names, row, strict=True))) for row in rows[:limit])
    return Trend(points=points, more=len(rows) > limit)
