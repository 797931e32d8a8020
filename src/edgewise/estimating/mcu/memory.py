"""Memory that a model takes on a board: with the software whose latency is estimated, and in edgewise's program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgewise.estimating.mcu.timing import DEFAULT_SOFTWARE
from edgewise.record import Measurement
from edgewise.record.run import Basis

UNDER_TFLITE_MICRO: Mapping[str, bool] = {DEFAULT_SOFTWARE: True, "tflm-reference": False}
"""Software that tflite-micro executes → whether its kernels are those of CMSIS-NN, which need scratch memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProgram:
    """Memory of the program that edgewise makes, which has no interpreter, in bytes.

    Attributes:
        plan_bytes: of edgewise's plan of the activations and states.
        scratch_bytes: the most that a kernel of CMSIS-NN asks for.
        stack_bytes: of the deepest operator; `stack` is how it is known.
        basis: of the scratch memory and the stack.
        flash_bytes: of the linked image; None where it is not built.
        flash: the row of the flash under an interpreter, absent with what is known of it.
    """

    plan_bytes: int
    scratch_bytes: int
    stack_bytes: int
    stack: str
    basis: Basis
    flash_bytes: int | None
    flash: Measurement

    @property
    def sram_bytes(self) -> int:
        """Arena, scratch memory and stack."""
        return self.plan_bytes + self.scratch_bytes + self.stack_bytes


def memory_rows(
    own: OwnProgram, arenas: Sequence[Measurement], *, software: str
) -> tuple[list[Measurement], dict[str, float]]:
    """SRAM with its parts and flash under `software`, and the least SRAM, which is that of `own`.

    Args:
        arenas: tflite-micro's, or a row that says why there are none.

    Returns:
        The rows, and what is known of those without a value, as `edgewise.estimating.base.Estimate.at_least`.
    """
    beside = f"stack {own.stack_bytes} B ({own.stack})"
    scratch = f"scratch of CMSIS-NN {own.scratch_bytes} B"
    method = f"a program without an interpreter: edgewise's plan {own.plan_bytes} B + {scratch} + {beside}"
    at_least = {} if own.flash_bytes is None else {"flash": float(own.flash_bytes)}
    rows = [
        Measurement.of("memory_sram_least", own.sram_bytes, method, basis=own.basis),
        own.flash,
    ]
    arena = next((row for row in arenas if row.metric == "memory_arena_tflm_32bit"), None)
    if software not in UNDER_TFLITE_MICRO:
        sram = Measurement.absent("memory_sram", f"the arena of {software} is not known")
    elif arena is None or arena.value is None:
        why = next((row.absent_because for row in arenas if row.absent_because), "tflite-micro was not executed")
        sram = Measurement.absent("memory_sram", f"tflite-micro's arena is not known: {why}")
    else:
        has_scratch = UNDER_TFLITE_MICRO[software]
        size = int(arena.value) + own.scratch_bytes * has_scratch + own.stack_bytes
        parts = [f"tflite-micro's arena {int(arena.value)} B", *([scratch] * has_scratch), beside]
        sram = Measurement.of("memory_sram", size, f"{' + '.join(parts)} of edgewise's program", basis="estimated")
        kernels = "of CMSIS-NN" if has_scratch else "of tflite-micro, which need none"
        rows = [
            Measurement.of(
                "memory_scratch", own.scratch_bytes * has_scratch, f"the most for a kernel {kernels}", basis=own.basis
            ),
            Measurement.of("memory_stack", own.stack_bytes, f"{own.stack} of edgewise's program", basis=own.basis),
            *rows,
        ]
    if sram.value is None:
        at_least["memory_sram"] = float(own.sram_bytes)
    return [sram, *rows], at_least
