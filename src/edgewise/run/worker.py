"""The worker: one fresh process that loads one model in one engine, measures, and tells its host.

Sent to devices as it is: standard library, numpy and the engine only. The host starts ``python -m edgewise.run.worker``
and writes one ``job`` line to its standard input; the end of standard input ends the worker, so none outlives its host.
"""

from __future__ import annotations

import time

_STARTED_NS = time.monotonic_ns()

import gc
import math
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from edgewise.model.signature import TensorSpec
from edgewise.registry import load_class
from edgewise.run import counters
from edgewise.run.background_load import BackgroundLoad
from edgewise.run.protocol import PROTOCOL, ProtocolError, decode, encode
from edgewise.run.sandbox import available_memory, die_with_host, limit_memory
from edgewise.runtime.arrays import tell
from edgewise.runtime.base import (
    KEEPS_STATE,
    CannotProfile,
    Compiles,
    FallsBack,
    Generates,
    InvalidModel,
    LoadOptions,
    Runtime,
    Session,
    SuppliesClock,
    TellsCautions,
    TimesReference,
    UnsupportedModel,
    reset_state,
    states_of,
)
from edgewise.text import means_out_of_memory

Result = TypeVar("Result")


REPEATS = 2e-3
"""Difference of two inferences on the same inputs, of the largest output, that is still a rounding."""


class Channel:
    """The channel to the host: the original standard output, which no library can write to any more."""

    def __init__(self) -> None:
        self._fd = os.dup(1)
        os.set_inheritable(self._fd, False)
        os.dup2(2, 1)
        # Only the fake runtime looks: it plays an engine that corrupts the channel.
        os.environ["EDGEWISE_CHANNEL_FD"] = str(self._fd)

    @property
    def descriptor(self) -> int:
        """File descriptor of the channel."""
        return self._fd

    def send(self, kind: str, **fields: Any) -> None:
        """Write one message, whole."""
        data = memoryview(encode(kind, **fields))
        while data:
            data = data[os.write(self._fd, data) :]


class _Reporter:
    """Sends lines of progress, and at most one `alive` message a second: a slow model must not look like a hung one.

    The first beat comes after the first block of inferences: there the peak of memory is read, before samples pile up
    and are analysed, which is edgewise's memory and not the model's.
    """

    def __init__(self, channel: Channel, facts: dict[str, Any]) -> None:
        self._channel = channel
        self._facts = facts
        self._first = True
        self._last_ns = time.monotonic_ns()

    def lines(self, done: int, average_s: float) -> None:
        self._channel.send("progress", done=done, average_s=average_s)

    def beat(self) -> None:
        if self._first:
            self._first = False
            self._facts["memory_peak"] = counters.memory_figures()
        now = time.monotonic_ns()
        if now - self._last_ns > 1_000_000_000:
            self._last_ns = now
            self._channel.send("alive")


