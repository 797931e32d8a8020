"""Requests that judge models on data, and look for better ones."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from edgewise.errors import BadField
from edgewise.record import Scenario, Stopping
from edgewise.run.limits import check_settings, require_at_least, require_time
from edgewise.service.request import FilePath, Number, Texts, Whole
from edgewise.service.requests.shared import LimitedTargetRequest, TargetRequest, check_signature


class JudgingRequest(TargetRequest):
    """How to judge on data: as for `edgewise.evaluate`."""

    task: str | None = None
    split: str | None = None
    limit: Whole | None = None
    strict: bool = False
    data_format: str | None = None
    data_options: dict[str, str] = Field(default_factory=dict)
    task_options: dict[str, str] = Field(default_factory=dict)
    classes: Texts | FilePath = ()
    prepare: Texts = ()
    instructions: FilePath | None = None

    def check(self) -> None:
        """Reject a limit below one."""
        super().check()
        require_at_least(1, limit=self.limit, memory_limit=self.memory_limit)


class DataRequest(JudgingRequest):
    """How to judge on data, and on which engines."""

    seed: Whole = 0
    runtimes: Texts = ()


class EvaluateRequest(LimitedTargetRequest, DataRequest):
    """Measure the accuracy of models on labelled data, or against another model's outputs.

    The fields are the arguments of `edgewise.evaluate`, but for:

    Attributes:
        own_metrics: its `metrics`.
        classes: names of the model's classes, or a file with one name a line.
    """

    PATHS = ("models", "data", "own_metrics", "reference", "instructions", "classes")

    verb: Literal["evaluate"] = "evaluate"
    models: tuple[FilePath, ...] = Field(min_length=1)
    data: FilePath
    own_metrics: Texts = ()
    reference: FilePath | None = None
    providers: Texts = ()
    threads: Whole = 1
    precisions: Texts = ()
    signatures: Texts = ()
    latency: bool = True
    sessions: Whole = 3
    meters: bool = False
    timeout: Number = 120.0
    keep_state: bool = False
    fresh: bool = False

    def check(self) -> None:
        """Reject settings that no engine supports."""
        super().check()
        if self.meters and not self.latency:
            raise BadField("{meters} needs the latency, which is not measured", advice="leave {latency=False} out")
        check_settings(
            threads=(self.threads,),
            batches=(),
            scenario=Scenario(),
            stopping=Stopping(sessions=self.sessions, timeout_s=self.timeout),
            target=self.target(),
            seed=self.seed,
        )


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
