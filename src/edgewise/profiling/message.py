"""An engine's profile as a worker sends it, checked field by field: a worker is not trusted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from edgewise.runtime.base import EngineProfile

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MAX_NODES = 1_000_000
MOST_NS = 1e15
"""Eleven days: no inference that anybody profiles takes longer."""


@cache
def _adapter() -> TypeAdapter[EngineProfile]:
    from pydantic import TypeAdapter

    return TypeAdapter(EngineProfile)


def read_profile(document: Mapping[str, Any]) -> EngineProfile:
    """Return the profile in a worker's message.

    Raises ValueError for a field of another type, counts that disagree and invalid times.
    """
    from pydantic import ValidationError

    if len(document.get("nodes", ())) > MAX_NODES:
        raise ValueError("a profile of more than a million steps")
    try:
        profile = _adapter().validate_python(document)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from None
    count, total = len(profile.inference_ns), profile.inferences
    if not count:
        raise ValueError("a profile without inferences")
    if len({node.name for node in profile.nodes}) != len(profile.nodes):
        raise ValueError("two steps of one name")
    if len(profile.processor_ns) not in (0, count):
        raise ValueError(f"processor times of {len(profile.processor_ns)} of {count} inferences")
    _check_times(profile.processor_ns)
    _check_times((*profile.inference_ns, *profile.unprofiled_ns, *chain.from_iterable(profile.pairs_ns)))
    _check_times((node.start_ns or 0.0 for node in profile.nodes), lowest=-MOST_NS)
    for node in profile.nodes:
        _check_times((*node.times_ns, node.taken_out_ns))
    for overhead in profile.overheads:
        _check_times(overhead.times_ns, lowest=-MOST_NS)
    if not all(min(pair) > 0.0 for pair in profile.pairs_ns) or (profile.pairs_ns and not profile.unprofiled_ns):
        raise ValueError("a pair of windows without times")
    lengths = {len(node.times_ns) for node in profile.nodes} | {len(each.times_ns) for each in profile.overheads}
    if lengths - {count}:
        raise ValueError(f"steps or overheads without a time for each of {count} inferences")
    if not 0 <= profile.resolution_ns <= 1e9:
        raise ValueError(f"a clock with a resolution of {profile.resolution_ns} ns")
    if total is not None and not count <= total <= 10**9:
        raise ValueError(f"{count} times of {total} inferences")
    return profile


def _check_times(times: Iterable[float], *, lowest: float = 0.0) -> None:
    """Raise ValueError for a time that is not finite, below `lowest` or longer than `MOST_NS`."""
    if not all(math.isfinite(time) and lowest <= time <= MOST_NS for time in times):
        raise ValueError("an invalid time")
