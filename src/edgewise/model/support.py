"""Which operators a runtime or accelerator supports, told without running or even installing it.

An *operator set* knows what one target accepts: an operator's type, its version, the types and shapes of its tensors,
its options. It answers from tables found by trying, with the version they were found on; a newer engine may support
more. What was not tried is unknown, never refused. Targets come through the entry points `edgewise.operator_sets`;
microcontrollers and NPUs are targets too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

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
        """Why the target does not support `operator`; None where it does."""


@runtime_checkable
class AdmitsUnknown(Protocol):
    """An operator set that does not know the answer for every operator."""

    def unknown(self, operator: Operator, graph: Graph) -> str | None:
        """Why it is not known whether the target supports `operator`; None where it is known."""


def operator_sets() -> Registry[OperatorSet]:
    """All operator sets, built-in and plugged in."""
    return Registry("edgewise.operator_sets", "operator set")


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """Which operators of a network a target supports.

    Attributes:
        refusals: index of an operator → why the target does not support it, or one of its branches and bodies. An
            accelerated provider leaves such operators to the processor; a runtime refuses the model.
        unknown: index of an operator → why it is not known whether the target supports it.
    """

    name: str
    title: str
    source: str
    refusals: Mapping[int, str]
    unknown: Mapping[int, str] = field(default_factory=dict)


def judge(graph: Graph, sets: Iterable[OperatorSet]) -> tuple[Support, ...]:
    """Return the answer of every set that reads the graph's format, in order."""
    return tuple(_judge(each, graph) for each in sets if graph.format in each.formats)


def _judge(target: OperatorSet, graph: Graph) -> Support:
    refusals, unknown = {}, {}
    for operator in graph.operators:
        refused, unsure = _ask(target, operator, graph)
        if refused is not None:
            refusals[operator.index] = refused
        elif unsure is not None:
            unknown[operator.index] = unsure
    return Support(name=target.name, title=target.title, source=target.source, refusals=refusals, unknown=unknown)


def _ask(target: OperatorSet, operator: Operator, graph: Graph) -> tuple[str | None, str | None]:
    """Why `operator`, or the first operator in its branches and bodies, is refused, and why that is unknown."""
    refused = target.refusal(operator, graph)
    unsure = target.unknown(operator, graph) if isinstance(target, AdmitsUnknown) else None
    for name in operator.subgraphs:
        # What a model says of its versions stands in its outermost graph.
        if (body := graph.subgraphs.get(name)) is None or refused is not None:
            continue
        inner = replace(body, version=graph.version, metadata=graph.metadata)
        for each in inner.operators:
            found, doubt = _ask(target, each, inner)
            refused = refused or (found and f"in {name}: {found}")
            unsure = unsure or (doubt and f"in {name}: {doubt}")
    return refused, unsure
