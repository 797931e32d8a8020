"""Utilisation of the GPU, from the files of its driver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from edgewise.constraints.hierarchy import read_text
from edgewise.run.meters.base import NoReading
from edgewise.run.meters.rails import Rail, RailMeter
from edgewise.run.meters.trace import MeanShare

FILES = (
    ("sys/class/drm/card*/device/gpu_busy_percent", 100, "amdgpu"),
    ("sys/devices/gpu.0/load", 1000, "Jetson"),
    ("sys/devices/platform/gpu.0/load", 1000, "Jetson"),
    ("sys/devices/platform/bus@0/*.gpu/load", 1000, "Jetson"),
    ("sys/class/kgsl/kgsl-3d0/gpu_busy_percentage", 100, "Adreno"),
    ("sys/class/misc/mali0/device/utilization", 100, "Mali"),
    ("sys/class/devfreq/*gpu*/load", 100, "devfreq"),
)
"""Pattern of files, the number in them that means always busy, and the driver."""


class GpuMeter(RailMeter):
    """The mean share of time in which the first GPU was busy; what other processes did on it is included."""

    name = "gpu"
    title = "GPU utilisation"
    metrics: Sequence[str] = ("gpu_utilization",)
    cannot_see = "which process used the GPU"

    def find_rails(self) -> Sequence[Rail]:
        """Return the first GPU whose driver shows its load."""
        for pattern, full, driver in FILES:
            for file in sorted(self._root.glob(pattern)):
                return [Rail(read=partial(_share, file, full), method=f"{file} ({driver})", window=MeanShare)]
        return ()

    def absence(self) -> str:
        """Return the files that were looked for."""
        return "no GPU that shows its load in " + ", ".join(f"/{pattern}" for pattern, _, _ in FILES)


def _share(file: Path, full: int) -> float:
    """Share of time, 0 to 1: ``23``, ``23 %``, or ``23@800000000Hz``."""
    match = re.match(r"\s*(\d{1,4})\s*(%|@|$)", read_text(file) or "")
    if match is None or int(match[1]) > full:
        raise NoReading(f"{file} holds no load from 0 to {full}")
    return int(match[1]) / full
