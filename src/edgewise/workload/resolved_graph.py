"""A model's network with concrete inputs: what its file leaves open follows the rules of benchmarking."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.model.graph import LANGUAGE_MODEL, Graph, Tensor
from edgewise.model.identity import describe_file, read_graph
from edgewise.model.signature import Signature, TensorSpec
from edgewise.record import InputSpec
from edgewise.workload.input_shapes import FEEDABLE, open_axes, resolve_inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedGraph:
    """A network and its origin.

    Attributes:
        source: name, path, format, size, hash and what was assumed, JSON-shaped; what is not known is None, with
            the reason under ``…_absent_because``.
        inputs: as they are fed, in the model's order, without those that can't be.
    """

    graph: Graph
    source: Mapping[str, Any]
    inputs: tuple[InputSpec, ...] = ()


def read_resolved_graph(
    path: str | os.PathLike[str],
    *,
    shapes: Mapping[str, tuple[int, ...]],
    signature: str = "",
    hash_weights: bool = False,
    attempt: int = 0,
) -> ResolvedGraph:
    """Return the network in a file, its open inputs given concrete shapes by the rules of benchmarking.

    Args:
        shapes: input name → shape, wins over every default; the name ``""`` is the only input.
        signature: name of the entry point of a file that has several; "" is its default.
        hash_weights: read weight files too, for the model's hash.
        attempt: which of the plausible sizes to assume, the likeliest is 0.

    Raises:
        BadModel, BadInput: as `read_graph`; sizes are too large.
    """
    file = Path(path)
    graph = read_graph(file, signature=signature)
    concrete, assumed = resolve_shapes(graph, shapes, attempt=attempt)
    inputs: tuple[InputSpec, ...] = ()
    with suppress(BadInput):  # what can't be fed can be counted all the same
        inputs = _resolve(_feedable(graph, shapes), shapes, attempt)
    if concrete:
        graph = read_graph(file, shapes=concrete, signature=signature)
    source = describe_file(file, read_all=hash_weights)
    if not signature and (others := [name for name in graph.signatures if name != graph.signature]):
        own = graph.signature or "the first subgraph, which has no name"
        assumed = [f"signature: {own}, the default; the file also has {', '.join(others)}", *assumed]
    return ResolvedGraph(graph=graph, source={**source, "assumed": assumed}, inputs=inputs)


def resolve_shapes(
    graph: Graph, shapes: Mapping[str, tuple[int, ...]], *, attempt: int = 0
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Return concrete shapes for the inputs of `graph`, none where they are all fixed, and what had to be assumed."""
    if not shapes and graph.states and LANGUAGE_MODEL in graph.metadata:
        return {}, []  # the sizes of such inputs follow from what was kept of earlier ones
    specs = tuple(_spec(graph.tensors[name]) for name in graph.inputs)
    if not shapes and not any(spec.dynamic for spec in specs):
        return {}, []
    feedable = _feedable(graph, shapes)
    resolved = _resolve(feedable, shapes, attempt)
    notes = []
    for given, spec in zip(feedable, resolved, strict=True):
        if spec.note:
            notes.append(f"{spec.name}: {spec.note}")
        first, *_ = given.shape or (1,)
        batch_open = not isinstance(first, int) and 0 not in open_axes(spec)
        if batch_open and spec.shape[0] == 1 and spec.name not in shapes and "" not in shapes:
            notes.append(f"{spec.name}: an open batch is assumed to be 1")
    return {spec.name: spec.shape for spec in resolved}, notes


def _spec(tensor: Tensor) -> TensorSpec:
    return TensorSpec(name=tensor.name, shape=tensor.shape, dtype=tensor.dtype)


def _feedable(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> tuple[TensorSpec, ...]:
    """Return what can't be fed (sequences, strings) or has no rank keeps its open shape; so do costs that depend on
    it.
    """
    specs = (_spec(graph.tensors[name]) for name in graph.inputs)
    return tuple(spec for spec in specs if spec.dtype in FEEDABLE and (spec.shape is not None or spec.name in shapes))


def _resolve(
    specs: tuple[TensorSpec, ...], shapes: Mapping[str, tuple[int, ...]], attempt: int
) -> tuple[InputSpec, ...]:
    return resolve_inputs(Signature(inputs=specs, outputs=()), batch=1, overrides=shapes, attempt=attempt)
