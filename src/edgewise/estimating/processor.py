"""The processor beside an accelerator: what the operators cost that the accelerator leaves to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgewise.errors import BadInput, RunFailed, Unavailable
from edgewise.estimating.base import EstimatedLayer, find_device
from edgewise.model.graph import Graph
from edgewise.record import Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorPart:
    """What the processor needs for some operators of a model.

    Attributes:
        layers: index of an operator → its layer on the processor, with instructions where they are counted.
        seconds: for all of them; None where it is not known.
        low, high: interval of `seconds`; None where it has none.
        clock_hz: of the processor; None without operators, or where it is not known.
        software: what executes them, and what computed `seconds`.
        absent_because: why `seconds` is None.
    """

    layers: Mapping[int, EstimatedLayer] = field(default_factory=dict)
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    clock_hz: float | None = None
    software: str = ""
    absent_because: str = ""

    def layer(self, known: EstimatedLayer, *, because: str) -> EstimatedLayer:
        """Return the layer of an operator on the processor; `known` where nothing is known of it. `because`
        says why there.
        """
        found = self.layers.get(-1 if known.index is None else known.index, replace(known, unit="CPU"))
        return replace(found, because=found.because or because)

    def absent_latency(self, operators: Sequence[str], *, known: str) -> Measurement:
        """Return the latency of a model whose `operators` take an unknown time; `known` says what the others take."""
        names = ", ".join(dict.fromkeys(operators))
        return Measurement.absent(
            "latency",
            f"{len(operators)} operator(s) are executed by the CPU ({names}), whose time is not known: "
            f"{self.absent_because}; {known}",
        )

    def rows(self) -> tuple[Measurement, ...]:
        """Return the processor's cycles, with their interval; nothing without operators on the processor."""
        if self.seconds is None:
            return (Measurement.absent("cpu_cycles", self.absent_because),)
        if self.clock_hz is None:
            return ()
        if self.layers and not any(layer.unit for layer in self.layers.values()):
            return (Measurement.absent("cpu_cycles", "nothing is executed for the operators on the CPU"),)
        low, high = (None if end is None else end * self.clock_hz for end in (self.low, self.high))
        how = f"the operators on the CPU, without its time to start the accelerator: {self.software}"
        cycles = self.seconds * self.clock_hz
        return (Measurement.of("cpu_cycles", cycles, how, basis="estimated", low=low, high=high),)


def processor_part(
    path: Path, graph: Graph, operators: Iterable[int], *, core: str, clock_hz: float | None
) -> ProcessorPart:
    """Return the part of the model at `path` that the device `core` executes: the operators with these indices.

    Args:
        core: a device that another estimator knows, such as ``cortex-m55`` or ``cortex-m55@400MHz``.
        clock_hz: its clock where `core` names none.

    Raises:
        BadInput: there is no such core.
    """
    try:
        estimator, device = find_device(core)
        if not device.core or device.board is not None:
            raise BadInput(
                f"the processor beside an accelerator must be a core, not {core}", advice="such as cortex-m55"
            )
    except Unavailable as error:
        estimator, reason = None, f"{error.message} ({error.advice})"
    wanted = set(operators)
    if not wanted:
        return ProcessorPart(seconds=0.0, low=0.0, high=0.0)
    if estimator is None:
        return ProcessorPart(absent_because=reason)
    clock_hz = device.clock_hz or clock_hz
    try:
        found = estimator.estimate(path, graph, replace(device, clock_hz=clock_hz))
    except (BadInput, RunFailed, Unavailable) as error:
        return ProcessorPart(absent_because=error.message)
    if found.refused is not None:
        return ProcessorPart(absent_because=f"{device.title} can't execute the model: {found.refused}")
    layers = {layer.index: layer for layer in found.layers if layer.index in wanted}
    part = ProcessorPart(layers=layers, clock_hz=clock_hz, software=found.software)
    times = [layer.time for layer in layers.values() if layer.unit]
    if not times:  # nothing is executed for them
        return replace(part, seconds=0.0, low=0.0, high=0.0)
    latency = found.measurement("latency")
    if latency is None or latency.value is None or None in times:
        because = latency.absent_because if latency is not None else None
        return replace(part, absent_because=because or f"{device.title} has no time per operator")
    seconds = sum(each for each in times if each is not None)
    low, high = (None if end is None else seconds * end / latency.value for end in (latency.low, latency.high))
    return replace(part, seconds=seconds, low=low, high=high)
