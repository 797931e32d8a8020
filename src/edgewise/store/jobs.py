"""Jobs: rows in a store. One process at a time carries a job out, and each start has a higher fence.

A process that lost its job can't finish it: its fence is old. All times are the database's. `Jobs` are those of the
studio; `edgewise.store.lab.LabJobs` are those of a lab.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, delete, exists, insert, select, tuple_, update

from edgewise.errors import BadInput
from edgewise.record import new_run_id
from edgewise.store import tables
from edgewise.store.connection import Database
from edgewise.text import one_line

Status = Literal["queued", "running", "done", "failed", "cancelled", "lost"]
End = Literal["done", "failed", "cancelled", "lost"]
ENDED: tuple[End, ...] = get_args(End)

_JOBS = tables.jobs
NO_END: dict[str, Any] = {
    "started": None, "finished": None, "cancelling": 0, "message": "", "advice": "", "exit_code": None, "runs": "[]",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job.

    Attributes:
        queue: the studio that carries it out: a job's files lie in one place only. Of a lab, what it answers to.
        device: what it keeps busy; the jobs of a queue take turns on a device.
        created, started, finished: s since 1970; None as long as there is none.
        request: what to do, as the text of a JSON document (`edgewise.verbs.request`).
        attempt: number of starts.
        fence: grows with each claim, so that only the latest holder can finish the job.
        holder: the process that claimed it last.
        cancelling: whether a running job is to stop.
        message, advice: why it did not end as requested, and what to do; empty otherwise.
        exit_code: of the command that does the same; None where it did not get that far.
        runs: ids of the runs that it saved.
    """

    id: str
    queue: str
    device: str
    created: float
    started: float | None
    finished: float | None
    verb: str
    title: str
    request: str
    status: Status
    attempt: int
    fence: int
    holder: str
    cancelling: bool
    message: str
    advice: str
    exit_code: int | None
    runs: tuple[str, ...]


R = TypeVar("R", bound=JobRow)


class FencedJobs(Generic[R]):
    """What the jobs of the studio and of a lab share: the change of a status decides who carries a job out.

    Every method raises `StoreError` where the database fails.
    """

    table: ClassVar[Table]
    row: ClassVar[type[JobRow]]

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, job_id: str) -> R:
        """Return the job with this id. Raises `BadInput` where there is none."""
        found = self._select(self._is(job_id), limit=1)
        if not found:
            raise _unknown()
        return found[0]

    def finish(
        self,
        job: R,
        status: End,
        *,
        message: str = "",
        advice: str = "",
        exit_code: int | None = None,
        runs: Sequence[str] = (),
    ) -> bool:
        """End a claimed job; False where it was ended or claimed again since `job` was."""
        changes = {
            "status": status, "finished": self._database.now, "message": one_line(message),
            "advice": one_line(advice), "exit_code": exit_code, "runs": json.dumps(list(runs)),
        }  # fmt: skip
        return bool(self._update(self._held(job), ("running",), changes))

    def cancel(self, job_id: str) -> Status:
        """Cancel a queued job, or have its holder stop a running one; the status that it has then.

        Raises `BadInput` where it is cancelled already, or has ended.
        """
        if self._update(self._is(job_id), ("queued",), {"status": "cancelled", "finished": self._database.now}):
            return "cancelled"
        if self._update(and_(self._is(job_id), self.table.c.cancelling == 0), ("running",), {"cancelling": 1}):
            return "running"
        job = self.get(job_id)
        state = "is being cancelled already" if job.status == "running" else f"is {job.status} already"
        raise BadInput(f"this job {state}", advice="reload its page to see how it is now")

    def _begun(self, holder: str) -> dict[str, Any]:
        """Return what changes of a job with its start: one more attempt, with a higher fence."""
        return NO_END | {
            "status": "running", "fence": self.table.c.fence + 1, "attempt": self.table.c.attempt + 1,
            "holder": one_line(holder), "started": self._database.now,
        }  # fmt: skip

    def _held(self, job: R) -> ColumnElement[bool]:
        """Return the condition that `job` is still the latest start of its row."""
        return and_(self.table.c.id == job.id, self.table.c.fence == job.fence)

    def _update(
        self,
        where: ColumnElement[bool],
        status: Sequence[Status],
        changes: Mapping[str, Any],
        connection: Connection | None = None,
    ) -> str | None:
        """Change the one job that has one of `status`; its id, None where there is none such.

        Args:
            connection: in a transaction that writes; None makes one.
        """
        # PostgreSQL checks the status again after it has waited for another change of the job.
        jobs = self.table
        query = update(jobs).where(where, jobs.c.status.in_(status)).values(changes).returning(jobs.c.id)
        if connection is not None:
            return connection.execute(query).scalar()
        with self._database.writing() as own:
            return own.execute(query).scalar()

    def _select(
        self, where: ColumnElement[bool], *, limit: int, newest_by: ColumnElement[Any] | None = None
    ) -> Sequence[R]:
        time = self.table.c.created if newest_by is None else newest_by
        newest = (time.desc(), self.table.c.id.desc())
        with self._database.reading() as connection:
            found = connection.execute(select(self.table).where(where).order_by(*newest).limit(limit))
            return [self._row(each) for each in found]

    def _is(self, job_id: str) -> ColumnElement[bool]:
        """Return the condition that it is this job. Raises `BadInput` for what no id can be."""
        if not job_id.isprintable():
            raise _unknown()
        return self.table.c.id == job_id

    def _row(self, row: Row[Any]) -> R:
        values = {field.name: row._mapping[field.name] for field in fields(self.row)}
        return self.row(**{**values, "cancelling": bool(row.cancelling), "runs": tuple(json.loads(row.runs))})  # type: ignore[return-value]  # each class names its kind of row


