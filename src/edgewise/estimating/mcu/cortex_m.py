"""Cortex-M cores: an int8 model on CMSIS-NN, executed instruction by instruction in QEMU."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import BadInput, BadModel, RunFailed, Unavailable
from edgewise.estimating.base import AS_TFLITE, Estimate, EstimatedDevice, EstimatedLayer, board_device
from edgewise.estimating.boards import MVP, boards
from edgewise.estimating.mcu.arena import arena_on_32_bits, find_smallest, plan_arena
from edgewise.estimating.mcu.cores import CORES, Core
from edgewise.estimating.mcu.costs import OperatorCosts, sum_costs, typical_costs
from edgewise.estimating.mcu.emit import CanNotLower
from edgewise.estimating.mcu.firmware import QEMU, Emulated, emulate
from edgewise.estimating.mcu.folding import fold_shapes, is_folded, tell_folded
from edgewise.estimating.mcu.latency import SETTING, time_layers
from edgewise.estimating.mcu.lowering import Lowered, lower
from edgewise.estimating.mcu.memory import OwnProgram, memory_rows
from edgewise.estimating.mcu.network import LAYOUTS, IntNetwork, IntTensor, read_network
from edgewise.estimating.mcu.prediction import predicted_program, predicted_rows, prediction_conditions, total_error
from edgewise.estimating.mcu.reference import AMPLE_BYTES, NotExecuted, Reference, run_reference, runs_in
from edgewise.estimating.mcu.table import load_table
from edgewise.estimating.mcu.timing import DEFAULT_SOFTWARE, engine_of
from edgewise.estimating.mcu.toolchain import GCC, INSTALL, TooLarge
from edgewise.model.cost import count, total_of
from edgewise.model.graph import Graph
from edgewise.model.memory_plan import MemoryPlan
from edgewise.record import Measurement
from edgewise.registry import Availability
from edgewise.runtime.base import package_availability
from edgewise.units import parse_size

RANDOM_INPUTS = 3
MOST_ARENA_BYTES = 2**28
SOFTWARE = "CMSIS-NN 4.0.0 and edgewise's own C kernels"


class CortexM:
    """Executes int8 models on emulated Cortex-M cores, or predicts their costs from a table."""

    name = "cortex-m"
    reads = "tflite"
    title = "Arm Cortex-M cores, by running the model on CMSIS-NN in QEMU, or from a table of operator costs"
    settings: Mapping[str, str] = {
        "arena": "Size of tflite-micro's arena in bytes, which the model must run in; 0 finds the smallest one.",
        "counts": "Source of the instruction counts: emulation, or table for a prediction from the operators' shapes. "
        "Without this setting, the emulation, or the table where something is not installed.",
        "software": SETTING,
    }

    def availability(self) -> Availability:
        """Whether the table of operator costs can be read; the emulation can be unavailable."""
        try:
            load_table()
        except Unavailable as error:
            return emulation_availability() or Availability(False, error.message, error.advice)
        return Availability(True)

    def devices(self) -> Sequence[EstimatedDevice]:
        """Return the cores, and the boards that have one."""
        cores = [
            EstimatedDevice(name=core.name, title=core.title, estimator=self.name, core=core.name)
            for core in CORES.values()
        ]
        cores += [
            board_device(board, self.name)
            for board in boards().values()
            if board.core in CORES and board.accelerator != MVP
        ]
        return [replace(device, settings={"software": DEFAULT_SOFTWARE}) for device in cores]

    def estimate(self, path: Path, graph: Graph, device: EstimatedDevice) -> Estimate:
        """As `edgewise.estimating.base.Estimator.estimate`."""
        return self.estimate_several(path, graph, [device])[0]

    def estimate_several(self, path: Path, graph: Graph, devices: Sequence[EstimatedDevice]) -> list[Estimate]:
        """Return the estimates on `devices`, which all have the same core: it executes the model once."""
        if graph.format != "tflite":
            raise BadModel(f"{path.name}: a microcontroller runs .tflite files only", advice=AS_TFLITE)
        engine_of(devices[0].settings.get("software", DEFAULT_SOFTWARE))
        wanted, missing = _read_counts(devices[0]), emulation_availability()
        if wanted == "emulation" and not missing:
            raise Unavailable(f"the emulation is not available: {missing.reason}", advice=missing.install_hint)
        why = "" if missing else f"{missing.reason}. For counted instructions: {missing.install_hint}."
        try:
            model = _Model.read(path, graph)
            if wanted == "table" or not missing:
                return model.predict(devices, why=why)
            try:
                return model.emulate(devices)
            except TooLarge as error:
                if wanted == "emulation":
                    raise
                return model.predict(devices, why=f"The emulation is not possible: {error.message}.")
        except (CanNotLower, NotExecuted, TooLarge) as error:
            return [
                Estimate(model={}, device=device, software=SOFTWARE, refused=error.message, advice=error.advice or why)
                for device in devices
            ]


def emulation_availability() -> Availability:
    """Whether the compiler, the emulator, CMSIS-NN and tflite-micro are installed."""
    for distribution, module in (("bakenn", "bakenn"), ("tflite-micro", "tflite_micro")):
        found = package_availability(distribution, extra="mcu", module=module)
        if not found:
            return found
    for program in (GCC, QEMU):
        if shutil.which(program) is None:
            return Availability(False, f"{program} is not installed", INSTALL)
    return Availability(True)


def _read_counts(device: EstimatedDevice) -> str:
    wanted = device.settings.get("counts", "")
    if wanted not in ("", "emulation", "table"):
        raise BadInput(f"counts must be emulation or table, not {wanted!r}", advice="⟦set=counts=table⟧")
    return wanted


@dataclass(frozen=True, slots=True)
class _Model:
    """A model, and its C code."""

    path: Path
    graph: Graph
    network: IntNetwork
    plan: MemoryPlan
    offsets: Mapping[int, int]
    lowered: Lowered

    @classmethod
    def read(cls, path: Path, graph: Graph) -> _Model:
        """Lower the model at `path`.

        Raises:
            CanNotLower: `graph` has other shapes, or an operator can't be lowered.
            TooLarge: no microcontroller has memory for the activations.
        """
        network = fold_shapes(read_network(path))
        _check_shapes(network, graph)
        plan, offsets = plan_arena(network)
        if (plan.arena_bytes or 0) > MOST_ARENA_BYTES:
            raise TooLarge(f"its activations need {plan.arena_bytes:,} B, more than any microcontroller has")
        return cls(path, graph, network, plan, offsets, lower(network, offsets))

    @property
    def arena_bytes(self) -> int:
        return self.plan.arena_bytes or 0

    def emulate(self, devices: Sequence[EstimatedDevice]) -> list[Estimate]:
        """Return the estimates from an execution.

        Raises `NotExecuted`, `TooLarge`, and `RunFailed` for a wrong output.
        """
        core = CORES[devices[0].core]
        if self.arena_bytes > core.board.ram[1]:
            raise TooLarge(
                f"its activations need {self.arena_bytes:,} B, and the emulated board has {core.board.ram[1]:,} B RAM"
            )
        inputs = sample_inputs(self.network)
        reference = run_reference(self.path, inputs, outputs=len(self.network.outputs))
        emulated = emulate(
            self.network, self.lowered, core=core, offsets=self.offsets, arena_bytes=self.arena_bytes, inputs=inputs
        )
        check_outputs(self.path, self.network, emulated, reference)
        return self.estimates(
            devices, f"{SOFTWARE}, {emulated.compiler}", _conditions(core, emulated, inputs=len(inputs)),
            costs=typical_costs(emulated.costs[:RANDOM_INPUTS]),
            rows=_emulated_rows(emulated),
            own=OwnProgram(
                plan_bytes=self.arena_bytes, scratch_bytes=emulated.scratch_bytes, stack_bytes=emulated.stack_bytes,
                stack="high-water mark", basis="simulated", flash_bytes=emulated.flash_bytes,
                flash=_flash(emulated),
            ),
            arenas=_arenas(self.path, self.network, reference, inputs, _arena_of(devices)),
        )  # fmt: skip

    def predict(self, devices: Sequence[EstimatedDevice], *, why: str) -> list[Estimate]:
        """Return the estimates from the table; `why` is why there is no emulation. Raises `CanNotLower` without
        costs.
        """
        table, core = load_table(), CORES[devices[0].core]
        predicted = table.predict(self.lowered, core.target)
        return self.estimates(
            devices, f"{SOFTWARE}, predicted from edgewise's table of operator costs",
            tuple(filter(None, (why, core.substitutes, *prediction_conditions(self.network, predicted, table)))),
            costs=[each.costs for each in predicted], count_error=total_error(predicted),
            rows=predicted_rows(self.lowered, predicted),
            own=predicted_program(self.lowered, table, core=core.target, plan_bytes=self.arena_bytes),
            arenas=self.arenas(_arena_of(devices)),
        )  # fmt: skip

    def arenas(self, setting: str) -> Sequence[Measurement]:
        """tflite-micro's arenas without an emulation, or the reason why they are absent."""
        found = package_availability("tflite-micro", extra="mcu", module="tflite_micro")
        if not found and _read_arena(setting) >= 0:
            raise Unavailable(f"the arena can't be tried: {found.reason}", advice=found.install_hint)
        if not found:
            return [Measurement.absent("memory_arena_tflm", f"{found.reason}: {found.install_hint}")]
        inputs = sample_inputs(self.network)  # those of an emulation, so that both use the same file of the cache
        try:
            reference = run_reference(self.path, inputs, outputs=len(self.network.outputs))
        except NotExecuted as error:
            return [Measurement.absent("memory_arena_tflm", error.message)]
        return _arenas(self.path, self.network, reference, inputs, setting)

    def estimates(
        self, devices: Sequence[EstimatedDevice], software: str, conditions: tuple[str, ...], *,
        costs: Sequence[OperatorCosts], rows: Sequence[Measurement], own: OwnProgram, arenas: Sequence[Measurement],
        count_error: float = 0.0,
    ) -> list[Estimate]:  # fmt: skip
        """Return an estimate per device.

        Args:
            costs: per operator.
            rows: the instructions, and the bytes read from flash.
            own: the memory of edgewise's program.
            arenas: those of tflite-micro.
            count_error: of the instructions, relative to their number.
        """
        instructions, flash_read = rows
        engine = devices[0].settings.get("software", DEFAULT_SOFTWARE)
        memory, at_least = memory_rows(own, arenas, software=engine)
        executed = [each if call else None for each, call in zip(costs, self.lowered.calls, strict=True)]
        layers = _layers(self.graph, self.lowered, executed)
        planned = Measurement.of(
            "memory_arena", self.arena_bytes, "static plan of the activations and states", basis="derived"
        )
        conditions += tell_folded([each.code for each in self.network.operators if is_folded(each)])
        rest = (flash_read, planned, *_macs(self.graph), *arenas)
        timings = [time_layers(device, layers, executed, count_error=count_error) for device in devices]
        return [
            Estimate(
                model={}, device=device, software=software, conditions=(*conditions, *timed.conditions),
                measurements=(instructions, *timed.measurements, *memory, *rest),
                coverage=timed.coverage, at_least=at_least, layers=timed.layers, memory_plan=self.plan,
            )
            for device, timed in zip(devices, timings, strict=True)
        ]  # fmt: skip


