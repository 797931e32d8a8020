"""The table of Keras Applications, measured on this machine: each network is built, measured, and deleted again."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewise.child_process import run_child
from edgewise.errors import BadInput, Unavailable
from edgewise.progress import StageStarted
from edgewise.record import Measurement, Run
from edgewise.runtime.keras import Keras, choose_backend
from edgewise.verbs.bench.request import BenchRequest
from edgewise.verbs.context import Context
from edgewise.verbs.measuring import Measured, measure
from edgewise.zoo.networks import WITHOUT_ACCURACY

BUILD_S = 600
"""Deadline for building one network, s."""


def measure_networks(names: Sequence[str], request: BenchRequest, context: Context) -> Measured:
    """Measure networks of Keras Applications with random weights on Keras, one after the other.

    Args:
        names: as ``keras.applications`` has them; empty means all.
        request: how to measure; its models are replaced.

    Raises:
        BadInput: an unknown name.
        Unavailable: Keras or its backend is not installed, or it can't build a network.
    """
    if not (available := Keras().availability()):
        raise Unavailable(f"Keras: {available.reason}", advice=available.install_hint)
    known = json.loads(_ask({"names": True}, "list its networks"))
    if unknown := [name for name in names if name not in known]:
        raise BadInput(f"keras.applications has no {unknown[0]}", advice=f"one of: {', '.join(known)}")
    runs: list[Run] = []
    found = Measured(runs=runs)
    for name in dict.fromkeys(names or known):
        with tempfile.TemporaryDirectory(prefix="edgewise-keras-") as folder:
            path = Path(folder, f"{name}.keras")
            if context.progress is not None:
                context.progress(StageStarted(title=f"Building {name} with random weights"))
            _ask({"name": name, "path": str(path)}, f"build {name}")
            measured = measure(request.model_copy(update={"models": (str(path),)}), context)
        runs += map(_without_accuracy, measured.runs)
        found = replace(measured, runs=runs, skipped=(*found.skipped, *measured.skipped))
        if measured.interrupted:
            break
    return found


def _ask(request: dict[str, Any], purpose: str) -> bytes:
    """Return what the process that builds networks answers. Raises `Unavailable`."""
    quiet = {"KERAS_BACKEND": choose_backend(), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    done = run_child(
        [sys.executable, "-P", "-m", "edgewise.zoo.keras_applications"], request=json.dumps(request).encode(),
        seconds=BUILD_S, environment={**os.environ, **quiet},
    )  # fmt: skip
    if done.failure:
        reason = done.tail.rpartition("\n")[2] if done.cause == "exit" else f"its process {done.failure}"
        raise Unavailable(f"Keras can't {purpose}: {reason}", advice="name other networks")
    return done.output


def _without_accuracy(run: Run) -> Run:
    absent = [Measurement.absent(name, WITHOUT_ACCURACY) for name in ("accuracy_top1", "accuracy_top5")]
    return replace(run, measurements=(*run.measurements, *absent))
