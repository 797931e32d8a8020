"""What `estimate` prints: the estimates of a model in total and by layer, and what they rest on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from edgewise.estimating.base import Estimate, EstimatedDevice, EstimatedLayer, Estimator
from edgewise.estimating.boards import CORE_TITLES, Board, Fit, kib
from edgewise.estimating.mcu.cores import CORES
from edgewise.estimating.memory_only import UPPER_BOUNDS
from edgewise.formatting import interval_text, quantity
from edgewise.metrics import METRICS
from edgewise.model.memory_plan import MemoryPlan, Placement
from edgewise.record import LayerTensor, Measurement
from edgewise.registry import Availability
from edgewise.report.document import (
    DASH,
    Cell,
    Column,
    Columns,
    Document,
    How,
    Provenance,
    Section,
    Table,
    absent,
    filled,
    table_by_columns,
    table_of,
)
from edgewise.report.document.bars import describe_memory
from edgewise.report.document.columns import number_column, text_column
from edgewise.report.runs.provenance import basis_text, interval_facts, provenance_of_column
from edgewise.text import listing, one_line
from edgewise.units import format_si


def estimate_document(estimate: Estimate, *, top: int | None = None) -> Document:
    """Totals, layers and conditions of an estimate; layers: the `top` slowest and the rest as one, or all in order."""
    device = estimate.device
    known = [Section(title=f"Estimated by {estimate.software}", lines=_conditions(estimate))]
    sections = known if estimate.measurements else []
    if estimate.refused is not None:
        refusal = (one_line(estimate.refused), one_line(estimate.advice))
        title = "Does not fit" if estimate.measurements else "No estimate"
        sections.insert(0, Section(title=title, lines=tuple(filter(None, refusal)), tone="poor"))
    if estimate.fit is not None and (estimate.refused is None or not estimate.measurements):
        sections.insert(0, Section(title=f"Memory of {device.name}", lines=_fit_lines(estimate, estimate.fit)))
    tables = [ram_table(estimate), totals_table(estimate)] if estimate.measurements else []
    if (classes := class_table(estimate)) is not None:
        tables.append(classes)
    if estimate.layers:
        tables.append(layer_table(estimate, top=top))
    if (plan := estimate.memory_plan) is not None:
        peak = {layer.index: layer.op for layer in estimate.layers}.get(plan.peak_operator, "")
        lines = (f"a plan of edgewise: {describe_memory(plan, peak)}",)
        sections.append(Section(title="Memory of activations", lines=lines, brief=""))
        tables += [aside_table(estimate), memory_table(plan)]
    name = one_line(str(estimate.model.get("name", "")))
    title = f"Estimate of {name} on {device.name}"
    return Document(
        title=title,
        answer=_answer(estimate),
        tables=tuple(table for table in tables if table.rows),
        sections=tuple(filled(sections)),
    )


def _answer(estimate: Estimate) -> tuple[str, ...]:
    """``"110 ms on nucleo-l4r5zi, 90%: [91.3, 132] ms (estimated)"`` and ``"fits: RAM 17.6 of 640 KiB, …"``.

    The number is the latency, else the cycles with the reason why they have no time; empty where neither is known.
    """
    if estimate.refused is not None:
        return ()
    rows = [estimate.measurement(metric) for metric in ("latency", "cpu_cycles", "accelerator_cycles")]
    row = next((row for row in rows if row is not None and row.value is not None), None)
    fit = "" if estimate.fit is None else str(estimate.fit)
    if estimate.bound or row is None:
        return tuple(filter(None, (f"Latency: {estimate.bound}." if estimate.bound else "", fit)))
    unit = "" if row.metric == "latency" else f" {METRICS[row.metric].label}"
    interval = interval_cell(row, estimate).text or "no interval is known"
    first = f"{_text(row)}{unit} on {estimate.device.name}, {interval} ({row.basis})"
    if rows[0] is not None and row.metric != "latency":
        first += f"; no latency: {one_line(rows[0].absent_because or '')}"
    return tuple(filter(None, (first, fit)))


def _conditions(estimate: Estimate) -> tuple[str, ...]:
    """Return the device with its clock and settings, and what else the estimate rests on."""
    device = estimate.device
    clock = "" if device.clock_hz is None else f" at {format_si(device.clock_hz, 'Hz')}"
    settings = "".join(f"{',' if at else ';'} {pair}" for at, pair in enumerate(settings_of(device, " ")))
    return tuple(map(one_line, (f"{device.title}{clock}{settings}.", *estimate.conditions)))


def provenance_of_estimate(row: Measurement, estimate: Estimate) -> Provenance:
    """How `row`, a number of `estimate`, is known."""
    coverage = estimate.coverage.get(row.metric)
    interval = "Interval" if coverage is None else f"{coverage:.0%} interval"
    facts = interval_facts(row.unit, row.value, row.low, row.high, interval)
    facts += [("Basis", basis_text(row.basis)), ("Method", row.method), *_facts(estimate)]
    return Provenance(f"{METRICS[row.metric].label}: {_text(row)}", facts)


def _facts(estimate: Estimate) -> list[tuple[str, str]]:
    conditions = " ".join((f"{estimate.software}.", *_conditions(estimate)))
    return [("Model", str(estimate.model.get("name", ""))), ("Conditions", conditions)]


def _how_layers(estimate: Estimate, title: str, *metrics: str) -> How:
    """How a column of layers is known: as the first of `metrics` that the whole model has a value of."""
    rows = (estimate.measurement(metric) for metric in metrics)
    row = next((row for row in rows if row is not None and row.value is not None), None)
    if row is None:
        return None
    whole = interval_cell(row, estimate).text
    interval = "none is known of a layer" + (f"; of the whole model {whole}" if whole else "")
    return partial(provenance_of_column, f"{title} of a layer", row.basis, row.method, interval, _facts(estimate))


def memory_table(plan: MemoryPlan) -> Table:
    """Return a row per tensor of the arena: where it lies, and between which operators it lives."""
    offset = partial(provenance_of_column, "Place in the arena", "derived", "a plan, greedy by size", "none: exact")
    columns: Columns[Placement] = [
        text_column("Tensor", lambda each: each.tensor, name=True, ends=True),
        (Column(title="Offset (B)", numeric=True, unit="B", how=offset), lambda each: _number(each.offset, ",d")),
        (Column(title="Size (B)", numeric=True, unit="B", how=offset), lambda each: _number(each.size_bytes, ",d")),
        (Column(title="First #", numeric=True, how=offset), lambda each: _number(each.first, "d")),
        (Column(title="Last #", numeric=True, how=offset), lambda each: _number(each.last, "d")),
    ]
    return table_of("Memory plan", plan.placements, columns, detail=True)


def _fit_lines(estimate: Estimate, fit: Fit) -> tuple[str, ...]:
    """Return what the model needs of the memories of the board, its flash, and what is not part of the estimate."""
    lines = [] if _answer(estimate) else [str(fit)]
    for memory, known in fit.at_least.items():
        most = f"; at most {UPPER_BOUNDS[memory]}" if memory in fit.at_most else ""
        lines.append(f"The {memory} is {'at least' if most else 'a lower bound:'} {known}{most}.")
    waits = "" if fit.board.wait_states is None else f"{fit.board.wait_states} wait states at the highest clock"
    if flash := "; ".join(filter(None, (waits, fit.board.flash_access))):
        lines.append(f"Flash of the board: {flash}.")
    if fit.board.accelerator and all(layer.unit in ("CPU", "") for layer in estimate.layers):
        lines.append(f"The board's accelerator is not part of this estimate: {fit.board.accelerator}.")
    return tuple(lines)


def settings_of(device: EstimatedDevice, between: str) -> list[str]:
    """Return the settings, each a name and a value with `between` in the middle."""
    return [f"{name}{between}{value}" for name, value in device.settings.items()]


_RAM_PARTS = ("memory_arena_tflm_32bit", "memory_scratch", "memory_stack")
"""What the RAM under tflite-micro consists of."""
_ASIDE = ("memory_sram_least", "memory_arena", "memory_arena_tflm_32bit", "memory_arena_tflm", "memory_arena_smallest")
"""Sizes of a Cortex-M's programs that are no need of the device, or only a part of it."""


