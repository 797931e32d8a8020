"""The request of ``profile``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edgewise.errors import BadField
from edgewise.record import Stopping
from edgewise.text import listing
from edgewise.units import parse_duration
from edgewise.verbs import choices
from edgewise.verbs.declared import declared_options, request_of
from edgewise.verbs.estimate.request import EstimateRequest, is_estimated
from edgewise.verbs.fields import Cases, Device, EngineSettings, Models
from edgewise.verbs.option import Values, option, worded
from edgewise.verbs.request import Number, Request, Whole
from edgewise.verbs.shared import ProtocolRequest, check_cases
from edgewise.verbs.shared_options import BUILD, MEASURE, OUTPUTS, REPORTING, TOP, models_or_factory

SESSIONS = 3
"""Fresh processes that time a job, unless their number is given."""


class ProfileRequest(ProtocolRequest):
    """Time every layer of models, and the latency in turns with them.

    Attributes:
        cases: keyword arguments of the factories among the models; each case is a model of every factory.
        set: settings of the engines; where `device` can only be estimated, of the estimator, see `in_effect`.
    """

    OTHER_OPTIONS = (
        BUILD,
        TOP,
        OUTPUTS.worded(
            "Also write .html, .md, .csv, .json, .trace.json (Perfetto), .nodes.json (Model Explorer), .mltk.json, "
            ".svg or .png; of a device that is estimated, the files of 'edgewise estimate'; repeatable"
        ),
        *REPORTING,
    )

    verb: Literal["profile"] = "profile"
    models: Annotated[
        Models, worded(".onnx, .tflite, OpenVINO .xml, .pt2, .pte or .keras files, or FILE.py:FUNCTION.", optional=True)
    ] = Field(min_length=1)
    device: Annotated[
        Device,
        worded(
            "Device to measure on: its name, or a URL such as ssh://USER@HOST; or one to estimate, such as cortex-m33",
            choices=choices.devices,
        ),
    ] = "local"
    set: Annotated[
        EngineSettings,
        worded(
            "Setting of the engine by its own name, such as channels_last=true for torch; or of the estimator; "
            "repeatable"
        ),
    ] = Field(default_factory=dict)
    duration: Annotated[
        Number | None,
        option(
            "--duration 5s",
            MEASURE,
            "Time of inferences with and without the profiler, in turns, per session",
            read=parse_duration,
        ),
    ] = None
    cases: Cases = ({},)
    sessions: Annotated[
        Whole | None,
        option(
            "--sessions N",
            MEASURE,
            f"Number of fresh processes that time latency and layers (default: {SESSIONS})",
            common=True,
        ),
    ] = None

    @property
    def is_prescribed(self) -> bool:
        """Whether the protocol is the user's own: then nothing is added to it."""
        return any(value is not None for value in (self.iterations, self.warmup, self.duration, self.sessions))

    def stopping(self) -> Stopping:
        """As a job has it."""
        return Stopping(
            iterations=self.iterations,
            warmup=self.warmup,
            duration_s=self.duration,
            sessions=SESSIONS if self.sessions is None else self.sessions,
            timeout_s=self.timeout,
        )

    def check(self) -> None:
        """Reject cases without a factory."""
        super().check()
        check_cases(self.cases, self.models)

    def in_effect(self) -> Request:
        """Return an `EstimateRequest` where the device can be estimated and not measured. Raises `BadField`."""
        return self.as_estimate() if is_estimated(self.device) and not self.lab else self

    def as_estimate(self) -> EstimateRequest:
        """Return the same on a device that can only be estimated.

        Raises `BadField` for fields that an estimate lacks.
        """
        found = self.changed_fields()
        models = found.pop("models")
        if len(signatures := found.pop("signatures", ())) > 1:
            raise BadField(
                f"⟦signatures⟧ must be one signature on {self.device}, which is estimated, not {len(signatures)}",
                advice="estimate them one by one",
            )
        if unused := [f"⟦{name}⟧" for name in found if name not in EstimateRequest.model_fields]:
            raise BadField(
                f"{self.device} can only be estimated, and an estimate does not use {listing(unused)}",
                advice=f"leave {listing(unused)} out",
            )
        if len(models) > 1:
            raise BadField(
                f"⟦models⟧ must be one model on {self.device}, which is estimated, not {len(models)}",
                advice="estimate them one by one",
            )
        return EstimateRequest(model=models[0], signature="".join(signatures), **found)


def read(values: Values) -> ProfileRequest:
    """Return the request that the options describe. Raises `BadInput`."""
    models = models_or_factory(values["models"], values["build"])
    return request_of(ProfileRequest, declared_options(ProfileRequest), values, models=models)
