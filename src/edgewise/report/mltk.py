"""A profile as Silicon Labs' MLTK model profiler shows it: 23 numbers of the model, 13 columns a layer.

Names, order and the keys of the JSON are those of MLTK 0.20 (``ProfilingModelResults.to_dict``, documented at
https://siliconlabs.github.io/mltk/docs/guides/model_profiler.html), so that what reads its reports reads these. What
this target can't know is null (MLTK writes 0), with the reason in ``absent_because``. A layer is what the engine
executes in one step, most expensive operator first; overheads of the engine are not layers and are not included, but
`time` of the model is the measured end-to-end latency and includes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any, TypeVar

from edgewise.record import Layer, LayerTensor, Run
from edgewise.report.cells import reason_of_absence
from edgewise.report.conditions import processing_unit_of, provider_of
from edgewise.report.document import Cell, Column, Table, absent
from edgewise.report.profile import count_words, rate_reason, time_reason
from edgewise.text import one_line
from edgewise.units import format_bytes, format_si

T = TypeVar("T")
Value = int | float | str | bool | None

SUMMARY_LABELS = {
    "name": "Name",
    "accelerator": "Accelerator",
    "input_shape": "Input Shape",
    "input_dtype": "Input Data Type",
    "output_shape": "Output Shape",
    "output_dtype": "Output Data Type",
    "tflite_size": "Flash, Model File Size (bytes)",
    "runtime_memory_size": "RAM, Runtime Memory Size (bytes)",
    "ops": "Operation Count",
    "macs": "Multiply-Accumulate Count",
    "n_layers": "Layer Count",
    "n_unsupported_layers": "Unsupported Layer Count",
    "accelerator_cycles": "Accelerator Cycle Count",
    "cpu_cycles": "CPU Cycle Count",
    "cpu_utilization": "CPU Utilization (%)",
    "cpu_clock_rate": "Clock Rate (hz)",
    "time": "Time (s)",
    "energy": "Energy (J)",
    "j_per_op": "J/Op",
    "j_per_mac": "J/MAC",
    "op_per_s": "Ops/s",
    "mac_per_s": "MACs/s",
    "inf_per_sec": "Inference/s",
}
LAYER_LABELS = {
    "index": "Index",
    "opcode": "OpCode",
    "ops": "# Ops",
    "macs": "# MACs",
    "accelerator_cycles": "Acc Cycles",
    "cpu_cycles": "CPU Cycles",
    "energy": "Energy (J)",
    "time": "Time (s)",
    "input_shape": "Input Shape",
    "output_shape": "Output Shape",
    "options": "Options",
    "supported": "Supported?",
    "error_msg": "Error Msg",
}
NONE = "None"
"""What MLTK writes where the model ran on the processor alone."""
NOT_ASKED = "no accelerated provider was asked for"
PER_LAYER = "meters and counters of this target measure whole inferences, not layers"
NO_COST = "the cost of an operator is not known"
NO_ACCELERATOR = "the model ran on the processor, not on an accelerator"
_UNITS = {"time": "s", "energy": "J", "j_per_op": "J", "j_per_mac": "J", "cpu_clock_rate": "Hz"}


def to_dict(run: Run) -> dict[str, Any]:
    """``{"summary", "summary_labels", "layers", "layer_labels", "absent_because"}``.

    `absent_because` has reasons by key: of the summary as ``name``, of the layers as ``layers.name``.
    """
    summary, reasons = _summary(run)
    layers = _layer_values(run)
    for layer, values in zip(_layers(run), layers, strict=True):
        for key, reason in _layer_reasons(run, layer).items():
            if values[key] is None:
                reasons.setdefault(f"layers.{key}", reason)
    return {
        "summary": summary,
        "summary_labels": dict(SUMMARY_LABELS),
        "layers": layers,
        "layer_labels": dict(LAYER_LABELS),
        "absent_because": reasons,
    }


def to_json(run: Run, *, indent: int = 2) -> str:
    """`to_dict` as JSON."""
    return json.dumps(to_dict(run), indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def mltk_tables(run: Run) -> tuple[Table, Table]:
    """The whole model and its layers as tables; reasons of what is absent are footnotes."""
    summary, reasons = _summary(run)
    name = one_line(run.job.model.name)
    model = Table(
        title=f"Profiling Summary: {name}, {provider_of(run)}",
        columns=(Column(title="Metric"), Column(title="Value", numeric=True)),
        rows=tuple(
            (Cell(text=label), _cell(key, summary[key], reasons.get(key, ""))) for key, label in SUMMARY_LABELS.items()
        ),
    )
    layers = Table(
        title=f"Model Layers: {name}, {provider_of(run)}",
        columns=tuple(
            Column(title=label, numeric=key in _NUMERIC, rank=_RANKS.get(key, 0)) for key, label in LAYER_LABELS.items()
        ),
        rows=tuple(
            _layer_cells(values, _layer_reasons(run, layer))
            for layer, values in zip(_layers(run), _layer_values(run), strict=True)
        ),
    )
    return model, layers


_NUMERIC = {"index", "ops", "macs", "accelerator_cycles", "cpu_cycles", "energy", "time"}
_RANKS = {"accelerator_cycles": 5, "cpu_cycles": 5, "energy": 5, "options": 4, "error_msg": 4, "supported": 3,
          "input_shape": 2, "output_shape": 1}  # fmt: skip


def _layers(run: Run) -> list[Layer]:
    return [layer for layer in run.layers if layer.kind == "operator"]


def _summary(run: Run) -> tuple[dict[str, Value], dict[str, str]]:
    """Values by MLTK's keys, and why those that are None are not known."""
    layers, reasons = _layers(run), _AbsenceReasons(run)
    ops = reasons.take("ops", _measured(run, "ops", _total(run, "ops")), NO_COST)
    macs = reasons.take("macs", _measured(run, "macs", _total(run, "macs")), NO_COST)
    time = reasons.metric("time", "latency", fallback=run.profile.latency if run.profile is not None else None)
    energy = reasons.metric("energy", "energy")
    utilization = reasons.metric("cpu_utilization", "cpu_utilization")
    told = [layer.supported for layer in layers if layer.supported is not None]
    outputs = run.profile.outputs if run.profile is not None else ()
    values: dict[str, Value] = {
        "name": one_line(PurePath(run.job.model.name).stem),
        "accelerator": reasons.take(
            "accelerator", _accelerator(run), "the engine does not tell what executed the model"
        ),
        "input_shape": ",".join(_shape(spec.shape) for spec in run.job.workload.inputs),
        "input_dtype": ",".join(one_line(spec.dtype) for spec in run.job.workload.inputs),
        "output_shape": reasons.take("output_shape", _shapes(outputs), "the layers do not tell the model's outputs"),
        "output_dtype": reasons.take("output_dtype", _dtypes(outputs), "the layers do not tell the model's outputs"),
        "tflite_size": run.job.model.size_bytes,
        "runtime_memory_size": _memory(run, reasons),
        "ops": ops,
        "macs": macs,
        "n_layers": len(layers),
        "n_unsupported_layers": reasons.take(
            "n_unsupported_layers", sum(not each for each in told) if told else None, NOT_ASKED
        ),
        "accelerator_cycles": reasons.metric(
            "accelerator_cycles", "accelerator_cycles", why=NO_ACCELERATOR if _accelerator(run) == NONE else None
        ),
        "cpu_cycles": reasons.metric("cpu_cycles", "cpu_cycles"),
        "cpu_utilization": None if utilization is None else utilization * 100,
        "cpu_clock_rate": reasons.metric("cpu_clock_rate", "clock_rate"),
        "time": time,
        "energy": energy,
        "j_per_op": reasons.ratio("j_per_op", energy, ops, needs=("energy", "ops")),
        "j_per_mac": reasons.ratio("j_per_mac", energy, macs, needs=("energy", "macs")),
        "op_per_s": reasons.ratio("op_per_s", ops, time, needs=("ops", "time")),
        "mac_per_s": reasons.ratio("mac_per_s", macs, time, needs=("macs", "time")),
        "inf_per_sec": reasons.ratio("inf_per_sec", 1, time, needs=("", "time")),
    }
    return values, reasons.found


