"""Draws progress on standard error: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.markup import escape

from edgewise.progress import (
    BinDone,
    Event,
    HeadlineUpdated,
    InferencesDone,
    JobStarted,
    LayerTested,
    LogLine,
    RequestsDone,
    RunFinished,
    SamplesDone,
    SamplesFinished,
    SamplesStarted,
    SessionStarted,
    StageStarted,
    VariantPredicted,
    VariantTested,
)
from edgewise.text import one_line
from edgewise.units import format_duration, significant

if TYPE_CHECKING:
    from rich.progress import Progress

    from edgewise.record import Job, ModelRef, Run

SAMPLES_EVERY_S = 10.0
"""Without a terminal, a line about samples at most this often."""


class ProgressLines:
    """A `edgewise.progress.Progress` that prints to `console`; with `quiet` it prints nothing."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._begin = time.monotonic()
        self._live: Progress | None = None
        self._title = ""
        self._headline = ""
        self._job: Job | None = None
        self._models: dict[str, ModelRef] = {}
        self._samples_begin = self._samples_said = 0.0
        self._first_sample = -1
        self._minutes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the live line, so that other lines can be printed."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, event: Event, /) -> None:
        """Draw one event."""
        if self._quiet:
            return
        match event:
            case JobStarted() | SessionStarted() | InferencesDone() | HeadlineUpdated() | BinDone() | RunFinished():
                self._draw_measuring(event)
            case RequestsDone():
                self._draw_speed(event)
            case SamplesStarted() | SamplesDone() | SamplesFinished():
                self._draw_samples(event)
            case _:
                self.close()
                self._say(_line_of(event, since_s=time.monotonic() - self._begin))

    def _label(self, job: Job) -> str:
        """Return the job in a line; where another file of this command had the same name, with its folder.

        A file below the working folder has the last of its folders at once, as a later one may have its name.
        """
        from edgewise.device.devices import LOCAL
        from edgewise.record.names import model_names

        self._models[job.model.path] = job.model
        names = dict(zip(self._models, model_names(list(self._models.values()), hashed=False), strict=True))
        path, here = Path(job.model.path), Path.cwd()
        if job.model.origin is None and path.is_relative_to(here):
            names[job.model.path] = "/".join(path.relative_to(here).parts[-2:])
        place = "" if job.target.device == LOCAL else f" on {job.target.device}"
        place += f" in {job.target.environment}" if job.target.environment else ""
        return one_line(replace(job, model=replace(job.model, name=names[job.model.path])).label + place)

    def _draw_measuring(
        self, event: JobStarted | SessionStarted | InferencesDone | HeadlineUpdated | BinDone | RunFinished
    ) -> None:
        match event:
            case JobStarted(job=job, index=index, total=total):
                self._job, self._headline = job, ""
                # A file's name may hold anything, and goes to a terminal.
                self._title = escape(f"[{index + 1}/{total}] {self._label(job)}")
            case SessionStarted(index=index, total=total) if self._job is None:
                self._title = "side by side, rounds"
                self._move(index, total)
                if not self._console.is_terminal and _is_look(index):
                    self._say(f"{index} rounds of fresh processes: no verdict yet")
            case SessionStarted(index=index, total=total):
                self._move(index, total)
            case InferencesDone(done=done, average_s=average_s):
                step = self._job.workload.stopping.report_every if self._job else None
                if step:
                    self._say(f"Steps {done - step}-{done} average: {average_s * 1e3:4.1f}ms")
            case HeadlineUpdated(value=value, low=low, high=high, unit=unit):
                self._headline = f"  {escape(headline_words(value, low, high, unit))}"
            case BinDone(elapsed_s=elapsed, total_s=total, latency_s=latency):
                self._move(round(min(elapsed, total)), round(total))
                minute = int(elapsed // 60)
                if not self._console.is_terminal and minute > self._minutes:
                    self._minutes = minute
                    words = f"{minute} of {total / 60:.3g} min, latency {format_duration(latency)}"
                    self._say(f"{self._title}  {words}")
            case RunFinished(run=run):
                self._minutes, self._headline = 0, ""
                title = self._title or escape(self._label(run.job))
                self._say(f"{title}  {_outcome(run)}")
                self._job = None

    def _draw_speed(self, event: RequestsDone) -> None:
        """Show how fast a language model is just now on the live line; several that take turns have no such line."""
        if self._job is None or self._live is None or event.decode_rate is None:
            return
        self._headline = f"  {significant(event.decode_rate)} tokens/s"
        (task,) = self._live.task_ids
        self._live.update(task, description=self._title + self._headline)

    def _draw_samples(self, event: SamplesStarted | SamplesDone | SamplesFinished) -> None:
        match event:
            case SamplesStarted(job=job, total=total):
                self.close()
                self._job = None
                self._title = escape(self._label(job))
                self._samples_begin = self._samples_said = time.monotonic()
                self._first_sample = -1
                self._move(0, total)
            case SamplesDone(done=done, total=total) if self._title:
                self._move(done, total)
                self._say_samples(done, total)
            case SamplesFinished():
                self.close()
                words = f"{event.answered} samples in {format_duration(event.seconds)}"
                words += f", {event.skipped} skipped" if event.skipped else ""
                words += f" ({event.resumed} answered before)" if event.resumed else ""
                words += f"; [red]failed[/]: {escape(one_line(event.failure))}" if event.failure else ""
                self._say(f"{self._title}  {words}")
                self._title = ""

    def _say_samples(self, done: int, total: int) -> None:
        """Without a terminal, a line now and then, with the time left."""
        now = time.monotonic()
        # Samples that an earlier pass answered took no time in this one.
        self._first_sample = done if self._first_sample < 0 else self._first_sample
        if self._console.is_terminal or now - self._samples_said < SAMPLES_EVERY_S or done >= total:
            return
        self._samples_said = now
        rate = (done - self._first_sample) / (now - self._samples_begin)
        left = f", {format_duration((total - done) / rate)} left" if rate > 0 else ""
        self._say(f"{self._title}  {done} of {total} samples{left}")

    def _move(self, done: int, total: int) -> None:
        """Move the live line, where this is a terminal."""
        if not self._console.is_terminal:
            return
        if self._live is None:
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._live = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=16),
                TextColumn("{task.completed:.0f}/{task.total:.0f}"),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._live.add_task(self._title, completed=done, total=total)
            self._live.start()
        (task,) = self._live.task_ids
        self._live.update(task, description=self._title + self._headline, completed=done, total=total)

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=True)


