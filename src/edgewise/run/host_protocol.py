"""The host's side of the protocol: sends orders, reads messages with a deadline, and checks what they mean.

The host blocks on the channel with a deadline and never polls: a polling parent slows its child. A crash, a hang, an
out-of-memory kill or garbage is a result like any other: a `SessionResult` with a failure.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from edgewise.cancellation import wait_readable
from edgewise.clock import now
from edgewise.device.link import FREE_SPACE
from edgewise.device.target import LinkUse
from edgewise.device.transport import Process, TellsEnd
from edgewise.profiling.message import read_profile
from edgewise.progress import BinDone, InferencesDone, LogLine, RequestsDone, emit
from edgewise.record import Failure, Job
from edgewise.record.run import Cause
from edgewise.run.language_models import longest_context
from edgewise.run.metering import KINDS, MeterThread, check_metered, collect, slowest_rate
from edgewise.run.meters.base import Meter
from edgewise.run.protocol import MAX_TOLD, MAX_TOLD_BYTES, PROTOCOL, Mode, ProtocolError, decode, encode
from edgewise.run.sustained.timing import MOST_BINS, end_windows, values_of
from edgewise.run.timing import OFFLINE_S
from edgewise.run.told_facts import check_facts
from edgewise.runtime.arrays import REFUSES
from edgewise.runtime.base import EngineProfile
from edgewise.text import means_disk_full
from edgewise.workload.input_shapes import ASSUMED

SLACK = 10
"""A phase with `alive` messages may take this many times what the timeout and the first inference let expect."""
MAX_WORDS = 10_000
"""Characters of a worker's message that a run keeps."""
_LEAST = 20
"""Inferences that every steady phase may have, whatever was asked for."""

