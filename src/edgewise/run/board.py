"""Boards at a serial port: a session of windows that the board times itself, and the measurements of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.clock import now
from edgewise.device.board import NoAnswer, Window, advice_of, encoding_of
from edgewise.device.link import LinkLost, TargetError
from edgewise.device.mlperf_tiny import encode
from edgewise.device.transports.serial import SerialTransport
from edgewise.errors import BadInput, EdgewiseError, Unavailable, as_flag
from edgewise.model.identity import open_model
from edgewise.progress import InferencesDone, emit
from edgewise.record import Failure, Job, Measurement, Run, Workload
from edgewise.record.run import Cause
from edgewise.registry import Availability
from edgewise.run.agreement import Outputs
from edgewise.run.executor import AnyTarget, Beside, Executor, Facts, only_facts, unknown_machine
from edgewise.run.fitness import Finding, Fitness
from edgewise.run.host_protocol import ADVICE, SessionRequest, SessionResult
from edgewise.run.rates import distribution
from edgewise.runtime.base import UnsupportedModel
from edgewise.workload.inputs import load_arrays, make_arrays

WINDOWS, WINDOW_S = 2, 1.0
"""Windows of a session and their least length, s, where the user sets neither inferences nor a duration."""
MOST_SHORT = 5
"""Windows of a session that may turn out too short."""
LONGEST_S = 3600.0
"""The timers of boards count microseconds in 32 bits, which last 71 minutes."""
PILOT_S = 0.1
SCORED = "ad01"
"""The model whose firmware prints an anomaly score, the mean squared error of its reconstruction."""
ENGINE = "mlperf_tiny"
EMULATOR = "QEMU"
"""A name with this word is that of an emulated board, whose timer counts instructions."""


class SerialBoards(Executor):
    """As `Executor`, for boards at a serial port, each of which holds one model."""

    evaluates = True
    noun = "a board at a serial port"
    no_layers = "MLPerf Tiny's protocol times whole inferences only"
    instead_of_profile = "bench measures the model; edgewise estimate -d cortex-m4 counts instructions per layer"
    if_outputs_differ = "check that the board holds this model, and the form in which it takes inputs (?input=uint8)"

    def facts(self, target: AnyTarget) -> Facts | None:
        """Return what the board reports of itself, and that only its firmware can be measured."""
        transport = _transport_of(target)
        try:
            board = transport.connect()
        except OSError as error:
            advice = advice_of(error, transport.baud)
            raise Unavailable(f"{target.name} can't be used: {error}", advice=advice) from error
        others = Availability(False, "the board runs only its own firmware", f"omit {as_flag('device')} to use it here")
        environment = unknown_machine(board.name, "not part of MLPerf Tiny's protocol")
        environment["board"] = {
            "profile": board.profile or None,
            "model": board.model or None,
            "baud": board.baud,
            "timer_resolution_s": board.resolution_us * 1e-6,
        }
        return only_facts({ENGINE: Availability(True, version=board.profile)}, environment, others=others)

    def check(self, job: Job, *, own_inputs: bool) -> None:
        """As `Executor.check`."""
        super().check(job, own_inputs=False)
        if job.target.constraints is not None or job.target.memory_limit_bytes is not None:
            raise BadInput("limits are held on this machine only, not on a board", advice="omit ⟦cpus⟧ and ⟦memory⟧")
        if (job.workload.stopping.duration_s or 0.0) > LONGEST_S:
            raise BadInput(f"⟦duration⟧ of a window on a board must be at most {LONGEST_S:g}s")

    def run(
        self, request: SessionRequest, *, target: AnyTarget, folder: Path, end_by: float | None = None
    ) -> SessionResult:
        """Load the inputs and time windows of inferences."""
        result, transport = SessionResult(index=request.index), _transport_of(target)
        try:
            _fill(result, request, transport=transport, folder=folder, end_by=end_by)
        except (OSError, EdgewiseError, UnsupportedModel) as error:
            transport.close()  # what the board still sends belongs to no later command
            result.failure = _failure(error, transport.baud)
        except BaseException:
            transport.close()
            raise
        return result

    def measurements(self, job: Job, sessions: Sequence[SessionResult], beside: Beside) -> tuple[Measurement, ...]:
        """As `Executor.measurements`."""
        windows = [window for session in sessions for window in session.facts["board"]["windows"]]
        inferences, resolution = sum(each["inferences"] for each in windows), sessions[0].facts["board"]["resolution_s"]
        emulated = sessions[0].facts["board"]["emulated"]
        shortest = min(each["board_s"] for each in windows)
        method = (
            f"the board's timer (steps of {resolution * 1e6:g} µs) around {len(windows)} windows of at least "
            f"{shortest:.3g} s, {inferences} inferences in {len(sessions)} session(s); the value is the median of the "
            "windows' means, so there are no percentiles"
        )
        if emulated:
            method = f"emulated board, whose timer counts instructions: {method}"
        row = distribution(
            "latency",
            [[value * 1e-9 for value in session.samples["latency"]] for session in sessions],
            method,
            basis="simulated" if emulated else "measured",
        )
        # Each end of a window is cut to a step of the timer.
        step = max(resolution / each["inferences"] for each in windows)
        if row.low is not None and row.high is not None:
            row = replace(row, low=max(0.0, row.low - step), high=row.high + step)
        if row.summary is not None:
            row = replace(row, summary=replace(row.summary, percentiles={}))
        because = "MLPerf Tiny's protocol reports times and outputs only"
        unmetered = f"{because}; power meters are not read beside a board at a serial port"
        assert row.value  # no window is empty
        rate = Measurement.of(
            "throughput",
            1 / row.value,
            "1 / latency: one inference at a time",
            basis="simulated" if emulated else "derived",
            low=1 / row.high if row.high else None,
            high=1 / row.low if row.low else None,
        )
        rows = [row, rate]
        rows += [
            Measurement.absent(metric, because)
            for metric in (
                "latency_first", "load_time", "startup_time", "cpu_utilization", "memory_load", "memory_peak",
                "temperature", "clock_rate",
            )
        ]  # fmt: skip
        rows += [Measurement.absent(metric, unmetered) for metric in ("energy", "power")]
        rows += [
            Measurement.absent(metric, "the board holds the model") for metric in ("deployment_time", "network_bytes")
        ]
        rows.append(Measurement.of("model_size", job.model.size_bytes, "size of the model's file on this machine"))
        return tuple(rows)

    def without_workers(self, target: AnyTarget) -> Unavailable | None:
        """Return a board runs its firmware only."""
        return Unavailable(
            f"{target.name}: a board holds one model and takes no turns, so only bench and evaluate measure it",
            advice="compare stored runs of bench: edgewise compare RUN RUN",
        )

    def reference(self, run: Run, *, has_outputs: bool) -> Outputs | None:
        """Return what tflite-micro computes on this machine."""
        if not has_outputs:
            raise Unavailable("the board printed no m-results")
        try:
            return _reference_outputs(run)
        except EdgewiseError as error:
            raise Unavailable(f"nothing to compare the board's outputs with: {error.marked.message}") from error

    def fitness(self, environment: Mapping[str, Any], activity: Mapping[str, float | None]) -> Fitness:
        """As `Executor.fitness`."""
        step = environment["board"]["timer_resolution_s"]
        reason = f"the board runs nothing but its firmware; its timer counts in steps of {step * 1e6:g} µs"
        advice = "windows of at least 1 s make the steps negligible"
        return Fitness(grade="A", findings=(Finding(ceiling="A", reason=reason, advice=advice),))

    def words(self, environment: Mapping[str, Any]) -> str | None:
        """As `Executor.words`."""
        board = environment["board"]
        words = [environment["device"]["model"], f"firmware {board['profile'] or 'not known'}"]
        words += [f"model {board['model'] or 'not known'}", f"timer in steps of {board['timer_resolution_s']:.0e} s"]
        return ", ".join(words)


def _transport_of(target: AnyTarget) -> SerialTransport:
    assert isinstance(target.transport, SerialTransport)
    return target.transport


def _failure(error: Exception, baud: int) -> Failure:
    cause: Cause = "Unavailable"
    advice = advice_of(error, baud) if isinstance(error, OSError) else getattr(error, "advice", "")
    if isinstance(error, UnsupportedModel):
        cause, advice = "Unsupported", "'edgewise doctor -d DEVICE' shows the model that the board reports"
    elif isinstance(error, NoAnswer):
        cause = "Timeout"
    elif isinstance(error, LinkLost):
        cause = "LinkLost"
    elif isinstance(error, TargetError):
        cause = "EngineError"
    return Failure(cause=cause, message=str(error), phase="steady", advice=advice or ADVICE.get(cause, ""))


def _fill(
    result: SessionResult, request: SessionRequest, *, transport: SerialTransport, folder: Path, end_by: float | None
) -> None:
    board, job = transport.connect(), request.job
    workload, stopping = job.workload, job.workload.stopping
    arrays = _inputs(workload)
    encoding = encoding_of(board.model, transport.encoding)
    board.load(encode(_floats(arrays, job) if encoding == "float32" else arrays, encoding))

    def infer(count: int, *, warmup: int = 0, expected_s: float = 0.0) -> Window:
        patience = stopping.timeout_s + 2 * expected_s
        if end_by is not None:
            patience = min(patience, max(0.0, end_by - now()))
        return board.infer(count, warmup=warmup, seconds=patience)

    # Of one inference: states change from one to the next, and firmware may overwrite its input.
    results = (infer(1).results or board.results()) if request.outputs else ()
    windows = _windows(infer, job)
    result.samples["latency"] = [round(window.mean_ns) for window in windows]
    result.facts["steady"] = {"stopped_because": "all windows were measured", "warmup": _warmup(job)}
    result.facts["effective"] = {"provider": "firmware", "threads": None, "precision": None, "input": encoding}
    result.facts["board"] = {
        "windows": [
            {"inferences": each.inferences, "board_s": each.elapsed_us * 1e-6, "host_s": each.host_s}
            for each in windows
        ],
        "resolution_s": board.resolution_us * 1e-6,
        "emulated": EMULATOR in board.name,
    }
    if results:
        result.facts["outputs"] = [{"name": "m-results", "shape": [1, len(results)], "dtype": "float32"}]
        np.savez(folder / "outputs.npz", output_0=np.array([results], np.float32))
        result.outputs = folder / "outputs.npz", ["m-results"]


def _warmup(job: Job) -> int:
    given = job.workload.stopping.warmup
    return 1 if given is None else given


def _windows(infer: Any, job: Job) -> list[Window]:
    """Return the windows of a session: one of the user's number of inferences or duration, otherwise `WINDOWS` of
    `WINDOW_S`.

    Args:
        infer: times a number of inferences.
    """
    stopping = job.workload.stopping
    pilot = infer(1, warmup=_warmup(job))
    if pilot.elapsed_us < PILOT_S * 1e6:
        pilot = infer(math.ceil(PILOT_S * 1e6 / pilot.elapsed_us))
    least_s = stopping.duration_s or WINDOW_S
    count = stopping.iterations or math.ceil(least_s * 1e9 / pilot.mean_ns)
    if count * pilot.mean_ns > 1.1e9 * LONGEST_S:
        raise TargetError(f"{count} inferences take longer than an hour on this board", advice="lower ⟦iterations⟧")
    windows: list[Window] = []
    wanted = 1 if stopping.iterations or stopping.duration_s else WINDOWS
    for _ in range(wanted + MOST_SHORT):
        window = infer(count, expected_s=count * pilot.mean_ns * 1e-9)
        if stopping.iterations is None and window.elapsed_us < least_s * 1e6:
            count = max(count + 1, math.ceil(least_s * 1e9 / window.mean_ns))  # the pilot was slower
            continue
        windows.append(window)
        emit(InferencesDone(done=sum(each.inferences for each in windows), average_s=window.mean_ns * 1e-9))
        if len(windows) == wanted:
            return windows
    message = f"the time of an inference falls from window to window, to {window.mean_ns * 1e-9:.3g} s in the last one"
    raise TargetError(message, advice="check the timer of the firmware, or set ⟦iterations⟧")


def _inputs(workload: Workload) -> list[NDArray[Any]]:
    """Return the arrays that every engine gets."""
    if workload.input_path:
        return load_arrays(Path(workload.input_path), workload.inputs)
    return make_arrays(workload.inputs, seed=workload.seed)


def _quantization(job: Job) -> tuple[Any, Any]:
    """Return the integer network's inputs and outputs. Raises `EdgewiseError`."""
    from edgewise.estimating.mcu.network import read_network

    network = read_network(Path(job.model.path))
    return network.inputs, network.outputs


