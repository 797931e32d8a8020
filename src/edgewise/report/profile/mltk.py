"""A profile as Silicon Labs' MLTK model profiler shows it: 23 numbers of the model, 13 columns a layer.

Names, order and the keys of the JSON are those of MLTK 0.20 (``ProfilingModelResults.to_dict``, documented at
https://siliconlabs.github.io/mltk/docs/guides/model_profiler.html), so that what reads its reports reads these. What
this target can't know is null (MLTK writes 0), with the reason in ``absent_because``. A layer is what the engine
executes in one step, most expensive operator first; overheads of the engine are not layers and are not included, but
`time` of the model is the measured end-to-end latency and includes them. An estimate has a layer per operator of the
model, in its order, and the basis of each number of the model under ``basis``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any

from edgewise.estimating.base import Estimate, EstimatedLayer
from edgewise.record import Layer, LayerTensor, Run
from edgewise.report.document import Cell, Column, How, Table, absent
from edgewise.report.profile.cells import ELSEWHERE, HOW_COUNTED, how_times, rate_reason, time_reason
from edgewise.report.profile.document import count_words
from edgewise.report.runs.cells import reason_of_absence
from edgewise.report.runs.conditions import processing_unit_of, provider_of
from edgewise.report.runs.provenance import facts_of_run, how_of, provenance_of_column
from edgewise.text import one_line, shape_text
from edgewise.units import format_bytes, format_si

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
_UNITS = {"time": "s", "energy": "J", "j_per_op": "J", "j_per_mac": "J", "cpu_clock_rate": "Hz"}


class Absent(str):
    """The reason why a value is not known, in its place."""


NOT_ASKED = Absent("no accelerated provider was asked for")
PER_LAYER = Absent("meters and counters of this target measure whole inferences, not layers")
NO_COST = Absent("the cost of an operator is not known")
NO_ACCELERATOR = Absent("the processor executes the model, without an accelerator")


def to_dict(result: Run | Estimate) -> dict[str, Any]:
    """``{"summary", "summary_labels", "layers", "layer_labels", "absent_because"}``, and ``basis`` of an estimate.

    `absent_because` has reasons by key: of the summary as ``name``, of the layers as ``layers.name``.
    """
    summary, layers = _contents(result)
    reasons = {key: value for key, value in summary.items() if isinstance(value, Absent)}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, Absent):
                reasons.setdefault(f"layers.{key}", value)
    return {
        "summary": _known(summary),
        "summary_labels": dict(SUMMARY_LABELS),
        "layers": list(map(_known, layers)),
        "layer_labels": dict(LAYER_LABELS),
        "absent_because": reasons,
        **({"basis": _bases(result)} if isinstance(result, Estimate) else {}),
    }


def _contents(result: Run | Estimate) -> tuple[dict[str, Value], list[dict[str, Value]]]:
    """Values by MLTK's keys: of the model, and of each layer."""
    if isinstance(result, Run):
        return _summary(result), _layers(result)
    return _estimate_summary(result), _estimate_layers(result)


def _known(values: Mapping[str, Value]) -> dict[str, Value]:
    return {key: None if isinstance(value, Absent) else value for key, value in values.items()}


