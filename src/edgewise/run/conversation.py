"""What host and worker say to each other, from the host's side, and what the end of a worker means.

The host blocks on the channel with a deadline and never polls: a polling parent slows its child. A crash, a hang, an
out-of-memory kill or garbage is a result like any other: a `SessionResult` with a failure.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from edgewise.device.transport import Process, TellsEnd
from edgewise.profiling.message import read_profile
from edgewise.record import Failure, Job
from edgewise.record.run import Cause
from edgewise.run.protocol import MAX_TOLD, MAX_TOLD_BYTES, PROTOCOL, ProtocolError, decode, encode
from edgewise.run.timing import OFFLINE_S
from edgewise.runtime.arrays import REFUSES
from edgewise.runtime.base import EngineProfile
from edgewise.workload.sizes import ASSUMED

MEMORY_SHARE = 0.95
"""Of the memory that is available when the worker starts: past it the worker fails instead of the machine."""

SLACK = 10
"""The most that a phase with signs of life may take: so many times what the timeout and first inference let expect."""
MAX_WORDS = 10_000
"""Characters of a worker's message that a run keeps."""
_LEAST = 20
"""Inferences that every steady phase may have, whatever was asked for."""

ADVICE = {
    "Timeout": "raise --timeout, or look at the model: it may hang in this engine",
    "OutOfMemory": "raise --memory-limit, lower --batch, or use a smaller model",
    "Unsupported": "try another runtime with -r, or convert the model",
    "BadModel": "check the file with the tool that made it",
}


@dataclass(slots=True)
class SessionResult:
    """Everything one worker told, in SI units where it is a time.

    Attributes:
        phases: seconds per phase.
        samples: name → ns, as sent.
        facts: as sent, merged.
        outputs: the file with the outputs and their names, or None.
        profile: what the engine's profiler told, in a session that was to tell it.
        answers: after ``inferred``: the file with the outputs of the last samples.
        answer_ns: how long each of them took, copying in and out included.
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
    answers: Path | None = None
    answer_ns: list[int] = field(default_factory=list)
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
        turns: whether the host says when inferences are timed, turn by turn.
        samples: whether the host hands over samples and wants their outputs, instead of everything else.
        cores: the only processors that the worker may use; empty leaves it all.
    """

    job: Job
    index: int
    runtime: str
    options: Mapping[str, Any]
    meters: tuple[str, ...] = ()
    outputs: bool = False
    profile: bool = False
    turns: bool = False
    samples: bool = False
    cores: tuple[int, ...] = ()


Progress = Callable[[int, float], None]

_UNKEPT = frozenset({"alive", "progress", "ready", "turned", "inferred"})
"""Kinds of messages that the result does not grow with."""


class _Ears:
    """Blocks on what the worker says and on its end: a child that an engine forked may hold the channel open."""

    def __init__(self, process: Process) -> None:
        self._channel = process.stdout.fileno()
        self._end = process.end_descriptor() if isinstance(process, TellsEnd) else None
        self._poller = select.poll()
        self._poller.register(self._channel, select.POLLIN)
        if self._end is not None:
            self._poller.register(self._end, select.POLLIN)

    def close(self) -> None:
        """Give the descriptor of the process's end back."""
        if self._end is not None:
            os.close(self._end)
            self._end = None

    def listen(self, seconds: float) -> bytes | None:
        """What there is to read, at least one byte; empty at the end; None after `seconds` of silence."""
        ready = {descriptor for descriptor, _ in self._poller.poll(max(0.0, seconds) * 1000)}
        if self._channel in ready:
            return os.read(self._channel, 2**20)
        return b"" if ready else None


