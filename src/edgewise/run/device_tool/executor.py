"""The executor of devices whose shell runs programs: sessions are executions of an engine's benchmark tool there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgewise.device.devices import Device
from edgewise.device.link import LinkLost
from edgewise.device.target import LinkUse, RemoteTarget
from edgewise.device.transport import RunsPrograms
from edgewise.errors import BadInput, EdgewiseError, Unavailable
from edgewise.record import Failure, Job, Measurement, Scenario
from edgewise.registry import Availability
from edgewise.run.device_check import DeviceCheck, missing_engines
from edgewise.run.device_tool.measurements import tool_measurements_of
from edgewise.run.device_tool.phone import describe_phone
from edgewise.run.device_tool.session import ToolFailed, measure_session
from edgewise.run.executor import AnyTarget, Beside, Executor, Facts, facts_of, only_facts
from edgewise.run.host_protocol import ADVICE, SessionRequest, SessionResult
from edgewise.run.worker_executor import WorkerExecutor
from edgewise.runtime.base import UnsupportedModel, runtimes
from edgewise.runtime.device_tools import DeviceTool


class DeviceTools(WorkerExecutor):
    """As `Executor`. Where the device has a Python too, engines in Python are measured there by workers."""

    is_worker = False
    varies = True

    def facts(self, target: AnyTarget) -> Facts | None:
        """Return what the device's shell tells, and its Python where it has one."""
        transport = _shell_of(target)
        assert isinstance(target, RemoteTarget)
        try:
            told = describe_phone(transport)
        except OSError as error:
            raise target.unavailable(error) from error
        if not transport.python:
            advice = "set python = PATH for the device (Termux), or use ⟦runtime=benchmark_model⟧"
            others = Availability(False, "the device has no Python set", advice)
            return only_facts(told.engines, told.environment, others=others, cores=told.cores, programs=told.programs)
        found = super().facts(target)
        assert found is not None
        environment = {**told.environment, "python": found.environment["python"]}
        engines = {**found.engines, **told.engines}
        return replace(found, engines=engines, environment=environment, programs=told.programs)

    def check(self, job: Job, *, own_inputs: bool) -> None:
        """As `Executor.check`."""
        if job.workload.scenario != Scenario() or own_inputs:
            what = "random inputs" if own_inputs else "the single-stream scenario without ⟦sustained⟧"
            raise BadInput(
                f"{job.runtime.name} has only {what}", advice="omit the option, or name an engine: ⟦runtime⟧"
            )

    def run(
        self, request: SessionRequest, *, target: AnyTarget, folder: Path, end_by: float | None = None
    ) -> SessionResult:
        """As `Executor.run`."""
        tool, spec, facts = _tool_of(request.job), request.job.target, facts_of(request.job.target)
        if facts is None or tool.name not in facts.programs or not isinstance(target, RemoteTarget):
            raise Unavailable(f"{spec.device} has no {tool.name}", advice=f"edgewise devices check {spec.device}")
        result = SessionResult(index=request.index, link=LinkUse())
        try:
            measure_session(result, tool, request, target=target, program=facts.programs[tool.name], end_by=end_by)
        except ToolFailed as error:
            result.failure = error.failure
        except UnsupportedModel as error:
            advice = ADVICE["Unsupported"]
            result.failure = Failure(cause="Unsupported", message=str(error), phase="load", advice=advice)
        except LinkLost as error:
            message = f"the link to {target.name} was lost: {error}"
            result.failure = Failure(cause="LinkLost", message=message, phase="steady", advice=ADVICE["LinkLost"])
        except (OSError, EdgewiseError) as error:
            message = f"{tool.name} could not be run on {target.name}: {error}"
            advice = getattr(error, "advice", "")
            result.failure = Failure(cause="Unavailable", message=message, phase="load", advice=advice)
        return result

    def measurements(self, job: Job, sessions: Sequence[SessionResult], beside: Beside) -> tuple[Measurement, ...]:
        """As `Executor.measurements`."""
        return tool_measurements_of(job, _tool_of(job), sessions, variation=beside.variation)

    def without_workers(self, target: AnyTarget) -> Unavailable | None:
        """Why no worker can be started there: the device has no Python set."""
        if _shell_of(target).python:
            return None
        return Unavailable(
            f"{target.name} has no Python set; its benchmark tools work with bench and profile only",
            advice="set python = PATH for the device (Termux), or compare stored runs of bench",
        )

    def without_outputs(self, engine: str) -> Unavailable | None:
        """Return a tool prints times only."""
        return Unavailable(
            f"{engine} works with bench and profile only: it gives no outputs and can't take turns",
            advice="compare its stored runs; other commands need Python on the device (python = PATH)",
        )

    def examine(self, device: Device, target: AnyTarget, *, install: Sequence[str] | None) -> DeviceCheck:
        """Return the device's tools, and what its Python has if one is set."""
        if install is not None:
            raise BadInput("⟦bootstrap⟧ is for devices over ssh", advice="install packages in Termux: pkg, pip")
        found = Executor.examine(self, device, target, install=install)
        if not found.engines:
            return found
        python = _shell_of(target).python
        engines = {name: found.engines[name] for name, runtime in runtimes() if isinstance(runtime, DeviceTool)}
        if python:
            engines |= {name: found.engines[name] for name, runtime in runtimes() if runtime.in_default}
        return replace(
            found,
            usable=any(engines.values()),
            python=" ".join(python),
            version=str(found.environment.get("python") or ""),
            engines=engines,
            missing=missing_engines(engines),
        )


def _tool_of(job: Job) -> DeviceTool:
    tool = runtimes().get(job.runtime.name)
    assert isinstance(tool, DeviceTool)
    return tool


def _shell_of(target: AnyTarget) -> RunsPrograms:
    assert isinstance(target.transport, RunsPrograms)
    return target.transport
