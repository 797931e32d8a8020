"""Workers as threads of the test, for tests of their host: the real worker's code over real pipes, without processes.

What only a process can do (crash, hang with the lock held, be killed) is tested with processes in ``tests/process``;
here a script's bad deed becomes what the host sees of it. A round takes milliseconds, every order is written down, a
worker may be replaced by one that talks nonsense, and under a scripted clock a hang ends at the host's deadline at once.
"""

from __future__ import annotations

import itertools
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgewise.clock import clock_in_force
from edgewise.device.target import LocalTarget
from edgewise.run import interleaving
from edgewise.run.protocol import PROTOCOL, decode, encode
from edgewise.run.worker import Worker, explain
from edgewise.runtime import fake_script
from scripted_clock import PATIENCE_S, Gone, ScriptedClock, Speaker

GONE = -9


class Ended(BaseException):
    """The worker's process ends, with this code (−N after signal N)."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Line:
    """The worker's end of the two pipes.

    Attributes:
        sleep: says nothing for some seconds of the scripted clock, without a number until the host ends it.
        printed: the worker's standard error.
    """

    def __init__(
        self,
        job: Mapping[str, Any],
        number: int,
        orders: queue.SimpleQueue[bytes],
        channel: int,
        *,
        speaker: Speaker | None = None,
        printed: Path = Path(os.devnull),
    ) -> None:
        self.job = job
        self.number = number
        self.orders = orders
        self.printed = printed
        self.sleep = (speaker or Speaker()).sleep
        self._channel: int | None = channel

    @property
    def name(self) -> str:
        """The file name of the model."""
        return Path(self.job["model"]).name

    def send(self, kind: str, **fields: Any) -> None:
        """One message to the host."""
        self.write(encode(kind, **fields))

    def write(self, data: bytes) -> None:
        """Any bytes to the host."""
        while data:
            if self._channel is None:
                raise OSError("the channel is closed")
            data = data[os.write(self._channel, data) :]

    def print(self, words: str) -> None:
        """Words on standard error."""
        with self.printed.open("a") as file:
            file.write(words)

    def close(self) -> None:
        """Close the channel, if that was not done."""
        if self._channel is not None:
            os.close(self._channel)
            self._channel = None

    def hear(self) -> dict[str, Any]:
        """The next order."""
        return decode(self.orders.get())

    def say_hello(self) -> None:
        """As every worker begins."""
        self.send("hello", protocol=PROTOCOL, pid=os.getpid(), python="3.11.0", started_ns=time.monotonic_ns())


Part = Callable[[Line], None]


_here = threading.local()
"""The line of the worker that this thread plays."""


def _end(code: int) -> Callable[[str], None]:
    def deed(place: str) -> None:
        raise Ended(code)

    return deed


def _close(place: str) -> None:
    """What a worker without a channel comes to: its next message is an error, and it exits."""
    _here.line.close()
    raise Ended(1)


DEEDS: Mapping[str, Callable[[str], None]] = {
    "segfault": _end(-signal.SIGSEGV),
    "abort": _end(-signal.SIGABRT),
    "exit": _end(7),
    "hang": lambda place: _here.line.sleep(),
    "spin": lambda place: _here.line.sleep(),
    "garbage": lambda place: _here.line.write(b"\x00\xff this is no message of the protocol\n"),
    "close-channel": _close,
}
"""What the host sees of the deeds of a fake model that end or stop a process; the others are exceptions already."""


def play_worker(line: Line) -> None:
    """The real worker, from hello to done or failed."""
    worker = Worker(line.job, line, line.orders)  # type: ignore[arg-type]
    line.say_hello()
    _here.line = line
    try:
        worker.run()
    except Exception as error:
        cause, message = explain(error)
        advice = getattr(error, "advice", "")
        line.send("failed", cause=cause, message=message, advice=advice, phase=worker.phase_name, trace="")


class ThreadProcess:
    """A worker's thread with the face of a process."""

    def __init__(self, transport: ThreadTransport, number: int, folder: Path) -> None:
        self.pid = os.getpid()
        self.stderr = folder / "stderr"
        self.returncode: int | None = None
        heard, told = os.pipe(), os.pipe()
        self.stdin = os.fdopen(heard[1], "wb")
        self.stdout = os.fdopen(told[0], "rb")
        self._orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._code = GONE
        self._clock = found if isinstance(found := clock_in_force(), ScriptedClock) else None
        self._mouth = told[0]
        self._speaker = Speaker() if self._clock is None else self._clock.listen(self._mouth)
        self._thread = threading.Thread(
            target=self._live, args=(transport, number, heard[0], told[1]), daemon=True, name=f"worker-{number}"
        )
        self._thread.start()

    def _live(self, transport: ThreadTransport, number: int, ears: int, mouth: int) -> None:
        with os.fdopen(ears, "rb") as heard:
            job = decode(heard.readline())
            line = Line(job, number, self._orders, mouth, speaker=self._speaker, printed=self.stderr)
            transport.jobs.append(job)

            def listen() -> None:
                while order := heard.readline():
                    transport.orders.append((line.name, decode(order)["kind"]))
                    self._orders.put(order)
                self._orders.put(b"the host has gone\n")  # no message: whoever waits for one ends

            ear = threading.Thread(target=listen, daemon=True)
            ear.start()
            # A host that has gone closes the pipes: whatever is written then is an error and the end.
            try:
                with suppress(Exception, Gone):
                    transport.part_of(line)(line)
            except Ended as end:
                self._code = end.code
            transport.ended.append((line.name, number))
            line.close()
            self._speaker.changed.set()
            ear.join()

    def wait(self, timeout: float | None = None) -> int:
        """Until the thread has ended, by itself or because nobody listens; one that is silent does not end."""
        self.stdin.close()
        assert self._speaker.changed.wait(PATIENCE_S)
        if self._speaker.until is not None:
            if self._clock is not None:
                self._clock.let_pass(timeout or 0.0)
            raise TimeoutError
        self._thread.join(PATIENCE_S)
        self.returncode = self._code
        return self.returncode

    def kill(self) -> None:
        """Close the pipes, which ends every well-behaved thread; one that had ended keeps its code."""
        if self._clock is not None:
            self._clock.forget(self._mouth)
        self._speaker.end()
        for stream in (self.stdin, self.stdout):
            with suppress(OSError):
                stream.close()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "a worker's thread did not end with its host"
        self.returncode = self._code


