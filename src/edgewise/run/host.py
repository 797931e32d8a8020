"""The host's side of one session: start a worker, read its messages until it exits, and turn any end into a result."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from edgewise.child_process import signal_name
from edgewise.clock import now
from edgewise.constraints.base import Group
from edgewise.device.link import LinkLost
from edgewise.device.target import LocalTarget, Target, Workspace
from edgewise.device.transport import LosesLink, Pauses, Process
from edgewise.device.transports.constrained import ConstrainedTransport
from edgewise.errors import EdgewiseError
from edgewise.model.identity import list_files
from edgewise.record import Failure, Job
from edgewise.record.run import Cause
from edgewise.run.host_protocol import ADVICE, HostProtocol, SessionRequest, SessionResult
from edgewise.run.protocol import encode
from edgewise.text import means_out_of_memory, printable
from edgewise.units import format_limit

WORKER = "edgewise.run.worker"
STDERR_TAIL = 4000
REAP_S = 10.0


class SessionInterrupted(KeyboardInterrupt):
    """Ctrl-C in a session that has measured something already, which is in `result`."""

    def __init__(self, result: SessionResult) -> None:
        super().__init__("interrupted")
        self.result = result


def run_session(request: SessionRequest, *, target: Target, folder: Path, end_by: float | None = None) -> SessionResult:
    """Run one fresh worker to its end, whatever that is.

    Args:
        end_by: monotonic time, s, at which the worker is given up.

    Raises KeyboardInterrupt after the worker was killed, `SessionInterrupted` where it had sent bins of a sustained
    measurement; everything else is in the result.
    """
    live = LiveSession(request, folder=folder, end_by=end_by)
    try:
        with live:
            live.start(target)
            live.wait_for("done")
    except KeyboardInterrupt as stop:
        if not live.result.bins:
            raise
        live.result.failure = None  # the user ended it
        raise SessionInterrupted(live.result) from stop
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
        end_by: float | None = None,
    ) -> None:
        self.result = SessionResult(index=request.index)
        self._request = request
        self._folder = folder
        self._end_by = end_by
        self._protocol = HostProtocol(request, folder=folder, result=self.result, end_by=end_by)
        self._process: Process | None = None
        self._dismissed = False
        self._paused = False
        self._oom_kills = 0
        self._stack = contextlib.ExitStack()
        self._group: Group | None = None
        self.workspace: Workspace | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            self._stack.close()
            return
        self._resume()
        with self._stack:
            try:
                if kind is None and not self._dismissed and self.result.failure is None and not self._protocol.done:
                    # The channel is closed; how the process ends is what the failure is made of.
                    with contextlib.suppress(TimeoutError):
                        self._process.wait(self._patience())
            finally:
                self._process.kill()
                self._protocol.close()
            self._pull_outputs()
            self._check_clock()
            self._conclude()

    def _patience(self) -> float:
        """How long a worker may take to exit after it closed its channel, s."""
        return REAP_S if self._end_by is None else max(0.0, min(REAP_S, self._end_by - now()))

    @property
    def out_of_time(self) -> bool:
        """Whether the worker was given up because its time was over."""
        return self._protocol.out_of_time

    def start(self, target: Target) -> None:
        """Start the worker and give it its job; a worker that can't be started is a failure in the result."""
        try:
            target = self._within_limits(target)
            files = files_of(self._request.job, is_here=target.is_here)
            workspace = self._stack.enter_context(target.workspace(self._folder, files))
            paths = {name: target.locate(workspace, name, file) for name, file in files.items()}
            self._oom_kills = workspace.oom_kills()
            spawned_ns = time.monotonic_ns() if target.is_here else None
            variables = (text.partition("=") for text in self._request.job.target.variables)
            self._process = workspace.start(WORKER, environment={name: value for name, _, value in variables})
        except OSError as error:
            cause: Cause = "LinkLost" if isinstance(error, LinkLost) else "Unavailable"
            message = f"the worker could not be started on {target.name}: {error}"
            advice = getattr(error, "advice", "") or ADVICE.get(cause, "")
            self.result.failure = Failure(cause=cause, message=message, phase="python", advice=advice)
            return
        self.workspace = workspace
        self.result.link = workspace.use
        self._protocol.begin(self._process, spawned_ns=spawned_ns, folder=str(workspace.path), paths=paths)

    def _within_limits(self, target: Target) -> Target:
        """`target`, or this machine through a group with the job's limits. Raises OSError."""
        limits = self._request.job.target.constraints
        if limits is None:
            return target
        if not target.is_here:
            raise OSError(f"limits are held on this machine only, not on {target.name}")
        from edgewise.constraints.choice import find_group

        group, _ = find_group(cpus=limits.cpus, memory_bytes=limits.memory_bytes, mechanism=limits.mechanism)
        self._group = self._stack.enter_context(group)
        return LocalTarget(ConstrainedTransport(group))

    def wait_for(self, until: str) -> bool:
        """Read messages until one of kind `until`; False if the worker ends or fails before."""
        return self._process is not None and self._protocol.wait_for(until)

    def dismiss(self) -> None:
        """End the worker now; that it did not finish is no failure of its own."""
        self._dismissed = True

    def send(self, kind: str, **fields: float | str) -> None:
        """Send the worker an order."""
        self._protocol.may_end |= kind == "end"
        self._protocol.send(encode(kind, **fields))
        self._resume()

    def pause(self) -> None:
        """Stop the worker until it is sent an order, where that is possible.

        Threads of engines wait for the next inference by spinning: those of ONNX Runtime for 40 ms, in which others
        have ten turns.
        """
        if isinstance(self._process, Pauses):
            self._process.pause()
            self._paused = True

    def _resume(self) -> None:
        if self._paused and isinstance(self._process, Pauses):
            self._process.resume()
        self._paused = False

    def _pull_outputs(self) -> None:
        """Fetch the outputs before the workspace goes."""
        outputs, use = self.result.outputs, self.result.link
        if outputs is not None and self.result.failure is None and self.workspace is not None:
            try:
                self.workspace.pull(outputs[0].name)
            except OSError:
                self.result.outputs = None
        if use is not None:
            use.sent_bytes += self._protocol.sent_bytes
            use.received_bytes += self._protocol.received_bytes
            self._protocol.use_host_time(use.wall_offset_s)

    def _check_clock(self) -> None:
        """Note a jump of the target's clock. Then no time can be used, and a failure may be due to the jump."""
        result, workspace = self.result, self.workspace
        if result.link is None or workspace is None or (result.failure and result.failure.cause == "LinkLost"):
            return
        try:
            monotonic_s, wall_s = workspace.clock_jumps()
        except OSError:
            return  # the link is gone since the worker was done
        if wall_s:
            result.facts.pop("reference", None)  # its times of day are of two clocks
        if monotonic_s:
            result.clock_jump = (
                f"the monotonic clocks of the device and of this machine moved apart by {monotonic_s:+.3f} s"
            )
            result.clock_jump += " during the session, so no time of this session can be used"
            result.profile = None
            result.bins.clear()
        if result.clock_jump and not (self._request.mode == "samples" and result.failure is None):
            earlier = f"; the session failed: {result.failure.message}" if result.failure else ""
            result.failure = Failure(
                cause="ClockJumped",
                message=result.clock_jump + earlier,
                phase=self._protocol.phase,
                advice=ADVICE["ClockJumped"],
            )

    def _conclude(self) -> None:
        """Why there is no complete result, if there is none."""
        result, process, workspace = self.result, self._process, self.workspace
        assert workspace is not None
        usage = None if self._group is None else self._group.usage()
        if self._group is not None and usage is not None:
            told = {"mechanism": self._group.mechanism, "cannot_hold": self._group.cannot_hold}
            result.facts["constraints"] = {**told, **asdict(usage)}
        if result.failure is None and not self._dismissed and not self._protocol.done and process is not None:
            killed = workspace.oom_kills() > self._oom_kills or bool(usage and usage.oom_kills)
            result.failure = _unexpected_end(process, self._protocol.phase, killed_for_memory=killed)
        if result.failure is not None:
            result.failure = _with_tail(result.failure, self._folder)
            spec = self._request.job.target
            flag, limit = "⟦memory_limit⟧", spec.memory_limit_bytes
            if spec.constraints is not None and spec.constraints.memory_bytes is not None:
                flag, limit = "⟦memory⟧", spec.constraints.memory_bytes
            result.failure = (
                result.failure
                if limit is None
                else _blame_limit(result.failure, limit, flag, reached=usage is not None and usage.reached(limit))
            )


