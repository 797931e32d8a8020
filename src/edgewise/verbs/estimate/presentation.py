"""How results of ``estimate`` are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgewise.errors import EdgewiseError, RunFailed
from edgewise.report.files import ResultFormat, path_in, result_format, writer
from edgewise.verbs.presentation import Presentation, View
from edgewise.verbs.rows import Row, estimated_row, metrics_of

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.estimating.base import Estimate


_FILES: ResultFormat[Estimate] = result_format(
    "Estimate",
    "estimate",
    "estimate.document:estimate_document",
    table="estimate.document:layer_table",
    kind="estimate",
    own={
        ".txt": writer("document.text:to_text", "estimate.document:estimate_document", width=160, details=True),
        ".mltk.json": writer("profile.mltk:to_json"),
    },
    model_paths=path_in("model"),
)
FORMAT: ResultFormat[Estimate] = replace(
    _FILES,
    in_folder={
        **{f"report{extension}": _FILES.writers[extension] for extension in (".txt", ".json", ".mltk.json")},
        "layers.csv": _FILES.writers[".csv"],
        "summary.csv": writer("document.csv:render_csv", "estimate.document:summary_table"),
    },
)


class EstimatePresentation(Presentation["Estimate"]):
    """How an estimate is shown."""

    files = FORMAT
    more_files: Sequence[str] = (".mltk.json",)

    def show(self, result: Estimate, console: Console, *, view: View) -> None:
        """Show the totals, the layers, and what the estimate rests on; of a refused one what is known of the memory."""
        if not result.measurements and result.fit is None:
            return
        from edgewise.report.document.text import print_document
        from edgewise.report.estimate.document import estimate_document

        document = estimate_document(result, top=view.top)
        if not result.measurements:
            document = replace(document, sections=document.sections[:1])  # `problems` has the reason
        print_document(document, console, details=view.details)

    def rows(self, result: Estimate) -> list[Row]:
        """One row."""
        headlines = [metric for metric in ("latency", "memory_sram") if result.measurement(metric) is not None]
        model = {"model": result.model.get("name"), "sha256": result.model.get("sha256")}
        return [estimated_row(model, result.device.name, headlines, metrics_of(result.measurements))]

    def problems(self, result: Estimate) -> tuple[EdgewiseError, ...]:
        """Why there is no estimate."""
        return () if result.refused is None else (RunFailed(result.refused, advice=result.advice),)
