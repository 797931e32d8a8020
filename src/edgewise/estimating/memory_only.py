"""Boards whose core nothing here executes: what the model needs of their memories, without a latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgewise.estimating.base import Estimate, EstimatedDevice, board_device
from edgewise.estimating.boards import CORE_TITLES, Board, Fit, boards
from edgewise.estimating.mcu.cores import CORES
from edgewise.model.cost import total_of
from edgewise.model.graph import Graph
from edgewise.model.memory_plan import plan_memory
from edgewise.record import Measurement
from edgewise.registry import Availability

LOWER_BOUNDS = {"RAM": "the arena, without stack and scratch memory", "flash": "the weights, without code"}
"""What is known of a memory where no estimator gives more."""
WITHOUT_INTERPRETER = "that of edgewise's program, without an interpreter"
"""What is known of a memory where only the program is known that edgewise makes."""
MOST_CODE = 300 * 1024
"""Of a program without its weights, B: TensorFlow Lite with all its operators is smaller, as its authors say. The whole
programs of EdgeMark with the smallest network have 35 to 196 KiB on two boards."""
MOST_ARENA, MOST_BESIDE = 2, 64 * 1024
"""The upper bound of RAM is `MOST_ARENA` arenas and `MOST_BESIDE` bytes. The scratch memory of an operator is smaller
than its data. What `edgewise firmware` makes of MLPerf Tiny's ``ad``, ``kws``, ``ic``, streaming wake word and ``vww``
for an emulated Cortex-M4 takes 4.8, 5.8, 9.4, 9.1 and 35.6 KiB beside arenas of 0.8, 16, 48, 6.5 and 63 KiB: scratch
memory up to 4.5, 4 for the stack (0.9 is used), and the input as it arrives, 27 KiB of ``vww``. EdgeMark's
whole programs, with other interpreters, take 4 to 39 KiB with the smallest network: it is not lowered to our images."""
UPPER_BOUNDS = {
    "RAM": f"{MOST_ARENA} arenas and {MOST_BESIDE // 1024} KiB for stack, scratch memory and the interpreter",
    "flash": f"the weights, or all of a .tflite file, and {MOST_CODE // 1024} KiB of code, more than TensorFlow Lite "
    "with all its operators",
}
"""What the upper bounds of a memory are."""


class MemoryOnly:
    """Tells the memory that a model needs on boards with another core than those that can be executed."""

    name = "memory-only"
    title = "Boards with other cores: memory, without a latency"
    settings: Mapping[str, str] = {}

    def availability(self) -> Availability:
        """Return that it is always available."""
        return Availability(True)

    def devices(self) -> Sequence[EstimatedDevice]:
        """Return the boards with a core that can't be executed."""
        return [board_device(board, self.name) for board in boards().values() if board.core not in CORES]

    def estimate(self, path: Path, graph: Graph, device: EstimatedDevice) -> Estimate:
        """As `edgewise.estimating.base.Estimator.estimate`."""
        return self.estimate_several(path, graph, [device])[0]

    def estimate_several(self, path: Path, graph: Graph, devices: Sequence[EstimatedDevice]) -> list[Estimate]:
        """As `edgewise.estimating.base.EstimatesSeveral.estimate_several`."""
        title = CORE_TITLES[devices[0].core]
        return memory_estimates(graph, devices, because=f"nothing here executes or estimates code for {title}")


def memory_estimates(graph: Graph, devices: Sequence[EstimatedDevice], *, because: str) -> list[Estimate]:
    """Estimates with the memory alone.

    Args:
        because: why latency and energy are absent.
    """
    arena, weights = needs(graph)
    rows = [Measurement.absent("latency", because), Measurement.absent("energy", because)]
    rows += [
        Measurement.absent(metric, "a shape or a size is not known")
        if value is None
        else Measurement.of(metric, value, f"{method} of the model's graph", basis="derived")
        for metric, value, method in (
            ("memory_arena", arena, "static memory plan"),
            ("parameters_size", weights, "constants"),
        )
    ]
    return [
        Estimate(
            model={},
            device=device,
            software="edgewise's memory plan",
            conditions=(f"Only the memory is known: {because}.",),
            measurements=tuple(rows),
        )
        for device in devices
    ]


def needs(graph: Graph) -> tuple[int | None, int | None]:
    """Bytes of the arena and of the weights; None where they are not known."""
    plan = plan_memory(graph)
    return None if plan.unknown else plan.arena_bytes, total_of(graph).weight_bytes


def fit_of(board: Board, estimate: Estimate, graph: Graph, *, file_bytes: int = 0) -> Fit:
    """Return what the model needs of the board's memories with the software of the estimate, or bounds of it.

    A bound is what edgewise's own program needs, which has no interpreter; where it is not known, arena and weights.

    Args:
        file_bytes: of a file that an interpreter keeps in flash as it is; 0 where none does.
    """
    sram, own_arena, interpreted, weights = (
        None if row is None or row.value is None else int(row.value)
        for row in map(
            estimate.measurement, ("memory_sram", "memory_arena", "memory_arena_tflm_32bit", "parameters_size")
        )
    )
    if own_arena is None or weights is None:
        planned, constants = needs(graph)
        own_arena = planned if own_arena is None else own_arena
        weights = constants if weights is None else weights
    ram, flash = (estimate.at_least.get(metric) for metric in ("memory_sram", "flash"))
    at_least = {
        name: LOWER_BOUNDS[name] if known is None else WITHOUT_INTERPRETER
        for name, known in (("RAM", ram), ("flash", flash))
        if name == "flash" or sram is None
    }
    most = {
        "RAM": None if own_arena is None or sram is not None else MOST_ARENA * own_arena + MOST_BESIDE,
        "flash": None if weights is None else max(weights, file_bytes) + MOST_CODE,
    }
    row = estimate.measurement("memory_sram")
    return Fit(
        board=board,
        ram_bytes=sram if sram is not None else own_arena if ram is None else int(ram),
        flash_bytes=weights if flash is None else int(flash),
        arena_bytes=own_arena if sram is None or interpreted is None else interpreted,
        at_least=at_least,
        at_most={name: size for name, size in most.items() if size is not None},
        basis={"RAM": row.basis} if row is not None and row.basis is not None else {},
    )
