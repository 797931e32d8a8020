"""Do several files of one network compute the same? One inference of each on the same inputs, in their own layouts.

Files are taken for one network where their inputs and outputs have the same sizes and one inference takes as many
multiply-accumulate operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.errors import EdgewiseError
from edgewise.model.graph import Quantization
from edgewise.model.identity import read_graph
from edgewise.model.precision import reduced_precision
from edgewise.record import Measurement, Run
from edgewise.run.agreement import (
    METRICS_OF_AGREEMENT,
    NOT_FINITE,
    REAL_INPUTS,
    REFERENCE,
    Outputs,
    absent_measurements,
    difference_of,
    measurements_of_difference,
    not_compared,
)
from edgewise.run.inference import Inference, InferenceFailed
from edgewise.run.run_builder import METERS_OFF, RunBuilder
from edgewise.workload.inputs import load_arrays, make_arrays

Array = np.ndarray[Any, np.dtype[Any]]

ALIKE = 0.03
"""Files whose operations differ by less than this share may be one network: converters fold a few away."""
MOST_FILES = 8


class _Unlike(Exception):
    """Why two files can't be compared."""


def compare_files(runs: Sequence[Run], save: Callable[[Run], None]) -> list[Run]:
    """Return `runs` with one of each file compared with the first file of its network; those that changed are saved
    again.
    """
    builder = RunBuilder(save=save, sensors=METERS_OFF)
    changed: dict[str, Run] = {}
    for first, *others in _networks(runs):
        try:
            feed = _feed_of(first)
            wanted = _answer(first, feed, builder)
        except (_Unlike, InferenceFailed, EdgewiseError):
            continue  # nothing is known of any of them; their own runs tell what fails
        for other in others[: MOST_FILES - 1]:
            rows = _compare(other, first, feed, wanted, builder)
            kept = tuple(row for row in other.measurements if row.metric not in METRICS_OF_AGREEMENT)
            changed[other.id] = replace(other, measurements=kept + rows)
            save(changed[other.id])
    return [changed.get(run.id, run) for run in runs]


def _networks(runs: Sequence[Run]) -> list[list[Run]]:
    """One finished run of each file, grouped by network; those in floating point come first."""
    files: dict[str, Run] = {}
    for run in runs:
        row = run.measurement(METRICS_OF_AGREEMENT[0])
        is_free = row is None or row.absent_because == REFERENCE  # it was compared with no other run
        if run.status == "done" and is_free and run.job.model.origin is None and run.job.workload.inputs:
            files.setdefault(run.job.model.family, run)
    groups: list[list[Run]] = []
    for run in sorted(files.values(), key=lambda one: one.job.workload.inputs[0].dtype[:1] != "f"):
        group = next((some for some in groups if _is_one_network(some[0], run)), None)
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    return [group for group in groups if len(group) > 1]


def _is_one_network(a: Run, b: Run) -> bool:
    counts = a.value("macs"), b.value("macs")
    if counts[0] is None or counts[1] is None or not counts[0]:
        return False
    alike = abs(counts[1] / counts[0] - 1.0) <= ALIKE and _sizes(a) == _sizes(b)
    return alike and a.job.workload.batch == b.job.workload.batch and a.job.target == b.job.target


def _sizes(run: Run) -> list[tuple[int, ...]]:
    """Return the dimensions of each input, without their order and ones."""
    return [tuple(sorted(size for size in spec.shape if size != 1)) for spec in run.job.workload.inputs]


def _feed_of(run: Run) -> list[Array]:
    """Return the inputs that the run was given, as real numbers."""
    workload = run.job.workload
    if workload.input_path is not None:
        arrays = load_arrays(Path(workload.input_path), workload.inputs)
    else:
        arrays = make_arrays(workload.inputs, seed=workload.seed)
    return [_real(array, one) for array, one in zip(arrays, _quantizations(run, "inputs"), strict=True)]


