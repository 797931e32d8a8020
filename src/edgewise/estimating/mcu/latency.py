"""Cycles, latency and energy of an estimate, from the costs of its operators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgewise.estimating.base import EstimatedDevice, EstimatedLayer
from edgewise.estimating.mcu.costs import OperatorCosts
from edgewise.estimating.mcu.timing import DEFAULT_SOFTWARE, NoTiming, Timing, fitted, time_operators
from edgewise.record import Measurement
from edgewise.units import format_si

SETTING = f"Software that the board executes: {', '.join(fitted()['software'])}. Its speed is from published latencies."


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What timing adds to an estimate.

    Attributes:
        layers: with cycles and times, and one more for the runtime's work between the operators.
        measurements: cycles, latency and energy; absent with the reason where they are not known.
        coverage: metric → share of cases in which its interval contains the true value.
        conditions: what the numbers assume, in sentences.
    """

    layers: tuple[EstimatedLayer, ...]
    measurements: tuple[Measurement, ...]
    coverage: Mapping[str, float]
    conditions: tuple[str, ...]


def time_layers(
    device: EstimatedDevice,
    layers: Sequence[EstimatedLayer],
    costs: Sequence[OperatorCosts | None],
    *,
    count_error: float = 0.0,
) -> Timed:
    """Time the layers of an estimate.

    Args:
        device: with its clock and the setting ``software``.
        layers: one per operator.
        costs: of each layer; None where nothing is executed.
        count_error: of the instructions, relative to their number.

    Raises:
        BadInput: the software is unknown.
    """
    board = device.board.name if device.board else None
    software = device.settings.get("software", DEFAULT_SOFTWARE)
    executed = [each for each in costs if each is not None]
    try:
        timing = time_operators(executed, core=device.core, board=board, software=software, count_error=count_error)
    except NoTiming as none:
        absent = tuple(Measurement.absent(metric, str(none)) for metric in ("cpu_cycles", "latency", "energy"))
        return Timed(layers=tuple(layers), measurements=absent, coverage={}, conditions=())
    cycles = Measurement.of(
        "cpu_cycles", timing.total, timing.method, basis="estimated", low=timing.low, high=timing.high
    )
    latency = _latency(device, timing, software)
    energy = _energy(device, latency, timing)
    return Timed(
        layers=_timed(layers, costs, timing, device.clock_hz),
        measurements=(cycles, latency, energy),
        coverage={row.metric: timing.coverage for row in (cycles, latency, energy) if row.value is not None},
        conditions=(
            f"Cycles: {timing.method}. The intervals contain the value of another model in {timing.coverage:.0%} of "
            "cases. Waits for flash are those of the published latencies, at the highest clock of their boards.",
        ),
    )


def _timed(
    layers: Sequence[EstimatedLayer], costs: Sequence[OperatorCosts | None], timing: Timing, clock_hz: float | None
) -> tuple[EstimatedLayer, ...]:
    cycles = iter(timing.operators)
    found = [
        layer if cost is None else replace(layer, cycles=next(cycles))
        for layer, cost in zip(layers, costs, strict=True)
    ]
    if timing.start:
        why = "the runtime's work before and after the operators"
        found.append(EstimatedLayer(index=None, name="start", op="", unit="CPU", cycles=timing.start, because=why))
    if clock_hz is None:
        return tuple(found)
    return tuple(layer if layer.cycles is None else replace(layer, time=layer.cycles / clock_hz) for layer in found)


def _latency(device: EstimatedDevice, timing: Timing, software: str) -> Measurement:
    clock = device.clock_hz
    if clock is None:
        return Measurement.absent("latency", f"no clock is given: ⟦device={device.name}@120MHz⟧, for example")
    return Measurement.of(
        "latency", timing.total / clock, f"estimated cycles with {software} at {format_si(clock, 'Hz')}",
        basis="estimated", low=timing.low / clock, high=timing.high / clock,
    )  # fmt: skip


def _energy(device: EstimatedDevice, latency: Measurement, timing: Timing) -> Measurement:
    board, power = device.board, fitted()["power"]
    if board is None:
        return Measurement.absent("energy", "a core has no power of its own; some boards have: ⟦device=nucleo-l4r5zi⟧")
    if latency.value is None:
        return Measurement.absent("energy", f"the latency is absent: {latency.absent_because}")
    if board.power_w is None:
        return Measurement.absent("energy", "no source gives the power of this board")
    if board.accelerator:
        return Measurement.absent("energy", "the power of this board was measured with its accelerator at work")
    if device.clock_hz != board.clock_hz:
        most = format_si(board.clock_hz, "Hz")
        return Measurement.absent("energy", f"the power of this board was measured at {most}")
    value = board.power_w * latency.value
    # The errors of power and latency are independent.
    times = math.exp(math.hypot(timing.half_width, power["half_width"]))
    return Measurement.of(
        "energy", value,
        f"{format_si(board.power_w, 'W')} of {board.power_includes or 'the board'} × latency; the power of a board "
        f"from other submissions tells the energy within {power['mape']:.0%} on average",
        basis="estimated", low=value / times, high=value * times,
    )  # fmt: skip