class Worker:
    """One job from `job` message to `done`."""

    def __init__(
        self,
        job: Mapping[str, Any],
        channel: Channel,
        orders: queue.SimpleQueue[bytes],
        load: BackgroundLoad | None = None,
    ) -> None:
        self.job = job
        self.channel = channel
        self._orders = orders
        self.phase_name = "python"
        self.facts: dict[str, Any] = {}
        self._has_told = False
        self._load = load

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Tell the host when a phase begins and ends, with the monotonic time of both."""
        self.phase_name = name
        self.channel.send("phase", name=name, event="begin", at_ns=time.monotonic_ns())
        yield
        self.channel.send("phase", name=name, event="end", at_ns=time.monotonic_ns())

    def run(self) -> None:
        """All phases in order."""
        with self.phase("prepare"):
            runtime = load_class(self.job["runtime"])()
        with self.phase("import"):
            version = runtime.import_engine()
        self.facts["engine_version"] = version
        self.facts["not_imported"] = getattr(runtime, "not_imported", None)
        self.facts["memory_baseline"] = counters.memory_figures()
        with self.phase("inputs"):
            arrays = [] if self._scenario["kind"] == "generate" else self._inputs()
            self.facts["inputs"] = [
                _fed(spec["name"], array) for spec, array in zip(self.job["workload"]["inputs"], arrays, strict=True)
            ]
        options = _load_options(self.job["options"])
        if self._scenario["drop_cache"]:
            from edgewise.run.file_cache import drop_files

            self.facts["file_cache"] = drop_files(map(Path, self.job["model_files"]))
        before = counters.read_counters()
        with self.phase("load"):
            session: Session = runtime.load(Path(self.job["model"]), options)
        if isinstance(session, Compiles):
            session.bind(arrays)
            with self.phase("compile"):
                self.facts["compiled"] = dict(session.compile())
        self.facts["memory_load"] = counters.memory_figures()
        self.facts["effective"] = dict(session.effective)
        self.facts["outputs"] = [_described(spec) for spec in session.outputs]
        if isinstance(session, TellsCautions):
            self.facts["cautions"] = dict(session.cautions)
        if self._scenario["kind"] != "generate":
            session.bind(arrays)
            self._tell_states(states_of(session))
        reload = partial(self._reload, runtime, options)
        if self.job["mode"] == "layers":
            self._time_layers(session)
        elif self.job["mode"] == "samples":
            self._answer_samples(session, reload)
        elif self._scenario["kind"] == "generate":
            self._generate(session)
        else:
            self._measure(session, before)
            self._outputs(session, arrays, reload)
            self._meter(session)
        self.channel.send("facts", values=self.facts)
        self.channel.send("done")

    def _inputs(self) -> list[Any]:
        from edgewise.record import InputSpec
        from edgewise.workload.inputs import load_arrays, make_arrays

        workload = self.job["workload"]
        specs = [InputSpec(**{**spec, "shape": tuple(spec["shape"])}) for spec in workload["inputs"]]
        path = workload["input_path"]
        return list(load_arrays(Path(path), specs) if path else make_arrays(specs, seed=workload["seed"]))

    @property
    def _scenario(self) -> Mapping[str, Any]:
        return dict(self.job["workload"]["scenario"])

    def _measure(self, session: Session, before: counters.Counters) -> None:
        """Time the first inference and the steady ones; `before` are the counters as loading began."""
        from edgewise.run import timing

        clock = timing.Clock.of(session)
        is_cold = self._scenario["kind"] == "cold-start"
        if not is_cold:
            self._time_reference(session, "start")
        # HWM starts anew here: the peak is that of inference, not of parsing the file or of the reference kernels.
        self.facts["peak_was_reset"] = counters.reset_peak_memory()
        gc.collect()
        gc.freeze()
        gc.disable()
        with self.phase("first"):
            first = self._insist(session, partial(_time_one, session, clock))
        self.channel.send("samples", name="latency_first", values_ns=[first])
        if is_cold:
            gc.enable()
            self.facts["counters"] = counters.read_counters().delta(before)
            self.facts["memory_peak"] = counters.memory_figures()
            self.facts["steady"] = {"warmup": 0, "stopped_because": "one inference per process"}
            self._time_reference(session, "end")
            return
        with self.phase("steady"):
            steady = self._insist(session, partial(self._steady, session, clock))
        gc.enable()
        self.facts["counters"] = steady.extra.pop("counters")
        prescribed = self.job["stopping"]["warmup"] and self._scenario["kind"] == "single-stream"
        self.facts["steady"] = {
            # The first inference was the first of a prescribed warm-up.
            "warmup": len(steady.warmup) + bool(prescribed),
            "warmup_found": steady.warmup_found,
            "stopped_because": steady.stopped_because,
            "elapsed_s": steady.elapsed_ns / 1e9,
            **steady.extra,
        }
        for name, values in steady.samples.items():
            self.channel.send("samples", name=name, values_ns=values)
        self.channel.send("samples", name="warmup", values_ns=steady.warmup)
        if not self._scenario["sustained_s"]:  # a hot processor is not this machine's usual speed
            self._time_reference(session, "end")

    def _generate(self, session: Session) -> None:
        """Time requests of a language model: the first of the process, and those that follow it."""
        from edgewise.run import generation, timing

        if not isinstance(session, Generates):
            raise UnsupportedModel(f"{self.facts['effective'].get('provider')} generates no text")
        clock = timing.Clock.of(session)
        self.facts["effective"]["kv_cache_type"] = session.kv_cache_type
        requests = generation.Requests(session, self.job, clock, _Reporter(self.channel, self.facts))
        self._time_reference(session, "start")
        self.facts["peak_was_reset"] = counters.reset_peak_memory()
        gc.collect()
        gc.freeze()
        gc.disable()
        with self.phase("first"):
            first = requests.make()
        self.channel.send("samples", name="request_first", values_ns=[first.tokens[-1]])
        self.channel.send("samples", name="ttft_first", values_ns=[first.first_text])
        before, load_before = counters.read_counters(), None if self._load is None else self._load.cpu_s()
        with self.phase("steady"):
            tell = partial(self.channel.send, "speed")
            done, reason = generation.measure(requests.make, stopping=self.job["stopping"], clock=clock, tell=tell)
        gc.enable()
        self.facts["memory_peak"] = counters.memory_figures()
        self.facts["counters"] = counters.read_counters().delta(before)
        if self._load is not None:
            self.facts["background_cpu"] = self._load.count(self.facts["counters"], since_s=load_before)
        self.facts["steady"] = {"warmup": self.job["stopping"]["warmup"] or 1, "stopped_because": reason}
        samples, told = generation.tell_requests(done)
        # At a depth the first token of a prompt is one that this model has made: others answer another prompt.
        answers = [] if self._scenario["depth"] else generation.tell_answers([first, *done])
        self.facts["generation"] = {**told, "answers": answers}
        for name, values in samples.items():
            self.channel.send("samples", name=name, values_ns=values)
        self._time_reference(session, "end")
        if not self._scenario["depth"]:  # each window would have the filling of the KV cache in it
            self._meter(session, *requests.repeated())

    def _time_reference(self, session: Session, when: str) -> None:
        """Time the reference kernels, except in sessions whose own clock has no kernel times.

        At the start only where the peak of memory can be reset afterwards, and not where processes take turns: at the
        end of a round they do it one after the other, while the others wait.
        """
        from edgewise.run.reference import VERSION, time_reference

        timer = time_reference
        if isinstance(session, SuppliesClock):
            if not isinstance(session, TimesReference):
                return
            timer = session.time_reference
        told = self.facts.setdefault("reference", {"version": VERSION})
        # A background load would slow the kernels, which are to tell the usual speed of this machine.
        if self._scenario["background_load"]:
            return
        if when == "start" and (self.job["mode"] == "turns" or not counters.reset_peak_memory()):
            return
        with self.phase("reference"):
            reading = timer()
        if reading is not None:
            told[when] = reading

    def _time_layers(self, session: Session) -> None:
        """Make the pass of a profile: what the engine's own profiler tells."""
        from edgewise.run.layer_mode import time_layers
        from edgewise.run.timing import Clock

        before = counters.read_counters()
        with self.phase("profile"):
            profile = self._insist(
                session, lambda: time_layers(session, Clock.of(session), stopping=self.job["stopping"])
            )
        self.facts["counters"] = counters.read_counters().delta(before)
        self.channel.send("layers", profile=profile)

    def _reload(self, runtime: Runtime, options: LoadOptions, feed: Sequence[Any]) -> Session:
        """Return the model once more, for samples of other sizes."""
        names = [spec["name"] for spec in self.job["workload"]["inputs"]]
        shapes = {name: tuple(array.shape) for name, array in zip(names, feed, strict=True)}
        return runtime.load(Path(self.job["model"]), replace(options, shapes=shapes))

    def _tell_states(self, states: Sequence[str]) -> None:
        if states:
            self.facts["effective"]["states"] = list(states)
            shown = ", ".join([*states[:3], *([f"{len(states) - 3} more"] if len(states) > 3 else [])])
            self.facts.setdefault("cautions", {})[KEEPS_STATE] = f"the model keeps a state between inferences: {shown}"

    def _answer_samples(self, session: Session, reload: Callable[[Sequence[Any]], Session]) -> None:
        """Make the pass of an evaluation: outputs for the samples that the host sends."""
        from edgewise.run.sample_mode import answer_samples

        with self.phase("samples"):
            self.facts["samples"] = answer_samples(
                session,
                Path(self.job["folder"]),
                reload=reload,
                keep_state=bool(self.job["workload"].get("keep_state")),
                tell=self.channel.send,
                next_order=self._next_order,
            )

    def _insist(self, session: Session, act: Callable[[], Result]) -> Result:
        """Return what `act` gives; once more from its beginning where the engine's fastest call fails and there
        is another.
        """
        try:
            return act()
        except Exception as error:
            # Between turns and bins the host waits for the next one, not for another beginning.
            if self._has_told or not isinstance(session, FallsBack) or explain(error)[0] != "EngineError":
                raise
            failed = session.effective.get("call")
            if not session.fall_back():
                raise
            self.facts["effective"] = dict(session.effective)
            self.facts["fell_back"] = (
                f"the timed call is {session.effective['call']}, because {failed} failed ({explain(error)[1]})"
            )
        return act()

    def _steady(self, session: Session, clock: Any) -> Any:
        """Return the steady phase, with what the process used in it among its `extra`."""
        from edgewise.run import timing

        scenario = self._scenario
        given = {"stopping": self.job["stopping"], "clock": clock, "reporter": _Reporter(self.channel, self.facts)}
        recorder = timing.recorder_of(session, clock, scenario)
        before, load_before = counters.read_counters(), None if self._load is None else self._load.cpu_s()
        if self.job["mode"] == "turns":
            steady = self._take_turns(session, given)
        elif scenario["sustained_s"]:
            steady = self._sustain(recorder, clock, given["reporter"])
        elif scenario["kind"] == "paced":
            steady = timing.paced(session, fps=scenario["fps"], **given)
        elif scenario["kind"] == "offline":
            steady = timing.offline(session, **given)
        else:
            steady = timing.single_stream(session, recorder=recorder, **given)
        delta = counters.read_counters().delta(before)
        if isinstance(recorder, timing.RestingRecorder):
            steady.extra["duty_cycle"] = recorder.achieved
        if self._load is not None:
            self.facts["background_cpu"] = self._load.count(delta, since_s=load_before)
        steady.extra.setdefault("counters", delta)  # those of turns are without the warm-up
        return steady

    def _take_turns(self, session: Session, given: Mapping[str, Any]) -> Any:
        from edgewise.run.turn_mode import take_turns

        def tell(kind: str, **fields: Any) -> None:
            self._has_told = True
            self.channel.send(kind, **fields)

        return take_turns(
            session, **given, tell=tell, next_order=self._next_order, read_counters=counters.read_counters
        )

    def _next_order(self) -> dict[str, Any]:
        """Return the host's next order; blocks until there is one."""
        return decode(self._orders.get())

    def _sustain(self, recorder: Any, clock: Any, reporter: Any) -> Any:
        from edgewise.run.sustained.timing import measure_sustained

        def tell(kind: str, **fields: Any) -> None:
            if not self._has_told:  # if this process does not come to its end, the host has them
                self.channel.send("facts", values=self.facts)
            self._has_told = True
            self.channel.send(kind, **fields)

        meters = [load_class(location)() for location in self.job["meters"]]
        return measure_sustained(
            recorder, scenario=self._scenario, clock=clock, reporter=reporter, meters=meters, tell=tell
        )

    def _outputs(self, session: Session, feed: Sequence[Any], reload: Callable[[Sequence[Any]], Session]) -> None:
        """Save the outputs of one inference from the initial state as a file in the job's folder, if the host
        asked for them.
        """
        if not self.job.get("outputs"):
            return
        import numpy as np

        from edgewise.run.sample_mode import MAX_OUTPUT_BYTES

        with self.phase("outputs"):
            session = _in_initial_state(session, feed, reload)
            answers = self._insist(session, partial(_infer, session))
            arrays = [np.asarray(array) for array in answers if array is not None]
            # What came out closes the dimensions that an engine leaves open.
            for told, array in zip(self.facts["outputs"], answers, strict=False):
                if array is None:
                    told |= {"shape": None, "absent_because": f"it is not a tensor but {told['dtype']}"}
                else:
                    told["shape"] = list(np.shape(array))
            self.facts["output_bytes"] = sum(array.nbytes for array in arrays)
            if self.facts["output_bytes"] > MAX_OUTPUT_BYTES:
                return
            file = Path(self.job["folder"]) / "outputs.npz"
            np.savez(file, *arrays)
            self._check_repeats(_in_initial_state(session, feed, reload), arrays)
        self.channel.send("outputs", file=file.name, names=[spec.name for spec in session.outputs])

    def _check_repeats(self, session: Session, arrays: list[Any]) -> None:
        """Compare `arrays` with the outputs of one more inference on the same inputs, from the same state."""
        import numpy as np

        again = [np.asarray(array) for array in self._insist(session, partial(_infer, session)) if array is not None]
        if not all(map(_is_same, arrays, again)):
            told = "a second inference on the same inputs gives different outputs"
            self.facts["cautions"] = {"not-repeatable": told, **self.facts.get("cautions", {})}

    def _meter(
        self,
        session: Session,
        invoke: Callable[[], object] | None = None,
        others: Mapping[str, Callable[[], object]] | None = None,
    ) -> None:
        """Sensors in a pass of their own, so that reading them never colours the latency.

        Args:
            invoke, others: what runs in loaded windows; requests of a language model are so long that they are made for
                an energy only.
        """
        beside = self.job.get("beside", False)
        if not self.job.get("meters") and not beside:
            return
        from edgewise.run.metering import read_meters

        with self.phase("meters"):
            meters = [load_class(location)() for location in self.job["meters"]]
            if invoke is not None and not beside and not any("energy" in meter.metrics for meter in meters):
                return
            rate = self.job.get("beside_rate_hz")

            def tell(kind: str, **fields: Any) -> None:
                if beside or kind == "alive":
                    self.channel.send(kind, **fields)

            self.facts["meters"] = self._insist(
                session,
                lambda: read_meters(meters, invoke or session.invoke, others=others or {}, slowest_hz=rate, tell=tell),
            )


