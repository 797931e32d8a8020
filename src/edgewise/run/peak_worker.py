"""Measures peak rates of this machine in a fresh process: standard library, numpy and one engine.

The request on standard input is a JSON object; the answer on standard output has the seconds of every
repetition and the load of other work meanwhile.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgewise.child_process import serve
from edgewise.registry import load_class
from edgewise.run.counters import read_counters
from edgewise.runtime.base import LoadOptions

BUDGET_NS = 300_000_000
LEAST, MOST = 7, 2000


def measure(request: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of every repetition of the requested work, the load of other work meanwhile, and numpy's version."""
    import numpy as np

    work = _copy_memory(request) if request["kind"] == "bandwidth" else _multiply(request)
    for _ in range(3):
        work()
    times: list[float] = []
    start = read_counters()
    begin = time.monotonic_ns()
    while len(times) < LEAST or (time.monotonic_ns() - begin < BUDGET_NS and len(times) < MOST):
        before = time.monotonic_ns()
        work()
        times.append((time.monotonic_ns() - before) * 1e-9)
    counted = read_counters().delta(start)
    others, stolen = counted["busy_share_of_others"], counted["steal_share"] or 0.0
    return {"seconds": times, "numpy": np.__version__, "load": None if others is None else others + stolen}


def _copy_memory(request: Mapping[str, Any]) -> Callable[[], object]:
    """Return copies between two arrays that take `size_bytes` together, `repeat` times, on `threads` threads at once.

    numpy copies without Python's lock, so threads really work side by side; each has arrays of its own.
    """
    import numpy as np

    half = request["size_bytes"] // 2
    pairs = [(np.zeros(half, np.uint8), np.ones(half, np.uint8)) for _ in range(request["threads"])]
    repeat = request["repeat"]

    def copy(target: Any, source: Any) -> None:
        for _ in range(repeat):
            np.copyto(target, source)

    if len(pairs) == 1:
        return lambda: copy(*pairs[0])

    def on_threads() -> None:
        workers = [threading.Thread(target=copy, args=pair) for pair in pairs]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return on_threads


def _multiply(request: Mapping[str, Any]) -> Callable[[], object]:
    """Return a matrix product as a model in an engine."""
    import numpy as np

    runtime = load_class(request["runtime"])()
    runtime.import_engine()
    options = LoadOptions(
        provider="cpu",
        shapes={"x": tuple(request["shape"])},
        dtypes={"x": request["input"]},
        threads=request["threads"],
        precision=request["precision"],
    )
    session = runtime.load(Path(request["model"]), options)
    told = session.effective.get("precision")
    if request["precision"] and told != request["precision"]:
        raise RuntimeError(f"the engine computed in {told}, not {request['precision']}")
    generator = np.random.default_rng(0)
    array = generator.integers(0, 100, request["shape"]).astype(request["input"])
    session.bind([array])
    invoke: Callable[[], object] = session.invoke
    return invoke


def main() -> None:
    """Entry point of the process."""
    # Without the engine's destructors, some of which crash.
    os._exit(serve(lambda request: json.dumps(measure(json.loads(request))).encode()))


if __name__ == "__main__":
    main()
