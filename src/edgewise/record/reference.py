"""Times of the reference kernels in stored sessions, and a key for the machine that they were measured on."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edgewise.record.run import SessionRecord

KERNELS = ("compute", "copy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading of `edgewise.run.reference`, and what was measured beside it.

    Attributes:
        version: version of the kernels.
        at: s since 1970.
        compute, copy: time of each kernel, s.
        run: of the run that it was taken in; "" where that is not stored yet.
        group: of the command that measured that run; None where it has none.
        job: `Job.key` of that run, and the value of its headline; None where unknown.
    """

    version: int
    at: float
    compute: float
    copy: float
    run: str = ""
    group: str | None = None
    job: str | None = None
    value: float | None = None


def readings_of(sessions: Iterable[SessionRecord]) -> list[Reading]:
    """Return the readings in `sessions`. Malformed ones are skipped, since records may come from outside."""
    found = []
    for session in sessions:
        told = session.facts.get("reference")
        if not isinstance(told, Mapping) or not isinstance(told.get("version"), int):
            continue
        for when in ("start", "end"):
            reading = told.get(when)
            if not isinstance(reading, Mapping):
                continue
            numbers = [reading.get(key) for key in ("at", *(f"{kernel}_s" for kernel in KERNELS))]
            if all(isinstance(number, int | float) and 0 < number < math.inf for number in numbers):
                at, compute, copy = (float(number) for number in numbers if number is not None)
                found.append(Reading(version=told["version"], at=at, compute=compute, copy=copy))
    return found


def machine_key(environment: Mapping[str, Any]) -> str | None:
    """Return 16 hex digits that identify the type of machine, but neither the machine nor its user.

    None if `environment` (`edgewise.run.environment.fingerprint`) lacks processor or memory.
    """
    try:
        cpu, memory = environment["cpu"], environment["memory"]["total_bytes"]
        told = [
            environment["architecture"],
            cpu["model"],
            cpu["logical_cores"],
            cpu["quota_cores"],
            round(memory / 2**30),
            environment["virtualisation"]["vendor"],
        ]
        if (limit := environment.get("clock", {}).get("limit_hz")) is not None:
            told.append(limit)
    except (KeyError, TypeError):
        return None
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()[:16]
