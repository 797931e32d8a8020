"""The reference kernels: fixed work that is timed in every session, so that a machine's own drift can be told.

A machine's speed wanders over seconds and minutes (its clock, heat, neighbours on the host). Two kernels represent
what networks consist of: arithmetic within the second-level cache, and a copy that goes past it. They were chosen on
a virtual machine whose neighbours made its speed wander: over blocks of five seconds, networks of 0.3 to 70 ms
followed both with a correlation of 0.6 to 0.9, and by 0.6 to 1.7 % for every per cent. Arithmetic on a few kilobytes
moved twice as much as the networks did, a copy of 16 MiB up to eight times. Sent to devices: standard library and
numpy only.
"""

from __future__ import annotations

import time
from typing import Any

VERSION = 2
"""Of the kernels' work and of what a reading is; times of different versions are not compared. Version 1 gave the mean:
beside other programs it doubled where the kernel lost its core for a while, which moves no network's median."""

_ELEMENTS = 65536
_SWEEPS = 3
_COPIED_BYTES = 4 * 2**20
_LEAST_NS = 25_000_000
"""How long each kernel is repeated: some 300 times, so that short interruptions don't move the median."""


def time_reference() -> dict[str, Any] | None:
    """When the kernels were timed (``at``, s since 1970) and the median time of each, ``compute_s`` and ``copy_s``.

    Takes some 60 ms, and 9 MiB that are given back. None where numpy or that memory is not to be had.
    """
    try:
        import numpy as np

        values = np.linspace(0.1, 1.0, _ELEMENTS, dtype=np.float32)
        result = np.empty_like(values)
        source = np.ones(_COPIED_BYTES, dtype=np.uint8)
        target = np.zeros_like(source)
    except (ImportError, MemoryError):
        return None

    def compute() -> None:
        for _ in range(_SWEEPS):
            np.multiply(values, values, out=result)
            np.add(result, values, out=result)
            np.sqrt(result, out=result)

    def copy() -> None:
        np.copyto(target, source)

    reading: dict[str, Any] = {"at": time.time()}
    for name, kernel in (("compute", compute), ("copy", copy)):
        kernel()  # memory is touched, caches are filled
        laps = [time.perf_counter_ns()]
        while laps[-1] - laps[0] < _LEAST_NS:
            kernel()
            laps.append(time.perf_counter_ns())
        reading[f"{name}_s"] = float(np.median(np.diff(laps))) / 1e9
    return reading