def files_of(job: Job, *, is_here: bool) -> dict[str, Path]:
    """Return the files that a worker reads, by their names in a workspace: ``model/…``, weights beside it, and
    ``input``.

    On this machine nothing is sent, so the weights are listed only where they are dropped from the file cache. Raises
    OSError.
    """
    model = Path(job.model.path)
    files = {f"model/{model.name}": model}
    if not is_here or job.workload.scenario.drop_cache:
        try:
            files |= {f"model/{os.path.relpath(each, model.parent)}": each for each in list_files(model)}
        except EdgewiseError as error:
            raise OSError(error.message) from error
    if job.workload.input_path:
        files["input"] = Path(job.workload.input_path)
    return files


def _unexpected_end(process: Process, phase: str, *, killed_for_memory: bool) -> Failure:
    """Return the failure of a worker that ended without ``done``."""
    if isinstance(process, LosesLink) and process.link_lost:
        message = f"the link to the target was lost in phase '{phase}'"
        return Failure(cause="LinkLost", message=message, phase=phase, advice=ADVICE["LinkLost"])
    code = process.returncode
    if code is None or code >= 0:
        return Failure(
            cause="EngineError",
            message=f"the worker exited in phase '{phase}' with exit code {code}",
            phase=phase,
            exit_code=code,
        )
    name = signal_name(-code)
    if name == "SIGKILL" and killed_for_memory:
        message = f"the kernel killed the worker in phase '{phase}' because memory ran out"
        return Failure(cause="OutOfMemory", message=message, phase=phase, signal=name, advice=ADVICE["OutOfMemory"])
    if name == "SIGKILL":
        return Failure(cause="Killed", message=f"the worker was killed in phase '{phase}'", phase=phase, signal=name)
    return Failure(
        cause="EngineError",
        message=f"the engine crashed in phase '{phase}' ({name})",
        phase=phase,
        signal=name,
        advice="the other jobs continue; report the model to the engine's authors",
    )


def _with_tail(failure: Failure, folder: Path) -> Failure:
    """Return the failure with the last lines that the worker's libraries printed, without control characters."""
    try:
        with (folder / "stderr").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - STDERR_TAIL))
            data = file.read(STDERR_TAIL)
    except OSError:
        return failure
    return replace(failure, stderr_tail=printable(data.decode(errors="replace")).strip())


def _blame_limit(failure: Failure, limit: int, flag: str, *, reached: bool) -> Failure:
    """Return the failure of a worker under a memory limit: libraries die of it in many ways, few of which say so."""
    words = f"the memory limit of {format_limit(limit)}"
    advice = ADVICE["OutOfMemory"].replace("⟦memory_limit⟧", flag)
    told = failure.message + failure.stderr_tail
    # A thread that can't be started under the limit says "unavailable", which means memory.
    if failure.cause == "OutOfMemory" or means_out_of_memory(told) or "Resource temporarily unavailable" in told:
        message = f"{failure.message}; {words} {'was reached' if reached else 'may be the reason'}"
        return replace(failure, cause="OutOfMemory", message=message, advice=advice)
    return replace(failure, advice=f"{failure.advice or 'see what the engine printed'}; {words} may be the reason")
