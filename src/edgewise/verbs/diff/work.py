"""Carries out `diff`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.child_process import run_child
from edgewise.errors import BadInput, RunFailed, as_flag
from edgewise.estimating.mcu.cores import CORES
from edgewise.evaluating.data_options import DataOptions, read_instructions
from edgewise.folders import job_folder
from edgewise.model.cost import total_of
from edgewise.model.graph import Graph
from edgewise.model.precision import find_precision
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.plain_int8 import read_samples
from edgewise.optimizing.planning import is_quantized
from edgewise.optimizing.search_settings import SearchSettings
from edgewise.progress import StageStarted, emit
from edgewise.report.graph import MOST_NODES
from edgewise.verbs.diff.alignment import align_operators, find_misnamed
from edgewise.verbs.diff.gaps import gaps_of, losing_layers, with_own_losses
from edgewise.verbs.diff.matching import INPUT, Match, match_tensors, products_of
from edgewise.verbs.diff.micro_engines import MICRO_ENGINES
from edgewise.verbs.diff.result import CLEAN_DB, EXACT_DB, ROUNDED_DB, DiffResult, LayerGap, names_of
from edgewise.verbs.diff.sides import Side, choose_sides
from edgewise.verbs.diff.structure import (
    changed_weights,
    count_changes,
    describe_structure,
    find_lone,
)
from edgewise.workload.inputs import make_arrays
from edgewise.workload.resolved_graph import ResolvedGraph, read_resolved_graph

if TYPE_CHECKING:
    import numpy as np

    from edgewise.verbs.context import Context
    from edgewise.verbs.diff.request import DiffRequest

    Array = np.ndarray[Any, np.dtype[Any]]

_MOST_OUTPUT = 2**28


def diff(request: DiffRequest, context: Context) -> DiffResult:
    """Give both models the same samples, and hold every layer against its twin.

    Raises:
        BadInput: a format that keeps no tensors, models that have nothing in common, or data that does not fit.
        BadModel: a file can't be read.
        Unavailable: an engine is not installed.
        RunFailed: an engine can't run a model, or takes too long.
    """
    context.begin(request.reference, *filter(None, [request.other]))
    with job_folder() as scratch:
        sides = choose_sides(request, scratch)
        found = [read_resolved_graph(side.path, shapes=request.shapes) for side in sides]
        one, two = (each.graph for each in found)
        paths = [Path(side.path) for side in sides]
        aligned = align_operators((one, two), paths)
        lone = find_lone((one, two), aligned)
        matches = match_tensors(
            one, two, {each.name for each in lone if each.is_added}, twins=find_misnamed((one, two), aligned)
        )
        if not any(match.op != INPUT for match in matches):
            raise BadInput(
                f"{sides[0].name} and {sides[1].name} have no layer in common: {_counted(one)} against {_counted(two)}",
                advice="compare a model with its own conversion or quantised version",
            )
        samples, fed = _write_samples(request, sides, found, scratch=scratch)
        emit(StageStarted(title=f"Comparing {len(matches)} tensors"))
        told, layers = _measure(sides, matches, (one, two), samples=samples, seconds=request.timeout)
    weights = changed_weights((one, two), paths, aligned)
    weighted, reweighted, retyped = count_changes(weights)
    named = {layer.tensors[0]: layer for layer in layers}
    outputs = {name: named[name].snr_db for name in one.outputs if name in named}
    last = layers[-1] if layers else None
    if not outputs and last is not None:
        outputs = {last.name: last.snr_db}
    matched = {match.name for match in matches}
    facts = [
        {"name": side.name, "format": side.format, "sha256": side.sha256, "engine": engine, **_size_of(each)}
        for side, engine, each in zip(sides, told["engines"], found, strict=True)
    ]
    return DiffResult(
        models=(facts[0], facts[1]),
        samples=told["samples"],
        fed=fed,
        layers=layers,
        outputs={name: value for name, value in outputs.items() if value is not None},
        unmatched=[each.name for each in products_of(one) if each.name not in matched],
        structure=describe_structure(
            (one, two), paths, aligned, weights, names=names_of([side.name for side in sides])
        ),
        weighted=weighted,
        reweighted=reweighted,
        retyped=retyped,
        lone=lone,
        top=request.top,
        graph=one if len(one.operators) <= MOST_NODES else None,
        typed=[
            side.name if Path(word).is_absolute() else word
            for side, word in zip(sides, (request.reference, request.other or request.reference), strict=True)
        ],
        basis="simulated" if any(side.engine in CORES for side in sides) else "measured",
    )


def _size_of(found: ResolvedGraph) -> dict[str, Any]:
    """Return size, precision, MACs and parameters of a network, JSON-shaped."""
    total = total_of(found.graph)
    lacking = {"macs_absent_because": total.why} if total.macs is None else {}
    return {
        "size_bytes": found.source["size_bytes"], "precision": find_precision(found.graph), "macs": total.macs,
        "parameters": total.parameters, **lacking,
    }  # fmt: skip


def _counted(graph: Graph) -> str:
    return f"{len(graph.operators)} operators"


def _write_samples(
    request: DiffRequest, sides: Sequence[Side], found: Sequence[ResolvedGraph], *, scratch: Path
) -> tuple[list[str], str]:
    """Return a file of samples for each model, and what they are in words."""
    paths = [scratch / "reference.npz", scratch / "other.npz"]
    if request.data is None:
        feeds = _random_feeds(request, found)
        fed = f"{request.limit} random inputs from seed {request.seed}: use {as_flag('data')} for those that matter"
    else:
        emit(StageStarted(title=f"Samples of {request.data}"))
        options = DataOptions(
            source=request.data, split=request.split, limit=request.limit, seed=request.seed, prepare=request.prepare
        )
        feeds = []
        for side in sides:
            settings = SearchSettings(
                model=side.path, format=side.format, instructions=read_instructions(Path(side.path), options),
                shapes=request.shapes,
            )  # fmt: skip
            selection, prepared, _ = read_samples(settings, options)
            feeds.append(prepared.feeds)
        if len(feeds[0]) != len(feeds[1]):
            raise BadInput(
                f"{len(feeds[0])} samples can be fed to one model and {len(feeds[1])} to the other",
                advice="leave the others out of the data",
            )
        fed = f"{len(feeds[0])} samples of {selection.data.name}, split {selection.data.split}"
    for file, own in zip(paths, feeds, strict=True):
        write_calibration(file, own, None)
    return [str(path) for path in paths], fed


def _random_feeds(request: DiffRequest, found: Sequence[ResolvedGraph]) -> list[list[list[Array]]]:
    """Return the same random numbers for both, in the layout and the type of each. Raises `BadInput`."""
    specs = [each.inputs for each in found]
    if len(specs[0]) != len(specs[1]) or not specs[0]:
        raise BadInput(
            f"one model has {len(specs[0])} inputs that can be fed, and the other {len(specs[1])}",
            advice="give samples with ⟦data⟧",
        )
    feeds: list[list[list[Array]]] = [[], []]
    for number in range(request.limit):
        arrays = make_arrays(specs[0], seed=request.seed + number)
        feeds[0].append(arrays)
        feeds[1].append([_as_other(array, spec, found[1].graph) for array, spec in zip(arrays, specs[1], strict=True)])
    return feeds


def _as_other(array: Array, spec: Any, graph: Graph) -> Array:
    import numpy as np

    from edgewise.evaluating.input_conversion import quantize

    shape, dtype = tuple(spec.shape), np.dtype(spec.dtype)
    if array.shape != shape and array.ndim == len(shape) > 2:
        for order in ((0, *range(2, array.ndim), 1), (0, array.ndim - 1, *range(1, array.ndim - 1))):
            if tuple(array.shape[axis] for axis in order) == shape:
                array = array.transpose(order)
                break
    scale = graph.tensors[spec.name].quantization if spec.name in graph.tensors else None
    if array.dtype.kind == dtype.kind == "f":
        array = array.astype(dtype)
    if array.shape != shape or (array.dtype != dtype and (scale is None or scale.channels != 1)):
        raise BadInput(
            f"input {spec.name!r} takes {dtype} {list(shape)}, and that of the reference {array.dtype} "
            f"{list(array.shape)}",
            advice="give samples with ⟦data⟧",
        )
    if array.dtype == dtype or scale is None:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(quantize(array, scale.scale, scale.zero_point, dtype))


def _measure(
    sides: Sequence[Side], matches: Sequence[Match], graphs: Sequence[Graph], *, samples: list[str], seconds: float
) -> tuple[Mapping[str, Any], Sequence[LayerGap]]:
    """Return what the child process says, and the layers. Raises `RunFailed`."""
    asked = _request_of(sides, matches, graphs, samples=samples)
    told = _ask(asked, seconds=seconds)
    clean = _expect_ratio(sides, [is_quantized(graph) for graph in graphs])
    layers = gaps_of(matches, told["layers"], graphs, clean=clean)
    scales = {name: scale for each in asked["layers"] for name, *scale in each["first"]}
    losing = losing_layers(layers, matches, told["layers"], scales) if sides[1].engine == "onnxruntime" else {}
    if losing:
        with suppress(RunFailed):  # the layers are known without it
            alone = _ask({**asked, "alone": list(losing.values())}, seconds=seconds)["alone"]
            layers = with_own_losses(layers, dict(zip(losing, alone, strict=True)), clean=clean)
    return told, layers


def _expect_ratio(sides: Sequence[Side], integers: Sequence[bool]) -> float:
    """Return the signal-to-noise ratio that two sides without a fault have, at least; which of them are quantised
    is given.
    """
    engines = {side.engine for side in sides}
    if all(integers) and engines <= MICRO_ENGINES.keys():
        return EXACT_DB if sides[0].sha256 == sides[1].sha256 else CLEAN_DB
    return ROUNDED_DB if integers[0] != integers[1] or (all(integers) and len(engines) > 1) else CLEAN_DB


def _request_of(
    sides: Sequence[Side], matches: Sequence[Match], graphs: Sequence[Graph], *, samples: list[str]
) -> dict[str, Any]:
    """Return what the child process is asked."""
    return {
        "models": [
            {"path": str(Path(side.path).resolve()), "format": side.format, "engine": side.engine} for side in sides
        ],
        "layers": [
            {"first": _scaled(match.first, graphs[0]), "second": _scaled(match.second, graphs[1])} for match in matches
        ],
        "samples": samples,
    }


def _ask(asked: Mapping[str, Any], *, seconds: float) -> Mapping[str, Any]:
    """Return what the child process says. Raises `RunFailed`."""
    command = [sys.executable, "-P", "-m", "edgewise.verbs.diff.tensor_worker"]
    done = run_child(command, seconds=seconds, request=json.dumps(asked).encode(), max_output=_MOST_OUTPUT)
    if done.failure:
        advice = "raise ⟦timeout⟧, or use less samples with ⟦limit⟧" if done.cause == "late" else ""
        raise RunFailed(f"the models can't be compared: {done.failure}", advice=advice)
    answer: Mapping[str, Any] = json.loads(done.output)
    return answer


def _scaled(names: Sequence[str], graph: Graph) -> list[list[Any]]:
    """Name, scale and zero point of each; no scale where it has none, or several."""
    found = []
    for name in names:
        scale = graph.tensors[name].quantization if name in graph.tensors else None
        one = scale is not None and scale.channels == 1 and scale.block is None
        found.append([name, scale.scale, scale.zero_point] if one and scale is not None else [name, None, None])
    return found
