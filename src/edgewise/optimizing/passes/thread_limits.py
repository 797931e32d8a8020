"""Limits the threads of libraries that open sessions of engines by themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Inside, sessions of onnxruntime and OpenVINO that libraries open run on at most this number of threads.

    onnxruntime's quantisers and NNCF open sessions on all cores and have no setting for that, so onnxruntime gets
    other defaults. OpenVINO uses the cores on which its process may run.
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
