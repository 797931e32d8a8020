"""Has hosts of a lab run the samples of an evaluation, each shard as a job, and puts their results together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.clock import now
from edgewise.device.devices import LOCAL
from edgewise.errors import BadInput, RunFailed
from edgewise.evaluating.data_options import DataOptions, open_splits
from edgewise.evaluating.evaluation import EvaluationPlan
from edgewise.evaluating.evaluator import ModelUnderTest, SampleResults, identify
from edgewise.evaluating.formats.split import Split
from edgewise.evaluating.instructions import DATA_FOLDERS
from edgewise.evaluating.shards import join_results, read_results, select_shard
from edgewise.folders import absolute_path
from edgewise.model.callable_loader import is_factory
from edgewise.progress import LogLine, emit
from edgewise.record import Failure
from edgewise.text import enumerate_few
from edgewise.verbs.evaluate.request import EvaluateRequest
from edgewise.verbs.lab.client import Queue, lab_of, outcome_of_job
from edgewise.version import __version__

if TYPE_CHECKING:
    from edgewise.store.lab import Lab
    from edgewise.store.lab_jobs import LabJob
    from edgewise.verbs.context import Context


def run_in_lab(
    request: EvaluateRequest, plan: EvaluationPlan, context: Context, tested: Sequence[ModelUnderTest]
) -> list[SampleResults]:
    """Return the results of all samples, per model. Shards that were run before are not run again.

    Raises:
        BadInput: no host answers, or one has another version of the engine or of edgewise.
        RunFailed: shards that failed as a whole; a model that failed in one has a failure among its results.
        Cancelled: what has ended is kept in the lab.
    """
    begin, samples = now(), plan.selection.indices
    with lab_of(context) as (store, queue):
        hosts = f"{LOCAL}:{request.device}"  # with this tag, but none of their boards
        asked = request.model_copy(update={"device": hosts}) if hosts in queue.devices else request
        devices = queue.answering(asked.device)
        if boards := [one.name for one in devices if not one.is_host]:
            raise BadInput(
                f"{boards[0]} is a device at a host, and shards are run by hosts themselves",
                advice="name a host or a tag of hosts: edgewise lab status",
            )
        _check_versions(store.lab, {one.host for one in devices})
        count = min(len(samples), request.shards if isinstance(request.shards, int) else len(devices))
        keys, jobs = _jobs(asked, plan.data, queue, tested, count)
        done = {} if request.fresh else queue.jobs.find(keys, ended=True)
        ended: dict[str, LabJob] = {key: job for key, job in done.items() if job.status == "done" and _is_whole(job)}
        if ended:
            emit(LogLine(text=f"{len(ended)} of {count} shards were run before"))
        left = [job for job in jobs if job["id"] not in ended]
        ended |= {job.id: job for job in queue.carry_out(left)}
        processors = {one.host: one.processor for each in queue.devices.values() for one in each if one.processor}
    outcomes = [outcome_of_job(ended[key]) for key in keys]
    # A model that failed alone is a row of its shard.
    lost = [(at, one) for at, one in enumerate(outcomes, 1) if len(one.rows) != len(tested)]
    failed = {f"shard {at} ({one.cause})": one.advice for at, one in lost}
    if failed:
        raise RunFailed(
            f"{len(failed)} of {count} shards failed: {enumerate_few(list(failed))}",
            advice=next(filter(None, failed.values()), "") or "the same command tries them again",
        )

    def read(at: int, number: int) -> SampleResults:
        row, host = outcomes[number].rows[at], ended[keys[number]].host
        if why := row.get("failure"):
            message = f"shard {number + 1} of {count} at {host}: {why['message']}"
            return SampleResults(entries=(), failure=Failure(cause=why["cause"], message=message))
        return read_results(row["samples"], tested[at], select_shard(samples, number + 1, count), host)

    parts = [[read(at, number) for number in range(count)] for at in range(len(tested))]
    return [join_results(part, seconds=now() - begin, processors=processors) for part in parts]


def _check_versions(lab: Lab, hosts: Collection[str]) -> None:
    """Raise `BadInput` where one of `hosts` has another edgewise, which may prepare samples in another way."""
    for one in lab.status()["devices"]:
        if one["host"] in hosts and one["state"] != "gone" and one["version"] != __version__:
            raise BadInput(
                f"{one['host']} has edgewise {one['version']}, and here is {__version__}: shards need the same",
                advice="install one version on all of them, or name hosts that have this one with ⟦device⟧",
            )


def _is_whole(job: LabJob) -> bool:
    """Whether no model failed in a shard that has ended: one in which any did is run again."""
    return not any(row.get("failure") for row in outcome_of_job(job).rows)


def _jobs(
    request: EvaluateRequest, data: DataOptions, queue: Queue, tested: Sequence[ModelUnderTest], count: int
) -> tuple[list[str], list[dict[str, object]]]:
    """Return the keys of the jobs, which are the same for the same samples, models, settings and engines; and the
    jobs.
    """
    unused = {"lab": False, "fresh": False, "latency": False}
    asked = request.model_copy(update=unused).with_paths_from(Path.cwd())
    named = DATA_FOLDERS & asked.data_options.keys()  # they go as a whole
    if not named and not is_factory(asked.data) and not Path(asked.data).is_dir():
        splits = [split.find_files() for split in open_splits(data).values() if isinstance(split, Split)]
        queue.packer.pack(asked.data, (absolute_path(folder / name) for folder, names in splits for name in names))
    models = enumerate_few([Path(model).name for model in request.models])
    engines = json.dumps([identify(one) for one in tested], sort_keys=True, default=str)
    jobs = []
    for number in range(1, count + 1):
        shard = asked.model_copy(update={"shards": (number, count)})
        job = queue.job("", f"evaluate {models}, shard {number} of {count}", request.device, shard)
        key = hashlib.sha256(f"{__version__} {job['request']} {engines}".encode()).hexdigest()[:16]
        jobs.append({**job, "id": key, "lock": None})
    return [job["id"] for job in jobs], jobs
