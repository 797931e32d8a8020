"""Power meters for tests: a pseudo-terminal whose other end a thread writes."""

from __future__ import annotations

import contextlib
import os
import threading
import tty


class Terminal:
    """A serial device at `path`; `write` is what the meter prints."""

    def __init__(self):
        self.master, self._slave = os.openpty()  # the slave stays open, so that bytes wait for a reader
        tty.setraw(self._slave)
        self.path = os.ttyname(self._slave)

    def write(self, text):
        os.write(self.master, text if isinstance(text, bytes) else text.encode())

    def close(self):
        """Unplug the meter."""
        for descriptor in (self.master, self._slave):
            with contextlib.suppress(OSError):
                os.close(descriptor)


class Streaming:
    """A thread that prints `watts` every `period_s`, until `stop`."""

    def __init__(self, terminal, *, watts=2.0, period_s=0.02, line="{:.3f}\n"):
        self._terminal, self._period_s, self._line = terminal, period_s, line
        self.printed = 0
        self._watts, self._lock, self._stopped = watts, threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def set(self, watts):
        """From the next line on."""
        with self._lock:
            self._watts = watts

    def stop(self):
        self._stopped.set()
        self._thread.join()

    def _run(self):
        while not self._stopped.wait(self._period_s):
            with self._lock:
                self._terminal.write(self._line.format(self._watts))
            self.printed += 1


class PowerShield:
    """Answers an LPM01A's commands, and streams 1000 samples of `sample` a second in bursts between start and stop."""

    def __init__(self, terminal, *, sample="6409-06", refuses=""):
        self._terminal, self._sample, self._refuses = terminal, sample, refuses
        self.commands = []
        self.released = threading.Event()
        self._streaming, self._ended = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._answer), threading.Thread(target=self._stream)]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def close(self):
        """Unplug the shield."""
        self._ended.set()
        self._streaming.set()
        self._threads[1].join()

    def _answer(self):
        buffer = b""
        while not self._ended.is_set():
            try:
                buffer += os.read(self._terminal.master, 100)
            except OSError:
                return
            while b"\r\n" in buffer:
                line, _, buffer = buffer.partition(b"\r\n")
                self._obey(line.decode())

    def _obey(self, command):
        self.commands.append(command)
        if command == "stop":
            if self._streaming.is_set():
                self._streaming.clear()
                self._terminal.write("\r\nPowerShield > Acquisition completed\r\n")
            return
        verdict = "error" if command == self._refuses else "ack"
        self._terminal.write(f"\r\nPowerShield > {verdict} {command}\r\n\r\n")
        if command == "start":
            self._streaming.set()
        if command == "hrc":
            self.released.set()

    def _stream(self):
        count = 0
        while self._streaming.wait() and not self._ended.wait(0.02):  # real time: a period
            if self._streaming.is_set():
                self._terminal.write(f"{self._sample}\r\n" * 20)
                count += 20
                if count % 1000 == 0:
                    self._terminal.write(f"TimeStamp: {count // 1000:03}s 000ms, buff 00%\r\n")
