"""What is asked for: Model × Runtime × Target × Workload, as frozen, hashable, JSON-shaped data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

ScenarioKind = Literal["single-stream", "offline", "paced"]
Interleave = Literal["turns", "duet", "rounds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """A model file's identity.

    Attributes:
        name: the file's name without folders.
        path: absolute path on the machine that asked.
        format: ``onnx``, ``tflite``, ``openvino`` …, found from the content.
        sha256: over the model file and, in order, its weight files.
        size_bytes: of all those files together.
    """

    name: str
    path: str
    format: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSpec:
    """An engine and the settings asked of it; what came into force is in the run's `effective`.

    Attributes:
        threads: inference threads asked for; None leaves the engine's own default.
        precision: execution precision asked for (``f32``, ``bf16``, ``f16``); None is edgewise's like-for-like default.
        options: further engine settings by their own names.
    """

    name: str
    version: str | None = None
    provider: str | None = None
    threads: int | None = None
    precision: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """Where the job runs and what it may use there."""

    device: str = "local"
    transport: str = "local"
    memory_limit_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """How inferences follow one another.

    Attributes:
        kind: ``single-stream`` (back to back), ``offline`` (as many at once as it takes), ``paced`` (scheduled).
        fps: paced: arrivals per second.
        streams: offline: parallel execution streams; None is the engine's choice.
        requests: offline: requests in flight; None is the engine's choice.
    """

    kind: ScenarioKind = "single-stream"
    fps: float | None = None
    streams: int | None = None
    requests: int | None = None

    @property
    def headline(self) -> str:
        """The metric that a run of this scenario is about."""
        return _HEADLINES[self.kind]


_HEADLINES: dict[ScenarioKind, str] = {
    "single-stream": "latency",
    "paced": "latency_paced",
    "offline": "throughput",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """When a session has measured enough. None leaves the choice to the data.

    Attributes:
        iterations: exactly this many timed inferences per session.
        warmup: exactly this many untimed inferences first.
        duration_s: measure for this long per session.
        sessions: fresh processes.
        relative_half_width: stop once the median's 95 % interval is within ± this share.
        min_s: never stop on precision before this long.
        max_s: the time budget of one session's steady phase.
        timeout_s: how long a worker may give no sign of life; past it the worker is killed.
        spread_s: lay the starts of the sessions apart, evenly over this time; None runs them one after the other.
        report_every: a progress line with the running average every so many iterations.
    """

    iterations: int | None = None
    warmup: int | None = None
    duration_s: float | None = None
    sessions: int = 5
    relative_half_width: float = 0.01
    min_s: float = 0.25
    max_s: float = 0.5
    timeout_s: float = 120.0
    spread_s: float | None = None
    report_every: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One input as it is fed.

    Attributes:
        shape: concrete.
        dtype: numpy's name.
        note: what was assumed or converted.
        value: of all its elements, where random ones would make no sense (a sample rate).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    note: str = ""
    value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Inputs, scenario and stopping rule.

    Attributes:
        inputs: in the model's own order.
        input_data: sha256 of the ``.npz`` that was given, or None where inputs are random from `seed`.
        input_path: where that file is.
        profile: whether layers are timed too, in processes of their own.
        interleave: how the runs of a group shared the machine: ``turns`` (one at a time, in random order, again and
            again), ``duet`` (all at once, pinned to cores of their own), ``rounds`` (one process of each after the
            other, in random order), or None: a run is finished before the next begins. But for None, session `i` of
            one run belongs to session `i` of the others.
    """

    scenario: Scenario = field(default_factory=Scenario)
    batch: int = 1
    inputs: tuple[InputSpec, ...] = ()
    seed: int = 0
    input_data: str | None = None
    input_path: str | None = None
    profile: bool = False
    interleave: Interleave | None = None
    stopping: Stopping = field(default_factory=Stopping)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One cell of a plan."""

    model: ModelRef
    runtime: RuntimeSpec
    target: TargetSpec = field(default_factory=TargetSpec)
    workload: Workload = field(default_factory=Workload)

    @property
    def key(self) -> str:
        """16 hex digits that name this job: equal jobs have equal keys, wherever the files lie."""
        document = asdict(self)
        del document["model"]["path"]
        del document["workload"]["input_path"]
        if not self.workload.profile:  # jobs of before there were these keep their keys
            del document["workload"]["profile"]
        if self.workload.interleave is None:
            del document["workload"]["interleave"]
        if self.workload.stopping.spread_s is None:
            del document["workload"]["stopping"]["spread_s"]
        for spec in document["workload"]["inputs"]:
            if spec["value"] is None:
                del spec["value"]
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), default=list)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """A short name for progress lines: ``model · runtime/provider · settings``."""
        runtime = self.runtime
        words = [runtime.name + (f"/{runtime.provider}" if runtime.provider else "")]
        words += [f"{runtime.threads}T"] if runtime.threads else []
        words += [f"batch {self.workload.batch}"] if self.workload.batch != 1 else []
        words += [runtime.precision] if runtime.precision else []
        words += [self.workload.scenario.kind] if self.workload.scenario.kind != "single-stream" else []
        return f"{self.model.name} · {' '.join(words)}"
