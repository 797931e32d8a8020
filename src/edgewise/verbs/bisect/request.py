"""The request of ``bisect``."""

from __future__ import annotations

from typing import Annotated, Literal

from edgewise.device.devices import transport_of
from edgewise.device.environments import ENGINES
from edgewise.errors import BadField
from edgewise.record import TargetSpec
from edgewise.run.limits import require_at_least, require_time
from edgewise.units import parse_duration
from edgewise.verbs.fields import Device
from edgewise.verbs.option import argument, option
from edgewise.verbs.request import FilePath, Number, Request, Whole
from edgewise.verbs.shared_options import MEASURE, OUTPUT, VARY


class BisectRequest(Request):
    """Find the release of an engine that made a model slower or larger, or changed its outputs.

    Attributes:
        engine: the package whose releases are searched.
        good, bad: releases before and after the change.
        on: what is compared.
        device: its name or URL; ``local`` is this machine.
        time_budget: s, of each comparison.
        most_probes: of comparisons after that of `bad` with `good`.
        subgraph: file for the smallest part of an ONNX model that still is slower, with random weights.
        profile: whether the operators of the two neighbouring releases are profiled at the end.
    """

    PATHS = ("model", "subgraph")

    verb: Literal["bisect"] = "bisect"
    model: Annotated[FilePath, argument("model", "A model file.", str, metavar="MODEL")]
    engine: Annotated[
        str,
        option(
            "--engine NAME", VARY, "Package of the engine, such as onnxruntime", choices=tuple(ENGINES), common=True
        ),
    ] = "onnxruntime"
    good: Annotated[str, option("--good VERSION", VARY, "A release before the change")]
    bad: Annotated[str, option("--bad VERSION", VARY, "A release after the change")]
    on: Annotated[
        Literal["latency", "memory", "output"],
        option("--on METRIC", VARY, "What is compared: latency, memory or output", common=True),
    ] = "latency"
    device: Device = "local"
    threads: Annotated[Whole, option("-t --threads N", VARY, "Number of inference threads", int, common=True)] = 1
    time_budget: Annotated[
        Number, option("--time-budget T", MEASURE, "Time limit of each comparison", read=parse_duration, common=True)
    ] = 60.0
    most_probes: Annotated[
        Whole, option("--most-probes N", MEASURE, "Most releases to measure between the two", int)
    ] = 24
    profile: Annotated[
        bool, option("--profile/--no-profile", MEASURE, "Profile the operators of both neighbours", bool)
    ] = True

    subgraph: Annotated[
        FilePath | None,
        option("--subgraph FILE", OUTPUT, "File for the part of an ONNX model that is slower, with random weights"),
    ] = None

    def check(self) -> None:
        """Reject amounts that mean nothing, and engines whose versions are not known."""
        require_at_least(1, threads=self.threads, most_probes=self.most_probes)
        require_time(time_budget=self.time_budget)
        if not ENGINES.get(self.engine):
            known = ", ".join(name for name, runtime in ENGINES.items() if runtime)
            raise BadField(f"⟦engine⟧ {self.engine!r} is not known", advice=f"one of: {known}")
        if self.subgraph and (self.on != "latency" or not self.profile):
            raise BadField(
                "⟦subgraph⟧ needs the profiles of a search by latency", advice="leave out ⟦on⟧ and ⟦profile=False⟧"
            )
        if self.good == self.bad:
            raise BadField("⟦good⟧ and ⟦bad⟧ are the same release", advice="name two releases")

    def target(self) -> TargetSpec:
        """As a job has it."""
        return TargetSpec(device=self.device, transport=transport_of(self.device))
