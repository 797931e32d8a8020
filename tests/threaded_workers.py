"""Workers as threads of the test, for tests of their host: the real worker's code over real pipes, without processes.

What only a process can do (crash, hang with the lock held, be killed) is tested with processes in ``tests/process``.
Here a round takes milliseconds, every order is written down, and a worker may be replaced by one that talks nonsense.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgewise.device.target import LocalTarget
from edgewise.run import interleaving
from edgewise.run.protocol import PROTOCOL, decode, encode
from edgewise.run.worker import Worker, explain

GONE = -9


class Line:
    """The worker's end of the two pipes."""

    def __init__(self, job: Mapping[str, Any], number: int, orders: queue.SimpleQueue[bytes], channel: int) -> None:
        self.job = job
        self.number = number
        self.orders = orders
        self._channel = channel

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
            data = data[os.write(self._channel, data) :]

    def hear(self) -> dict[str, Any]:
        """The next order."""
        return decode(self.orders.get())

    def say_hello(self) -> None:
        """As every worker begins."""
        self.send("hello", protocol=PROTOCOL, pid=os.getpid(), python="3.11.0", started_ns=time.monotonic_ns())


Part = Callable[[Line], None]


def play_worker(line: Line) -> None:
    """The real worker, from hello to done or failed."""
    worker = Worker(line.job, line, line.orders)  # type: ignore[arg-type]
    line.say_hello()
    try:
        worker.run()
    except Exception as error:
        cause, message = explain(error)
        line.send("failed", cause=cause, message=message, phase=worker.phase_name, trace="")


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
        self._thread = threading.Thread(
            target=self._live, args=(transport, number, heard[0], told[1]), daemon=True, name=f"worker-{number}"
        )
        self._thread.start()

    def _live(self, transport: ThreadTransport, number: int, ears: int, mouth: int) -> None:
        with os.fdopen(ears, "rb") as heard:
            job = decode(heard.readline())
            line = Line(job, number, self._orders, mouth)
            transport.jobs.append(job)

            def listen() -> None:
                while order := heard.readline():
                    transport.orders.append((line.name, decode(order)["kind"]))
                    self._orders.put(order)
                self._orders.put(b"the host has gone\n")  # no message: whoever waits for one ends

            ear = threading.Thread(target=listen, daemon=True)
            ear.start()
            # A host that has gone closes the pipes: whatever is written then is an error and the end.
            with suppress(Exception):
                transport.part_of(line)(line)
            transport.ended.append((line.name, number))
            os.close(mouth)
            ear.join()

    def wait(self, timeout: float | None = None) -> int:
        """Until the thread has ended, by itself or because nobody listens."""
        self.stdin.close()
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError
        self.returncode = GONE
        return self.returncode

    def kill(self) -> None:
        """Close the pipes, which ends every well-behaved thread."""
        for stream in (self.stdin, self.stdout):
            with suppress(OSError):
                stream.close()
        self._thread.join(60.0)
        assert not self._thread.is_alive(), "a worker's thread did not end with its host"
        self.returncode = GONE


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
    monkeypatch.setattr("edgewise.run.interleaving.TURNS", turns)
    return threads


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
