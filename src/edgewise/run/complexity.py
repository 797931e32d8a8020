"""What a run's model costs by its graph: parameters, operations, depth. Counted without running anything."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from edgewise.errors import EdgewiseError
from edgewise.metrics import METRICS
from edgewise.model.cost import total_of
from edgewise.model.identity import read_graph
from edgewise.record import InputSpec, Job, Measurement

COUNTED = ("parameters", "parameters_size", "macs", "ops", "depth")
"""Metrics that follow from the model and the shapes of its inputs alone."""


def complexity_of(job: Job) -> tuple[Measurement, ...]:
    """A measurement of each of `COUNTED`, for one inference with the job's input shapes.

    What an open shape or an unknown operator leaves unknown is absent with the reason; so is all of it where the
    model's network can't be read.
    """
    return _count(job.model.path, job.model.sha256, job.workload.inputs)


@lru_cache(maxsize=64)
def _count(path: str, sha256: str, inputs: tuple[InputSpec, ...]) -> tuple[Measurement, ...]:
    del sha256  # a file that was replaced is counted anew
    try:
        total = total_of(read_graph(Path(path), shapes={spec.name: spec.shape for spec in inputs}))
    except EdgewiseError as error:
        return tuple(_row(metric, None, f"the model's network can't be read: {error.message}") for metric in COUNTED)
    why = total.why or "a shape is open"
    values = (total.parameters, total.weight_bytes, total.macs, total.ops, total.depth)
    return tuple(_row(metric, value, why) for metric, value in zip(COUNTED, values, strict=True))


def _row(metric: str, value: int | None, why: str) -> Measurement:
    return Measurement(
        metric=metric,
        unit=METRICS[metric].unit,
        basis=None if value is None else "derived",
        method="" if value is None else "counted in the model's graph, as 'edgewise inspect' does",
        value=None if value is None else float(value),
        absent_because=why if value is None else None,
    )
