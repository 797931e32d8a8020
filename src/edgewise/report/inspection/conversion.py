"""What ``edgewise convert`` prints: the file, how it was made, and how far its outputs are from the source's."""

from __future__ import annotations

from edgewise.converting.agreement import OutputAgreement
from edgewise.converting.base import TARGETS
from edgewise.converting.result import Conversion
from edgewise.report.document import Cell, Column, Document, Section, Table, absent
from edgewise.text import one_line
from edgewise.units import format_bytes, significant

_COLUMNS = (
    Column(title="Output"),
    Column(title="Max abs error", numeric=True),
    Column(title="Max rel error", numeric=True),
    Column(title="SNR (dB)", numeric=True),
    Column(title="Top-1 match", numeric=True),
    Column(title="Agrees"),
)


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
    return Table(title="Agreement with the source", columns=_COLUMNS, rows=tuple(map(_row, outputs)))


def _row(each: OutputAgreement) -> tuple[Cell, ...]:
    finite = not each.why
    return (
        Cell(text=one_line(each.name)),
        Cell(text=f"{each.max_abs:.2g}", value=each.max_abs) if finite else absent(each.why),
        Cell(text=f"{each.max_rel:.2g}", value=each.max_rel) if finite else absent(each.why),
        absent("no difference, or no output") if each.snr_db is None else Cell(text=significant(each.snr_db)),
        absent("no rows of class scores") if each.top1 is None else Cell(text=f"{each.top1:.0%}"),
        Cell(text="yes" if each.close else "no"),
    )
