"""A lab: hosts with devices, and the jobs for them, in the database of a team's store."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, case, delete, func, insert, select, text, update

from edgewise.errors import BadInput, Unavailable
from edgewise.store import lab_tables as tables
from edgewise.store.connection import Database
from edgewise.store.lab_files import LabFiles
from edgewise.store.lab_gauges import LabGauges
from edgewise.store.lab_jobs import LabJobs
from edgewise.store.lab_schedules import LabSchedules
from edgewise.store.leases import Leases

STALE_S = 30.0
"""A host that has not been seen for so long counts as gone."""
_NEW_COLUMNS = """
ALTER TABLE lab_jobs
ADD COLUMN IF NOT EXISTS suite TEXT NOT NULL DEFAULT '', ADD COLUMN IF NOT EXISTS model TEXT NOT NULL DEFAULT '',
ADD COLUMN IF NOT EXISTS block VARCHAR(64), ADD COLUMN IF NOT EXISTS repeated INTEGER NOT NULL DEFAULT 0
"""  # which labs of an earlier version lack
_OLD_CELLS = """
INSERT INTO lab_cells SELECT suite, id, title, model FROM lab_jobs WHERE suite <> '' ON CONFLICT DO NOTHING
"""  # which these have in the jobs alone
_MAKE_LOCK = 0x6C616273  # any number that all edgewise processes share: PostgreSQL's advisory lock


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

    @property
    def is_host(self) -> bool:
        """Whether it is the host itself."""
        return self.processor is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSettings:
    """What holds for the whole lab.

    Attributes:
        version: of the edgewise that made it, or that it was moved to last.
        protocol: of its requests and results (`edgewise.verbs.lab.engine.protocol`).
        most_file: bytes of the largest file that it takes.
        files: URL of the folder of its files; "" is the database.
    """

    version: str
    most_file: int
    files: str = ""
    protocol: str = ""


class Lab:
    """A lab in a store. Methods raise `StoreError` where the database fails."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.name = database.name
        self.jobs = LabJobs(database)
        self.files = LabFiles(database)
        self.gauges = LabGauges(database)
        self.leases = Leases(database)
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
        """Make what is missing of the lab's tables, and change its settings; queued jobs get its protocol."""
        self._require_server()
        with self._database.writing() as connection:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MAKE_LOCK})"))
            make_engine(connection)
            tables.metadata.create_all(connection)
            connection.execute(text(_NEW_COLUMNS))
            connection.execute(text(_OLD_CELLS))
            queued = update(tables.jobs).where(tables.jobs.c.status == "queued")
            connection.execute(queued.values(version=settings.protocol))
            connection.execute(delete(tables.settings))
            values = [{"name": name, "value": str(value)} for name, value in asdict(settings).items()]
            connection.execute(insert(tables.settings), values)

    @property
    def exists(self) -> bool:
        """Whether the store has a lab."""
        if self._database.engine.dialect.name != "postgresql":
            return False
        with self._database.reading() as connection:
            return connection.scalar(text("SELECT to_regclass('lab_settings')")) is not None

    def settings(self) -> LabSettings:
        """Return what holds for the lab. Raises `Unavailable` where the store has none."""
        self._require_server()
        if not self.exists:
            raise Unavailable(f"there is no lab in {self.name}", advice="'edgewise lab init' makes one")
        with self._database.reading() as connection:
            rows = connection.execute(select(tables.settings.c.name, tables.settings.c.value))
            found = {row.name: row.value for row in rows}
        return LabSettings(
            version=found["version"], most_file=int(found["most_file"]),
            files=found.get("files", ""), protocol=found.get("protocol", ""),  # which one of an earlier version lacks
        )  # fmt: skip

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

        A suite counts the cells that it has queued; the suite whose cells were queued last comes first. A job counts as
        running until its block of jobs has ended.
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
        by_device = select(jobs.device.label("name"), status, func.count(), newest).group_by("name", "state")
        cells = tables.cells
        by_suite = select(cells.c.suite.label("name"), status, func.count(), newest).group_by("name", "state")
        by_suite = by_suite.join_from(cells, tables.jobs, cells.c.job == jobs.id)
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
            for named, counted in ((counts, by_device), (suites, by_suite)):
                for name, state, number, _ in connection.execute(counted.order_by(newest.desc())):
                    named.setdefault(name, {})[state] = number
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
