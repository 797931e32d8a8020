"""What a dialect answers: an operator's kind, the numbers its formula needs, and which of its inputs are parameters.

All dialects use the functions here. A number that is open is None, and so is every product and sum with it. Options and
shapes that contradict the operator's definition raise `Unclear`, and `apply` makes an unknown cost with a reason of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.graph import Tensor
from edgewise.model.signature import Dimension

MAX_SIZES = 64
"""Most entries of an option that lists sizes; multiplying a longer, hostile one could take very long."""
MAX_SIZE = 2**63 - 1

Values = Callable[[int], tuple[int | float, ...] | None]
"""Position of an input → its elements, flattened, where it is a small constant; None where it is not."""


class Unclear(Exception):
    """An operator's options or shapes contradict its definition; the message says how."""


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
        lengths: number of entries of options that are lists too long to be read.
    """

    op: str
    domain: str = ""
    version: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[Tensor | None] = ()
    outputs: Sequence[Tensor | None] = ()
    values: Values = lambda at: None
    lengths: Mapping[str, int] = field(default_factory=dict)

    def input(self, at: int | None) -> Tensor | None:
        """Return the input at a position, None where it is left out."""
        return self.inputs[at] if at is not None and 0 <= at < len(self.inputs) else None

    def output(self, at: int = 0) -> Tensor | None:
        """Return the output at a position, None where it is left out."""
        return self.outputs[at] if at < len(self.outputs) else None

    def given(self, at: int | None) -> bool:
        """Whether the optional input at a position is there."""
        return self.input(at) is not None

    @property
    def positions(self) -> tuple[int, ...]:
        """Positions of all inputs."""
        return tuple(range(len(self.inputs)))

    def integer(self, name: str, default: int) -> int:
        """Return an option that is a whole number. Raises `Unclear` where it is something else."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise Unclear(f"its option {name!r} is not a whole number")
        return value

    def natural(self, name: str, default: int) -> int:
        """Return an option that counts something. Raises `Unclear` where it is no size."""
        value = self.integer(name, default)
        if not 0 <= value <= MAX_SIZE:
            raise Unclear(f"its option {name!r} is not a size")
        return value

    def number(self, name: str, default: float) -> float:
        """Return an option that is a number. Raises `Unclear` where it is something else."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float):
            raise Unclear(f"its option {name!r} is not a number")
        return value

    def text(self, name: str, default: str) -> str:
        """Return an option that is a word. Raises `Unclear` where it is something else."""
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise Unclear(f"its option {name!r} is not text")
        return value

    def listed(self, name: str) -> tuple[Any, ...] | None:
        """Return an option that is a list, None where it is not there. Raises `Unclear` where it is something else."""
        value = self.attributes.get(name)
        if value is None:
            return None
        if not isinstance(value, tuple | list) or len(value) > MAX_SIZES:
            raise Unclear(f"its option {name!r} is not a list of at most {MAX_SIZES}")
        return tuple(value)

    def sizes(self, name: str) -> tuple[int, ...] | None:
        """Return an option that lists sizes, None where it is not there.

        Raises `Unclear` where it is something else.
        """
        found = self.listed(name)
        if found is not None and not all(isinstance(each, int) and 0 <= each <= MAX_SIZE for each in found):
            raise Unclear(f"its option {name!r} has an entry that is not a size")
        return found

    def length(self, name: str) -> int:
        """Return how many entries an option that is a list has. Raises `Unclear` where it is something else."""
        value = self.attributes.get(name, ())
        if not isinstance(value, tuple | list):
            raise Unclear(f"its option {name!r} is not a list")
        return len(value) or self.lengths.get(name, 0)

    def constant_size(self, at: int) -> int | None:
        """Return the size in a constant input, None where the input is no constant.

        Raises `Unclear` where it is no size.
        """
        values = self.values(at) if self.given(at) else None
        if not values:
            return None
        if not isinstance(values[0], int) or not 0 <= values[0] <= MAX_SIZE:
            raise Unclear(f"its input {at} is not a size")
        return values[0]


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


Rule = Semantics | Callable[[RawOperator], Semantics]
"""Meaning of an operator's type: the same for all of them, or read from the operator's options and shapes."""


def apply(rule: Rule | None, raw: RawOperator) -> Semantics:
    """Return the meaning of `raw` by `rule`. None is the rule of an unknown operator, which has no kind.

    Options, shapes and constants come from a file: `Unclear` becomes a `Semantics` without a kind, with the reason.
    """
    if rule is None or isinstance(rule, Semantics):
        return rule or Semantics()
    try:
        return rule(raw)
    except Unclear as contradiction:
        return Semantics(why=str(contradiction))


_BOOKKEEPING = frozenset({"int32", "int64", "uint32", "uint64", "bool", "string", "resource", "variant"})
_PLAIN = frozenset({"elementwise", "activation", "movement"})


def drop_indices(raw: RawOperator, semantics: Semantics) -> Semantics:
    """`semantics` without weights that are left out, or that are shapes, indices, counters and conditions.

    Those are integers that take part in arithmetic or are moved; integers that a network multiplies are parameters.
    """
    plain = semantics.kind in _PLAIN
    found = [(at, raw.input(at)) for at in semantics.weights]
    kept = [at for at, tensor in found if tensor is not None and not (plain and tensor.dtype in _BOOKKEEPING)]
    return semantics if len(kept) == len(semantics.weights) else replace(semantics, weights=tuple(kept))


# -- tensors and their sizes ------------------------------------------------------------------------------------------


def rank(tensor: Tensor | None) -> int | None:
    """Return number of dimensions of a tensor, None where that is open."""
    return None if tensor is None or tensor.shape is None else len(tensor.shape)


def shape_of(tensor: Tensor | None) -> tuple[Dimension, ...]:
    """Return the shape of a tensor, () where the tensor is left out or its rank is open."""
    return tensor.shape or () if tensor is not None else ()


def size_of(tensor: Tensor | None, axis: int) -> int | None:
    """One dimension of a tensor, None where it is open or the tensor has no such dimension."""
    shape = shape_of(tensor)
    size = shape[axis] if -len(shape) <= axis < len(shape) else None
    return size if isinstance(size, int) else None


def size(tensor: Tensor | None, axis: int) -> int | None:
    """One dimension of a tensor, None where it is open.

    Raises:
        Unclear: the tensor has no such dimension.
    """
    if tensor is not None and tensor.shape is not None and not -len(tensor.shape) <= axis < len(tensor.shape):
        raise Unclear(f"{tensor.name!r} has {len(tensor.shape)} dimensions, too few for this operator")
    return size_of(tensor, axis)


def product_of(tensor: Tensor | None, first: int = 0, last: int | None = None) -> int | None:
    """Product of the dimensions from `first` up to `last`, None where one is open."""
    return None if tensor is None or tensor.shape is None else multiply(*tensor.shape[first:last])


def elements(tensor: Tensor | None) -> int | None:
    """Elements of a tensor, None where a dimension is open."""
    return None if tensor is None else tensor.elements


def multiply(*factors: Dimension) -> int | None:
    """Return the product of sizes, None where one is open."""
    known = [factor for factor in factors if isinstance(factor, int)]
    return math.prod(known) if len(known) == len(factors) else None


def add(*terms: int | None) -> int | None:
    """Return the sum of numbers, None where one is open."""
    known = [term for term in terms if term is not None]
    return sum(known) if len(known) == len(terms) else None


def divide(dividend: int | None, divisor: int | None) -> int | None:
    """Return a whole quotient, None where one of the numbers is open.

    Raises:
        Unclear: it has a remainder, or the divisor is less than 1.
    """
    if dividend is None or divisor is None:
        return None
    if divisor < 1 or dividend % divisor:
        raise Unclear(f"{dividend} is not divisible by {divisor}")
    return dividend // divisor


# -- meanings ---------------------------------------------------------------------------------------------------------


def mean(kind: str, *, weights: tuple[int, ...] = (), why: str = "", **geometry: Any) -> Semantics:
    """Semantics without the numbers that are open."""
    known = {name: value for name, value in geometry.items() if value is not None}
    return Semantics(kind=kind, geometry=known, weights=weights, why=why)


def per_element(operations: int | None, *, kind: str = "elementwise", weights: tuple[int, ...] = ()) -> Semantics:
    """Return the same number of operations for each element of the output."""
    return mean(kind, per_element=operations, weights=weights)


def function(name: str, *, weights: tuple[int, ...] = ()) -> Semantics:
    """Return a function of `edgewise.model.cost.ACTIVATIONS`, element by element."""
    return mean("activation", activation=name, weights=weights)


def reducing(per_input: int = 1, per_output: int = 0, **more: Any) -> Semantics:
    """Operations for each element of the input and of the output."""
    return mean("reduction", per_input=per_input, per_output=per_output, **more)


def counted(macs: int | None, ops: int | None, *, weights: tuple[int, ...] = ()) -> Semantics:
    """MACs and operations in total; both are unknown where one of them depends on an open dimension."""
    if macs is None or ops is None:
        return Semantics(kind="counted", weights=weights, why=OPEN)
    return mean("counted", macs=macs, ops=ops, weights=weights)


def rare(*weights: int, macs: int | None = 0) -> Semantics:
    """Return the meaning of a rare operator whose operations are not counted; `macs` None means: nor its MACs."""
    return mean("counted", macs=macs, weights=weights, why=RARE)


def moving(*weights: int) -> Semantics:
    """Values are moved and nothing is computed."""
    return Semantics(kind="movement", weights=weights)


def unknown(why: str) -> Semantics:
    """No cost can be given."""
    return Semantics(why=why)


def data_dependent(why: str = "") -> Semantics:
    """No MACs, and a number of operations that depends on the data."""
    return Semantics(kind="sorting", why=why)


RARE = "edgewise does not count the operations of this rare operator"
OPEN = "its cost depends on an open dimension"
RANDOM = data_dependent("the cost of a random number depends on the generator")


def each(names: str | Iterable[str], rule: Rule) -> dict[str, Rule]:
    """Return the same rule for several operators, listed or named in one string."""
    return dict.fromkeys(names.split() if isinstance(names, str) else names, rule)


# -- formulas that formats share --------------------------------------------------------------------------------------


USUAL_FUNCTIONS = {1: (("tanh", 1),), 3: (("sigmoid", 2), ("tanh", 1)), 4: (("sigmoid", 3), ("tanh", 1), ("tanh", 1))}
"""Gates of a recurrent layer (RNN 1, GRU 3, LSTM 4) → its functions, and how often a step applies each of them."""


def other_functions(gates: int, costs: Sequence[int], *, clip: int = 0) -> int:
    """Operations per unit and step that other functions than the usual ones take beyond those.

    Args:
        costs: operations per element of the functions, in the order of `USUAL_FUNCTIONS`.
        clip: further operations wherever a function is applied.
    """
    usual = USUAL_FUNCTIONS[gates]
    return sum(times * (cost - ACTIVATIONS[name] + clip) for cost, (name, times) in zip(costs, usual, strict=False))


def attention(raw: RawOperator, *, batch: int | None, heads: int | None) -> Semantics:
    """Attention of the inputs query […, queries, depth], key […, keys, depth] and value […, keys, value depth]."""
    query, key, value = (raw.input(at) for at in range(3))
    if min(len(shape_of(each)) for each in (query, key, value)) < 2:
        return mean("attention")
    return mean(
        "attention", batch=batch, heads=heads, queries=size_of(query, -2), keys=size_of(key, -2),
        depth=size_of(query, -1), value_depth=size_of(value, -1),
    )  # fmt: skip


def pool_areas(
    before: Sequence[Dimension] | None, after: Sequence[Dimension] | None, *, average: bool, channels: int | None = 1
) -> Semantics:
    """Pooling to given sizes: window i of n along a dimension of size s reaches from ⌊i·s/n⌋ to ⌈(i+1)·s/n⌉.

    Windows are equal where the sizes divide; else the elements that they take together are counted.

    Args:
        before, after: sizes of the dimensions that are pooled.
        channels: product of all other dimensions.
    """
    pairs = zip(before or (), after or (), strict=False)
    spans = [(old, new) for old, new in pairs if isinstance(old, int) and isinstance(new, int) and new > 0]
    if before is None or after is None or not len(before) == len(after) == len(spans):
        return mean("pooling", average=average)
    if all(old % new == 0 for old, new in spans):
        return mean("pooling", window=math.prod(old // new for old, new in spans), average=average)
    # Σ (⌈(i+1)·s/n⌉ − ⌊i·s/n⌋) = s + n − gcd(s, n): each inner bound that is no integer counts twice.
    taken = math.prod(old + new - math.gcd(old, new) for old, new in spans)
    divisions = math.prod(new for _, new in spans) if average else 0
    return counted(0, multiply(channels, taken + divisions))
