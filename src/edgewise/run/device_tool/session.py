"""One session of a benchmark tool on a device: send its files, execute it, and turn any end into a result."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from edgewise.child_process import signal_name
from edgewise.clock import now
from edgewise.device.link import LinkLost, TargetError
from edgewise.device.target import LinkUse, RemoteTarget, digest_of
from edgewise.device.transport import RunsPrograms, ShellResult
from edgewise.model.identity import open_model
from edgewise.profiling.message import read_profile
from edgewise.record import Failure, Job
from edgewise.record.run import Cause
from edgewise.run.device_tool.phone import PATIENCE_S, read_conditions
from edgewise.run.host import files_of
from edgewise.run.host_protocol import ADVICE, SessionRequest, SessionResult
from edgewise.runtime.base import UnsupportedModel
from edgewise.runtime.device_tools import DeviceTool, ToolAnswer, ToolMode, ToolRequest
from edgewise.text import means_out_of_memory, one_line, printable

MOST_OUTPUT = 16 * 2**20
MOST_RESULTS = 64 * 2**20
TAIL = 4000
LEAST_RUNS, SECONDS, MOST_SECONDS = 20, 1.0, 15.0
"""Inferences, least and most measuring time, s, of a session where the user sets none."""

_BAD_MODEL = re.compile(
    r"failed to (?:load|mmap) model|could not open|not a valid flatbuffer|model identifier|protobuf parsing failed|"
    r"invalid model|error loading model|load model .* failed",
    re.IGNORECASE,
)


class ToolFailed(Exception):
    """The tool ended without an answer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def measure_session(
    result: SessionResult,
    tool: DeviceTool,
    request: SessionRequest,
    *,
    target: RemoteTarget,
    program: str,
    end_by: float | None,
) -> None:
    """Execute the tool once on the device, and once more for its memory in the first session.

    Args:
        program: path of the tool on the device, or of a file on this machine.
        end_by: monotonic time, s, at which the tool is given up.

    Raises `ToolFailed`, `UnsupportedModel`, `EdgewiseError` and OSError.
    """
    transport, job = target.transport, request.job
    assert isinstance(transport, RunsPrograms) and result.link is not None
    if job.target.constraints is not None or job.target.memory_limit_bytes is not None:
        raise TargetError("limits are held on this machine only")
    mode: ToolMode = "layers" if request.mode == "layers" else "measure"
    if mode not in tool.modes:
        message = f"{tool.name} does not time layers"
        raise ToolFailed(Failure(cause="Unavailable", message=message, phase="profile"))
    begin = now()
    files = files_of(job, is_here=False)
    root = transport.home / "edgewise"
    folder = root / "models" / job.model.sha256[:32]
    _place(transport, {str(folder / name): file for name, file in files.items()}, result.link)
    own = Path(program).expanduser()
    if own.is_file():
        program = str(root / "tools" / digest_of(own)[:32] / tool.name)
        _place(transport, {program: own}, result.link, executable=True)
    result.link.push_s = now() - begin
    asked = _request(
        job,
        program=program,
        model=str(folder / "model" / Path(job.model.path).name),
        results=str(root / f"results-{job.key}.csv"),
        mode=mode,
    )
    before = read_conditions(transport)
    answer = _execute(tool, transport, asked, timeout_s=job.workload.stopping.timeout_s, end_by=end_by)
    result.facts["conditions"] = {"before": before, "after": read_conditions(transport)}
    if not answer.applied:
        raise UnsupportedModel(f"{tool.name} did not apply {asked.provider}: the model ran on other kernels")
    if answer.ignored:
        raise UnsupportedModel(f"this {tool.name} does not know {answer.ignored}")
    memory = dict(answer.memory)
    if mode == "measure" and request.index == 0 and "memory" in tool.modes:
        asked = _request(job, program=program, model=asked.model, results=asked.results, mode="memory")
        more = _execute(tool, transport, asked, timeout_s=job.workload.stopping.timeout_s, end_by=end_by)
        memory |= {name: value for name, value in more.memory.items() if name == "peak"}
    result.samples["latency"] = list(answer.latency_ns)
    if answer.first_ns is not None:
        result.samples["latency_first"] = [answer.first_ns]
    if answer.load_ns is not None:
        result.phases["load"] = answer.load_ns / 1e9
    result.facts["tool"] = {"statistics": dict(answer.statistics), "memory": memory}
    delegates = [dict(each) for each in answer.delegates]
    effective = {"provider": asked.provider, "threads": answer.threads, "precision": None, "delegates": delegates}
    result.facts["effective"] = effective
    result.facts["steady"] = {"stopped_because": "the tool's own rule"}
    result.profile = answer.profile


def _place(transport: RunsPrograms, files: Mapping[str, Path], use: LinkUse, *, executable: bool = False) -> None:
    """Make sure that the device has files, path there → file here; one that is there with its SHA-256 is not sent.

    Raises OSError.
    """
    names = " ".join(map(shlex.quote, files))
    there = set(
        re.findall(r"^([0-9a-f]{64})\s+(\S.*?)\s*$", _shell(transport, f"sha256sum {names}").output, re.MULTILINE)
    )
    for path, file in files.items():
        size, digest = file.stat().st_size, digest_of(file)
        if (digest, path) in there:
            use.kept_bytes += size
            continue
        part, quoted = f"{path}.part", shlex.quote(path)
        made = _shell(transport, f"mkdir -p {shlex.quote(path.rpartition('/')[0])}")
        if made.code:
            raise TargetError(f"no folder can be made in {transport.home}: {one_line(made.errors.strip())[-300:]}")
        try:
            transport.push(file, part)
        except TargetError:
            _shell(transport, f"rm -f {shlex.quote(part)}")  # a part of a file only fills the disk
            raise
        mode = "chmod 755" if executable else "chmod 644"
        line = f"sha256sum {shlex.quote(part)} && {mode} {shlex.quote(part)} && mv {shlex.quote(part)} {quoted}"
        done = _shell(transport, line)
        if done.code or not done.output.startswith(digest):
            reason = one_line(done.errors.strip())[-300:] or "its content differs"
            raise TargetError(f"{file.name} was not stored on the device: {reason}", advice="check its free space")
        use.pushed_bytes += size
        use.sent_bytes += size