def _aside(estimate: Estimate) -> list[Measurement]:
    """Return the sizes of memory that only details have; none for devices that are no Cortex-M."""
    known = estimate.measurement("memory_sram_least") is not None
    return [row for row in estimate.measurements if known and row.metric in _ASIDE]


def totals_table(estimate: Estimate) -> Table:
    """Return a metric per row, with its interval where there is one, its basis and its method."""
    elsewhere = [*_ram_parts(estimate), *_aside(estimate)]
    return _metrics_table("Whole model", estimate, [row for row in estimate.measurements if row not in elsewhere])


def aside_table(estimate: Estimate) -> Table:
    """Return the sizes of memory of a Cortex-M that the device does not need as such; empty for other devices."""
    return replace(_metrics_table("Other sizes of memory", estimate, _aside(estimate)), detail=True)


def _ram_parts(estimate: Estimate) -> list[Measurement]:
    """Return the parts of the RAM, and the RAM; none where the parts are not known."""
    rows = [estimate.measurement(metric) for metric in (*_RAM_PARTS, "memory_sram")]
    known = [row for row in rows if row is not None and row.value is not None]
    return known if len(known) == len(rows) else []


def ram_table(estimate: Estimate) -> Table:
    """Return the parts of the RAM with their sum, what the board has, and what is left; empty without parts."""
    fit, parts = estimate.fit, _ram_parts(estimate)
    rows = [(METRICS[row.metric].label, int(row.value or 0), row.basis or "") for row in parts]
    if rows and fit is not None:
        rows.append((f"RAM of {fit.board.name}", fit.board.ram_bytes, ""))
        rows += [("RAM left", fit.left["RAM"], "")] if "RAM" in fit.left else []
    columns: Columns[tuple[str, int, str]] = [
        (Column(title=""), lambda row: Cell(text=row[0])),
        (Column(title="B", numeric=True, unit="B"), lambda row: _number(row[1], ",d")),
        (Column(title="KiB", numeric=True), lambda row: Cell(text=kib(row[1]), value=row[1] / 1024)),
        (Column(title="Basis", rank=1), lambda row: Cell(text=row[2])),
    ]
    return table_of("RAM under tflite-micro: the parts and their sum", rows, columns)


