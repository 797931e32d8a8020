"""All layers of profiled runs as one CSV file: raw numbers in SI units, one line a layer, overheads included, and
one for the whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from edgewise.device.devices import LOCAL
from edgewise.record import Layer, Run
from edgewise.record.facts import threads_of
from edgewise.report.document import DASH, Cell, Column, Table, absent, raw_cell
from edgewise.report.document.csv import render_csv
from edgewise.report.profile.cells import (
    BELOW,
    profile_of,
    rate_reason,
    roof_cell,
    roof_reason,
    tensors_text,
    time_reason,
)
from edgewise.report.profile.document import WHOLE, whole_note
from edgewise.report.runs.cells import NOT_MEASURED
from edgewise.text import one_line

_NUMBERS: tuple[tuple[str, str, str], ...] = (
    ("share", "Share of latency", "1"),
    ("start", "Start", "s"),
    ("macs", "MACs", "1"),
    ("ops", "Ops", "1"),
    ("parameters", "Parameters", "1"),
    ("weight_bytes", "Weights", "B"),
    ("activation_bytes", "Activations", "B"),
    ("intensity", "Intensity", "1/B"),
    ("ops_per_second", "Ops per second", "1/s"),
    ("roof", "Roof", "1/s"),
    ("roof_share", "Share of roof", "1"),
)
_OWNER: dict[str, Callable[[Run], str]] = {
    "Run": lambda run: run.id,
    "Model": lambda run: run.job.model.name,
    "Runtime": lambda run: run.job.runtime.name,
    "Provider": lambda run: run.job.runtime.provider or "–",
    "Threads": lambda run: str(threads_of(run) or "not reported"),
}
_DEVICE: dict[str, Callable[[Run], str]] = {"Device": lambda run: run.job.target.device}
_WORDS: dict[str, Callable[[Layer], str | None]] = {
    "Kind": lambda layer: layer.kind,
    "Name": lambda layer: layer.title,
    "Op": lambda layer: layer.op,
    "Bound": lambda layer: layer.bound or "–",
    "dtype": lambda layer: layer.dtype or "–",
    "Engine provider": lambda layer: layer.provider or "–",
    "Supported": lambda layer: {True: "yes", False: "no", None: "–"}[layer.supported],
    "Error": lambda layer: layer.error,
    "Nodes": lambda layer: "; ".join(layer.nodes),
    "Engine nodes": lambda layer: "; ".join(layer.engine_nodes),
    "Engine op": lambda layer: layer.engine_op,
    "Inputs": lambda layer: tensors_text(layer.inputs),
    "Outputs": lambda layer: tensors_text(layer.outputs),
    "Attributes": lambda layer: (
        (layer.attributes and json.dumps(layer.attributes, ensure_ascii=False, default=str)) or ""
    ),
}


def layers_csv(runs: Sequence[Run]) -> str:
    """Return a header line, then the layers of each run in the order of execution and the whole that they are part of;
    why a value is absent is in ``Notes``.
    """
    owner = _OWNER | (_DEVICE if any(run.job.target.device != LOCAL for run in runs) else {})
    columns = (
        *(Column(title=title) for title in owner),
        Column(title="Index", numeric=True),
        Column(title="Time", numeric=True, unit="s"),
        *(Column(title=title, numeric=True, unit=unit) for _, title, unit in _NUMBERS),
        *(Column(title=title) for title in _WORDS),
        Column(title="Grade"),
    )
    rows = [row for run in runs for row in (*(_row(run, layer, owner) for layer in run.layers), _whole(run, owner))]
    return render_csv(Table(title="Layers", columns=columns, rows=tuple(rows)))


def _row(run: Run, layer: Layer, owner: Mapping[str, Callable[[Run], str]]) -> tuple[Cell, ...]:
    return (
        *(Cell(text=one_line(words(run))) for words in owner.values()),
        Cell(text="", value=layer.index),
        _time(layer),
        *(_number(run, layer, name) for name, _, _ in _NUMBERS),
        *(Cell(text=one_line(words(layer) or "")) for words in _WORDS.values()),
        _grade(run),
    )


def _whole(run: Run, owner: Mapping[str, Callable[[Run], str]]) -> tuple[Cell, ...]:
    """Return the row of the inference, whose time has the interval of the run's latency where it is that."""
    seconds, latency = profile_of(run).latency, run.measurement("latency")
    low, high = (latency.low, latency.high) if latency is not None and latency.value == seconds else (None, None)
    time, name = raw_cell(seconds, low=low, high=high), Cell(text=WHOLE, notes=(whole_note(run),))
    told = {"share": Cell(text="", value=1.0), "Kind": Cell(text=WHOLE), "Name": name}
    return (
        *(Cell(text=one_line(words(run))) for words in owner.values()),
        DASH,
        time,
        *(told.get(column, DASH) for column in (*(name for name, _, _ in _NUMBERS), *_WORDS)),
        _grade(run),
    )


def _grade(run: Run) -> Cell:
    return absent("the run has no trust grade") if run.trust is None else Cell(text=run.trust.grade)


def _time(layer: Layer) -> Cell:
    if layer.is_bounded:
        return _bound(layer, 1.0)
    return raw_cell(layer.time, time_reason(layer), low=layer.low, high=layer.high)


def _bound(layer: Layer, whole: float) -> Cell:
    """Return the ends of a time, divided by `whole`, without a value: only its upper end says anything."""
    end = layer.high / whole if layer.high is not None and whole > 0 else None
    return replace(absent(BELOW), low=None if end is None else 0.0, high=end)


def _number(run: Run, layer: Layer, name: str) -> Cell:
    value = getattr(layer, name)
    if name == "share" and layer.is_bounded:
        return _bound(layer, run.profile.latency if run.profile is not None else 0.0)
    if value is None and layer.kind != "operator" and name not in ("share", "start"):
        return Cell(text="–")
    cell = raw_cell(value, _reason(run, layer, name))
    if name == "roof_share" and value is not None and run.profile is not None:
        return replace(cell, notes=roof_cell(layer, run.profile).notes)
    return cell


def _reason(run: Run, layer: Layer, name: str) -> str:
    """Why a number of a layer is not known."""
    if name == "share":
        return time_reason(layer)
    if name == "start":
        return "the engine does not report when it began"
    if name in ("roof", "roof_share") and run.profile is not None:
        return roof_reason(layer, run.profile)
    if name in ("ops_per_second", "roof", "roof_share"):
        return rate_reason(layer)
    return one_line(layer.cost_unknown_because) or NOT_MEASURED
