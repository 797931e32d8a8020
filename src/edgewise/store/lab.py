"""A lab: hosts with devices, and the jobs for them, in the database of a team's store.

The rows here decide. Whatever delivers a job, and however often, it begins by the change of its row from queued to
running, with a higher fence; what it gives is refused where another start followed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, and_, case, delete, exists, func, insert, or_, select, text, true, update

from edgewise.errors import BadInput, Unavailable
from edgewise.record import LabPlace, Run
from edgewise.store import lab_tables as tables
from edgewise.store import tables as run_tables
from edgewise.store.codec import decode, encode
from edgewise.store.connection import Database
from edgewise.store.index import RunWriter
from edgewise.store.jobs import ENDED, NO_END, FencedJobs, JobRow
from edgewise.store.lab_files import LabFiles
from edgewise.store.lab_gauges import LabGauges
from edgewise.store.lab_schedules import LabSchedules
from edgewise.text import one_line

STALE_S = 30.0
"""A host that has not been seen for so long counts as gone."""
MOST_ATTEMPTS = 5
"""Starts of a job whose workers all ended before it did; then it has failed."""
CLEAR = "look at the device, then let it work again: edgewise lab clear DEVICE"
_PART = 1000
_NEW_COLUMNS = """
ALTER TABLE lab_jobs
ADD COLUMN IF NOT EXISTS suite TEXT NOT NULL DEFAULT '', ADD COLUMN IF NOT EXISTS model TEXT NOT NULL DEFAULT '',
ADD COLUMN IF NOT EXISTS block VARCHAR(64), ADD COLUMN IF NOT EXISTS repeated INTEGER NOT NULL DEFAULT 0
"""  # which labs of an earlier version lack
_MAKE_LOCK = 0x6C616273  # any number that all edgewise processes share: PostgreSQL's advisory lock


@dataclass(frozen=True, slots=True, kw_only=True)
class LabJob(JobRow):
    """A job of a lab: its `id` is the key of a sweep's cell, its `device` what it asks for, its `queue` a queue's name.

    Attributes:
        lock: the identity of the device, where it is the only one that answers.
        version: of edgewise, which its worker must have.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LabDevice:
    """A device of a lab.

    Attributes:
        name: by which its host knows it.
        identity: what tells it from others; two hosts may have the same device.
        answers: names and tags by which jobs ask for it.
        processor: of the host, where the device is the host itself.
    """

    host: str
    name: str
    identity: str
    answers: tuple[str, ...]
    processor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSettings:
    """What holds for the whole lab: the version of edgewise, and the most bytes of a file."""

    version: str
    most_file: int


Ring = Callable[[Connection, Sequence[LabJob]], None]
"""Has the engine deliver jobs, in the transaction that queues them."""


class LabJobs(FencedJobs[LabJob]):
    """The jobs of a lab."""

    table = tables.jobs
    row = LabJob

    def find(self, keys: Iterable[str], *, ended: bool = False) -> dict[str, LabJob]:
        """The jobs with these ids; with `ended` those that have ended, as has the block of each."""
        wanted, found = list(keys), {}
        with self._database.reading() as connection:
            for at in range(0, len(wanted), _PART):
                part = select(self.table).where(self.table.c.id.in_(wanted[at : at + _PART]))
                part = part.where(self.table.c.status.in_(ENDED), self.table.c.block.is_(None)) if ended else part
                found.update({row.id: self._row(row) for row in connection.execute(part)})
        return found

    def of_suite(self, suite: str, *, most: int) -> Sequence[LabJob]:
        """The jobs that a suite queued last: the newest `most`."""
        return self._select(self.table.c.suite == suite, limit=most)

    def ended_on(self, host: str, place: str, *, most: int) -> Sequence[LabJob]:
        """The jobs whose last start was on a device and that have ended, the latest first: at most `most`."""
        jobs = self.table.c
        ended = and_(jobs.host == host, jobs.place == place, jobs.status.in_(ENDED))
        return self._select(ended, limit=most, newest_by=jobs.finished)

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
        """Start a queued job; None where it is not queued, or for another version."""
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
                queued = update(jobs).where(once).values(again).returning(*jobs.c)
                ring(connection, list(map(self._row, connection.execute(queued))))
            connection.execute(update(jobs).where(mine).values(block=None))

    def release_blocks(self) -> None:
        """End the blocks of hosts that are gone, whose devices nobody can ask."""
        hosts, jobs = tables.hosts.c, self.table
        seen = hosts.seen > self._database.now - STALE_S
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

    def lost(self) -> list[tuple[str, int | None]]:
        """The jobs that the engine does not have, with their last delivery: queued or started a while ago."""
        query = f"""
        SELECT job.id, job.delivery FROM lab_jobs job WHERE job.status IN ('queued', 'running')
        AND coalesce(job.started, job.created) < {self._database.now} - :age AND NOT EXISTS (
            SELECT 1 FROM procrastinate_jobs engine WHERE engine.status IN ('todo', 'doing')
            AND engine.args->>'job' = job.id AND (job.status = 'queued' OR engine.id = job.delivery))
        """  # noqa: S608 - the clock's name
        with self._database.reading() as connection:
            return [(row.id, row.delivery) for row in connection.execute(text(query), {"age": STALE_S})]

    def ring_again(self, job_id: str, ring: Ring) -> None:
        """Have the engine deliver a queued job once more."""
        query = select(self.table).where(self.table.c.id == job_id, self.table.c.status == "queued")
        with self._database.writing() as connection:
            ring(connection, [self._row(row) for row in connection.execute(query)])


