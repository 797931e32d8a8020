"""Adds layers to a run from its profiling processes: attribution, roofline, findings, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, get_args

from edgewise.errors import EdgewiseError
from edgewise.model.graph import Graph
from edgewise.model.memory_plan import describe_totals, plan_memory
from edgewise.model.sparsity import count_denormals
from edgewise.profiling.findings import TRIED, find
from edgewise.profiling.layers import NOT_THE_WHOLE, build_profile
from edgewise.profiling.module_operators import graph_of_steps
from edgewise.profiling.roofline import ABOVE_ROOF, beaten_peaks, describe_beaten, peak_dtypes, place
from edgewise.record import Caution, Layer, Peak, Profile, Run
from edgewise.record.facts import threads_of
from edgewise.record.run import Cause
from edgewise.run.host_protocol import SessionResult
from edgewise.run.observation import read_run_graph
from edgewise.run.peaks import is_disturbed
from edgewise.runtime.base import EngineProfile, runtimes


class FindPeaks(Protocol):
    """Tells what the machine can do."""

    def __call__(
        self, dtypes: Sequence[str], threads: int, *, again: bool = False
    ) -> tuple[tuple[Peak, ...], str | None]:
        """Return data types and threads → this machine's peaks, or why there are none; `again` measures them anew."""


def with_layers(run: Run, sessions: Sequence[SessionResult], *, find_peaks: FindPeaks) -> Run:
    """Return the run with its layers, or with the reason why it has none.

    Args:
        sessions: the processes that were to time layers; one that failed gives the reason.
    """
    failure = next((session.failure for session in sessions if session.failure is not None), None)
    profiles = [session.profile for session in sessions if session.profile is not None]
    if not profiles:
        why = f"{failure.cause}: {failure.message}" if failure else "no process timed the layers"
        return replace(run, profile_absent_because=why)
    row = run.measurement("latency")
    latency = None if row is None else row.value
    if row is None or not latency:
        because = f": {row.absent_because}" if row is not None and row.absent_because else ""
        return replace(run, profile_absent_because=f"the run has no latency to which its layers could add up{because}")
    graph, because = _read_graph(run, profiles[0])
    if graph is None:
        return replace(run, profile_absent_because=f"the model's graph can't be read: {because}")
    try:
        layers, profile = build_profile(
            graph,
            profiles,
            latency=latency,
            uncertainty=row.within_half_width or 0.0,
            provider=_accelerated(run),
        )
    except (ArithmeticError, ValueError) as error:
        # Whatever an engine tells, the latency that was measured is kept.
        return replace(run, profile_absent_because=f"EngineError: the profiler's answer can't be used: {error}")
    if failure is not None:
        profile = replace(
            profile, notes=(*profile.notes, f"one more process failed: {failure.cause}: {failure.message}")
        )
    layers, profile, cautions = _under_roofs(run, layers, profile, find_peaks=find_peaks)
    cautions += [Caution.of("layers-off", note) for note in profile.notes if note.startswith(NOT_THE_WHOLE)]
    notes = [str(graph.metadata[key]) for key in ("observed", "unobserved") if key in graph.metadata]
    profile = replace(profile, **_memory(graph), notes=(*profile.notes, *notes))
    findings = find(
        layers,
        profile,
        graph=graph,
        first=run.value("latency_first"),
        latency=latency,
        instructions=(run.environment.get("cpu") or {}).get("flags"),
        threads=threads_of(run),
        denormals=_count_denormals(run, graph),
    )
    profile = replace(profile, findings=findings)
    return replace(run, layers=layers, profile=profile, cautions=(*run.cautions, *cautions))


def _count_denormals(run: Run, graph: Graph) -> dict[str, int]:
    """Return weight → number of denormal elements, where ONNX Runtime computes with them on the processor."""
    spec = run.job.runtime
    if spec.name != "onnxruntime" or _accelerated(run) or str(spec.options.get(_FLUSHED, "0")) not in ("0", "False"):
        return {}
    try:
        return count_denormals(graph, model=Path(run.job.model.path))
    except (EdgewiseError, OSError):  # what can't be read tells nothing
        return {}


_FLUSHED, _ = TRIED["denormal-weights"]


def _under_roofs(
    run: Run, layers: Sequence[Layer], profile: Profile, *, find_peaks: FindPeaks
) -> tuple[tuple[Layer, ...], Profile, list[Caution]]:
    """Return the layers under their roofs, the profile with the peaks that hold, and a caution on those that do not, or
    not for a layer.
    """
    dtypes, threads = peak_dtypes(layers), _threads(run)
    peaks, absent = find_peaks(dtypes, threads)
    if any((layer.roof_share or 0.0) > ABOVE_ROOF for layer in place(layers, peaks)) or beaten_peaks(
        layers, peaks, times=1.0
    ):
        peaks, absent = find_peaks(dtypes, threads, again=True)
    beaten = beaten_peaks(layers, peaks)
    layers = place(layers, peaks, beaten=beaten)
    described = {peak: describe_beaten(peak, layer) for peak, layer in beaten_peaks(layers, peaks, times=1.0).items()}
    reasons = [described[peak] for peak in beaten]
    kept = tuple(peak for peak in peaks if peak not in beaten)
    loads = [peak.load or 0.0 for peak in peaks if is_disturbed(peak)]
    told = [
        *described.values(),
        *([f"other work used up to {max(loads):.0%} of the processor while peaks were measured"] if loads else []),
    ]
    absent = "; ".join([*([absent] if absent else []), *reasons]) or None
    cautions = [Caution.of("low-roof", "; ".join(told))] if told else []
    return layers, replace(profile, peaks=kept, peaks_absent_because=absent), cautions


def _read_graph(run: Run, profile: EngineProfile) -> tuple[Graph | None, str]:
    """Return the run's network; without one, the operators that the engine ran; without these None, and the reason."""
    try:
        graph = read_run_graph(run.job)
        because = str(graph.metadata.get("unexported", ""))
    except EdgewiseError as error:
        graph, because = None, f"{error.message}; {error.advice}"
    if graph is None or (because and not graph.operators):
        made = graph_of_steps(profile.nodes, run.job.model.format, because=because)
        graph = made if made.operators else graph
    return graph, because


def is_profiling_failed(run: Run) -> bool:
    """Whether the process that was to time layers failed, which is more than that the engine can't time them.

    The reason of a process that ended badly begins with its cause (`edgewise.record.run.Cause`).
    """
    cause, sign, _ = (run.profile_absent_because or "").partition(": ")
    return bool(sign) and cause in get_args(Cause) and cause != "Unavailable"


def _threads(run: Run) -> int:
    return int(run.effective.get("threads") or run.job.runtime.threads or 1)


def _accelerated(run: Run) -> str | None:
    """Return the accelerator that was asked for, as its layers name it; None for the processor's own kernels."""
    runtime = runtimes().get(run.job.runtime.name)
    return next(
        (each.title for each in runtime.providers if each.name == run.job.runtime.provider and each.accelerator), None
    )


def _memory(graph: Graph) -> dict[str, Any]:
    """Return the fields of `Profile` on memory."""
    plan = plan_memory(graph)
    if plan.unknown:
        reason = f"the size of {len(plan.unknown)} tensor(s) is unknown, such as {plan.unknown[0]!r}"
        return {"memory_absent_because": reason}
    return {"memory": describe_totals(plan)}
