"""Profiles: layers with their times, the rest of the latency, and findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

LayerKind = Literal["operator", "overhead", "eliminated", "unmatched"]
Bound = Literal["compute", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTensor:
    """An input or output of a layer. An open dimension is its name or None; a shape of unknown rank is None."""

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: str


ESTIMATED_SHARE = "estimated_share_of_cost"
"""Attribute of a row without a time: its share of the network's cost, as the engine's planner estimates it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One row of a profile: operators of the model that the engine executes together, or an overhead of the engine.

    Attributes:
        index: position in the order of execution, from 0.
        name, op: name and type of the most expensive operator in `nodes`. `op` is the engine's type if the engine fused
            the operators into one (``SkipLayerNormalization``). For an overhead: the engine's name and type of it.
        label: more readable name, from `edgewise.model.graph.Operator`; "" if there is none.
        kind: ``operator``; ``overhead`` (work outside the model: layout changes, copies, conversions, dispatch);
            ``eliminated`` (the engine provably does not execute the operator, so it has no time);
            ``unmatched`` (no step of the engine is known for the operator; its time is in another row or unattributed).
        nodes: names of the model's operators in this row, in the model's order.
        operators: their indices in the model's graph.
        engine_nodes: the engine's names of the steps that execute the row.
        engine_op: kernels of those steps, each once.
        time, low, high: time per inference with its 95 % interval, s; None with the reason in `time_absent_because`.
        share: share of the end-to-end latency.
        start: begin of the row after the first step of a profiled inference, s; for drawings.
        macs, ops, parameters, weight_bytes, activation_bytes: sums over the operators; None if one is unknown.
        intensity: ops per byte of weights and activations.
        dtype: type of the arithmetic; None if neither the engine nor the model gives it.
        provider: provider that executed the row; None if the engine does not report it.
        supported: whether the requested accelerated provider executes the row; None if none was requested.
        error: the reason if it does not.
        ops_per_second: operations per second reached.
        roof: operations per second that the machine's peaks allow at this intensity.
        roof_share: `ops_per_second` divided by `roof`.
        bound: the peak that limits the row.
    """

    index: int
    name: str
    op: str
    kind: LayerKind = "operator"
    nodes: tuple[str, ...] = ()
    operators: tuple[int, ...] = ()
    engine_nodes: tuple[str, ...] = ()
    engine_op: str = ""
    time: float | None = None
    low: float | None = None
    high: float | None = None
    time_absent_because: str | None = None
    share: float | None = None
    start: float | None = None
    macs: int | None = None
    ops: int | None = None
    parameters: int | None = None
    weight_bytes: int | None = None
    activation_bytes: int | None = None
    intensity: float | None = None
    cost_unknown_because: str = ""
    dtype: str | None = None
    provider: str | None = None
    inputs: tuple[LayerTensor, ...] = ()
    outputs: tuple[LayerTensor, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    supported: bool | None = None
    error: str | None = None
    ops_per_second: float | None = None
    roof: float | None = None
    roof_share: float | None = None
    bound: Bound | None = None
    label: str = ""

    def __post_init__(self) -> None:
        """Drop the rates of a layer whose time is an upper bound: records of earlier versions have them."""
        if self.is_bounded:
            for name in ("ops_per_second", "roof", "roof_share", "bound"):
                object.__setattr__(self, name, None)

    @property
    def title(self) -> str:
        """The name to print: `label`, otherwise `name`."""
        return self.label or self.name

    @property
    def is_bounded(self) -> bool:
        """Whether the interval of its time reaches down to 0: then only the upper end says anything."""
        return self.time is not None and self.low == 0.0 and bool(self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something in a profile that costs time, with its evidence.

    Attributes:
        code: key of the catalogue `edgewise.profiling.findings.FINDINGS`.
        message: the observation, with its numbers.
        suggestion: what the user can do.
        saving: upper bound of the time saved per inference, s; where `low` is not None, what was saved when the
            suggestion was tried: its share, measured in turns, of the profile's latency.
        low, high: 95 % interval of such a saving by that of its share, s; None for an upper bound.
        layers: indices of the layers concerned.
        evidence: name → number behind the message, SI units.
        method: how `saving` was computed.
        once: `saving` is won once, at the start, not with every inference.
    """

    code: str
    message: str
    suggestion: str
    saving: float
    layers: tuple[int, ...] = ()
    evidence: dict[str, float] = field(default_factory=dict)
    method: str = ""
    once: bool = False
    low: float | None = None
    high: float | None = None

    @property
    def is_refuted(self) -> bool:
        """Whether the suggestion was tried and no saving is proven."""
        return self.low is not None and self.low <= 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The highest rate that a microbenchmark reached on a machine.

    Attributes:
        kind: ``compute`` (ops/s of a data type) or ``bandwidth`` (B/s).
        dtype: type of the arithmetic; None for bandwidth.
        threads: number of threads used.
        size_bytes: bandwidth: size of the buffers copied repeatedly; smaller ones stay in faster caches.
        value: rate of the fastest tenth of the repetitions, ops/s or B/s.
        low, high: rate of their median, and of the fastest repetition.
        method: which microbenchmark, on which library.
        measured_at: when this rate was measured, ISO 8601, UTC.
        times_measured: number of measurements on this machine so far, of which the highest counts.
        since: when the first of them took place, ISO 8601, UTC; "" in records of older versions.
        load: share of the usable cores' time that other processes and virtual machines used during the quietest
            measurement; None if not known.
    """

    kind: Literal["compute", "bandwidth"]
    dtype: str | None = None
    threads: int
    size_bytes: int | None = None
    value: float
    low: float | None = None
    high: float | None = None
    method: str = ""
    measured_at: str = ""
    times_measured: int = 1
    since: str = ""
    load: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How the layers of a run add up to its latency.

    Attributes:
        method: how the engine timed its layers.
        sessions, inferences: number of processes, and of profiled inferences in all of them.
        latency: end-to-end latency without profiling, s: the whole that layers should add up to; the latency of the
            run. (In runs of older versions, a mean of inferences between the profiled ones.)
        operators_time: time in layers of kind ``operator``, s; `operators_low`, `operators_high` are its interval.
        overheads_time: time in named overheads, s.
        conservation: (operators + overheads) / latency.
        attributed: share of the latency in operators or named overheads, at most 1.
        unattributed: time in neither, s; negative if the parts exceed the whole.
        profiled_latency: end-to-end latency with profiling, s.
        profiler_time: time that the profiler added to the steps of an inference and that was subtracted from the
            layers' times, s.
        peaks: peaks of this machine for the roofline; `peaks_absent_because` is the reason why one is missing.
        inputs, outputs: inputs and outputs of the model, with the shapes that ran.
        memory: memory of the activations (`edgewise.model.memory_plan`): totals, and live bytes by operator; None with
            the reason in `memory_absent_because`.
        findings: findings, the largest saving first.
        notes: properties of this engine's timing that a reader should know.
    """

    method: str
    sessions: int
    inferences: int
    latency: float
    operators_time: float
    operators_low: float | None = None
    operators_high: float | None = None
    overheads_time: float
    conservation: float
    attributed: float
    unattributed: float
    profiled_latency: float
    profiler_time: float = 0.0
    peaks: tuple[Peak, ...] = ()
    peaks_absent_because: str | None = None
    inputs: tuple[LayerTensor, ...] = ()
    outputs: tuple[LayerTensor, ...] = ()
    memory: dict[str, Any] | None = None
    memory_absent_because: str | None = None
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
