"""What a profile found: layers with their time, where the rest of the time went, and what could be won."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

LayerKind = Literal["operator", "overhead", "eliminated", "unmatched"]
Bound = Literal["compute", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTensor:
    """An input or output of a layer; an open dimension is its name or None, an unknown rank None."""

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One row of a profile: operators of the model that an engine executes together, or an overhead of the engine.

    Attributes:
        index: its place in the order of execution, from 0.
        name, op: of the operator that costs the most of `nodes`; where the engine fused them under a type of its own
            (``SkipLayerNormalization``), `op` is that; of an overhead, what the engine calls it and does.
        label: a better name for people, as `edgewise.model.graph.Operator` has it; "" where there is none.
        kind: ``operator``; ``overhead`` (work the model does not ask for: reorders, copies, conversions, dispatch);
            ``eliminated`` (an operator that the engine provably need not execute: it has no time, and says what proves
            it); ``unmatched`` (an operator of which no step is known: its time is in none or in another's row).
        nodes: names of the model's operators in it, in the model's order.
        operators: their indices in the model's graph.
        engine_nodes: what the engine calls the steps that execute it.
        engine_op: kernels of those steps, each once.
        time, low, high: s per inference with its 95 % interval; None where `time_absent_because` says why.
        share: of the end-to-end latency.
        start: when it begins, s after the first step of an inference, in the profiled pass; for drawings.
        macs, ops, parameters, weight_bytes, activation_bytes: of all its operators; None where any is unknown.
        intensity: ops per byte of weights and activations.
        dtype: of the arithmetic, as far as the engine or the model tells.
        provider: that executed it, where the engine tells.
        supported: whether the accelerated provider that was asked for executes it; None where none was asked for.
        error: why not, where it does not.
        ops_per_second: attained.
        roof: ops/s that the machine's peaks allow at its intensity.
        roof_share: attained over allowed.
        bound: which peak is the lower one.
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

    @property
    def title(self) -> str:
        """What a person calls it: `label`, else `name`."""
        return self.label or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something in a profile that costs time, with its evidence.

    Attributes:
        code: of the catalogue `edgewise.profiling.findings.FINDINGS`.
        message: what was seen, with its numbers.
        suggestion: what to do about it.
        saving: s per inference that could be won at most, by `method`.
        layers: indices of the layers it speaks of.
        evidence: the numbers behind it, by name, SI units.
        method: how `saving` was computed.
        once: `saving` is won once, at the start, and not with every inference.
    """

    code: str
    message: str
    suggestion: str
    saving: float
    layers: tuple[int, ...] = ()
    evidence: dict[str, float] = field(default_factory=dict)
    method: str = ""
    once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The most that a machine was seen to do.

    Attributes:
        kind: ``compute`` (ops/s of a data type) or ``bandwidth`` (B/s).
        dtype: of the arithmetic; None for bandwidth.
        threads: that worked.
        size_bytes: of bandwidth: what was moved in turn, over and over; smaller sizes stay in faster caches.
        value, low, high: ops/s or B/s of the fastest tenth of the repetitions; of their median and of the fastest.
        method: which micro-benchmark, on which library.
        measured_at: ISO 8601, UTC; peaks are kept per machine.
        times_measured: how often; the highest counts.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Where the time of a run went, beside its `layers`.

    Attributes:
        method: how the engine timed its layers.
        sessions, inferences: fresh processes and profiled inferences in all of them.
        latency: end to end without profiling, s: what the parts must add up to. Where the engine can do both in one
            process, of ordinary inferences in turns with the profiled ones; else that of the run.
        operators_time: s in layers of kind ``operator``, with its interval.
        overheads_time: s in named overheads.
        conservation: (operators + overheads) / latency.
        attributed: share of the latency that is in operators or named overheads, at most 1.
        unattributed: s that are in neither; negative where the parts exceed the whole.
        profiled_latency: end to end with profiling on, s.
        profiler_time: what the profiler added to the steps of an inference, and what the layers' times no longer
            contain, s; 0 where nothing was taken out.
        peaks: of this machine, for the roofline; empty with the reason in `peaks_absent_because`.
        inputs, outputs: of the model, with the shapes that ran.
        memory: of the model's activations, as `edgewise.model.memory_plan` plans them: totals and live bytes by
            operator; None with the reason.
        findings: the dearest first.
        notes: what a reader should know of this engine's timing.
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
