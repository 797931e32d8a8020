"""What `estimate` prints: the estimates of a model in total and by layer, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.estimating.base import Estimate, EstimatedDevice, EstimatedLayer, Estimator
from edgewise.formatting import quantity
from edgewise.metrics import METRICS
from edgewise.record import Measurement
from edgewise.registry import Availability
from edgewise.report.document import DASH, Cell, Column, Document, Section, Table, absent
from edgewise.text import one_line
from edgewise.units import format_si


def estimate_document(estimate: Estimate, *, top: int | None = None) -> Document:
    """Totals, layers and conditions of one estimate.

    Args:
        top: number of layers, the slowest, with a row of their own; None shows all in order.
    """
    device = estimate.device
    clock = "" if device.clock_hz is None else f" at {format_si(device.clock_hz, 'Hz')}"
    settings = ", ".join(f"{name} {value}" for name, value in device.settings.items())
    lines = [f"{device.title}{clock}; {settings}.", *estimate.conditions]
    sections = [Section(title=f"Estimated by {estimate.software} for", lines=tuple(map(one_line, lines)))]
    if estimate.refused is not None:
        refusal = (one_line(estimate.refused), one_line(estimate.advice))
        sections.insert(0, Section(title="No estimate", lines=tuple(filter(None, refusal)), tone="poor"))
    tables = (totals_table(estimate), layer_table(estimate, top=top)) if estimate.measurements else ()
    name = one_line(str(estimate.model.get("name", "")))
    return Document(title=f"Estimate of {name} on {device.name}", tables=tables, sections=tuple(sections))


def totals_table(estimate: Estimate) -> Table:
    """A metric per row, with its basis and method."""
    return Table(
        title="Whole model",
        columns=(
            Column(title=""),
            Column(title="Value", numeric=True),
            Column(title="Basis", rank=1),
            Column(title="Method", rank=2, folds=True),
        ),
        rows=tuple(
            (
                Cell(text=METRICS[row.metric].label),
                _value(row),
                Cell(text=row.basis or ""),
                Cell(text=one_line(row.method)),
            )
            for row in estimate.measurements
        ),
    )


def _value(row: Measurement) -> Cell:
    if row.value is None:
        return absent(row.absent_because or "")
    if row.metric == "accelerator_utilization":
        return Cell(text=f"{row.value:.1%}", value=row.value)
    count = row.unit == "1"
    return Cell(text=f"{row.value:,.0f}" if count else quantity(row.value, row.unit), value=row.value)


def layer_table(estimate: Estimate, *, top: int | None = None) -> Table:
    """One row per operator; with `top` the slowest ones and one row for the rest."""
    layers = list(estimate.layers)
    total = sum(layer.cycles or 0.0 for layer in layers)
    shown, folded = layers, []
    if top is not None and len(layers) > top:
        # Layers that are not estimated come first: what is left on the CPU may decide.
        order = sorted(range(len(layers)), key=lambda at: (layers[at].unit != "CPU", -(layers[at].cycles or 0.0), at))
        shown = [layers[at] for at in sorted(order[:top])]
        folded = [layers[at] for at in sorted(order[top:])]
    rows = [_layer_row(layer, total) for layer in shown]
    if folded:
        cycles = sum(layer.cycles or 0.0 for layer in folded)
        time = sum(layer.time or 0.0 for layer in folded)
        rows.append(
            (
                Cell(text="…"), Cell(text=f"{len(folded)} more layers"), Cell(text=""), Cell(text=""), DASH,
                _cycles(cycles), _time(time), _share(cycles, total), DASH, Cell(text=""), Cell(text=""),
            )
        )  # fmt: skip
    return Table(
        title="Layers" if not folded else f"Layers: the {len(shown)} with the most cycles of {len(layers)}",
        columns=(
            Column(title="#", numeric=True),
            Column(title="Layer", name=True),
            Column(title="Operator", rank=3, name=True),
            Column(title="On", rank=0),
            Column(title="MACs", numeric=True, rank=4),
            Column(title="Cycles", numeric=True),
            Column(title="Time", numeric=True, rank=1, unit="s"),
            Column(title="Share", numeric=True, rank=2),
            Column(title="Utilisation", numeric=True, rank=5),
            Column(title="Steps", hidden=True),
            Column(title="Why", hidden=True),
        ),
        rows=tuple(rows),
    )


def _layer_row(layer: EstimatedLayer, total: float) -> tuple[Cell, ...]:
    why = (one_line(layer.because),) if layer.because and layer.unit == "CPU" else ()
    cycles = DASH if layer.cycles is None else _cycles(layer.cycles)
    return (
        DASH if layer.index is None else Cell(text=str(layer.index), value=layer.index),
        Cell(text=one_line(layer.name)),
        Cell(text=one_line(layer.op)),
        Cell(text=layer.unit or "–", notes=why),
        DASH if layer.macs is None else Cell(text=format_si(layer.macs, "").strip(), value=layer.macs),
        cycles,
        DASH if layer.time is None else _time(layer.time),
        DASH if layer.cycles is None else _share(layer.cycles, total),
        DASH if layer.utilization is None else Cell(text=f"{layer.utilization:.0%}", value=layer.utilization),
        Cell(text=", ".join(layer.steps)),
        Cell(text=one_line(layer.because)),
    )


def _cycles(value: float) -> Cell:
    return Cell(text=f"{value:,.0f}", value=value)


def _time(value: float) -> Cell:
    return Cell(text=quantity(value, "s"), value=value)


def _share(cycles: float, total: float) -> Cell:
    return Cell(text=f"{cycles / total:.1%}", value=cycles / total) if total else DASH


def devices_document(found: Sequence[tuple[Estimator, Availability, Sequence[EstimatedDevice]]]) -> Document:
    """The devices of each estimator, with what to install where it can't be used."""
    tables = []
    for estimator, state, devices in found:
        notes = () if state else (f"{state.reason}: {state.install_hint}",)
        rows = tuple(
            (
                Cell(text=device.name),
                Cell(text=device.title),
                Cell(text=", ".join(f"{name}={value}" for name, value in device.settings.items())),
            )
            for device in devices
        )
        columns = (Column(title="-d"), Column(title="Device"), Column(title="--set", rank=1, folds=True))
        tables.append(Table(title=estimator.title, columns=columns, rows=rows, notes=notes))
    return Document(title="Devices that can be estimated", tables=tuple(tables))