def _metrics_table(title: str, estimate: Estimate, rows: Sequence[Measurement]) -> Table:
    columns: Columns[Measurement] = [
        text_column("", lambda row: METRICS[row.metric].label),
        (Column(title="Value", numeric=True), lambda row: _value(row, estimate)),
        (Column(title="Interval", numeric=True), lambda row: interval_cell(row, estimate)),
        text_column("Basis", lambda row: row.basis or "", rank=1),
        text_column("Method", lambda row: row.method, rank=2, folds=True),
    ]
    if not any(interval_cell(row, estimate).text for row in rows):
        del columns[2]
    return table_of(title, rows, columns)


def interval_cell(row: Measurement, estimate: Estimate, *, covered: bool = True) -> Cell:
    """Return the interval of `row`; empty where both ends look the same.

    Args:
        covered: with its coverage, if that is stated; else the heading has it.
    """
    if row.low is None or row.high is None:
        return Cell(text="")
    text = interval_text(row.metric, row.unit, row.value, row.low, row.high)
    if (coverage := estimate.coverage.get(row.metric)) is None:
        return Cell(text="" if row.low == row.high else text)
    return Cell(text=f"{coverage:.0%}: {text}" if covered else text)


def class_table(estimate: Estimate) -> Table | None:
    """Share of each class in the instructions of the model; None where they are not counted by class."""
    classes = estimate.instruction_classes
    total = sum(classes.values()) if classes else 0
    if not classes or not total:
        return None
    how = _how_layers(estimate, "Share of the instructions", "instructions")
    return Table(
        title="Instructions by class",
        columns=tuple(Column(title=name.capitalize(), numeric=True, how=how) for name in classes),
        rows=(tuple(Cell(text=f"{count / total:.1%}", value=count) for count in classes.values()),),
    )


