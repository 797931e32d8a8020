"""Progress of a sweep on standard error: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from edgewise.amounts import width_text
from edgewise.record import Job, Run
from edgewise.text import one_line
from edgewise.units import format_duration, format_quantity


class ProgressLines:
    """An observer that prints; `quiet` prints nothing."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._job: Job | None = None
        self._words = ""
        self._live: Progress | None = None
        if console.is_terminal and not quiet:
            self._live = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=16),
                TextColumn("{task.completed:.0f}/{task.total:.0f}"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            self._task = self._live.add_task("", total=1)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def job_started(self, job: Job, *, index: int, total: int) -> None:
        """Name the job."""
        self._job = job
        # A file's name may hold anything, and goes to a terminal.
        self._words = escape(f"[{index + 1}/{total}] {one_line(job.label)}")
        if self._live:
            self._live.update(self._task, total=job.workload.stopping.sessions, completed=0)

    def session_started(self, index: int, *, total: int) -> None:
        """Move the bar."""
        if self._live:
            self._live.update(self._task, description=self._words, completed=index, total=total)

    def progressed(self, done: int, average_s: float) -> None:
        """A line every ``--report-every`` inferences, with the running average of that stretch."""
        step = self._job.workload.stopping.report_every if self._job else None
        if not self._quiet and step:
            self._say(f"Steps {done - step}-{done} average: {average_s * 1e3:4.1f}ms")

    def run_finished(self, run: Run) -> None:
        """One line with the outcome."""
        if self._quiet:
            return
        if run.status == "failed" and run.failure is not None:
            self._say(
                f"{self._words}  [red]failed[/]: {escape(one_line(f'{run.failure.cause}: {run.failure.message}'))}"
            )
            return
        headline = run.measurement(run.headline)
        if headline is None or headline.value is None:
            self._say(f"{self._words}  {run.status}")
            return
        if headline.unit == "s":
            words = format_duration(headline.value)
        else:
            words = format_quantity(headline.value, headline.unit)
        if headline.low is not None and headline.high is not None:
            words += f" {width_text(headline.value, headline.low, headline.high, headline.unit)}"
        self._say(f"{self._words}  {words}  grade {run.trust.grade if run.trust else '?'}")

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=True)


class RoundLines(ProgressLines):
    """The same for variants that are measured side by side, round after round."""

    def __init__(self, console: Console, *, quiet: bool, says_at: Sequence[int]) -> None:
        super().__init__(console, quiet=quiet)
        self._says_at = says_at

    def session_started(self, index: int, *, total: int) -> None:
        """Move the bar; without a terminal, a line whenever the data were looked at."""
        self._words = self._words or "side by side, rounds"
        super().session_started(index, total=total)
        if self._live is None and not self._quiet and index in self._says_at:
            self._say(f"{index} rounds of fresh processes: not decided yet")
