"""The jobs of a lab, how they ended before, and the suites that they are of.

The rows here decide. Whatever delivers a job, and however often, it begins by the change of its row from queued to
running, with a higher fence; what it gives is refused where another start followed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import insert as pg_insert

from edgewise.record import LabPlace, Run
from edgewise.store import lab_tables as tables
from edgewise.store import tables as run_tables
from edgewise.store.codec import decode, encode
from edgewise.store.index import RunWriter
from edgewise.store.jobs import ENDED, NO_END, FencedJobs, JobRow
from edgewise.text import one_line

MOST_KEPT = 30
"""Ends of a job that are kept, the latest; others go."""
MOST_ATTEMPTS = 5
"""Starts of a job whose workers all ended before it did; then it has failed."""
CLEAR = "look at the device, then let it work again: edgewise lab clear DEVICE"
_PART = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LabJob(JobRow):
    """A job of a lab: its `id` is the key of a sweep's cell, its `device` what it asks for, its `queue` a queue's name.

    Attributes:
        lock: the identity of the device, where it is the only one that answers.
        version: of its request and result, which its worker must have: the protocol of the lab.
        host, place: the worker's host and device, as far as it was started.
        delivery: the job of the engine by which it was started last.
        outcome: how it ended, as JSON; None as long as it has not, and where no worker ended it.
        suite: the name of the suite that queued it last.
        model: as that suite names it; the title begins with it.
        block: of jobs on its device, as long as that may still turn out to be suspect; None where it does not.
    """

    lock: str | None
    version: str
    host: str
    place: str
    delivery: int | None
    outcome: str | None
    suite: str
    model: str
    block: str | None

    @property
    def end(self) -> Mapping[str, Any]:
        """How it ended; empty as long as `outcome` is None."""
        found: Mapping[str, Any] = json.loads(self.outcome or "{}")
        return found


Ring = Callable[[Connection, Sequence[LabJob]], None]
"""Has the engine deliver jobs, in the transaction that queues them."""


class LabJobs(FencedJobs[LabJob]):
    """The jobs of a lab."""

    table = tables.jobs
    row = LabJob

    def find(self, keys: Iterable[str], *, ended: bool = False) -> dict[str, LabJob]:
        """Return the jobs with these ids; with `ended` those that have ended, as has the block of each."""
        wanted, found = list(keys), {}
        with self._database.reading() as connection:
            for at in range(0, len(wanted), _PART):
                part = select(self.table).where(self.table.c.id.in_(wanted[at : at + _PART]))
                part = part.where(self.table.c.status.in_(ENDED), self.table.c.block.is_(None)) if ended else part
                found.update({row.id: self._row(row) for row in connection.execute(part)})
        return found

    def of_suite(self, suite: str, *, most: int) -> Sequence[LabJob]:
        """Return the jobs that a suite has queued, as it names them: the newest `most`.

        Other suites may have the same.
        """
        cells = tables.cells.c
        names = (cells.title.label("own_title"), cells.model.label("own_model"))
        query = select(self.table, *names).join(tables.cells, cells.job == self.table.c.id).where(cells.suite == suite)
        query = query.order_by(self.table.c.created.desc(), self.table.c.id.desc()).limit(most)
        with self._database.reading() as connection:
            return [
                replace(self._row(row), suite=suite, title=row.own_title, model=row.own_model)
                for row in connection.execute(query)
            ]

    def ended_on(self, host: str, place: str, *, most: int) -> Sequence[LabJob]:
        """Return what ended on a device, the latest first: at most `most`. A job that was queued again is there
        several times.

        What is not the latest end of its job lacks its request.
        """

        def on_device(jobs: Table) -> ColumnElement[bool]:
            begun = jobs.c.started.is_not(None)  # not one that was cancelled before it began again
            return and_(jobs.c.host == host, jobs.c.place == place, jobs.c.status.in_(ENDED), begun)

        return self._ends(on_device, most=most)

    def ends_of(self, job_id: str) -> Sequence[LabJob]:
        """How a job ended each time, the latest first: at most `MOST_KEPT` and the last one."""
        return self._ends(lambda jobs: and_(jobs.c.id == job_id, jobs.c.status.in_(ENDED)), most=MOST_KEPT + 1)

    def _ends(self, which: Callable[[Table], ColumnElement[bool]], *, most: int) -> Sequence[LabJob]:
        found: list[LabJob] = []
        with self._database.reading() as connection:
            for jobs in (self.table, tables.earlier):
                newest = select(jobs).where(which(jobs)).order_by(jobs.c.finished.desc(), jobs.c.id.desc()).limit(most)
                found += map(self._row, connection.execute(newest))
        return sorted(found, key=lambda job: (job.finished or 0.0, job.fence), reverse=True)[:most]

    def _keep_ends(self, connection: Connection, condition: ColumnElement[bool]) -> None:
        """Keep how jobs ended that are about to be queued again, and forget the oldest ends of each.

        Args:
            condition: for rows that the transaction has locked.
        """
        jobs, old = self.table.c, tables.earlier
        columns = [one for one in jobs if one.name != "request"]
        names = [*(one.name for one in columns), "request"]
        kept = select(*columns, literal("{}")).where(condition, jobs.status.in_(ENDED))
        ids = connection.scalars(insert(old).from_select(names, kept).returning(old.c.id)).all()
        place = func.row_number().over(partition_by=old.c.id, order_by=old.c.number.desc()).label("place")
        placed = select(old.c.number, place).where(old.c.id.in_(ids)).subquery()
        surplus = select(placed.c.number).where(placed.c.place > MOST_KEPT)
        connection.execute(delete(old).where(old.c.number.in_(surplus)))

    def add(self, jobs: Sequence[Mapping[str, Any]], ring: Ring) -> int:
        """Queue jobs that are new or have ended, all or none; how many. Those queued or running already stay so.

        So do those whose block of jobs has not ended.

        Args:
            jobs: of each the columns that are not about its course.
        """
        with self._database.writing() as connection:
            return self.add_within(connection, jobs, ring)

    def add_within(self, connection: Connection, jobs: Sequence[Mapping[str, Any]], ring: Ring) -> int:
        """As `add`, in a transaction that writes."""
        rung = 0
        now = connection.scalar(select(self._database.now))
        for at in range(0, len(jobs), _PART):
            part = {job["id"]: job for job in jobs[at : at + _PART]}
            states = select(self.table.c.id).where(self.table.c.id.in_(part))
            known = set(connection.scalars(states))
            fresh = {"created": now, "status": "queued", **NO_END, "outcome": None}
            filled = {name: value for name, value in fresh.items() if value is not None}
            new = [
                {**job, **filled, "attempt": 0, "fence": 0, "holder": "", "host": "", "place": ""}
                for key, job in part.items()
                if key not in known
            ]
            queued = [str(job["id"]) for job in new]
            if new:
                connection.execute(insert(self.table), new)
            if named := [{name: job[name] for name in ("suite", "title", "model")} | {"job": key}
                         for key, job in part.items() if job.get("suite")]:  # fmt: skip
                connection.execute(pg_insert(tables.cells).on_conflict_do_nothing(), named)
            if known:
                again = self.table.c.id.in_(known) & self.table.c.block.is_(None)
                connection.execute(select(self.table.c.id).where(again).with_for_update())
                self._keep_ends(connection, again)
            for key in known:
                changes = {**part[key], **fresh, "attempt": 0, "repeated": 0}
                judged = (self.table.c.id == key) & self.table.c.block.is_(None)
                if self._update(judged, ENDED, changes, connection):
                    queued.append(key)
            order = {key: place for place, key in enumerate(part)}
            rows = connection.execute(select(self.table).where(self.table.c.id.in_(queued)))
            ring(connection, sorted(map(self._row, rows), key=lambda job: order[job.id]))
            rung += len(queued)
        return rung

    def begin(
        self, job_id: str, *, version: str, host: str, place: str, worker: str, delivery: int | None
    ) -> LabJob | None:
        """Start a queued job; None where it is not queued, or of another `version`."""
        jobs = self.table
        changes = {**self._begun(worker), "host": host, "place": place, "delivery": delivery, "outcome": None}
        query = update(jobs).where(jobs.c.id == job_id, jobs.c.status == "queued", jobs.c.version == version)
        with self._database.writing() as connection:
            found = connection.execute(query.values(changes).returning(*jobs.c)).first()
        return self._row(found) if found is not None else None

    def end(
        self, job: LabJob, outcome: Mapping[str, Any], runs: Iterable[Run] = (), *, block: str | None = None
    ) -> bool:
        """Save how a started job ended, and its runs, in one transaction; False, and nothing, where it is not `job`'s.

        A job that was queued again and not started since is ended too, so that nothing is measured twice.

        Args:
            block: of jobs on its device, which `close_block` ends.
        """
        place = LabPlace(job=job.id, attempt=job.attempt, fence=job.fence, host=job.host, worker=job.holder)
        marked = [replace(run, lab=place) for run in runs]
        changes = {
            "status": "done" if outcome["status"] == "done" else "failed", "finished": self._database.now,
            "message": one_line(outcome["cause"]), "advice": one_line(outcome["advice"]),
            "runs": json.dumps([run.id for run in marked]), "outcome": json.dumps(outcome, allow_nan=False),
            "block": block,
        }  # fmt: skip
        with self._database.writing() as connection:
            if not self._update(self._held(job), ("running", "queued"), changes, connection):
                return False
            if marked:
                writer = RunWriter(connection)
                for run in marked:
                    writer.write(run, encode(run))
                writer.finish()
        return True

    def close_block(self, block: str, why: str, *, flag: Callable[[Run, str], Run], ring: Ring) -> None:
        """End a block of jobs: their ends are known to others from now on, unless the device turned out to be suspect.

        Then they are queued again, once, and what was measured a second time has failed.

        Args:
            why: the device is suspect; "" where it is not.
            flag: puts that as a caution on a run of the block.
        """
        jobs, documents = self.table, run_tables.documents
        mine = jobs.c.block == block
        with self._database.writing() as connection:
            if why:
                ended = list(map(self._row, connection.execute(select(jobs).where(mine))))
                writer = RunWriter(connection)
                ids = [run for job in ended for run in job.runs]
                for document in connection.scalars(select(documents.c.document).where(documents.c.id.in_(ids))).all():
                    run = flag(decode(document), why)
                    writer.write(run, encode(run))
                writer.finish()
                twice = mine & (jobs.c.repeated == 1) & (jobs.c.status == "done")
                failed = {"status": "failed", "outcome": None, "message": f"its device was suspect twice: {why}"}
                connection.execute(update(jobs).where(twice).values(**failed, advice=CLEAR))
                again = {**NO_END, "status": "queued", "outcome": None, "attempt": 0, "repeated": 1, "block": None}
                once = mine & (jobs.c.repeated == 0) & jobs.c.status.in_(("done", "failed"))
                connection.execute(select(jobs.c.id).where(once).with_for_update())
                self._keep_ends(connection, once)
                queued = update(jobs).where(once).values(again).returning(*jobs.c)
                ring(connection, list(map(self._row, connection.execute(queued))))
            connection.execute(update(jobs).where(mine).values(block=None))

    def release_blocks(self, stale_s: float) -> None:
        """End the blocks of hosts that are gone: their devices can't be gauged any more.

        Args:
            stale_s: a host that has not been seen for so long counts as gone.
        """
        hosts, jobs = tables.hosts.c, self.table
        seen = hosts.seen > self._database.now - stale_s
        alive = exists().where(hosts.name == jobs.c.host, hosts.worker == jobs.c.holder, seen)
        gone = jobs.c.block.is_not(None) & jobs.c.status.in_(ENDED) & ~alive
        with self._database.writing() as connection:
            connection.execute(update(jobs).where(gone).values(block=None))

    def is_any_queued(self, queues: Sequence[str]) -> bool:
        """Whether a job of these queues waits."""
        waits = exists().where(self.table.c.status == "queued", self.table.c.queue.in_(queues))
        with self._database.reading() as connection:
            return bool(connection.scalar(select(waits)))

    def free(self, job_id: str, *, delivery: int | None, ring: Ring | None = None, counts: bool = True) -> None:
        """Queue a running job whose worker is gone again; after `MOST_ATTEMPTS` it has failed.

        Args:
            delivery: by which it was started; a job that was started by another one since is left alone.
            ring: None where the engine delivers it again anyway.
            counts: whether this start counts as an attempt.
        """
        jobs = self.table
        changes = {"status": "queued", "started": None, "attempt": jobs.c.attempt - (0 if counts else 1)}
        mine = (jobs.c.id == job_id) & jobs.c.delivery.is_not_distinct_from(delivery)
        with self._database.writing() as connection:
            end = {"finished": self._database.now, "advice": "see the log of the worker"}
            for condition, status, why in (
                (jobs.c.cancelling == 1, "cancelled", "cancelled"),
                (jobs.c.attempt >= MOST_ATTEMPTS, "failed", f"its worker ended {MOST_ATTEMPTS} times before it did"),
            ):
                self._update(mine & condition, ("running",), {"status": status, "message": why, **end}, connection)
            found = self._update(mine, ("running",), changes, connection)
            if found and ring is not None:
                ring(connection, [self._row(connection.execute(select(jobs).where(jobs.c.id == found)).one())])

    def end_all(self, names: Sequence[str] = ()) -> tuple[int, int]:
        """Cancel queued jobs, and have running ones stopped: all, or those whose id or title has one of `names`.

        Returns how many were cancelled, and how many are stopped now.
        """
        jobs = self.table
        parts = [jobs.c.title.contains(name, autoescape=True) | (jobs.c.id == name) for name in names]
        condition = or_(*parts) if parts else true()
        now = self._database.now
        with self._database.writing() as connection:
            queued = update(jobs).where(condition, jobs.c.status == "queued")
            running = update(jobs).where(condition, jobs.c.status == "running", jobs.c.cancelling == 0)
            return (
                connection.execute(queued.values(status="cancelled", finished=now, message="cancelled")).rowcount,
                connection.execute(running.values(cancelling=1)).rowcount,
            )

    def lost(self, stale_s: float) -> list[tuple[str, int | None]]:
        """Return the jobs that the engine does not have, with their last delivery: queued or started `stale_s`
        ago or more.
        """
        query = f"""
        SELECT job.id, job.delivery FROM lab_jobs job WHERE job.status IN ('queued', 'running')
        AND coalesce(job.started, job.created) < {self._database.now} - :age AND NOT EXISTS (
            SELECT 1 FROM procrastinate_jobs engine WHERE engine.status IN ('todo', 'doing')
            AND engine.args->>'job' = job.id AND (job.status = 'queued' OR engine.id = job.delivery))
        """  # noqa: S608 - the clock's name
        with self._database.reading() as connection:
            return [(row.id, row.delivery) for row in connection.execute(text(query), {"age": stale_s})]

    def ring_again(self, job_id: str, ring: Ring) -> None:
        """Have the engine deliver a queued job once more."""
        query = select(self.table).where(self.table.c.id == job_id, self.table.c.status == "queued")
        with self._database.writing() as connection:
            ring(connection, [self._row(row) for row in connection.execute(query)])