class Conversation:
    """With one worker: a line buffer, the deadline of the current phase, and what each message means.

    Attributes:
        heard: the kind of the latest message.
        done: whether the worker said goodbye.
        may_end: whether it was told that it may, where it has to wait for that.
        out_of_time: whether it was given up because of `end_by`.

    Args:
        end_by: monotonic time, s, at which the worker is given up whatever it does; None leaves it the time it needs.
    """

    def __init__(
        self,
        request: SessionRequest,
        *,
        folder: Path,
        result: SessionResult,
        progress: Progress | None = None,
        end_by: float | None = None,
    ) -> None:
        self.request = request
        self.folder = folder
        self.result = result
        self.progress = progress
        self.phase = "python"
        self.heard = ""
        self.done = False
        self.may_end = not (request.turns or request.samples)
        self.out_of_time = False
        self._end_by = end_by
        self._begun: dict[str, int] = {}
        self._deadline = self._last = 0.0
        self._told = self._told_bytes = 0
        self._spawned_ns = 0
        self._buffer = bytearray()
        self._searched = 0
        self._process: Process | None = None
        self._ears: _Ears | None = None

    def begin(self, process: Process, spawned_ns: int) -> None:
        """Send the job."""
        self._process, self._spawned_ns = process, spawned_ns
        self._ears = _Ears(process)
        self.say(self._job_message())

    def say(self, message: bytes) -> None:
        """Send `message`. That a dead worker does not hear it is found when listening."""
        assert self._process is not None
        with contextlib.suppress(BrokenPipeError, ConnectionError, ValueError):
            self._process.stdin.write(message)
            self._process.stdin.flush()

    def close(self) -> None:
        """Stop listening."""
        if self._ears is not None:
            self._ears.close()
            self._ears = None

    def listen(self, until: str = "done") -> bool:
        """Read until a message of kind `until`; False where the worker is done, has failed, is silent or is gone."""
        assert self._ears is not None
        self._last = time.monotonic() + self._longest()
        self._renew()
        if self._consume(until):
            return True
        while not self.done and self.result.failure is None:
            piece = self._ears.listen(self._deadline - time.monotonic())
            if piece == b"":
                break
            self._buffer += piece or b""
            if self._consume(until):
                return True
            # What it sends is no excuse: only a message moves the deadline, and none moves it for ever.
            if not self.done and self.result.failure is None and time.monotonic() >= self._deadline:
                self.result.failure = self._timed_out()
        return self.done and until == "done"

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
            turns=request.turns,
            samples=request.samples,
            cores=list(request.cores),
            memory_limit=job.target.memory_limit_bytes or available_memory(),
        )

    def _renew(self) -> None:
        """The worker was heard of; it must be again within its limit, and be done with its phase by the last moment."""
        self._deadline = min(time.monotonic() + self._limit(), self._last, self._end_by or math.inf)

    def _longest(self) -> float:
        """How long this phase, or what the worker was ordered to do, may last in all, however alive it is.

        The first inference tells what the others take, since it is the slowest.
        """
        workload = self.request.job.workload
        stopping, fps = workload.stopping, workload.scenario.fps
        count = (stopping.iterations or 0) + (stopping.warmup or 0) + _LEAST
        each = max(self.result.samples.get("latency_first", [0])) / 1e9 + (1.0 / fps if fps else 0.0)
        return SLACK * (self._limit() + count * each + (stopping.duration_s or stopping.max_s))

    def _is_over(self) -> bool:
        """Whether the time of this worker is over, however much it has to say."""
        return self._end_by is not None and time.monotonic() >= self._end_by

    def _limit(self) -> float:
        """How long the worker may be silent: the limit that was given, plus what the scenario is silent by itself."""
        scenario, stopping = self.request.job.workload.scenario, self.request.job.workload.stopping
        silent = 0.0
        if self.phase == "steady" and scenario.kind == "offline":
            silent = stopping.duration_s or OFFLINE_S
        if self.phase == "steady" and scenario.fps:
            silent = 1.0 / scenario.fps
        return stopping.timeout_s + silent

    def _consume(self, until: str) -> bool:
        """Understand the lines that are there, up to one of kind `until`; whether there was one."""
        buffer = self._buffer
        while (end := buffer.find(b"\n", self._searched)) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            self._searched = 0
            try:
                message = decode(line)
                self._count(message, size=len(line))
                self._understand(message)
                self._renew()
            except (ProtocolError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                self.result.failure = self._garbage(str(error))
            if self.done or self.result.failure is not None:
                return self.done and until == "done"
            if self.heard == until:
                return True
        self._searched = len(buffer)
        if len(buffer) > MAX_TOLD_BYTES:
            self.result.failure = self._garbage("a line without an end")
        return False

    def _count(self, message: Mapping[str, Any], *, size: int) -> None:
        """Keep what the result can grow to within bounds. Raises `ProtocolError`."""
        if message["kind"] not in _UNKEPT:
            self._told, self._told_bytes = self._told + 1, self._told_bytes + size
            if self._told > MAX_TOLD or self._told_bytes > MAX_TOLD_BYTES:
                raise ProtocolError("it tells more than any run has")

    def _understand(self, message: Mapping[str, Any]) -> None:
        result = self.result
        self.heard = str(message["kind"])
        match message["kind"]:
            case "hello":
                result.pid, result.python = int(message["pid"]), str(message["python"])
                # Both clocks are this machine's monotonic clock.
                result.phases["python"] = (int(message["started_ns"]) - self._spawned_ns) / 1e9
            case "phase" if message["event"] == "begin":
                self.phase = str(message["name"])
                self._begun[self.phase] = int(message["at_ns"])
                self._last = time.monotonic() + self._longest()
            case "phase":
                name = str(message["name"])
                result.phases[name] = (int(message["at_ns"]) - self._begun[name]) / 1e9
            case "progress":
                if self.progress is not None:
                    self.progress(int(message["done"]), float(message["average_s"]))
            case "ready" | "turned" | "inferred":
                self._check_asked(self.heard)
                result.answers = self.folder / Path(str(message.get("file", ""))).name
                result.answer_ns = [int(value) for value in message.get("times_ns", ())]
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
        if not self.may_end:
            raise ProtocolError("done before it was told to end")
        if self.request.profile:
            if result.profile is None:
                raise ProtocolError("done without layers")
            return
        if self.request.samples:
            return
        lacking = [
            name for name in ("python", "prepare", "import", "load", "first", "steady") if name not in result.phases
        ]
        lacking += [name for name in (samples, "latency_first") if name not in result.samples]
        lacking += [name for name in ("steady", "effective") if not isinstance(result.facts.get(name), dict)]
        if lacking:
            raise ProtocolError(f"done without {', '.join(lacking)}")

    def _check_asked(self, kind: str) -> None:
        """Whether turns, or samples, were asked for at all. Raises `ProtocolError`."""
        turns, samples = self.request.turns, self.request.samples
        if not {"ready": turns or samples, "turned": turns, "inferred": samples}[kind]:
            raise ProtocolError(f"{kind} that nobody asked for")

    def _failed(self, message: Mapping[str, Any]) -> Failure:
        cause: Cause = message["cause"] if message["cause"] in get_args(Cause) else "EngineError"
        advice = ADVICE.get(cause, "")
        words = str(message["message"])[:MAX_WORDS]
        failure = Failure(cause=cause, message=words, phase=self.phase, advice=advice)
        if refuses_sizes(failure, self.request.job):
            failure = replace(failure, advice=_size_advice(self.request.job))
        return failure

    def _timed_out(self) -> Failure:
        limit = self._limit()
        if self._is_over():
            self.out_of_time = True
            message = f"the time budget ended in phase '{self.phase}'; the worker was ended"
            return Failure(cause="Timeout", message=message, phase=self.phase, advice="give more with --time-budget")
        message = f"nothing was heard in phase '{self.phase}' for {limit:g} s; the worker was killed"
        if time.monotonic() >= self._last:
            message = f"phase '{self.phase}' did not end, though the worker was alive; it was killed"
        return Failure(cause="Timeout", message=message, phase=self.phase, advice=ADVICE["Timeout"])

    def _garbage(self, what: str) -> Failure:
        return Failure(cause="Garbage", message=f"the worker broke the protocol: {what[:200]}", phase=self.phase)


def refuses_sizes(failure: Failure | None, job: Job) -> bool:
    """Whether an engine failed on inputs whose sizes were assumed, in a way that other sizes may mend."""
    if failure is None or not any(ASSUMED in spec.note for spec in job.workload.inputs):
        return False
    if failure.cause == "Unsupported":
        return failure.message.startswith(REFUSES)
    return failure.cause == "EngineError" and failure.phase in ("load", "first", "samples")


def _size_advice(job: Job) -> str:
    """What to do about sizes that were assumed and refused."""
    assumed = [spec for spec in job.workload.inputs if ASSUMED in spec.note]
    shapes = " ".join(f"--shape {spec.name}={'x'.join(map(str, spec.shape))}" for spec in assumed if spec.shape)
    values = [spec.name for spec in assumed if spec.value is not None]
    advice = f"the sizes were assumed; give the model's own instead of {shapes}" if shapes else ""
    return advice + (f"{', and ' if shapes else 'give '}{', '.join(values)} with --input-data" if values else "")


def available_memory() -> int | None:
    """Bytes a worker may allocate without driving the machine into swap, or None where the system does not tell."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(int(line.split()[1]) * 1024 * MEMORY_SHARE)
    return None
