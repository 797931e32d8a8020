"""Times of TensorFlow's operators, from its own profiler (`tf.profiler`), for any call of a TensorFlow function.

The profiler writes an event for every operator that the executor holds to be expensive, under the operator's name and
type; the time of the others is between operators. Each function call is an event too, and tells which operators belong
to which inference.
"""

from __future__ import annotations

import re
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from edgewise.runtime.arrays import time_calls
from edgewise.runtime.base import CannotProfile, EngineNode, EngineOverhead, EngineProfile
from edgewise.runtime.profiler_cost import Alternation

_METHOD = "TensorFlow's profiler (tf.profiler): events of operators within each call"
_NOTE = (
    "TensorFlow's profiler lists the operators that its executor finds expensive; the time of the others is in "
    "'between operators'"
)
_CALL = "EagerExecute"
_BLOCKS = 4
_Event = tuple[float, float, str]
"""Begin and duration in ns, name."""
_VARIANT = re.compile(r"_(?:Mkl)?(?:Native)?(?:Fused)?(?=[A-Z])")
"""Of an operator's type, where TensorFlow runs a variant that does more or computes with oneDNN."""
_MOST_FUSED = 6
"""Operators in one variant: a convolution, its bias, a batch normalisation, a sum, an activation."""


def profile_calls(
    invoke: Callable[[], object],
    inferences: int,
    *,
    name_layers: Callable[[str], Collection[str]] | None = None,
    graph: Any = None,
) -> EngineProfile:
    """Profile `inferences` calls, in blocks between ordinary ones.

    Args:
        invoke: calls one function of TensorFlow.
        name_layers: of an operator's name, the names of the model's operators that it executes; None: its own name.
        graph: of the function, before TensorFlow fuses operators; None takes each operator for itself.

    Raises `CannotProfile`: the profiler lists no operators.
    """
    size = -(-inferences // _BLOCKS)
    timing = Alternation()
    told: list[list[_Event]] = []
    while len(timing.walls) < inferences:
        count = min(size, inferences - len(timing.walls))
        plain = time_calls(invoke, count)
        times, events = _profile_block(invoke, count)
        timing.add([(wall, 0) for wall in times], [(wall, 0) for wall in plain])
        told += events
    if not any(told):
        raise CannotProfile("TensorFlow's profiler lists no operators of this function")
    nodes = _nodes(told, name_layers or (lambda name: (name,)), graph)
    steps = [sum(duration for _, duration, _ in events) for events in told]
    return EngineProfile(
        method=_METHOD, resolution_ns=1.0, truncates=False, nodes=nodes,
        overheads=(
            EngineOverhead(
                name="between operators",
                times_ns=tuple(max(0.0, wall - step) for wall, step in zip(timing.walls, steps, strict=True)),
            ),
        ),
        **timing.as_times(), ordered=False, notes=(_NOTE,),
    )  # fmt: skip


def _profile_block(invoke: Callable[[], object], count: int) -> tuple[list[int], list[list[_Event]]]:
    """Wall times of `count` calls, and the events of operators in each."""
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0, device_tracer_level=0)
        tf.profiler.experimental.start(folder, options)
        try:
            times = time_calls(invoke, count)
        finally:
            tf.profiler.experimental.stop()
        written = next(Path(folder).rglob("*.xplane.pb"), None)
        if written is None:
            raise CannotProfile("TensorFlow's profiler wrote no trace")
        events = sorted(_read_events(written.read_bytes()))
    calls = [(begin, begin + duration) for begin, duration, name in events if name == _CALL]
    if len(calls) != count:
        raise CannotProfile(f"TensorFlow's profiler shows {len(calls)} calls of {count}")
    found: list[list[_Event]] = [[] for _ in calls]
    for event in events:
        at = bisect_right(calls, (event[0], float("inf"))) - 1
        if event[2] != _CALL and at >= 0 and event[0] < calls[at][1]:
            found[at].append((event[0] - calls[at][0], event[1], event[2]))
    return times, found


def _read_events(data: bytes) -> Iterator[_Event]:
    """Yield calls and operators in a trace; operators are called ``NAME:TYPE``."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    for plane in xplane_pb2.XSpace.FromString(data).planes:
        names: dict[int, str] = {key: each.name for key, each in plane.event_metadata.items()}
        types: dict[int, str] = {key: each.display_name for key, each in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                name = names.get(event.metadata_id, "")
                # Of an operator the profiler shows the type by itself too.
                kind = types.get(event.metadata_id, "")
                if name == _CALL or (kind and name.endswith(f":{kind}")):
                    yield line.timestamp_ns + event.offset_ps / 1e3, event.duration_ps / 1e3, name


def _nodes(
    told: list[list[_Event]], name_layers: Callable[[str], Collection[str]], graph: Any
) -> tuple[EngineNode, ...]:
    """One step per operator; one that runs several times in an inference (a loop's) has their sum."""
    sums: dict[str, list[float]] = {}
    starts: dict[str, list[float]] = {}
    for at, events in enumerate(told):
        for begin, duration, name in events:
            sums.setdefault(name, [0.0] * len(told))[at] += duration
            starts.setdefault(name, []).append(begin)
    nodes, timed = [], {full.rpartition(":")[0] for full in sums}
    for full, times in sums.items():
        name, _, kind = full.rpartition(":")
        executed = [name] if graph is None else _executed(name, kind, graph, timed)
        layers = tuple(dict.fromkeys(layer for each in executed for layer in name_layers(each)))
        start = median(starts[full])
        nodes.append(EngineNode(name=name, op=kind, times_ns=tuple(times), originals=layers, start_ns=start))
    return tuple(sorted(nodes, key=lambda node: node.start_ns or 0.0))


def _executed(name: str, kind: str, graph: Any, timed: Collection[str]) -> list[str]:
    """Return the operators of `graph` that ran as one of type `kind` under the name of the last.

    TensorFlow fuses what follows a convolution or a product into it: this goes back from `name` to the operator of that
    type, past none that was `timed` itself.
    """
    wanted = _VARIANT.sub("", kind, count=1)
    paths = [[name]]
    for path in paths:
        try:
            operator = graph.get_operation_by_name(path[-1])
        except (KeyError, ValueError):
            continue
        if operator.type == wanted:
            return path
        if len(path) < _MOST_FUSED:
            paths += [[*path, source.op.name] for source in operator.inputs if source.op.name not in timed]
    return [name]
