"""Does to an excerpt of a network what a pass would do to all of it, or times both, in a process of its own.

One JSON object on standard input says what; one on standard output answers. Libraries may print, crash or take all
memory here: it ends this process and nothing else.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgewise.model.graph import Graph

TURN_S = 0.004
"""Inferences of one model go on for so long before it is the other's turn."""
SETTLE_BELOW_S = 0.01
LEAST_PAIRS, MOST_PAIRS = 9, 200
_WARMUP_S = 0.05
_PROFILE_S = 0.15
_PRODUCTS = ("convolution", "transposed-convolution", "matrix-multiplication", "recurrent", "attention")
_SMALL = frozenset({"int8", "uint8", "int4", "uint4", "int2", "uint2"})
_FARTHEST = 8
SAMPLES = 2
"""Random samples that a pass calibrates on: which ranges it finds does not change how fast the result is."""


def change(request: Mapping[str, Any]) -> dict[str, Any]:
    """Cut the excerpt where it is not there yet, and apply the pass to it."""
    from edgewise.optimizing.base import CannotApply, Work

    folder = Path(request["folder"])
    source = Path(request["source"])
    try:
        model = _excerpt(source, request)
        inputs = _inputs(model, request["shapes"])
        calibration = _write_calibration(folder / "calibration.npz", inputs) if request["calibrates"] else None
        made = folder / "made"
        made.mkdir()
        work = Work(
            model=str(model),
            format=request["format"],
            settings=request["settings"],
            folder=made,
            keep_float=tuple(request["keep_float"]),
            calibration=calibration,
            threads=request["threads"],
        )
        product = _load_class(request["pass"])().apply(work)
    except CannotApply as error:
        return {"cannot": _line(error)}
    answer = {"original": str(model), "changed": str(product.model), "unchanged": product.unchanged}
    return answer if product.unchanged else {**answer, "precisions": _precisions(product.model)}


def _precisions(model: Path) -> dict[str, int]:
    """Type of arithmetic → how many convolutions and products compute in it, as the file says."""
    from edgewise.model.identity import read_graph

    graph = read_graph(model)
    producers = graph.producers()
    found: dict[str, int] = {}
    for operator in graph.operators:
        at = int(operator.geometry.get("data", 0))
        if operator.kind not in _PRODUCTS or at >= len(operator.inputs):
            continue
        word = _type_of_data(graph, producers, operator.inputs[at])
        weights = {graph.tensors[each].dtype for each in operator.weights} & _SMALL
        if weights and word not in _SMALL:
            word = f"{min(weights)} weights"
        found[word] = found.get(word, 0) + 1
    return found


def _type_of_data(graph: Graph, producers: Mapping[str, int], name: str) -> str:
    """The type in which a tensor's values arrive, seen through what only moves them."""
    dtype = graph.tensors[name].dtype if name else ""
    for _ in range(_FARTHEST):
        if name not in producers:
            break
        maker = graph.operators[producers[name]]
        name = maker.inputs[0] if maker.inputs else ""
        if maker.op == "FakeQuantize":
            return "int8"  # what OpenVINO makes of it
        if maker.kind == "dequantize" and name:
            dtype = graph.tensors[name].dtype
            break
        if maker.kind not in ("movement", "pooling"):
            break
    return "int8" if dtype == "uint8" else dtype


def _excerpt(source: Path, request: Mapping[str, Any]) -> Path:
    """The file of the excerpt; the model's own where the excerpt is all of it."""
    if request["cut"] is None:
        return source
    from edgewise.optimizing.excerpt_files import cut_model

    target = Path(request["excerpt"])
    if not target.exists():
        partial = target.with_suffix(".partial")
        cut_model(source, partial, request["cut"])
        partial.replace(target)
    return target


def _inputs(model: Path, shapes: Mapping[str, Sequence[int]]) -> list[Any]:
    """What the model at `model` is fed: `edgewise.record.InputSpec`s."""
    from edgewise.model.identity import open_model
    from edgewise.record import InputSpec

    specs = []
    for spec in open_model(model).signature.inputs:
        shape = shapes.get(spec.name, spec.shape or ())
        if not all(isinstance(size, int) for size in shape):
            raise ValueError(f"the shape of input {spec.name!r} is open")
        specs.append(InputSpec(name=spec.name, shape=tuple(int(str(size)) for size in shape), dtype=spec.dtype))
    return specs


def _write_calibration(path: Path, inputs: Sequence[Any]) -> Path:
    from edgewise.optimizing.calibration import write_calibration
    from edgewise.workload.inputs import make_arrays

    write_calibration(path, [make_arrays(inputs, seed=seed) for seed in range(SAMPLES)], None)
    return path


