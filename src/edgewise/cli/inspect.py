"""``edgewise inspect``: what a model costs, without timing it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.cli import options
from edgewise.cli.options import Values, argument, models_or_factory, option, request_of, takes
from edgewise.cli.verb import Output, Presentation, output_of, perform
from edgewise.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.model.inspection import Inspection
    from edgewise.service.requests import InspectRequest

OPTIONS = (
    argument(
        "model",
        ".onnx, .tflite, OpenVINO .xml, .pt2, .keras, or FILE.py:FUNCTION.",
        str,
        metavar="MODEL",
        default=None,
    ),
    options.BUILD,
    options.CASES,
    options.SHAPES.worded("Shape of an input with open dimensions; repeatable", rich_help_panel=options.MODEL),
    options.SIGNATURE,
    option("--hash", options.MODEL, "Compute the model's hash, for which its weight files are read", bool),
    option(
        "--sparsity", options.MODEL, "Count the zeros of the weights and find their patterns; reads all weights", bool
    ),
    options.TOP,
    options.OUTPUTS.worded("Also write a file: .md, .html, .csv (layers) or .json; repeatable"),
    options.FORCE,
    options.AS_JSON,
    options.DRY_RUN,
    options.ABSOLUTE,
)


class InspectPresentation(Presentation["Sequence[Inspection]"]):
    """How inspections are shown."""

    files = "INSPECTIONS"

    def check_request(self, request: InspectRequest, output: Output) -> None:
        """A file holds one model."""
        if len(request.cases) > 1 and output.files:
            raise BadInput("-o takes one model, and --what-if makes several", advice="use --json, or one value each")

    def document(self, result: Sequence[Inspection]) -> Any:
        """The one inspection, or all."""
        documents = [inspection.to_dict() for inspection in result]
        return documents[0] if len(result) == 1 else {"schema": documents[0]["schema"], "inspections": documents}

    def show(self, result: Sequence[Inspection], console: Console, *, output: Output) -> None:
        """Layers of one model; a row for each of several."""
        from edgewise.report.inspection import inspection_document, sweep_document
        from edgewise.report.text import print_document

        if len(result) == 1:
            print_document(inspection_document(result[0], top=output.top, width=console.width), console)
        else:
            print_document(sweep_document(result), console)

    def write(self, result: Sequence[Inspection], path: Path, *, overwrite: bool) -> None:
        """The one model."""
        self._format.write(result[0], path, overwrite=overwrite)

    def finish(self, result: Sequence[Inspection], *, output: Output) -> int:
        """Nothing can be left over."""
        return 0


PRESENTATION = InspectPresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Count what a model costs without timing it: MACs, ops, parameters, memory, and which engines support it.

    An ONNX model whose shapes depend on values is run once, in a process with limits.
    """
    from edgewise.service.requests import InspectRequest

    (model,) = models_or_factory([values["model"]] if values["model"] else None, values["build"])
    return perform(request_of(InspectRequest, OPTIONS, values, model=model), PRESENTATION, output_of(values))
