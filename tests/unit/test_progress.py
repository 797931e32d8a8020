"""Progress: events reach whoever is in force, and nobody else."""

from __future__ import annotations

from edgewise import progress
from edgewise.progress import Event, LogLine, StageStarted


def test_events_reach_the_innermost_progress() -> None:
    outer: list[Event] = []
    inner: list[Event] = []
    progress.emit(LogLine(text="nobody listens"))
    with progress.reporting_to(outer.append):
        progress.emit(StageStarted(title="one"))
        with progress.reporting_to(None):
            progress.emit(StageStarted(title="two"))
        with progress.reporting_to(inner.append):
            progress.emit(StageStarted(title="three"))
    assert outer == [StageStarted(title="one"), StageStarted(title="two")]
    assert inner == [StageStarted(title="three")]
