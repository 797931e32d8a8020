"""Has the hosts of a lab carry out the cells of a suite, and collects how they ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput, EdgewiseError, StoreError
from edgewise.progress import StageStarted, emit
from edgewise.store import open_store
from edgewise.store.jobs import ENDED
from edgewise.verbs.lab.client import Queue, open_queue, outcome_of_job
from edgewise.verbs.lab.engine import next_time
from edgewise.verbs.lab.safety import makes_files
from edgewise.verbs.outcome import outcome_by
from edgewise.verbs.sweep.cells import Cell
from edgewise.verbs.sweep.result import SweepResult

if TYPE_CHECKING:
    from edgewise.store.lab import Lab
    from edgewise.store.lab_jobs import LabJob
    from edgewise.verbs.context import Context
    from edgewise.verbs.sweep.cells import Model
    from edgewise.verbs.sweep.request import SweepRequest
    from edgewise.verbs.sweep.work import Plan

MOST_SHOWN = 1000
"""Cells of a suite that are shown together."""


def carry_out_in_lab(plan: Plan, request: SweepRequest, context: Context) -> tuple[list[int], bool]:
    """Collect the cells that have ended since the last look, and queue the others.

    Returns:
        The positions of the cells that are not finished, and whether the wait for them was interrupted.

    Raises:
        BadInput: a cell that no worker of the lab can carry out.
        Unavailable: there is no lab, or one of another version.
        StoreError: the database, or the ledger, can't be written.
    """
    verbs = {cell.device: plan.requests.check(cell).verb for cell in plan.cells}
    with open_store(context.store if isinstance(context.store, str) else None) as store, plan.ledger.held():
        queue = open_queue(store.lab)
        for device, verb in verbs.items():
            if makes_files(verb):
                raise BadInput("a sweep in a lab has no place for variants", advice=f"edgewise {verb} MODEL ⟦lab⟧")
            queue.check(verb, device)
        schedule = _schedule(plan)
        if plan.collected:
            plan.ledger.write(plan.collected)
        left = {plan.keys[at]: at for at in plan.waiting if plan.keys[at]}
        for at in plan.waiting:
            if at in plan.unread:
                outcome = outcome_by(plan.unread[at], plan.name_of(at), plan.cells[at].name)
                plan.ledger.write([replace(outcome, status="failed")])
        if not request.again:
            known = {key: at for at, key in enumerate(plan.keys) if key} if schedule else dict(left)
            _collect(plan, known, queue.jobs.find(known, ended=True), if_newer=True)
            left = {key: at for key, at in left.items() if key in known}
        jobs = _queue(plan, left, queue)
        if not request.only:
            rest = {key: at for at, key in enumerate(plan.keys) if key and key not in jobs} if schedule else {}
            every = [*jobs.values(), *_jobs(plan, rest, queue).values()]
            store.lab.schedules.put(plan.requests.file.path.stem, schedule, every, next_time)
        interrupted = False
        if request.wait:
            try:
                _wait(plan, left, queue)
            except KeyboardInterrupt:
                interrupted = True
    return list(left.values()), interrupted


def result_of_suite(lab: Lab, suite: str) -> SweepResult:
    """How the cells are that a suite queued last, as far as the lab has them."""
    jobs = sorted(lab.jobs.of_suite(suite, most=MOST_SHOWN), key=lambda job: job.title)
    return SweepResult(
        suite=suite,
        verb=jobs[0].verb if jobs else "",
        folder="",
        cells=[Cell(model=job.model, device=job.device, number=at) for at, job in enumerate(jobs)],
        outcomes=[outcome_of_job(job) if job.status in ENDED else None for job in jobs],
        in_lab=True,
    )


def _schedule(plan: Plan) -> Mapping[str, str]:
    """When the suite is queued again. Raises `BadInput`, which names the line."""
    file = plan.requests.file
    for name, cron in file.suite.schedule.items():
        try:
            next_time(cron, time.time())
        except BadInput as error:
            raise file.error(("schedule", name), *error.marked) from None
    return file.suite.schedule


def _queue(plan: Plan, left: dict[str, int], queue: Queue) -> dict[str, dict[str, Any]]:
    """Queue the cells that are left, by their keys; those whose requests can't be made have failed."""
    if not left:
        return {}
    emit(StageStarted(title=f"Queueing {len(left)} of {len(plan.cells)} cells"))
    jobs = _jobs(plan, left, queue)
    queue.add(list(jobs.values()))
    return jobs


def _jobs(plan: Plan, left: dict[str, int], queue: Queue) -> dict[str, dict[str, Any]]:
    """Return the jobs of cells, by their keys. Those whose requests can't be made have failed, and are not left."""
    jobs = {}
    models: dict[str, Model] = {}
    for key, at in list(left.items()):
        cell = plan.cells[at]
        try:
            suite = plan.requests.file.path.stem
            job = queue.job(key, cell.name, cell.device, plan.request(at), suite=suite, model=cell.model)
            if cell.model not in models:  # after its file was read
                models[cell.model] = plan.requests.model(cell.model)
            plan.require_unchanged(at, models[cell.model])
        except StoreError:
            raise
        except EdgewiseError as error:
            plan.ledger.write([outcome_by(error, key, cell.name)])
            del left[key]
            continue
        jobs[key] = job
    return jobs


def _wait(plan: Plan, left: dict[str, int], queue: Queue) -> None:
    """Collect cells until none is left. Raises `Cancelled`."""
    count, failed, told = len(left), 0, ""
    for found in queue.wait(left):
        failed += _collect(plan, left, found)
        words = [f"{count - len(left)} of {count} cells have ended", *([f"{failed} failed"] if failed else [])]
        if "; ".join(words) != told:
            told = "; ".join(words)
            emit(StageStarted(title=told))


def _collect(plan: Plan, left: dict[str, int], jobs: Mapping[str, LabJob], *, if_newer: bool = False) -> int:
    """Note the cells that have ended; the number of those without a result.

    Args:
        if_newer: leave out those that the ledger has a later outcome of.
    """
    found = []
    for key, job in jobs.items():
        outcome, known = outcome_of_job(job), plan.ledger.outcomes.get(key)
        if known is None or known.finished < outcome.finished or not if_newer:
            found.append(replace(outcome, key=key, cell=plan.cells[left[key]].name))
            del left[key]
    if found:
        plan.ledger.write(found)
    return sum(one.status != "done" for one in found)
