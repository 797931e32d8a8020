"""Carries jobs out: claims them in the store, starts a process for each, and writes to the store how it ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

from edgewise.cancellation import Cancelled, CancelToken, cancellable
from edgewise.child_process import ChildProcess, explain_end
from edgewise.clock import Clock, clock_in_force, now, timed_by
from edgewise.device.holder import holder
from edgewise.errors import BadInput, EdgewiseError, StoreError
from edgewise.folders import job_folder
from edgewise.record import new_run_id
from edgewise.store.location import ENVIRONMENT_VARIABLE, find_location
from edgewise.studio.jobs.live import Live
from edgewise.studio.jobs.messages import End, JobState
from edgewise.text import one_line
from edgewise.verbs.verb import VERBS

if TYPE_CHECKING:
    from edgewise.store import Store
    from edgewise.store.jobs import JobRow
    from edgewise.verbs.request import Request

TICK_S = 30.0
"""How often the queue is looked at where nothing wakes the dispatcher: another server may have left a job."""

LOOK_S = 2.0
"""How often a running job is looked at in the store: another server may have cancelled it."""

MODELS = (".onnx", ".ort", ".tflite", ".xml", ".bin", ".pt2", ".pte", ".keras", ".data")
"""Endings of the files of models that a job may make, such as the variants of an optimization."""

MOST_MODELS = 200
MOST_LOG = 2**16
"""Bytes of a log that a page shows."""

GRACE_S = 20.0
"""How long a cancelled job may take to end, s; then its process is killed."""

_ID = re.compile(r"[0-9a-f-]{36}")

AGAIN = "run it again; the runs that were finished are in the store"


class Dispatcher:
    """The jobs of one studio: queued in the store, carried out here.

    Attributes:
        live: the states of running jobs.
        problem: why no job can be started at the moment; empty where nothing is in the way.

    Args:
        folder: of the studio; a job's files lie in ``jobs/ID`` there.
        store_url: of `store`; None is the user's own.
        clock: what the threads of jobs wait by, which have a context of their own; None is the one in force.
    """

    def __init__(self, store: Store, *, folder: Path, store_url: str | None, clock: Clock | None = None) -> None:
        self.live = Live()
        self.problem = ""
        self._store = store
        self._clock = clock or clock_in_force()
        self._folder = folder / "jobs"
        place = find_location(store_url)  # absolute, as a job has a folder of its own
        self._environment = {**os.environ, ENVIRONMENT_VARIABLE: str(place.path or place.url)}
        self._wake = threading.Event()
        self._stopping = False
        self._tokens: dict[str, CancelToken] = {}
        self._unsaid: dict[str, tuple[JobRow, End, Sequence[str]]] = {}
        self._dispatching = threading.Thread(target=self._dispatch, daemon=True)
        self._threads: list[threading.Thread] = []
        self._queue = ""
        try:
            self._queue = _queue_of(self._folder)
        except OSError as error:
            self.problem = f"no job can be carried out: {self._folder} can't be written: {error.strerror}"

    @property
    def has_folder(self) -> bool:
        """Whether the folder of the studio can be written."""
        return bool(self._queue)

    @property
    def refusal(self) -> str:
        """Why no job can be added, changed or removed; empty where nothing is in the way."""
        if self._store.read_only:
            return f"the store {self._store.name} is read-only: its runs can be seen, nothing can be measured"
        return "" if self.has_folder else self.problem

    def start(self) -> None:
        """Begin to carry jobs out. Where the folder can't be written, `problem` is set and no job is accepted."""
        if self._queue:
            self._dispatching.start()

    def stop(self) -> None:
        """End the running jobs, which are lost, and wait for their ends."""
        self._stopping = True
        self._wake.set()
        if self._dispatching.is_alive():
            self._dispatching.join()
        for token in list(self._tokens.values()):
            token.cancel("stopped")
        for thread in self._threads:
            thread.join()

    def folder_of(self, job_id: str) -> Path:
        """Return the folder of a job's files. Raises `BadInput` for what is no job's id, such as ``..``."""
        if not _ID.fullmatch(job_id):
            raise BadInput("there is no such job", advice="see the list of jobs")
        return self._folder / job_id

    def add(self, request: Request, *, title: str) -> str:
        """Queue a job that carries out `request`; its id.

        Args:
            title: one line for lists.

        Raises `BadInput`: a verb without a form, or a request that runs code; `StoreError`: the store can't be written.
        """
        from edgewise.device.devices import LOCAL
        from edgewise.studio.forms import all_forms, maker_of  # the start of the server needs none

        self._require_writable()
        effective = request.in_effect()
        if maker_of(effective.verb) is None:
            known = ", ".join(form.verb.name for form in all_forms())
            raise BadInput(f"{effective.verb} is not a job", advice=f"one of: {known}")
        if effective.functions:
            raise BadInput("a job of the studio runs no code of its own", advice="use the command line for factories")
        device = getattr(effective, "device", None) if VERBS.get(effective.verb).keeps_runs else None
        job_id = self._store.jobs.add(request.to_document(), title=title, queue=self._queue, device=device or LOCAL)
        self._wake.set()
        self.live.touch()
        return job_id

    def cancel(self, job_id: str) -> None:
        """Cancel a job. Raises `BadInput` where it has ended, or another one cancelled it; `StoreError`."""
        self._store.jobs.cancel(job_id)
        self.live.touch()
        if (token := self._tokens.get(job_id)) is not None:
            token.cancel()

    def again(self, job_id: str) -> str:
        """Queue a failed, cancelled or lost job again, or a copy of a done one; return the id. Raises `BadInput`."""
        found = self._store.jobs.again(job_id)
        self._wake.set()
        self.live.touch()
        return found

    def remove(self, job_id: str) -> None:
        """Remove a job that has ended, with its folder: both, or neither. The runs that it saved stay.

        Raises:
            BadInput: it is queued or running, or its folder is another studio's.
            StoreError: the store or the folder can't be written.
        """
        self._require_writable()
        if self._store.jobs.get(job_id).queue != self._queue:
            raise BadInput("the files of this job lie with another studio", advice="remove the job there")
        folder = self.folder_of(job_id)
        try:
            with job_folder(within=self._folder) as place:
                moved = place / job_id
                try:
                    # With the lock no studio starts the job meanwhile. A folder that is a link is moved as a link.
                    with _locked(self._folder / "lock"), self._store.jobs.removing(job_id):
                        if os.path.lexists(folder):
                            folder.rename(moved)
                except BaseException:
                    if os.path.lexists(moved):
                        moved.rename(folder)
                    raise
                _make_removable(moved)
        except OSError as error:
            raise StoreError(
                f"the folder {folder} can't be removed: {error.strerror}", advice="make it writable, and remove again"
            ) from error
        self.live.touch()

    def size_of(self, job_id: str) -> int:
        """Return the bytes of the files in a job's folder; a link counts as a link."""
        with contextlib.suppress(OSError):
            return sum(place.lstat().st_size for place in self.folder_of(job_id).rglob("*"))
        return 0

    def state_of(self, job: JobRow) -> JobState:
        """Return the state of a job: by the messages of its process if it runs here, otherwise by its row and log."""
        found = self.live.get(job.id) if job.status == "running" else None
        if found is not None:
            return found
        lines: Sequence[str] = ()
        with contextlib.suppress(OSError), (self.folder_of(job.id) / "log.txt").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - MOST_LOG))
            lines = log.read().decode("utf-8", "replace").splitlines()
        state = JobState(id=job.id, title=job.title, verb=job.verb, status=job.status)
        state.message, state.advice, state.saved = job.message, job.advice, list(job.runs)
        state.log.extend(map(one_line, lines))
        return state

    def files_of(self, job_id: str) -> Mapping[str, Path]:
        """Name → place of the files that a job left: its request, its log, its result if that is whole, and models."""
        folder = self.folder_of(job_id)
        found = {name: folder / name for name in ("request.json", "log.txt") if (folder / name).is_file()}
        with contextlib.suppress(OSError):
            found |= {place.name: place for place in sorted((folder / "result").iterdir())}
        made = (place for place in sorted((folder / "files").rglob("*")) if place.suffix in MODELS and place.is_file())
        return found | {place.relative_to(folder).as_posix(): place for place in islice(made, MOST_MODELS)}

    def _require_writable(self) -> None:
        """Raise `BadInput` where the store, or the folder of jobs, can't be written."""
        if self.refusal:
            raise BadInput(self.refusal, advice="start 'edgewise serve' with a store that can be written: --store PATH")

    def _dispatch(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                self._look()
                self.problem = ""
            except (StoreError, OSError) as error:
                self.problem = f"jobs can't be started: {getattr(error, 'message', error)}"
            self._wake.wait(TICK_S)

    def _look(self) -> None:
        """Write ends that could not be written yet, mark jobs of ended servers as lost, and start jobs."""
        for job_id, (job, end, runs) in list(self._unsaid.items()):
            self._finish(job, end, runs)
            del self._unsaid[job_id]
        # Mostly there is no job: that is seen without a lock and a write.
        while not self._stopping and self._store.jobs.list(status=("queued", "running"), limit=1):
            with _locked(self._folder / "lock"):
                self._mark_lost()
                claimed = self._store.jobs.claim(self._queue, holder())
                if claimed is None:
                    return
                try:
                    lock = self._lock_job(claimed.id)
                except OSError as error:
                    self._finish(claimed, _not_started(error))
                    continue
            if lock is None:  # its last process has not ended yet: it is marked as lost once that has
                return
            self._tokens[claimed.id] = CancelToken()
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._threads.append(threading.Thread(target=self._carry_out, args=(claimed, lock), daemon=True))
            self._threads[-1].start()

    def _mark_lost(self) -> None:
        for running in self._store.jobs.running(self._queue):
            if running.id in self._tokens or running.id in self._unsaid:
                continue
            lock = self._lock_job(running.id)
            if lock is not None:
                lock.close()
                message = "the studio ended while this job ran"
                self._finish(running, End(status="lost", message=message, advice=AGAIN))

    def _lock_job(self, job_id: str) -> IO[bytes] | None:
        """Return the lock that the processes of a job hold; None where one of them is alive."""
        folder = self.folder_of(job_id)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (folder / "lock").open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return None
        return file

    def _carry_out(self, job: JobRow, lock: IO[bytes]) -> None:
        """Carry out one job in its thread, from its start to its end."""
        self.live.begin(JobState(id=job.id, title=job.title, verb=job.verb))
        try:
            with lock, timed_by(self._clock):
                end = self._run_child(job, lock)
        except OSError as error:
            end = _not_started(error)
        except Exception as error:  # whatever it is, the job must come to an end
            message = f"internal error: {type(error).__name__}: {error}"
            end = End(status="failed", message=message, advice="report it with the log of this job")
        state = self.live.get(job.id)
        runs = state.saved if state else []
        told = end
        try:
            self._finish(job, end, runs)
        except StoreError as error:  # shown from memory until it can be written
            self._unsaid[job.id] = job, end, runs
            told = replace(end, message=f"{end.message} {error.message}".strip(), advice=error.advice)
        del self._tokens[job.id]
        self.live.tell(job.id, told.to_message())
        self._wake.set()

    def _run_child(self, job: JobRow, lock: IO[bytes]) -> End:
        """How the process of a job ended. Raises OSError where it can't be started."""
        folder = self.folder_of(job.id)
        shutil.rmtree(folder / "result", ignore_errors=True)
        (folder / "files").mkdir(exist_ok=True)  # stays for the next attempt: a search goes on where it was
        (folder / "request.json").write_text(job.request, encoding="utf-8")
        command = [sys.executable, "-P", "-m", "edgewise.studio.work", str(folder)]
        with (
            (folder / "log.txt").open("w", encoding="utf-8", errors="replace") as log,
            ChildProcess(
                command,
                request=None,
                environment=self._environment,
                folder=folder / "files",
                inherited=(lock.fileno(),),
            ) as child,
        ):
            end = self._listen(job, child, log)
        if self._stopping and (end is None or end.status == "cancelled"):
            return End(status="lost", message="the studio was ended while this job ran", advice=AGAIN)
        if end is not None:
            return end
        if self._tokens[job.id].cancelled:
            message = f"the job did not stop within {GRACE_S:g} s and was killed"
            return End(status="cancelled", message=message, advice="runs that were finished are in the store")
        _, failure = explain_end(child.returncode, child.tail)
        message = f"the process of this job {failure or 'ended without a result'}"
        return End(status="failed", message=message, advice=AGAIN)

    def _listen(self, job: JobRow, child: ChildProcess, log: IO[str]) -> End | None:
        """Take the messages of a job's process until its end; the last one, None where it did not come to that."""
        token, deadline = self._tokens[job.id], float("inf")
        while True:
            until = min(deadline, now() + LOOK_S)
            try:
                with cancellable(token if deadline == float("inf") else None):
                    line = child.read_line(until=until)
            except Cancelled:
                deadline = now() + (0.0 if self._stopping else GRACE_S)
                with contextlib.suppress(OSError):
                    child.send(b"x")
                continue
            except TimeoutError:
                if now() >= deadline or self._stopping:
                    return None
                self._look_at(job)
                continue
            if not line:
                return None
            message = json.loads(line)
            if message["kind"] == "end":
                return End.of(message)
            if message["kind"] == "log":
                with contextlib.suppress(OSError):
                    log.write(message["text"] + "\n")
                    log.flush()
            self.live.tell(job.id, message)

    def _look_at(self, job: JobRow) -> None:
        """Stop a running job that another server cancelled, or that is no longer this one's."""
        with contextlib.suppress(EdgewiseError):
            found = self._store.jobs.get(job.id)
            if found.cancelling or found.fence != job.fence or found.status != "running":
                self._tokens[job.id].cancel()

    def _finish(self, job: JobRow, end: End, runs: Sequence[str] = ()) -> None:
        self._store.jobs.finish(
            job, end.status, message=end.message, advice=end.advice, exit_code=end.exit_code, runs=runs
        )
        self.live.touch()


def _not_started(error: OSError) -> End:
    message = f"the job could not be started: {error.strerror}"
    return End(status="failed", message=message, advice="free some space, and run it again")


def _make_removable(folder: Path) -> None:
    """Let the folders in `folder` be emptied. Links are left as they are, whatever they lead to."""
    if not folder.is_symlink():
        for place, _, _ in os.walk(folder):
            Path(place).chmod(0o700)


def _queue_of(folder: Path) -> str:
    """Return the name of the queue whose jobs lie in `folder`, which goes with it where it is moved. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    place = folder / "queue"
    with _locked(folder / "lock"):
        if not place.exists():
            place.write_text(new_run_id(), encoding="ascii")
        return place.read_text(encoding="ascii").strip()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of `path`, which processes share. Raises OSError."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
