"""The request of ``bench``."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Literal, Self

from edgewise.errors import BadField
from edgewise.record import Scenario, Stopping
from edgewise.record.job import LoadKind, ScenarioKind
from edgewise.run.limits import check_generation, require_time
from edgewise.text import listing
from edgewise.units import parse_duration
from edgewise.verbs import words
from edgewise.verbs.fields import Device, Fps, NewTokens, Threads
from edgewise.verbs.option import option, worded
from edgewise.verbs.request import Number, Whole
from edgewise.verbs.shared import COLD_STARTS, SPREAD_SESSIONS, UNUSED, ProtocolRequest, with_usual_tokens
from edgewise.verbs.shared_options import MEASURE, VARY

if TYPE_CHECKING:
    from edgewise.run.plan import Axes


class BenchRequest(ProtocolRequest):
    """Measure models on every runtime, side by side. The fields are the arguments of `edgewise.bench`.

    Attributes:
        device: several are parted by commas.
    """

    verb: Literal["bench"] = "bench"
    device: Annotated[
        Device,
        worded(
            "Devices to measure on, one after the other: names, or URLs such as ssh://USER@HOST",
            kind=list[str],
            read=lambda names: ",".join(words.words(names)),
        ),
    ] = "local"
    threads: Annotated[Threads, worded("Thread counts (default: 1; offline: all usable cores)")] = ()
    scenario: Annotated[
        ScenarioKind,
        option("--scenario KIND", MEASURE, "single-stream, offline, paced, cold-start or generate", common=True),
    ] = "single-stream"
    prompt_tokens: Annotated[
        tuple[Whole, ...],
        option("--prompt-tokens 128,512", VARY, "Tokens of the prompt in the scenario generate (default: 128)"),
    ] = ()
    new_tokens: NewTokens = None
    depth: Annotated[
        tuple[Whole, ...],
        option(
            "--depth 0,4096", VARY, "Tokens in the KV cache before the prompt, in the scenario generate (default: 0)"
        ),
    ] = ()
    fps: Fps = None
    streams: Annotated[
        Whole | None, option("--streams N", MEASURE, "Number of parallel streams in the scenario offline")
    ] = None
    requests: Annotated[
        Whole | None, option("--requests N", MEASURE, "Number of requests in flight in the scenario offline")
    ] = None
    sessions: Annotated[
        Whole | None,
        option(
            "--sessions N",
            MEASURE,
            "Number of fresh processes (default: 5; 1 with --iterations, --warmup or --duration)",
            common=True,
        ),
    ] = None
    time_budget: Annotated[
        Number | None,
        option(
            "--time-budget T",
            MEASURE,
            "Time for all sessions and turns; every job gets two sessions, also where that takes longer; of several "
            "jobs the sessions leave 40 % of it for turns, which decide the order",
            read=parse_duration,
            common=True,
        ),
    ] = None
    spread: Annotated[
        Number | None,
        option(
            "--spread 10min",
            MEASURE,
            "Spread the session starts over this time (10 unless --sessions is given), so that the interval includes "
            "the variation of the machine's speed",
            read=parse_duration,
        ),
    ] = None
    report_every: Annotated[
        Whole | None, option("--report-every N", MEASURE, "Print the running average every N inferences")
    ] = None
    sustained: Annotated[
        Number | None,
        option(
            "--sustained 30min",
            MEASURE,
            "Run inferences without a break for this time in one process; show latency, clock and temperature over "
            "time",
            read=parse_duration,
        ),
    ] = None
    duty_cycle: Annotated[
        Number | None,
        option(
            "--duty-cycle 20%",
            MEASURE,
            "Share of the time in which inferences run, with rests in between: simulates a power limit",
            read=words.share,
        ),
    ] = None
    drop_cache: Annotated[
        bool,
        option(
            "--drop-cache",
            MEASURE,
            "Drop the model's files from the file cache before each start in the scenario cold-start",
        ),
    ] = False
    background_load: Annotated[
        Whole | None, option("--background-load N", MEASURE, "Number of busy processes beside the model")
    ] = None
    background_kind: Annotated[
        LoadKind | None,
        option(
            "--background-kind KIND", MEASURE, "Work of the background processes: compute or memory (default: compute)"
        ),
    ] = None
    meters: Annotated[bool, option("--meters/--no-meters", MEASURE, "Read sensors where there are any")] = True

    def on_each_device(self) -> tuple[Self, ...]:
        """Return the same on one device each."""
        names = dict.fromkeys(name.strip() for name in self.device.split(",") if name.strip())
        each = self.time_budget and self.time_budget / max(1, len(names))
        return tuple(self.model_copy(update={"device": name, "time_budget": each}) for name in names) or (self,)

    def axes(self) -> Axes:
        """Return what is varied, lengths of prompts and depths among it."""
        return replace(super().axes(), prompt_tokens=self.prompt_tokens, depths=self.depth)

    def scenario_spec(self) -> Scenario:
        """As a job has it, of the least prompt and depth where there are several."""
        scenario = Scenario(
            kind=self.scenario,
            prompt_tokens=min(self.prompt_tokens, default=None),
            new_tokens=self.new_tokens,
            depth=min(self.depth, default=None),
            fps=self.fps,
            streams=self.streams,
            requests=self.requests,
            sustained_s=self.sustained,
            duty_cycle=self.duty_cycle,
            drop_cache=self.drop_cache,
            background_load=self.background_load,
            background_kind=self.background_kind or ("compute" if self.background_load else None),
        )
        return with_usual_tokens(scenario, from_file=self.input_data is not None)

    @property
    def is_prescribed(self) -> bool:
        """Whether the protocol is the user's own: then nothing is added to it."""
        given = (self.iterations, self.warmup, self.duration, self.sustained)
        more = (self.sessions, self.spread)
        return any(value is not None for value in (*given, *more)) or self.scenario == "cold-start"

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
        require_time(time_budget=self.time_budget)
        for tokens, depth in product(self.prompt_tokens, self.depth):  # as the plan has them
            check_generation(replace(self.scenario_spec(), prompt_tokens=tokens, depth=depth), self.batches)
        unused: tuple[str, ...] = ()
        why = ""
        if self.sustained is not None:
            unused, why = (
                (*UNUSED, "sessions", "spread", "time_budget"),
                "⟦sustained⟧ measures in one process for a given time",
            )
        elif self.scenario == "cold-start":
            unused, why = UNUSED, "the scenario cold-start runs one inference per process"
        elif self.spread is not None:
            unused, why = ("time_budget",), "⟦spread⟧ says when each session begins"
        if given := [f"⟦{name}⟧" for name in unused if getattr(self, name) is not None]:
            raise BadField(f"{why}; it excludes {listing(given)}", advice=f"leave {listing(given)} out")
