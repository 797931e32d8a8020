"""An estimate from the table of operator costs, where nothing is compiled and nothing is executed."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.estimating.mcu.calls import FAMILIES
from edgewise.estimating.mcu.costs import sum_costs
from edgewise.estimating.mcu.loops import scratch_bytes
from edgewise.estimating.mcu.lowering import Lowered
from edgewise.estimating.mcu.memory import OwnProgram
from edgewise.estimating.mcu.network import IntNetwork
from edgewise.estimating.mcu.table import CostTable, PredictedCosts
from edgewise.record import Measurement


def total_error(predicted: Sequence[PredictedCosts]) -> float:
    """Return the relative error of the sum of the instructions: that of operators that all err in one direction."""
    total = sum(each.costs.instructions for each in predicted)
    return sum(each.error * each.costs.instructions for each in predicted) / total if total else 0.0


def predicted_program(lowered: Lowered, table: CostTable, *, core: str, plan_bytes: int) -> OwnProgram:
    """Return the RAM of edgewise's program, which is not built; `plan_bytes` are those of its arena."""
    return OwnProgram(
        plan_bytes=plan_bytes,
        scratch_bytes=max((scratch_bytes(call, FAMILIES[core]) for call in lowered.calls), default=0),
        stack_bytes=int(table.cores[core]["stack_bytes"]),
        stack="the deepest of the table's operators",
        basis="estimated",
        flash_bytes=None,
        flash=Measurement.absent(
            "flash",
            f"the size of the program needs the compiler; weights and tables alone have {len(lowered.constants):,} B",
        ),
    )


def predicted_rows(lowered: Lowered, predicted: Sequence[PredictedCosts]) -> tuple[Measurement, ...]:
    """Return the rows of an estimate that differ from those of an emulation: instructions, and bytes read from
    flash.
    """
    costs = sum_costs([each.costs for each in predicted])
    total = costs.instructions
    error = total_error(predicted)
    return (
        Measurement.of(
            "instructions", float(total),
            "operator costs of edgewise's table; low and high add up the errors of the operators, each the 95th "
            "percentile of operators that the table was not fitted on", basis="estimated", low=total * (1 - error),
            high=total * (1 + error),
        ),
        Measurement.of("flash_read", costs.flash_bytes or 0, "operator costs of edgewise's table", basis="estimated"),
    )  # fmt: skip


def prediction_conditions(
    network: IntNetwork, predicted: Sequence[PredictedCosts], table: CostTable
) -> tuple[str, ...]:
    """Sentences on what a prediction rests on."""
    far = [
        f"{operator.index} ({operator.code})"
        for operator, each in zip(network.operators, predicted, strict=True)
        if each.beyond
    ]
    beyond = (
        f"These operators are far larger than those of the table, so that their error may be larger than stated: "
        f"{', '.join(far)}."
    )
    return (
        "The table has the costs of each loop of each kernel, fitted on generated operators that QEMU executed, built "
        f"with {table.compiler}. Nothing was executed, so the outputs are not compared with tflite-micro's.",
        *((beyond,) if far else ()),
    )