def to_json(result: Run | Estimate) -> str:
    """`to_dict` as JSON."""
    return json.dumps(to_dict(result), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def mltk_tables(result: Run | Estimate) -> tuple[Table, Table]:
    """Return the whole model and its layers as tables; reasons of what is absent are footnotes."""
    summary, rows = _contents(result)
    how: dict[str, How] = {}
    if isinstance(result, Run):
        name, how = f"{one_line(result.job.model.name)}, {provider_of(result)}", _how_known(result)
    else:
        name = f"{one_line(str(result.model.get('name', '')))}, {result.device.name}"
    model = Table(
        title=f"Profiling Summary: {name}",
        columns=(Column(title="Metric"), Column(title="Value", numeric=True, how=how.get("summary"))),
        rows=tuple((Cell(text=label), _cell(key, summary[key], how.get(key))) for key, label in SUMMARY_LABELS.items()),
    )
    layers = Table(
        title=f"Model Layers: {name}",
        columns=tuple(
            Column(title=label, numeric=key in _NUMERIC, rank=_RANKS.get(key, 0), how=how.get(f"layers.{key}"))
            for key, label in LAYER_LABELS.items()
        ),
        rows=tuple(tuple(_cell(key, value) for key, value in layer.items()) for layer in rows),
    )
    return model, layers


def _how_known(run: Run) -> dict[str, How]:
    """How the numbers are known: of the summary by key, of its other rows as ``summary``, of a column of the layers."""
    method = "counted from the model's file, or computed from other numbers of this table"
    return {key: how_of(run, metric) for key, metric in (_METRICS | _MEASURED).items()} | {
        "summary": partial(provenance_of_column, "Numbers of a summary", "derived", method, "none", facts_of_run(run)),
        "layers.time": how_times(run, interval=ELSEWHERE),
        "layers.ops": HOW_COUNTED,
        "layers.macs": HOW_COUNTED,
    }


_MEASURED = {"runtime_memory_size": "memory_arena", "cpu_utilization": "cpu_utilization",
             "cpu_clock_rate": "clock_rate"}  # fmt: skip
_NUMERIC = {"index", "ops", "macs", "accelerator_cycles", "cpu_cycles", "energy", "time"}
_RANKS = {"accelerator_cycles": 5, "cpu_cycles": 5, "energy": 5, "options": 4, "error_msg": 4, "supported": 3,
          "input_shape": 2, "output_shape": 1}  # fmt: skip


def _summary(run: Run) -> dict[str, Value]:
    """Values by MLTK's keys."""
    layers = [layer for layer in run.layers if layer.kind == "operator"]
    profile, unit = run.profile, processing_unit_of(run)
    ops, macs = _counted(run, "ops"), _counted(run, "macs")
    time = _metric(run, "latency", profile.latency if profile is not None else None)
    energy, utilization = _metric(run, "energy"), _metric(run, "cpu_utilization")
    told = [layer.supported for layer in layers if layer.supported is not None]
    outputs = profile.outputs if profile is not None else ()
    no_outputs = Absent("the model's outputs do not follow from the layers")
    cycles = _metric(run, "accelerator_cycles")
    if unit == "CPU" and run.measurement("accelerator_cycles") is None:
        cycles = NO_ACCELERATOR
    return {
        "name": one_line(PurePath(run.job.model.name).stem),
        "accelerator": Absent("not reported by the engine")
        if unit is None
        else NONE
        if unit == "CPU"
        else one_line(run.job.runtime.provider or unit),
        "input_shape": ",".join(_shape(spec.shape) for spec in run.job.workload.inputs),
        "input_dtype": ",".join(one_line(spec.dtype) for spec in run.job.workload.inputs),
        "output_shape": _shapes(outputs) or no_outputs,
        "output_dtype": ",".join(one_line(tensor.dtype) for tensor in outputs) or no_outputs,
        "tflite_size": run.job.model.size_bytes if run.job.model.is_known else _metric(run, "model_size"),
        "runtime_memory_size": _memory(run),
        "ops": ops,
        "macs": macs,
        "n_layers": len(layers) or Absent(one_line(run.profile_absent_because or "") or "the layers were not profiled"),
        "n_unsupported_layers": sum(not each for each in told) if told else NOT_ASKED,
        "accelerator_cycles": cycles,
        "cpu_cycles": _metric(run, "cpu_cycles"),
        "cpu_utilization": utilization if isinstance(utilization, Absent) else utilization * 100,
        "cpu_clock_rate": _metric(run, "clock_rate"),
        **_rates(time=time, energy=energy, ops=ops, macs=macs),
    }


def _rates(
    *, time: float | Absent, energy: float | Absent, ops: float | Absent, macs: float | Absent
) -> dict[str, Value]:
    """Return the last rows of the summary."""
    return {
        "time": time,
        "energy": energy,
        "j_per_op": _ratio(energy, ops, "ops"),
        "j_per_mac": _ratio(energy, macs, "macs"),
        "op_per_s": _ratio(ops, time, "time"),
        "mac_per_s": _ratio(macs, time, "time"),
        "inf_per_sec": _ratio(1, time, "time"),
    }


def _metric(run: Run, metric: str, fallback: float | None = None) -> float | Absent:
    """Return a measurement of the run."""
    value = run.value(metric)
    value = fallback if value is None else value
    return Absent(reason_of_absence(run, metric)) if value is None else value


def _ratio(over: float | Absent, under: float | Absent, name: str) -> float | Absent:
    """Return a quotient; where a part is absent, its reason is that of the part. `name` is the divisor's."""
    if isinstance(over, Absent) or isinstance(under, Absent):
        return over if isinstance(over, Absent) else Absent(under)
    return over / under if under else Absent(f"{name} is 0")


def _memory(run: Run) -> float | Absent:
    """Return the engine's arena where it was measured, else the planned one."""
    profile, value = run.profile, run.value("memory_arena")
    if value is None:
        value = ((profile.memory if profile is not None else None) or {}).get("arena_bytes")
    because = profile.memory_absent_because if profile is not None else run.profile_absent_because
    return Absent(one_line(because or "") or "the arena could not be planned") if value is None else value


def _counted(run: Run, metric: str) -> float | Absent:
    """Operations or multiplications of the model: measured, else the sum over its operators."""
    value = run.value(metric)
    value = _total(run, metric) if value is None else value
    return NO_COST if value is None else value


def _total(run: Run, name: str) -> int | None:
    """Return the sum over all operators of the model, those that the engine removed included; None where one is
    unknown.
    """
    # A removed operator without a known cost has none left to execute.
    values = [
        getattr(layer, name)
        for layer in run.layers
        if layer.kind in ("operator", "unmatched") or (layer.kind == "eliminated" and getattr(layer, name) is not None)
    ]
    return None if any(value is None for value in values) else sum(values)


def _layers(run: Run) -> list[dict[str, Value]]:
    """Return the values of each layer by MLTK's keys."""
    cycles = NO_ACCELERATOR if processing_unit_of(run) == "CPU" else PER_LAYER
    rows: list[dict[str, Value]] = []
    for layer in run.layers:
        if layer.kind != "operator":
            continue
        cost = Absent(one_line(layer.cost_unknown_because) or rate_reason(layer))
        values: dict[str, Value] = {
            "index": layer.index,
            # MLTK writes TFLite's CONV_2D in small letters.
            "opcode": one_line(layer.op.lower() if run.job.model.format == "tflite" else layer.op),
            "ops": cost if layer.ops is None else layer.ops,
            "macs": cost if layer.macs is None else layer.macs,
            "accelerator_cycles": cycles,
            "cpu_cycles": PER_LAYER,
            "energy": PER_LAYER,
            "time": Absent(time_reason(layer)) if layer.time is None else layer.time,
            **_described(layer),
            "supported": NOT_ASKED if layer.supported is None else layer.supported,
            "error_msg": one_line(layer.error or "") or None,
        }
        rows.append(values)
    return rows


def _described(layer: Layer | EstimatedLayer) -> dict[str, Value]:
    return {
        "input_shape": _shapes(layer.inputs),
        "output_shape": _shapes(layer.outputs),
        "options": " ".join(f"{one_line(str(key))}:{_option(value)}" for key, value in layer.attributes.items()),
    }


def _estimate_summary(estimate: Estimate) -> dict[str, Value]:
    """Values of an estimate by MLTK's keys."""
    units = _accelerators(estimate)
    time, energy, ops, macs = (_estimated(estimate, metric) for metric in ("latency", "energy", "ops", "macs"))
    cycles = _estimated(estimate, "cpu_cycles")
    hertz = None if units and not estimate.device.core else estimate.device.clock_hz
    clock = Absent("the clock of the processor is not known") if hertz is None else hertz
    spent = _ratio(cycles, clock, "clock")
    share = _ratio(spent, time, "time")
    return {
        "name": one_line(PurePath(str(estimate.model.get("name", ""))).stem),
        "accelerator": ", ".join(map(one_line, units)) or NONE,
        "input_shape": _shapes(estimate.inputs),
        "input_dtype": ",".join(one_line(tensor.dtype) for tensor in estimate.inputs),
        "output_shape": _shapes(estimate.outputs),
        "output_dtype": ",".join(one_line(tensor.dtype) for tensor in estimate.outputs),
        "tflite_size": estimate.model.get("size_bytes"),
        "runtime_memory_size": _estimated(estimate, next(filter(estimate.measurement, _ARENAS), _ARENAS[0])),
        "ops": ops,
        "macs": macs,
        "n_layers": len(_operators(estimate)),
        "n_unsupported_layers": sum(one.unit == "CPU" for one in _operators(estimate)) if units else NO_ACCELERATOR,
        "accelerator_cycles": _estimated(estimate, "accelerator_cycles") if units else NO_ACCELERATOR,
        "cpu_cycles": cycles,
        "cpu_utilization": share if isinstance(share, Absent) else min(share, 1.0) * 100,
        "cpu_clock_rate": clock,
        **_rates(time=time, energy=energy, ops=ops, macs=macs),
    }


_ARENAS = ("memory_arena_tflm_32bit", "memory_arena_tflm", "memory_arena", "memory_sram")
"""The best known of these is MLTK's runtime memory, the arena of tflite-micro."""
_METRICS = {"time": "latency", "energy": "energy", "ops": "ops", "macs": "macs", "cpu_cycles": "cpu_cycles",
            "accelerator_cycles": "accelerator_cycles", "j_per_op": "energy_per_op",
            "j_per_mac": "energy_per_mac"}  # fmt: skip


def _operators(estimate: Estimate) -> list[EstimatedLayer]:
    """Return the layers of the model, without work that belongs to no single operator."""
    return [layer for layer in estimate.layers if layer.index is not None]


def _accelerators(estimate: Estimate) -> list[str]:
    """Return the units that execute layers, without the processor."""
    return list(dict.fromkeys(layer.unit for layer in estimate.layers if layer.unit not in ("CPU", "")))


def _estimated(estimate: Estimate, metric: str) -> float | Absent:
    row = estimate.measurement(metric) or estimate.absent(metric)
    if row.value is None:
        return Absent(one_line(row.absent_because or ""))
    return int(row.value) if row.unit in ("1", "B") and row.value.is_integer() else row.value


def _bases(estimate: Estimate) -> dict[str, str]:
    """Return the basis of the numbers of the model, by MLTK's keys."""
    rows = {key: estimate.measurement(metric) for key, metric in _METRICS.items()}
    return {key: row.basis for key, row in rows.items() if row is not None and row.basis is not None}


def _estimate_layers(estimate: Estimate) -> list[dict[str, Value]]:
    """Return the values of each layer of an estimate by MLTK's keys."""
    accelerated = bool(_accelerators(estimate))
    rows: list[dict[str, Value]] = []
    for layer in _operators(estimate):
        cycles, time, energy = (_of_layer(layer, name) for name in ("cycles", "time", "energy"))
        on_cpu = layer.unit in ("CPU", "")
        left = accelerated and layer.unit == "CPU"
        rows.append({
            "index": layer.index,
            "opcode": one_line(layer.op.lower()),
            "ops": NO_COST if layer.ops is None else layer.ops,
            "macs": NO_COST if layer.macs is None else layer.macs,
            "accelerator_cycles": (0 if on_cpu else cycles) if accelerated else NO_ACCELERATOR,
            "cpu_cycles": cycles if on_cpu else Absent("the processor's part in this layer is not estimated"),
            "energy": energy,
            "time": time,
            **_described(layer),
            "supported": not left if accelerated else NO_ACCELERATOR,
            "error_msg": one_line(layer.because) or None if left else None,
        })  # fmt: skip
    return rows


def _of_layer(layer: EstimatedLayer, name: str) -> Value:
    """Return a number of a layer; 0 where nothing is left to execute."""
    value: float | None = getattr(layer, name)
    if value is None:
        return 0 if layer.unit == "" else Absent(f"the {name} of this layer is not estimated")
    return value


def _cell(key: str, value: Value, how: How = None) -> Cell:
    if isinstance(value, Absent):
        return absent(value)
    if value is None or isinstance(value, bool | str):
        return Cell(text="" if value is None else one_line(str(value)))
    return Cell(text=_FORMATS.get(key, count_words)(value), value=float(value), how=how)


_FORMATS: dict[str, Callable[[float], str]] = {
    "tflite_size": format_bytes,
    "runtime_memory_size": format_bytes,
    "cpu_utilization": lambda value: f"{value:.1f} %",
    **{key: partial(format_si, unit=unit) for key, unit in _UNITS.items()},
}


def _shape(shape: Sequence[int | str | None] | None) -> str:
    """``"1x49x10x1"``, as MLTK writes it; ``?`` stands for an open dimension without a name."""
    return "?" if shape is None else shape_text(shape, "x")


def _shapes(tensors: Sequence[LayerTensor]) -> str:
    return ",".join(_shape(tensor.shape) for tensor in tensors)


def _option(value: Any) -> str:
    if isinstance(value, list | tuple) and all(isinstance(each, int) for each in value):
        return "x".join(map(str, value)) or "none"
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