def _is_same(first: Any, second: Any) -> bool:
    """Whether two arrays are equal, or differ by no more than sums in another order do."""
    import numpy as np

    if first.shape != second.shape or np.array_equal(first, second):
        return bool(first.shape == second.shape)
    if first.dtype.kind != "f":
        return False
    finite = np.abs(first[np.isfinite(first)])
    return bool(np.allclose(first, second, rtol=0.0, atol=REPEATS * float(finite.max(initial=0.0)), equal_nan=True))


def _infer(session: Session) -> list[Any]:
    session.invoke()
    return list(session.read_outputs())


def _in_initial_state(session: Session, feed: Sequence[Any], reload: Callable[[Sequence[Any]], Session]) -> Session:
    """`session`, or a new one on the same inputs where the engine can't reset the model's state."""
    if reset_state(session):
        return session
    session = reload(feed)
    session.bind(feed)
    return session


def _time_one(session: Session, clock: Any) -> int:
    begin = clock.now()
    session.invoke()
    return int(clock.now() - begin)


def _described(spec: TensorSpec) -> dict[str, Any]:
    known = spec.shape is not None
    shape = [size if isinstance(size, int) else None for size in spec.shape or ()] if known else None
    return {"name": str(spec.name), "shape": shape, "dtype": str(spec.dtype)}


