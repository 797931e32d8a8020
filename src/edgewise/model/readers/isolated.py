"""Asking an engine's own reader about a model file, in a child process with limits.

Engines believe what they read: a hostile file may crash one, hang it or fill memory. In a child that ends only the
child, and the answer is that the engine could not tell.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgewise.child_process import Limits, run_child, serve
from edgewise.errors import BadInput
from edgewise.model.readers.base import MAX_DIMENSION, MAX_RANK, identify_version
from edgewise.model.signature import Dimension

SECONDS = 120
MAX_ANSWER = 128 * 2**20


class NoAnswer(Exception):
    """The engine is not installed, or can't read the file; the message says which and what helps."""


class Refused(Exception):
    """The engine reads the file and refuses what was asked of it; the message is the engine's."""


def answer_requests(
    answer: Callable[[dict[str, Any]], Mapping[str, Any]],
    *,
    cpu_seconds: int,
    memory_bytes: int,
    per_file_byte: int = 0,
) -> int:
    """Return the main function of a worker of `ask_engine`; returns the exit code.

    Args:
        answer: makes the answer to a request. Raises `Refused` where the network can't take what was asked, and
            whatever the engine raises where it can't read the file.
        memory_bytes, per_file_byte: limit of private memory, and further bytes for every byte of the file.
    """

    def reply(request: bytes) -> bytes:
        try:
            return json.dumps(answer(json.loads(request))).encode()
        except Refused as error:
            return json.dumps({"refused": " ".join(str(error).split())[:1000]}).encode()

    def limit(request: bytes) -> Limits:
        size = Path(json.loads(request)["path"]).stat().st_size if per_file_byte else 0
        return Limits(cpu_seconds=cpu_seconds, data_bytes=memory_bytes + per_file_byte * size)

    return serve(reply, limits=limit)


SHAPE_WORKER = "edgewise.model.readers.shape_worker"
_ENGINES = {"openvino": ("openvino", "OpenVINO"), "litert": ("ai_edge_litert", "LiteRT")}
"""Engine of the shape worker → the package that it imports, and its title."""


def ask_for_shapes(
    engine: str, path: Path, given: Any, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[Mapping[str, Any] | None, str]:
    """Return the answer of the shape worker about a model, or None and why there is none.

    Args:
        engine: ``openvino`` or ``litert``, which are extras of edgewise too.
        given: the shapes as the engine's function of the worker takes them.
        shapes: the same by the names of inputs, for messages.

    Raises:
        BadInput: the network can't take the shapes.
    """
    package, title = _ENGINES[engine]
    try:
        answer = ask_engine(
            SHAPE_WORKER, path, {"engine": engine, "shapes": given},
            package=package, title=title, extra=engine, purpose="shapes behind open dimensions",
        )  # fmt: skip
        return answer, ""
    except NoAnswer as error:
        return None, str(error)
    except Refused as error:
        raise refuse_shapes(shapes, error) from error


def refuse_shapes(shapes: Mapping[str, tuple[int, ...]], error: Refused) -> BadInput:
    """Return the error for shapes that a network can't take."""
    words = ", ".join(f"{name!r}: {list(shape)}" for name, shape in shapes.items())
    return BadInput(f"the network does not support {words}: {error}", advice="give shapes that it supports")


def ask_engine(
    worker: str,
    path: Path | None,
    request: Mapping[str, Any],
    *,
    package: str,
    title: str,
    extra: str,
    purpose: str,
    environment: Mapping[str, str] | None = None,
) -> Mapping[str, Any]:
    """Return what the module `worker` answers about the file at `path`; kept for as long as the file does not change.

    Args:
        worker: a module whose main function is `answer_requests`.
        path: None where the request has everything.
        request: what it is asked, beside ``path``.
        package: what the worker imports; `title` is its proper name, `extra` the extra of edgewise that brings it.
        purpose: what the answer is for, as the subject of a sentence, for the reason why there is none.
        environment: further variables for the process.

    Raises:
        NoAnswer, Refused.
    """
    if find_spec(package) is None:
        raise NoAnswer(f"{purpose} need {title} (pip install 'edgewise[{extra}]')")
    where = {} if path is None else {"path": str(path.absolute())}
    version = None if path is None else identify_version(path)
    text = json.dumps({**where, **request}, sort_keys=path is not None)
    answer = json.loads(_run(worker, text, title, version, tuple((environment or {}).items())))
    if "failed" in answer:
        raise NoAnswer(f"{purpose} are not known: {answer['failed']}")
    if "refused" in answer:
        raise Refused(str(answer["refused"]))
    return dict(answer)


@lru_cache(maxsize=32)
def _run(worker: str, request: str, title: str, version: object, environment: tuple[tuple[str, str], ...]) -> bytes:
    """Return the answer as JSON; ``{"failed": reason}`` where there is none."""
    del version  # it is only for the cache
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # whose memory would count
    done = run_child(
        [sys.executable, "-P", "-m", worker], request=request.encode(), seconds=SECONDS,
        environment={**os.environ, **threads, **dict(environment)}, max_output=MAX_ANSWER,
    )  # fmt: skip
    reason = f"{title}'s process {done.failure}"
    if not done.failure:
        try:
            if isinstance(json.loads(done.output), dict):
                return done.output
        except (ValueError, RecursionError):
            pass
        reason = f"{title}'s process gave no answer"
    elif done.cause == "exit":
        reason = f"{title} can't read the file: {done.failure.partition(': ')[2] or done.failure}"
    return json.dumps({"failed": reason[:2000]}).encode()


def parse_shape(shape: Any) -> tuple[Dimension, ...] | None:
    """Return a shape of an answer; None where it is unknown, or no shape at all: who answered has read a hostile
    file.
    """
    if not isinstance(shape, list) or len(shape) > MAX_RANK:
        return None
    sizes = tuple(shape)
    sane = all(size is None or (type(size) is int and 0 <= size <= MAX_DIMENSION) for size in sizes)
    return sizes if sane else None
