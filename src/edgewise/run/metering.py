"""The sensors' pass: an idle baseline and a loaded window, one after the other in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from edgewise.run.meters.base import Meter, Reading

IDLE_S = 1.0
LOAD_S = 2.0
BLOCK_S = 0.05


def read_meters(
    meters: Sequence[Meter],
    invoke: Callable[[], object],
    *,
    now: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Readings of an idle and of a loaded window, JSON-shaped.

    Returns:
        ``{"idle": {"seconds", "readings": […]}, "load": {"seconds", "inferences", "readings": […]}}``
    """
    for meter in meters:
        meter.begin()
    begin = now()
    while now() - begin < IDLE_S * 1e9:
        sleep(BLOCK_S)
        for meter in meters:
            meter.sample()
    idle = {"seconds": (now() - begin) / 1e9, "readings": _end(meters)}
    for meter in meters:
        meter.begin()
    begin, inferences = now(), 0
    while now() - begin < LOAD_S * 1e9:
        block = now()
        while now() - block < BLOCK_S * 1e9:
            invoke()
            inferences += 1
        for meter in meters:
            meter.sample()
    load = {"seconds": (now() - begin) / 1e9, "inferences": inferences, "readings": _end(meters)}
    return {"idle": idle, "load": load}


def _end(meters: Sequence[Meter]) -> list[dict[str, Any]]:
    return [_as_dict(reading) for meter in meters for reading in meter.end()]


def _as_dict(reading: Reading) -> dict[str, Any]:
    return {
        "metric": reading.metric,
        "value": reading.value,
        "low": reading.low,
        "high": reading.high,
        "method": reading.method,
    }
