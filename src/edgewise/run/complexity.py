"""What a run's model costs by its graph: parameters, operations, depth; and the number formats it is written in."""

from __future__ import annotations

from dataclasses import replace

from edgewise.errors import BadModel, EdgewiseError
from edgewise.model.cost import total_of
from edgewise.model.eager import UNEXPORTED
from edgewise.model.graph import LANGUAGE_MODEL
from edgewise.model.memory_plan import find_peak
from edgewise.model.precision import find_precision
from edgewise.record import Job, Measurement
from edgewise.run.observation import read_run_graph

COUNTED = ("parameters", "parameters_size", "macs", "ops", "depth", "memory_activations")
"""Metrics that follow from the model and the shapes of its inputs alone."""


def complexity_of(job: Job) -> tuple[Measurement, ...]:
    """Return a measurement of each of `COUNTED`, for one inference with the job's input shapes.

    Shapes that depend on values come from one run of the model, apart from those that are timed. What an unknown
    operator leaves unknown is absent with the reason; so is all of it where the model's network can't be read.
    """
    try:
        graph = read_run_graph(job)
        if UNEXPORTED in graph.metadata:
            raise BadModel(graph.metadata[UNEXPORTED])
        total = total_of(graph)
    except EdgewiseError as error:
        why = f"the model's graph can't be read: {error.message}"
        return tuple(Measurement.absent(metric, why) for metric in COUNTED)
    why = "; ".join(filter(None, (total.why, graph.metadata.get("unobserved")))) or "a shape is unknown"
    seen = graph.metadata.get("observed", "")
    depth = None if LANGUAGE_MODEL in graph.metadata else total.depth
    values = (total.parameters, total.weight_bytes, total.macs, total.ops, depth, find_peak(graph))
    rows = (_row(metric, value, why) for metric, value in zip(COUNTED, values, strict=True))
    # Parameters and depth are the file's; the others follow from shapes.
    by_shape = {"macs", "ops", "memory_activations"} if seen else set()
    return tuple(
        replace(row, basis="measured", method=seen) if row.metric in by_shape and row.value is not None else row
        for row in rows
    )


def file_precision(job: Job) -> dict[str, str]:
    """``{"file_precision": "int8"}``: in which number formats the model's operators compute by its file, as
    'edgewise inspect' says; an engine may use others. {} where the file does not tell.
    """
    try:
        graph = read_run_graph(job)
    except EdgewiseError:
        return {}
    found = "" if UNEXPORTED in graph.metadata or LANGUAGE_MODEL in graph.metadata else find_precision(graph)
    return {"file_precision": found} if found else {}


def with_engine_memory(rows: tuple[Measurement, ...]) -> tuple[Measurement, ...]:
    """`rows` and what of the model's memory is neither weights nor activations, where that memory was measured."""
    known = {row.metric: row.value for row in rows}
    if known.get("memory_delta") is None:
        return rows
    parts = [known["memory_delta"], known.get("parameters_size"), known.get("memory_activations")]
    total, *counted = (-1.0 if part is None else part for part in parts)
    if min(counted) < 0:
        return (*rows, Measurement.absent("memory_engine", "the size of weights or activations is unknown"))
    rest = total - sum(counted)
    if rest < 0:
        why = "the process grew by less than weights and activations, so the engine maps the file or computes in place"
        return (*rows, Measurement.absent("memory_engine", why))
    method = "memory of the model − parameters size − activations"
    return (*rows, Measurement.of("memory_engine", round(rest), method, basis="derived"))


def _row(metric: str, value: int | None, why: str) -> Measurement:
    if value is None:
        return Measurement.absent(metric, why)
    return Measurement.of(metric, value, "counted from the model's graph, as in 'edgewise inspect'", basis="derived")