def _quantizations(run: Run, side: str) -> list[Quantization | None]:
    """Of the inputs or outputs of a run's file, in its order."""
    graph = read_graph(run.job.model)
    names = [spec.name for spec in run.job.workload.inputs] if side == "inputs" else list(graph.outputs)
    return [graph.tensors[name].quantization if name in graph.tensors else None for name in names]


def _real(array: Array, one: Quantization | None) -> Array:
    if array.dtype.kind not in "iu" or array.dtype.itemsize > 2:
        return array
    if one is None or one.channels != 1:
        raise _Unlike(f"no scale is known of {array.dtype} values")
    return (array.astype(np.float64) - one.zero_point) * one.scale


def _answer(run: Run, feed: Sequence[Array], builder: RunBuilder) -> list[Array]:
    """Return the outputs of a run's file, as real numbers."""
    taken = []
    for array, spec, one in zip(feed, run.job.workload.inputs, _quantizations(run, "inputs"), strict=True):
        own, dtype = _laid_out(array, spec.shape), np.dtype(spec.dtype)
        if dtype.kind in "iu" and dtype.itemsize <= 2 and array.dtype.kind == "f":
            if one is None or one.channels != 1:
                raise _Unlike(f"no scale is known of its {dtype} inputs")
            limits = np.iinfo(dtype)
            own = np.clip(np.rint(own / one.scale) + one.zero_point, limits.min, limits.max)
        taken.append(own.astype(dtype))
    with Inference(run.job, builder=builder) as inference:
        (outputs,) = inference.infer([taken])
    scales: Sequence[Quantization | None] = _quantizations(run, "outputs")
    if len(scales) != len(outputs):
        scales = [None] * len(outputs)
    return [_real(array, one) for array, one in zip(outputs, scales, strict=True)]


def _laid_out(array: Array, shape: tuple[int, ...]) -> Array:
    """`array` in the layout of `shape`: as it is, or with its channels moved to the other end."""
    if array.shape == shape:
        return array
    moves = [order for order in _orders(array.ndim) if tuple(array.shape[axis] for axis in order) == shape]
    if moves:
        return array.transpose(moves[0])
    if [size for size in array.shape if size != 1] == [size for size in shape if size != 1]:
        return array.reshape(shape)
    raise _Unlike(f"{list(array.shape)} can't be laid out as {list(shape)}")


def _orders(rank: int) -> list[tuple[int, ...]]:
    """Orders of the axes, those that move the channels first: from behind the batch to the end, and back."""
    plain = tuple(range(rank))
    usual = [(0, *plain[2:], 1), (0, rank - 1, *plain[1:-1])] if rank > 2 else []
    return usual + ([each for each in permutations(plain) if each not in usual] if rank <= 4 else [])


def _compare(
    own: Run, first: Run, feed: Sequence[Array], wanted: Sequence[Array], builder: RunBuilder
) -> tuple[Measurement, ...]:
    """How far the outputs of `own` are from those of `first`, or why that is not known."""
    try:
        found = _answer(own, feed, builder)
        if len(found) != len(wanted):
            raise _Unlike(f"it has {len(found)} outputs, {first.job.model.name} {len(wanted)}")
        laid = tuple(_laid_out(array, each.shape) for array, each in zip(found, wanted, strict=True))
        reduced = next((word for run in (own, first) if (word := reduced_precision(read_graph(run.job.model)))), "")
    except (_Unlike, InferenceFailed, EdgewiseError) as error:
        return absent_measurements(f"{not_compared(first.job.model.name)}{error}")
    difference = difference_of(
        Outputs(run_id=own.id, label="", arrays=laid, reduced=f"a model computes in {reduced}" if reduced else ""),
        Outputs(run_id=first.id, label="", arrays=tuple(wanted)),
    )
    if not math.isfinite(difference.max_rel):
        why = difference.why or "its outputs are 0 throughout"
        why += f": {REAL_INPUTS}" if why == NOT_FINITE else ""
        return absent_measurements(not_compared(first.job.model.name) + why)
    return measurements_of_difference(difference, first.job.model.name)
