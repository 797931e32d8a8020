"""Says at once that a program reached its memory limit: what the limit ends may be what the program waits for."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from edgewise.constraints.base import Usage
from edgewise.constraints.memory_watch import MemoryWatch
from edgewise.errors import as_flag
from edgewise.text import enumerate_few, means_out_of_memory
from edgewise.units import format_limit

MOST_LINES = 3
"""Lines about one execution; a program may start again what was killed."""
_WORDS = 200
"""Characters of earlier output that may belong to the words of an error."""


@dataclass(slots=True, kw_only=True)
class LimitAlarm:
    """What is known of the memory limit in one execution.

    Attributes:
        pid: of the command itself.
        watch: the kernel's reports; None where there are none.
        reached_s: time since the start at which the limit was first found to be reached, s; None if it was not.
        told_by: ``kernel``, or ``output`` where the output of the command alone says so.
        killed: processes that the kernel killed, with their names, where known.
    """

    memory_bytes: int
    pid: int
    watch: MemoryWatch | None
    reached_s: float | None = None
    told_by: str = "kernel"
    killed: list[str] = field(default_factory=list)
    _kills: int = 0
    _lines: int = 0
    _output: str = ""

    @property
    def descriptors(self) -> list[int]:
        """What to wait for: readable where `look` has something to take."""
        return [] if self.watch is None else [self.watch.descriptor]

    def look(self, now_s: float) -> None:
        """Take the kernel's report, once `watch` is readable."""
        if self.watch is not None and (count := self.watch.look()):
            self._tell(now_s, count)

    def count(self, usage: Usage, now_s: float) -> None:
        """Take a sample of the counters, where the kernel reports nothing by itself."""
        if self.watch is None and (usage.oom_kills or 0) > self._kills:
            self._tell(now_s, (usage.oom_kills or 0) - self._kills)

    def read(self, output: str, now_s: float) -> None:
        """Take new output, where the kernel reports nothing: a process that gets no memory often says so."""
        if self.watch is not None or not self.memory_bytes or self.reached_s is not None:
            return
        if means_out_of_memory(self._output + output):
            self.reached_s = now_s
            self.told_by = "output"
            self._say("may be reached: the output of the command says that a process got no memory")
        self._output = (self._output + output)[-_WORDS:]

    def _tell(self, now_s: float, count: int) -> None:
        self._kills += count
        self.reached_s = now_s if self.reached_s is None else self.reached_s
        names = self.watch.names() if self.watch is not None else []
        self.killed += names
        counted = f"{count} process{'es' if count > 1 else ''}"
        self._say(f"was reached: the kernel killed {enumerate_few(names) or counted}")

    def _say(self, what: str) -> None:
        self._lines += 1
        if self._lines > MOST_LINES:
            return
        stuck = ". A command that waits for an ended process waits for ever: end it with Ctrl-C"
        advice = f"{stuck}, and raise {as_flag('memory')}"
        if self._lines > 1 or f"(process {self.pid})" in what:
            advice = "; no more lines about this limit follow" if self._lines == MOST_LINES else ""
        sys.stderr.write(f"\nedgewise: the memory limit of {format_limit(self.memory_bytes)} {what}{advice}\n")
        sys.stderr.flush()