_WITH_INTERVAL = ("latency", "energy")
_HEADLINES = (*_WITH_INTERVAL, "memory_sram", "memory_arena", "flash")


def summary_table(estimate: Estimate) -> Table:
    """One row with the headline numbers, in the same columns for every model and device."""
    device, rows = estimate.device, [estimate.measurement(each) or estimate.absent(each) for each in _HEADLINES]
    bases = ", ".join(dict.fromkeys(row.basis for row in rows if row.basis is not None))
    columns = [
        (Column(title="Model", name=True), Cell(text=one_line(str(estimate.model.get("name", ""))))),
        (Column(title="Device", name=True), Cell(text=device.name)),
        (Column(title="Clock", numeric=True, rank=3, unit="Hz"), _quantity(device.clock_hz, "Hz")),
        (Column(title="Settings", rank=4), Cell(text=", ".join(settings_of(device, "=")))),
        (Column(title="Software", rank=2), Cell(text=one_line(estimate.software))),
        (Column(title="Basis", rank=1), Cell(text=bases)),
    ]
    for row in rows:
        title, share = METRICS[row.metric].label, estimate.coverage.get(row.metric)
        rank = 1 if row.metric == "memory_arena" else 0
        columns.append((Column(title=title, numeric=True, unit=row.unit, rank=rank), _value(row, estimate)))
        if row.metric in _WITH_INTERVAL:
            ends = (row.low, row.high, share) if share is not None else (None, None, None)
            for name, unit, end in zip(("low", "high", "coverage"), (row.unit, row.unit, ""), ends, strict=True):
                column = Column(title=f"{title} {name}", numeric=True, unit=unit, hidden=True)
                columns.append((column, _number(end, "g")))
    return table_by_columns("Summary", [(column, [cell]) for column, cell in columns])


def _value(row: Measurement, estimate: Estimate) -> Cell:
    if row.value is None:
        cell, least = absent(row.absent_because or ""), estimate.at_least.get(row.metric)
        return cell if least is None else replace(cell, text=f"≥ {quantity(least, row.unit)}")
    return Cell(text=_text(row), value=row.value, how=partial(provenance_of_estimate, row, estimate))


def _text(row: Measurement) -> str:
    value = row.value or 0.0
    if row.metric == "accelerator_utilization":
        return f"{value:.1%}"
    return f"{value:,.0f}" if row.unit == "1" else quantity(value, row.unit)