def race(request: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of an inference of the excerpt and of what the pass made of it, in turns, and where the time goes."""
    runtime = _load_class(request["runtime"])()
    runtime.import_engine()
    sides = [Path(request["original"]), Path(request["changed"])]
    sessions: list[Any] = []  # what is bound lives as long as its session
    for at, side in enumerate(sides):
        try:
            sessions.append(_session(runtime, side, request, profile=False))
        except Exception as error:
            return {"refused": ("original", "changed")[at], "message": _line(error)}
    # Idle threads of the other engine's pool still spin for a while when there are several.
    settle_below = math.inf if request["threads"] > 1 else SETTLE_BELOW_S
    a, b = take_turns(sessions[0].invoke, sessions[1].invoke, seconds=request["seconds"], settle_below=settle_below)
    profiles = [_where_time_goes(runtime, side, request) for side in sides]
    return {"original": a, "changed": b, "profiles": profiles}


def _session(runtime: Any, model: Path, request: Mapping[str, Any], *, profile: bool) -> Any:
    from edgewise.runtime.base import LoadOptions
    from edgewise.workload.inputs import make_arrays

    inputs = _inputs(model, request["shapes"])
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
    a: Callable[[], object],
    b: Callable[[], object],
    *,
    seconds: float,
    settle_below: float = SETTLE_BELOW_S,
    clock: Callable[[], int] = time.monotonic_ns,
) -> tuple[list[float], list[float]]:
    """Seconds of an inference of `a` and of `b` in every pair of turns: the median of each turn.

    Args:
        seconds: all turns together, but for the fewest that make a comparison.
        settle_below: where inferences are shorter, in seconds, the first of a turn is not timed.
        clock: in ns.
    """
    typical = [_warm_up(call, clock) for call in (a, b)]
    found: tuple[list[float], list[float]] = ([], [])
    order = [(0, a), (1, b)]
    shuffled = random.Random(0)  # noqa: S311 (an order of turns)
    begin = clock()
    while len(found[0]) < LEAST_PAIRS or ((clock() - begin) * 1e-9 < seconds and len(found[0]) < MOST_PAIRS):
        shuffled.shuffle(order)
        for side, call in order:
            if typical[side] < settle_below:
                call()  # the other one has emptied the caches
            found[side].append(_turn(call, typical[side], clock))
    return found


def _warm_up(call: Callable[[], object], clock: Callable[[], int]) -> float:
    call()
    begin = clock()
    times: list[float] = []
    while len(times) < 2 or (clock() - begin) * 1e-9 < _WARMUP_S:
        before = clock()
        call()
        times.append((clock() - before) * 1e-9)
    return median(times)


def _turn(call: Callable[[], object], typical: float, clock: Callable[[], int]) -> float:
    times = []
    for _ in range(max(1, min(1000, int(TURN_S / max(typical, 1e-7))))):
        before = clock()
        call()
        times.append((clock() - before) * 1e-9)
    return max(median(times), 1e-9)


def _where_time_goes(runtime: Any, model: Path, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Seconds per kind of engine step; nothing where this engine does not tell."""
    try:
        session = _session(runtime, model, request, profile=True)
        typical = _warm_up(session.invoke, time.monotonic_ns)
        profile = session.profile_layers(max(3, min(200, int(_PROFILE_S / typical))))
    except Exception:
        return []
    sums: dict[tuple[str, bool], float] = {}
    for node in profile.nodes:
        key = (node.op, bool(set(node.kinds) & set(_PRODUCTS)))
        sums[key] = sums.get(key, 0.0) + (median(node.times_ns) * 1e-9 if node.times_ns else 0.0)
    return [{"op": op, "product": product, "seconds": value} for (op, product), value in sums.items()]


def _load_class(location: str) -> Any:
    module, _, name = location.partition(":")
    return getattr(import_module(module), name)


def _line(error: BaseException) -> str:
    from edgewise.runtime.arrays import tell

    return tell(str(error)) if str(error).strip() else type(error).__name__


def _confine(limit: int | None) -> None:
    """Die with the host, and fail rather than take the machine's memory."""
    with suppress(OSError, AttributeError, ImportError):
        import ctypes
        import signal

        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if limit:
        with suppress(OSError, ValueError, ImportError):
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def main() -> None:
    """Entry point of the process."""
    channel = os.dup(1)
    os.dup2(2, 1)  # libraries that print shall not print into the answer
    request = json.load(sys.stdin)
    _confine(request.get("memory_limit"))
    try:
        answer = change(request) if request["kind"] == "change" else race(request)
    except BaseException as error:
        answer = {"error": f"{type(error).__name__}: {_line(error)}"}
    data = memoryview(json.dumps(answer).encode())
    while data:
        data = data[os.write(channel, data) :]
    os._exit(0)


if __name__ == "__main__":
    main()
