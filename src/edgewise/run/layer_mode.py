"""The worker's pass in which an engine times its layers: a process of its own, so that it colours no latency."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from edgewise.runtime.base import CannotProfile, ProfilesLayers, Session

WARMUP_NS = 200_000_000
BUDGET_NS = 500_000_000
LEAST_INFERENCES, MOST_INFERENCES = 3, 1000


def time_layers(session: Session, clock: Any) -> dict[str, Any]:
    """What the engine's profiler tells of as many inferences as fit the budget, JSON-shaped.

    Raises `CannotProfile` where this engine does not time its layers.
    """
    if not isinstance(session, ProfilesLayers):
        raise CannotProfile("this runtime can't time layers")
    begin, warmed = clock.now(), 0
    while warmed < LEAST_INFERENCES or (clock.now() - begin < WARMUP_NS and warmed < MOST_INFERENCES):
        session.invoke()
        warmed += 1
    latency = max(1, (clock.now() - begin) // warmed)
    inferences = max(LEAST_INFERENCES, min(MOST_INFERENCES, BUDGET_NS // latency))
    return asdict(session.profile_layers(inferences))
