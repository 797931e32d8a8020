"""Executes a plan: job after job, session after session, each run saved as soon as it is there."""

from __future__ import annotations

import os
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from edgewise.device.transport import Transport, transports
from edgewise.errors import StoreError
from edgewise.record import Caution, Job, Run, new_run_id
from edgewise.registry import Registry
from edgewise.run import peaks, profiled
from edgewise.run.agreement import Outputs, check_finite, compare_outputs
from edgewise.run.assemble import measurements_of, session_record
from edgewise.run.environment import fingerprint
from edgewise.run.folders import job_folder, sweep_folders
from edgewise.run.host import SessionRequest, SessionResult, run_session
from edgewise.run.meters.base import Meter, meters
from edgewise.run.plan import Plan, count_cores
from edgewise.run.trust import cautions_of, grade_of
from edgewise.runtime.base import LoadOptions, runtimes

JOB_BUDGET_S = 60.0
"""A job whose sessions take longer ends after its second, unless the user prescribed the protocol; the run says so."""


class Observer(Protocol):
    """Told what happens; progress bars and tests are observers."""

    def job_started(self, job: Job, *, index: int, total: int) -> None:
        """Job `index` of `total` begins."""

    def session_started(self, index: int, *, total: int) -> None:
        """A fresh worker of the current job begins."""

    def progressed(self, done: int, average_s: float) -> None:
        """So many inferences are done; the running average of the last ones."""

    def run_finished(self, run: Run) -> None:
        """The current job's run is there."""


