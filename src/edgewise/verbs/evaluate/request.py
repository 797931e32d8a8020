"""The request of ``evaluate``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from edgewise.errors import BadField
from edgewise.record import Scenario, Stopping
from edgewise.run.limits import check_settings
from edgewise.verbs.request import FilePath, Number, Texts, Whole
from edgewise.verbs.shared import DataRequest, LimitedTargetRequest


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