def _floats(arrays: Sequence[NDArray[Any]], job: Job) -> list[NDArray[Any]]:
    """Return the real values of integer inputs."""
    inputs, _ = _quantization(job)
    return [_real(array, tensor) for array, tensor in zip(arrays, inputs, strict=True)]


def _real(array: NDArray[Any], tensor: Any) -> NDArray[Any]:
    real: NDArray[Any] = array.astype(np.float64)
    if len(tensor.scales) and array.dtype.kind != "f":
        real = (real - tensor.zero_point) * float(tensor.scales[0])
    return real.astype(np.float32)


def _reference_outputs(run: Run) -> Outputs:
    """Return what tflite-micro computes on this machine from the inputs of `run`, as the board prints it.

    Raises:
        EdgewiseError: tflite-micro is missing or can't run the model.
    """
    from edgewise.estimating.mcu.reference import run_reference
    from edgewise.runtime.base import package_availability

    if not (state := package_availability("tflite-micro", extra="mcu", module="tflite_micro")):
        raise Unavailable(f"{state.reason} ({state.install_hint})")
    job, model = run.job, open_model(run.job.model)
    arrays = _inputs(job.workload)
    (found,) = run_reference(Path(job.model.path), [arrays], outputs=len(model.signature.outputs)).outputs
    _, tensors = _quantization(job)
    told = [
        _real(array.view(spec.dtype), tensor).reshape(1, -1)
        for array, spec, tensor in zip(found, model.signature.outputs, tensors, strict=True)
    ]
    printed = np.concatenate(told, axis=1)
    if run.environment.get("board", {}).get("model") == SCORED:
        score = np.mean((printed - np.concatenate([array.ravel() for array in _floats(arrays, job)])) ** 2)
        printed = np.array([[score]])
    return Outputs(
        run_id="tflite-micro", label="tflite-micro on this machine", arrays=(printed,),
        reduced="the board prints rounded numbers",
    )  # fmt: skip