def _check_shapes(network: IntNetwork, graph: Graph) -> None:
    """Raise `CanNotLower` where an input has another shape in `graph` than in the file, which is what is lowered."""
    for tensor, name in zip(network.inputs, graph.inputs, strict=True):
        shape = graph.tensors[name].shape or tensor.shape
        if any(isinstance(size, int) and size != own for size, own in zip(shape, tensor.shape, strict=True)):
            here, own = ("x".join(map(str, each)) for each in (shape, tensor.shape))
            raise CanNotLower(
                f"the input {name} is {here} here and {own} in the file, which alone is executed",
                advice=f"⟦shape⟧ {shlex.quote(f'{name}={own}')}, or export the model with the shape",
            )


def sample_inputs(network: IntNetwork) -> list[list[NDArray[Any]]]:
    """Random inputs from a fixed seed, then the two ends of int8; float inputs are what quantises to such numbers."""
    random = np.random.default_rng(0)
    found = [[random.integers(-128, 128, each.shape) for each in network.inputs] for _ in range(RANDOM_INPUTS)]
    found += [[np.full(each.shape, value) for each in network.inputs] for value in (-128, 127)]
    return [
        [_real(network, tensor, values) for tensor, values in zip(network.inputs, row, strict=True)] for row in found
    ]


