"""Which operators a runtime or accelerator would take, told without running or even installing it.

An *operator set* knows what one target accepts: an operator's type, its version, the types and shapes of its tensors,
its options. It answers from tables found by trying, with the version they were found on; a newer engine may take more.
Targets come through the entry points `edgewise.operator_sets`; microcontrollers and NPUs are targets too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from edgewise.model.graph import Graph, Operator
from edgewise.registry import Registry


class OperatorSet(Protocol):
    """What one target accepts.

    Attributes:
        name: ``runtime/provider``, as ``-r`` takes it.
        title: for people.
        formats: of the models it reads.
        source: how its table was found, with versions.
    """

    name: str
    title: str
    formats: Sequence[str]
    source: str

    def refusal(self, operator: Operator, graph: Graph) -> str | None:
        """Why the target would not take `operator`; None where it would."""


def operator_sets() -> Registry[OperatorSet]:
    """All operator sets, built-in and plugged in."""
    return Registry("edgewise.operator_sets", "operator set")


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What a target would do with a network.

    Attributes:
        refusals: index of an operator → why the target does not take it. An accelerated provider leaves such operators
            to the processor; a runtime refuses the model.
    """

    name: str
    title: str
    source: str
    refusals: Mapping[int, str]


def judge(graph: Graph, sets: Iterable[OperatorSet]) -> tuple[Support, ...]:
    """The answer of every set that reads the graph's format, in order."""
    return tuple(
        Support(
            name=each.name,
            title=each.title,
            source=each.source,
            refusals={
                operator.index: why
                for operator in graph.operators
                if (why := each.refusal(operator, graph)) is not None
            },
        )
        for each in sets
        if graph.format in each.formats
    )
