"""Energy and utilisation of NVIDIA GPUs, from the driver's management library (the package nvidia-ml-py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from edgewise.registry import Availability
from edgewise.run.meters.base import NoReading
from edgewise.run.meters.rails import Rail, RailMeter
from edgewise.run.meters.trace import EnergyCounter, MeanShare, PowerTrace, Window

_Way = tuple[Callable[[Any], Any], str, Window]
"""A call of the library for a device, which gives mJ, mW or tenths of a percent; words; what becomes of the samples."""


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
        """Energy or power, and utilisation, of each GPU. Raises `NoReading` where the driver fails."""
        try:
            library = self._open()
        except ImportError:
            return ()
        energy: _Way = (library.nvmlDeviceGetTotalEnergyConsumption, "total energy", EnergyCounter)
        power: _Way = (library.nvmlDeviceGetPowerUsage, "power usage", PowerTrace)
        load: _Way = (lambda device: library.nvmlDeviceGetUtilizationRates(device).gpu * 10, "utilisation", MeanShare)
        rails = []
        for index, device in enumerate(self._devices()):
            for call, words, window in (power if self._ask(energy[0], device) is None else energy, load):
                if self._ask(call, device) is not None:
                    method = f"NVML of GPU {index}, {self._title(device)}: {words}"
                    read, part = partial(self._number, call, device), f"GPU {index}"
                    rails.append(Rail(read=read, method=method, part=part, covers="accelerator", window=window))
        return rails

    def absence(self) -> str:
        """No GPU tells its energy."""
        return "NVML: no GPU here tells its energy or its power"

    def _open(self) -> Any:
        """Return the library, initialised once. Raises ImportError, or `NoReading` where the driver does not answer."""
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
        """Return what the library returns; None where this GPU or this driver does not support the call."""
        try:
            return call(device)
        except self._library.NVMLError:
            return None

    def _title(self, device: Any) -> str:
        name = self._ask(self._library.nvmlDeviceGetName, device)
        return name.decode(errors="replace") if isinstance(name, bytes) else str(name or "name not known")

    def _number(self, call: Callable[[Any], Any], device: Any) -> float:
        """Return what a call returns in thousandths, over 1000: J, W or a share. Raises `NoReading`."""
        try:
            return float(call(device)) / 1000
        except self._library.NVMLError as error:
            raise NoReading(f"NVML: {error}") from error
