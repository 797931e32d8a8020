"""Energy and utilization of NVIDIA GPUs, from the driver's management library (the package nvidia-ml-py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from statistics import fmean
from typing import Any

from edgewise.registry import Availability
from edgewise.run.meters.base import NoReading, Reading
from edgewise.run.meters.rails import Rail, RailMeter


class NvmlMeter(RailMeter):
    """Each GPU is a part of its own: its counter of energy where it has one (Volta and later), else its power.

    Jetson modules have no NVML of this kind; their rails are read by other meters.
    """

    name = "nvml"
    title = "NVIDIA GPUs"
    metrics: Sequence[str] = ("energy", "gpu_utilization")
    cannot_see = "processor, memory of the host, board, and which process used the GPU"

    def __init__(
        self,
        library: Callable[[], Any] = partial(import_module, "pynvml"),
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock=clock)
        self._import = library
        self._library: Any = None
        self._busy: dict[str, list[float]] = {}

    def availability(self) -> Availability:
        """Whether the driver answers and a GPU tells its energy or power, else what is missing."""
        try:
            self._open()
        except ImportError:
            return Availability(False, "the package nvidia-ml-py is not installed", "pip install 'edgewise[nvml]'")
        except NoReading as reason:
            return Availability(False, str(reason))
        return super().availability()

    def find_rails(self) -> Sequence[Rail]:
        """A rail for each GPU with a counter of energy, or with power. Raises `NoReading` where the driver fails."""
        try:
            library = self._open()
        except ImportError:
            return ()
        rails = []
        for index, device in enumerate(self._devices()):
            counts = self._ask(library.nvmlDeviceGetTotalEnergyConsumption, device) is not None
            call = library.nvmlDeviceGetTotalEnergyConsumption if counts else library.nvmlDeviceGetPowerUsage
            if self._ask(call, device) is None:
                continue
            method = f"NVML of GPU {index}, {self._title(device)}: {'total energy' if counts else 'power usage'}"
            read = partial(self._milli, call, device)
            part = f"GPU {index}"
            rails.append(Rail(read=read, method=method, part=part, covers="accelerator", counts=counts))
        return rails

    def absence(self) -> str:
        """No GPU tells its energy."""
        return "NVML: no GPU here tells its energy or its power"

    def begin(self) -> None:
        """Start a window. Raises `NoReading`."""
        self._busy = {}
        super().begin()

    def sample(self) -> None:
        """Read energy or power, and the utilization, of every GPU once."""
        super().sample()
        if self._windows:
            for index, device in enumerate(self._devices()):
                rates = self._ask(self._library.nvmlDeviceGetUtilizationRates, device)
                if rates is not None:
                    self._busy.setdefault(f"GPU {index}", []).append(rates.gpu / 100)

    def end(self) -> Sequence[Reading]:
        """Energy and mean utilization of every GPU. Raises `NoReading` where no GPU has an energy."""
        readings = list(super().end())
        for part, shares in self._busy.items():
            low, high = min(shares), max(shares)
            value, method = min(max(fmean(shares), low), high), f"NVML of {part}, mean over samples"
            readings.append(
                Reading(metric="gpu_utilization", value=value, low=low, high=high, method=method, part=part)
            )
        return readings

    def _open(self) -> Any:
        """The library, initialised once. Raises ImportError, or `NoReading` where the driver does not answer."""
        if self._library is None:
            library = self._import()
            try:
                library.nvmlInit()
            except library.NVMLError as error:
                raise NoReading(f"NVML of the NVIDIA driver does not answer: {error}") from error
            self._library = library
        return self._library

    def _devices(self) -> list[Any]:
        library = self._library
        try:
            return [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]
        except library.NVMLError as error:
            raise NoReading(f"NVML lists no GPU: {error}") from error

    def _ask(self, call: Callable[[Any], Any], device: Any) -> Any:
        """What the library returns; None where this GPU or this driver does not support the call."""
        try:
            return call(device)
        except self._library.NVMLError:
            return None

    def _title(self, device: Any) -> str:
        name = self._ask(self._library.nvmlDeviceGetName, device)
        return name.decode(errors="replace") if isinstance(name, bytes) else str(name or "name not known")

    def _milli(self, call: Callable[[Any], Any], device: Any) -> float:
        """J or W; NVML gives mJ and mW. Raises `NoReading`."""
        try:
            return float(call(device)) / 1000
        except self._library.NVMLError as error:
            raise NoReading(f"NVML: {error}") from error
