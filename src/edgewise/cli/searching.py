"""Progress of a search on standard error: what is being tried, and what became of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.markup import escape

from edgewise.cli.progress import RoundLines
from edgewise.text import one_line
from edgewise.units import significant

if TYPE_CHECKING:
    from edgewise.optimizing.variant import Candidate, LayerSensitivity, Prediction
    from edgewise.run.dispatch import Observer


class SearchLines:
    """A witness that prints; `quiet` prints nothing."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._begin = time.monotonic()
        self._rounds: RoundLines | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_race()

    def stage(self, title: str) -> None:
        """A heading with the time."""
        self._end_race()
        self._say(f"[bold]{escape(one_line(title))}[/] [dim]{time.monotonic() - self._begin:.0f} s[/]")

    def predicted(self, predictions: Mapping[str, Prediction]) -> None:
        """A line each."""
        for name, found in predictions.items():
            words = "not known" if found.speedup is None else f"{significant(found.speedup)}×"
            if found.low is not None and found.high is not None:
                words += f" [{significant(found.low)}, {significant(found.high)}]"
            because = f"  [dim]{escape(one_line(found.because))}[/]" if found.because else ""
            self._say(f"  {escape(one_line(name))}  {escape(words)}{because}")

    def examined(self, candidate: Candidate) -> None:
        """A line with what is known of it."""
        self._end_race()
        drop = candidate.metrics.get("accuracy_drop")
        words = candidate.why
        if not words:
            snr = candidate.metrics.get("output_snr_worst", candidate.metrics.get("output_snr"))
            known = [f"SNR {snr.value:.0f} dB"] if snr is not None and snr.value is not None else []
            if drop is not None and drop.value is not None:
                known.append(f"accuracy drop {drop.value:.4f}")
            words = ", ".join(known) or candidate.stage
        mark = "[green]✓[/]" if candidate.accepted else " "
        self._say(f"{mark} {escape(one_line(candidate.id))}  [dim]{escape(one_line(words))}[/]")

    def answered(self, done: int, total: int) -> None:
        """Nothing: a variant takes seconds."""

    def layer(self, layer: LayerSensitivity) -> None:
        """A line with the layer's SNR."""
        snr = "n/a" if layer.snr_db is None else f"{layer.snr_db:.1f} dB"
        because = f"  [dim]{escape(one_line(layer.absent_because))}[/]" if layer.absent_because else ""
        self._say(f"  {escape(one_line(layer.layer))} ({escape(one_line(layer.op))})  {snr}{because}")

    def racing(self) -> Observer | None:
        """The lines of a comparison."""
        if self._quiet:
            return None
        from edgewise.stats.comparison import LOOKS

        self._end_race()
        self._rounds = RoundLines(self._console, quiet=self._quiet, says_at=LOOKS)
        return self._rounds.__enter__()

    def _end_race(self) -> None:
        if self._rounds is not None:
            self._rounds.__exit__(None, None, None)
            self._rounds = None

    def _say(self, text: str) -> None:
        if not self._quiet:
            self._console.print(text, soft_wrap=True)
