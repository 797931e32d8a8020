"""What runs of a model show: shapes that depend on values, branches taken, repetitions of loops.

The model runs in a process of its own with limits, on ONNX Runtime without optimisations, so that every node of the
file runs as it stands.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.child_process import run_child
from edgewise.errors import BadInput, EdgewiseError, as_flag
from edgewise.folders import job_folder
from edgewise.model.cost import cost_of
from edgewise.model.graph import BITS, Graph
from edgewise.model.identity import read_graph
from edgewise.model.readers.base import MAX_DIMENSION, MAX_RANK
from edgewise.model.readers.onnx import OnnxReader
from edgewise.model.readers.onnx_graph import Observed
from edgewise.model.readers.onnx_types import Shapes
from edgewise.record import InputSpec, Job, ModelRef
from edgewise.registry import availability_of
from edgewise.runtime.base import runtimes
from edgewise.workload.input_shapes import ATTEMPTS
from edgewise.workload.inputs import load_arrays, make_arrays
from edgewise.workload.resolved_graph import ResolvedGraph, read_resolved_graph

if TYPE_CHECKING:
    from edgewise.workload.arrays import Array

TIMEOUT_S = 120.0
REFUSED = "the model could not be run on inputs of these shapes"
_ENGINE = "onnxruntime"
_WORKER = "edgewise.run.observation_worker"


class _Unobserved(Exception):
    """The model could not be run; the message gives the reason."""


def observe(
    graph: Graph,
    path: Path,
    inputs: Sequence[InputSpec],
    *,
    seed: int = 0,
    input_data: Path | None = None,
    again: bool = False,
) -> Graph:
    """`graph` with what its file's rules leave open completed from one run; as it was, where nothing is open.

    Its metadata say under ``observed`` how that was done, or under ``unobserved`` why it could not be.

    Args:
        graph: of the file at `path`, with `inputs` as its shapes.
        inputs: all inputs of the model, in its order.
        seed, input_data: of what it is fed, as in `edgewise.record.Workload`.
        again: whether it is run on other inputs too, as no job has these: only the branches and repetitions that are
            the same there count.
    """
    if graph.format != "onnx" or not is_open(graph):
        return graph
    try:
        arrays = load_arrays(input_data, inputs) if input_data else make_arrays(inputs, seed=seed)
        engine, observed = _run(graph, path, inputs, arrays)
        note = ""
        if again:
            observed, note = _compare_runs(observed, graph, path, inputs, [*map(_make_other, arrays, inputs)])
        shapes = {spec.name: spec.shape for spec in inputs}
        complete = OnnxReader().read_graph(path, shapes=shapes, observed=observed)
    except (_Unobserved, EdgewiseError) as reason:
        return replace(graph, metadata={**graph.metadata, "unobserved": str(reason)})
    fed = f"the data in {input_data.name}" if input_data else f"random inputs (seed {seed})"
    method = f"shapes, branches and repetitions observed in one unoptimised run of {engine} on {fed}{note}"
    return replace(complete, metadata={**complete.metadata, "observed": method})


def _compare_runs(
    first: Observed, graph: Graph, path: Path, inputs: Sequence[InputSpec], others: Sequence[Array]
) -> tuple[Observed, str]:
    """Return `first` without the times that are others in a run on `others`, and what is to be said of that run."""
    try:
        _, second = _run(graph, path, inputs, others)
    except _Unobserved:
        unknown = "; a run on other inputs failed, so branches and repetitions stay unknown"
        return replace(first, times={}), unknown if first.times else ""
    differing = [
        name
        for place, values in first.shapes.items()
        for name, found in values.items()
        if second.shapes.get(place, {}).get(name, found) != found
    ]
    more = f" and {len(differing) - 1} more" if differing[1:] else ""
    note = f"; other inputs give other shapes of {differing[0]!r}{more}" if differing else ""
    same = {place: count for place, count in first.times.items() if second.times.get(place) == count}
    return replace(first, times=same), note


def read_run_graph(job: Job) -> Graph:
    """Return the network of a job's model with the job's input shapes, completed by `observe`; read and run once
    per job.

    Raises `EdgewiseError` where the network can't be read.
    """
    workload = job.workload
    return _read_run_graph(job.model, workload.inputs, workload.seed, workload.input_path)


@lru_cache(maxsize=8)
def _read_run_graph(model: ModelRef, inputs: tuple[InputSpec, ...], seed: int, data: str | None) -> Graph:
    graph = read_graph(model, shapes={spec.name: spec.shape for spec in inputs})
    return observe(graph, Path(model.path), inputs, seed=seed, input_data=None if data is None else Path(data))


def observe_file(
    path: Path, *, shapes: Mapping[str, tuple[int, ...]], signature: str = "", hash_weights: bool = False
) -> tuple[Graph, ResolvedGraph]:
    """Return the network in a file, and what `observe` makes of it with the first plausible sizes that the engine
    takes.

    Args:
        shapes: input name → shape, as in `edgewise.workload.resolved_graph.read_resolved_graph`; others are assumed.

    Raises:
        BadModel, BadInput: as `read_resolved_graph`.
    """
    network = read_resolved_graph(path, shapes=shapes, signature=signature, hash_weights=hash_weights)
    graph = observe(network.graph, path, network.inputs, again=True)
    tried = {network.inputs}
    for attempt in range(1, ATTEMPTS):
        if not graph.metadata.get("unobserved", "").startswith(REFUSED) or not network.source["assumed"]:
            break
        with suppress(BadInput):  # too large
            other = read_resolved_graph(
                path, shapes=shapes, signature=signature, hash_weights=hash_weights, attempt=attempt
            )
            if other.inputs not in tried:
                tried.add(other.inputs)
                seen = observe(other.graph, path, other.inputs, again=True)
                if "unobserved" not in seen.metadata:
                    return seen, other
    return graph, network


def is_open(graph: Graph) -> bool:
    """Whether a run could tell more: of a value's shape, of the branch that is taken, of a loop's repetitions."""
    if any(each.elements is None and each.dtype in {*BITS, "undefined"} for each in graph.tensors.values()):
        return True
    bodies = [operator for operator in graph.operators if operator.kind in ("branch", "loop")]
    return any(cost_of(operator, graph).ops is None for operator in bodies)


def _run(graph: Graph, path: Path, inputs: Sequence[InputSpec], arrays: Sequence[Array]) -> tuple[str, Observed]:
    """Return the engine with its version, and what the worker answers. Raises `_Unobserved`."""
    availability = availability_of(runtimes().get(_ENGINE))
    if not availability:
        raise _Unobserved(f"a run of the model would show it, but {availability.reason} ({availability.install_hint})")
    fed = {spec.name for spec in inputs}
    if lacking := [graph.tensors[name] for name in graph.inputs if name not in fed]:
        raise _Unobserved(
            f"the model was not run, because data for input {lacking[0].name!r} ({lacking[0].dtype}) can't be generated"
        )
    import numpy as np
    import psutil

    request = {
        "model": str(path.resolve()),
        "inputs": [spec.name for spec in inputs],
        "memory_limit": psutil.virtual_memory().total // 2,
    }
    with job_folder() as folder:
        np.savez(folder / "inputs.npz", *arrays)
        command = [sys.executable, "-P", "-m", _WORKER]
        done = run_child(command, request=json.dumps(request).encode(), seconds=TIMEOUT_S, folder=folder)
    if done.returncode == 1:  # the engine raised an error
        error = done.tail.rpartition("\n")[2]
        raise _Unobserved(f"{REFUSED} ({as_flag('shape')} gives others): {error}")
    if done.failure:
        raise _Unobserved(f"a run of the model {done.failure}")
    try:
        answer = dict(json.loads(done.output))
        return str(answer["engine"]), _parse(answer)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _Unobserved("a run of the model gave no answer") from error


def _make_other(array: Array, spec: InputSpec) -> Array:
    """Return an array that differs from a random one and is as safe: floats are 0, indices and booleans 1 − x."""
    if spec.value is not None:
        return array
    other: Array = (array == 0).astype(array.dtype) if array.dtype.kind != "f" else array * 0
    return other


def _parse(answer: Mapping[str, Any]) -> Observed:
    """Return the worker's answer as far as it makes sense: it has run a file that is not trusted.

    Raises `_Unobserved`.
    """
    try:
        shapes: dict[str, Shapes] = {
            path: {
                name: (str(kind), tuple(_size(size) for size in shape))
                for name, (kind, shape) in ((name, found) for name, found in values.items() if found)
                if len(shape) <= MAX_RANK
            }
            for path, values in answer["values"].items()
        }
        return Observed(shapes, {str(path): _size(count) for path, count in answer["times"].items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _Unobserved("a run of the model gave an answer that can't be read") from error


def _size(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value <= MAX_DIMENSION:
        raise ValueError(value)
    return value
