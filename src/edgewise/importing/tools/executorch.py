"""ExecuTorch's record of events, ETDump.

The format: ``devtools/etdump/etdump_schema_flatcc.fbs`` of github.com/pytorch/executorch. A file has
ticks of the system's clock: those of Linux, Android, Windows and Apple's systems are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from edgewise.importing.spec import Field, Form, Importer, LayerRows
from edgewise.model.readers.base import Wrong
from edgewise.model.readers.executorch_schema import LAYOUTS
from edgewise.model.readers.tflite_tables import Tables
from edgewise.runtime.base import CannotProfile
from edgewise.runtime.executorch_profile import DELEGATE, WHOLE, Event, RecordedInference, read_events, read_inference

_LOAD = "Program::load_method"


def _decode(content: bytes) -> dict[str, Any]:
    try:
        return describe_blocks(read_events(Tables(Path(), content, LAYOUTS)))
    except (Wrong, CannotProfile, UnicodeDecodeError) as error:
        raise ValueError("it is damaged" if isinstance(error, UnicodeDecodeError) else str(error)) from error


def describe_blocks(blocks: Sequence[Sequence[Event]]) -> dict[str, Any]:
    """Return the inferences of each method, which ran steps of its own. Raises ValueError and `CannotProfile`."""
    recorded = [read_inference(block) for block in blocks if any(each.name == WHOLE for each in block)]
    if not recorded:
        raise ValueError("it has no inference")
    methods: dict[tuple[tuple[str, int], ...], list[RecordedInference]] = {}
    for each in recorded:
        methods.setdefault(tuple((step.name, step.instruction) for step in each.steps), []).append(each)
    loads = [each.length for block in blocks for each in block if each.name == _LOAD]
    loads = loads if len(methods) == 1 else []
    return {"methods": [_describe_method(inferences, loads) for inferences in methods.values()]}


def _describe_method(inferences: list[RecordedInference], loads: list[int]) -> dict[str, Any]:
    """Return times in ns: of inferences and steps, and where the loading was recorded, of the first inference."""
    first, others = (inferences[0], inferences[1:]) if loads else (None, inferences)
    steps = [
        {
            "name": step.place,
            "op": step.op,
            "provider": "a delegate" if step.delegated or step.name == DELEGATE else "ExecuTorch's kernels",
            "time": median(each.steps[at].length for each in others or inferences) or None,
        }
        for at, step in enumerate(inferences[0].steps)
    ]
    return {
        "first": first and first.method_ns,
        "times": [each.method_ns for each in others],
        "load": loads[0] if len(loads) == 1 else None,
        "steps": steps,
    }


class EtDump(Importer):
    """A record of events that a program of ExecuTorch wrote."""

    title = "ExecuTorch's event tracer"
    runtime = "executorch"
    forms = (
        Form(
            title="ETDump", kind="binary", mark=r"\A[\0-\xff]{8}ED00", decode=_decode, each="methods",
            expects="a record of inferences with the steps of their methods",
            method="the engine's own clock, whose ticks are taken as nanoseconds; recording the steps costs time",
            fields=(
                Field("latency_engine", "times", unit="ns", samples=True),
                Field("latency_first", "first", unit="ns"),
                Field("load_time", "load", unit="ns", note="of the method, without reading the file"),
            ),
            rows=LayerRows(
                at="steps[*]", columns={"name": "name", "op": "op", "provider": "provider", "time": "time"}, unit="ns",
                method="ExecuTorch's event tracer: median time of each step; XNNPACK tells whole microseconds",
            ),
            gives=("iterations",),
        ),
    )  # fmt: skip
    absent: Mapping[str, str] = {"latency": "the record has one inference, which is the first after loading"}
