"""Carries out one job of a lab: its files are fetched, and a process of its own does the work."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from edgewise.cancellation import CancelToken, cancellable, sleep
from edgewise.child_process import ChildProcess, explain_end
from edgewise.clock import now
from edgewise.device.devices import LOCAL
from edgewise.errors import BadInput, EdgewiseError, StoreError
from edgewise.folders import job_folder
from edgewise.optimizing.variant_cache import keep_variants_alone
from edgewise.record import Run
from edgewise.store.codec import decode
from edgewise.store.lab import LabDevice
from edgewise.store.lab_jobs import LabJob
from edgewise.store.location import ENVIRONMENT_VARIABLE
from edgewise.verbs.lab.child import RUNS
from edgewise.verbs.lab.files import FILES, FileCache, Packer, is_lab_path, name_of_folder
from edgewise.verbs.lab.safety import check_request, makes_files, measures
from edgewise.verbs.outcome import PREFIX, Outcome, outcome_by, read_outcome
from edgewise.verbs.reading import read_request
from edgewise.verbs.request import Request

RETURN_S, RETRY_S = 120.0, 10.0
"""How long a device that broke off in the middle of a job may take to come back, and how often it is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a job ended, as JSON (`edgewise.verbs.outcome.Outcome`), and its runs."""

    outcome: Mapping[str, Any]
    runs: Sequence[Run] = ()

    @classmethod
    def failed(cls, job: LabJob, cause: str) -> Ended:
        """Return the end of a job for which nothing could be measured."""
        return cls(outcome=asdict(_failed(job, cause)))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunner:
    """Carries out jobs.

    Attributes:
        store: URL of the lab's database: earlier runs there tell how a machine varies.
        allow_code: the folder whose code and files jobs may name; None allows none.
        most_file: the most bytes of what a job gives back.
    """

    store: str
    cache: FileCache
    allow_code: Path | None = None
    most_file: int = 2 * 2**30

    def __call__(self, job: LabJob, device: LabDevice, token: CancelToken) -> Ended:
        """Carry `job` out on `device`, and return how it ended.

        Where the link to the device broke, it is carried out once more, as soon as the device is back from its reboot.

        Raises `Cancelled`, and `StoreError` where its files can't be fetched now.
        """
        begun = now()
        with self.cache.keeping() as place:
            try:
                request = read_request(_read_json(job.request))
                asked = str(getattr(request, "folder", None) or "")
                made, earlier = name_of_folder(asked), Path(place(asked)) if is_lab_path(asked) else None
                request = request.model_copy(update=_on_this_host(request, device))
                check_request(request, self.allow_code)
                here = request.with_changed_paths(lambda path: place(path) if is_lab_path(path) else path)
                document = here.to_document()
                if makes_files(request.verb):
                    document["folder"] = made if request.verb == "optimize" else f"{FILES}/{made}"
            except StoreError:
                raise
            except EdgewiseError as error:
                return self._ended(job, device, outcome_by(error, job.id, job.title), ())
            outcome, runs = self._run(job, document, earlier, token, begun)
            if outcome.status == "lost":
                end = now() + RETURN_S
                while not (found := self._run(job, document, earlier, token, begun))[0].rows and now() < end:
                    with cancellable(token):  # the device could not be used
                        sleep(RETRY_S)
                outcome, runs = found if found[0].rows else (outcome, runs)
        return self._ended(job, device, outcome, runs)

    def _ended(self, job: LabJob, device: LabDevice, outcome: Outcome, runs: Sequence[Run]) -> Ended:
        """Return the end of a job, whose rows have the device by the name that the job has for it."""
        here = LOCAL if job.device == LOCAL else device.host
        rows = [{**row, "device": here} if row.get("device") == LOCAL else row for row in outcome.rows]
        return Ended(outcome=asdict(replace(outcome, key=job.id, cell=job.title, rows=rows)), runs=runs)

    def _run(
        self, job: LabJob, document: Mapping[str, Any], earlier: Path | None, token: CancelToken, begun: float
    ) -> tuple[Outcome, Sequence[Run]]:
        """How the process of the job ended, and the runs that it kept.

        Args:
            earlier: the folder that an earlier job made, with which this one goes on.
        """
        environment = {**os.environ, ENVIRONMENT_VARIABLE: self.store}
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(job_folder())
                stack.enter_context(cancellable(token))
                made = folder / (document.get("folder") or "")
                if earlier is not None:
                    shutil.copytree(earlier, made)
                    keep_variants_alone(made)  # whoever queued the job sent them
                made.parent.mkdir(exist_ok=True)
                (folder / "request.json").write_text(json.dumps(document), encoding="utf-8")
                command = [sys.executable, "-P", "-m", "edgewise.verbs.lab.child", str(folder), job.id]
                with ChildProcess(command, environment=environment, folder=folder) as child:
                    while child.read(until=inf):
                        pass
            except OSError as error:
                return _failed(job, f"the job could not be started: {error.strerror}"), ()
            outcome = read_outcome(folder / f"{PREFIX}{job.id}.json")
            if outcome is None:
                _, failure = explain_end(child.returncode, child.tail)
                return _failed(job, f"the process of this job {failure or 'ended without a result'}", now() - begun), ()
            if made != folder and outcome.rows:
                try:
                    whole = folder / made.relative_to(folder).parts[0]
                    place = Packer(self.cache.files, most=self.most_file).pack(str(whole))
                    outcome = replace(outcome, rows=[{**outcome.rows[0], FILES: place}, *outcome.rows[1:]])
                except BadInput as error:
                    return outcome_by(error, job.id, job.title, seconds=now() - begun), ()
            runs = map(decode, (folder / RUNS).read_text(encoding="ascii").splitlines())
            return outcome, tuple({run.id: run for run in runs}.values())  # of a run's versions the last one


def _on_this_host(request: Request, device: LabDevice) -> Mapping[str, Any]:
    """Return fields of a queued request as they are where it is carried out: on `device`, or on its host alone."""
    making = getattr(request, "lab", False) == "make"
    fields: dict[str, Any] = {"folder": None} if makes_files(request.verb) else {}
    if "lab" in type(request).model_fields:
        fields["lab"] = "make" if making else False
    if measures(request.verb):  # another one names hardware that is not at hand
        fields["device"] = LOCAL if making else device.name
    return fields


def _read_json(text: str) -> Any:
    """Return what a text says; anybody who may queue wrote it. Raises `BadInput`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput("the request is not JSON", advice="queue it with edgewise") from error


def _failed(job: LabJob, cause: str, seconds: float = 0.0) -> Outcome:
    """Return the outcome of a job whose process failed."""
    return outcome_by(EdgewiseError(cause, advice="see the log of the worker"), job.id, job.title, seconds=seconds)
