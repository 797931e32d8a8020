"""The messages between host and worker: JSON lines, one object a line, over any pair of byte streams.

The worker's first act is to keep file descriptor 1 for itself and to point everybody else's standard output at standard
error, so that a native library that prints can't corrupt the channel. Big arrays travel as files in the job's folder.
"""

from __future__ import annotations

import json
from typing import Any, Literal

PROTOCOL = 1

Mode = Literal["measure", "turns", "layers", "samples"]
"""What a worker does with its session: time inferences by itself, time them in turns that the host gives, time the
model's layers, or return outputs for samples that the host sends."""

MAX_TOLD_BYTES = 128 * 2**20
"""No honest worker tells more in all: ten million samples. Signs of life and progress are not kept and not counted."""
MAX_TOLD = 200
"""Nor in more messages; some forty are usual."""

#: message kind → fields it must have
MESSAGES: dict[str, tuple[str, ...]] = {
    "job": ("protocol", "runtime", "model", "options", "workload", "stopping", "folder"),
    "hello": ("protocol", "pid", "python"),
    "phase": ("name", "event"),
    "progress": ("done", "average_s"),
    "speed": ("done", "elapsed_s", "prefill_rate", "decode_rate"),
    "alive": (),
    "ready": (),
    "turn": ("seconds", "most"),
    "turned": ("count",),
    "count": (),
    "counted": (),
    "window": ("name", "event"),
    "infer": ("file",),
    "inferred": ("file", "times_ns"),
    "end": (),
    "samples": ("name", "values_ns"),
    "bin": ("begin_s", "end_s", "inferences", "median", "max", "counters", "readings", "problems", "values_ns"),
    "facts": ("values",),
    "outputs": ("file", "names"),
    "layers": ("profile",),
    "done": (),
    "failed": ("cause", "message"),
}


class ProtocolError(Exception):
    """The other side sent something that is not a message."""


def encode(kind: str, **fields: Any) -> bytes:
    """One message as a line. Raises KeyError for a kind that is not in `MESSAGES`."""
    missing = [name for name in MESSAGES[kind] if name not in fields]
    if missing:
        raise ValueError(f"message {kind!r} lacks {', '.join(missing)}")
    return json.dumps({"kind": kind, **fields}, separators=(",", ":"), allow_nan=True).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Return the message in `line`. Raises `ProtocolError` where it is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {line[:80]!r}") from error
    kind = message.get("kind") if isinstance(message, dict) else None
    if not isinstance(kind, str) or kind not in MESSAGES:
        raise ProtocolError(f"not a message: {line[:80]!r}")
    missing = [name for name in MESSAGES[kind] if name not in message]
    if missing:
        raise ProtocolError(f"message {kind!r} lacks {', '.join(missing)}")
    return dict(message)
