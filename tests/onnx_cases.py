"""Tiny ONNX operators with costs computed by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edgewise.model.cost import KINDS, OperatorCost, count
from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.onnx import interpret
from edgewise.model.graph import Graph, Operator, Tensor

Shape = tuple[int | str | None, ...]


def ints(*shape: int) -> tuple[str, Shape]:
    """A shape of int64."""
    return "int64", shape


def truths(*shape: int) -> tuple[str, Shape]:
    """A shape of truth values."""
    return "bool", shape


def tensor(name: str, given: Any, *, constant: bool) -> Tensor | None:
    if given is None:
        return None
    if given == "rank unknown":
        return Tensor(name=name, shape=None, dtype="float32", constant=constant)
    dtype, shape = given if given and isinstance(given[0], str) and isinstance(given[-1], tuple) else ("float32", given)
    return Tensor(name=name, shape=shape, dtype=dtype, constant=constant)


@dataclass(frozen=True)
class Case:
    """An operator, and what it must cost; `parameters` counts those of all inputs but the first, `weights` says which."""

    op: str
    inputs: list[Any]
    outputs: list[Any]
    macs: int | None
    ops: int | None
    parameters: int | None = None
    kind: str | None = None
    why: str = ""
    version: int = 0
    domain: str = ""
    values: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    constant: tuple[int, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.domain}.{self.op}" if self.domain else self.op


def ask(case: Case) -> RawOperator:
    constant = range(1, len(case.inputs)) if case.constant is None else case.constant
    return RawOperator(
        op=case.op,
        domain=case.domain,
        version=case.version,
        attributes=case.options,
        inputs=[tensor(f"i{at}", each, constant=at in constant) for at, each in enumerate(case.inputs)],
        outputs=[tensor(f"o{at}", each, constant=False) for at, each in enumerate(case.outputs)],
        values=case.values.get,
    )


def cost_of_question(raw: RawOperator) -> tuple[Semantics, OperatorCost]:
    """What the dialect says, and what the formulas make of it."""
    semantics = interpret(raw)
    assert semantics.kind == "" or set(semantics.geometry) <= set(KINDS[semantics.kind].geometry)
    tensors = {each.name: each for each in (*raw.inputs, *raw.outputs) if each is not None}
    operator = Operator(
        index=0,
        name="it",
        op=raw.op,
        kind=semantics.kind,
        inputs=tuple("" if each is None else each.name for each in raw.inputs),
        outputs=tuple("" if each is None else each.name for each in raw.outputs),
        weights=tuple(each.name for at in semantics.weights if (each := raw.inputs[at]) is not None and each.constant),
        geometry=semantics.geometry,
        unknown_because=semantics.why,
    )
    graph = Graph(name="", format="onnx", tensors=tensors, operators=(operator,), inputs=(), outputs=())
    return semantics, count(operator, graph)


def check(case: Case) -> None:
    """Asserts what the case says."""
    semantics, cost = cost_of_question(ask(case))
    assert (cost.macs, cost.ops) == (case.macs, case.ops), (semantics, cost)
    if case.parameters is not None:
        assert cost.parameters == case.parameters, (semantics, cost)
    if case.kind is not None:
        assert semantics.kind == case.kind
    if case.macs is None or case.ops is None:
        assert cost.why
    assert case.why in cost.why
