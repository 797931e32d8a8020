"""How results of ``compare`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.errors import EdgewiseError, RunFailed
from edgewise.report.files import ResultFormat, result_format
from edgewise.verbs.presentation import Presentation

if TYPE_CHECKING:
    from edgewise.comparing.comparison import ComparisonResult


FORMAT: ResultFormat[ComparisonResult] = result_format(
    "ComparisonResult",
    "comparison",
    "comparison.document:comparison_document",
    table="comparison.tables:csv_table",
    kind="comparison",
    model_paths=lambda result: {variant.run.job.model.path for variant in result.variants},
)


class ComparePresentation(Presentation["ComparisonResult"]):
    """How a comparison is shown."""

    files = FORMAT
    titled = True

    def shown(self, result: ComparisonResult) -> list[EdgewiseError]:
        """Variants that could not be measured."""
        failed = {one.label: one.run.failure for one in result.variants if one.run.status == "failed"}
        reasons = {label: each.message if each else "failed" for label, each in failed.items()} | dict(result.failures)
        return [RunFailed(f"{label}: {why}") for label, why in reasons.items()]