class Jobs(FencedJobs[JobRow]):
    """The studio's jobs in one store."""

    table = tables.jobs
    row = JobRow

    def add(self, request: Mapping[str, Any], *, title: str, queue: str, device: str) -> str:
        """Queue a job; its id.

        Args:
            request: the document of a request, with its ``verb``.
            title: one line for lists.
        """
        job = {
            "id": new_run_id(), "queue": queue, "device": one_line(device), "created": self._database.now,
            "verb": request["verb"], "title": one_line(title), "request": json.dumps(request), "status": "queued",
            "attempt": 0, "fence": 0, "holder": "", **NO_END,
        }  # fmt: skip
        with self._database.writing() as connection:
            connection.execute(insert(_JOBS).values(job))
        return str(job["id"])

    def list(
        self,
        *,
        status: Sequence[Status] = (),
        verbs: Sequence[str] = (),
        before: str | None = None,
        limit: int = 50,
    ) -> Sequence[JobRow]:
        """Return the jobs of a page, newest first.

        Args:
            status, verbs: only those with one of these; empty takes all.
            before: only those that come after this job in the list: the next page.
            limit: the most of them.

        Raises `BadInput` for an unknown `before`.
        """
        wanted: ColumnElement[bool] = _JOBS.c.status.in_(status) if status else _JOBS.c.id.is_not(None)
        wanted = and_(wanted, _JOBS.c.verb.in_(verbs)) if verbs else wanted
        if before is not None:
            last = self.get(before)
            wanted = and_(wanted, tuple_(_JOBS.c.created, _JOBS.c.id) < (last.created, last.id))
        return self._select(wanted, limit=limit)

    def running(self, queue: str) -> Sequence[JobRow]:
        """Return the running jobs of a queue."""
        return self._select(and_(_JOBS.c.status == "running", _JOBS.c.queue == queue), limit=1000)

    def claim(self, queue: str, holder: str) -> JobRow | None:
        """Start the oldest queued job of a queue whose device is free; None where there is none."""
        waiting, other = _JOBS.alias(), _JOBS.alias()
        busy = exists().where(other.c.status == "running", other.c.queue == queue, other.c.device == waiting.c.device)
        oldest = (
            select(waiting.c.id)
            .where(waiting.c.status == "queued", waiting.c.queue == queue, ~busy)
            .order_by(waiting.c.created, waiting.c.id)
            .limit(1)
        )
        found = self._update(_JOBS.c.id == oldest.scalar_subquery(), ("queued",), self._begun(holder))
        return self.get(found) if found else None

    def again(self, job_id: str) -> str:
        """Queue a failed, cancelled or lost job again, or a copy of a job that is done; return the id.

        Raises `BadInput` where it is queued or running, for example because another tab was faster.
        """
        job = self.get(job_id)
        if job.status == "done":
            return self.add(json.loads(job.request), title=job.title, queue=job.queue, device=job.device)
        if not self._update(self._is(job_id), ("failed", "cancelled", "lost"), {"status": "queued", **NO_END}):
            raise BadInput(f"this job is {self.get(job_id).status} already", advice="reload its page")
        return job_id

    @contextmanager
    def removing(self, job_id: str) -> Iterator[None]:
        """Remove a job that has ended, once the body is done; it stays where the body raises.

        Raises `BadInput` where it is queued or running, or was removed already.
        """
        gone = delete(_JOBS).where(self._is(job_id), _JOBS.c.status.in_(ENDED)).returning(_JOBS.c.id)
        with self._database.writing() as connection:
            if connection.execute(gone).scalar() is not None:
                yield
                return
        raise BadInput(f"this job is {self.get(job_id).status}", advice="cancel it and wait for its end")


def _unknown() -> BadInput:
    return BadInput("there is no such job", advice="see the list of jobs")
