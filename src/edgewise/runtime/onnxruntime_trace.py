"""The profile that ONNX Runtime writes: a list of events in the Trace Event format, read into times per step.

An event is written when it ends, so that the events of an inference stand before its ``model_run``, and those inside a
body (of If, Loop, Scan) before the operator that runs it. Unknown events and fields are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise.runtime.base import CannotProfile
from edgewise.runtime.onnxruntime_session import DTYPES

_KERNEL = "_kernel_time"
_BODIES = frozenset({"If", "Loop", "Scan"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTimes:
    """One kernel in all inferences; times in whole microseconds, cut.

    Attributes:
        starts: after the beginning of its inference.
        dtype: of its first input, or output where it has none.
    """

    name: str
    op: str
    provider: str | None
    dtype: str | None
    durations: tuple[int, ...]
    starts: tuple[int, ...]
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KernelTrace:
    """Steps in the order of execution, and per inference the time of the executor and of the whole session, µs."""

    steps: tuple[KernelTimes, ...]
    executions: tuple[int, ...]
    sessions: tuple[int, ...]


@dataclass(slots=True)
class _Event:
    name: str
    op: str
    start: int
    duration: int
    arguments: Mapping[str, Any]
    inner: list[_Event] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.name, self.op, str(self.arguments.get("node_index", ""))


@dataclass(slots=True)
class _TracedInference:
    start: int
    duration: int
    execution: int
    events: list[_Event]


def read_trace(path: Path, *, inferences: int, counted: Sequence[int] | None = None) -> KernelTrace:
    """Those of the last `inferences` inferences in the profile at `path` whose places are in `counted` (None: all).

    Raises `CannotProfile` where the file is damaged, holds fewer, or its inferences differ in their steps.
    """
    try:
        with path.open("rb") as file:
            return parse_trace(file, inferences=inferences, counted=counted)
    except OSError as error:
        raise CannotProfile(f"ONNX Runtime's profile can't be read: {error.strerror}") from error


def parse_trace(lines: Iterable[bytes], *, inferences: int, counted: Sequence[int] | None = None) -> KernelTrace:
    """As `read_trace`, from the file's lines."""
    runs = list(_split(_entries(lines)))
    if len(runs) < inferences:
        raise CannotProfile(
            f"ONNX Runtime's profile contains {len(runs)} of {inferences} inferences; profile fewer, because it "
            "keeps a million events"
        )
    runs = runs[-inferences:]
    first = [event.key for event in runs[0].events]
    if not first:
        raise CannotProfile("ONNX Runtime's profile contains no times of operators")
    if any([event.key for event in run.events] != first for run in runs):
        raise CannotProfile("the inferences in ONNX Runtime's profile have different steps")
    if any(sum(event.duration for event in run.events) > run.execution for run in runs):
        raise CannotProfile("ONNX Runtime's profile shows operators that took longer than the whole")
    runs = runs if counted is None else [runs[place] for place in counted]
    steps = tuple(_step([run.events[at] for run in runs], runs) for at in range(len(first)))
    return KernelTrace(steps, tuple(run.execution for run in runs), tuple(run.duration for run in runs))


def _entries(lines: Iterable[bytes]) -> Iterator[Any]:
    """Every entry of the list. The engine writes one a line, which spares holding all of them at once."""
    rest = iter(lines)
    first = next(rest, b"").strip()
    try:
        if first != b"[":
            document = json.loads(b"".join((first, *rest)))
            yield from document if isinstance(document, list) else ()
            return
        text = b""
        for line in rest:
            text = line.strip()
            if text and text != b"]":
                yield json.loads(text.removesuffix(b","))
    except (ValueError, RecursionError) as error:
        raise CannotProfile("ONNX Runtime's profile is damaged or cut off") from error
    if text != b"]":
        raise CannotProfile("ONNX Runtime's profile is cut off")


def _split(document: Iterable[Any]) -> Iterator[_TracedInference]:
    """Every inference with its events."""
    events: list[_Event] = []
    execution = 0
    for entry in document:
        if not isinstance(entry, dict):
            continue
        name, category = str(entry.get("name", "")), entry.get("cat")
        if category == "Node" and name.endswith(_KERNEL):
            _take(events, _event(entry, name))
        elif category == "Session" and name.endswith("Executor::Execute"):
            # Bodies have executors of their own, inside the outermost, which takes longest.
            execution = max(execution, _microseconds(entry, "dur"))
        elif category == "Session" and name == "model_run":
            yield _TracedInference(_microseconds(entry, "ts"), _microseconds(entry, "dur"), execution, events)
            events, execution = [], 0


def _take(events: list[_Event], event: _Event) -> None:
    """Append `event`; those that began after it, in a body of its own, go inside."""
    at = len(events)
    while at and (events[at - 1].start > event.start or (event.op in _BODIES and events[at - 1].start == event.start)):
        at -= 1
    event.inner = events[at:]
    events[at:] = [event]


def _event(entry: Mapping[str, Any], name: str) -> _Event:
    arguments = entry.get("args")
    arguments = arguments if isinstance(arguments, dict) else {}
    return _Event(
        name=name.removesuffix(_KERNEL), op=str(arguments.get("op_name", "")), start=_microseconds(entry, "ts"),
        duration=_microseconds(entry, "dur"), arguments=arguments,
    )  # fmt: skip


def _microseconds(entry: Mapping[str, Any], name: str) -> int:
    value = entry.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise CannotProfile(f"an event of ONNX Runtime's profile has no usable {name!r}")
    return value


def _step(events: Sequence[_Event], runs: Sequence[_TracedInference]) -> KernelTimes:
    """One step from its event in every inference."""
    first = events[0]
    provider = first.arguments.get("provider")
    detail: dict[str, Any] = {
        name: first.arguments[key]
        for name, key in (("input_shapes", "input_type_shape"), ("output_shapes", "output_type_shape"))
        if isinstance(first.arguments.get(key), list)
    }
    if first.inner:
        detail["inner_steps"] = [
            {"name": event.name, "op": event.op, "time_ns": 1e3 * event.duration} for event in first.inner[:1000]
        ]
    return KernelTimes(
        name=first.name,
        op=first.op,
        provider=str(provider) if provider else None,
        dtype=_dtype(detail.get("input_shapes")) or _dtype(detail.get("output_shapes")),
        durations=tuple(event.duration for event in events),
        starts=tuple(max(0, event.start - run.start) for event, run in zip(events, runs, strict=True)),
        detail=detail,
    )


def _dtype(shapes: Any) -> str | None:
    """Return the type of the first tensor in a list of ``{type: shape}``."""
    for entry in shapes or ():
        if isinstance(entry, dict):
            return next((DTYPES.get(str(kind), str(kind)) for kind in entry), None)
    return None
