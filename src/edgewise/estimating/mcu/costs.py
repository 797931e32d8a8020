"""What an operator of a model costs a core: instructions by class, and bytes read from flash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CLASSES = ("load", "store", "multiply", "divide", "branch", "float", "vector", "other")
"""Classes of instructions. An instruction belongs to one: ``vector`` is Helium, ``float`` the FPU, loads included."""


@dataclass(frozen=True, slots=True)
class OperatorCosts:
    """What one execution of an operator costs.

    Attributes:
        instructions: number of executed instructions.
        classes: number of instructions per name of `CLASSES`, with the sum `instructions`; None where only the sum is
            known.
        flash_bytes: data read from flash, without the instructions themselves; None where it is not counted.

    Raises:
        ValueError: a number is negative, a class is unknown, or the classes don't add up to `instructions`.
    """

    instructions: int
    classes: Mapping[str, int] | None = None
    flash_bytes: int | None = None

    def __post_init__(self) -> None:
        classes = self.classes or {}
        if min(self.instructions, self.flash_bytes or 0, *classes.values(), 0) < 0:
            raise ValueError(f"costs must be at least 0: {self}")
        if unknown := classes.keys() - set(CLASSES):
            raise ValueError(f"unknown classes of instructions: {', '.join(sorted(unknown))}")
        if self.classes is not None and sum(classes.values()) != self.instructions:
            raise ValueError(f"the classes add up to {sum(classes.values())}, not to {self.instructions} instructions")


def typical_costs(runs: Sequence[Sequence[OperatorCosts]]) -> Sequence[OperatorCosts]:
    """Return the costs of each operator in the run with the median number of instructions.

    Args:
        runs: at least one; per run, the costs of each operator. Of an even number of runs, the lower median counts.
    """
    return sorted(runs, key=lambda run: sum_costs(run).instructions)[(len(runs) - 1) // 2]


def sum_costs(operators: Sequence[OperatorCosts]) -> OperatorCosts:
    """Return the costs of all `operators` together; what is unknown of one of them is unknown of the sum."""
    known = [each.classes for each in operators if each.classes is not None]
    flash = [each.flash_bytes for each in operators if each.flash_bytes is not None]
    return OperatorCosts(
        sum(each.instructions for each in operators),
        {name: sum(classes.get(name, 0) for classes in known) for name in CLASSES}
        if len(known) == len(operators)
        else None,
        sum(flash) if len(flash) == len(operators) else None,
    )
