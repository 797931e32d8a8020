"""Noise, made up and real: samples of processes that take turns, a bursty neighbour, and an engine with a planted
slowdown.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.registry import Availability
from edgewise.runtime.base import LoadOptions, Provider
from edgewise.runtime.onnxruntime import OnnxRuntime
from edgewise.runtime.onnxruntime_session import OnnxSession

TURNS, PER_TURN = 100, 4
"""A round of a 1 ms model: turns of each side, inferences a turn."""

Generator = np.random.Generator
Shape = tuple[int, int]
"""Trials, rounds."""


@dataclass(frozen=True)
class Family:
    """Samples of both sides that have the same distribution.

    Attributes:
        draw: (generator, (trials, rounds)) → samples, shape (trials, rounds, 2, turns · inferences).
        slow: something changes more slowly than a process lasts; runs measured apart can't tell it from a difference.
    """

    name: str
    draw: Callable[[Generator, Shape], np.ndarray]
    slow: bool = False


def _white(generator: Generator, shape: Shape, sd: float = 0.02) -> np.ndarray:
    return np.exp(sd * generator.standard_normal((*shape, 2, TURNS * PER_TURN)))


def lognormal(generator: Generator, shape: Shape) -> np.ndarray:
    """Skewed: 10 %."""
    return _white(generator, shape, 0.1)


def slow_mode(share: float, factor: float) -> Callable[[Generator, Shape], np.ndarray]:
    """Return a share of the samples is slower by a factor; with half of them the median falls between the modes."""

    def draw(generator: Generator, shape: Shape) -> np.ndarray:
        samples = _white(generator, shape)
        samples[generator.random(samples.shape, dtype=np.float32) < share] *= factor
        return samples

    return draw


def heavy(generator: Generator, shape: Shape) -> np.ndarray:
    """2 % of samples are slower by a Pareto factor of at least 2."""
    samples = _white(generator, shape)
    hit = generator.random(samples.shape, dtype=np.float32) < 0.02
    samples[hit] *= 2.0 + generator.pareto(1.5, int(hit.sum()))
    return samples


def _in_turns(timeline: np.ndarray, generator: Generator, shape: Shape) -> np.ndarray:
    """Return what happens at the times when A and B have their turns: (trials, slots[, inferences]) to (…, 2,
    turns[, …]).

    Slots are in time: for each turn of a round one of either side, in random order.
    """
    rest = timeline.shape[2:]
    slots = timeline.reshape(*shape, TURNS, 2, *rest)
    swapped = generator.random((*shape, TURNS, 1)) < 0.5
    swapped = swapped.reshape(*swapped.shape, *(1 for _ in rest))
    return np.moveaxis(np.where(swapped, slots[:, :, :, ::-1], slots), 3, 2)


def correlated(rho: float, sd: float) -> Callable[[Generator, Shape], np.ndarray]:
    """First-order autocorrelation along the time of the machine, which both sides share."""

    def draw(generator: Generator, shape: Shape) -> np.ndarray:
        slots = shape[1] * TURNS * 2
        values = generator.standard_normal((slots * PER_TURN, shape[0]))
        for index in range(1, len(values)):
            values[index] = rho * values[index - 1] + math.sqrt(1.0 - rho**2) * values[index]
        timeline = np.exp(sd * values.T).reshape(shape[0], slots, PER_TURN)
        return _in_turns(timeline, generator, shape).reshape(*shape, 2, TURNS * PER_TURN)

    return draw


def drifting(generator: Generator, shape: Shape) -> np.ndarray:
    """Return a clock that falls by a fifth over the trial, wanders, and swings by 3 % with about the length of a
    round.
    """
    slots = shape[1] * TURNS * 2
    when = np.arange(slots)
    wander = np.cumsum(0.011 / math.sqrt(2.0 * TURNS) * generator.standard_normal((shape[0], slots)), axis=1)
    swing = 0.03 * np.sin(2.0 * math.pi * (when / (2.1 * TURNS) + generator.random((shape[0], 1))))
    level = np.exp(0.2 * when / slots + wander + swing)
    levels = _in_turns(level, generator, shape)
    return _white(generator, shape) * np.repeat(levels, PER_TURN, axis=-1)


BUSY, IDLE = 150, 300
"""Mean lengths of the neighbour's phases, inferences of 1 ms: as in `burst`."""


