"""Executes a plan: job after job, session after session, each run saved as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from edgewise.cancellation import CancelToken, cancellable, sleep
from edgewise.clock import now
from edgewise.errors import EdgewiseError
from edgewise.folders import job_folder
from edgewise.progress import JobStarted, RunFinished, SessionStarted, emit
from edgewise.record import Caution, Failure, InputSpec, Job, Run
from edgewise.run import peaks, profiled
from edgewise.run.executor import executor_for, target_of
from edgewise.run.host import SessionInterrupted
from edgewise.run.host_protocol import SessionResult, refuses_sizes
from edgewise.run.plan import Plan, with_other_sizes
from edgewise.run.protocol import Mode
from edgewise.run.run_builder import RunBuilder, Sensors, with_cautions
from edgewise.run.variation import History
from edgewise.text import one_line

JOB_BUDGET_S = 60.0
"""A job whose sessions take longer ends after its second, unless the user prescribed the protocol; the run says so."""

INTERRUPTED = "interrupted while layers were timed"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; what was finished is in `runs`."""

    def __init__(self, runs: Sequence[Run]) -> None:
        super().__init__("interrupted")
        self.runs = tuple(runs)


class Dispatcher:
    """Executes jobs one after the other; two at once would disturb each other.

    Args:
        save: keeps a run; called once a job is done and again when its outputs were compared.
        find_peaks: returns the machine's peaks for the roofline of profiles; None measures them.
        sensors: None asks the meters; ``Sensors(absences=…)`` without locations measures without them.
        history: the reference times of earlier runs on this machine; None reads those in the user's own store.
    """

    def __init__(
        self,
        *,
        save: Callable[[Run], None],
        sensors: Sensors | None = None,
        find_peaks: profiled.FindPeaks | None = None,
        history: History | None = None,
    ) -> None:
        self._builder = RunBuilder(save=save, sensors=sensors, history=history)
        self._find_peaks = find_peaks
        self._end_by: float | None = None
        self._job_until: float | None = None
        self._settled: dict[tuple[str, tuple[InputSpec, ...]], tuple[InputSpec, ...]] = {}

    def execute(self, plan: Plan, *, budget_s: float | None = None, sessions_s: float | None = None) -> list[Run]:
        """One run per job, in order. Raises `Interrupted` with what was finished.

        Args:
            budget_s: time limit of the whole plan, s; at its end a job with a session keeps it, one without fails.
            sessions_s: time limit of all sessions, s; a job begins none after its share of what is left, but has two.
        """
        runs: list[Run] = []
        begin = now()
        self._end_by = None if budget_s is None else begin + budget_s
        spread_s = plan.jobs[0].workload.stopping.spread_s if plan.jobs else None
        try:
            if spread_s is not None:
                self._run_spread(plan.jobs, spread_s, runs)
                return self._builder.with_agreement(runs)
            for index, job in enumerate(plan.jobs):
                emit(JobStarted(job=job, index=index, total=len(plan.jobs)))
                if sessions_s is not None:
                    self._job_until = now() + max(0.0, begin + sessions_s - now()) / (len(plan.jobs) - index)
                run = self._run_settled(job)
                runs.append(run)
                self._builder.save(run)
                emit(RunFinished(run=run))
                if run.status == "cancelled":
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise Interrupted(self._builder.with_agreement(runs)) from None
        return self._builder.with_agreement(runs)

    def _run_settled(self, job: Job) -> Run:
        """Return the run of one job, cancelled by Ctrl-C. Where the engine refuses assumed inputs, others are tried.

        All engines get the inputs that the first of them accepted.
        """
        key = job.model.sha256, job.workload.inputs
        settled = self._settled.get(key)
        if settled is not None:
            job = replace(job, workload=replace(job.workload, inputs=settled))
        run = self._run_here(job)
        if settled is not None or not refuses_sizes(run.failure, run.job):
            if run.status == "done" and settled is None:
                self._settled[key] = job.workload.inputs
            return run
        for changed in with_other_sizes(job):
            other = self._run_here(changed)
            if other.status != "failed":
                self._settled[key] = other.job.workload.inputs
                return other
        return run

    def _run_here(self, job: Job) -> Run:
        with job_folder() as folder:
            return self._builder.note_outputs(*self._run_job(job, folder))

    def _run_spread(self, jobs: Sequence[Job], spread_s: float, runs: list[Run]) -> None:
        """Append the runs of jobs whose sessions lie apart to `runs`. Raises KeyboardInterrupt after that.

        The first sessions of all jobs follow one another, then all second ones, and so on, so that all jobs share the
        time and see the same changes of the machine.
        """
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        count, begin = jobs[0].workload.stopping.sessions, now()
        sessions: list[list[SessionResult]] = [[] for _ in jobs]
        interrupted = False
        with ExitStack() as stack:
            folders = [stack.enter_context(job_folder()) for _ in jobs]
            try:
                for index in range(count):
                    sleep(begin + spread_s * index / (count - 1) - now())
                    for place, (job, folder) in enumerate(zip(jobs, folders, strict=True)):
                        if sessions[place] and sessions[place][-1].failure is not None:
                            continue
                        emit(JobStarted(job=job, index=place, total=len(jobs)))
                        emit(SessionStarted(index=index, total=count))
                        sessions[place].append(self._run_session(job, index=index, folder=folder))
                        self._builder.tell_headline(job, sessions[place])
            except KeyboardInterrupt:
                interrupted = True
            for place, (job, told) in enumerate(zip(jobs, sessions, strict=True)):
                if told:
                    with _despite_cancellation(cancelled=interrupted):
                        run = self._builder.build(job, told, created=created)
                    run = replace(run, status="cancelled") if interrupted and run.status == "done" else run
                    runs.append(self._builder.note_outputs(run, told))
                    self._builder.save(runs[-1])
                    emit(JobStarted(job=job, index=place, total=len(jobs)))
                    emit(RunFinished(run=runs[-1]))
        if interrupted:
            raise KeyboardInterrupt

    def _run_job(self, job: Job, folder: Path) -> tuple[Run, list[SessionResult]]:
        """Return the run of one job, cancelled by Ctrl-C, and its sessions."""
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        sessions: list[SessionResult] = []
        interrupted, cut_short, late, used_up, begin = False, False, False, False, now()
        for index in range(job.workload.stopping.sessions):
            emit(SessionStarted(index=index, total=job.workload.stopping.sessions))
            try:
                sessions.append(self._run_session(job, index=index, folder=folder))
            except KeyboardInterrupt as stop:
                sessions += [stop.result] if isinstance(stop, SessionInterrupted) else []
                interrupted = True
                break
            late = self._end_by is not None and now() >= self._end_by
            used_up = self._job_until is not None and index >= 1 and now() >= self._job_until
            if late and index and sessions[-1].failure is not None:
                sessions.pop()  # it ran out of time, which is no failure of what was measured before
                cut_short = True
                break
            if sessions[-1].failure is not None:
                break
            self._builder.tell_headline(job, sessions)
            if (
                late
                or used_up
                or (self._job_until is None and _adaptive(job) and index >= 1 and now() - begin > JOB_BUDGET_S)
            ):
                cut_short = index + 1 < job.workload.stopping.sessions
                break
        layered: list[SessionResult] = []
        unprofiled: str | None = None
        if job.workload.profile and not interrupted and sessions[-1].failure is None:
            interrupted = not self._time_layers(job, layered, count=len(sessions), folder=folder)
            unprofiled = INTERRUPTED if interrupted else None
        with _despite_cancellation(cancelled=interrupted):
            run = self._builder.build(job, sessions, created=created, layered=layered)
        if interrupted:
            run = replace(run, status="cancelled", profile_absent_because=unprofiled)
        elif layered and run.status == "done":
            run = self._with_layers(run, layered)
        if cut_short:
            room = "the time budget" if late or used_up else f"{JOB_BUDGET_S:g} s"
            message = f"only {len(sessions)} of {job.workload.stopping.sessions} sessions fit into {room}"
            run = with_cautions(run, (Caution.of("fewer-sessions", message),))
        return run, sessions

    def _time_layers(self, job: Job, layered: list[SessionResult], *, count: int, folder: Path) -> bool:
        """Append `count` processes that time layers to `layered`, up to the first that fails; False after Ctrl-C."""
        try:
            for index in range(count):
                emit(SessionStarted(index=index, total=count))
                layered.append(self._run_session(job, index=index, folder=folder, mode="layers"))
                if layered[-1].failure is not None:
                    break
        except KeyboardInterrupt:
            return False
        return True

    def _with_layers(self, run: Run, layered: Sequence[SessionResult]) -> Run:
        """Return the run with its layers; cancelled by Ctrl-C."""
        try:
            find_peaks = self._find_peaks or partial(peaks.find_peaks, target=run.job.target)
            return profiled.with_layers(run, layered, find_peaks=find_peaks)
        except KeyboardInterrupt:
            return replace(run, status="cancelled", profile_absent_because=INTERRUPTED)

    def _run_session(self, job: Job, *, index: int, folder: Path, mode: Mode = "measure") -> SessionResult:
        request, target = self._builder.request(job, index=index, mode=mode), target_of(job.target)
        session_folder = folder / f"{mode}-{index}"
        session_folder.mkdir()
        executor = executor_for(job)
        try:
            return executor.run(request, target=target, folder=session_folder, end_by=self._end_by)
        except Exception as error:  # a plug-in may raise anything; what other sessions measured is kept
            if executor.is_worker or isinstance(error, EdgewiseError):
                raise
            message = f"{job.runtime.name} failed: {type(error).__name__}: {one_line(str(error))[:300]}"
            advice = "report it to the authors of the plug-in"
            failure = Failure(cause="EngineError", message=message, phase="steady", advice=advice)
            return SessionResult(index=index, failure=failure)


def _despite_cancellation(*, cancelled: bool) -> AbstractContextManager[None]:
    """Return what was measured is kept, although counting the model's operators waits for a process, which the
    token ends.

    Only another Ctrl-C ends that wait.
    """
    return cancellable(CancelToken() if cancelled else None)


def _adaptive(job: Job) -> bool:
    stopping = job.workload.stopping
    return stopping.iterations is None and stopping.duration_s is None and stopping.warmup is None
