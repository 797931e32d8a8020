"""When suites are queued again in a lab, by the database's clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, update

from edgewise.errors import BadInput
from edgewise.store.connection import Database
from edgewise.store.lab_tables import schedules

Next = Callable[[str, float], float]
"""The next time of a cron expression after a time, s since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a suite is queued again.

    Attributes:
        name: by which the suite tells it from its others.
        cron: five fields, in UTC.
        due: the next time, s since 1970.
        queued: the last time; None before the first.
        cells: how many are queued.
    """

    suite: str
    name: str
    cron: str
    due: float
    queued: float | None
    cells: int


class LabSchedules:
    """The schedules of a lab.

    Args:
        add: queues jobs in a transaction.
    """

    def __init__(self, database: Database, add: Callable[..., int]) -> None:
        self._database = database
        self._add = add

    def all(self) -> list[Schedule]:
        """All schedules, the next one first."""
        columns = [schedules.c[name] for name in Schedule.__dataclass_fields__]
        with self._database.reading() as connection:
            rows = connection.execute(select(*columns).order_by(schedules.c.due)).mappings()
            return [Schedule(**row) for row in rows]

    def put(self, suite: str, crons: Mapping[str, str], jobs: Sequence[Mapping[str, Any]], following: Next) -> None:
        """Give a suite these schedules in place of those that it has; one that stays the same keeps its next time.

        Args:
            crons: name → expression; none ends the schedules of the suite.
            jobs: as of `edgewise.store.lab.LabJobs.add`.
        """
        mine = schedules.c.suite == suite
        if not crons and not any(one.suite == suite for one in self.all()):
            return  # who may only queue can do that
        content = json.dumps(list(jobs))
        with self._database.writing() as connection:
            now = connection.scalar(select(self._database.now)) or 0.0
            kept = {(row.name, row.cron): row for row in connection.execute(select(schedules).where(mine))}
            connection.execute(delete(schedules).where(mine))
            for name, cron in crons.items():
                old = kept.get((name, cron))
                connection.execute(
                    insert(schedules).values(
                        suite=suite, name=name, cron=cron, due=following(cron, now) if old is None else old.due,
                        queued=None if old is None else old.queued, cells=len(jobs), jobs=content,
                    )
                )  # fmt: skip

    def remove(self, suite: str) -> None:
        """End the schedules of a suite. Raises `BadInput` where it has none."""
        with self._database.writing() as connection:
            if not connection.execute(delete(schedules).where(schedules.c.suite == suite)).rowcount:
                known = ", ".join(connection.scalars(select(schedules.c.suite).distinct().order_by(schedules.c.suite)))
                raise BadInput(f"the lab has no schedule of {suite}", advice=f"those with one: {known or 'none'}")

    def queue_due(self, version: str, following: Next, ring: Any) -> list[Schedule]:
        """Queue the suites whose time has come, each once, whoever else does the same; one that was missed, too.

        Args:
            version: the protocol of the workers of the lab.
            ring: as of `edgewise.store.lab.LabJobs.add`.
        """
        found = []
        with self._database.writing() as connection:
            now = connection.scalar(select(self._database.now)) or 0.0
            waiting = select(schedules).where(schedules.c.due <= now).with_for_update(skip_locked=True)
            for row in connection.execute(waiting).all():
                mine = (schedules.c.suite == row.suite) & (schedules.c.name == row.name)
                due = following(row.cron, now)
                connection.execute(update(schedules).where(mine).values(due=due, queued=now))
                jobs = [{**job, "version": version} for job in json.loads(row.jobs)]
                self._add(connection, jobs, ring)
                found.append(
                    Schedule(suite=row.suite, name=row.name, cron=row.cron, due=due, queued=now, cells=row.cells)
                )
        return found
