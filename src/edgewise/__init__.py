"""edgewise: measure and improve neural networks at the edge.

This module is the only public face; everything is imported on first use, so that ``import edgewise`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgewise.api import bench, open_store
    from edgewise.errors import BadInput, BadModel, EdgewiseError, RunFailed, StoreError, Unavailable
    from edgewise.record import Caution, Job, Measurement, Run

__version__ = "0.1.0"

_HOMES = {
    "bench": "edgewise.api",
    "open_store": "edgewise.api",
    "BadInput": "edgewise.errors",
    "BadModel": "edgewise.errors",
    "EdgewiseError": "edgewise.errors",
    "RunFailed": "edgewise.errors",
    "StoreError": "edgewise.errors",
    "Unavailable": "edgewise.errors",
    "Caution": "edgewise.record",
    "Job": "edgewise.record",
    "Measurement": "edgewise.record",
    "Run": "edgewise.record",
}

__all__ = [
    "BadInput",
    "BadModel",
    "Caution",
    "EdgewiseError",
    "Job",
    "Measurement",
    "Run",
    "RunFailed",
    "StoreError",
    "Unavailable",
    "__version__",
    "bench",
    "open_store",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'edgewise' has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
