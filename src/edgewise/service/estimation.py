"""Carries out the request of `estimate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.estimating.base import Estimate, EstimatedDevice, Estimator, find_device
from edgewise.estimating.memory_only import fit_of
from edgewise.estimating.model_facts import with_model_facts
from edgewise.folders import job_folder
from edgewise.model.callable_loader import is_factory
from edgewise.model.graph import Graph
from edgewise.run.observation import observe_file

if TYPE_CHECKING:
    from edgewise.service.context import Context
    from edgewise.service.requests import EstimateRequest


def estimate(request: EstimateRequest, context: Context) -> Estimate:
    """The estimate of the model on the device; its `Estimate.refused` says where there can be none."""
    del context
    estimator, device = find_device(request.device, request.set)
    if is_factory(request.model):
        return _estimate_built(estimator, device, request)
    return _estimate_file(estimator, device, Path(request.model), request)


def _estimate_file(estimator: Estimator, device: EstimatedDevice, path: Path, request: EstimateRequest) -> Estimate:
    graph, network = observe_file(path, shapes=request.shapes, hash_weights=True)
    found = with_model_facts(replace(estimator.estimate(path, graph, device), model=network.source), graph)
    return with_fit(found, graph)


def with_fit(estimate: Estimate, graph: Graph) -> Estimate:
    """`estimate` with what the model needs of the board's memories; refused where that is more than the board has."""
    board = estimate.device.board
    if board is None:
        return estimate
    fit = fit_of(board, estimate, graph)
    if not fit.lacking or estimate.refused is not None:
        return replace(estimate, fit=fit)
    advice = "'edgewise estimate MODEL --fits' lists the boards that hold it"
    return replace(estimate, fit=fit, refused=f"the model does not fit {board.name}: {fit.needs}", advice=advice)


def _estimate_built(estimator: Estimator, device: EstimatedDevice, request: EstimateRequest) -> Estimate:
    """The estimate of what a function makes, in int8."""
    from edgewise.optimizing.untrained import build_int8

    (case,) = request.cases
    with job_folder() as folder:
        path, built, notes = build_int8(request.model, folder, what_if=case, shapes=request.shapes)
        found = _estimate_file(estimator, device, path, request)
    source = {**found.model, **built.source, "format": found.model["format"], "size_bytes": found.model["size_bytes"]}
    if notes:
        source["path"] = None  # the file that was estimated is gone
    return replace(found, model=source, conditions=(*notes, *found.conditions))
