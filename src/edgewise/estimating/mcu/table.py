"""Costs of operators without a compiler and an emulator: what a loop costs, from ``operator_costs.json``.

``tools/sweep_mcu_operators.py`` writes the file from generated operators that the emulator executed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from edgewise.errors import Unavailable
from edgewise.estimating.mcu.calls import FAMILIES, UnknownKernel
from edgewise.estimating.mcu.costs import CLASSES, OperatorCosts
from edgewise.estimating.mcu.emit import CanNotLower
from edgewise.estimating.mcu.loops import kernel_loops
from edgewise.estimating.mcu.lowering import Lowered

FILE = "operator_costs.json"
COLUMNS = (*CLASSES, "flash_bytes")
"""The costs of a loop in the table."""
AROUND = 100
"""Instructions that relative errors add to those of an operator: what is around a kernel decides about tiny ones."""
BEYOND = 20.0
"""A loop that runs more often than this times its most in the sweep is beyond the sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedCosts:
    """Costs of one operator by the table.

    Attributes:
        error: relative error of the instructions; the 95th percentile of the operators that the fit did not use.
        beyond: the kernels with a loop that runs far more often than in the sweep.
    """

    costs: OperatorCosts
    error: float
    beyond: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTable:
    """What the loops of the kernels cost.

    Attributes:
        cores: per core that code is compiled for, ``stack_bytes`` and per kernel ``median`` and ``p95`` of its relative
            errors, and ``loops``: per loop, `COLUMNS`.
        most: per family of cores, kernel and loop, how often it ran at most in the sweep.
        compiler: that the emulated code was built with.
    """

    cores: Mapping[str, Mapping[str, Any]]
    most: Mapping[str, Mapping[str, Mapping[str, int]]]
    compiler: str

    def predict(self, lowered: Lowered, core: str) -> list[PredictedCosts]:
        """Return the costs of each operator of a network on a core that code is compiled for.

        Raises:
            CanNotLower: the table has no costs of a kernel or of the core.
        """
        if core not in self.cores:
            raise CanNotLower(f"the table of operator costs has no {core}")
        try:
            loops = [kernel_loops(call, lowered.constants, FAMILIES[core]) for call in lowered.calls]
        except UnknownKernel as error:
            raise CanNotLower(f"the table of operator costs has no kernel {error}") from error
        return [self.costs_of(each, core) for each in loops]

    def costs_of(self, loops: Mapping[str, Mapping[str, int]], core: str) -> PredictedCosts:
        """Return the costs of one operator, whose kernels run these loops. Raises `CanNotLower` as `predict`."""
        kernels, most = self.cores[core]["kernels"], self.most[FAMILIES[core]]
        sums, wrong = dict.fromkeys(COLUMNS, 0.0), 0.0
        for kernel, counts in loops.items():
            if kernel not in kernels:
                raise CanNotLower(f"the table of operator costs has no kernel {kernel} on {core}")
            wrong += AROUND * kernels[kernel]["p95"]
            for loop, count in counts.items():
                costs = kernels[kernel]["loops"].get(loop, [0.0] * len(COLUMNS))
                for column, cost in zip(COLUMNS, costs, strict=True):
                    sums[column] += count * cost
                wrong += count * sum(costs[: len(CLASSES)]) * kernels[kernel]["p95"]
        beyond = tuple(
            kernel
            for kernel, counts in loops.items()
            if any(count > BEYOND * most[kernel].get(loop, 0) for loop, count in counts.items())
        )
        classes = {name: round(sums[name]) for name in CLASSES}
        total = sum(classes.values())
        return PredictedCosts(
            costs=OperatorCosts(total, classes, round(sums["flash_bytes"])), error=wrong / max(1, total), beyond=beyond
        )


@cache
def load_table() -> CostTable:
    """Return the table that edgewise brings. Raises `Unavailable` if it is missing or damaged."""
    try:
        told = json.loads((resources.files("edgewise.estimating.mcu") / FILE).read_bytes())
        return CostTable(cores=dict(told["cores"]), most=dict(told["most"]), compiler=str(told["compiler"]))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise Unavailable(f"{FILE} is missing or damaged", advice="install edgewise again") from error
