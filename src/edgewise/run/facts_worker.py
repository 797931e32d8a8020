"""Describes a target: engines, sensors, the machine. Sent there with the worker; standard library only.

The request on standard input is a JSON object with the locations of runtimes and meters, and whether installed packages
are wanted; or with the time for which the machine is to be observed, and the number of readings of the reference
kernels after that. The answer on standard output is one too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from edgewise.child_process import serve
from edgewise.registry import Availability, availability_of, load_class
from edgewise.run.counters import read_counters, usable_cores
from edgewise.run.environment import fingerprint
from edgewise.run.meters.base import Traits, traits_of


def collect(question: Mapping[str, Any]) -> dict[str, Any]:
    """Facts about this machine, and whether each runtime and meter in `question` can be used here."""
    return {
        "runtimes": {name: asdict(_availability(location)) for name, location in question["runtimes"].items()},
        "meters": {name: asdict(_availability(location)) for name, location in question["meters"].items()},
        "traits": {name: asdict(_traits(location)) for name, location in question["meters"].items()},
        "environment": fingerprint(),
        "cores": list(usable_cores()),
        "numpy": find_spec("numpy") is not None,
        "packages": _installed() if question.get("packages") else {},
    }


def _installed() -> dict[str, str]:
    """Package → version."""
    from importlib.metadata import distributions  # which takes a while

    found: dict[str, str] = {}
    for each in distributions():
        found.setdefault(str(each.metadata["Name"]), each.version)  # the first on the path is the one that is imported
    return dict(sorted(found.items()))


def observe(seconds: float, *, sleep: Callable[[float], object] = time.sleep) -> dict[str, float | None]:
    """`edgewise.run.counters.Counters.delta` over `seconds` in which this process sleeps."""
    before = read_counters()
    sleep(seconds)
    return read_counters().delta(before)


def gauge(seconds: float, count: int, *, sleep: Callable[[float], object] = time.sleep) -> dict[str, Any]:
    """How this machine is: what can't be read is None.

    Returns:
        ``load``, the busy share of its cores while this process sleeps, 0…1; ``temperature`` of its processor, K;
        ``clock``, Hz; ``readings``, `count` of `edgewise.run.reference.time_reference`, and their ``version``.
    """
    from edgewise.run.meters.thermal import ThermalMeter
    from edgewise.run.reference import VERSION, time_reference

    load, meter = observe(seconds, sleep=sleep)["busy_share"], ThermalMeter()
    meter.begin()
    hot = [reading.value for reading in meter.end() if reading.metric == "temperature"]
    readings = [reading for _ in range(count) if (reading := time_reference()) is not None]
    clock = fingerprint()["state"]["clock_hz"]
    return {"load": load, "temperature": next(iter(hot), None), "clock": clock, "readings": readings,
            "version": VERSION}  # fmt: skip


def _answer(request: bytes) -> bytes:
    question = json.loads(request)
    if "references" in question:
        answer = gauge(question["observe_s"], question["references"])
    else:
        answer = observe(question["observe_s"]) if "observe_s" in question else collect(question)
    return json.dumps(answer).encode()


def _availability(location: str) -> Availability:
    try:
        plugin = load_class(location)()
    except Exception as error:
        return Availability(False, f"it can't be loaded there: {type(error).__name__}: {error}")
    return availability_of(plugin)


def _traits(location: str) -> Traits:
    try:
        return traits_of(load_class(location)())
    except Exception:  # its availability has the reason
        return Traits()


def main() -> None:
    """Entry point of the process."""
    os._exit(serve(_answer))


if __name__ == "__main__":
    main()
