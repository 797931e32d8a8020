"""Utilization of the GPU, from the files of its driver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from edgewise.constraints.hierarchy import ROOT, read_text
from edgewise.registry import Availability
from edgewise.run.meters.base import NoReading, Reading

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


class GpuMeter:
    """The mean share of time in which the first GPU was busy; what other processes did on it is included."""

    name = "gpu"
    title = "GPU utilization"
    metrics: Sequence[str] = ("gpu_utilization",)
    cannot_see = "which process used the GPU"

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._file: tuple[Path, int, str] | None = None
        self._samples: list[float] = []

    def availability(self) -> Availability:
        """Whether a driver shows the utilization, else the files that were looked for."""
        try:
            file = next(self._find(), None)
            if file is not None:
                _share(*file)
                return Availability(True)
        except NoReading as reason:
            return Availability(False, str(reason))
        return Availability(False, "no GPU that shows its load in " + ", ".join(f"/{each}" for each, _, _ in FILES))

    def begin(self) -> None:
        """Start a window with a first sample. Raises `NoReading`."""
        self._file, self._samples = next(self._find(), None), []
        self.sample()

    def sample(self) -> None:
        """Read the utilization once. Raises `NoReading`."""
        if self._file is not None:
            self._samples.append(_share(*self._file))

    def end(self) -> Sequence[Reading]:
        """The mean over the samples of the window, with the smallest and the largest. Raises `NoReading`."""
        self.sample()
        if self._file is None:
            return ()
        low, high = min(self._samples), max(self._samples)
        method = f"{self._file[0]} ({self._file[2]}), mean over samples"
        value = min(max(fmean(self._samples), low), high)
        return (Reading(metric="gpu_utilization", value=value, low=low, high=high, method=method),)

    def _find(self) -> Iterator[tuple[Path, int, str]]:
        for pattern, full, driver in FILES:
            yield from ((file, full, driver) for file in sorted(self._root.glob(pattern)))


def _share(file: Path, full: int, driver: str) -> float:
    """Share of time, 0 to 1: ``23``, ``23 %``, or ``23@800000000Hz``."""
    match = re.match(r"\s*(\d{1,4})\s*(%|@|$)", read_text(file) or "")
    if match is None or int(match[1]) > full:
        raise NoReading(f"{file} ({driver}) holds no load from 0 to {full}")
    return int(match[1]) / full
