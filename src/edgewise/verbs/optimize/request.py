"""The request of ``optimize``."""

from __future__ import annotations

from typing import Literal

from edgewise.run.limits import require_at_least, require_time
from edgewise.verbs.request import FilePath, Number, Texts, Whole
from edgewise.verbs.shared import DataRequest, check_signature


class OptimizeRequest(DataRequest):
    """Find the fastest variant of a model that keeps its accuracy.

    The fields are the arguments of `edgewise.optimize`, but for:

    Attributes:
        folder: its `output`: where variants and the result go; None is ``MODEL-optimized`` in the current folder.
    """

    PATHS = ("model", "also", "data", "instructions", "classes", "folder")

    verb: Literal["optimize"] = "optimize"
    model: FilePath
    signature: str = ""
    also: tuple[FilePath, ...] = ()
    data: FilePath | None = None
    calibrate_on: str | None = None
    calibration_limit: Whole | None = None
    max_latency: Number | None = None
    max_size: Whole | None = None
    max_memory: Whole | None = None
    max_accuracy_drop: str | None = None
    min_accuracy: Number | None = None
    min_snr: Number | None = None
    aim: Literal["latency", "size"] = "latency"
    passes: Texts = ()
    keep_float: Texts = ()
    sensitivity: bool | None = None
    everything: bool = False
    threads: Whole | None = None
    time_budget: Number = 300.0
    fresh: bool = False
    folder: FilePath | None = None

    def check(self) -> None:
        """Reject amounts that no variant can meet, and a signature with a function."""
        super().check()
        check_signature(self.signature, self.model)
        require_at_least(1, threads=self.threads, calibration_limit=self.calibration_limit)
        require_at_least(1, max_size=self.max_size, max_memory=self.max_memory)
        require_time(max_latency=self.max_latency, time_budget=self.time_budget)
