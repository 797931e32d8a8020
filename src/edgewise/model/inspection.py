"""Everything that can be told of a model without timing it, gathered once for every way to show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edgewise.model.cost import KINDS, OperatorCost, Total, count, total_of
from edgewise.model.graph import LANGUAGE_MODEL, Graph, Operator, Quantization, Tensor
from edgewise.model.memory_plan import MemoryPlan, describe_plan, plan_memory
from edgewise.model.precision import find_precision
from edgewise.model.sparsity import Sparsity
from edgewise.model.support import OperatorSet, Support, judge, operator_sets
from edgewise.shown import Shown

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Inspection(Shown):
    """A network with what it costs.

    Attributes:
        source: of the model: name, path, format, size; see `edgewise.api.inspect`.
        costs: one per operator of `graph`, in order.
        support: which of its operators each target supports.
        sparsity: zeros of its weights; None if they were not counted.
    """

    source: Mapping[str, Any]
    graph: Graph
    costs: tuple[OperatorCost, ...]
    total: Total
    plan: MemoryPlan
    support: tuple[Support, ...]
    sparsity: Sparsity | None = None

    @property
    def precision(self) -> str:
        """Types of the data that the arithmetic works on, the most used first: ``int8``, ``float32, int8 weights``."""
        return find_precision(self.graph)

    @property
    def basis(self) -> str:
        """``measured`` where a run told shapes that depend on values, branches or repetitions; else ``derived``."""
        return "measured" if "observed" in self.graph.metadata else "derived"

    @property
    def method(self) -> str:
        """How what can't be derived was found, or why it was not; "" where there is nothing to say."""
        return str(self.graph.metadata.get("observed") or self.graph.metadata.get("unobserved") or "")

    def to_dict(self) -> dict[str, Any]:
        """Return the document that ``edgewise inspect --json`` prints, JSON-shaped."""
        graph, total = self.graph, self.total
        return {
            "schema": SCHEMA,
            "model": {
                **self.source,
                "precision": self.precision,
                "producer": graph.producer,
                "version": graph.version,
                "inputs": [describe_tensor(graph.tensors[name]) for name in graph.inputs],
                "outputs": [describe_tensor(graph.tensors[name]) for name in graph.outputs],
                "states": list(graph.states),
                "signature": graph.signature or None,
                "signatures": {
                    name: {"inputs": [describe_tensor(each) for each in inputs]}
                    for name, inputs in graph.signatures.items()
                },
                "metadata": dict(graph.metadata),
            },
            "totals": {
                "macs": total.macs,
                "ops": total.ops,
                "macs_known": total.macs_known,
                "ops_known": total.ops_known,
                "unknown": list(total.unknown),
                "unknown_because": total.why or None,
                "basis": self.basis,
                "method": self.method or None,
                "parameters": total.parameters,
                "weight_bytes": total.weight_bytes,
                "scale_bytes": total.scale_bytes,
                "activation_peak_bytes": None if self.plan.unknown else self.plan.lower_bound_bytes,
                "depth": None if LANGUAGE_MODEL in graph.metadata else total.depth,
                "layers": len(graph.operators),
                "layers_with_parameters": sum(1 for cost in self.costs if cost.parameters or cost.parameters is None),
            },
            "layers": [
                describe_operator(operator, cost, graph, self.support)
                for operator, cost in zip(graph.operators, self.costs, strict=True)
            ],
            "subgraphs": {name: _describe_subgraph(inner) for name, inner in graph.subgraphs.items()},
            "memory_plan": {**describe_plan(self.plan), "basis": self.basis},
            "support": [
                {
                    "name": each.name,
                    "title": each.title,
                    "source": each.source,
                    "unsupported": len(each.refusals),
                    "unknown": len(each.unknown),
                }
                for each in self.support
            ],
            **({"sparsity": self.sparsity.to_dict()} if self.sparsity is not None else {}),
        }


def inspect_graph(graph: Graph, *, source: Mapping[str, Any], sets: Iterable[OperatorSet] | None = None) -> Inspection:
    """Count, plan and judge `graph`.

    Args:
        sets: operator sets to ask; None asks all that are installed.
    """
    asked = [each for _, each in operator_sets()] if sets is None else list(sets)
    costs = tuple(count(operator, graph) for operator in graph.operators)
    return Inspection(
        source=source,
        graph=graph,
        costs=costs,
        total=total_of(graph, costs),
        plan=plan_memory(graph),
        support=judge(graph, asked),
    )


def describe_tensor(tensor: Tensor) -> dict[str, Any]:
    """Name, shape, dtype and quantisation of a tensor, JSON-shaped."""
    scheme = tensor.quantization
    return {
        "name": tensor.name,
        "shape": None if tensor.shape is None else list(tensor.shape),
        "dtype": tensor.dtype,
        **({"quantization": _describe_scheme(scheme)} if scheme else {}),
        **({"sparsity": tensor.sparsity} if tensor.sparsity is not None else {}),
    }


def _describe_scheme(scheme: Quantization) -> dict[str, Any]:
    return {name: value for name, value in asdict(scheme).items() if name != "zero_points"}


def describe_operator(
    operator: Operator, cost: OperatorCost, graph: Graph, support: Iterable[Support] = ()
) -> dict[str, Any]:
    """One row of ``layers``, JSON-shaped."""
    asked = list(support)
    return {
        "index": operator.index,
        "name": operator.name,
        "label": operator.label or None,
        "op": operator.op,
        "kind": operator.kind or None,
        "macs": cost.macs,
        "ops": cost.ops,
        "cost_unknown_because": cost.why or None,
        "parameters": cost.parameters,
        "weight_bytes": cost.weight_bytes,
        "scale_bytes": cost.scale_bytes,
        "activation_bytes": cost.activation_bytes,
        "intensity": cost.intensity,
        "inputs": [describe_tensor(tensor) for tensor in graph.input_tensors(operator)],
        "outputs": [describe_tensor(tensor) for tensor in graph.output_tensors(operator)],
        "attributes": dict(operator.attributes),
        "custom": operator.custom,
        "subgraphs": list(operator.subgraphs),
        "supported_by": [
            each.name for each in asked if operator.index not in each.refusals and operator.index not in each.unknown
        ],
        "unsupported_by": {
            each.name: each.refusals[operator.index] for each in asked if operator.index in each.refusals
        },
        "support_unknown": {
            each.name: each.unknown[operator.index] for each in asked if operator.index in each.unknown
        },
    }


def _describe_subgraph(graph: Graph) -> dict[str, Any]:
    return {
        "inputs": [describe_tensor(graph.tensors[name]) for name in graph.inputs],
        "outputs": [describe_tensor(graph.tensors[name]) for name in graph.outputs],
        "layers": [describe_operator(operator, count(operator, graph), graph) for operator in graph.operators],
        "subgraphs": {name: _describe_subgraph(inner) for name, inner in graph.subgraphs.items()},
    }


def name_kind(operator: Operator) -> str:
    """Return what a person calls the operator's kind."""
    return KINDS[operator.kind].title if operator.kind else "unknown"
