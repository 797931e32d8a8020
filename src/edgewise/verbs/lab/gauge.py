"""Asks a device of this host how it is: ``python -m edgewise.verbs.lab.gauge DEVICE``, a process of its own.

It holds the device as a measurement does, and answers with one JSON object on standard output.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

from edgewise.child_process import ChildProcess, explain_end
from edgewise.device.agent import lock_file
from edgewise.device.devices import LOCAL, find_device, transport_of
from edgewise.errors import EdgewiseError, Unavailable
from edgewise.run.sandbox import die_with_host
from edgewise.stats.between_runs import LEAST_IN_BLOCK
from edgewise.store.lab import LabDevice
from edgewise.store.location import ENVIRONMENT_VARIABLE
from edgewise.verbs.context import Context

if TYPE_CHECKING:
    from edgewise.store.leases import Leases

QUIET_S = 0.5
"""How long the load of the device is watched."""


class ChildGauge:
    """Asks devices by processes of their own.

    Args:
        store: URL of the lab's database, in which devices are held.
    """

    def __init__(self, store: str) -> None:
        self._store = store

    def __call__(self, device: LabDevice) -> Mapping[str, Any]:
        """As `edgewise.run.facts_worker.gauge`, as far as the device can tell. Raises `Unavailable` and `Cancelled`."""
        command = [sys.executable, "-P", "-m", "edgewise.verbs.lab.gauge", device.name]
        told = bytearray()
        try:
            with ChildProcess(command, environment={**os.environ, ENVIRONMENT_VARIABLE: self._store}) as child:
                while piece := child.read(until=inf):
                    told += piece
            answer: dict[str, Any] = json.loads(bytes(told) or b"null") or {
                "error": f"the process that asks it {explain_end(child.returncode, child.tail)[1] or 'said nothing'}"
            }
        except (OSError, ValueError) as error:
            answer = {"error": f"it could not be asked: {error}"}
        if "error" in answer:
            raise Unavailable(str(answer["error"]), advice="see the log of the worker")
        return answer


def last_use(url: str, leases: Leases) -> int | None:
    """Return a number that every measurement on a device changes, whoever makes it here or in the store; None
    without any.
    """
    if url != LOCAL:
        return leases.fence(url)
    with suppress(OSError):
        return lock_file().stat().st_mtime_ns
    return None


def ask(device: str) -> Mapping[str, Any]:
    """How a device is, while it is held, and which use of it that is. Raises `EdgewiseError`."""
    from edgewise.record import TargetSpec
    from edgewise.run.executor import executor_of, target_of
    from edgewise.store import open_store

    with Context().measuring(device):
        target = target_of(TargetSpec(device=device, transport=transport_of(device)))
        told = executor_of(target.transport).gauge(target, QUIET_S, LEAST_IN_BLOCK)
        with open_store() as store:
            return {**told, "use": last_use(find_device(device).url, store.leases)}


def main(device: str) -> None:
    """Ask, and answer; it ends with the worker."""
    die_with_host()
    try:
        answer: Mapping[str, Any] = {"found": True, **ask(device)}
    except EdgewiseError as error:
        answer = {"error": error.message}
    print(json.dumps(answer))


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.argv[:] = ["edgewise", "lab"]  # the name of this process for others that wait for the device
    main(words[0])
