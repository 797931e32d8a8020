"""Progress of a pass over data on standard error: a live line with the time left, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.markup import escape

from edgewise.text import one_line
from edgewise.units import format_duration

if TYPE_CHECKING:
    from edgewise.evaluating.evaluator import Answers
    from edgewise.record import Job

EVERY_S = 10.0
"""Without a terminal, a line so often."""


class PassLines:
    """A spectator that prints; `quiet` prints nothing.

    Args:
        first: called when a pass starts.
    """

    def __init__(self, console: Console, *, quiet: bool, first: Callable[[], None]) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = console
        self._quiet = quiet
        self._before = first
        self._words = ""
        self._begin = self._last = 0.0
        self._first = 0
        self._live: Progress | None = None
        if console.is_terminal and not quiet:
            self._live = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=16),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            self._task = self._live.add_task("", total=None, visible=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def pass_started(self, job: Job, *, total: int) -> None:
        """Name the model."""
        self._before()
        self._words = escape(one_line(job.label))
        self._begin = self._last = time.monotonic()
        self._first = -1
        if self._live:
            self._live.start()
            self._live.reset(self._task, total=total, description=f"{self._words}, samples", visible=True)

    def answered(self, done: int, total: int) -> None:
        """Move the bar; without a terminal, a line now and then with the time left."""
        if self._live:
            self._live.update(self._task, completed=done, total=total)
            return
        now = time.monotonic()
        # What an earlier pass had left took no time in this one.
        self._first = done if self._first < 0 else self._first
        if self._quiet or now - self._last < EVERY_S or done >= total:
            return
        self._last = now
        rate = (done - self._first) / (now - self._begin)
        left = f", {format_duration((total - done) / rate)} left" if rate > 0 else ""
        self._say(f"{self._words}  {done} of {total} samples{left}")

    def pass_finished(self, answers: Answers) -> None:
        """One line with what became of it."""
        if self._live:
            self._live.update(self._task, visible=False)
            self._live.stop()
        if self._quiet:
            return
        skipped = sum(bool(entry.reason) for entry in answers.entries)
        words = f"{len(answers.records)} samples in {format_duration(answers.seconds)}"
        words += f", {skipped} skipped" if skipped else ""
        words += f" ({answers.resumed} from before)" if answers.resumed else ""
        if answers.failure is not None:
            words += f"; [red]failed[/]: {escape(one_line(answers.failure.message))}"
        self._say(f"{self._words}  {words}")

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)
