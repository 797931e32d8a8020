"""The processor beside an accelerator: what the operators cost that the accelerator leaves to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgewise.errors import BadInput, Unavailable
from edgewise.estimating.base import EstimatedLayer, find_device
from edgewise.model.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorPart:
    """What the processor needs for some operators of a model.

    Attributes:
        layers: index of an operator → its layer on the processor, with instructions where they are counted.
        seconds: for all of them; None where it is not known.
        low, high: interval of `seconds`; None where it has none.
        software: what executes them, and what computed `seconds`.
        absent_because: why `seconds` is None.
    """

    layers: Mapping[int, EstimatedLayer] = field(default_factory=dict)
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    software: str = ""
    absent_because: str = ""


def processor_part(
    path: Path, graph: Graph, operators: Iterable[int], *, core: str, clock_hz: float | None
) -> ProcessorPart:
    """The part of the model at `path` that the device `core` executes: the operators with these indices.

    Args:
        core: a device that another estimator knows, such as ``cortex-m55`` or ``cortex-m55@400MHz``.
        clock_hz: its clock where `core` names none.

    Raises:
        BadInput: there is no such device.
    """
    wanted = set(operators)
    if not wanted:
        return ProcessorPart(seconds=0.0, low=0.0, high=0.0)
    try:
        estimator, device = find_device(core)
    except Unavailable as error:
        return ProcessorPart(absent_because=f"{error.message} ({error.advice})")
    found = estimator.estimate(path, graph, device if device.clock_hz else replace(device, clock_hz=clock_hz))
    if found.refused is not None:
        return ProcessorPart(absent_because=f"{core} can't execute the model: {found.refused}")
    layers = {layer.index: layer for layer in found.layers if layer.index in wanted}
    times = [layer.time for layer in layers.values() if layer.unit]
    latency = found.measurement("latency")
    if latency is None or latency.value is None or None in times:
        because = latency.absent_because if latency is not None else None
        return ProcessorPart(layers=layers, software=found.software, absent_because=because or "no time per operator")
    seconds = sum(each for each in times if each is not None)
    low, high = (None if end is None else seconds * end / latency.value for end in (latency.low, latency.high))
    return ProcessorPart(layers=layers, seconds=seconds, low=low, high=high, software=found.software)


def check_core(name: str) -> None:
    """Raise `BadInput` unless a core beside an accelerator is called `name`, with or without a clock."""
    try:
        _, device = find_device(name)
    except Unavailable:
        return
    if not device.core or device.board is not None:
        raise BadInput(f"cpu must be a core such as cortex-m55, not {name!r}")
