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
    tell: Callable[..., None] | None = None,
    now: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Readings of an idle and of a loaded window, JSON-shaped.

    Args:
        tell: sends a ``window`` message where one begins and ends, for meters that are read elsewhere.

    Returns:
        ``{"idle": {"seconds", "readings": […]}, "load": {"seconds", "inferences", "readings": […]}}``
    """
    tell = tell or _ignore
    for meter in meters:
        meter.begin()
    tell("window", name="idle", event="begin")
    begin = now()
    while now() - begin < IDLE_S * 1e9:
        sleep(BLOCK_S)
        for meter in meters:
            meter.sample()
    seconds = (now() - begin) / 1e9
    tell("window", name="idle", event="end")
    idle = {"seconds": seconds, "readings": _end(meters)}
    for meter in meters:
        meter.begin()
    tell("window", name="load", event="begin")
    begin, inferences = now(), 0
    while now() - begin < LOAD_S * 1e9:
        block = now()
        while now() - block < BLOCK_S * 1e9:
            invoke()
            inferences += 1
        for meter in meters:
            meter.sample()
    seconds = (now() - begin) / 1e9
    tell("window", name="load", event="end")
    load = {"seconds": seconds, "inferences": inferences, "readings": _end(meters)}
    return {"idle": idle, "load": load}


def _ignore(kind: str, **fields: Any) -> None:
    """Nobody reads meters elsewhere."""


def _end(meters: Sequence[Meter]) -> list[dict[str, Any]]:
    return [as_dict(reading) for meter in meters for reading in meter.end()]


def as_dict(reading: Reading) -> dict[str, Any]:
    """The reading, JSON-shaped."""
    return {
        "metric": reading.metric,
        "value": reading.value,
        "low": reading.low,
        "high": reading.high,
        "method": reading.method,
    }
