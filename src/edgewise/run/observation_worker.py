"""Runs an ONNX model once, unoptimised, and reports which nodes ran, with the shapes of their inputs and outputs.

It runs in a folder of its own, which has the model's inputs as ``inputs.npz``. Request and answer are JSON objects.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgewise.child_process import serve
from edgewise.model.readers.onnx_blocks import graphs_of
from edgewise.model.readers.onnx_graph import name_inner
from edgewise.run.sandbox import die_with_host, limit_memory

MAX_BYTES = 2**30
"""Largest file that the process may write."""
_MOST_EVENTS = 1_000_000
_KERNEL = "_kernel_time"
_DTYPES = {"float": "float32", "double": "float64"}

Place = tuple[str, Any]
"""Path of a graph, and a node in it."""


def observe(request: bytes) -> bytes:
    """Run the requested ``model`` once on its ``inputs`` (names) within a ``memory_limit`` (B).

    Returns:
        ``engine``; ``values``: path of a graph → name → type and shape, or None where it differed from one execution to
        the next; ``times`` as in `edgewise.model.readers.onnx_graph.Observed`.
    """
    from edgewise.runtime.onnxruntime import OnnxRuntime

    asked = json.loads(request)
    _limit_files()
    limit_memory(asked["memory_limit"])
    engine = OnnxRuntime().import_engine()
    model, places, names = _load(Path(asked["model"]))
    try:
        events = _run(model, Path(asked["model"]).parent, asked["inputs"], Path.cwd())
    except Exception as error:
        raise RuntimeError(re.sub(r"'#(\d+)'", lambda found: repr(names[int(found[1])]), str(error))) from error
    if len(events) >= _MOST_EVENTS:
        raise RuntimeError(f"it runs more than {_MOST_EVENTS} nodes in one inference, more than its profile can hold")
    values: dict[str, dict[str, Any]] = {}
    count: Counter[int] = Counter()
    for event in events:
        at = int(str(event["name"]).removesuffix(_KERNEL).removeprefix("#"))
        path, node = places[at]
        count[at] += 1
        for names, key in ((node.input, "input_type_shape"), (node.output, "output_type_shape")):
            for name, found in _pair(names, event["args"].get(key)):
                known = values.setdefault(path, {})
                known[name] = found if known.get(name, found) == found else None
    answer = {"engine": f"ONNX Runtime {engine}", "values": values, "times": _count_bodies(places, count)}
    return json.dumps(answer).encode()


def _load(path: Path) -> tuple[bytes, list[Place], list[str]]:
    """Return the model, its functions written out and every node named by its place in the lists that are returned too.

    The second list has the names that the nodes had.
    """
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    places: list[Place] = []
    names: list[str] = []
    todo = [("", model.graph)]
    while todo:
        path_here, graph = todo.pop()
        for node in graph.node:
            names.append(node.name)
            node.name = f"#{len(places)}"
            places.append((path_here, node))
            for attribute in node.attribute:
                todo += [(name_inner(path_here, node.output, key), inner) for key, inner in graphs_of(attribute)]
    return model.SerializeToString(), places, names


def _run(model: bytes, weights: Path, names: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Return the engine's events of our nodes, once for every time one ran."""
    import numpy as np
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.enable_profiling = True
    settings.profile_file_prefix = str(folder / "profile")
    settings.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights))
    session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    with np.load(folder / "inputs.npz", allow_pickle=False) as arrays:
        feed = {name: arrays[f"arr_{at}"] for at, name in enumerate(names)}
    session.run(None, feed)
    events = json.loads(Path(session.end_profiling()).read_bytes())
    return [each for each in events if each.get("cat") == "Node" and _is_ours(each.get("name", ""))]


def _is_ours(name: str) -> bool:
    return name.startswith("#") and name.endswith(_KERNEL) and name[1 : -len(_KERNEL)].isdecimal()


def _pair(names: Sequence[str], shapes: Any) -> Iterator[tuple[str, tuple[str, list[int]]]]:
    """Name, type and shape of every value; none where the engine left some out, as it does what is no tensor."""
    there = [name for name in names if name]
    if isinstance(shapes, list) and len(there) == len(shapes):
        for name, each in zip(there, shapes, strict=True):
            (kind, shape), *_ = each.items()
            yield name, (_DTYPES.get(kind, kind), shape)


def _count_bodies(places: Sequence[Place], count: Mapping[int, int]) -> dict[str, int]:
    """Path of a graph → how often it ran each time its node ran, where that is a whole number."""
    ran: dict[str, int] = {}
    for at, (path, _) in enumerate(places):
        ran[path] = max(ran.get(path, 0), count.get(at, 0))
    times: dict[str, int] = {}
    for at, (path, node) in enumerate(places):
        calls = count.get(at, 0)
        inner = [name_inner(path, node.output, key) for attribute in node.attribute for key, _ in graphs_of(attribute)]
        if not calls or not inner:
            continue
        if node.op_type == "If" and sum(ran.get(each, 0) for each in inner) < calls:
            # A branch without nodes of its own shows only in that the other one did not run.
            silent = [each for each in inner if not ran.get(each)]
            if len(silent) != 1:
                continue
            ran[silent[0]] = calls - sum(ran.get(each, 0) for each in inner)
        times |= {each: ran.get(each, 0) // calls for each in inner if ran.get(each, 0) % calls == 0}
    return times


def _limit_files() -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_BYTES, MAX_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Entry point of the process."""
    die_with_host()
    os._exit(serve(observe))


if __name__ == "__main__":
    main()
