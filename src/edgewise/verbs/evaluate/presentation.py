"""How results of ``evaluate`` are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgewise.errors import EdgewiseError, RunFailed
from edgewise.report.files import ResultFormat, result_format, writer
from edgewise.verbs.presentation import Presentation
from edgewise.verbs.rows import Row

if TYPE_CHECKING:
    from edgewise.evaluating.evaluation import EvaluationResults


FORMAT: ResultFormat[EvaluationResults] = result_format(
    "EvaluationResults",
    "evaluation",
    "evaluation.document:describe_results",
    table="evaluation.tables:csv_table",
    kind="evaluation",
    own={".json": writer("document:json_text", "evaluation.document:evaluation_document")},
    model_paths=lambda result: {one.run.job.model.path for one in result.models},
)


class EvaluatePresentation(Presentation["EvaluationResults"]):
    """How results of an evaluation are shown."""

    files = FORMAT
    titled = True
    left = "run the same command again to resume"

    def document(self, result: EvaluationResults) -> Any:
        """Metrics, and the runs."""
        from edgewise.report.evaluation.document import evaluation_document

        return evaluation_document(result)

    def rows(self, result: EvaluationResults) -> Sequence[Row]:
        """Also those of a shard."""
        return [dict(row) for row in result.shard] or super().rows(result)

    def problems(self, result: EvaluationResults) -> tuple[EdgewiseError, ...]:
        """Which runs failed."""
        failed = [one.run for one in result.models if one.run.status == "failed"]
        texts = [f"{run.job.label}: {run.failure.message if run.failure else run.status}" for run in failed]
        return tuple(map(RunFailed, texts))