class Lab:
    """A lab in a store. Methods raise `StoreError` where the database fails."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.name = database.name
        self.jobs = LabJobs(database)
        self.files = LabFiles(database)
        self.gauges = LabGauges(database)
        self.schedules = LabSchedules(database, self.jobs.add_within)

    @property
    def url(self) -> str:
        """Of the database, with its password, for its own clients. Raises `Unavailable` where it is not PostgreSQL."""
        self._require_server()
        url = self._database.engine.url.set(drivername="postgresql")
        return url.render_as_string(hide_password=False)

    @property
    def is_exposed(self) -> bool:
        """Whether the connection leaves this machine without being told how it is protected."""
        url = self._database.engine.url
        host = url.query.get("host") or url.host or ""
        near = str(host).startswith("/") or host in ("", "localhost", "127.0.0.1", "::1")
        return not near and "sslmode" not in url.query

    def make(self, settings: LabSettings, make_engine: Callable[[Connection], None]) -> None:
        """Make what is missing of the lab's tables, and change its settings; queued jobs get its version."""
        self._require_server()
        with self._database.writing() as connection:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MAKE_LOCK})"))
            make_engine(connection)
            tables.metadata.create_all(connection)
            connection.execute(text(_NEW_COLUMNS))
            queued = update(tables.jobs).where(tables.jobs.c.status == "queued")
            connection.execute(queued.values(version=settings.version))
            connection.execute(delete(tables.settings))
            values = {"version": settings.version, "most_file": str(settings.most_file)}
            connection.execute(insert(tables.settings), [{"name": k, "value": v} for k, v in values.items()])

    @property
    def exists(self) -> bool:
        """Whether the store has a lab."""
        if self._database.engine.dialect.name != "postgresql":
            return False
        with self._database.reading() as connection:
            return connection.scalar(text("SELECT to_regclass('lab_settings')")) is not None

    def settings(self) -> LabSettings:
        """What holds for the lab. Raises `Unavailable` where the store has none."""
        self._require_server()
        if not self.exists:
            raise Unavailable(f"there is no lab in {self.name}", advice="'edgewise lab init' makes one")
        with self._database.reading() as connection:
            rows = connection.execute(select(tables.settings.c.name, tables.settings.c.value))
            found = {row.name: row.value for row in rows}
        return LabSettings(version=found["version"], most_file=int(found["most_file"]))

    def register(self, host: str, worker: str, *, version: str, boot: str, devices: Sequence[LabDevice]) -> list[str]:
        """Make a host and its devices part of the lab; the devices that other hosts have, too.

        Args:
            worker: names the process.
            boot: tells machines apart: on the same one, a new process takes the place of the last.

        Raises `BadInput` where another machine has the name.
        """
        now = self._database.now
        row = {"worker": worker, "boot": boot, "version": version, "started": now, "seen": now, "draining": 0}
        with self._database.writing() as connection:
            known = connection.execute(
                select(tables.hosts).where(tables.hosts.c.name == host).with_for_update()
            ).first()
            at = connection.scalar(select(now)) or 0.0
            if known and known.boot != boot and at - known.seen < STALE_S:
                raise BadInput(
                    f"another machine is the host {host} of this lab", advice="give this one another name: ⟦host=NAME⟧"
                )
            connection.execute(delete(tables.hosts).where(tables.hosts.c.name == host))
            connection.execute(insert(tables.hosts).values(name=host, **row))
            connection.execute(delete(tables.devices).where(tables.devices.c.host == host))
            for one in devices:
                values = {"host": host, "name": one.name, "identity": one.identity, "processor": one.processor}
                connection.execute(insert(tables.devices).values(**values, answers=json.dumps(one.answers)))
            mine = tables.devices.c.identity.in_([one.identity for one in devices])
            shared = select(tables.devices).where(mine, tables.devices.c.host != host)
            return [f"{one.identity} is also {one.name} of {one.host}" for one in connection.execute(shared)]

    def beat(self, host: str, worker: str) -> bool | None:
        """Note that a host's process is alive; whether it is to drain, None where another process has its place."""
        mine = (tables.hosts.c.name == host) & (tables.hosts.c.worker == worker)
        query = update(tables.hosts).where(mine).values(seen=self._database.now).returning(tables.hosts.c.draining)
        with self._database.writing() as connection:
            found = connection.execute(query).scalar()
        return None if found is None else bool(found)

    def leave(self, host: str, worker: str) -> None:
        """Take a host out: its process ends."""
        mine = (tables.hosts.c.name == host) & (tables.hosts.c.worker == worker)
        with self._database.writing() as connection:
            connection.execute(update(tables.hosts).where(mine).values(seen=0.0))

    def drain(self, host: str) -> None:
        """Have a host finish what it does and end. Raises `BadInput` for an unknown one."""
        query = update(tables.hosts).where(tables.hosts.c.name == host).values(draining=1)
        with self._database.writing() as connection:
            if not connection.execute(query).rowcount:
                known = ", ".join(connection.scalars(select(tables.hosts.c.name).order_by(tables.hosts.c.name)))
                raise BadInput(f"the lab has no host {host}", advice=f"its hosts: {known or 'none'}")

    def clear(self, name: str, *, forget: bool) -> list[str]:
        """Let a suspect device work again; what it is called at its hosts.

        Args:
            name: the device's, ``HOST/NAME``, or its identity.
            forget: all that was learnt about it, too.

        Raises `BadInput` for an unknown one.
        """
        every = self.devices()
        found = [one for one in every if name in (one.name, f"{one.host}/{one.name}", one.identity)]
        if not found:
            known = ", ".join(f"{one.host}/{one.name}" for one in every)
            raise BadInput(f"the lab has no device {name}", advice=f"its devices: {known or 'none'}")
        self.gauges.clear({one.identity for one in found}, forget=forget)
        return [f"{one.name} of {one.host}" for one in found]

    def devices(self) -> list[LabDevice]:
        """All devices that hosts registered."""
        query = select(tables.devices).order_by(tables.devices.c.host, tables.devices.c.name)
        with self._database.reading() as connection:
            return [
                LabDevice(
                    host=one.host, name=one.name, identity=one.identity, processor=one.processor,
                    answers=tuple(json.loads(one.answers)),
                )
                for one in connection.execute(query)
            ]  # fmt: skip

    def status(self) -> dict[str, Any]:
        """Devices with what they do, numbers of jobs, and the jobs that ended within an hour; JSON-shaped.

        A suite counts the cells that it queued last; the suite that queued last comes first. A job counts as running
        until its block of jobs has ended.
        """
        jobs, hosts, devices = tables.jobs.c, tables.hosts.c, tables.devices
        now = self._database.now
        mine = (jobs.host == devices.c.host) & (jobs.place == devices.c.name) & (jobs.status == "running")
        of_host = (hosts.seen, hosts.draining, hosts.version, hosts.worker)
        of_job = (jobs.id.label("job"), jobs.title, jobs.model, jobs.started)
        rows = (
            select(devices, *of_host, *of_job)
            .join(tables.hosts, hosts.name == devices.c.host)
            .outerjoin(tables.jobs, mine)
            .order_by(devices.c.host, devices.c.name)
        )
        newest = func.max(jobs.created)
        status = case((jobs.block.is_not(None), "running"), else_=jobs.status).label("state")
        counted = select(jobs.device, jobs.suite, status, func.count(), newest)
        counted = counted.group_by(jobs.device, jobs.suite, "state").order_by(newest.desc())
        verdicts = self.gauges.verdicts()
        with self._database.reading() as connection:
            at = connection.scalar(select(now)) or 0.0
            found = [
                {
                    "host": row.host, "device": row.name, "identity": row.identity,
                    "answers": json.loads(row.answers), "version": row.version,
                    "state": "gone" if at - row.seen > STALE_S else "suspect" if judged[0] == "suspect"
                    else "draining" if row.draining else "ready",
                    "verdict": judged[0], "why": judged[1],
                    "worker": row.worker, "seen_s": at - row.seen if row.seen else None,
                    "job": row.job, "title": row.title, "model": row.model, "since": row.started,
                    "busy_s": None if row.started is None else at - row.started,
                }
                for row in connection.execute(rows)
                for judged in [verdicts.get(row.identity, ("not judged", "no job has run on it"))]
            ]  # fmt: skip
            counts: dict[str, dict[str, int]] = {}
            suites: dict[str, dict[str, int]] = {}
            for device, suite, status, number, _ in connection.execute(counted):
                for named, name in ((counts, device), (suites, suite)):
                    of_name = named.setdefault(name, {})
                    of_name[status] = of_name.get(status, 0) + number
            suites.pop("", None)  # what no suite queued
            recent = select(func.count()).select_from(tables.jobs).where(jobs.finished > at - 3600.0)
            ended = connection.scalar(recent)
        return {
            "devices": found, "jobs": dict(sorted(counts.items())), "suites": suites,
            "schedules": [asdict(one) for one in self.schedules.all()], "ended_within_an_hour": ended,
        }  # fmt: skip

    def _require_server(self) -> None:
        if self._database.engine.dialect.name != "postgresql":
            raise Unavailable(
                f"{self.name} can't hold a lab",
                advice="a lab needs PostgreSQL: ⟦store=postgresql://USER@HOST/DATABASE⟧",
            )
