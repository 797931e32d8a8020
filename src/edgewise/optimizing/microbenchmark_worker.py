"""Applies a pass to a network, and times the network and the result in turns in each engine.

``python -m edgewise.optimizing.microbenchmark_worker`` reads one JSON object from standard input and writes a line of
JSON once the pass is done and a line per engine. A crash or a lack of memory ends this process alone.

Both models are in one process, unlike in a race (`edgewise.run.interleaving`), because the pre-flight times many pairs
in seconds. On two busy cores, one pair of the bundled digits network took 2.4 s in onnxruntime this way, two profiles
included; one round of a race took 3 to 4 s without profiles. The timed loop is the same (`edgewise.run.timing`).
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from edgewise.errors import BadModel, EdgewiseError
from edgewise.model.identity import open_model
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.pass_worker import apply, error_line, open_channel, read_task
from edgewise.optimizing.reasons import PRODUCTS, count_precisions
from edgewise.record import InputSpec
from edgewise.registry import load_class
from edgewise.run.sandbox import limit_memory
from edgewise.run.timing import Clock, Recorder, block_size
from edgewise.run.turn_mode import SETTLE_BELOW_S
from edgewise.runtime.base import LoadOptions, Session
from edgewise.workload.input_shapes import resolve_inputs
from edgewise.workload.inputs import make_arrays

TURN_S, MOST_A_TURN = 0.004, 1000
"""Duration of a turn, and the most inferences in one."""
LEAST_PAIRS, MOST_PAIRS = 9, 200
SAMPLES = 2
"""Random samples that a pass calibrates on: the ranges that it finds do not change the speed of the result."""
_WARMUP_S = 0.05
_PROFILE_S = 0.15


def time_engines(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the result of the pass, then of each engine: fields of a `PassTiming`, JSON-shaped. A failed pass is
    the last.

    Args:
        request: ``pass``: its class (``module:Class``); ``task`` for it (`edgewise.optimizing.pass_runner.write_task`);
            ``engines``: each with its class and provider; ``shapes`` of the network's inputs; ``threads``; ``seconds``
            of turns per engine; ``folder`` for samples and the result.
    """
    folder = Path(request["folder"])
    task = replace(read_task(request["task"]), folder=folder)
    try:
        if task.calibration is not None:
            samples, inputs = folder / "calibration.npz", _read_inputs(Path(task.model), request)
            write_calibration(samples, [make_arrays(inputs, seed=seed) for seed in range(SAMPLES)], None)
            task = replace(task, calibration=samples)
    except EdgewiseError as error:
        yield {"failed": f"it can't be applied: {error_line(error)}"}
        return
    made = apply(load_class(request["pass"])(), task)
    if made.get("unchanged"):
        yield {"unchanged": True}
    elif "cause" in made:
        lasting = made["cause"] == "unsuitable"
        words = "it can't be applied" if lasting else "it failed in a trial run"
        yield {"failed": f"{words}: {made['reason']}", "lasting": lasting}
    else:
        try:
            precisions = count_precisions(Path(made["model"]))
        except BadModel as error:
            yield {"failed": f"it failed in a trial run: its result can't be read: {error.message}", "lasting": False}
            return
        yield {}
        for engine in request["engines"]:
            yield {
                **race({**request, **engine, "model": task.model, "changed": made["model"]}),
                "precisions": precisions,
            }


def race(request: Mapping[str, Any]) -> dict[str, Any]:
    """Time the network and the result of the pass in one engine: fields of a `PassTiming`.

    Args:
        request: of `time_engines`, with ``runtime`` and ``provider`` of the engine, and the files of the network,
            ``model``, and of the result, ``changed``.
    """
    runtime = load_class(request["runtime"])()
    runtime.import_engine()
    sides = {"the model as it is": Path(request["model"]), "the result of the pass": Path(request["changed"])}
    sessions: list[Any] = []  # bound arrays live as long as their session
    for words, side in sides.items():
        try:
            sessions.append(_session(runtime, side, request, profile=False))
        except Exception as error:
            return {"failed": f"the engine rejects {words}: {error_line(error)}"}
    # Idle threads of the other session's pool still spin for a while when there are several.
    settle_below = math.inf if request["threads"] > 1 else SETTLE_BELOW_S
    original, changed = take_turns(sessions, seconds=request["seconds"], settle_below=settle_below)
    before, after = (_where_time_goes(runtime, side, request) for side in sides.values())
    return {"original": original, "changed": changed, "before": before, "after": after}


def _read_inputs(model: Path, request: Mapping[str, Any]) -> tuple[InputSpec, ...]:
    """Return inputs of a model with the network's shapes, which passes keep. Raises `BadInput`."""
    signature = open_model(model).signature
    names = {spec.name for spec in signature.inputs}
    shapes = {name: tuple(shape) for name, shape in request["shapes"].items() if name in names}
    return resolve_inputs(signature, batch=1, overrides=shapes)


def _session(runtime: Any, model: Path, request: Mapping[str, Any], *, profile: bool) -> Any:
    inputs = _read_inputs(model, request)
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
    """Time of an inference of each of two sessions in every pair of turns, s: the median of each turn.

    Args:
        seconds: of all turns together, but at least `LEAST_PAIRS` are taken.
        settle_below: inferences shorter than this, in s, are not timed at the beginning of a turn.
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
    """Run some inferences; return the time of a typical one, s."""
    recorder.settle()
    begin = clock.now()
    recorder.take(2)
    while (clock.now() - begin) * 1e-9 < _WARMUP_S:
        recorder.take(block_size(recorder))
    return recorder.typical_ns() * 1e-9


def _where_time_goes(runtime: Any, model: Path, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Time per type of engine step, s; empty without a profiler."""
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


def main() -> None:
    """Answer the request on standard input."""
    channel = open_channel()
    request = json.load(sys.stdin)
    limit_memory(request["memory_limit"])
    for answer in time_engines(request):
        channel.write(json.dumps(answer) + "\n")
        channel.flush()
    os._exit(0)  # engines may hang or crash where the interpreter takes them down


if __name__ == "__main__":
    main()
