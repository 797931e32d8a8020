"""Silicon Labs' MVP beside a Cortex-M33, as in EFR32xG24: edgewise's own model.

The accelerator's cycles follow from the programs that the driver makes (`mvp_programs`). The CPU starts the first
program, and prepares the next one while one runs, so an operator takes the longer of the two::

    seconds = (start + max(cycles + wait × streamed bytes, start × programs)) / clock

``mvp.json`` has ``wait`` (cycles per byte of weights) and ``start`` (cycles per program), fitted by
``tools/fit_mvp.py`` on Silicon Labs' published results of MLPerf Tiny, with the errors on models left out of the fit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.estimating.base import AS_TFLITE, Estimate, EstimatedDevice, EstimatedLayer, board_device
from edgewise.estimating.boards import MVP, boards
from edgewise.estimating.mcu.folding import fold_shapes
from edgewise.estimating.mcu.lowering import advice_of
from edgewise.estimating.mcu.network import IntNetwork, read_network
from edgewise.estimating.mvp_programs import NotAccelerated, NotModelled, Programs, programs_of
from edgewise.estimating.processor import ProcessorPart, processor_part
from edgewise.model.cost import count
from edgewise.model.graph import Graph, Operator
from edgewise.model.memory_plan import plan_memory
from edgewise.record import Measurement
from edgewise.registry import Availability
from edgewise.units import format_duration

CORE, CLOCK_HZ = "cortex-m33", 78e6
PROGRAM_BOUND = "the CPU takes longer to start the accelerator's programs than they take to run"
_DEFAULT = "gecko-sdk-4.1"


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the operators of a network are executed.

    Attributes:
        programs: index of an operator → what the accelerator executes for it.
        left: index of an operator that the CPU executes → the reason.
        unknown: index of an operator whose cycles are not known → the reason.
    """

    programs: Mapping[int, Programs]
    left: Mapping[int, str]
    unknown: Mapping[int, str]


class Mvp:
    """Estimates microcontrollers with the accelerator MVP."""

    name = "mvp"
    reads = "tflite"
    title = "Silicon Labs MVP accelerators, by edgewise's model of their programs"
    settings: Mapping[str, str] = {"software": f"Driver of the accelerator: {_DEFAULT} or gecko-sdk-4.0."}

    def availability(self) -> Availability:
        """Return that it is always available; the CPU's part needs what Cortex-M cores need."""
        return Availability(True)

    def devices(self) -> Sequence[EstimatedDevice]:
        """Return the microcontroller, and the boards with it."""
        chip = EstimatedDevice(
            name="xg24",
            title="Silicon Labs EFR32xG24: Arm Cortex-M33 with the accelerator MVP",
            estimator=self.name,
            clock_hz=CLOCK_HZ,
            core=CORE,
        )
        found = [chip, *(board_device(each, self.name) for each in boards().values() if each.accelerator == MVP)]
        return [replace(device, settings={"software": _DEFAULT}) for device in found]

    def estimate(self, path: Path, graph: Graph, device: EstimatedDevice) -> Estimate:
        """As `edgewise.estimating.base.Estimator.estimate`."""
        if graph.format != "tflite":
            raise BadInput(f"{path.name}: the MVP's driver is part of TensorFlow Lite Micro, which reads .tflite files",
                           advice=AS_TFLITE)  # fmt: skip
        if device.clock_hz is None or not 1e6 <= device.clock_hz <= CLOCK_HZ:
            raise BadInput(f"the clock of {device.name} is 1 to 78 MHz", advice=f"such as {device.name}@39MHz")
        fit = fitted(device.settings["software"])
        network = fold_shapes(read_network(path))
        placed = place(network, scaled_first=fit["scaled_first"])
        if not placed.programs and not placed.unknown:
            reasons = "; ".join(dict.fromkeys(placed.left.values())) or "it has none"
            return Estimate(
                model={},
                device=device,
                software=_software(device, None),
                refused=f"the MVP executes none of the model's operators: {reasons}",
                advice=advice_of(network) or f"'edgewise estimate {path} -d {CORE}' estimates it on the CPU",
            )
        part = processor_part(path, graph, placed.left, core=CORE, clock_hz=device.clock_hz)
        timed = _Timed(graph=graph, device=device, placed=placed, part=part, fit=fit)
        layers = timed.layers()
        return Estimate(
            model={},
            device=device,
            software=_software(device, part),
            conditions=timed.conditions(),
            measurements=timed.measurements(layers),
            layers=layers,
            coverage={"latency": fit["coverage"]},
            at_least={} if part.seconds is not None and not placed.unknown else {"latency": timed.busy(layers)},
        )


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    text = (resources.files("edgewise.estimating") / "mvp.json").read_text(encoding="utf-8")
    found: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return found


def fitted(software: str) -> Mapping[str, Any]:
    """Return the fitted numbers for `software`, and their errors. Raises `BadInput` for an unknown one."""
    if software not in _table():
        raise BadInput(
            f"software must be {' or '.join(_table())}, not {software!r}", advice=f"such as ⟦set⟧ software={_DEFAULT}"
        )
    return _table()[software]


def place(network: IntNetwork, *, scaled_first: bool) -> Placed:
    """Where the operators are executed; `scaled_first` is that of `programs_of`."""
    programs: dict[int, Programs] = {}
    left: dict[int, str] = {}
    unknown: dict[int, str] = {}
    for operator in network.operators:
        try:
            programs[operator.index] = programs_of(operator, scaled_first=scaled_first)
        except NotAccelerated as error:
            left[operator.index] = str(error)
        except NotModelled as error:
            unknown[operator.index] = str(error)
    return Placed(programs, left, unknown)


