"""Procrastinate, the engine that delivers a lab's jobs: queues, locks of devices, heartbeats, periodic tasks.

It delivers a job at least once. `edgewise.store.lab` decides whether a delivery starts it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, text

from edgewise.errors import BadInput, Unavailable
from edgewise.record import SCHEMA as RUNS
from edgewise.store import lab as store_lab
from edgewise.verbs.lab.safety import verbs_in_labs
from edgewise.verbs.outcome import Outcome
from edgewise.verbs.request import SCHEMA as REQUESTS
from edgewise.verbs.verb import VERBS
from edgewise.version import __version__

if TYPE_CHECKING:
    from procrastinate import App

    from edgewise.store.lab import Lab, LabSettings
    from edgewise.store.lab_jobs import LabJob
    from edgewise.store.lab_schedules import Schedule

DELIVER, SWEEP = "edgewise.lab.deliver", "edgewise.lab.sweep"
"""Names of the engine's tasks."""
HOUSE = "edgewise-lab"
"""The queue of the periodic task."""
ANY = "edgewise-lab-any"
"""The queue of jobs that need no device: any host carries them out on its processor."""
SWEEP_CRON = "* * * * * */10"
"""Every ten seconds; the last field is that of the seconds."""
HEARTBEAT_S = 10.0
"""How often the engine notes that a worker is alive; `edgewise.store.lab.STALE_S` is when it counts as gone."""
PROTOCOL = 1
"""One more where what hosts and clients tell each other changes its meaning, and no schema tells."""
_CRON_FIELDS = 5
RECONNECT_S = 10.0
"""How long the engine goes on with one attempt to connect, whose pauses double; then it begins a new one."""
_LONGEST_QUEUE = 40
"""PostgreSQL takes 63 bytes for the name of a channel, and the engine puts 23 before that of the queue."""


def queue_of(name: str) -> str:
    """Return the engine's queue of a device's name or of a tag."""
    queue = f"edgewise:{name}"
    if len(queue.encode()) > _LONGEST_QUEUE:
        return f"edgewise:{hashlib.sha256(name.encode()).hexdigest()[:24]}"
    return queue


def require_engine() -> None:
    """Raise `Unavailable` where the engine is not installed."""
    try:
        import procrastinate  # noqa: F401 - whether it is installed
        import psycopg  # noqa: F401 - whether it is installed
    except ImportError as error:
        raise Unavailable(f"a lab needs {error.name}", advice="pip install 'edgewise[lab]'") from error


@cache
def protocol() -> str:
    """Return what tells forms of requests and results apart: versions of edgewise with the same work together.

    Within a schema a field keeps its meaning, so that the schemas and the names of the fields are enough.
    """
    fields = {verb: sorted(VERBS.get(verb).request_type().model_fields) for verb in verbs_in_labs()}
    form = [PROTOCOL, REQUESTS, RUNS, fields, sorted(Outcome.__dataclass_fields__)]
    return hashlib.sha256(json.dumps(form).encode()).hexdigest()[:16]


def settings_of(lab: Lab) -> LabSettings:
    """Return what holds for a lab.

    Raises `Unavailable` where there is none, or where its requests and results have another form.
    """
    settings = lab.settings()
    if settings.protocol != protocol():
        raise Unavailable(
            f"this lab works with edgewise {settings.version}, and here is {__version__}, "
            "whose requests or results have another form",
            advice=f"use edgewise {settings.version} here; or move the lab to this version: edgewise lab init",
        )
    return settings


def next_time(cron: str, after: float) -> float:
    """When a schedule comes next, in UTC, s since 1970. Raises `BadInput` where it never does, or is none.

    Args:
        after: s since 1970.
    """
    from croniter import croniter
    from croniter.croniter import CroniterError

    try:
        if len(cron.split()) == _CRON_FIELDS:
            return float(croniter(cron, start_time=after, ret_type=float).get_next())
    except (CroniterError, ValueError):
        pass
    raise BadInput(
        f"{cron[:60]!r} is no schedule",
        advice='give minute, hour, day of the month, month and day of the week, in UTC: "0 3 * * *" is 3:00 each night',
    )


def queue_due_suites(lab: Lab) -> list[Schedule]:
    """Queue the suites whose time has come, by the database's clock, each once; what was queued."""
    return lab.schedules.queue_due(protocol(), next_time, ring)


def make_engine(connection: Connection) -> None:
    """Make the engine's tables where there are none."""
    from procrastinate.schema import SchemaManager

    if connection.scalar(text("SELECT to_regclass('procrastinate_jobs')")) is None:
        _driver(connection).execute(SchemaManager.get_schema())


def open_app(url: str, **pool: Any) -> App:
    """Return the engine's client; no connection is made yet.

    Args:
        pool: settings of its connections.
    """
    from procrastinate import App, PsycopgConnector

    return App(connector=PsycopgConnector(conninfo=url, reconnect_timeout=RECONNECT_S, **pool))


def ring(connection: Connection, jobs: Sequence[LabJob]) -> None:
    """Have the engine deliver `jobs`, in the transaction that queued them."""
    from procrastinate.jobs import Job

    if jobs:
        wanted = [
            Job(queue=one.queue, lock=one.lock, queueing_lock=None, task_name=DELIVER, task_kwargs={"job": one.id})
            for one in jobs
        ]
        manager = open_app("").job_manager  # the transaction's connection serves
        manager.batch_defer_jobs(wanted, connection=_driver(connection))


async def free_lost_jobs(app: App, lab: Lab) -> None:
    """Queue the jobs of workers that are gone again, then forget these workers; also jobs that the engine lost.

    The order matters: a job of a worker that is forgotten may no longer be found.
    """
    from procrastinate.exceptions import ConnectorException
    from procrastinate.jobs import Status

    manager = app.job_manager
    for one in await manager.get_stalled_jobs(seconds_since_heartbeat=store_lab.STALE_S):
        assert one.id is not None
        with suppress(ConnectorException):  # another host was faster
            if one.task_name == DELIVER:
                # Who may only queue can put a row without a job there.
                await asyncio.to_thread(lab.jobs.free, str(one.task_kwargs.get("job")), delivery=one.id)
                await manager.retry_job(one)
            else:  # a periodic task: the next one does its work
                await manager.finish_job_by_id_async(one.id, Status.FAILED, delete_job=True)
    await manager.prune_stalled_workers(store_lab.STALE_S)
    await asyncio.to_thread(lab.jobs.release_blocks, store_lab.STALE_S)
    for job_id, delivery in await asyncio.to_thread(lab.jobs.lost, store_lab.STALE_S):
        await asyncio.to_thread(lab.jobs.free, job_id, delivery=delivery)
        await asyncio.to_thread(lab.jobs.ring_again, job_id, ring)


def _driver(connection: Connection) -> Any:
    """Return the connection as the driver has it."""
    return connection.connection.driver_connection
