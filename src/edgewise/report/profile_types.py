"""Where the time of a profile goes, by type of operator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from edgewise.grouping import by_key
from edgewise.record import Layer, Run
from edgewise.report.document import DASH, Cell, Column, Table, absent, value_cell
from edgewise.report.profile_cells import how_times, layers_of, sum_cells, time_unit, untimed_notes
from edgewise.report.provenance import facts_of_run, provenance_of_column
from edgewise.text import one_line

MOST_TYPES = 8
"""Types with a row of their own; the others are summed in one row."""
FUSED_NOTE = "of operators that run together the time counts for the most expensive one's type"
OVERHEADS = "(overheads of the engine)"
_SUM = "none: a sum of times, each of which has one in the table of layers"


def type_table(run: Run, *, label: str = "", most: int | None = MOST_TYPES) -> Table:
    """Number of layers and time of each type of operator, the most expensive first, then the engine's overheads.

    Args:
        most: types with a row of their own; None for all.
    """
    found = by_type(layers_of(run, "operator"))
    order = sorted(found, key=lambda op: -seconds_of(found[op]))
    shown = order if most is None or len(order) <= most + 1 else order[:most]
    parts = [(op, found[op]) for op in shown]
    if rest := order[len(shown) :]:
        parts.append((f"… {len(rest)} more types", [layer for op in rest for layer in found[op]]))
    if overheads := layers_of(run, "overhead"):
        parts.append((OVERHEADS, overheads))
    unit, factor = time_unit(seconds_of(layers) for _, layers in parts)
    how = partial(provenance_of_column, "Share of the whole", "derived", "sum of the times over the whole", _SUM)
    columns = (
        Column(title="Type of operator", name=True),
        Column(title="Layers", numeric=True),
        Column(title=f"Time ({unit})", numeric=True, how=how_times(run, title="Time of a type", interval=_SUM)),
        Column(title="%", numeric=True, how=partial(how, facts_of_run(run))),
    )
    fused = any(len(layer.nodes) > 1 for layer in run.layers)
    title = f"Time by type of operator: {label}" if label else "Time by type of operator"
    return Table(
        title=title,
        columns=columns,
        rows=tuple(_row(run, name, layers, factor=factor) for name, layers in parts),
        notes=(FUSED_NOTE,) if fused else (),
    )


def time_line(run: Run) -> str:
    """Where the time goes, in one line: the type of operator that takes most, and the heaviest layer; empty if unknown.

    A share stands only where the times are more than upper bounds and their sum does not pass the whole.
    """
    timed = [layer for layer in layers_of(run, "operator") if layer.time is not None]
    if not timed or run.profile is None:
        return ""
    found = by_type(timed)
    most, heaviest = max(found, key=lambda op: seconds_of(found[op])), max(timed, key=lambda layer: layer.time or 0.0)

    def share(layers: list[Layer]) -> str:
        assert run.profile is not None
        cell = sum_cells(layers, run.profile, 1.0)[1]
        return "" if cell.text.startswith(("<", DASH.text)) or (cell.high or 0.0) > 100.0 else f" {cell.text} %"

    count = len(found[most])
    rivals = sum(_may_be_as_heavy(layer, heaviest) for layer in timed if layer is not heaviest)
    others = f" ({rivals} more may be as heavy)" if rivals else ""
    return (
        f"most of the time: {most}{share(found[most])} ({count} layer{'s' if count > 1 else ''}); "
        f"heaviest layer: {one_line(heaviest.title)}{share([heaviest])}{others}"
    )


def _may_be_as_heavy(layer: Layer, heaviest: Layer) -> bool:
    """Whether the intervals of two layers overlap."""
    return layer.high is not None and heaviest.low is not None and layer.high >= heaviest.low


def by_type(layers: Sequence[Layer]) -> dict[str, list[Layer]]:
    """Group layers by the type of their operator."""
    return by_key((one_line(layer.op), layer) for layer in layers)


def _row(run: Run, name: str, layers: list[Layer], *, factor: float) -> tuple[Cell, ...]:
    notes, count = untimed_notes(layers), value_cell(len(layers), str)
    if run.profile is None or all(layer.time is None for layer in layers):
        return Cell(text=name), count, absent(*notes), DASH
    return Cell(text=name, notes=notes), count, *sum_cells(layers, run.profile, factor)


def seconds_of(layers: Sequence[Layer]) -> float:
    """The sum of the times that are known, s."""
    return sum(layer.time or 0.0 for layer in layers)
