"""Profiled runs as a Chrome trace (JSON object format), which Perfetto and chrome://tracing open.

One process a run; threads for the inference, its layers and its overheads; a counter of live activations. Times are µs.
Durations are the profile's medians and beginnings are medians of their own, so that neighbours can overlap by their
noise: a layer then begins where the one before it ends, and its arguments keep where the engine saw it begin. Only
where the layers together take clearly longer than an inference do some run at the same time, on further threads.
Format: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from edgewise.record import Layer, Run
from edgewise.report.profile.cells import roof_words
from edgewise.report.profile.document import latency_words
from edgewise.report.runs.conditions import engine_of, labels_of
from edgewise.text import one_line
from edgewise.version import __version__

Event = dict[str, Any]

INFERENCE, OVERHEADS, LAYERS = 0, 1, 2
"""Threads; further lanes of layers that run at the same time follow."""
PARALLEL_FROM = 1.1
"""Ratio of the layers' total time to the inference from which on some layers must have run in parallel."""
_MICRO = 1e6
DIGITS = 6
"""Of times in µs: a picosecond, far below any clock; without rounding 0.03 ms would be 29.999999999999996 µs."""


def trace_document(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the trace of all profiled runs of `runs`; events are sorted by time within each process."""
    events: list[Event] = []
    for process, (run, label) in enumerate(zip(runs, labels_of(runs), strict=True), start=1):
        if run.profile is not None:
            events += _process(run, label, process)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"producer": f"edgewise {__version__}", "runs": [run.id for run in runs]},
    }


def render_trace(runs: Sequence[Run]) -> str:
    """`trace_document` as JSON."""
    return json.dumps(trace_document(runs), ensure_ascii=False, allow_nan=False) + "\n"


def _process(run: Run, label: str, process: int) -> list[Event]:
    """Everything of one run: names first, then events by their beginning, a parent before its children."""
    layers, lanes = place_layers(run)
    end = max((ts + dur for _, _, ts, dur in layers), default=0.0)
    overheads = list(place_overheads(run, end))
    end = max([end, *(ts + dur for _, ts, dur in overheads)])
    events = [_inference(run, end, process)]
    events += [_layer(run, placed, process) for placed in layers]
    events += [_overhead(layer, ts, dur, process) for layer, ts, dur in overheads]
    events += _counters(run, layers, end, process)
    events.sort(key=lambda event: (event["ts"], -event.get("dur", 0.0)))
    title = f"{one_line(run.job.model.name)} · {label} · {latency_words(run)}"
    return [*_names(process, title, lanes), *events]


def _names(process: int, title: str, lanes: int) -> Iterator[Event]:
    threads = {INFERENCE: "inference", OVERHEADS: "overheads of the engine", LAYERS: "layers"}
    threads |= {LAYERS + lane: f"layers at the same time ({lane + 1})" for lane in range(1, lanes)}
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0, "args": {"name": title}}
    yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "ts": 0, "args": {"sort_index": process}}
    for thread, name in threads.items():
        shared = {"ph": "M", "pid": process, "tid": thread, "ts": 0}
        yield {**shared, "name": "thread_name", "args": {"name": name}}
        yield {**shared, "name": "thread_sort_index", "args": {"sort_index": thread}}


def place_layers(run: Run) -> tuple[list[tuple[Layer, int, float, float]], int]:
    """(layer, lane, beginning µs, duration µs) of what has a time, and how many lanes that takes."""
    found = [layer for layer in run.layers if layer.kind == "operator" and layer.time is not None]
    found.sort(key=lambda layer: (layer.start if layer.start is not None else 0.0, layer.index))
    if any(layer.start is None for layer in found):
        found.sort(key=lambda layer: layer.index)
    ends: list[float] = [0.0]
    whole = run.profile.profiled_latency if run.profile is not None else 0.0
    parallel = sum(layer.time or 0.0 for layer in found) > PARALLEL_FROM * whole > 0
    placed = []
    for layer in found:
        start = ends[0] if layer.start is None else max(0.0, layer.start * _MICRO)
        dur = (layer.time or 0.0) * _MICRO
        lane = next((lane for lane, end in enumerate(ends) if end - start <= dur / 2), len(ends)) if parallel else 0
        if lane == len(ends):
            ends.append(start)
        start = max(start, ends[lane])
        ends[lane] = start + dur
        placed.append((layer, lane, start, dur))
    return placed, len(ends)


def place_overheads(run: Run, end: float) -> Iterator[tuple[Layer, float, float]]:
    """(overhead, beginning µs, duration µs) where the engine saw it; sums over the inference follow `end`."""
    found = [layer for layer in run.layers if layer.kind == "overhead" and layer.time is not None]
    known = sorted((layer for layer in found if layer.start is not None), key=lambda layer: layer.start or 0.0)
    cursor = 0.0
    for layer in known:
        ts, dur = max((layer.start or 0.0) * _MICRO, cursor), (layer.time or 0.0) * _MICRO
        cursor = ts + dur
        yield layer, ts, dur
    cursor = max(cursor, end)
    for layer in found:
        if layer.start is None:
            dur = (layer.time or 0.0) * _MICRO
            yield layer, cursor, dur
            cursor += dur


def place_in_latency(run: Run) -> list[tuple[Layer, int | None, float, float]]:
    """(layer, lane or None for an overhead, beginning µs, duration µs) along an inference without the profiler.

    Beginnings were seen under the profiler, whose own time lies between the layers. So what lies between them is
    shortened until an inference ends at its latency.
    """
    placed, _ = place_layers(run)
    end = max((ts + dur for _, _, ts, dur in placed), default=0.0)
    spans: list[tuple[Layer, int | None, float, float]] = [*placed]
    spans += [(layer, None, ts, dur) for layer, ts, dur in place_overheads(run, end)]
    spans.sort(key=lambda span: span[2])
    gaps, reached = [], 0.0
    for _, _, ts, dur in spans:
        gaps.append(max(0.0, ts - reached))
        reached = max(reached, ts + dur)
    latency = run.profile.latency * _MICRO if run.profile is not None else 0.0
    total = sum(gaps)
    taken = (reached - max(latency, reached - total)) / total if total > 0 else 0.0
    return [
        (layer, lane, ts - before * max(0.0, taken), dur)
        for (layer, lane, ts, dur), before in zip(spans, accumulate(gaps), strict=True)
    ]


def _inference(run: Run, end: float, process: int) -> Event:
    profile = run.profile
    seconds = profile.profiled_latency if profile is not None else 0.0
    args: dict[str, Any] = {"engine": engine_of(run), "run": run.id}
    if profile is not None:
        args |= {
            "latency_us": round(profile.latency * _MICRO, DIGITS),
            "profiled_latency_us": profile.profiled_latency * _MICRO,
            "conservation": profile.conservation,
            "unattributed_us": profile.unattributed * _MICRO,
            "method": one_line(profile.method),
        }
    dur = max(seconds * _MICRO, end)
    return _complete("inference with profiling on", INFERENCE, 0.0, dur, process=process, category="run", args=args)


def _complete(
    name: str, thread: int, ts: float, dur: float, *, process: int, category: str, args: dict[str, Any]
) -> Event:
    times = {"ts": round(ts, DIGITS), "dur": round(dur, DIGITS)}
    return {"ph": "X", "name": name, "cat": category, "pid": process, "tid": thread, **times, "args": args}


def _layer(run: Run, placed: tuple[Layer, int, float, float], process: int) -> Event:
    layer, lane, ts, dur = placed
    return _complete(
        one_line(layer.title),
        LAYERS + lane,
        ts,
        dur,
        process=process,
        category=one_line(layer.op),
        args=_args(layer, ts, roof=roof_words(layer, run.profile)),
    )


def _overhead(layer: Layer, ts: float, dur: float, process: int) -> Event:
    args = _args(layer, ts)
    if layer.start is None:
        args["position"] = "not known: a sum over the inference, drawn after the layers"
    return _complete(
        one_line(layer.name), OVERHEADS, ts, dur, process=process, category=f"overhead, {one_line(layer.op)}", args=args
    )


def _args(layer: Layer, ts: float, *, roof: str = "") -> dict[str, Any]:
    """Return what is known of a layer; unknown values are left out. `roof` is its share of its roof in words."""
    told: dict[str, Any] = {
        "index": layer.index,
        "op": one_line(layer.op),
        "nodes": [one_line(name) for name in layer.nodes],
        "engine_op": one_line(layer.engine_op),
        "low_us": layer.low * _MICRO if layer.low is not None else None,
        "high_us": layer.high * _MICRO if layer.high is not None else None,
        "share": layer.share,
        "macs": layer.macs,
        "ops": layer.ops,
        "weight_bytes": layer.weight_bytes,
        "activation_bytes": layer.activation_bytes,
        "dtype": layer.dtype,
        "provider": layer.provider,
        "roof_share": layer.roof_share,
        "of_limit": roof,
        "bound": layer.bound,
    }
    if layer.start is None:
        told["position"] = "drawn after the layer before it: the engine does not report when it began"
    elif abs(layer.start * _MICRO - ts) > 1e-6:
        told["began_us"] = layer.start * _MICRO
    return {name: value for name, value in told.items() if value not in (None, "", [])}


def _counters(run: Run, layers: Sequence[tuple[Layer, int, float, float]], end: float, process: int) -> Iterator[Event]:
    """Live bytes of activations as planned, the most of each layer's operators, from its beginning on."""
    memory = run.profile.memory if run.profile is not None else None
    live = list((memory or {}).get("live_bytes") or ())
    shared = {"ph": "C", "name": "live activations (planned)", "pid": process, "tid": LAYERS}
    drawn = False
    for layer, _, ts, _ in layers:
        values = [live[index] for index in layer.operators if 0 <= index < len(live)]
        if values:
            drawn = True
            yield {**shared, "ts": round(ts, DIGITS), "args": {"bytes": max(values)}}
    if drawn:
        yield {**shared, "ts": round(end, DIGITS), "args": {"bytes": 0}}
