"""Which tensors of two networks are the same, before and after a conversion or a quantisation.

Converters and quantisers keep the names of most tensors: those of the same name belong together. Where few names agree,
as between formats, products with weights are aligned in the order of execution by the number of values that they make.
An engine's format may join a product with the activation behind it, so a layer can have several candidates: the tensors
that follow it one by one. Which of them are the same is decided by their values.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from edgewise.model.graph import Graph, Operator

INPUT = "input"
"""What stands for the operator of a graph's input."""
_FOLLOWING = {
    "relu", "relu6", "clip", "leakyrelu", "prelu", "hardswish", "hardsigmoid", "sigmoid", "logistic", "tanh", "elu",
    "selu", "gelu", "add", "mul", "multiply", "batchnormalization", "batchnorm", "softmax", "swish", "hswish",
    "hsigmoid", "clamp",
}  # fmt: skip
"""Operators that a format may join with the product before them, without case and underscores."""
_QUANTIZE, _DEQUANTIZE = {"quantizelinear", "quantize"}, {"dequantizelinear", "dequantize"}
_BOTH = "fakequantize"
"""Quantises and dequantises in one operator."""
_OF_SHAPES = {"shapeof", "shape", "size", "rank"}
_BY_NAME_FROM = 0.5
"""Share of the products that must be found by name."""


@dataclass(frozen=True, slots=True)
class Match:
    """One layer of the reference and the layer of the other model that makes the same tensor.

    Attributes:
        name, op: of the reference's operator.
        other: name of the other model's operator.
        first, second: candidates, names of tensors of the reference and of the other model.
        inputs: places of the matches that its values come from, in the list of all.
        is_added: only the other model has the layer; the reference's tensor is the one that it changes.
    """

    name: str
    op: str
    other: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    inputs: tuple[int, ...] = ()
    is_added: bool = False


def match_tensors(
    reference: Graph, other: Graph, added: Container[str] = (), *, twins: Mapping[str, Operator] | None = None
) -> list[Match]:
    """Return the inputs, then the layers in the reference's order of execution; empty where nothing is alike.

    Args:
        added: operators that only `other` has. One through which all values of a layer go is a layer, too.
        twins: operator of `reference` → its twin, where names mislead; else none.
    """
    one, two = _View(reference), _View(other)
    inputs = [
        Match(name, INPUT, twin, (name, *one.settled(name)), (twin, *two.settled(twin)))
        for name, twin in zip(reference.inputs, other.inputs, strict=False)
    ]
    products = one.products()
    found = _named_after_products(list(_by_name(one, two, twins or {})), one)
    named = {match.name for match in found}
    if sum(each.name in named for each in products) < _BY_NAME_FROM * len(products):
        found = _by_order(one, two)
    return _with_inputs(_with_added([*inputs, *found], added, one, two), one)


def products_of(graph: Graph) -> list[Operator]:
    """Return the operators with weights, in the order of execution."""
    return _View(graph).products()


class _View:
    """A graph with the operators that make and take each tensor."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.maker: dict[str, Operator] = {name: each for each in graph.operators for name in each.outputs if name}
        self.takers: dict[str, list[Operator]] = {}
        self.fed = set(graph.inputs)
        """Tensors whose values depend on the inputs, not on their shapes alone."""
        for each in graph.operators:
            for name in dict.fromkeys(each.inputs):
                self.takers.setdefault(name, []).append(each)
            if _word(each) not in _OF_SHAPES and not self.fed.isdisjoint(each.inputs):
                self.fed.update(each.outputs)

    def products(self) -> list[Operator]:
        """Return the operators with weights whose size is known, those whose weights are dequantised first among them.

        What a format may join with the product before it, such as the sum of a bias, belongs to that one.
        """
        found, joined = [], set[str]()
        for each in self.graph.operators:
            if self._has_weights(each) and self.sizes(each.outputs[0]) and each.name not in joined:
                found.append(each)
                joined.update(one.name for one in self.joined(each))
        return found

    def _has_weights(self, operator: Operator) -> bool:
        if not operator.kind or _word(operator) in _QUANTIZE | _DEQUANTIZE or self.fed.isdisjoint(operator.inputs):
            return False
        makers = (self.maker.get(name) for name in operator.inputs[1:])
        return bool(operator.weights) or any(each and _word(each) in _DEQUANTIZE and each.weights for each in makers)

    def sizes(self, name: str) -> int:
        tensor = self.graph.tensors.get(name)
        return (tensor.elements or 0) if tensor is not None else 0

    def settled(self, name: str) -> tuple[str, ...]:
        """Where `name` is quantised and dequantised again, the tensor that the layers behind it see; else nothing."""
        takers = self.takers.get(name, [])
        if len(takers) == 1 and _word(takers[0]) == _BOTH:
            return (takers[0].outputs[0],)
        quantised = [each.outputs[0] for each in takers if _word(each) in _QUANTIZE]
        for each in [taker for middle in quantised for taker in self.takers.get(middle, [])]:
            if _word(each) in _DEQUANTIZE:
                return (each.outputs[0],)
        return ()

    def seen(self, name: str) -> str:
        """`name` as the layers behind it see it."""
        return next(iter(self.settled(name)), name)

    def following(self, operator: Operator) -> tuple[str, ...]:
        """Return the operator's output and those that follow it one by one, as far as a format may join them."""
        return tuple(self.seen(each.outputs[0]) for each in self.joined(operator))

    def joined(self, operator: Operator) -> list[Operator]:
        """`operator` and those that follow it one by one, as far as a format may join them."""
        found = [operator]
        while len(takers := self._users(self.seen(found[-1].outputs[0]))) == 1 and len(found) < 5:
            (taker,) = takers
            if _word(taker) not in _FOLLOWING or self.sizes(taker.outputs[0]) != self.sizes(operator.outputs[0]):
                break
            found.append(taker)
        return found

    def _users(self, name: str) -> list[Operator]:
        """Return the operators that take the values of `name`, not its shape alone."""
        return [each for each in self.takers.get(name, []) if _word(each) not in _OF_SHAPES]


