"""How results of ``evaluate`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgewise.errors import EdgewiseError, RunFailed
from edgewise.verbs.presentation import Presentation

if TYPE_CHECKING:
    from edgewise.evaluating.evaluation import EvaluationResults


class EvaluatePresentation(Presentation["EvaluationResults"]):
    """How results of an evaluation are shown."""

    files = "EVALUATION"
    titled = True
    left = "run the same command again to resume"

    def document(self, result: EvaluationResults) -> Any:
        """Metrics, and the runs."""
        from edgewise.report.evaluation import evaluation_document

        return evaluation_document(result)

    def problems(self, result: EvaluationResults) -> tuple[EdgewiseError, ...]:
        """Which runs failed."""
        failed = [one.run for one in result.models if one.run.status == "failed"]
        texts = [f"{run.job.label}: {run.failure.message if run.failure else run.status}" for run in failed]
        return tuple(map(RunFailed, texts))