def _fed(name: str, array: Any) -> dict[str, Any]:
    """Return what the model is fed: the range of numbers that are all finite."""
    told = {"name": name, "shape": list(array.shape), "dtype": str(array.dtype)}
    if array.dtype.kind not in "biuf" or not array.size:
        return told
    low, high = float(array.min()), float(array.max())
    return told | ({"low": low, "high": high} if math.isfinite(low) and math.isfinite(high) else {})


def _load_options(options: Mapping[str, Any]) -> LoadOptions:
    shapes = {name: tuple(shape) for name, shape in options["shapes"].items()}
    return LoadOptions(**{**options, "shapes": shapes})


#: exception → typed cause, first match wins
_CAUSES: tuple[tuple[type[BaseException], str], ...] = (
    (UnsupportedModel, "Unsupported"),
    (InvalidModel, "BadModel"),
    (CannotProfile, "Unavailable"),
    (ProtocolError, "Unavailable"),
    (MemoryError, "OutOfMemory"),
)


def explain(error: BaseException) -> tuple[str, str]:
    """Return the typed cause and a one-line message of whatever the engine raised."""
    cause = next((cause for kind, cause in _CAUSES if isinstance(error, kind)), "EngineError")
    if type(error).__name__ in {"BadInput", "BadModel"}:
        cause = "BadInput"
    text = tell(str(error)) if str(error).strip() else ""
    if means_out_of_memory(str(error)):
        cause = "OutOfMemory"
    if cause == "EngineError":
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return cause, text or "out of memory"