def cycles_of(programs: Programs, *, wait: float, start: float) -> tuple[float, float]:
    """Cycles of an operator from its call to its end, and those of them in which the CPU starts programs."""
    accelerator, cpu = programs.cycles + wait * programs.streamed_bytes, start * programs.count
    return start + max(accelerator, cpu), start + cpu


def _software(device: EstimatedDevice, part: ProcessorPart | None) -> str:
    driver = f"the MVP's driver of {device.settings['software']}, modelled by edgewise"
    return f"{driver}; CPU: {part.software}" if part is not None and part.software else driver


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    """What the rows and layers of an estimate are computed from; `fit` is that of the device's software."""

    graph: Graph
    device: EstimatedDevice
    placed: Placed
    part: ProcessorPart
    fit: Mapping[str, Any]

    @property
    def _clock(self) -> float:
        return self.device.clock_hz or CLOCK_HZ

    def conditions(self) -> tuple[str, ...]:
        fit = self.fit
        other = "" if self._clock == CLOCK_HZ else " The waits were fitted at 78 MHz and may differ at other clocks."
        return (
            "Accelerator cycles are without waits for memory, as in Silicon Labs' simulator; times are with them and "
            f"with the CPU's time to start the accelerator's programs. The weights are in flash.{other}",
            f"The times are fitted on {fit['rows']} published latencies of MLPerf Tiny (xG24, 78 MHz, two drivers). "
            f"The mean error of this driver on models left out of the fit is {fit['mean_error']:.1%}, the largest "
            f"{fit['largest_error']:.1%}.",
        )

    def layers(self) -> tuple[EstimatedLayer, ...]:
        """One layer per operator."""
        return tuple(map(self._layer, self.graph.operators))

    def _layer(self, operator: Operator) -> EstimatedLayer:
        at, macs = operator.index, count(operator, self.graph).macs
        name = operator.label or operator.name
        layer = EstimatedLayer(index=at, name=name, op=operator.op, unit="MVP", macs=macs)
        if (programs := self.placed.programs.get(at)) is not None:
            total, cpu = cycles_of(programs, wait=self.fit["wait"], start=self.fit["start"])
            return replace(
                layer,
                cycles=programs.cycles,
                time=total / self._clock,
                steps=(f"{programs.count} programs",),
                because=PROGRAM_BOUND if cpu == total else "",
            )
        if (why := self.placed.unknown.get(at)) is not None:
            return replace(layer, because=why)
        return self.part.layer(layer, because=self.placed.left[at])

    def measurements(self, layers: Sequence[EstimatedLayer]) -> tuple[Measurement, ...]:
        """Latency, accelerator cycles, energy and arena."""
        plan, unknown = plan_memory(self.graph), self.placed.unknown
        cycles = sum(each.cycles for each in self.placed.programs.values())
        latency = self._latency(layers)
        return (
            latency,
            Measurement.absent("accelerator_cycles", next(iter(unknown.values())))
            if unknown
            else Measurement.of("accelerator_cycles", cycles, "instructions of its programs", basis="estimated"),
            self._processor_cycles(),
            self._energy(latency),
            Measurement.absent("memory_arena", "its memory can't be planned")
            if plan.arena_bytes is None or plan.unknown
            else Measurement.of("memory_arena", plan.arena_bytes, "static plan of the activations", basis="derived"),
        )

    def busy(self, layers: Sequence[EstimatedLayer]) -> float:
        """Seconds of the operators on the MVP."""
        return sum(layer.time or 0.0 for layer in layers if layer.index in self.placed.programs)

    def _latency(self, layers: Sequence[EstimatedLayer]) -> Measurement:
        placed, part, half = self.placed, self.part, self.fit["half_width"]
        busy = self.busy(layers)
        known = f"the operators on the MVP take {format_duration(busy)}"
        if placed.unknown:
            why = "; ".join(f"{self.graph.operators[at].op}: {reason}" for at, reason in placed.unknown.items())
            return Measurement.absent("latency", f"{why}; {known}")
        if part.seconds is None:
            return part.absent_latency([self.graph.operators[at].op for at in placed.left], known=known)
        return Measurement.of(
            "latency",
            busy + part.seconds,
            "per operator: max(accelerator with its waits, CPU that starts its programs); operators on the CPU as on "
            f"{CORE}; {self.fit['coverage']:.0%} interval from the errors on models left out of the fit",
            basis="estimated",
            low=None if part.low is None else busy * math.exp(-half) + part.low,
            high=None if part.high is None else busy * math.exp(half) + part.high,
        )

    def _processor_cycles(self) -> Measurement:
        if self.part.seconds is None:
            return Measurement.absent("cpu_cycles", self.part.absent_because)
        fit, programs = self.fit, self.placed.programs.values()
        starting = sum(cycles_of(each, wait=fit["wait"], start=fit["start"])[1] for each in programs)
        how = "time to start the accelerator's programs, as fitted, and the operators on the CPU"
        return Measurement.of("cpu_cycles", starting + self.part.seconds * self._clock, how, basis="estimated")

    def _energy(self, latency: Measurement) -> Measurement:
        if latency.value is None:
            return Measurement.absent("energy", "the energy is computed from the latency, which is not known")
        if self._clock != CLOCK_HZ:
            return Measurement.absent("energy", "the power is published at 78 MHz only")
        power, least, most = (self.fit["power"][name] for name in ("mean", "low", "high"))
        return Measurement.of(
            "energy",
            latency.value * power,
            f"latency × {1e3 * power:.3g} mW, the mean of the powers that were published with the latencies; interval "
            f"with the least and the most ({1e3 * least:.3g} and {1e3 * most:.3g} mW)",
            basis="estimated",
            low=None if latency.low is None else latency.low * least,
            high=None if latency.high is None else latency.high * most,
        )
