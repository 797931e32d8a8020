"""How results of ``optimize`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.errors import EdgewiseError, RunFailed
from edgewise.verbs.presentation import Presentation, View

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.optimizing.variant import Optimization


class OptimizePresentation(Presentation["Optimization"]):
    """How the result of a search is shown."""

    files = "OPTIMIZATION"
    left = "the best so far is above; run the same command again to resume"

    def show(self, result: Optimization, console: Console, *, view: View) -> None:
        """Variants before and after, and the choice."""
        from edgewise.report.optimization import print_optimization

        print_optimization(result, console, details=view.details)

    def problems(self, result: Optimization) -> tuple[EdgewiseError, ...]:
        """Why no variant keeps to the bounds, and what is the closest."""
        found: list[EdgewiseError] = []
        if result.unmet:
            closest = f"the closest is {result.closest}; " if result.closest else ""
            advice = f"{closest}loosen a bound, or add --passes or time"
            found.append(RunFailed(f"nothing meets the bounds: {result.unmet}", advice=advice))
        if result.runs_nowhere:
            tried = max(result.candidates, key=lambda one: len(one.metrics))
            why = tried.why.removeprefix(f"{result.device}: ")
            advice = tried.elsewhere.advice if tried.elsewhere else ""
            advice = advice or "loosen a bound, or try other passes with --passes"
            found.append(RunFailed(f"no variant for {result.device}: {why}", advice=advice))
        return tuple(found)