def layer_table(estimate: Estimate, *, top: int | None = None) -> Table:
    """One row per operator; with `top` the slowest ones and one row for the rest."""
    layers = list(estimate.layers)
    known = (name for name in ("time", "cycles") if any(getattr(layer, name) is not None for layer in layers))
    work = attrgetter(next(known, "instructions"))
    total = sum(work(layer) or 0.0 for layer in layers)
    shown = layers
    if top is not None and len(layers) > top:
        order = sorted(range(len(layers)), key=lambda at: (-(work(layers[at]) or 0.0), at))
        shown = [layers[at] for at in sorted(order[:top])] + [_sum([layers[at] for at in sorted(order[top:])])]

    def column(title: str, *metrics: str, rank: int = 0, unit: str = "") -> Column:
        return Column(title=title, numeric=True, rank=rank, unit=unit, how=_how_layers(estimate, title, *metrics))

    def hidden(title: str, cell: Callable[[EstimatedLayer], Cell], unit: str = "") -> Any:
        return Column(title=title, numeric=True, hidden=True, unit=unit), cell

    def of_class(name: str) -> Callable[[EstimatedLayer], Cell]:
        return lambda layer: _number((layer.instruction_classes or {}).get(name), ",d")

    def share_cell(layer: EstimatedLayer) -> Cell:
        done = work(layer)
        return DASH if done is None or not total else _number(done / total, ".1%")

    cycles = ("cpu_cycles", "accelerator_cycles")
    share = partial(provenance_of_column, "Share", "derived", "part of the sum over all layers", "none")
    columns: Columns[EstimatedLayer] = [
        (Column(title="#", numeric=True), lambda layer: _number(layer.index, "d")),
        text_column("Layer", lambda layer: layer.name, name=True, ends=True),
        text_column("Operator", lambda layer: layer.op, rank=3, name=True),
        (Column(title="On"), _unit),
        (column("MACs", "macs", rank=4), lambda layer: _count(layer.macs)),
        (column("Ops", "ops", rank=8), lambda layer: _count(layer.ops)),
        (column("Instructions", "instructions"), lambda layer: _number(layer.instructions, ",d")),
        (column("Cycles", *cycles), lambda layer: _number(layer.cycles, ",.0f")),
        (column("Time", "latency", *cycles, rank=1, unit="s"), lambda layer: _quantity(layer.time, "s")),
        (Column(title="Share", numeric=True, rank=2, how=share), share_cell),
        (column("Utilisation", "accelerator_utilization", rank=5), lambda layer: _number(layer.utilization, ".0%")),
        (column("Energy", "energy", rank=6, unit="J"), lambda layer: _quantity(layer.energy, "J")),
        (column("Weights (B)", "parameters_size", rank=9, unit="B"), lambda layer: _number(layer.weight_bytes, ",d")),
        text_column("Input", lambda layer: _shapes(layer.inputs), rank=10),
        text_column("Output", lambda layer: _shapes(layer.outputs), rank=7),
        hidden("Parameters", lambda layer: _number(layer.parameters, ",d")),
        hidden("Live memory", lambda layer: _number(layer.live_bytes, ",d"), unit="B"),
        hidden("J/op", lambda layer: _ratio(layer.energy, layer.ops)),
        hidden("J/MAC", lambda layer: _ratio(layer.energy, layer.macs)),
        *(hidden(f"Instructions: {name}", of_class(name)) for name in estimate.instruction_classes or ()),
        hidden("Read from flash", lambda layer: _number(layer.flash_read_bytes, ",d"), unit="B"),
        text_column("Steps", lambda layer: ", ".join(layer.steps), hidden=True),
        text_column("Why", lambda layer: layer.because, hidden=True),
    ]
    lacking = [
        title
        for title, field in (
            ("Instructions", "instructions"), ("Cycles", "cycles"), ("Time", "time"), ("Utilisation", "utilization"),
            ("Energy", "energy"), ("Read from flash", "flash_read_bytes"),
        )
        if all(getattr(layer, field) is None for layer in layers)
    ]  # fmt: skip
    title = (
        "Layers"
        if shown is layers
        else f"The {len(shown) - 1} most expensive of {_count_words(layers)}, in order of execution"
    )
    if unknown := sum(bool(layer.unit) and work(layer) is None for layer in layers):
        title += f"; the cost of {unknown} is not known"
    return table_of(title, shown, [column for column in columns if column[0].title not in lacking])


