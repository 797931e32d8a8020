"""The host's side of one session: start a worker, hear it out, and turn any end into a result."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from edgewise.device.transport import Process, Transport
from edgewise.record import Failure
from edgewise.run.conversation import ADVICE, Conversation, Progress, SessionRequest, SessionResult
from edgewise.run.protocol import encode
from edgewise.units import format_bytes

WORKER = (sys.executable, "-P", "-m", "edgewise.run.worker")
STDERR_TAIL = 4000
REAP_S = 10.0


def run_session(
    request: SessionRequest,
    *,
    transport: Transport,
    folder: Path,
    environment: Mapping[str, str],
    on_progress: Progress | None = None,
    end_by: float | None = None,
) -> SessionResult:
    """Run one fresh worker to its end, whatever that is.

    Args:
        end_by: monotonic time, s, at which the worker is given up.

    Raises KeyboardInterrupt after the worker was killed; everything else is in the result.
    """
    with LiveSession(request, folder=folder, on_progress=on_progress, end_by=end_by) as live:
        live.start(transport, environment=environment)
        live.listen("done")
    return live.result


class LiveSession:
    """A worker from its start to its end. Leaving the context ends it, and `result` is complete then.

    Attributes:
        result: what the worker told so far.

    Args:
        end_by: monotonic time, s, at which the worker is given up.
    """

    def __init__(
        self,
        request: SessionRequest,
        *,
        folder: Path,
        on_progress: Progress | None = None,
        end_by: float | None = None,
    ) -> None:
        self.result = SessionResult(
            index=request.index, started_at=datetime.now(UTC).isoformat(timespec="milliseconds")
        )
        self._request = request
        self._folder = folder
        self._end_by = end_by
        self._conversation = Conversation(
            request, folder=folder, result=self.result, progress=on_progress, end_by=end_by
        )
        self._process: Process | None = None
        self._dismissed = False
        self._oom_kills = _oom_kills()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        try:
            if kind is None and not self._dismissed and self.result.failure is None and not self._conversation.done:
                # The channel is closed; how the process ends is what the failure is made of.
                with contextlib.suppress(TimeoutError):
                    self._process.wait(self._patience())
        finally:
            self._process.kill()
            self._conversation.close()
        self._conclude()

    def _patience(self) -> float:
        """How long a worker that says no more may take to end, s."""
        return REAP_S if self._end_by is None else max(0.0, min(REAP_S, self._end_by - time.monotonic()))

    @property
    def out_of_time(self) -> bool:
        """Whether the worker was given up because its time was over."""
        return self._conversation.out_of_time

    def start(self, transport: Transport, *, environment: Mapping[str, str]) -> None:
        """Start the worker and give it its job; a worker that can't be started is a failure in the result."""
        spawned_ns = time.monotonic_ns()
        try:
            # What an engine leaves among temporary files goes with the session's folder, however the worker ends.
            own = {**environment, "TMPDIR": str(self._folder)}
            self._process = transport.start(WORKER, folder=self._folder, environment=own)
        except OSError as error:
            message = f"the worker could not be started: {error}"
            self.result.failure = Failure(cause="Unavailable", message=message, phase="python")
            return
        self._conversation.begin(self._process, spawned_ns)

    def listen(self, until: str) -> bool:
        """Hear the worker until it says `until`; False where it never will."""
        return self._process is not None and self._conversation.listen(until)

    def dismiss(self) -> None:
        """End the worker now; that it did not finish is no failure of its own."""
        self._dismissed = True

    def order(self, kind: str, **fields: float | str) -> None:
        """Tell the worker what to do next."""
        self._conversation.may_end |= kind == "end"
        self._conversation.say(encode(kind, **fields))

    def _conclude(self) -> None:
        """Why there is no complete result, if there is none."""
        result, process = self.result, self._process
        if result.failure is None and not self._dismissed and not self._conversation.done and process is not None:
            killed = _oom_kills() > self._oom_kills
            result.failure = _unexpected_end(process, self._conversation.phase, killed_for_memory=killed)
        if result.failure is not None:
            result.failure = _with_tail(result.failure, self._folder)
            limit = self._request.job.target.memory_limit_bytes
            result.failure = result.failure if limit is None else _blame_limit(result.failure, limit)


def _unexpected_end(process: Process, phase: str, *, killed_for_memory: bool) -> Failure:
    """Why a worker that had not said goodbye is gone."""
    code = process.returncode
    if code is None or code >= 0:
        return Failure(
            cause="EngineError",
            message=f"the worker ended by itself in phase '{phase}' with exit code {code}",
            phase=phase,
            exit_code=code,
        )
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    if name == "SIGKILL" and killed_for_memory:
        message = f"the kernel killed the worker for want of memory in phase '{phase}'"
        return Failure(cause="OutOfMemory", message=message, phase=phase, signal=name, advice=ADVICE["OutOfMemory"])
    if name == "SIGKILL":
        return Failure(cause="Killed", message=f"the worker was killed in phase '{phase}'", phase=phase, signal=name)
    return Failure(
        cause="EngineError",
        message=f"the engine crashed in phase '{phase}' ({name})",
        phase=phase,
        signal=name,
        advice="the other jobs go on; report the model to the engine's authors",
    )


def _with_tail(failure: Failure, folder: Path) -> Failure:
    """The failure with the last lines that the worker's libraries printed, without control characters."""
    try:
        with (folder / "stderr").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - STDERR_TAIL))
            data = file.read(STDERR_TAIL)
    except OSError:
        return failure
    text = "".join(char if char.isprintable() or char in "\n\t" else "�" for char in data.decode(errors="replace"))
    return replace(failure, stderr_tail=text.strip())


_OUT_OF_MEMORY = re.compile(
    r"bad_alloc|[Oo]ut of memory|Memory allocation|[Cc]annot allocate memory|MemoryError|"
    r"[Ff]ailed to allocate( \w+)? memory|Resource temporarily unavailable"
)


def _blame_limit(failure: Failure, limit: int) -> Failure:
    """The failure of a worker under a memory limit: libraries die of it in many ways, few of which say so."""
    words = f"the memory limit of {format_bytes(limit)}"
    if failure.cause == "OutOfMemory" or _OUT_OF_MEMORY.search(failure.message + failure.stderr_tail):
        message = f"{failure.message}; {words} was reached"
        return replace(failure, cause="OutOfMemory", message=message, advice=ADVICE["OutOfMemory"])
    return replace(failure, advice=f"{failure.advice or 'see what the engine printed'}; {words} may be the reason")


def _oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since it started; 0 where it does not tell."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
