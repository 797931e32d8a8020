"""How results of ``convert`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.errors import EdgewiseError, RunFailed, as_flag
from edgewise.report.files import ResultFormat, path_in, result_format
from edgewise.verbs.presentation import Presentation
from edgewise.verbs.rows import Row

if TYPE_CHECKING:
    from edgewise.converting.result import Conversion


FORMAT: ResultFormat[Conversion] = result_format(
    "Conversion",
    "conversion",
    "inspection.conversion:conversion_document",
    kind="conversion",
    model_paths=path_in("source"),
)


class ConvertPresentation(Presentation["Conversion"]):
    """How a conversion is shown."""

    files = FORMAT

    def rows(self, result: Conversion) -> list[Row]:
        """Return the conversion."""
        from edgewise.verbs.convert.in_lab import row_of

        return [row_of(result)]

    def problems(self, result: Conversion) -> tuple[EdgewiseError, ...]:
        """Why a result was refused."""
        if result.accepted:
            return ()
        from edgewise.converting.result import RANDOM_INPUTS
        from edgewise.run.agreement import ELSEWHERE

        advice = "replace the operator, or convert to another format; report it to the converter's authors"
        if as_flag("precision", "f16") in result.command:
            advice = "convert without ⟦precision=f16⟧"
        worst = result.agreement.worst
        if worst is not None and worst.why == ELSEWHERE and RANDOM_INPUTS in result.agreement.inputs:
            advice = f"give real inputs with ⟦input_data⟧: with random ones outputs are NaN or infinite; else {advice}"
        return (RunFailed(f"nothing was written: {result.refused_because}", advice=advice),)
