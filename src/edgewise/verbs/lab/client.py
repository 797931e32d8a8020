"""The queue of a lab, for those who put requests into it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.cancellation import sleep
from edgewise.errors import BadInput, StoreError
from edgewise.progress import LogLine, StageStarted, emit
from edgewise.store import open_store
from edgewise.text import one_line
from edgewise.verbs.lab.engine import ANY, protocol, queue_of, require_engine, ring, settings_of
from edgewise.verbs.lab.files import Packer
from edgewise.verbs.lab.safety import check_verb, measures
from edgewise.verbs.outcome import Outcome

if TYPE_CHECKING:
    from edgewise.store import Store
    from edgewise.store.lab import Lab, LabDevice
    from edgewise.store.lab_jobs import LabJob, LabJobs
    from edgewise.verbs.context import Context
    from edgewise.verbs.request import Request

ANY_HOST = "any host"
"""In place of a device: any host carries the job out on its processor."""
POLL_S = 1.0
"""How often the store is asked for jobs that have ended."""
EXPOSED = "the connection to the lab may not be encrypted: add sslmode=verify-full to the URL of the store"


@dataclass(frozen=True, kw_only=True)
class Queue:
    """Puts requests into a lab.

    Attributes:
        devices: name or tag → the devices that answer to it.
    """

    jobs: LabJobs
    packer: Packer
    devices: Mapping[str, Sequence[LabDevice]]

    def answering(self, device: str) -> Sequence[LabDevice]:
        """Return the devices that answer to a name or a tag. Raises `BadInput` where there is none."""
        if device not in self.devices:
            near = get_close_matches(device, self.devices, n=1)
            raise BadInput(
                f"no device of the lab answers to {device!r}",
                advice=(f"did you mean {near[0]}? " if near else "") + f"known: {', '.join(self.devices) or 'none'}",
            )
        return self.devices[device]

    def check(self, verb: str, device: str) -> None:
        """Raise `BadInput` where no worker of the lab carries out `verb` for `device`."""
        check_verb(verb)
        if measures(verb) and device != ANY_HOST:
            self.answering(device)
        elif not self.devices:
            raise BadInput("the lab has no host", advice="'edgewise lab work' makes a machine one")

    def job(
        self, key: str, title: str, device: str, request: Request, *, suite: str = "", model: str = "", folder: str = ""
    ) -> dict[str, Any]:
        """Return a job to queue; its files are in the lab then.

        Args:
            suite: the name of the suite that the cell is of.
            model: as the suite names it.
            folder: the name of what it makes, or the place in the lab of a folder that it goes on with.

        Raises:
            BadInput: no worker carries it out for `device`, or a file is too large.
            StoreError: the database fails.
        """
        self.check(request.verb, device)
        on_device = measures(request.verb) and device != ANY_HOST
        identities = {one.identity for one in self.answering(device)} if on_device else set()
        document = request.with_paths_from(Path.cwd()).with_changed_paths(self.packer.pack).to_document()
        document |= {"folder": folder} if folder else {}
        return {
            "id": key, "queue": queue_of(device) if on_device else ANY, "device": device, "verb": request.verb,
            "title": one_line(title), "request": json.dumps(document), "version": protocol(), "suite": suite,
            "model": one_line(model),
            "lock": identities.pop() if len(identities) == 1 else None,
        }  # fmt: skip

    def add(self, jobs: Sequence[Mapping[str, Any]]) -> int:
        """Queue jobs; how many are new or had ended."""
        return self.jobs.add(jobs, ring)

    def wait(self, keys: Iterable[str]) -> Iterator[Mapping[str, LabJob]]:
        """Yield jobs that have ended, at every look at the store, until all have. Raises `Cancelled`."""
        left, told = set(keys), ""
        while left:
            try:
                found = self.jobs.find(left, ended=True)
            except StoreError as error:
                if error.message != told:
                    told = error.message
                    emit(LogLine(text=f"{told}; trying again"))
                found = {}
            left -= found.keys()
            yield found
            if left:
                sleep(POLL_S)

    def carry_out(self, jobs: Sequence[Mapping[str, Any]]) -> Iterator[LabJob]:
        """Queue jobs, and yield each once it has ended. Those left are cancelled where this is. Raises `Cancelled`."""
        keys = [str(job["id"]) for job in jobs]
        try:
            self.add(jobs)
            if jobs:
                emit(StageStarted(title=f"{len(jobs)} job{'s' if len(jobs) > 1 else ''} queued in the lab"))
            for found in self.wait(keys):
                for job in found.values():
                    keys.remove(job.id)
                    emit(LogLine(text=f"{job.title}: {job.status} at {job.host or 'no host'}"))
                    yield job
        finally:
            with suppress(StoreError):  # who may only queue can't cancel
                if keys:
                    self.jobs.end_all(keys)


def outcome_of_job(job: LabJob) -> Outcome:
    """How a job that has ended did. Raises `BadInput` for an outcome that can't be read."""
    assert job.finished is not None
    if job.outcome is not None:
        try:
            # The time of the database, as those of several hosts may differ.
            return replace(Outcome(**json.loads(job.outcome)), finished=job.finished)
        except (ValueError, TypeError) as error:
            raise BadInput(
                f"the outcome of {job.title} can't be read", advice="measure it again; a sweep: ⟦again⟧"
            ) from error
    seconds = job.finished - job.started if job.started is not None else 0.0
    return Outcome(
        key=job.id, cell=job.title, status="failed", seconds=seconds, finished=job.finished,
        cause=job.message or job.status, advice=job.advice,
    )  # fmt: skip


@contextmanager
def lab_of(context: Context) -> Iterator[tuple[Store, Queue]]:
    """Yield the store of `context` and the queue of its lab. Raises `BadInput`, and as `open_queue`."""
    if not context.keep:
        raise BadInput("the runs of a lab are kept in its store", advice="give ⟦store=postgresql://USER@HOST/DATABASE⟧")
    own = context.store
    with open_store(own) if own is None or isinstance(own, str) else nullcontext(own) as store:
        yield store, open_queue(store.lab)


def open_queue(lab: Lab) -> Queue:
    """Return the queue of a lab. Raises `Unavailable` where there is none, or one whose requests have another form;
    `StoreError`.
    """
    require_engine()
    settings = settings_of(lab)
    if lab.is_exposed:
        emit(LogLine(text=EXPOSED))
    devices: dict[str, list[LabDevice]] = {}
    for device in lab.devices():
        for answer in device.answers:
            devices.setdefault(answer, []).append(device)
    return Queue(jobs=lab.jobs, packer=Packer(lab.files, most=settings.most_file), devices=devices)
