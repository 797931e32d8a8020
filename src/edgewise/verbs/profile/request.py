"""The request of ``profile``."""

from __future__ import annotations

from typing import Literal

from edgewise.errors import BadField
from edgewise.record import Stopping
from edgewise.text import listing
from edgewise.verbs.estimate.request import EstimateRequest, is_estimated
from edgewise.verbs.request import Case, Request, Whole
from edgewise.verbs.shared import ProtocolRequest, check_cases


class ProfileRequest(ProtocolRequest):
    """Time every layer of models, and the latency in turns with them.

    Attributes:
        cases: keyword arguments of the factories among the models; each case is a model of every factory.
        sessions: fresh processes that measure the latency and time layers.
        set: settings of the engines; where `device` can only be estimated, of the estimator, see `in_effect`.
    """

    verb: Literal["profile"] = "profile"
    cases: tuple[Case, ...] = ({},)
    sessions: Whole = 3

    def stopping(self) -> Stopping:
        """As a job has it."""
        return Stopping(
            iterations=self.iterations,
            warmup=self.warmup,
            duration_s=self.duration,
            sessions=self.sessions,
            timeout_s=self.timeout,
        )

    def check(self) -> None:
        """Reject cases without a factory."""
        super().check()
        check_cases(self.cases, self.models)

    def in_effect(self) -> Request:
        """An `EstimateRequest` where the device can be estimated and not measured. Raises `BadField`."""
        return self.as_estimate() if is_estimated(self.device) else self

    def as_estimate(self) -> EstimateRequest:
        """The same on a device that can only be estimated. Raises `BadField` for fields that an estimate lacks."""
        found = self.changed_fields()
        models = found.pop("models")
        if len(signatures := found.pop("signatures", ())) > 1:
            raise BadField(
                f"{{signatures}} must be one signature on {self.device}, which is estimated, not {len(signatures)}",
                advice="estimate them one by one",
            )
        if unused := [f"{{{name}}}" for name in found if name not in EstimateRequest.model_fields]:
            raise BadField(
                f"{self.device} can only be estimated, and an estimate does not use {listing(unused)}",
                advice=f"leave {listing(unused)} out",
            )
        if len(models) > 1:
            raise BadField(
                f"{{models}} must be one model on {self.device}, which is estimated, not {len(models)}",
                advice="estimate them one by one",
            )
        return EstimateRequest(model=models[0], signature="".join(signatures), **found)