class Silent:
    """An observer that does nothing."""

    def job_started(self, job: Job, *, index: int, total: int) -> None:
        """Nothing."""

    def session_started(self, index: int, *, total: int) -> None:
        """Nothing."""

    def progressed(self, done: int, average_s: float) -> None:
        """Nothing."""

    def run_finished(self, run: Run) -> None:
        """Nothing."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; what was finished is in `runs`."""

    def __init__(self, runs: Sequence[Run]) -> None:
        super().__init__("interrupted")
        self.runs = tuple(runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensors:
    """Meters that can be used here (where their classes are) and, per metric, why there is none."""

    locations: tuple[str, ...] = ()
    absences: Mapping[str, str]


def find_sensors(registry: Registry[Meter] | None = None) -> Sensors:
    """Ask every meter whether it can be used."""
    registry = registry or meters()
    usable: list[str] = []
    told: set[str] = set()
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, meter in registry:
        availability = meter.availability()
        if availability:
            usable.append(registry.location(name))
            told.update(meter.metrics)
        else:
            for metric in meter.metrics:
                reasons[metric].append(f"{name}: {availability.reason}")
    absences = {metric: "; ".join(texts) for metric, texts in reasons.items() if metric not in told}
    return Sensors(locations=tuple(usable), absences=absences)


class Dispatcher:
    """Executes jobs one after the other; two at once would disturb each other.

    Attributes:
        save_errors: why runs could not be saved, in order; measuring goes on.

    Args:
        save: keeps a run; called once a job is done and again when its outputs were compared.
        observer: told what happens.
        find_peaks: tells what the machine can do, for the roofline of profiles; None measures it.
        sensors: None asks the meters; ``Sensors(absences=…)`` without locations measures without them.
    """

    def __init__(
        self,
        *,
        save: Callable[[Run], None],
        observer: Observer | None = None,
        sensors: Sensors | None = None,
        find_peaks: profiled.FindPeaks | None = None,
    ) -> None:
        self.save_errors: list[StoreError] = []
        self._save_run = save
        self._observer: Observer = observer or Silent()
        self._sensors = sensors or find_sensors()
        self._find_peaks = find_peaks or peaks.find_peaks
        self._runtimes = runtimes()
        self._environment = fingerprint()
        self._group = new_run_id()
        sweep_folders()

    def execute(self, plan: Plan) -> list[Run]:
        """One run per job, in order. Raises `Interrupted` with what was finished."""
        runs: list[Run] = []
        outputs: dict[str, Outputs] = {}
        try:
            for index, job in enumerate(plan.jobs):
                self._observer.job_started(job, index=index, total=len(plan.jobs))
                with job_folder() as folder:
                    run, sessions, interrupted = self._run_job(job, folder)
                    if found := _outputs_of(run, sessions):
                        outputs[run.id] = found
                        run = _with_cautions(run, check_finite(found))
                runs.append(run)
                self._save(run)
                self._observer.run_finished(run)
                if interrupted:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise Interrupted(self._with_agreement(runs, outputs)) from None
        return self._with_agreement(runs, outputs)

    def _run_job(self, job: Job, folder: Path) -> tuple[Run, list[SessionResult], bool]:
        """All sessions of one job, and whether Ctrl-C cut them short."""
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        transport = transports().get(job.target.transport)
        sessions: list[SessionResult] = []
        interrupted, cut_short, begin = False, False, time.monotonic()
        for index in range(job.workload.stopping.sessions):
            self._observer.session_started(index, total=job.workload.stopping.sessions)
            try:
                sessions.append(self._run_session(job, index=index, folder=folder, transport=transport))
            except KeyboardInterrupt:
                interrupted = True
                break
            if sessions[-1].failure is not None:
                break
            if _adaptive(job) and index >= 1 and time.monotonic() - begin > JOB_BUDGET_S:
                cut_short = index + 1 < job.workload.stopping.sessions
                break
        run = self._assemble(job, sessions, created=created)
        if job.workload.profile and run.status == "done" and not interrupted:
            run, interrupted = self._with_layers(run, folder=folder, transport=transport)
        if interrupted:
            run = replace(run, status="cancelled")
        if cut_short:
            message = f"{len(sessions)} of {job.workload.stopping.sessions} sessions fitted into {JOB_BUDGET_S:g} s"
            run = _with_cautions(run, (Caution.of("fewer-sessions", message),))
        return run, sessions, interrupted

    def _with_layers(self, run: Run, *, folder: Path, transport: Transport) -> tuple[Run, bool]:
        """The run with its layers, timed in processes of their own, and whether Ctrl-C cut them short."""
        sessions: list[SessionResult] = []
        try:
            for index in range(profiled.SESSIONS):
                self._observer.session_started(index, total=profiled.SESSIONS)
                sessions.append(
                    self._run_session(run.job, index=index, folder=folder, transport=transport, layers=True)
                )
                if sessions[-1].failure is not None:
                    break
            return profiled.with_layers(run, sessions, find_peaks=self._find_peaks), False
        except KeyboardInterrupt:
            return replace(run, profile_absent_because="interrupted while layers were timed"), True

    def _run_session(
        self, job: Job, *, index: int, folder: Path, transport: Transport, layers: bool = False
    ) -> SessionResult:
        session_folder = folder / f"{'layers' if layers else 'session'}-{index}"
        session_folder.mkdir()
        request = SessionRequest(
            job=job,
            index=index,
            runtime=self._runtimes.location(job.runtime.name),
            meters=self._sensors.locations if index == 0 and not layers else (),
            options=asdict(replace(_load_options(job), profile=layers)),
            outputs=index == 0 and not layers,
            profile=layers,
        )
        return run_session(
            request,
            transport=transport,
            folder=session_folder,
            environment=dict(os.environ),
            on_progress=self._observer.progressed,
        )

    def _assemble(self, job: Job, sessions: Sequence[SessionResult], *, created: str) -> Run:
        """The run of complete sessions; a session that failed gives the run its failure and status."""
        complete = [session for session in sessions if session.failure is None]
        failure = next((session.failure for session in sessions if session.failure is not None), None)
        measurements = measurements_of(job, complete, meter_absences=self._sensors.absences) if complete else ()
        cautions = (
            cautions_of(job, sessions=complete, measurements=measurements, usable_cores=count_cores())
            if complete
            else ()
        )
        run = Run(
            id=new_run_id(),
            created_at=created,
            job=job,
            status="failed" if failure else "done",
            group=self._group,
            failure=failure,
            effective=_effective(complete),
            environment=self._environment | _worker_environment(sessions),
            measurements=measurements,
            sessions=tuple(session_record(session) for session in complete),
            cautions=cautions,
        )
        return _graded(run)

    def _with_agreement(self, runs: Sequence[Run], outputs: Mapping[str, Outputs]) -> list[Run]:
        """The runs with their outputs compared, model by model; changed ones are saved again."""
        groups: dict[tuple[Any, ...], list[Outputs]] = defaultdict(list)
        for run in runs:
            if run.id in outputs:
                workload = run.job.workload
                groups[run.job.model.sha256, workload.inputs, workload.seed, workload.input_data].append(
                    outputs[run.id]
                )
        verdicts = {run_id: verdict for group in groups.values() for run_id, verdict in compare_outputs(group).items()}
        mixed = _mixed_precisions([run for run in runs if run.id in verdicts])
        answer = []
        for run in runs:
            if run.id not in verdicts:
                answer.append(run)
                continue
            verdict = verdicts[run.id]
            compared = replace(run, measurements=run.measurements + verdict.measurements)
            answer.append(_with_cautions(compared, verdict.cautions + mixed.get(run.id, ())))
            self._save(answer[-1])
        return answer

    def _save(self, run: Run) -> None:
        try:
            self._save_run(run)
        except StoreError as error:
            self.save_errors.append(error)


def _mixed_precisions(runs: Sequence[Run]) -> dict[str, tuple[Caution, ...]]:
    """A caution for every run beside one of another precision, unless that is what was asked for."""
    told: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        if run.effective.get("precision"):
            told[run.job.model.sha256].add(run.effective["precision"])
    return {
        run.id: (Caution.of("precision-differs", f"side by side ran {', '.join(sorted(told[run.job.model.sha256]))}"),)
        for run in runs
        if len(told[run.job.model.sha256]) > 1 and run.job.runtime.precision is None
    }


def _adaptive(job: Job) -> bool:
    stopping = job.workload.stopping
    return stopping.iterations is None and stopping.duration_s is None and stopping.warmup is None


def _load_options(job: Job) -> LoadOptions:
    scenario = job.workload.scenario
    return LoadOptions(
        provider=job.runtime.provider or "cpu",
        shapes={spec.name: spec.shape for spec in job.workload.inputs},
        dtypes={spec.name: spec.dtype for spec in job.workload.inputs},
        threads=job.runtime.threads,
        precision=job.runtime.precision,
        streams=scenario.streams,
        requests=scenario.requests,
        offline=scenario.kind == "offline",
        extra=job.runtime.options,
    )


def _effective(sessions: Sequence[SessionResult]) -> dict[str, Any]:
    if not sessions:
        return {}
    facts = sessions[0].facts
    return {**facts.get("effective", {}), "engine_version": facts.get("engine_version")}


def _worker_environment(sessions: Sequence[SessionResult]) -> dict[str, Any]:
    return {"worker_python": sessions[0].python} if sessions and sessions[0].python else {}


def _with_cautions(run: Run, cautions: tuple[Caution, ...]) -> Run:
    return _graded(replace(run, cautions=run.cautions + cautions)) if cautions else run


def _graded(run: Run) -> Run:
    measured = run.value(run.headline) is not None
    return replace(run, trust=grade_of(run.cautions, measured=measured))


def _outputs_of(run: Run, sessions: Sequence[SessionResult]) -> Outputs | None:
    """The outputs that a worker left in its folder; a worker's file is not trusted to be one."""
    if run.status == "failed" or not sessions or sessions[0].outputs is None:
        return None
    file, _ = sessions[0].outputs
    try:
        with np.load(file, allow_pickle=False) as data:
            arrays = tuple(data[key] for key in data.files)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        return None
    runtime = run.job.runtime
    label = f"{runtime.name}/{runtime.provider}" + (f" {runtime.precision}" if runtime.precision else "")
    quantised = any(not np.issubdtype(array.dtype, np.floating) for array in arrays)
    exact = run.effective.get("precision") in (None, "f32") and not quantised
    return Outputs(run_id=run.id, label=label, arrays=arrays, exact=exact)
