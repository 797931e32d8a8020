"""Requests that measure models, or look at one."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from edgewise.errors import BadField
from edgewise.record import Scenario, Stopping
from edgewise.record.job import LoadKind, ScenarioKind
from edgewise.service.request import Case, FilePath, Number, Request, Shapes, Whole
from edgewise.service.requests.estimating import EstimateRequest, is_estimated
from edgewise.service.requests.shared import (
    COLD_STARTS,
    SPREAD_SESSIONS,
    UNUSED,
    ProtocolRequest,
    check_cases,
    check_signature,
)
from edgewise.text import listing


class BenchRequest(ProtocolRequest):
    """Measure models on every runtime, side by side. The fields are the arguments of `edgewise.bench`.

    Attributes:
        device: several are parted by commas.
    """

    verb: Literal["bench"] = "bench"
    scenario: ScenarioKind = "single-stream"
    fps: Number | None = None
    streams: Whole | None = None
    requests: Whole | None = None
    sessions: Whole | None = None
    spread: Number | None = None
    report_every: Whole | None = None
    sustained: Number | None = None
    duty_cycle: Number | None = None
    drop_cache: bool = False
    background_load: Whole | None = None
    background_kind: LoadKind | None = None
    meters: bool = True

    def on_each_device(self) -> tuple[Self, ...]:
        """The same on one device each."""
        names = dict.fromkeys(name.strip() for name in self.device.split(",") if name.strip())
        return tuple(self.model_copy(update={"device": name}) for name in names) or (self,)

    def scenario_spec(self) -> Scenario:
        """As a job has it."""
        return Scenario(
            kind=self.scenario,
            fps=self.fps,
            streams=self.streams,
            requests=self.requests,
            sustained_s=self.sustained,
            duty_cycle=self.duty_cycle,
            drop_cache=self.drop_cache,
            background_load=self.background_load,
            background_kind=self.background_kind or ("compute" if self.background_load else None),
        )

    @property
    def is_prescribed(self) -> bool:
        """Whether the protocol is the user's own: then nothing is added to it."""
        given = (self.iterations, self.warmup, self.duration, self.sustained, self.sessions, self.spread)
        return any(value is not None for value in given) or self.scenario == "cold-start"

    def stopping(self) -> Stopping:
        """As a job has it."""
        given = (self.iterations, self.warmup, self.duration, self.sustained)
        prescribed = any(value is not None for value in given)
        usual = SPREAD_SESSIONS if self.spread is not None else 1 if prescribed else Stopping().sessions
        if self.scenario == "cold-start":
            usual = COLD_STARTS
        return Stopping(
            iterations=self.iterations,
            warmup=self.warmup,
            duration_s=self.duration,
            sessions=usual if self.sessions is None else self.sessions,
            spread_s=self.spread,
            report_every=self.report_every,
            timeout_s=self.timeout,
        )

    def check(self) -> None:
        """Reject settings that no engine supports, and settings that a sustained measurement has no use for."""
        super().check()
        unused: tuple[str, ...] = ()
        why = ""
        if self.sustained is not None:
            unused, why = (*UNUSED, "sessions", "spread"), "{sustained} measures in one process for a given time"
        elif self.scenario == "cold-start":
            unused, why = UNUSED, "the scenario cold-start runs one inference per process"
        if given := [f"{{{name}}}" for name in unused if getattr(self, name) is not None]:
            raise BadField(f"{why}; it excludes {listing(given)}", advice=f"leave {listing(given)} out")


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


class InspectRequest(Request):
    """Count what a model costs, without timing it.

    Attributes:
        model: a file or folder; ``file.py:function`` and ``module:function`` are called to make one.
        cases: keyword arguments of the factory, one model each.
        shapes: input name → shape, for inputs with open dimensions.
        signature: name of the entry point of a file that has several; "" is its default.
        hash_weights: read weight files too, for the model's hash.
        sparsity: read all weights, count their zeros and find patterns of them.
    """

    PATHS = ("model",)

    verb: Literal["inspect"] = "inspect"
    model: FilePath
    cases: tuple[Case, ...] = ({},)
    shapes: Shapes = Field(default_factory=dict)
    signature: str = ""
    hash_weights: bool = False
    sparsity: bool = False

    def check(self) -> None:
        """Reject cases without a factory, and counting zeros without a model file."""
        from edgewise.model.callable_loader import is_factory

        check_cases(self.cases, (self.model,))
        check_signature(self.signature, self.model)
        if self.sparsity and is_factory(self.model):
            raise BadField(
                "{sparsity} needs a model file, not a function",
                advice="write a file with 'edgewise convert FILE.py:FUNCTION --to onnx', then inspect the file",
            )