def _accelerator(run: Run) -> str | None:
    """The provider of an accelerator, MLTK's word where there was none, None where that is not reported."""
    unit = processing_unit_of(run)
    if unit is None:
        return None
    return NONE if unit == "CPU" else one_line(run.job.runtime.provider or unit)


class _AbsenceReasons:
    """Collects the reasons of absent values."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.found: dict[str, str] = {}

    def take(self, key: str, value: T | None, reason: str) -> T | None:
        """`value`; where it is None, `reason` is kept for `key`."""
        if value is None:
            self.found[key] = reason
        return value

    def metric(self, key: str, metric: str, *, fallback: float | None = None, why: str | None = None) -> float | None:
        """A measurement of the run."""
        value = self.run.value(metric)
        value = fallback if value is None else value
        measured = self.run.measurement(metric) is not None
        return self.take(key, value, reason_of_absence(self.run, metric) if measured or why is None else why)

    def ratio(self, key: str, over: float | None, under: float | None, *, needs: tuple[str, str]) -> float | None:
        """A quotient; where a part is absent, its reason is that of the part."""
        if over is None or under is None:
            lacking = needs[0] if over is None else needs[1]
            return self.take(key, None, self.found.get(lacking, f"{lacking} is not known"))
        if under == 0:
            return self.take(key, None, f"{needs[1]} is 0")
        return over / under


def _memory(run: Run, reasons: _AbsenceReasons) -> float | None:
    """The engine's arena where it was measured, else the planned one."""
    measured = run.value("memory_arena")
    memory = run.profile.memory if run.profile is not None else None
    planned = (memory or {}).get("arena_bytes")
    because = run.profile.memory_absent_because if run.profile is not None else run.profile_absent_because
    value = planned if measured is None else measured
    return reasons.take("runtime_memory_size", value, one_line(because or "") or "the arena could not be planned")


