"""What a dialect answers: an operator's kind, the numbers its formula needs, and which of its inputs are parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgewise.model.graph import Tensor

Values = Callable[[int], tuple[int | float, ...] | None]
"""Position of an input → its elements, flattened, where it is a small constant; None where it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawOperator:
    """An operator as its format has it.

    Attributes:
        op: its type.
        domain: of its operator set, "" for the format's own.
        version: of the operator set (ONNX: opset; TFLite: the operator's version; OpenVINO: of the set); 0 unknown.
        attributes: its options by the format's own names, as plain values (int, float, str, tuples of them).
        inputs, outputs: in the format's order; None for one that is left out.
        values: elements of small constant inputs.
    """

    op: str
    domain: str = ""
    version: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[Tensor | None] = ()
    outputs: Sequence[Tensor | None] = ()
    values: Values = lambda at: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Semantics:
    """What an operator is.

    Attributes:
        kind: of `edgewise.model.cost.KINDS`, or "" where this dialect does not know it.
        geometry: as its kind documents; a number that depends on an open dimension is left out.
        weights: positions of the inputs that are parameters if they are constants.
        why: with the kind "" (or a kind whose cost depends on data): why the cost is unknown.
    """

    kind: str = ""
    geometry: Mapping[str, Any] = field(default_factory=dict)
    weights: tuple[int, ...] = ()
    why: str = ""