def _watch_host() -> queue.SimpleQueue[bytes]:
    """Block on standard input: its lines are the host's orders, its end means that the host has ended."""
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def wait() -> None:
        buffer = bytearray()
        while piece := os.read(0, 4096):
            buffer += piece
            while (end := buffer.find(b"\n")) >= 0:
                orders.put(bytes(buffer[: end + 1]))
                del buffer[: end + 1]
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
    return orders


def _read_job() -> dict[str, Any]:
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(0, 65536)
        if not piece:
            os._exit(1)
        line += piece
    return decode(bytes(line))


def main() -> NoReturn:
    """Entry point of the process; never returns."""
    channel = Channel()
    die_with_host()
    job = _read_job()
    load = _start_load(job, channel)  # forked before there is a second thread
    orders = _watch_host()
    limit_memory(job.get("memory_limit") or available_memory())
    times = {"started_ns": _STARTED_NS, "spawned_ns": int(os.environ.get("EDGEWISE_SPAWNED_NS", _STARTED_NS))}
    channel.send("hello", protocol=PROTOCOL, pid=os.getpid(), python=sys.version.split()[0], **times)
    worker = Worker(job, channel, orders, load)
    code = 0
    try:
        if job["protocol"] != PROTOCOL:
            raise ProtocolError(
                f"edgewise is of another version on the target: it speaks protocol {PROTOCOL}, and here "
                f"{job['protocol']}; install the same version on both"
            )
        worker.run()
    except BaseException as error:
        _fail(channel, worker, error)
        code = 1
    if load is not None:
        load.stop()
    # Engines' destructors are not part of the measurement, and some crash.
    os._exit(code)


def _start_load(job: Mapping[str, Any], channel: Channel) -> BackgroundLoad | None:
    """Return the background load that the scenario asks for."""
    scenario = job["workload"]["scenario"] if job["protocol"] == PROTOCOL else {}
    if not scenario.get("background_load"):
        return None
    return BackgroundLoad(scenario["background_load"], scenario["background_kind"], close=(0, channel.descriptor))


def _fail(channel: Channel, worker: Worker, error: BaseException) -> None:
    import traceback

    gc.enable()
    cause, message = explain(error)
    trace = "".join(traceback.format_exception(error))[-4000:]
    with suppress(OSError):
        advice = getattr(error, "advice", "")
        channel.send("failed", cause=cause, message=message, advice=advice, phase=worker.phase_name, trace=trace)


if __name__ == "__main__":
    main()
