"""One frozen, JSON-shaped, versioned request per verb, checked when it is made.

Values are in SI units. Paths are kept as given: `Request.with_paths_from` makes them absolute. Every error is a
`BadField`, which names the field, or another `BadInput`. `edgewise.service.reading` makes requests.
"""

from __future__ import annotations

from edgewise.service.request import Request
from edgewise.service.requests.comparing import CompareRequest, GateRequest
from edgewise.service.requests.converting import ConvertRequest
from edgewise.service.requests.estimating import (
    CalibrateRequest,
    EstimateRequest,
    FitsRequest,
    PredictRequest,
    SuggestRequest,
)
from edgewise.service.requests.execution import ExecRequest
from edgewise.service.requests.improving import EvaluateRequest, OptimizeRequest
from edgewise.service.requests.measuring import BenchRequest, InspectRequest, ProfileRequest

__all__ = [
    "REQUESTS",
    "BenchRequest",
    "CalibrateRequest",
    "CompareRequest",
    "ConvertRequest",
    "EstimateRequest",
    "EvaluateRequest",
    "ExecRequest",
    "FitsRequest",
    "GateRequest",
    "InspectRequest",
    "OptimizeRequest",
    "PredictRequest",
    "ProfileRequest",
    "SuggestRequest",
]

REQUESTS: dict[str, type[Request]] = {
    kind.model_fields["verb"].default: kind
    for kind in (
        BenchRequest,
        ProfileRequest,
        InspectRequest,
        EstimateRequest,
        CalibrateRequest,
        SuggestRequest,
        PredictRequest,
        FitsRequest,
        EvaluateRequest,
        OptimizeRequest,
        CompareRequest,
        GateRequest,
        ExecRequest,
        ConvertRequest,
    )
}
