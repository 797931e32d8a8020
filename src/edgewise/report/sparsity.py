"""Tables of the zeros in a network's weights, and of what engines gain from them."""

from __future__ import annotations

from edgewise.formatting import factor_text
from edgewise.model.inspection import Inspection
from edgewise.model.sparsity import LayerSparsity, Sparsity, SparsityGain
from edgewise.report.document import Cell, Column, Section, Table, absent
from edgewise.text import one_line

ZERO_TITLES = ("Zeros", "Patterns of zeros")
"""Further columns of a CSV file of layers."""


def sparsity_tables(inspection: Inspection, *, top: int | None = None) -> list[Table]:
    """The weights with their zeros, and the gains per part and engine if they were measured; empty without sparsity.

    Args:
        top: number of weights, by zeros, with a row of their own; None shows all in order.
    """
    sparsity = inspection.sparsity
    if sparsity is None:
        return []
    rows = list(sparsity.layers)
    if top is not None and len(rows) > top:
        most = sorted(rows, key=lambda each: -(each.zeros or 0))[:top]
        rows = [each for each in rows if each in most]
    shown = "" if len(rows) == len(sparsity.layers) else f": the {len(rows)} with the most of {len(sparsity.layers)}"
    tables = [
        Table(
            title=f"Zeros in weights{shown}",
            columns=(
                Column(title="#", numeric=True),
                Column(title="Layer", name=True),
                Column(title="Elements", numeric=True, rank=2),
                Column(title="Zeros", numeric=True),
                Column(title="Zeros (%)", numeric=True),
                Column(title="Patterns"),
                Column(title="NaN", numeric=True, hidden=True),
                Column(title="Weight", hidden=True),
                Column(title="Subgraph", hidden=True),
            ),
            rows=tuple(_row(each, inspection) for each in rows),
        )
    ]
    if sparsity.gains:
        tables.append(_gain_table(sparsity))
    return tables


def _row(layer: LayerSparsity, inspection: Inspection) -> tuple[Cell, ...]:
    graph = inspection.graph
    for name in filter(None, layer.subgraph.split("/")):
        graph = graph.subgraphs.get(name, graph)
    reason = layer.absent_because or ""
    if layer.zeros is None or layer.elements is None:
        counts = (absent(reason), absent(reason))
    else:
        share = 100.0 * (layer.share or 0.0)
        counts = (Cell(text=f"{layer.zeros:,}", value=layer.zeros), Cell(text=f"{share:.1f}", value=share))
    patterns = absent(layer.patterns_absent_because) if layer.patterns_absent_because else None
    return (
        Cell(text=str(layer.index), value=layer.index),
        Cell(text=one_line(graph.operators[layer.index].title)),
        absent(reason) if layer.elements is None else Cell(text=f"{layer.elements:,}", value=layer.elements),
        *counts,
        patterns or Cell(text=", ".join(layer.patterns) or "none" if layer.zeros else ""),
        Cell(text=f"{layer.nan:,}" if layer.nan else "", value=layer.nan),
        Cell(text=one_line(layer.weight)),
        Cell(text=one_line(layer.subgraph)),
    )


def zero_cells(inspection: Inspection, index: int) -> tuple[Cell, ...]:
    """Cells of `ZERO_TITLES` for the operator at `index`: none without sparsity, blank if it has no weights."""
    if inspection.sparsity is None:
        return ()
    own = [each for each in inspection.sparsity.layers if each.index == index and not each.subgraph]
    counted = [each.zeros for each in own if each.zeros is not None]
    zeros = Cell(text=str(sum(counted)), value=sum(counted)) if counted else Cell(text="")
    return zeros, Cell(text="; ".join(", ".join(each.patterns) for each in own if each.patterns))


def _gain_table(sparsity: Sparsity) -> Table:
    return Table(
        title="Time with dense weights over time as it is (measured; above 1: the engine gains from the zeros)",
        columns=(
            Column(title="Part", name=True),
            Column(title="Engine"),
            Column(title="Ratio [95 %]", numeric=True),
            Column(title="Verdict"),
        ),
        rows=tuple(
            (
                Cell(text=one_line(each.part)),
                Cell(text=each.engine),
                absent(each.absent_because or "")
                if each.speedup is None
                else Cell(
                    text=factor_text(each.speedup, each.low, each.high),
                    value=each.speedup, low=each.low, high=each.high,
                ),
                Cell(text=each.verdict or "", tone="good" if each.verdict == "gain" else "plain"),
            )
            for each in sparsity.gains
        ),
    )  # fmt: skip


def sparsity_section(sparsity: Sparsity) -> Section:
    """The total, and whether an engine gains from it."""
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
    if sparsity.gains:
        lines.append(_gain_line(sparsity.gains))
    elif sparsity.gains_absent_because:
        lines.append(f"nothing was timed: {sparsity.gains_absent_because}")
    return Section(title="Sparsity", lines=tuple(lines))


def _gain_line(gains: tuple[SparsityGain, ...]) -> str:
    verdicts: dict[str, set[str]] = {}
    for each in gains:
        verdicts.setdefault(each.engine, set()).add(each.verdict or "not timed")
    order = ("gain", "inconclusive", "no gain", "not timed")
    return "; ".join(f"{engine}: {next(word for word in order if word in found)}" for engine, found in verdicts.items())
