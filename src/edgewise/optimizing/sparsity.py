"""What engines gain from the zeros of a network: its parts as they are against the same parts with dense weights.

Nothing is assumed about kernels: `measure_gains` times both files in turns in each engine
(`edgewise.optimizing.microbenchmarks`), in several fresh processes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.clock import now
from edgewise.folders import job_folder
from edgewise.model.cost import count
from edgewise.model.graph import BITS, Graph
from edgewise.model.identity import list_files, read_graph
from edgewise.model.sparsity import (
    PIECE_ELEMENTS,
    PRODUCTS,
    LayerSparsity,
    Sparsity,
    SparsityGain,
    count_zeros,
    find_zeros,
    open_data,
    read_zero_points,
)
from edgewise.optimizing.base import PassResult, PassSettings, PassTask
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.microbenchmarks import PassTiming, time_pass
from edgewise.optimizing.planning import installed_runtimes
from edgewise.optimizing.subgraph import Subgraph, with_boundaries
from edgewise.optimizing.subgraph_files import CUTTERS
from edgewise.progress import StageStarted, emit
from edgewise.runtime.base import runtimes
from edgewise.stats.intervals import location, median_interval

LEAST_SHARE = 0.1
"""Layers with a smaller share of zeros are not timed."""
LAYERS = 2
"""Number of layers that are timed alone: those with the most MACs."""
PROCESSES = 3
"""Fresh processes per part: where weights lie in memory differs from process to process."""
_TURNS_S = 0.4
_POOL = 4096
#: Floats that numpy lacks → the bits of a number near 0.02.
_USUAL_BITS = {"bfloat16": 0x3CA4, "float8_e4m3fn": 0x0A, "float8_e5m2": 0x25}
_BUDGET_S = 180.0


class MakeDense:
    """The pass that is timed: zeros become random non-zero weights, and nothing else changes."""

    def apply(self, task: PassTask[PassSettings]) -> PassResult:
        """Fill the zeros of a copy. Raises `CannotApply` if no zero can be filled."""
        source = Path(task.model)
        for file in list_files(source):
            copy = _copy_of(file, source, task.folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        graph = read_graph(source)
        if not make_dense(graph, count_zeros(graph, model=source), source, task.folder):
            raise CannotApply("no weight with zeros is stored as plain numbers of 8 bits or more")
        return PassResult(model=_copy_of(source, source, task.folder))


def _copy_of(file: str | Path, model: Path, folder: Path) -> Path:
    """The copy in `folder` of a file of `model`, at the same place beside the model."""
    return folder / os.path.relpath(file, model.parent)


def measure_gains(model: Path, graph: Graph, sparsity: Sparsity) -> tuple[tuple[SparsityGain, ...], str]:
    """Time the network and its heaviest sparse layers against dense weights, in every installed engine, on one thread.

    Args:
        graph: with concrete inputs.
        sparsity: of `graph`.

    Returns:
        A gain per part and engine, and why there are none.
    """
    if graph.format == "torch":
        return (), "the archive of a PyTorch export has checksums of its weights; convert it to ONNX to time it"
    engines = installed_runtimes(graph.format)
    if not engines:
        return (), f"no installed engine reads {graph.format} files"
    layers = _heaviest(graph, sparsity)
    if not layers:
        return (), f"no convolution or matrix product has at least {LEAST_SHARE:.0%} zeros"
    everything = tuple(range(len(graph.operators)))
    parts = [("the whole network", Subgraph(extent="whole", kept=everything, outputs=graph.outputs))]
    if graph.format in CUTTERS and not graph.subgraphs:
        cuts = [(graph.operators[each.index].title, _cut_out(graph, each.index)) for each in layers]
        parts += [(title, cut) for title, cut in cuts if cut is not None]
    emit(StageStarted(title="Time the sparse layers against dense ones"))
    until = now() + _BUDGET_S
    found: list[SparsityGain] = []
    for part, subgraph in parts:
        timings = [_time(model, graph, subgraph, engines, until=until) for _ in range(PROCESSES)]
        found += [_gain(part, name, [each.get(name) for each in timings]) for name in engines]
    return tuple(found), ""


def _heaviest(graph: Graph, sparsity: Sparsity) -> list[LayerSparsity]:
    sparse = {
        each.index: each
        for each in sparsity.layers
        if not each.subgraph and (each.share or 0.0) >= LEAST_SHARE and graph.operators[each.index].kind in PRODUCTS
    }
    return sorted(sparse.values(), key=lambda each: -(count(graph.operators[each.index], graph).macs or 0))[:LAYERS]


def _cut_out(graph: Graph, index: int) -> Subgraph | None:
    """A product with the steps beside it that quantise and dequantise, without which engines compute in floats."""
    producers, consumers, kept = graph.producers(), graph.consumers(), {index}
    todo = [index]
    while todo:
        for name in graph.operators[todo.pop()].inputs:
            maker = producers.get(name)
            if maker is not None and graph.operators[maker].kind in ("quantize", "dequantize") and maker not in kept:
                kept.add(maker)
                todo.append(maker)
    for name in graph.operators[index].outputs:
        kept |= {each for each in consumers.get(name, ()) if graph.operators[each].kind == "quantize"}
    return with_boundaries(graph, tuple(sorted(kept)), 0.0)


def _time(
    model: Path, graph: Graph, subgraph: Subgraph, engines: Sequence[str], *, until: float
) -> dict[str, PassTiming]:
    """Engine → turns of the part as it is and with dense weights, from one fresh process."""
    location = f"{MakeDense.__module__}:{MakeDense.__qualname__}"
    with job_folder() as folder:
        task = PassTask(model="", format=graph.format, settings=PassSettings(), folder=folder)
        return time_pass(
            model, graph, subgraph, location, task, engines=engines, seconds=_TURNS_S, until=until, profile=False
        )


def _gain(part: str, engine: str, timings: Sequence[PassTiming | None]) -> SparsityGain:
    """The ratio of all turns, with the variance between processes in its interval."""
    name = f"{engine}/{runtimes().get(engine).providers[0].name}"
    timed = [each for each in timings if each is not None and each.original]
    if len(timed) < PROCESSES:
        failures = [each.failed for each in timings if each is not None and each.failed]
        return SparsityGain(part=part, engine=name, absent_because=(failures or ["the time for timing was used up"])[0])
    sessions = [[b / a for a, b in zip(each.original, each.changed, strict=True)] for each in timed]
    ratios, lengths = [ratio for session in sessions for ratio in session], [len(session) for session in sessions]
    interval = median_interval(ratios, lengths)
    assert interval is not None
    speedup = location(ratios, lengths)
    return SparsityGain(
        part=part, engine=name, speedup=speedup, low=interval.low, high=interval.high, pairs=len(ratios)
    )


def make_dense(graph: Graph, sparsity: Sparsity, model: Path, folder: Path) -> int:
    """Replace zeros in the copies of the files of `model` in `folder` by random non-zero elements of the same weight.

    Returns:
        The number of weights that were changed. Narrow types and sparse encodings stay as they are.
    """
    import numpy as np

    random, changed = np.random.default_rng(0), 0
    for layer in sparsity.counted:
        tensor = graph.tensors.get(layer.weight)
        if not layer.zeros or layer.subgraph or tensor is None or tensor.data is None or tensor.sparsity is not None:
            continue
        place = tensor.data
        zero, _ = read_zero_points(tensor, tuple(int(str(size)) for size in tensor.shape or ()), model)
        if not place.file or place.varints or BITS[place.dtype] < 8 or not isinstance(zero, int):
            continue
        elements = open_data(place, model)
        pool = _pool(elements, place.dtype, zero)
        target = np.memmap(_copy_of(place.file, model, folder), elements.dtype, "r+", place.offset, elements.size)
        for start in range(0, elements.size, PIECE_ELEMENTS):
            piece = target[start : start + PIECE_ELEMENTS]
            zeros = find_zeros(piece, place.dtype, zero)
            piece[zeros] = random.choice(pool, int(zeros.sum()))
        target.flush()
        changed += 1
    return changed


def _pool(elements: Any, dtype: str, zero: int) -> Any:
    """Non-zero finite elements of a weight to draw from; a number of a usual size if its beginning has none."""
    import numpy as np

    beginning = np.asarray(elements[:PIECE_ELEMENTS])
    kept = beginning[~find_zeros(beginning, dtype, zero)]
    is_float = kept.dtype.kind == "f"
    kept = kept[np.isfinite(kept)] if is_float else kept
    if kept.size:
        return kept[:_POOL]
    usual = 0.02 if is_float else _USUAL_BITS.get(dtype, zero - 1 if zero > 0 else zero + 1)
    return np.array([usual], elements.dtype)
