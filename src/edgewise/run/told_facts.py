"""Checks the facts of a worker: a device that sends other types fails its own run, and never the whole command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.run.protocol import ProtocolError

MOST = 2**63

_Number = (int, float, type(None))
_Text = (str, type(None))
TURN_LISTS = ("turns", "turn_wall_ns", "turn_processor_ns")
"""Of a process that took turns, of each: inferences, time and processor time."""
_NUMBERS = {"*": _Number}
_SHAPES: Mapping[str, Any] = {
    **dict.fromkeys(("memory_baseline", "memory_load", "memory_peak", "counters", "file_cache"), _NUMBERS),
    "reference": {"start": _NUMBERS, "end": _NUMBERS, "version": _Number},
    "steady": {"stopped_because": _Text, **dict.fromkeys(TURN_LISTS, list), "*": _Number},
    "effective": {"threads": _Number, "requests": _Number, "precision": _Text, "fixed_dimensions": {"*": {"*": int}}},
    "compiled": {"*": bool},
    "cautions": {"*": _Text},
    "background_cpu": _Number,
    "output_bytes": _Number,
    "engine_version": _Text,
    "not_imported": _Text,
    "generation": {"prompt_tokens": list, "gaps": list, "first_text_s": list},
    "inputs": list,
    "outputs": list,
}
"""Fact → types of its value, or key → types of each value in it, where ``*`` stands for all other keys."""


def check_facts(values: Mapping[str, Any]) -> None:
    """Check the types of the facts that results are computed from. Raises `ProtocolError`."""
    _check(values, _SHAPES, "facts")


def _check(value: Any, shape: Any, name: str) -> None:
    if isinstance(shape, Mapping):
        if not isinstance(value, Mapping):
            raise ProtocolError(f"{name} is not an object")
        for key, inner in value.items():
            if (expected := shape.get(key, shape.get("*"))) is not None:
                _check(inner, expected, f"{name}.{str(key)[:40]}")
    elif not isinstance(value, shape) or (isinstance(value, int | float) and not -MOST < value < MOST):
        raise ProtocolError(f"{name} has the wrong type or is no finite number")
