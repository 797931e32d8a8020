"""How results of ``optimize`` are shown."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.device.devices import LOCAL
from edgewise.errors import EdgewiseError, RunFailed
from edgewise.metrics import METRICS
from edgewise.report.files import ResultFormat, result_format
from edgewise.store.exchange import write_file
from edgewise.text import one_line
from edgewise.verbs.optimize.in_lab import FORMATS, REPORT, FarOptimization, problems_of
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


class OptimizePresentation(Presentation["Optimization | FarOptimization"]):
    """How the result of a search is shown: that of a lab as its host wrote it."""

    files = FORMAT
    left = "the best so far is above; run the same command again to resume"

    def write(self, result: Optimization | FarOptimization, path: Path, *, overwrite: bool) -> None:
        """Write a report."""
        if not isinstance(result, FarOptimization):
            return super().write(result, path, overwrite=overwrite)
        self.check_file(path, overwrite=overwrite)
        write_file(path, result.report(path.suffix.lower()), overwrite=overwrite)

    def show(self, result: Optimization | FarOptimization, console: Console, *, view: View) -> None:
        """Variants before and after, and the choice."""
        if isinstance(result, FarOptimization):
            console.print(result.report(".txt"), markup=False, highlight=False, soft_wrap=True, end="")
            made = f"variants made at {result.maker}, " if result.maker else ""
            where = f"Searched in the lab: {made}measured at {result.host}; its files are in {result.folder}"
            console.print(one_line(where), markup=False, highlight=False, soft_wrap=True)
            return
        from edgewise.report.optimization.document import print_optimization

        print_optimization(result, console, details=view.details)

    def rows(self, result: Optimization | FarOptimization) -> list[Row]:
        """Return the chosen variant, or the original where none is better."""
        if isinstance(result, FarOptimization):
            return [dict(row) for row in result.outcome.rows]
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

    def problems(self, result: Optimization | FarOptimization) -> tuple[EdgewiseError, ...]:
        """Why no variant keeps to the bounds, and what is the closest."""
        if isinstance(result, FarOptimization):
            return tuple(problems_of(result))
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


def leave_reports(result: Optimization, folder: Path) -> None:
    """Write the result of a search into its folder, in all formats, for those who get the folder."""
    from rich.console import Console

    told = replace(result, command="")  # it names files of this host
    for extension in FORMATS:
        FORMAT.write(told, folder / f"{REPORT}{extension}", overwrite=True)
    text = StringIO()
    OptimizePresentation().show(told, Console(file=text, width=80, no_color=True), view=View())
    folder.joinpath(f"{REPORT}.txt").write_text(text.getvalue(), encoding="utf-8")