def _count_words(layers: Sequence[EstimatedLayer]) -> str:
    """``"37 layers and the start"``: operators of the model, and what the runtime does besides."""
    others = [one.name for one in layers if one.index is None and not one.op]
    count = f"{len(layers) - len(others)} layers"
    return f"{count} and {listing([f'the {one_line(name)}' for name in others])}" if others else count


def _sum(layers: Sequence[EstimatedLayer]) -> EstimatedLayer:
    def total(field: str) -> Any:
        known = [getattr(layer, field) for layer in layers if getattr(layer, field) is not None]
        return sum(known) if known else None

    fields = ("macs", "ops", "instructions", "cycles", "time", "energy", "parameters", "weight_bytes")
    sums = {field: total(field) for field in fields}
    return EstimatedLayer(index=None, name=f"… {len(layers)} more layers", op="", unit="", **sums)


def _number(value: float | None, how: str) -> Cell:
    return DASH if value is None else Cell(text=format(value, how), value=value)


def _unit(layer: EstimatedLayer) -> Cell:
    why = (one_line(layer.because),) if layer.because and layer.unit and layer.index is not None else ()
    return Cell(text=layer.unit or "–", notes=why)


def _count(value: int | None) -> Cell:
    return DASH if value is None else Cell(text=format_si(value, "").strip(), value=value)


def _quantity(value: float | None, unit: str) -> Cell:
    return DASH if value is None else Cell(text=quantity(value, unit), value=value)


def _ratio(energy: float | None, number: int | None) -> Cell:
    return _quantity(energy / number, "J") if energy is not None and number else DASH


def _shapes(tensors: Sequence[LayerTensor]) -> str:
    """``1x49x10x1``, separated by blanks; an open dimension is ``?``."""
    shapes = (tensor.shape for tensor in tensors)
    return " ".join("?" if shape is None else "x".join(str(size or "?") for size in shape) for shape in shapes) or "–"


def _defaults(device: EstimatedDevice) -> tuple[str, ...]:
    """Return a footnote with the defaults of the settings; empty if the device has no settings."""
    found = settings_of(device, "=")
    return (f"defaults of --set: {', '.join(found)}",) if found else ()


def devices_document(found: Sequence[tuple[Estimator, Availability, Sequence[EstimatedDevice]]]) -> Document:
    """Return the devices of each estimator, with what to install where it can't be used; then the boards by core."""
    columns: Columns[EstimatedDevice] = [
        text_column("-d", lambda device: device.name),
        (Column(title="Device"), lambda device: Cell(text=device.title, notes=_defaults(device))),
    ]
    tables = []
    for estimator, state, devices in found:
        notes = [f"--set {name}=…: {meaning}" for name, meaning in estimator.settings.items()]
        notes += [] if state else [f"{state.reason}: {state.install_hint}"]
        tables.append(table_of(estimator.title, (each for each in devices if not each.board), columns, notes=notes))
    boards = [device for _, _, devices in found for device in devices if device.board is not None]
    tables += [
        boards_table(title, [device.board for device in boards if device.board and device.core == core])
        for core, title in CORE_TITLES.items()
    ]
    return Document(title="Devices that can be estimated", tables=tuple(table for table in tables if table.rows))


def boards_table(core: str, boards: Sequence[Board]) -> Table:
    """Return the boards that have the core with the title `core`."""
    columns: Columns[Board] = [
        text_column("-d", lambda board: board.name),
        text_column("Board", lambda board: board.title, rank=2, name=True),
        number_column("Clock", lambda board: board.clock_hz, partial(format_si, unit="Hz")),
        number_column("RAM (KiB)", lambda board: board.ram_bytes, kib),
        number_column("Flash (KiB)", lambda board: board.flash_bytes, kib),
        text_column("Accelerator", lambda board: board.accelerator or "–", rank=3, name=True),
    ]
    executable = any(board.core in CORES for board in boards)
    notes = () if executable else ("memory only: the core can't be executed here",)
    return table_of(f"Boards with {core}", boards, columns, notes=notes)