ADVICE = {
    "Timeout": "raise ⟦timeout⟧, or check whether the model hangs in this engine",
    "OutOfMemory": "raise ⟦memory_limit⟧, lower ⟦batch⟧, or use a smaller model",
    "Unsupported": "try another runtime with ⟦runtime⟧, or convert the model",
    "BadModel": "check the file with the tool that made it",
    "ClockJumped": "run it again; if the device was suspended, or its clock was set, prevent that while measuring",
    "LinkLost": "check the connection and run it again; files already on the target are not sent again",
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
        bins: of a sustained measurement, each a row of `edgewise.record.Sustained.series`.
        answers: after ``inferred``: the file with the outputs of the last samples.
        answer_ns: how long each of them took, copying in and out included.
        link: what went over the link to the target; None on this machine.
        clock_jump: why no time of this session can be used: the target's clock jumped; "" where it did not.
        failure: why there is no complete result, or None.
    """

    index: int
    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    pid: int = 0
    python: str = ""
    phases: dict[str, float] = field(default_factory=dict)
    samples: dict[str, list[int]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[Path, list[str]] | None = None
    profile: EngineProfile | None = None
    bins: list[dict[str, float | None]] = field(default_factory=list)
    answers: Path | None = None
    answer_ns: list[int] = field(default_factory=list)
    link: LinkUse | None = None
    clock_jump: str = ""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """What a worker is asked to do.

    Attributes:
        runtime: where the runtime's class is, ``"module:Class"``.
        meters: where the classes of the meters are that the worker reads.
        beside: meters that are read here while the worker works.
        options: `edgewise.runtime.base.LoadOptions` as a mapping.
        outputs: whether the outputs are wanted.
    """

    job: Job
    index: int
    runtime: str
    options: Mapping[str, Any]
    mode: Mode = "measure"
    meters: tuple[str, ...] = ()
    beside: tuple[Meter, ...] = ()
    outputs: bool = False


_UNKEPT = frozenset({"alive", "progress", "speed", "ready", "counted", "turned", "inferred"})
"""Kinds of messages that the result does not grow with."""


class HostProtocol:
    """The protocol with one worker: a line buffer, the deadline of the current phase, and a meaning for each message.

    Attributes:
        latest: the kind of the latest message.
        done: whether the worker sent ``done``.
        may_end: whether it was told that it may, where it has to wait for that.
        out_of_time: whether it was ended because of `end_by`.

    Args:
        end_by: monotonic time, s, at which the worker is ended whatever it does; None sets no limit.
    """

    def __init__(
        self,
        request: SessionRequest,
        *,
        folder: Path,
        result: SessionResult,
        end_by: float | None = None,
    ) -> None:
        self.request = request
        self.folder = folder
        self.result = result
        self.phase = "python"
        self.latest = ""
        self.done = False
        self.may_end = request.mode not in ("turns", "samples")
        self.out_of_time = False
        self._end_by = end_by
        self._begun: dict[str, int] = {}
        self._deadline = self._last = 0.0
        self.sent_bytes = self.received_bytes = 0
        self._told = self._told_bytes = 0
        self._spawned_ns: int | None = None
        self._window = ""
        self._meters = [MeterThread(meter) for meter in request.beside]
        self._metered: dict[str, dict[str, Any]] = {
            kind: {"windows": 0, "readings": [], "problems": []} for kind in KINDS
        }
        self._buffer = bytearray()
        self._searched = 0
        self._process: Process | None = None
        self._end: int | None = None  # readable once the process has ended

    def begin(self, process: Process, *, spawned_ns: int | None, folder: str, paths: Mapping[str, str]) -> None:
        """Send the job.

        Args:
            spawned_ns: when the process was started, on the clock of its machine; None where the worker tells.
            folder, paths: the workspace and the files in it, as the worker sees them.
        """
        self._process, self._spawned_ns = process, spawned_ns
        self._end = process.end_descriptor() if isinstance(process, TellsEnd) else None
        self.send(self._job_message(folder, paths))

    def send(self, message: bytes) -> None:
        """Send `message`. A dead worker is noticed by the next read."""
        assert self._process is not None
        self.sent_bytes += len(message)
        with contextlib.suppress(BrokenPipeError, ConnectionError, ValueError):
            self._process.stdin.write(message)
            self._process.stdin.flush()

    def use_host_time(self, wall_offset_s: float) -> None:
        """Convert times of day in the worker's result from its clock to this machine's."""
        for reading in dict(self.result.facts.get("reference") or {}).values():
            if isinstance(reading, dict) and isinstance(reading.get("at"), int | float):
                reading["at"] -= wall_offset_s

    def close(self) -> None:
        """Close the descriptor of the process's end."""
        for meter in self._meters:
            meter.close()
        if self._end is not None:
            os.close(self._end)
            self._end = None

    def wait_for(self, until: str = "done") -> bool:
        """Read until a message of kind `until`; False if the worker finishes, fails, is silent too long, or ends."""
        self._last = now() + self._longest()
        self._renew()
        if self._consume(until):
            return True
        while not self.done and self.result.failure is None:
            patience = self._deadline - now()
            piece = self._read(patience)
            if piece == b"":
                break
            self._buffer += piece or b""
            self.received_bytes += len(piece or b"")
            if self._consume(until):
                return True
            # Bytes do not move the deadline, only messages do, and none beyond the end of the phase.
            if not self.done and self.result.failure is None and now() >= self._deadline:
                self.result.failure = self._timed_out()
        return self.done and until == "done"

    def _read(self, seconds: float) -> bytes | None:
        """Return the bytes that are there, at least one; empty at the end of the stream; None after `seconds`
        without any.

        A child that an engine forked may hold the channel open, so the end of the process ends the stream too. Raises
        `edgewise.cancellation.Cancelled`.
        """
        assert self._process is not None
        channel = self._process.stdout.fileno()
        ready = wait_readable([channel] if self._end is None else [channel, self._end], seconds)
        if channel in ready:
            return os.read(channel, 2**20)
        return b"" if ready else None

    def _job_message(self, folder: str, paths: Mapping[str, str]) -> bytes:
        request, job = self.request, self.request.job
        workload = asdict(job.workload) | {"input_path": paths.get("input")}
        return encode(
            "job",
            protocol=PROTOCOL,
            runtime=request.runtime,
            model=paths[f"model/{Path(job.model.path).name}"],
            model_files=[path for name, path in paths.items() if name.startswith("model/")],
            options=dict(request.options),
            workload=workload,
            stopping=asdict(job.workload.stopping),
            folder=folder,
            meters=list(request.meters),
            beside=bool(request.beside),
            beside_rate_hz=slowest_rate(request.beside),
            outputs=request.outputs,
            mode=request.mode,
            session=request.index,
            memory_limit=job.target.memory_limit_bytes,
            longest_context=longest_context(job.model) if job.workload.scenario.kind == "generate" else None,
        )

    def _renew(self) -> None:
        """Note that a message came: the next one is due within the limit, and the end of the phase by the last
        moment.
        """
        self._deadline = min(now() + self._limit(), self._last, self._end_by or math.inf)

    def _longest(self) -> float:
        """How long this phase or order may last in all, whatever the worker sends.

        The first inference bounds the time of the others, since it is the slowest.
        """
        workload = self.request.job.workload
        stopping, fps = workload.stopping, workload.scenario.fps
        count = (stopping.iterations or 0) + (stopping.warmup or 0) + _LEAST
        first = self.result.samples.get("latency_first") or self.result.samples.get("request_first", [0])
        each = max(first) / 1e9 + (1.0 / fps if fps else 0.0)
        measuring_s = workload.scenario.sustained_s or stopping.duration_s or stopping.max_s
        return SLACK * (self._limit() + count * each + measuring_s)

    def _limit(self) -> float:
        """How long the worker may be silent: the timeout, plus the time in which the scenario sends nothing."""
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
            if self.latest == until:
                return True
        self._searched = len(buffer)
        if len(buffer) > MAX_TOLD_BYTES:
            self.result.failure = self._garbage("a line without an end")
        return False

    def _count(self, message: Mapping[str, Any], *, size: int) -> None:
        """Keep what the result can grow to within bounds. Raises `ProtocolError`."""
        if message["kind"] not in _UNKEPT:
            self._told += message["kind"] != "bin"  # whose number is limited where they are kept
            self._told_bytes += size
            if self._told > MAX_TOLD or self._told_bytes > MAX_TOLD_BYTES:
                raise ProtocolError("it sends more than any run needs")

    def _understand(self, message: Mapping[str, Any]) -> None:
        result = self.result
        self.latest = str(message["kind"])
        match message["kind"]:
            case "hello":
                result.pid, result.python = int(message["pid"]), str(message["python"])
                # Both times are of the clock of the worker's machine.
                spawned_ns = int(message["spawned_ns"]) if self._spawned_ns is None else self._spawned_ns
                result.phases["python"] = (int(message["started_ns"]) - spawned_ns) / 1e9
            case "phase" if message["event"] == "begin":
                self._begin_phase(str(message["name"]), int(message["at_ns"]))
            case "phase":
                name = str(message["name"])
                result.phases[name] = (int(message["at_ns"]) - self._begun[name]) / 1e9
                self._watch_bins(begins=False)
            case "progress" | "speed" | "window" | "bin":
                self._follow(message)
            case "ready" | "counted" | "turned" | "inferred":
                self._check_asked(self.latest)
                result.answers = self.folder / Path(str(message.get("file", ""))).name
                result.answer_ns = [int(value) for value in message.get("times_ns", ())]
            case "samples":
                result.samples[str(message["name"])] = [int(value) for value in message["values_ns"]]
            case "facts":
                check_facts(message["values"])
                result.facts |= message["values"]
                if "meters" in message["values"]:
                    self._add_readings(result.facts["meters"])
                    check_metered(result.facts["meters"])
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

    def _begin_phase(self, name: str, at_ns: int) -> None:
        self.phase = name
        self._begun[name] = at_ns
        if name == "compile" and self.request.index == 0:
            runtime, model = self.request.job.runtime, self.request.job.model
            emit(LogLine(text=f"{runtime.name}/{runtime.provider} compiles {model.name}, which may take minutes"))
        self._watch_bins(begins=True)
        self._last = now() + self._longest()

    def _follow(self, message: Mapping[str, Any]) -> None:
        """Tell the progress in force, keep a bin, or read the meters beside this machine while the worker works."""
        if message["kind"] == "bin":
            self._keep_bin(message)
            return
        if message["kind"] == "progress":
            emit(InferencesDone(done=int(message["done"]), average_s=float(message["average_s"])))
            return
        if message["kind"] == "speed":
            emit(_speed_of(message))
            return
        name, begins = str(message["name"]), message["event"] == "begin"
        if not self.request.beside or name not in KINDS or begins == bool(self._window):
            raise ProtocolError("a window for meters that was not asked for")
        self._window = name if begins else ""
        if begins:
            for meter in self._meters:
                meter.begin()
            return
        link = self.result.link
        late = "" if link is None else f": late by up to {link.clock_error_s:.2g} s over the link"
        found = self._metered[name]
        collect(found, self._meters, index=found["windows"], note=f", read by the host{late}")
        found["windows"] += 1

    def _add_readings(self, metered: dict[str, Any]) -> None:
        """Add what the meters beside this machine read to what the worker told."""
        metered["sensors"] += [meter.traits for meter in self._meters]
        for kind in metered.keys() & self._metered.keys():
            for key in ("readings", "problems"):
                metered[kind][key] += self._metered[kind][key]

    def _watch_bins(self, *, begins: bool) -> None:
        """Begin or end reading the meters beside this machine over a sustained measurement."""
        if self.request.job.workload.scenario.sustained_s is None or self.phase != "steady" or not self.request.beside:
            return
        self._window = "bins" if begins else ""
        for meter in self._meters:
            if begins:
                meter.begin()
            else:
                meter.end()

    def _keep_bin(self, message: Mapping[str, Any]) -> None:
        """Keep a bin of a sustained measurement with its readings and samples. Raises `ProtocolError`."""
        scenario, bins = self.request.job.workload.scenario, self.result.bins
        if scenario.sustained_s is None or self.phase != "steady" or len(bins) >= MOST_BINS:
            raise ProtocolError("a bin that was not requested")
        row: dict[str, Any] = {name: message.get(name) for name in ("begin_s", "end_s", "inferences", "median", "max")}
        row |= {name: message[name] for name in ("p99", "missed") if name in message}
        row |= dict(message["counters"]) | dict(message["readings"])
        self.result.facts.setdefault("meter_problems", {}).update(message["problems"])
        if self._meters:
            readings, problems = end_windows(self._meters)
            row |= values_of(readings, float(row["end_s"]) - float(row["begin_s"]))
            self.result.facts["meter_problems"] |= problems
            for meter in self._meters:
                meter.begin()
        bins.append({str(name): None if value is None else float(value) for name, value in row.items()})
        samples = self.result.samples.setdefault(scenario.headline, [])
        samples += map(int, message["values_ns"])
        emit(BinDone(elapsed_s=bins[-1]["end_s"] or 0.0, total_s=scenario.sustained_s, latency_s=float(row["median"])))

    def _check_complete(self) -> None:
        """Whether everything that a run is made of was told. Raises `ProtocolError`."""
        result = self.result
        scenario = self.request.job.workload.scenario
        is_cold = scenario.kind == "cold-start"
        samples = "completions" if scenario.kind == "offline" else "latency_first" if is_cold else scenario.headline
        if not self.may_end:
            raise ProtocolError("done before the host ended the session")
        if self.request.mode == "layers" and result.profile is None:
            raise ProtocolError("done without layers")
        if self.request.mode in ("layers", "samples"):
            return
        if scenario.kind == "generate":
            _check_requests(result)
            first = "ttft_first"
        else:
            first = "latency_first"
        phases = ("python", "prepare", "import", "load", "first", *(() if is_cold else ("steady",)))
        lacking = [name for name in phases if name not in result.phases]
        lacking += [name for name in (samples, first) if name not in result.samples]
        lacking += [name for name in ("steady", "effective") if not isinstance(result.facts.get(name), dict)]
        if lacking:
            raise ProtocolError(f"done without {', '.join(lacking)}")

    def _check_asked(self, kind: str) -> None:
        """Whether turns, or samples, were asked for at all. Raises `ProtocolError`."""
        if self.request.mode not in {"ready": ("turns", "samples"), "inferred": ("samples",)}.get(kind, ("turns",)):
            raise ProtocolError(f"{kind} without an order")

    def _failed(self, message: Mapping[str, Any]) -> Failure:
        cause: Cause = message["cause"] if message["cause"] in get_args(Cause) else "EngineError"
        advice = str(message.get("advice") or ADVICE.get(cause, ""))[:MAX_WORDS]
        words = str(message["message"])[:MAX_WORDS]
        if cause == "EngineError" and means_disk_full(words):
            here = self.result.link is None
            cause, advice = "Unavailable", "free space in the temporary folder" if here else FREE_SPACE
        failure = Failure(cause=cause, message=words, phase=self.phase, advice=advice)
        if refuses_sizes(failure, self.request.job):
            failure = replace(failure, advice=_size_advice(self.request.job))
        return failure

    def _timed_out(self) -> Failure:
        limit = self._limit()
        if self._end_by is not None and now() >= self._end_by:
            self.out_of_time = True
            message = f"the time budget ended in phase '{self.phase}', so the host ended the worker"
            return Failure(cause="Timeout", message=message, phase=self.phase, advice="raise ⟦time_budget⟧")
        message = f"no message from the worker for {limit:g} s in phase '{self.phase}'; the host killed it"
        if now() >= self._last:
            message = f"phase '{self.phase}' did not end, although the worker sent messages; it was killed"
        advice = (
            "raise ⟦timeout⟧: compiling a large model takes minutes" if self.phase == "compile" else ADVICE["Timeout"]
        )
        return Failure(cause="Timeout", message=message, phase=self.phase, advice=advice)

    def _garbage(self, what: str) -> Failure:
        return Failure(cause="Garbage", message=f"the worker broke the protocol: {what[:200]}", phase=self.phase)


def _speed_of(message: Mapping[str, Any]) -> RequestsDone:
    """Return what a worker sends between requests of a language model. Raises ValueError."""
    numbers = {name: message[name] for name in ("elapsed_s", "prefill_rate", "decode_rate")}
    if not all(each is None or 0 < each < math.inf for each in numbers.values()):
        raise ValueError("a speed is not above 0")
    return RequestsDone(done=int(message["done"]), **numbers)


def _check_requests(result: SessionResult) -> None:
    """Whether requests of a language model and their samples belong together. Raises `ProtocolError`."""
    told = result.facts.get("generation", {})
    counts = [len(result.samples.get(name, ())) for name in ("ttft", "ttft_model")]
    counts += [len(told.get(name, ())) for name in ("prompt_tokens", "gaps", "first_text_s")]
    numbers = [*told.get("prompt_tokens", ()), *told.get("gaps", ())]
    if len(set(counts)) != 1 or not counts[0] or not all(type(each) is int and each > 0 for each in numbers):
        raise ProtocolError("requests without their times")
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in told["first_text_s"]):
        raise ProtocolError("a request without the time of its first text")
    if not all(map(_is_answer, told.get("answers", ()))):
        raise ProtocolError("answers that are no tokens")
    if sum(told["gaps"]) != len(result.samples.get("tpot", ())) or not sum(result.samples["tpot"]):
        raise ProtocolError("tokens without their times")