def _measured(run: Run, metric: str, total: float | None) -> float | None:
    value = run.value(metric)
    return total if value is None else value


def _total(run: Run, name: str) -> int | None:
    """The sum over all operators of the model, those that the engine removed included; None where one is unknown."""
    # A removed operator without a known cost has none left to execute.
    values = [
        getattr(layer, name)
        for layer in run.layers
        if layer.kind in ("operator", "unmatched") or (layer.kind == "eliminated" and getattr(layer, name) is not None)
    ]
    return None if any(value is None for value in values) else sum(values)


def _layer_values(run: Run) -> list[dict[str, Value]]:
    """The values of each layer by MLTK's keys."""
    return [
        {
            "index": layer.index,
            # MLTK writes TFLite's CONV_2D in small letters.
            "opcode": one_line(layer.op.lower() if run.job.model.format == "tflite" else layer.op),
            "ops": layer.ops,
            "macs": layer.macs,
            "accelerator_cycles": None,
            "cpu_cycles": None,
            "energy": None,
            "time": layer.time,
            "input_shape": _shapes(layer.inputs) or "",
            "output_shape": _shapes(layer.outputs) or "",
            "options": _options(layer),
            "supported": layer.supported,
            "error_msg": one_line(layer.error or "") or None,
        }
        for layer in _layers(run)
    ]


def _layer_reasons(run: Run, layer: Layer) -> dict[str, str]:
    """Why values of a layer are absent, by key."""
    cost = one_line(layer.cost_unknown_because) or rate_reason(layer)
    return {
        "ops": cost,
        "macs": cost,
        "time": time_reason(layer),
        "accelerator_cycles": NO_ACCELERATOR if _accelerator(run) == NONE else PER_LAYER,
        "cpu_cycles": PER_LAYER,
        "energy": PER_LAYER,
        "supported": NOT_ASKED,
    }


def _layer_cells(values: dict[str, Value], reasons: dict[str, str]) -> tuple[Cell, ...]:
    return tuple(
        Cell(text="") if value is None and key == "error_msg" else _cell(key, value, reasons.get(key, ""))
        for key, value in values.items()
    )


def _cell(key: str, value: Value, reason: str) -> Cell:
    if value is None:
        return absent(*([reason] if reason else []))
    if isinstance(value, bool | str):
        return Cell(text=one_line(str(value)))
    return Cell(text=_FORMATS.get(key, count_words)(value), value=float(value))


def _with(unit: str) -> Callable[[float], str]:
    return lambda value: format_si(value, unit)


_FORMATS: dict[str, Callable[[float], str]] = {
    "tflite_size": format_bytes,
    "runtime_memory_size": format_bytes,
    "cpu_utilization": lambda value: f"{value:.1f} %",
    **{key: _with(unit) for key, unit in _UNITS.items()},
}


def _shape(shape: Sequence[int | str | None] | None) -> str:
    """``"1x49x10x1"``, as MLTK writes it; ``?`` stands for an open dimension without a name."""
    if shape is None:
        return "?"
    return "x".join("?" if size is None else one_line(str(size)) for size in shape)


def _shapes(tensors: Sequence[LayerTensor]) -> str | None:
    return ",".join(_shape(tensor.shape) for tensor in tensors) or None


def _dtypes(tensors: Sequence[LayerTensor]) -> str | None:
    return ",".join(one_line(tensor.dtype) for tensor in tensors) or None


def _options(layer: Layer) -> str:
    """``"strides:2x2 padding:SAME"``."""
    return " ".join(f"{one_line(str(key))}:{_option(value)}" for key, value in layer.attributes.items())


def _option(value: Any) -> str:
    if isinstance(value, list | tuple) and all(isinstance(each, int) for each in value):
        return "x".join(map(str, value)) or "none"
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