def _is_look(rounds: int) -> bool:
    """Whether the data are looked at after this many rounds."""
    from edgewise.stats.comparison import LOOKS

    return rounds in LOOKS


def _outcome(run: Run) -> str:
    """Return the headline of a run, its interval and its grade, or why it failed."""
    from edgewise.report.bench.values import headline_text

    if run.status == "failed" and run.failure is not None:
        return f"[red]failed[/]: {escape(one_line(f'{run.failure.cause}: {run.failure.message}'))}"
    headline = run.measurement(run.headline)
    if headline is None or headline.value is None:
        return run.status
    grade = f"grade {run.trust.grade if run.trust else '?'}"
    return f"{escape(headline_text(run))}  {run.status if run.status == 'cancelled' else grade}"


def headline_words(value: float, low: float | None, high: float | None, unit: str) -> str:
    """Return a value with its interval, where it has one."""
    from edgewise.formatting import amount_text

    return amount_text(unit, value, low, high)


def _line_of(event: Event, *, since_s: float) -> str:
    """Return the line of an event that moves no bar.

    Args:
        since_s: how long the command has been at work, s.
    """
    match event:
        case StageStarted(title=title):
            return f"[bold]{escape(one_line(title))}[/] [dim]({since_s:.0f} s after the start)[/]"
        case VariantPredicted():
            from edgewise.formatting import factor_text

            words = "not known" if event.speedup is None else factor_text(event.speedup, event.low, event.high)
            return f"  {escape(one_line(event.name))}  {escape(words)}{_dim(event.because)}"
        case VariantTested():
            mark = "[green]✓[/]" if event.accepted else " "
            return f"{mark} {escape(one_line(event.id))}{_dim(event.why or _known(event))}"
        case LayerTested():
            snr = "n/a" if event.snr_db is None else f"{event.snr_db:.1f} dB"
            return (
                f"  {escape(one_line(event.layer))} ({escape(one_line(event.op))})  {snr}{_dim(event.absent_because)}"
            )
        case LogLine(text=text):
            return f"[dim]{escape(one_line(text))}[/]"
    return ""


def _known(event: VariantTested) -> str:
    """Return what is known of a variant: how near its outputs are, and what accuracy it loses."""
    snr = event.metrics.get("output_snr_worst", event.metrics.get("output_snr"))
    drop = event.metrics.get("accuracy_drop")
    known = [f"SNR {snr:.0f} dB"] if snr is not None else []
    known += [f"accuracy drop {drop:.4f}"] if drop is not None else []
    return ", ".join(known) or event.stage


def _dim(text: str) -> str:
    return f"  [dim]{escape(one_line(text))}[/]" if text else ""
