"""Tables of the zeros in a network's weights."""

from __future__ import annotations

from edgewise.model.graph import Graph
from edgewise.model.inspection import Inspection
from edgewise.model.sparsity import LayerSparsity, Sparsity
from edgewise.report.document import Cell, Column, Columns, Section, Table, absent, table_of
from edgewise.text import one_line

ZERO_TITLES = ("Zeros", "Patterns of zeros")
"""Further columns of a CSV file of layers."""


def sparsity_tables(inspection: Inspection, *, top: int | None = None) -> list[Table]:
    """The weights with their zeros; empty without sparsity.

    Args:
        top: number of weights, by zeros, with a row of their own; None shows all in order.
    """
    sparsity = inspection.sparsity
    if sparsity is None:
        return []
    rows = sparsity.layers
    if top is not None and len(rows) > top:
        most = sorted(rows, key=lambda each: -(each.zeros or 0))[:top]
        rows = tuple(each for each in rows if each in most)
    shown = "" if len(rows) == len(sparsity.layers) else f": the {len(rows)} with the most of {len(sparsity.layers)}"
    columns: Columns[LayerSparsity] = [
        (Column(title="#", numeric=True), lambda layer: Cell(text=str(layer.index), value=layer.index)),
        (Column(title="Layer", name=True, ends=True), lambda layer: Cell(text=_title(layer, inspection.graph))),
        (Column(title="Elements", numeric=True, rank=2), lambda layer: _count(layer.elements, layer)),
        (Column(title="Zeros", numeric=True), lambda layer: _count(layer.zeros, layer)),
        (Column(title="Zeros (%)", numeric=True), _percentage),
        (Column(title="Patterns"), _patterns),
        (
            Column(title="NaN", numeric=True, hidden=True),
            lambda layer: Cell(text=f"{layer.nan:,}" if layer.nan else "", value=layer.nan),
        ),
        (Column(title="Weight", hidden=True), lambda layer: Cell(text=one_line(layer.weight))),
        (Column(title="Subgraph", hidden=True), lambda layer: Cell(text=one_line(layer.subgraph))),
    ]
    return [table_of(f"Zeros in weights{shown}", rows, columns)]


def _title(layer: LayerSparsity, graph: Graph) -> str:
    for name in filter(None, layer.subgraph.split("/")):
        graph = graph.subgraphs.get(name, graph)
    return one_line(graph.operators[layer.index].title)


def _count(number: int | None, layer: LayerSparsity) -> Cell:
    return absent(layer.absent_because or "") if number is None else Cell(text=f"{number:,}", value=number)


def _percentage(layer: LayerSparsity) -> Cell:
    if layer.zeros is None:
        return absent(layer.absent_because or "")
    share = 100.0 * (layer.share or 0.0)
    return Cell(text=f"{share:.1f}", value=share)


def _patterns(layer: LayerSparsity) -> Cell:
    if layer.patterns_absent_because:
        return absent(layer.patterns_absent_because)
    return Cell(text=", ".join(layer.patterns) or "none" if layer.zeros else "")


def zero_cells(inspection: Inspection, index: int) -> tuple[Cell, ...]:
    """Cells of `ZERO_TITLES` for the operator at `index`: none without sparsity, blank if it has no weights."""
    if inspection.sparsity is None:
        return ()
    own = [each for each in inspection.sparsity.layers if each.index == index and not each.subgraph]
    counted = [each.zeros for each in own if each.zeros is not None]
    zeros = Cell(text=str(sum(counted)), value=sum(counted)) if counted else Cell(text="")
    return zeros, Cell(text="; ".join(", ".join(each.patterns) for each in own if each.patterns))


def sparsity_section(sparsity: Sparsity) -> Section:
    """The total, and the number of weights that could not be counted."""
    totals = sparsity.to_dict()["totals"]
    lines = []
    if totals["share"] is not None:
        share = f"{100.0 * totals['share']:.1f} %"
        lines.append(f"{totals['zeros']:,} of {totals['elements']:,} weights are zero ({share})")
    elif not sparsity.layers:
        lines.append("no weights with two or more dimensions were found")
    if totals["weights_not_counted"]:
        lines.append(f"not counted: {totals['weights_not_counted']} weight(s), for the reasons in the table")
    if nan := sum(each.nan for each in sparsity.counted):
        lines.append(f"{nan:,} weights are NaN, which is not zero")
    return Section(title="Sparsity", lines=tuple(lines))