def _word(operator: Operator) -> str:
    name = operator.op.split(".")[1] if operator.op.startswith("aten.") else operator.op
    return name.replace("_", "").casefold()


def _by_name(one: _View, two: _View, twins: Mapping[str, Operator]) -> Iterator[Match]:
    for operator in one.graph.operators:
        if _word(operator) in _QUANTIZE | _DEQUANTIZE | {_BOTH}:
            continue
        for at, name in enumerate(operator.outputs):
            twin, made = two.maker.get(name), name
            if twins:
                twin = twins.get(operator.name)
                made = twin.outputs[at] if twin is not None and at < len(twin.outputs) else ""
            if name and made and twin is not None and 0 < one.sizes(name) == two.sizes(made):
                # A quantised network's own tensor, and what the layers behind it see of it.
                first: tuple[str, ...] = (one.seen(name),)
                second: tuple[str, ...] = (two.seen(made),)
                # A converter may give the product the name of what was joined with the activation, or the reverse.
                if _is_fused(operator) != _is_fused(twin):
                    first = first if _is_fused(operator) else one.following(operator)
                    second = second if _is_fused(twin) else two.following(twin)
                yield Match(operator.name, operator.op, twin.name, first, second)
                break


def _is_fused(operator: Operator) -> bool:
    """Whether an activation is joined with another operator."""
    return operator.kind != "activation" and operator.geometry.get("activation", "none") != "none"


def _named_after_products(matches: Sequence[Match], view: _View) -> list[Match]:
    """Return `matches`; where only the activation behind a product has a twin, the layer is the product."""
    makers = {match.name for match in matches}
    owners = {name: each for each in view.products() if each.name not in makers for name in view.following(each)[1:]}
    found = []
    for match in matches:
        owner = owners.get(match.first[0])
        found.append(match if owner is None else replace(match, name=owner.name, op=owner.op))
    return found


def _by_order(one: _View, two: _View) -> list[Match]:
    sides = [view.products() for view in (one, two)]
    counts = [[view.sizes(each.outputs[0]) for each in side] for view, side in zip((one, two), sides, strict=True)]
    blocks = SequenceMatcher(None, counts[0], counts[1], autojunk=False).get_matching_blocks()
    pairs = [(sides[0][block.a + at], sides[1][block.b + at]) for block in blocks for at in range(block.size)]
    found = []
    for a, b in pairs:
        first, second = one.following(a), two.following(b)
        # A file may tell a name of the last tensor only, behind operators that another joins with the product.
        shared = [name for name in (*first, *second) if name in one.maker and name in two.maker]
        first, second = (tuple(dict.fromkeys((*names, *shared))) for names in (first, second))
        found.append(Match(a.name, a.op, b.name, first, second))
    return found


def _with_added(matches: Sequence[Match], added: Container[str], one: _View, two: _View) -> list[Match]:
    """Return `matches`, and behind each the layers of `added` that alone take its values and keep their shape."""
    found = list(matches)
    names = {each.name for each in one.graph.operators}
    for operator in two.graph.operators:
        sources = [name for name in operator.inputs if name in two.fed]
        if operator.name not in added or operator.name in names or len(sources) != 1 or len(operator.outputs) != 1:
            continue
        (source,), (made,) = sources, operator.outputs
        place = next((at for at, match in enumerate(found) if match.second == (source,)), None)
        if place is None or len(found[place].first) > 1 or any(made in match.second for match in found):
            continue
        (right,) = found[place].first
        shapes = [view.graph.tensors[name].shape for view, name in ((one, right), (two, made))]
        if len(two.takers[source]) == 1 and source not in two.graph.outputs and shapes[0] == shapes[1] is not None:
            found.insert(place + 1, Match(operator.name, operator.op, operator.name, (right,), (made,), is_added=True))
    return found


def _with_inputs(matches: Sequence[Match], view: _View) -> list[Match]:
    """Return `matches` with the nearest ones before each, through operators that have none."""
    places: dict[str, int] = {}
    for place, match in enumerate(matches):
        operator = view.maker.get(match.first[0])
        places.update(dict.fromkeys([*match.first, *(operator.outputs if operator is not None else ())], place))
    own = {match.name: place for place, match in enumerate(matches) if match.op != INPUT}
    operators: Mapping[str, Operator] = {each.name: each for each in view.graph.operators}
    found = []
    for at, match in enumerate(matches):
        operator = None if match.op == INPUT else operators.get(match.name)
        before = {at - 1} if match.is_added else set[int]()
        if operator is not None:
            before = _nearest(operator, view, places, own=own.get(match.name))
        found.append(replace(match, inputs=tuple(sorted(before))))
    return found


def _nearest(operator: Operator, view: _View, places: Mapping[str, int], *, own: int | None) -> set[int]:
    found, seen = set[int](), set[str]()
    waiting = list(operator.inputs)
    while waiting:
        name = waiting.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        if (place := places.get(name)) is not None and place != own:
            found.add(place)
        elif (maker := view.maker.get(name)) is not None:
            waiting += maker.inputs
    return found