class ThreadTransport:
    """Starts threads.

    Attributes:
        jobs: the ``job`` messages, in the order of the starts.
        orders: (file name of the model, kind of order), in the order in which workers heard them. Only one worker has
            an order at a time where they take turns, so that the order is that of the host.
        parts: (file name of the model, how many workers of it were started before) → who plays that worker.
    """

    name = "threads"

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.orders: list[tuple[str, str]] = []
        self.ended: list[tuple[str, int]] = []
        self.parts: dict[tuple[str, int], Part] = {}
        self._count = 0

    def start(
        self, command: Sequence[str], *, folder: Path, environment: Mapping[str, str], stderr: Path
    ) -> ThreadProcess:
        """As a transport does; `command` says nothing that is not known."""
        del command, environment, stderr
        self._count += 1
        return ThreadProcess(self, self._count - 1, folder)

    def part_of(self, line: Line) -> Part:
        """Who plays the worker of `line`."""
        earlier = sum(Path(job["model"]).name == line.name for job in self.jobs) - 1
        return self.parts.get((line.name, earlier), play_worker)

    def turns(self) -> list[str]:
        """Whose turn it was, one after the other."""
        return [name for name, kind in self.orders if kind == "turn"]


def install(monkeypatch: pytest.MonkeyPatch, *, turns: int) -> ThreadTransport:
    """From now on workers are threads, and a round has so many turns.

    The collector of garbage, which a worker stops and freezes, here is the test's own and left alone.
    """
    threads = ThreadTransport()
    monkeypatch.setattr("edgewise.device.target._TARGETS", {"local": LocalTarget(threads)})
    words = ("collect", "freeze", "disable", "enable")
    monkeypatch.setattr("edgewise.run.worker.gc", SimpleNamespace(**dict.fromkeys(words, lambda: None)))
    monkeypatch.setattr("edgewise.runtime.fake_script.DEEDS", {**fake_script.DEEDS, **DEEDS})
    monkeypatch.setattr("edgewise.run.interleaving.TURNS", turns)
    return threads


def living() -> list[str]:
    """The workers that have not ended."""
    # real time: only the workers of this test, by their names
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("worker-")]


def interrupt_round(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The user presses Ctrl-C while the processes of round `number`, counted from 0, take turns.

    Not by a signal, which under xdist now and then ends the worker; real signals are in ``tests/process``.
    """
    take_turns, rounds = interleaving._take_turns, itertools.count()

    def interrupted(*words: Any, **settings: Any) -> int | None:
        if next(rounds) == number:
            raise KeyboardInterrupt
        return take_turns(*words, **settings)

    monkeypatch.setattr(interleaving, "_take_turns", interrupted)


@pytest.fixture(name="threads")
def threaded(monkeypatch: pytest.MonkeyPatch, clock: ScriptedClock) -> ThreadTransport:
    """Workers are threads in this test, and time is what `clock` says."""
    return install(monkeypatch, turns=5)
