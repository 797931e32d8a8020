"""The seam to estimators, and what they give."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from edgewise.errors import BadInput, Unavailable
from edgewise.estimating.boards import CORE_TITLES, Board, Fit, boards
from edgewise.formatting import quantity
from edgewise.model.graph import Graph
from edgewise.model.memory_plan import MemoryPlan, describe_plan
from edgewise.record import LayerTensor, Measurement
from edgewise.registry import Availability, Registry, availability_of
from edgewise.shown import Shown
from edgewise.units import parse_frequency

AS_TFLITE = (
    "make a .tflite file: edgewise convert FILE.onnx --to tflite, or from the network's source edgewise convert "
    "FILE.py:FUNCTION --to tflite, for PyTorch (pip install 'edgewise[torch-optimize]') or Keras"
)
"""Advice where an estimator reads another format."""
SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedDevice:
    """Hardware that an estimator knows.

    Attributes:
        name: as ``-d`` takes it.
        title: what it is, in words.
        estimator: the name of the estimator.
        clock_hz: None is the clock of the settings.
        settings: of the estimator, each with its value; shown with every estimate.
        core: that executes the program, as `edgewise.estimating.boards.Board.core`; "" where that is no core.
        board: of the catalogue; None for a bare core or an accelerator.
    """

    name: str
    title: str
    estimator: str
    clock_hz: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    core: str = ""
    board: Board | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedLayer:
    """What one operator of the model costs on the device.

    Attributes:
        index: of the operator in the model; None for work that belongs to no single one.
        unit: what executes it: ``NPU`` or ``CPU``; "" where nothing is left to execute.
        macs: multiply-accumulates of the operator, None where unknown.
        instructions: that the unit executes; None where they are not counted.
        instruction_classes: number of instructions per class, as `edgewise.estimating.mcu.costs.CLASSES`; None where
            only their sum is known.
        flash_read_bytes: data that the instructions read from flash; None where it is not counted.
        cycles: of the unit, with its waits for memory; None where they are not estimated.
        time: s.
        utilization: MACs divided by what the unit could do in these cycles; None without MACs or cycles.
        steps: the operations of the unit that carry it out.
        because: why it is executed where it is, or not estimated; "" where there is nothing to say.
        energy: J; None where it is not estimated.
        ops, parameters, weight_bytes, inputs, outputs, attributes: from the model's graph, filled by
            `edgewise.estimating.model_facts`; None or empty where they are unknown, and for work that belongs to no
            single operator.
        live_bytes: of activations that are in memory while the operator runs, by the memory plan of the graph.
    """

    index: int | None
    name: str
    op: str
    unit: str
    macs: int | None = None
    instructions: int | None = None
    cycles: float | None = None
    time: float | None = None
    utilization: float | None = None
    steps: tuple[str, ...] = ()
    because: str = ""
    energy: float | None = None
    ops: int | None = None
    parameters: int | None = None
    weight_bytes: int | None = None
    live_bytes: int | None = None
    inputs: tuple[LayerTensor, ...] = ()
    outputs: tuple[LayerTensor, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    instruction_classes: Mapping[str, int] | None = None
    flash_read_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Estimate(Shown):
    """What is known of a model on hardware that is not at hand.

    Attributes:
        model: name, path, format, size, as `edgewise.model.inspection.Inspection.source`.
        software: what the estimate assumes to run on the device, and what computed it, with its version.
        coverage: metric → share of cases in which the interval of its measurement contains the true value; no entry
            where the ends are something else, such as the extremes of several inputs.
        at_least: metric without a value → a part of it that is known, in the metric's unit.
        conditions: what else it rests on, in sentences.
        refused: why there is no estimate; None where there is one.
        advice: what to do about `refused`.
        inputs, outputs: of the model.
        memory_plan: which tensor lies where in the arena, and when; None where nothing is planned.
        fit: what the model needs of the board's memories; None where the device is no board.
    """

    model: Mapping[str, Any]
    device: EstimatedDevice
    software: str
    conditions: tuple[str, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    coverage: Mapping[str, float] = field(default_factory=dict)
    at_least: Mapping[str, float] = field(default_factory=dict)
    layers: tuple[EstimatedLayer, ...] = ()
    refused: str | None = None
    advice: str = ""
    inputs: tuple[LayerTensor, ...] = ()
    outputs: tuple[LayerTensor, ...] = ()
    memory_plan: MemoryPlan | None = None
    fit: Fit | None = None

    def measurement(self, metric: str) -> Measurement | None:
        """Return the row of `metric`; None where there is none."""
        return next((row for row in self.measurements if row.metric == metric), None)

    def absent(self, metric: str) -> Measurement:
        """Return a row of `metric` without a value; its reason is that of the whole estimate where there is none."""
        return Measurement.absent(metric, self.refused or "not estimated for this device")

    @property
    def untimed(self) -> tuple[str, ...]:
        """Types of the operators whose time is not known, one entry each, in order."""
        return tuple(layer.op for layer in self.layers if layer.unit and layer.time is None)

    @property
    def bound(self) -> str:
        """``at least 620 µs on the NPU, and MEAN on cortex-m55, whose time is not known``; empty without a bound."""
        least = self.at_least.get("latency")
        if least is None:
            return ""
        known = ", ".join(dict.fromkeys(each.unit for each in self.layers if each.unit and each.time is not None))
        rest, core = ", ".join(dict.fromkeys(self.untimed)), self.device.settings.get("cpu", "the CPU")
        return f"at least {quantity(least, 's')} on the {known}, and {rest} on {core}, whose time is not known"

    @property
    def instruction_classes(self) -> Mapping[str, int] | None:
        """Number of instructions of all layers per class; None where a layer's instructions are not known by class."""
        counted = [layer.instruction_classes for layer in self.layers if layer.instructions is not None]
        if not counted or any(classes is None for classes in counted):
            return None
        known = [classes for classes in counted if classes is not None]
        return {name: sum(classes[name] for classes in known) for name in known[0]}

    def to_document(self) -> dict[str, Any]:
        """Return the document that ``edgewise estimate --json`` prints."""
        rows = [
            {
                "model": self.model.get("name"),
                "metric": row.metric,
                "unit": row.unit,
                "basis": row.basis,
                "method": row.method,
                "value": row.value,
                "low": row.low,
                "high": row.high,
                "coverage": self.coverage.get(row.metric),
                "at_least": self.at_least.get(row.metric),
                "absent_because": row.absent_because,
            }
            for row in self.measurements
        ]
        return {
            "schema": SCHEMA,
            "model": dict(self.model),
            "device": asdict(self.device),
            "software": self.software,
            "conditions": list(self.conditions),
            "estimates": rows,
            "instruction_classes": self.instruction_classes,
            "layers": [{**asdict(layer), "steps": list(layer.steps)} for layer in self.layers],
            "memory_plan": None if self.memory_plan is None else describe_plan(self.memory_plan),
            "fit": self.fit and self.fit.to_document(),
            "refused": self.refused,
            "advice": self.advice,
        }


