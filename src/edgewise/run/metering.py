"""The sensors' pass: idle and loaded windows in turn, in one process."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from types import MappingProxyType
from typing import Any

from edgewise.metrics import METRICS
from edgewise.run.meters.base import Meter, NoReading, Reading, flaw_of, traits_of

OF_ENERGY = ("energy", "power")
"""Metrics of readings that give an energy: the energy of a window, or its mean power."""
PROMPT = "prompt"
"""The third kind of window, of language models: requests that end at their first token."""
KINDS = ("idle", "load", PROMPT)
ROUNDS = 6
"""Pairs of an idle and a loaded window; their differences give the interval. Even, so that a drift cancels out."""
LEAST_ROUNDS = 4
IDLE_S = 0.75
LOAD_S = 1.5
SETTLE_S = 0.75
"""Time of all idle windows, of all loaded windows, and of settling before them, where no sensor is slow."""
SENSOR_PERIODS = 4
"""New values of the slowest sensor in an idle window. Half as many pass before: they still show the state before."""
SLOW_HZ = SENSOR_PERIODS * ROUNDS / IDLE_S
"""Sensors with a lower rate lengthen the pass."""
LONGEST_S = 60.0
"""Slow sensors lengthen the pass up to this time; a slow model shortens it to `LEAST_ROUNDS` rounds."""
BLOCK_S = 0.05
"""Time between two samples of a meter."""
PATIENCE_S = 2.0
"""Longest time for one call of a meter."""


class MeterThread:
    """A meter in a thread of its own, which samples it while the model runs.

    A meter that fails loses the window; one that blocks is not called again. Neither delays or fails the measurement.

    Attributes:
        traits: name, title, metrics and traits of the meter, JSON-shaped.

    Args:
        every_s: time between two samples.
    """

    def __init__(self, meter: Meter, *, patience_s: float | None = None, every_s: float = BLOCK_S) -> None:
        names = {"name": meter.name, "title": meter.title, "metrics": list(meter.metrics)}
        self.traits = {**names, **asdict(traits_of(meter))}
        self._meter = meter
        self._patience_s = PATIENCE_S if patience_s is None else patience_s
        self._every_s = every_s
        self._dead = ""
        self._orders: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Sequence[Reading], str]] = queue.SimpleQueue()
        try:
            threading.Thread(target=self._serve, daemon=True).start()
        except RuntimeError as error:  # a limit on memory or tasks
            self._dead = f"the meter has no thread: {error}"

    def begin(self) -> None:
        """Start a window."""
        self._ask()

    def end(self) -> tuple[list[dict[str, Any]], str]:
        """End the window.

        Returns:
            Its readings, JSON-shaped, and why readings are missing.
        """
        readings, problem = self._ask()
        return [{"meter": self.traits["name"], **asdict(reading)} for reading in readings], problem

    def close(self) -> None:
        """End the thread."""
        self._orders.put(False)

    def _ask(self) -> tuple[Sequence[Reading], str]:
        if not self._dead:
            self._orders.put(True)
            try:
                return self._answers.get(timeout=self._patience_s)
            except queue.Empty:
                self._dead = f"the meter did not answer within {self._patience_s:g} s"
        return (), self._dead

    def _serve(self) -> None:
        """Answer each order in turn: begin a window, sample it until the next order, end it."""
        while self._orders.get():
            _, problem = _try(self._meter.begin)
            self._answers.put(((), problem))
            while not _arrived(self._orders, self._every_s):
                problem = problem or _try(self._meter.sample)[1]
            readings, problem = ((), problem) if problem else _try(self._meter.end)
            flaws = [flaw_of(each, self._meter.metrics) for each in readings]
            sound = [each for each, flaw in zip(readings, flaws, strict=True) if not flaw]
            self._answers.put((sound, problem or "; ".join(filter(None, flaws))))


def _arrived(orders: queue.SimpleQueue[bool], every_s: float) -> bool:
    """Whether an order comes before the next sample is due."""
    try:
        orders.get(timeout=every_s)
    except queue.Empty:
        return False
    return True


def _try(call: Callable[[], Sequence[Reading] | None]) -> tuple[Sequence[Reading], str]:
    """Return the readings that `call` gives, and why some are missing if it raises anything."""
    try:
        return tuple(call() or ()), ""
    except NoReading as reason:
        return tuple(reason.readings), str(reason)
    except BaseException as error:
        return (), f"the meter failed: {type(error).__name__}: {error}"


def collect(facts: dict[str, Any], meters: Iterable[MeterThread], *, index: int, note: str = "") -> None:
    """End the window `index` of every meter.

    Args:
        facts: gets the ``readings``, and the ``problems``: why a meter lacks a reading.
        note: is added to each method.
    """
    for meter in meters:
        readings, problem = meter.end()
        facts["readings"] += [{**each, "method": each["method"] + note, "window": index} for each in readings]
        if problem:
            facts["problems"].append({"meter": meter.traits["name"], "window": index, "reason": problem})


def check_metered(facts: Mapping[str, Any]) -> None:
    """Raise an error where another machine sent what `read_meters` can't return.

    It is a ValueError, TypeError, LookupError or AttributeError.
    """
    metrics = {str(each["name"]): list(each["metrics"]) for each in facts["sensors"]}
    if any(f"energy:{name}" not in METRICS for name in metrics):
        raise ValueError("a meter without a usable name")
    if any(not math.isfinite(step) for each in facts["sensors"] for step in each["resolution"].values()):
        raise ValueError("a resolution that is not a number")
    for kind in (each for each in KINDS if each != PROMPT or each in facts):
        windows = facts[kind]["windows"]
        if any(not 0 < each["seconds"] < math.inf or each["inferences"] < (kind != "idle") for each in windows):
            raise ValueError(f"a window of {kind} without time or inferences")
        for each in facts[kind]["readings"]:
            fields = {name: value for name, value in each.items() if name not in ("meter", "window")}
            if flaw := flaw_of(Reading(**fields), metrics[each["meter"]]):
                raise ValueError(flaw)
        for each in (*facts[kind]["readings"], *facts[kind]["problems"]):
            if each["meter"] not in metrics or not 0 <= each["window"] < len(windows):
                raise ValueError("a reading of an unknown meter or window")


def slowest_rate(meters: Iterable[Meter]) -> float | None:
    """Return the lowest known rate of the meters that read energy, Hz; None where no rate is known."""
    known = [rate for meter in meters if "energy" in meter.metrics and (rate := traits_of(meter).rate_hz)]
    return min(known, default=None)


def read_meters(
    meters: Sequence[Meter],
    invoke: Callable[[], object],
    *,
    others: Mapping[str, Callable[[], object]] = MappingProxyType({}),
    slowest_hz: float | None = None,
    tell: Callable[..., None] | None = None,
    now: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Return readings of idle and of loaded windows in turn, JSON-shaped.

    Every second round has its loaded window first, so that a steady drift cancels out. Before each window the process
    already rests or works, until the sensors show that. A sensor with a low rate gets longer windows.

    Args:
        others: other kinds of loaded windows, of `KINDS`, and what runs in them.
        slowest_hz: `slowest_rate` of meters that are read elsewhere.
        tell: sends a ``window`` message where a window begins and ends, for meters that are read elsewhere, and
            ``alive`` between windows.

    Returns:
        ``{"sensors": […], "idle": …, "load": …}`` and the kinds in `others`: names and traits of the meters, and of
        each kind of window ``seconds`` and ``inferences`` of all windows, ``windows`` with the same of each one,
        ``readings`` and ``problems``. A reading or problem has the index of its ``window``.
    """
    tell = tell or _ignore
    threads = [MeterThread(meter) for meter in meters]
    works: dict[str, Callable[[], object] | None] = {"idle": None, "load": invoke, **others}
    found: dict[str, dict[str, Any]] = {
        kind: {"seconds": 0.0, "inferences": 0, "windows": [], "readings": [], "problems": []} for kind in works
    }
    rates = [rate for rate in (slowest_rate(meters), slowest_hz) if rate]
    wanted = max(1.0, SLOW_HZ / min(rates)) if rates else 1.0
    stretch = min(wanted, LONGEST_S / (IDLE_S + LOAD_S + SETTLE_S)) / ROUNDS
    pass_time = partial(_pass_time, now=now, sleep=sleep)
    begin = now()
    for index in range(ROUNDS):
        if index >= LEAST_ROUNDS and (now() - begin) / 1e9 > LONGEST_S:
            break
        for kind, work in list(works.items())[:: -1 if index % 2 else 1]:
            pass_time(SETTLE_S / 2 * stretch, work)
            for thread in threads:
                thread.begin()
            tell("window", name=kind, event="begin")
            seconds, inferences = pass_time((IDLE_S if work is None else LOAD_S) * stretch, work)
            tell("window", name=kind, event="end")
            facts = found[kind]
            collect(facts, threads, index=len(facts["windows"]))
            facts["windows"].append({"seconds": seconds, "inferences": inferences})
            facts["seconds"] += seconds
            facts["inferences"] += inferences
            tell("alive")
    for thread in threads:
        thread.close()
    return {"sensors": [thread.traits for thread in threads], **found}


def _pass_time(
    least_s: float, invoke: Callable[[], object] | None, *, now: Callable[[], int], sleep: Callable[[float], None]
) -> tuple[float, int]:
    """Sleep, or run inferences, for `least_s`. Return the time that passed, in s, and the number of inferences."""
    begin, inferences = now(), 0
    end = begin + round(least_s * 1e9)
    while now() < end:
        if invoke is None:
            sleep((end - now()) / 1e9)
        else:
            invoke()
            inferences += 1
    return (now() - begin) / 1e9, inferences


def _ignore(kind: str, **fields: Any) -> None:
    """No meter is read elsewhere."""


def mean_watts(reading: Mapping[str, Any], seconds: float) -> float:
    """Mean power of a window, W."""
    value = float(reading["value"])
    return value if reading["metric"] == "power" else value / seconds
