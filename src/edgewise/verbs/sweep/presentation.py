"""How a sweep is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import RunFailed
from edgewise.verbs.presentation import Presentation
from edgewise.verbs.sweep.request import SweepRequest
from edgewise.verbs.sweep.result import SweepResult

if TYPE_CHECKING:
    from edgewise.report.files import ResultFormat


class SweepPresentation(Presentation[SweepResult]):
    """How the cells of a suite are shown."""

    left = "finished cells are kept; the same command goes on from there"

    @property
    def _format(self) -> ResultFormat[SweepResult]:
        """As described; a report of an earlier sweep is replaced, as the same command goes on."""
        usual = super()._format
        return replace(usual, is_own=_is_report, writers={**usual.writers, ".csv": _as_csv})

    def plan(self, request: SweepRequest) -> tuple[Sequence[str], Sequence[str]]:
        """Return the cells, and how long they take where finished ones tell it."""
        from edgewise.verbs.sweep.work import plan_of

        found = plan_of(request)
        waiting = set(found.waiting)
        lines = [f"cell: {cell.name}{'' if at in waiting else ' (finished)'}" for at, cell in enumerate(found.cells)]
        words = found.time_words(found.waiting)
        waits = ", without waiting for busy devices" if waiting or found.turns_s else ""
        lines.append(f"{len(waiting)} of {len(found.cells)} cells to carry out; time: {words}{waits}")
        notes = [f"can't be read: {error.message}" for error in found.unread.values()]
        notes += [f"does not count: {line}" for line in found.not_counted]
        return lines, [*notes, *(f"left out: {why} ({count})" for why, count in found.left_out.items())]

    def problems(self, result: SweepResult) -> list[RunFailed]:
        """State that cells failed; the result has the reasons."""
        count = len(result.failed)
        if not count or result.emitted:
            return []
        return [RunFailed(f"{count} cell{'s' if count > 1 else ''} failed", advice="the same command tries them again")]


_MARKS = (b"# Sweep ", b"<title>Sweep ", b'"suite":', b"Model,", b"Place,")
"""What a report of a sweep has near its beginning, as Markdown, page, JSON and CSV."""


def _as_csv(result: SweepResult) -> str:
    from edgewise.report.document.csv import render_csv

    return render_csv(result.all_metrics())


def _is_report(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(65536)
    except OSError:
        return False
    return any(mark in head for mark in _MARKS[:3]) or head.startswith(_MARKS[3:])