def board_device(board: Board, estimator: str) -> EstimatedDevice:
    """`board` as a device of the estimator with this name."""
    return EstimatedDevice(
        name=board.name,
        title=f"{board.title}: {board.soc}, {CORE_TITLES[board.core]}",
        estimator=estimator,
        clock_hz=board.clock_hz,
        core=board.core,
        board=board,
    )


class Estimator(Protocol):
    """Estimates a family of devices.

    Attributes:
        settings: names of the settings that ``--set`` takes, each with a sentence.
    """

    name: str
    title: str
    settings: Mapping[str, str]

    def availability(self) -> Availability:
        """Whether what it needs is installed."""

    def devices(self) -> Sequence[EstimatedDevice]:
        """Return the devices that it knows, with the settings that apply unless others are given; without imports."""

    def estimate(self, path: Path, graph: Graph, device: EstimatedDevice) -> Estimate:
        """Return the estimate of the model at `path`, whose `Estimate.model` the caller fills.

        Args:
            graph: the network in the file, with all shapes known that can be.

        Raises:
            BadInput: a setting that does not exist.
            BadModel: a file that the estimator can't read.
            RunFailed: the estimator failed.
        """


@runtime_checkable
class EstimatesSeveral(Protocol):
    """Optional talent of an `Estimator`: estimates on several devices with the same core, which executes once."""

    def estimate_several(self, path: Path, graph: Graph, devices: Sequence[EstimatedDevice]) -> list[Estimate]:
        """One estimate per device, as `Estimator.estimate`."""


def estimators() -> Registry[Estimator]:
    """All estimators, built-in and plugged in."""
    return Registry("edgewise.estimators", "estimator")


def device_names() -> list[str]:
    """Return the names of all devices that estimators know."""
    return [device.name for _, estimator in estimators() for device in estimator.devices()]


def is_known(word: str) -> bool:
    """Whether an estimator has the device called ``NAME`` or ``NAME@CLOCK``."""
    return _normal(word.partition("@")[0]) in device_names()


def _normal(name: str) -> str:
    return name.lower().replace("_", "-")


