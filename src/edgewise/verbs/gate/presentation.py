"""How results of ``gate`` are shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import ExitCode, RunFailed
from edgewise.report.files import ResultFormat, json_writer, writer
from edgewise.verbs.presentation import Ending, Presentation

if TYPE_CHECKING:
    from edgewise.comparing.gate import GateResult


def _is_report(path: Path) -> bool:
    from edgewise.report.comparison.gate import is_gate_report

    return is_gate_report(path)


FORMAT: ResultFormat[GateResult] = ResultFormat(
    noun="gate",
    document="comparison.gate:gate_document",
    writers={
        ".xml": writer("comparison.junit:render_junit"),
        ".md": writer("comparison.gate:render_gate_markdown"),
        ".json": json_writer,
        ".html": writer("document.page:render_document_page", "comparison.gate:gate_page", kind="gate"),
    },
    model_paths=lambda result: {variant.run.job.model.path for variant in result.findings.variants},
    is_own=_is_report,
    shows="GateResult",
)


class GatePresentation(Presentation["GateResult"]):
    """How the result of a gate is shown."""

    files = FORMAT

    def ending(self, result: GateResult, *, kept: bool) -> Ending:
        """Return the verdict alone: a store that fails changes nothing about it.

        A limit that is not met is an answer.
        """
        del kept
        unmeasured = (RunFailed(result.conclusion),) if result.exit_code == ExitCode.RUN_FAILED else ()
        return Ending(code=result.exit_code, shown=unmeasured)
