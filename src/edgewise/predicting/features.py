"""What the operators of a network do, in the few numbers that laws of devices are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgewise.model.cost import count
from edgewise.model.graph import Graph, Operator

TERMS = ("pointwise", "spatial", "depthwise", "dense", "elements", "operators")
"""Of a profile: MACs of 1×1 convolutions, of other convolutions, of depthwise ones, of matrix products and recurrent
layers; elements that all other operators write; and the number of operators."""
UNITS_OF_WORK = (
    "MAC of 1×1 convolutions", "MAC of larger convolutions", "MAC of depthwise convolutions", "MAC of matrix products",
    "element that other operators write", "operator",
)  # fmt: skip
"""What one of each of `TERMS` is."""
RELATIVE_COSTS = np.array([1.0, 1.0, 2.2, 2.5, 1.0, 2000.0])
"""What a unit of each term takes on a CPU, relative to a MAC of a 1×1 convolution: a starting point, from which the
points of a device move it."""
_DENSE = ("matrix-multiplication", "attention", "recurrent")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProfile:
    """The terms of one network.

    Attributes:
        amounts: one number ≥ 0 for each of `TERMS`.
        unknown: operators whose work can't be counted; where there are any, no law of operators applies.
    """

    amounts: tuple[float, ...]
    unknown: tuple[str, ...] = ()

    @property
    def shares(self) -> NDArray[np.float64]:
        """The part of each term in the whole, by `RELATIVE_COSTS`; adds up to 1."""
        costs: NDArray[np.float64] = np.asarray(self.amounts, dtype=np.float64) * RELATIVE_COSTS
        return costs / (float(costs.sum()) or 1.0)

    @property
    def work(self) -> float:
        """The whole by `RELATIVE_COSTS`, in MACs of a 1×1 convolution."""
        return float(np.asarray(self.amounts) @ RELATIVE_COSTS)


def profile_of(graph: Graph) -> OperatorProfile:
    """Return the terms of `graph`; operators of subgraphs count where their number of executions is known.

    Weights that are stored in another type are converted when an engine loads the network: no work of an inference.
    """
    amounts = dict.fromkeys(TERMS, 0.0)
    unknown: list[str] = []
    for operator in graph.operators:
        if operator.kind == "dequantize" and all(tensor.constant for tensor in graph.input_tensors(operator)):
            continue
        cost = count(operator, graph)
        if cost.macs is None or cost.ops is None:
            unknown.append(f"{operator.title}: {cost.why}")
            continue
        amounts["operators"] += 1
        if cost.macs:
            amounts[_group(operator, graph)] += cost.macs
        else:
            amounts["elements"] += sum(tensor.elements or 0 for tensor in graph.output_tensors(operator))
    return OperatorProfile(amounts=tuple(amounts[term] for term in TERMS), unknown=tuple(unknown))


def _group(operator: Operator, graph: Graph) -> str:
    """Return the term that the MACs of `operator` belong to."""
    if operator.kind in _DENSE:
        return "dense"
    if operator.geometry.get("depthwise"):
        return "depthwise"
    # 1×1: one MAC per input channel, which is the second or the last dimension of the data.
    shape: Sequence[object] = next((tensor.shape or () for tensor in graph.input_tensors(operator)), ())
    return "pointwise" if len(shape) > 1 and operator.geometry.get("reduction") in (shape[1], shape[-1]) else "spatial"