_LARGER = re.compile(
    r"raspberry-?pi(?!.*pico)|r?pi-?(zero|[1-9])|(orange|banana|rock)-?pi|odroid|beagle|jetson|rk3\d|imx[89]|"
    r"cortex-?[ax]\d|neoverse|pixel|galaxy|iphone|ipad|snapdragon|exynos|dimensity"
)
"""How names of Linux boards, phones and application processors begin: none is like a microcontroller."""


def is_larger(name: str) -> bool:
    """Whether `name` is that of a Linux board, a phone or an application processor."""
    return _LARGER.match(_normal(name)) is not None


def similar_devices(name: str, others: Sequence[str] = ()) -> list[str]:
    """Boards with a chip of this name, otherwise up to three devices, also of `others`, with a similar name.

    No device that an estimator knows is similar to a Linux board, a phone or an application processor.
    """
    found = [board.name for board in boards().values() if name and name.lower() in board.soc.lower()]
    known = [] if is_larger(name) else device_names()
    return found or difflib.get_close_matches(name.lower(), [*known, *others], n=3, cutoff=0.5)


def unknown_device(name: str, others: Sequence[str] = (), *, listed: str, model: str = "MODEL") -> BadInput:
    """Return the error about a device that nothing knows: what is similar, or how a larger one is measured or learnt.

    Args:
        others: names of devices that other commands know.
        listed: the advice about lists of devices.
    """
    plain = name.partition("@")[0]
    like = f"did you mean {', '.join(near)}? " if (near := similar_devices(plain, others)) else ""
    if not is_larger(name):
        return BadInput(f"unknown device {name!r}", advice=f"{like}{listed}")
    word = shlex.quote(plain)
    return BadInput(
        f"unknown device {name!r}: no Linux board, phone or application processor is built in",
        advice=f"{like}without it, 'edgewise inspect {shlex.quote(model)}' counts operations and memory and names "
        f"the engines that support all operators; measure on it over ssh: 'edgewise devices add {word} "
        f"ssh://USER@HOST', 'edgewise devices check {word} --bootstrap' (installs what is missing there), 'edgewise "
        f"bench {shlex.quote(model)} -d {word}'; or let 3 or more models that were measured on it, in a table, predict "
        f"others: 'edgewise calibrate {word} --measurements FILE', helped by published results: 'edgewise atlas import "
        "SOURCE FILE'",
    )


def find_device(
    word: str, settings: Mapping[str, str] | None = None, *, others: Sequence[str] = (), model: str = "MODEL"
) -> tuple[Estimator, EstimatedDevice]:
    """Return the device called ``NAME`` or ``NAME@CLOCK``, with `settings` instead of its own, and who estimates it.

    Args:
        others: names of devices that other commands know, for the advice about an unknown one.
        model: that is to be estimated, for the same.

    Raises:
        BadInput: the device is unknown, or the clock or a setting can't be used.
        Unavailable: what its estimator needs is not installed.
    """
    name, at, clock = word.partition("@")
    for _, estimator in estimators():
        for device in estimator.devices():
            if device.name == _normal(name):
                return estimator, _adapted(estimator, device, clock if at else None, settings or {})
    listed = "'edgewise estimate --devices' lists the devices that can be estimated"
    raise unknown_device(word, others, listed=listed, model=model)


def _adapted(
    estimator: Estimator, device: EstimatedDevice, clock: str | None, settings: Mapping[str, str]
) -> EstimatedDevice:
    state = availability_of(estimator)
    if not state:
        raise Unavailable(f"{device.name} can't be estimated: {state.reason}", advice=state.install_hint)
    for name in settings:
        if name not in estimator.settings:
            known = ", ".join(estimator.settings) or "none"
            raise BadInput(f"{device.name} has no setting {name!r}", advice=f"settings: {known}")
    adapted = replace(device, settings={**device.settings, **settings})
    if clock is None:
        return adapted
    example = f"such as {device.name}@{(device.clock_hz or 120e6) / 1e6:g}MHz"
    try:
        clock_hz = parse_frequency(clock)
    except BadInput as error:
        raise BadInput(
            f"the clock of {device.name}: {error.marked.message}", advice=f"{error.marked.advice}, {example}"
        ) from None
    if not 0 < clock_hz <= 1e10:
        raise BadInput(
            f"the clock of {device.name} must be more than 0 and at most 10 GHz, not {clock}", advice=example
        )
    if device.board is not None and clock_hz > device.board.clock_hz:
        most = f"{device.board.clock_hz / 1e6:g} MHz"
        raise BadInput(
            f"the clock of {device.name} is at most {most}, not {clock}", advice=f"leave @{clock} out for {most}"
        )
    return replace(adapted, clock_hz=clock_hz)
