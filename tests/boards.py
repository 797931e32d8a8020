"""A board of Python code behind a real pseudo-terminal that speaks MLPerf Tiny's protocol, and can misbehave."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import tty
from collections.abc import Callable, Iterator, Sequence

from patience import LIMIT_S


class FakeBoard:
    """Answers commands; its timer advances by `latency_us` per inference, and no real time passes.

    Attributes:
        port: path of the pseudo-terminal.
        commands: all commands so far.
        answers: how many commands were answered; the host can read all of these answers.
        loaded: the bytes of the input buffer.
        override: a command → the raw bytes to send instead of the answer; None answers as usual.
    """

    def __init__(
        self, *, latency_us: float = 2000, results: Sequence[object] = (0.25, 0.75), model: str = "custom",
        boot: str = "", override: Callable[[str], bytes | None] = lambda command: None,
    ) -> None:  # fmt: skip
        self.latency_us, self.results, self.model, self.override = latency_us, results, model, override
        self.commands: list[str] = []
        self.answers = 0
        self.loaded = b""
        self.timer = 1000.0
        self._expected = 0
        self._master, slave = os.openpty()
        tty.setraw(slave)
        self.port = os.ttyname(slave)
        self._slave = slave
        self._stop, self._wake = os.pipe()
        if boot:
            os.write(self._master, boot.encode())
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Unplug the board."""
        os.write(self._wake, b"x")
        self._thread.join(LIMIT_S)

    def _serve(self) -> None:
        buffer = b""
        try:
            while True:
                ready, _, _ = select.select([self._master, self._stop], [], [])
                if self._stop in ready:
                    return
                buffer += os.read(self._master, 4096)
                while b"%" in buffer:
                    command, _, buffer = buffer.partition(b"%")
                    self.commands.append(command.decode(errors="replace"))
                    answer = self.override(self.commands[-1])
                    if answer == b"unplug":
                        return
                    self._write(self._answer(self.commands[-1]) if answer is None else answer)
                    self.answers += 1
        finally:
            os.close(self._slave)
            os.close(self._master)

    def _write(self, data: bytes) -> None:
        while data and self._stop not in select.select([self._stop], [self._master], [])[0]:
            data = data[os.write(self._master, data[:1024]) :]

    def _answer(self, command: str) -> bytes:
        return "".join(f"{line}\r\n" for line in [*self._lines(command.split()), "m-ready"]).encode()

    def _lines(self, words: list[str]) -> list[str]:
        match words:
            case ["name"]:
                return ["m-name-dut-[fake board]"]
            case ["profile"]:
                return ["m-profile-[ULPMark for tinyML Firmware V0.0.1]", f"m-model-[{self.model}]"]
            case ["timestamp"]:
                return [self._lap(1)]
            case ["db", "load", count]:
                self._expected, self.loaded = int(count), b""
                return [f"m-[Expecting {count} bytes]"]
            case ["db", digits]:
                self.loaded += bytes.fromhex(digits)
                return ["m-load-done"] if len(self.loaded) >= self._expected else []
            case ["infer", count, warmup]:
                self._pass(int(warmup))
                begin = self._lap(0)
                lines = [f"m-warmup-start-{warmup}", "m-warmup-done", f"m-infer-start-{count}", begin]
                return [*lines, self._lap(int(count)), "m-infer-done", self._results()]
            case ["results"]:
                return [self._results()]
        return [f"e-[Unknown command: {' '.join(words)}]"]

    def _pass(self, inferences: float) -> None:
        self.timer += inferences * self.latency_us

    def _lap(self, inferences: float) -> str:
        self._pass(inferences)
        return f"m-lap-us-{int(self.timer) % 2**32}"

    def _results(self) -> str:
        return f"m-results-[{','.join(str(each) for each in self.results)}]"


@contextlib.contextmanager
def fake_board(**settings: object) -> Iterator[FakeBoard]:
    """A `FakeBoard` that is unplugged in the end."""
    board = FakeBoard(**settings)  # type: ignore[arg-type]
    try:
        yield board
    finally:
        with contextlib.suppress(OSError):
            board.close()
