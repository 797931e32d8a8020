"""Carries out the request of `estimate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.estimating.base import Estimate, find_device
from edgewise.estimating.model_facts import with_model_facts
from edgewise.run.observation import observe_file

if TYPE_CHECKING:
    from edgewise.service.context import Context
    from edgewise.service.requests import EstimateRequest


def estimate(request: EstimateRequest, context: Context) -> Estimate:
    """The estimate of the model on the device; its `Estimate.refused` says where there can be none."""
    del context
    estimator, device = find_device(request.device, request.set)
    path = Path(request.model)
    graph, network = observe_file(path, shapes=request.shapes, hash_weights=True)
    return with_model_facts(replace(estimator.estimate(path, graph, device), model=network.source), graph)
