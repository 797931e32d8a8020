"""Keeps libraries that open sessions by themselves to the threads a pass may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Within it, onnxruntime's sessions and OpenVINO's models that others open run on so many threads.

    onnxruntime's quantisers and NNCF make sessions with the engine's default, every core, and take no setting for it:
    onnxruntime is given other defaults. OpenVINO looks at the cores its process may run on.
    """
    import onnxruntime

    from edgewise.optimizing.passes.ort_preparation import session_options

    made = onnxruntime.SessionOptions
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    narrower = set(sorted(cores)[: max(1, threads)])
    try:
        onnxruntime.SessionOptions = lambda: session_options(threads, made=made)
        if narrower < cores:
            os.sched_setaffinity(0, narrower)
        yield
    finally:
        onnxruntime.SessionOptions = made
        if narrower < cores:
            os.sched_setaffinity(0, cores)
