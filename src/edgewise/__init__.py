"""edgewise: measure and improve neural networks at the edge.

This module is the only public face; everything is imported on first use, so that ``import edgewise`` costs nothing.

It switches the telemetry of engines and their tools off in this process and in those that it starts: every process of
edgewise imports this module first.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from edgewise.version import __version__

TYPE_CHECKING = False  # as type checkers know it; importing typing would double the time until Ctrl-C is heard
if TYPE_CHECKING:
    from edgewise.api import (
        bench,
        calibrate,
        compare,
        convert,
        diff,
        estimate,
        evaluate,
        fits,
        import_runs,
        inspect,
        open_store,
        optimize,
        predict,
        profile,
    )
    from edgewise.errors import BadInput, BadModel, EdgewiseError, RunFailed, StoreError, Unavailable
    from edgewise.record import Caution, Finding, Job, Layer, Measurement, Profile, Run

# ONNX Runtime 1.32 makes a device id and a queue of events on disk while it is imported, unless it finds this.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
# Hugging Face's libraries ask for this one.
os.environ["DO_NOT_TRACK"] = "1"
# OpenVINO and NNCF send events through this package and do without where its import fails, which None makes it do.
# What was imported before stays: that can't be undone.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]

_HOMES = ("edgewise.errors", "edgewise.record", "edgewise.api")
"""The modules that have the public names; the first that has one is its home."""

__all__ = [
    "BadInput",
    "BadModel",
    "Caution",
    "EdgewiseError",
    "Finding",
    "Job",
    "Layer",
    "Measurement",
    "Profile",
    "Run",
    "RunFailed",
    "StoreError",
    "Unavailable",
    "__version__",
    "bench",
    "calibrate",
    "compare",
    "convert",
    "diff",
    "estimate",
    "evaluate",
    "fits",
    "import_runs",
    "inspect",
    "open_store",
    "optimize",
    "predict",
    "profile",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        return next(getattr(home, name) for home in map(import_module, _HOMES) if hasattr(home, name))
    if not name.startswith("_"):
        import_module("edgewise.api")  # which says how results and progress are shown
        found = import_module("edgewise.verbs.function").find_function(name)  # of a verb without a function in api.py
        if found is not None:
            return found
    raise AttributeError(f"module 'edgewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