def _is_answer(told: Any) -> bool:
    """Whether it is a prompt and the new tokens behind it."""
    pair = isinstance(told, list | tuple) and len(told) == 2 and isinstance(told[0], str)
    return pair and isinstance(told[1], list) and all(type(each) is int and each >= 0 for each in told[1])


def refuses_sizes(failure: Failure | None, job: Job) -> bool:
    """Whether an engine failed on inputs whose sizes were assumed, in a way that other sizes may mend."""
    if failure is None or not any(ASSUMED in spec.note for spec in job.workload.inputs):
        return False
    if failure.cause == "Unsupported":
        return failure.message.startswith(REFUSES)
    return failure.cause == "EngineError" and failure.phase in ("load", "first", "samples")


def _size_advice(job: Job) -> str:
    """Return what to do about sizes that were assumed and refused."""
    assumed = [spec for spec in job.workload.inputs if ASSUMED in spec.note]
    shapes = " ".join(f"⟦shape⟧ {spec.name}={'x'.join(map(str, spec.shape))}" for spec in assumed if spec.shape)
    values = [spec.name for spec in assumed if spec.value is not None]
    advice = f"the input sizes were assumed; give the model's real sizes instead of {shapes}" if shapes else ""
    return advice + (f"{', and ' if shapes else 'give '}{', '.join(values)} with ⟦input_data⟧" if values else "")