def _real(network: IntNetwork, tensor: IntTensor, values: NDArray[Any]) -> NDArray[Any]:
    """`values` as an input of its integer type; where that is float, at and between the steps of its quantisation."""
    for operator in network.operators:
        if tensor.dtype == "float32" and operator.code == "QUANTIZE" and operator.inputs[0] is tensor:
            (out,) = operator.outputs
            between = np.random.default_rng(values.size).integers(-4, 5, values.shape) / 8
            return ((values + between - out.zero_point) * float(out.scales[0])).astype(np.float32)
    return values.astype(LAYOUTS[tensor.dtype])


def check_outputs(path: Path, network: IntNetwork, emulated: Emulated, reference: Reference) -> None:
    """Raise `RunFailed` where the emulated outputs are not those of tflite-micro, byte for byte."""
    for number, (ours, theirs) in enumerate(zip(emulated.outputs, reference.outputs, strict=True)):
        for tensor, one, other in zip(network.outputs, ours, theirs, strict=True):
            if not np.array_equal(one, other):
                wrong = int(np.count_nonzero(one != other))
                raise RunFailed(
                    f"{path.name}: {wrong} of {len(one)} bytes of {tensor.name} differ from tflite-micro's on input "
                    f"{number}, so the instruction counts can't be trusted",
                    advice="please report the model: this is a fault of edgewise",
                )


