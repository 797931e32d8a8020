"""The request of ``bench``."""

from __future__ import annotations

from typing import Literal, Self

from edgewise.errors import BadField
from edgewise.record import Scenario, Stopping
from edgewise.record.job import LoadKind, ScenarioKind
from edgewise.text import listing
from edgewise.verbs.request import Number, Whole
from edgewise.verbs.shared import COLD_STARTS, SPREAD_SESSIONS, UNUSED, ProtocolRequest


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
