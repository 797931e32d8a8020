"""What ``edgewise convert`` prints: the file, how it was made, and how far its outputs are from the source's."""

from __future__ import annotations

from edgewise.converting.agreement import OutputAgreement
from edgewise.converting.base import TARGETS
from edgewise.converting.result import Conversion
from edgewise.report.document import Columns, Document, Section, Table, table_of
from edgewise.report.document.columns import number_column, text_column
from edgewise.text import one_line
from edgewise.units import format_bytes, significant


def conversion_document(result: Conversion) -> Document:
    """Return the result, its agreement with the source, and what was lost."""
    name, title = one_line(str(result.source.get("name", ""))), TARGETS[result.to].title
    answer = "Nothing was written: the outputs differ."
    sections = []
    if result.path is not None:
        size = format_bytes(float(result.model["size_bytes"]))
        answer = one_line(f"Wrote {result.path} ({size}); provenance in {result.provenance}.")
    if result.wrong is not None:
        sections.append(Section(title="First wrong operator", lines=(one_line(result.wrong.words),)))
    if result.lost:
        sections.append(Section(title="Dropped or changed", lines=tuple(map(one_line, result.lost))))
    sections.append(Section(title="Steps", lines=tuple(map(one_line, result.steps))))
    sections.append(Section(title="Agreement", lines=_agreement_lines(result)))
    tables = (_table(result.agreement.outputs),) if result.agreement.outputs else ()
    return Document(title=f"{name} → {title}", answer=(answer,), tables=tables, sections=tuple(sections))


def _agreement_lines(result: Conversion) -> tuple[str, ...]:
    agreement = result.agreement
    if agreement.absent_because:
        return (f"not compared: {one_line(agreement.absent_because)}",)
    allowed = dict.fromkeys(each.allowed for each in agreement.outputs if each.allowed)
    return (
        f"inputs: {agreement.inputs}; source in {agreement.source_engine}, result in {agreement.result_engine}",
        *map(one_line, allowed),
    )


def _table(outputs: tuple[OutputAgreement, ...]) -> Table:
    columns: Columns[OutputAgreement] = [
        text_column("Output", lambda each: each.name),
        number_column(
            "Max abs error", lambda each: _finite(each, each.max_abs), "{:.2g}".format, why=lambda each: each.why
        ),
        number_column(
            "Max rel error", lambda each: _finite(each, each.max_rel), "{:.2g}".format, why=lambda each: each.why
        ),
        number_column("SNR (dB)", lambda each: each.snr_db, significant, why="no difference, or no output"),
        number_column("Top-1 match", lambda each: each.top1, "{:.0%}".format, why="no rows of class scores"),
        text_column("Agrees", lambda each: ("yes" if each.close else "no") if each.compared else "not compared"),
    ]
    return table_of("Agreement with the source", outputs, columns)


def _finite(each: OutputAgreement, error: float) -> float | None:
    return None if each.why else error
