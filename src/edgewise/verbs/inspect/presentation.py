"""How results of ``inspect`` are shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.report.document import json_text
from edgewise.report.files import ResultFormat, path_in, result_format
from edgewise.verbs.presentation import Presentation, View

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.model.inspection import Inspection
    from edgewise.verbs.inspect.request import InspectRequest


FORMAT: ResultFormat[Inspection] = result_format(
    "Inspection",
    "inspection",
    "inspection.document:inspection_document",
    table="inspection.tables:layer_table",
    page="inspection.document:inspection_page",
    kind="inspection",
    own={".json": lambda result: json_text(result.to_dict())},
    model_paths=path_in("source"),
)


class InspectPresentation(Presentation["Sequence[Inspection]"]):
    """How inspections are shown."""

    files = FORMAT

    def check_request(self, request: InspectRequest, files: Sequence[Path]) -> None:
        """Check that a file gets one model."""
        if len(request.cases) > 1 and files:
            raise BadInput(
                "⟦output⟧ takes one model, and ⟦what_if⟧ makes several", advice="use ⟦json⟧, or one value each"
            )

    def document(self, result: Sequence[Inspection]) -> Any:
        """Return the one inspection, or all."""
        documents = [inspection.to_dict() for inspection in result]
        return documents[0] if len(result) == 1 else {"schema": documents[0]["schema"], "inspections": documents}

    def show(self, result: Sequence[Inspection], console: Console, *, view: View) -> None:
        """Layers of one model; a row for each of several."""
        from edgewise.report.document.text import print_document
        from edgewise.report.inspection.document import inspection_document, sweep_document

        if len(result) == 1:
            print_document(inspection_document(result[0], top=view.top, width=console.width), console)
        else:
            print_document(sweep_document(result), console)

    def write(self, result: Sequence[Inspection], path: Path, *, overwrite: bool) -> None:
        """Write the one model."""
        self._format.write(result[0], path, overwrite=overwrite)