def _shell(transport: RunsPrograms, line: str, *, most: int = 2**20) -> ShellResult:
    try:
        return transport.shell(line, timeout_s=PATIENCE_S + 30.0, most=most)
    except TimeoutError as error:
        raise LinkLost(f"no answer within {PATIENCE_S + 30.0:g} s") from error


def _request(job: Job, *, program: str, model: str, results: str, mode: ToolMode) -> ToolRequest:
    """Return what a session measures: the user's numbers, otherwise at least `LEAST_RUNS` inferences and `SECONDS`."""
    stopping = job.workload.stopping
    runs, seconds, most = stopping.iterations, stopping.duration_s, MOST_SECONDS
    if runs is not None or seconds is not None:
        most = max(stopping.timeout_s, seconds or 0.0)
    else:
        runs, seconds = LEAST_RUNS, SECONDS
    own = {spec.name: spec.shape for spec in open_model(job.model).signature.inputs}
    return ToolRequest(
        program=program,
        model=model,
        results=results,
        provider=job.runtime.provider or "",
        precision=job.runtime.precision,
        threads=job.runtime.threads,
        runs=3 if mode == "memory" else runs,
        warmup=stopping.warmup,
        seconds=None if mode == "memory" else seconds,
        most_seconds=most,
        inputs={spec.name: (own.get(spec.name), spec.shape) for spec in job.workload.inputs},
        mode=mode,
    )


def _execute(
    tool: DeviceTool, transport: RunsPrograms, request: ToolRequest, *, timeout_s: float, end_by: float | None
) -> ToolAnswer:
    """Execute the tool and read what it printed. Raises `ToolFailed`, `UnsupportedModel` and OSError."""
    command = shlex.join(tool.command(request))
    results = shlex.quote(request.results)
    patience = timeout_s + 2 * request.most_seconds
    if end_by is not None:
        patience = min(patience, max(0.0, end_by - now()))
    try:
        # The tool's own folder is where it finds libraries that were copied beside it.
        libraries = shlex.quote(request.program.rpartition("/")[0])
        line = f"rm -f {results}; LD_LIBRARY_PATH={libraries} {command} 2>&1"
        done = transport.shell(line, timeout_s=patience, most=MOST_OUTPUT)
        answer = _shell(transport, f"cat {results}; rm -f {results}", most=MOST_RESULTS) if done.code == 0 else done
    except TimeoutError as error:
        message = f"{tool.name} had not ended after {patience:.3g} s and was killed"
        raise ToolFailed(Failure(cause="Timeout", message=message, phase="steady", advice=ADVICE["Timeout"])) from error
    except TargetError as error:
        if "the answer has more" not in str(error):
            raise
        raise ToolFailed(Failure(cause="Garbage", message=f"{tool.name}: {error}", phase="steady")) from error
    if done.code:
        raise ToolFailed(_failure(tool, done))
    try:
        told = tool.read(done.output, answer.output, request)
        return told if told.profile is None else replace(told, profile=read_profile(asdict(told.profile)))
    except (ValueError, ArithmeticError, LookupError) as error:
        message = f"the output of {tool.name} can't be read: {one_line(str(error))[:300]}"
        advice = "check the version of the tool; docs/targets.md names those that are known"
        tail = printable(done.output[-TAIL:]).strip()
        failure = Failure(cause="Garbage", message=message, phase="steady", advice=advice, stderr_tail=tail)
        raise ToolFailed(failure) from error


def _failure(tool: DeviceTool, done: ShellResult) -> Failure:
    """Why the tool ended with another exit code than 0."""
    told = printable(done.output[-TAIL:]).strip()
    lines = told.splitlines() or [""]
    # The first error is the cause; the last line often says only that the benchmark failed.
    last = one_line(next((line for line in lines if "error" in line.lower()), lines[-1]))[:300]
    name = signal_name(done.code - 128) if done.code > 128 else None
    cause: Cause = "EngineError"
    advice = "try another provider with ⟦provider⟧, or report the model to the engine's authors"
    if done.code in (126, 127) or "CANNOT LINK EXECUTABLE" in told:
        cause, what = "Unavailable", "can't be executed there"
        advice = (
            "use a build for the device's ABI ('edgewise devices check' tells it), executable, below /data/local/tmp"
        )
    elif means_out_of_memory(told):
        cause, what, advice = "OutOfMemory", "ran out of memory", "use a smaller model or ⟦batch=1⟧"
    elif name == "SIGKILL":
        cause, what = "Killed", "was killed"
        advice = "Android kills processes when memory runs out: close apps, or use a smaller model"
    elif name is not None:
        what = f"crashed ({name})"
    elif "Failed to apply" in told:
        cause, what, advice = "Unsupported", "could not apply the delegate", ADVICE["Unsupported"]
    elif _BAD_MODEL.search(told):
        cause, what, advice = "BadModel", "can't read the model", ADVICE["BadModel"]
    else:
        what = f"ended with exit code {done.code}"
    return Failure(
        cause=cause,
        message=f"{tool.name} {what}" + (f": {last}" if last and name is None else ""),
        phase="steady",
        advice=advice,
        exit_code=done.code if name is None else None,
        signal=name,
        stderr_tail=told,
    )
