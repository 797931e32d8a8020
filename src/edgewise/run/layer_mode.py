"""The worker's pass in which an engine times its layers, in turns with ordinary inferences, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from edgewise.runtime.base import CannotProfile, ProfilesLayers, Session

WARMUP_NS = 200_000_000
BUDGET_NS = 500_000_000
LEAST_INFERENCES, MOST_INFERENCES = 3, 1000


def time_layers(session: Session, clock: Any, *, stopping: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the engine's profiler tells of as many inferences as fit the budget, JSON-shaped.

    Args:
        stopping: an `edgewise.record.Stopping` as a mapping; a prescribed number of iterations or duration counts, up
            to `MOST_INFERENCES`.

    Raises `CannotProfile` where this engine does not time its layers.
    """
    if not isinstance(session, ProfilesLayers):
        raise CannotProfile("this runtime can't time layers")
    begin, warmed = clock.now(), 0
    while warmed < LEAST_INFERENCES or (clock.now() - begin < WARMUP_NS and warmed < MOST_INFERENCES):
        session.invoke()
        warmed += 1
    latency = max(1, (clock.now() - begin) // warmed)
    # Half of a prescribed duration is for the ordinary inferences.
    budget = BUDGET_NS if stopping["duration_s"] is None else int(stopping["duration_s"] * 5e8)
    wanted = max(LEAST_INFERENCES, budget // latency) if stopping["iterations"] is None else stopping["iterations"]
    inferences = min(MOST_INFERENCES, wanted)
    return asdict(session.profile_layers(inferences))
