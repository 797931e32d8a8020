"""The host's side of one session: start a worker, read what it says under deadlines, and turn any end into a result.

The host blocks on the channel with a deadline and never polls: a polling parent slows its child. A crash, a hang, an
out-of-memory kill or garbage is a result like any other: a `SessionResult` with a failure.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

from edgewise.device.transport import Process, TellsEnd, Transport
from edgewise.profiling.message import read_profile
from edgewise.record import Failure, Job
from edgewise.record.run import Cause
from edgewise.run.protocol import MAX_LINE_BYTES, PROTOCOL, ProtocolError, decode, encode
from edgewise.run.timing import OFFLINE_S
from edgewise.runtime.base import EngineProfile
from edgewise.units import format_bytes

WORKER = (sys.executable, "-P", "-m", "edgewise.run.worker")
STDERR_TAIL = 4000
REAP_S = 10.0
MEMORY_SHARE = 0.95
"""Of the memory that is available when the worker starts: past it the worker fails instead of the machine."""


@dataclass(slots=True)
class SessionResult:
    """Everything one worker told, in SI units where it is a time.

    Attributes:
        phases: seconds per phase.
        samples: name → ns, as sent.
        facts: as sent, merged.
        outputs: the file with the outputs and their names, or None.
        profile: what the engine's profiler told, in a session that was to tell it.
        failure: why there is no complete result, or None.
    """

    index: int
    started_at: str
    pid: int = 0
    python: str = ""
    phases: dict[str, float] = field(default_factory=dict)
    samples: dict[str, list[int]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[Path, list[str]] | None = None
    profile: EngineProfile | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """What a worker is asked to do.

    Attributes:
        runtime: where the runtime's class is, ``"module:Class"``.
        meters: where the classes of the available meters are.
        options: `edgewise.runtime.base.LoadOptions` as a mapping.
        outputs: whether the outputs are wanted.
        profile: whether layers are timed, instead of everything else.
    """

    job: Job
    index: int
    runtime: str
    options: Mapping[str, Any]
    meters: tuple[str, ...] = ()
    outputs: bool = False
    profile: bool = False


Progress = Callable[[int, float], None]


def run_session(
    request: SessionRequest,
    *,
    transport: Transport,
    folder: Path,
    environment: Mapping[str, str],
    on_progress: Progress | None = None,
) -> SessionResult:
    """Run one fresh worker to its end, whatever that is.

    Raises KeyboardInterrupt after the worker was killed; everything else is in the result.
    """
    result = SessionResult(index=request.index, started_at=datetime.now(UTC).isoformat(timespec="milliseconds"))
    conversation = _Conversation(request, folder, result, on_progress)
    oom_kills = _oom_kills()
    spawned_ns = time.monotonic_ns()
    try:
        process = transport.start(WORKER, folder=folder, environment=environment)
    except OSError as error:
        result.failure = Failure(
            cause="Unavailable", message=f"the worker could not be started: {error}", phase="python"
        )
        return result
    try:
        conversation.hold(process, spawned_ns)
        if result.failure is None and not conversation.done:
            # The channel is closed; how the process ends is what the failure is made of.
            with contextlib.suppress(TimeoutError):
                process.wait(REAP_S)
    finally:
        process.kill()
    if result.failure is None and not conversation.done:
        result.failure = _unexpected_end(process, conversation.phase, killed_for_memory=_oom_kills() > oom_kills)
    if result.failure is not None:
        result.failure = _with_tail(result.failure, folder)
        limit = request.job.target.memory_limit_bytes
        result.failure = result.failure if limit is None else _blame_limit(result.failure, limit)
    return result


class _Ears:
    """Blocks on what the worker says and on its end: a child that an engine forked may hold the channel open."""

    def __init__(self, process: Process) -> None:
        self._channel = process.stdout.fileno()
        self._end = process.end_descriptor() if isinstance(process, TellsEnd) else None
        self._poller = select.poll()
        self._poller.register(self._channel, select.POLLIN)
        if self._end is not None:
            self._poller.register(self._end, select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._end is not None:
            os.close(self._end)

    def listen(self, seconds: float) -> bytes | None:
        """What there is to read, at least one byte; empty at the end; None after `seconds` of silence."""
        ready = {descriptor for descriptor, _ in self._poller.poll(max(0.0, seconds) * 1000)}
        if self._channel in ready:
            return os.read(self._channel, 2**20)
        return b"" if ready else None


class _Conversation:
    """The reading side: a line buffer, the deadline of the current phase, and what each message means."""

    def __init__(self, request: SessionRequest, folder: Path, result: SessionResult, progress: Progress | None) -> None:
        self.request = request
        self.folder = folder
        self.result = result
        self.progress = progress
        self.phase = "python"
        self.done = False
        self._begun: dict[str, int] = {}
        self._heard = 0
        self._spawned_ns = 0

    def hold(self, process: Process, spawned_ns: int) -> None:
        """Send the job and read until the worker is done, has failed, is silent for too long, or is gone."""
        self._spawned_ns = spawned_ns
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            process.stdin.write(self._job_message())
            process.stdin.flush()
        with _Ears(process) as ears:
            buffer = bytearray()
            deadline = self._deadline()
            while not self.done and self.result.failure is None:
                piece = ears.listen(deadline - time.monotonic())
                if piece is None:
                    self.result.failure = self._timed_out()
                    return
                if not piece:
                    return
                buffer += piece
                heard = self._heard
                self._consume(buffer)
                if self._heard != heard:
                    deadline = self._deadline()

    def _job_message(self) -> bytes:
        request, job = self.request, self.request.job
        return encode(
            "job",
            protocol=PROTOCOL,
            runtime=request.runtime,
            model=job.model.path,
            options=dict(request.options),
            workload=asdict(job.workload),
            stopping=asdict(job.workload.stopping),
            folder=str(self.folder),
            meters=list(request.meters),
            outputs=request.outputs,
            profile=request.profile,
            memory_limit=job.target.memory_limit_bytes or _available_memory(),
        )

    def _deadline(self) -> float:
        """When the worker must have been heard of again."""
        return time.monotonic() + self._limit()

    def _limit(self) -> float:
        """How long the worker may be silent: the limit that was given, plus what the scenario is silent by itself."""
        scenario, stopping = self.request.job.workload.scenario, self.request.job.workload.stopping
        silent = 0.0
        if self.phase == "steady" and scenario.kind == "offline":
            silent = stopping.duration_s or OFFLINE_S
        if self.phase == "steady" and scenario.fps:
            silent = 1.0 / scenario.fps
        return stopping.timeout_s + silent

    def _consume(self, buffer: bytearray) -> None:
        while (end := buffer.find(b"\n")) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            try:
                self._understand(decode(line))
            except (ProtocolError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                self.result.failure = self._garbage(str(error))
            if self.done or self.result.failure is not None:
                return
        if len(buffer) > MAX_LINE_BYTES:
            self.result.failure = self._garbage("a line without an end")

    def _understand(self, message: Mapping[str, Any]) -> None:
        result = self.result
        self._heard += 1
        match message["kind"]:
            case "hello":
                result.pid, result.python = int(message["pid"]), str(message["python"])
                # Both clocks are this machine's monotonic clock.
                result.phases["python"] = (int(message["started_ns"]) - self._spawned_ns) / 1e9
            case "phase" if message["event"] == "begin":
                self.phase = str(message["name"])
                self._begun[self.phase] = int(message["at_ns"])
            case "phase":
                name = str(message["name"])
                result.phases[name] = (int(message["at_ns"]) - self._begun[name]) / 1e9
            case "progress":
                if self.progress is not None:
                    self.progress(int(message["done"]), float(message["average_s"]))
            case "samples":
                result.samples[str(message["name"])] = [int(value) for value in message["values_ns"]]
            case "facts":
                result.facts |= message["values"]
            case "outputs":
                file = self.folder / Path(str(message["file"])).name
                result.outputs = (file, [str(name) for name in message["names"]])
            case "layers":
                result.profile = read_profile(message["profile"])
            case "done":
                self._check_complete()
                self.done = True
            case "failed":
                result.failure = self._failed(message)

    def _check_complete(self) -> None:
        """Whether everything that a run is made of was told. Raises `ProtocolError`."""
        result = self.result
        scenario = self.request.job.workload.scenario
        samples = "completions" if scenario.kind == "offline" else scenario.headline
        if self.request.profile:
            if result.profile is None:
                raise ProtocolError("done without layers")
            return
        lacking = [
            name for name in ("python", "prepare", "import", "load", "first", "steady") if name not in result.phases
        ]
        lacking += [name for name in (samples, "latency_first") if name not in result.samples]
        lacking += [name for name in ("steady", "effective") if not isinstance(result.facts.get(name), dict)]
        if lacking:
            raise ProtocolError(f"done without {', '.join(lacking)}")

    def _failed(self, message: Mapping[str, Any]) -> Failure:
        cause: Cause = message["cause"] if message["cause"] in get_args(Cause) else "EngineError"
        advice = _ADVICE.get(cause, "")
        return Failure(cause=cause, message=str(message["message"]), phase=self.phase, advice=advice)

    def _timed_out(self) -> Failure:
        limit = self._limit()
        return Failure(
            cause="Timeout",
            message=f"nothing was heard in phase '{self.phase}' for {limit:g} s; the worker was killed",
            phase=self.phase,
            advice=_ADVICE["Timeout"],
        )

    def _garbage(self, what: str) -> Failure:
        return Failure(cause="Garbage", message=f"the worker broke the protocol: {what[:200]}", phase=self.phase)


_ADVICE = {
    "Timeout": "raise --timeout, or look at the model: it may hang in this engine",
    "OutOfMemory": "raise --memory-limit, lower --batch, or use a smaller model",
    "Unsupported": "try another runtime with -r, or convert the model",
    "BadModel": "check the file with the tool that made it",
}


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
        return Failure(cause="OutOfMemory", message=message, phase=phase, signal=name, advice=_ADVICE["OutOfMemory"])
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
        return replace(failure, cause="OutOfMemory", message=message, advice=_ADVICE["OutOfMemory"])
    return replace(failure, advice=f"{failure.advice or 'see what the engine printed'}; {words} may be the reason")


def _oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since it started; 0 where it does not tell."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _available_memory() -> int | None:
    """Bytes a worker may allocate without driving the machine into swap, or None where the system does not tell."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(int(line.split()[1]) * 1024 * MEMORY_SHARE)
    return None
