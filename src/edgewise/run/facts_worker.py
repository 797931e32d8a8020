"""Tells what a target has: engines, sensors, the machine. Sent there with the worker; standard library only.

One JSON object on standard input names runtimes and meters with the places of their classes, one on standard output
answers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from edgewise.registry import Availability, availability_of
from edgewise.run.counters import usable_cores
from edgewise.run.environment import fingerprint


def collect(question: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Facts about this machine; of each runtime and meter in `question`, whether it can be used here."""
    return {
        "runtimes": {name: asdict(_availability(location)) for name, location in question["runtimes"].items()},
        "meters": {name: asdict(_availability(location)) for name, location in question["meters"].items()},
        "environment": fingerprint(),
        "cores": list(usable_cores()),
        "clock_resolution_s": time.get_clock_info("perf_counter").resolution,
        "numpy": find_spec("numpy") is not None,
    }


def _availability(location: str) -> Availability:
    module, _, name = location.partition(":")
    try:
        plugin = getattr(import_module(module), name)()
    except Exception as error:
        return Availability(False, f"it can't be loaded there: {type(error).__name__}: {error}")
    return availability_of(plugin)


def main() -> None:
    """Entry point of the process."""
    channel = os.dup(1)
    os.dup2(2, 1)
    answer = collect(json.load(sys.stdin))
    os.write(channel, json.dumps(answer).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
