"""How results of ``optimize`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.device.devices import LOCAL
from edgewise.errors import EdgewiseError, RunFailed
from edgewise.metrics import METRICS
from edgewise.report.files import ResultFormat, result_format
from edgewise.verbs.presentation import Presentation, View
from edgewise.verbs.rows import Row, estimated_row, number_of

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.optimizing.variant import Optimization


FORMAT: ResultFormat[Optimization] = result_format(
    "Optimization",
    "optimization",
    "optimization.document:describe_optimization",
    table="optimization.tables:csv_table",
    kind="optimization",
    model_paths=lambda result: [] if result.baseline.model is None else [result.baseline.model.path],
)


class OptimizePresentation(Presentation["Optimization"]):
    """How the result of a search is shown."""

    files = FORMAT
    left = "the best so far is above; run the same command again to resume"

    def show(self, result: Optimization, console: Console, *, view: View) -> None:
        """Variants before and after, and the choice."""
        from edgewise.report.optimization.document import print_optimization

        print_optimization(result, console, details=view.details)

    def rows(self, result: Optimization) -> list[Row]:
        """The chosen variant, or the original where none is better."""
        one = result.baseline if result.chosen is None else result.candidate(result.chosen)
        names = [name for name in ("latency", result.headline, "speedup", "model_size") if name in one.metrics]
        metrics = {
            name: number_of(name, number, number.basis)
            for name, number in one.metrics.items()
            if number.value is not None and name in METRICS  # others are ratios to the original alone
        }
        original = result.baseline.model
        model = {"model": original.name if original else None, "sha256": original.sha256 if original else None}
        runtime = {"runtime": one.runtime.name, "version": one.runtime.version, "threads": one.runtime.threads}
        row = estimated_row(model, result.device or LOCAL, [name for name in names if name in metrics], metrics)
        return [{**row, **runtime, "variant": one.id, "run": one.run}]

    def problems(self, result: Optimization) -> tuple[EdgewiseError, ...]:
        """Why no variant keeps to the bounds, and what is the closest."""
        found: list[EdgewiseError] = []
        if result.unmet:
            closest = f"the closest is {result.closest}; " if result.closest else ""
            advice = f"{closest}loosen a bound, or add ⟦passes⟧ or time"
            found.append(RunFailed(f"nothing meets the bounds: {result.unmet}", advice=advice))
        if result.runs_nowhere:
            tried = max(result.candidates, key=lambda one: len(one.metrics))
            why = tried.why.removeprefix(f"{result.device}: ")
            advice = tried.elsewhere.advice if tried.elsewhere else ""
            advice = advice or "loosen a bound, or try other passes with ⟦passes⟧"
            found.append(RunFailed(f"no variant for {result.device}: {why}", advice=advice))
        return tuple(found)