def _conditions(core: Core, emulated: Emulated, *, inputs: int) -> tuple[str, ...]:
    counted = (
        "QEMU's plug-in counts the instructions by class, and the bytes read from flash in the first input."
        if not emulated.uncounted
        else f"Instructions are not counted by class: {emulated.uncounted}. The emulator's clock counts them: up "
        "to 5 more per operator, and 5 more per 2 million for the clock's interrupt."
    )
    sentences = (
        f"{emulated.emulator} ({core.board.name}) executed the model on {inputs} inputs: {RANDOM_INPUTS} random ones, "
        "the lowest and the highest value. All outputs were equal to tflite-micro's, byte for byte.",
        core.substitutes,
        counted,
    )
    return tuple(filter(None, sentences))


def _emulated_rows(emulated: Emulated) -> list[Measurement]:
    totals = [sum_costs(row).instructions for row in emulated.costs]
    typical = totals[:RANDOM_INPUTS]
    return [
        Measurement.of(
            "instructions",
            float(np.median(typical)),
            f"median of {RANDOM_INPUTS} random inputs; low and high are the extremes of all {len(totals)} inputs",
            basis="simulated",
            low=float(min(totals)),
            high=float(max(totals)),
        ),
        _flash_read(emulated),
    ]  # fmt: skip


def _flash(emulated: Emulated) -> Measurement:
    return Measurement.absent(
        "flash",
        "the program with an interpreter is not built here; edgewise's own, which has none, is "
        f"{emulated.flash_bytes:,} B: {emulated.weight_bytes:,} B of weights and tables, kernels and start-up code",
    )


def _macs(graph: Graph) -> list[Measurement]:
    total = total_of(graph).macs
    return [] if total is None else [Measurement.of("macs", total, "counted from the model's graph", basis="derived")]


def _arenas(
    path: Path, network: IntNetwork, reference: Reference, inputs: Sequence[Sequence[NDArray[Any]]], arena: str
) -> tuple[Measurement, ...]:  # fmt: skip
    """tflite-micro's arenas; `arena` is the size of the settings. Raises `BadInput` where it is too small."""
    small = arena_on_32_bits(reference, network)
    pointers = reference.arena_bytes - small
    rows = [
        Measurement.of(
            "memory_arena_tflm", reference.arena_bytes,
            f"tflite-micro on this machine, whose pointers have 64 bits: {reference.head_bytes} B of activations and "
            "the interpreter's own data", basis="measured",
        ),
        Measurement.of(
            "memory_arena_tflm_32bit", small,
            f"the same, less {pointers} B that pointers of 64 bits and records of allocations add", basis="derived",
        ),
    ]  # fmt: skip
    wanted, try_size = _read_arena(arena), partial(runs_in, path=path, inputs=inputs)
    if wanted >= 0 and not (wanted and try_size(min(wanted, AMPLE_BYTES) + pointers)):
        least = find_smallest(try_size, near=reference.arena_bytes)
        if wanted:
            raise BadInput(
                f"{path.name}: tflite-micro can't execute the model in an arena of {wanted:,} B",
                advice=f"the model needs about {least - pointers:,} B on a microcontroller",
            )
        method = (
            "bisection with tflite-micro on this machine, whose pointers have 64 bits; about "
            f"{least - pointers} B with 32 bits"
        )
        rows.append(Measurement.of("memory_arena_smallest", least, method, basis="measured"))
    return tuple(rows)


def _arena_of(devices: Sequence[EstimatedDevice]) -> str:
    return devices[0].settings.get("arena", "-1")


def _read_arena(text: str) -> int:
    try:
        return -1 if text.strip().startswith("-") else parse_size(text)
    except BadInput as error:
        raise BadInput(f"⟦set⟧ arena: {error.marked.message}", advice=error.marked.advice) from None


def _flash_read(emulated: Emulated) -> Measurement:
    read = sum_costs(emulated.costs[0]).flash_bytes
    if read is None:
        return Measurement.absent("flash_read", f"it is not counted: {emulated.uncounted}")
    return Measurement.of(
        "flash_read", read, "loads from weights, tables and program, counted in the first input", basis="simulated"
    )


def _layers(graph: Graph, lowered: Lowered, costs: Sequence[OperatorCosts | None]) -> list[EstimatedLayer]:
    return [
        EstimatedLayer(
            index=operator.index,
            name=operator.label or operator.name,
            op=operator.op,
            unit="CPU" if each else "",
            macs=count(operator, graph).macs,
            instructions=each.instructions if each else None,
            instruction_classes=each.classes if each else None,
            flash_read_bytes=each.flash_bytes if each else None,
            steps=(kernel,) if kernel else (),
            because=""
            if each
            else "nothing to execute: its output is its input, a constant shape, or the handle of a state",
        )
        for operator, kernel, each in zip(graph.operators, lowered.kernels, costs, strict=True)
    ]
