"""How a difference by layer is shown."""

from __future__ import annotations

from edgewise.report.files import ResultFormat, result_format
from edgewise.verbs.diff.result import DiffResult
from edgewise.verbs.presentation import Presentation

FORMAT: ResultFormat[DiffResult] = result_format(
    "DiffResult", "result", "document:described", kind="diff", model_paths=lambda result: ()
)


class DiffPresentation(Presentation[DiffResult]):
    """How the layers and the one where the error begins are shown."""

    files = FORMAT
