"""Describes a target: engines, sensors, the machine. Sent there with the worker; standard library only.

The request on standard input is a JSON object with the locations of runtimes and meters; the answer on standard output
is one too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from edgewise.child_process import serve
from edgewise.registry import Availability, availability_of, load_class
from edgewise.run.counters import usable_cores
from edgewise.run.environment import fingerprint


def collect(question: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Facts about this machine, and whether each runtime and meter in `question` can be used here."""
    return {
        "runtimes": {name: asdict(_availability(location)) for name, location in question["runtimes"].items()},
        "meters": {name: asdict(_availability(location)) for name, location in question["meters"].items()},
        "environment": fingerprint(),
        "cores": list(usable_cores()),
        "numpy": find_spec("numpy") is not None,
    }


def _availability(location: str) -> Availability:
    try:
        plugin = load_class(location)()
    except Exception as error:
        return Availability(False, f"it can't be loaded there: {type(error).__name__}: {error}")
    return availability_of(plugin)


def main() -> None:
    """Entry point of the process."""
    os._exit(serve(lambda request: json.dumps(collect(json.loads(request))).encode()))


if __name__ == "__main__":
    main()
