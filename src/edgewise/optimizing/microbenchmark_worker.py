"""Times a subgraph of a network and what a pass made of it in one engine, in turns, in a process of its own.

One JSON object on standard input says what; one on standard output answers. Libraries may print, crash or take all
memory here: it ends this process and nothing else.

Both are in one process, unlike in a race (`edgewise.run.interleaving`), because the pre-flight times many pairs in
seconds. On two busy cores, one pair of the bundled digits network took 2.4 s in onnxruntime this way, two profiles
included; one round of a race took 3 to 4 s and times only. The timed loop is the same (`edgewise.run.timing.Recorder`).
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from edgewise.child_process import Limits, serve
from edgewise.optimizing.pass_worker import error_line, load_class
from edgewise.optimizing.reasons import PRODUCTS
from edgewise.optimizing.subgraph_files import input_specs
from edgewise.run.sandbox import die_with_host
from edgewise.run.timing import Clock, Recorder, block_size
from edgewise.run.turn_mode import SETTLE_BELOW_S
from edgewise.runtime.base import LoadOptions, Session
from edgewise.workload.inputs import make_arrays

TURN_S, MOST_A_TURN = 0.004, 1000
"""Duration of a turn, and the most inferences in one."""
LEAST_PAIRS, MOST_PAIRS = 9, 200
_WARMUP_S = 0.05
_PROFILE_S = 0.15


def race(request: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of an inference of the subgraph and of what the pass made of it, in turns, and where the time goes."""
    runtime = load_class(request["runtime"])()
    runtime.import_engine()
    sides = [Path(request["original"]), Path(request["changed"])]
    sessions: list[Any] = []  # what is bound lives as long as its session
    for at, side in enumerate(sides):
        try:
            sessions.append(_session(runtime, side, request, profile=False))
        except Exception as error:
            return {"refused": ("original", "changed")[at], "message": error_line(error)}
    # Idle threads of the other engine's pool still spin for a while when there are several.
    settle_below = math.inf if request["threads"] > 1 else SETTLE_BELOW_S
    a, b = take_turns(sessions, seconds=request["seconds"], settle_below=settle_below)
    profiles = [_where_time_goes(runtime, side, request) for side in sides]
    return {"original": a, "changed": b, "profiles": profiles}


def _session(runtime: Any, model: Path, request: Mapping[str, Any], *, profile: bool) -> Any:
    inputs = input_specs(model, request["shapes"])
    options = LoadOptions(
        provider=request["provider"],
        shapes={spec.name: spec.shape for spec in inputs},
        dtypes={spec.name: spec.dtype for spec in inputs},
        threads=request["threads"],
        profile=profile,
    )
    session = runtime.load(model, options)
    session.bind(make_arrays(inputs, seed=0))
    return session


def take_turns(
    sessions: Sequence[Session], *, seconds: float, settle_below: float = SETTLE_BELOW_S
) -> tuple[list[float], list[float]]:
    """Seconds of an inference of each of two sessions in every pair of turns: the median of each turn.

    Args:
        seconds: all turns together, but for the fewest that make a comparison.
        settle_below: where inferences are shorter, in seconds, the first of a turn is not timed.
    """
    clock = Clock.of(sessions[0])
    recorders = [Recorder(session, clock) for session in sessions]
    typical = [_warm_up(recorder, clock) for recorder in recorders]
    found: tuple[list[float], list[float]] = ([], [])
    order = [0, 1]
    shuffled = random.Random(0)  # noqa: S311 (an order of turns)
    begin = clock.now()
    while len(found[0]) < LEAST_PAIRS or ((clock.now() - begin) * 1e-9 < seconds and len(found[0]) < MOST_PAIRS):
        shuffled.shuffle(order)
        for side in order:
            if typical[side] < settle_below:
                recorders[side].settle()  # the other one has emptied the caches
            count = max(1, min(MOST_A_TURN, int(TURN_S / typical[side])))
            recorders[side].take(count)
            found[side].append(max(median(recorders[side].wall[-count:]), 1) * 1e-9)
    return found


def _warm_up(recorder: Recorder, clock: Clock) -> float:
    """Seconds of a typical inference, after a few."""
    recorder.settle()
    begin = clock.now()
    recorder.take(2)
    while (clock.now() - begin) * 1e-9 < _WARMUP_S:
        recorder.take(block_size(recorder))
    return recorder.typical_ns() * 1e-9


def _where_time_goes(runtime: Any, model: Path, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Seconds per kind of engine step; nothing where this engine does not tell."""
    try:
        session = _session(runtime, model, request, profile=True)
        clock = Clock.of(session)
        typical = _warm_up(Recorder(session, clock), clock)
        profile = session.profile_layers(max(3, min(200, int(_PROFILE_S / typical))))
    except Exception:
        return []
    sums: dict[tuple[str, bool], float] = {}
    for node in profile.nodes:
        key = (node.op, bool(set(node.kinds) & set(PRODUCTS)))
        sums[key] = sums.get(key, 0.0) + (median(node.times_ns) * 1e-9 if node.times_ns else 0.0)
    return [{"op": op, "product": result, "seconds": value} for (op, result), value in sums.items()]


def _answer(request: bytes) -> bytes:
    return json.dumps(race(json.loads(request))).encode()


def _limits(request: bytes) -> Limits:
    return Limits(data_bytes=json.loads(request)["memory_limit"])


if __name__ == "__main__":
    die_with_host()
    os._exit(serve(_answer, limits=_limits))  # engines may hang or crash where the interpreter takes them down