def bursts(generator: Generator, shape: Shape) -> np.ndarray:
    """Return a neighbour on every core, a third of the time; meanwhile an inference in two loses its core and takes
    twice.
    """
    slots = shape[1] * TURNS * 2
    length = slots * PER_TURN
    chance = generator.random((length, shape[0]), dtype=np.float32)
    busy = np.empty(chance.shape, dtype=bool)
    busy[0] = chance[0] < BUSY / (BUSY + IDLE)
    for index in range(1, length):
        busy[index] = np.where(busy[index - 1], chance[index] >= 1.0 / BUSY, chance[index] < 1.0 / IDLE)
    timeline = np.where(busy.T, np.float32(1.06), np.float32(1.0)).reshape(shape[0], slots, PER_TURN)
    hit = busy.T.reshape(timeline.shape) & (generator.random(timeline.shape, dtype=np.float32) < 0.5)
    timeline[hit] = 2.0
    placed = _in_turns(timeline, generator, shape).reshape(*shape, 2, TURNS * PER_TURN)
    return _white(generator, shape) * placed


FAMILIES = (
    Family("normal 2 %", _white),
    Family("log-normal 10 %", lognormal),
    Family("bimodal 20 % × 1.3", slow_mode(0.2, 1.3)),
    Family("bimodal 50 % × 1.1", slow_mode(0.5, 1.1)),
    Family("heavy tail", heavy),
    Family("AR(1) 0.9, 2 %", correlated(0.9, 0.02)),
    Family("AR(1) 0.999, 5 %", correlated(0.999, 0.05), slow=True),
    Family("drifting", drifting, slow=True),
    Family("bursts", bursts),
)

Sizes = tuple[int, ...]

PROCESSES: dict[str, Callable[[Generator, Sizes], np.ndarray]] = {
    "none": lambda generator, size: np.zeros(size),
    "normal 1 %": lambda generator, size: 0.01 * generator.standard_normal(size),
    "every second + 3 %": lambda generator, size: math.log(1.03) * (generator.random(size) < 0.5),
    "t3 1 %": lambda generator, size: 0.01 / math.sqrt(3.0) * generator.standard_t(3, size),
}
"""How processes of one model differ: log factors."""


# -- the real thing: a bursty neighbour and a planted slowdown ---------------------------------------------------------


def burst(core: int, seed: int) -> None:
    """Random busy and idle phases on one core until killed."""
    os.sched_setaffinity(0, {core})
    rng = random.Random(seed)
    while True:
        end = time.monotonic() + rng.expovariate(1 / 0.15)
        while time.monotonic() < end:
            pass
        time.sleep(rng.expovariate(1 / 0.3))


@contextlib.contextmanager
def bursty_load() -> Iterator[None]:
    """Put a burst load on every core."""
    cores = sorted(os.sched_getaffinity(0))
    load = [multiprocessing.Process(target=burst, args=(core, time.time_ns() + core), daemon=True) for core in cores]
    for process in load:
        process.start()
    try:
        yield
    finally:
        for process in load:
            process.kill()
        for process in load:
            process.join()


SHARES = {"planted0": 0.0, "planted3": 0.03, "planted10": 0.1}
"""Provider of the planted engine → by which share of its own time every inference is longer."""


class Planted(OnnxRuntime):
    """ONNX Runtime on one thread, followed by a busy wait for a share of the time that the inference took."""

    name = "planted"
    title = "ONNX Runtime with a planted slowdown"
    in_default = False
    providers: Sequence[Provider] = tuple(Provider(name=name, title=name) for name in SHARES)  # type: ignore[assignment]

    def availability(self) -> Availability:
        """As the engine's own."""
        return super().availability()

    def load(self, path: Path, options: LoadOptions) -> OnnxSession:
        """Return the engine's own session, its `invoke` wrapped when inputs are bound."""
        from dataclasses import replace

        session = super().load(path, replace(options, provider="cpu"))
        share, bind = SHARES[options.provider], session.bind

        def bind_wrapped(arrays: Sequence[Any]) -> None:
            bind(arrays)
            session.invoke = _longer(session.invoke, share)

        session.bind = bind_wrapped  # type: ignore[method-assign]
        return session


def _longer(invoke: Callable[[], object], share: float) -> Callable[[], object]:
    """Return the same call, which then spins until `share` more time has passed; a share of 0 pays for the wrapping
    too.
    """
    now = time.perf_counter_ns

    def invoke_longer() -> None:
        begin = now()
        invoke()
        end = now()
        until = end + (end - begin) * share
        while now() < until:
            pass

    return invoke_longer


@contextlib.contextmanager
def planted_engine() -> Iterator[None]:
    """Install the planted engine as an installed plug-in: its entry point in a folder that this process and workers
    search.
    """
    own = str(Path(__file__).resolve().parent)
    with tempfile.TemporaryDirectory() as folder:
        plugin = Path(folder) / "planted-1.0.dist-info"
        plugin.mkdir()
        (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
        (plugin / "entry_points.txt").write_text("[edgewise.runtimes]\nplanted = noise:Planted\n")
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, own, *([before] if before else [])])
        sys.path[:0] = [folder, own]
        try:
            yield
        finally:
            sys.path.remove(folder)
            sys.path.remove(own)
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before
