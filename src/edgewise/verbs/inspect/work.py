"""Carries out `inspect`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.verbs.context import Context
from edgewise.verbs.inspect.request import InspectRequest

if TYPE_CHECKING:
    from edgewise.model.inspection import Inspection


def inspect(request: InspectRequest, context: Context) -> list[Inspection]:
    """One inspection per case of the factory; one where the model is a file."""
    from edgewise.model.build import build_graph, give_shapes, is_factory
    from edgewise.model.inspection import inspect_graph
    from edgewise.run.observation import observe_file
    from edgewise.workload.resolved_graph import resolve_shapes

    context.begin(request.model)
    if not is_factory(request.model):
        graph, network = observe_file(
            Path(request.model), shapes=request.shapes, signature=request.signature, hash_weights=request.hash_weights
        )
        inspection = inspect_graph(graph, source=network.source)
        return [_with_sparsity(inspection, request.model) if request.sparsity else inspection]
    found = []
    for case in request.cases:
        built = build_graph(request.model, what_if=case, shapes=request.shapes or None)
        concrete, assumed = resolve_shapes(built.graph, request.shapes)
        if concrete:
            built = give_shapes(built, concrete)
        found.append(inspect_graph(built.graph, source={**built.source, "assumed": assumed}))
    return found


def _with_sparsity(inspection: Inspection, model: str) -> Inspection:
    """`inspection` with the zeros of the weights."""
    from edgewise.model.identity import find_file
    from edgewise.model.sparsity import count_zeros

    return replace(inspection, sparsity=count_zeros(inspection.graph, model=find_file(model)))
