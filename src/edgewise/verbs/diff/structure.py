"""What differs between two graphs of one format before any value is computed: operators, their options and weights.

Operators are paired in the order of execution: by their names where both graphs have them, else by their type between
neighbours that are paired (`difflib`). What stands between the same neighbours in place of other operators is a
replacement, such as a fused operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.errors import BadModel
from edgewise.grouping import by_key
from edgewise.model.graph import BITS, Graph, Operator, Tensor
from edgewise.model.sparsity import open_elements
from edgewise.text import enumerate_few, one_line

MOST_LINES, MOST_NAMES, MOST_TYPES = 12, 3, 6
MOST_UNNAMED = 3000
"""Operators without a name in common that are paired by type: more take more than some seconds."""
_CONVERTS = ("quantize", "dequantize")
_NEUTRAL, _NO_PADDING = (0, 1, "NOTSET", ""), (0, "NOTSET")
"""Values of options that mean the same as an option that is left out."""
_FOLLOWS = ("kernel_shape",)
"""Options that follow from the weights where they are left out."""
_OTHER, _UNREAD, _ONLY_IN = "with other values", "whose values can not be read here", "only in "


Stretch = tuple[str, Sequence[Operator], Sequence[Operator]]
"""What `difflib` calls a stretch of both graphs (``equal``, ``replace``, ``delete``, ``insert``), and its operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneOperator:
    """An operator that only one of both graphs has, in place of nothing.

    Attributes:
        name, op: as its graph has them.
        title: what a person calls it.
        is_added: the second graph has it; else the first.
        before, after: titles of what its values come from and of what takes them, or names of tensors of the graph.
    """

    name: str
    op: str
    title: str
    is_added: bool
    before: str = ""
    after: str = ""

    def describe(self) -> str:
        """``"denoise (Conv) was added between /2/Clip and /3/Conv"``."""
        ends = [one_line(end) for end in (self.before, self.after)]
        where = f" between {ends[0]} and {ends[1]}" if all(ends) else f" behind {ends[0]}" if ends[0] else ""
        return f"{one_line(self.title)} ({one_line(self.op)}) was {'added' if self.is_added else 'removed'}{where}"


def align_operators(graphs: Sequence[Graph]) -> list[Stretch]:
    """Return which operators of both belong together; none between formats, whose types have other names.

    What a quantiser puts between all operators would hide what else changed: it is left out.
    """
    one, two = ([each for each in graph.operators if each.kind not in _CONVERTS] for graph in graphs)
    return list(_aligned(one, two)) if graphs[0].format == graphs[1].format else []


def find_lone(graphs: Sequence[Graph], aligned: Sequence[Stretch]) -> list[LoneOperator]:
    """Return the operators that were added or removed, and where each stands in its graph."""
    makers = [{output: each for each in graph.operators for output in each.outputs if output} for graph in graphs]
    found = []
    for tag, removed, added in aligned:
        for each in (*removed, *added) if tag in ("delete", "insert") else ():
            side = int(tag == "insert")
            graph = graphs[side]
            sources = [name for name in each.inputs if name in makers[side] or name in graph.inputs]
            takers = [taker.title for taker in graph.operators if not set(each.outputs).isdisjoint(taker.inputs)]
            before = makers[side][sources[0]].title if sources and sources[0] in makers[side] else "".join(sources[:1])
            found.append(
                LoneOperator(
                    name=each.name, op=each.op, title=each.title, is_added=bool(side), before=before,
                    after=next(iter(takers), ""),
                )
            )  # fmt: skip
    return found


def branches_of(lone: Sequence[LoneOperator]) -> list[list[LoneOperator]]:
    """Return the operators of one side that hand values to one another together, in the order of their last ones."""
    places = by_key(((each.is_added, each.title), place) for place, each in enumerate(lone))
    parent = list(range(len(lone)))

    def first_of(place: int) -> int:
        while parent[place] != place:
            parent[place] = place = parent[parent[place]]
        return place

    for place, each in enumerate(lone):
        for end in (each.before, each.after):
            for other in places.get((each.is_added, end), ()):
                one, two = sorted((first_of(place), first_of(other)))
                parent[two] = one
    found = by_key((first_of(place), place) for place in range(len(lone)))
    return [[lone[place] for place in some] for some in sorted(found.values(), key=max)]


def describe_branch(branch: Sequence[LoneOperator]) -> str:
    """``"attn (Conv), gate (Sigmoid) and scale (Mul) were added between relu and conv3"``."""
    inside = {each.title for each in branch}
    before = next((each.before for each in branch if each.before and each.before not in inside), "")
    after = next((each.after for each in reversed(branch) if each.after and each.after not in inside), "")
    names = enumerate_few([f"{one_line(each.title)} ({one_line(each.op)})" for each in branch])
    where = f" between {one_line(before)} and {one_line(after)}" if before and after else ""
    return f"{names} were {'added' if branch[0].is_added else 'removed'}{where}"


def changed_weights(
    graphs: Sequence[Graph], paths: Sequence[Path], aligned: Sequence[Stretch]
) -> dict[str, tuple[Operator, list[str]]]:
    """Return what changed in the weights of each operator with weights that both graphs have, by its name."""
    weights = [_weights_in(graph) for graph in graphs]
    pairs = [pair for tag, *both in aligned if tag == "equal" for pair in zip(*both, strict=True)]
    kept = [pair for pair in pairs if weights[0][pair[0].name] or weights[1][pair[1].name]]
    return {pair[0].name: (pair[0], list(dict.fromkeys(_changed_weights(pair, weights, paths)))) for pair in kept}


def describe_structure(
    graphs: Sequence[Graph],
    aligned: Sequence[Stretch],
    weights: Mapping[str, tuple[Operator, Sequence[str]]],
    *,
    names: Sequence[str],
) -> list[str]:
    """Return a line per difference, the most important first; none between formats, whose types have other names.

    Args:
        weights: as `changed_weights` returns them.
        names: what the two files are called.
    """
    one, two = graphs
    if one.format != two.format:
        return []
    left_out = [Counter(each.op for each in graph.operators if each.kind in _CONVERTS) for graph in graphs]
    pairs: list[tuple[Operator, Operator]] = []
    found: list[tuple[str, str]] = []
    for tag, first, second in aligned:
        if tag == "equal":
            pairs += zip(first, second, strict=True)
        elif tag == "replace":
            found.append((f"{_types(second)} in place of {_types(first)}", first[0].title))
        else:
            whose = one_line(names[not first])
            found += [(f"{_ONLY_IN}{whose}: {one_line(each.op)}", each.title) for each in (*first, *second)]
    found += [(change, first.title) for first, second in pairs for change in _changed_options(first, second)]
    found += [(change, operator.title) for operator, changes in weights.values() for change in changes]
    lines = [f"{change} ({len(names)}: {_few(names)})" for change, names in by_key(found).items()]
    lines += [
        f"{_ONLY_IN}{one_line(whose)}: {', '.join(f'{number} {one_line(op)}' for op, number in counts.most_common())}"
        for whose, counts in zip(names, _differences(*left_out), strict=True)
        if counts
    ]
    rest = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"{rest} more kinds of differences"] if rest > 0 else [])]


def _differences(one: Counter[str], two: Counter[str]) -> tuple[Counter[str], Counter[str]]:
    return one - two, two - one


def _aligned(one: Sequence[Operator], two: Sequence[Operator]) -> Iterator[Stretch]:
    shared = {each.name for each in one} & {each.name for each in two}
    if max(len(one), len(two)) - len(shared) > MOST_UNNAMED:
        yield "replace", one, two
        return
    keys = [[each.name if each.name in shared else f"\0{each.op}" for each in some] for some in (one, two)]
    for tag, start, end, begin, stop in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        yield tag, one[start:end], two[begin:stop]


def _types(operators: Sequence[Operator]) -> str:
    """``"HardSigmoid and 2 Mul"``."""
    counts = Counter(one_line(each.op) for each in operators)
    words = [op if number == 1 else f"{number} {op}" for op, number in counts.items()]
    return enumerate_few(words, most=MOST_TYPES)


def _few(names: Sequence[str]) -> str:
    return enumerate_few([one_line(name) for name in names], most=MOST_NAMES)


def _changed_options(first: Operator, second: Operator) -> Iterator[str]:
    """Yield the type, where it differs, else each option with both values."""
    if first.op != second.op:
        yield f"{one_line(first.op)} is {one_line(second.op)}"
        return
    for name in sorted({*first.attributes, *second.attributes}):
        before, after = (_plain(each.attributes.get(name)) for each in (first, second))
        if before != after and not (None in (before, after) and _is_default(name, after if before is None else before)):
            yield f"{one_line(first.op)}, {name} {one_line(str(before))} → {one_line(str(after))}"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _is_default(name: str, value: Any) -> bool:
    """Whether an option with this value means what it means where it is left out."""
    if name in _FOLLOWS:
        return True
    values = value if isinstance(value, list) else [value]
    neutral = _NO_PADDING if "pad" in name else _NEUTRAL
    return all(isinstance(each, int | float | str) and each in neutral for each in values)


def _changed_weights(
    pair: tuple[Operator, Operator], weights: Sequence[Mapping[str, Sequence[Tensor]]], paths: Sequence[Path]
) -> Iterator[str]:
    """Yield what differs in the weights of a pair: their number, shapes, types, or elements."""
    sides = [of_graph[one.name] for one, of_graph in zip(pair, weights, strict=True)]
    op = one_line(pair[0].op)
    if len(sides[0]) != len(sides[1]):
        yield f"{op}, {len(sides[0])} weights → {len(sides[1])}"
        return
    for first, second in zip(*sides, strict=True):
        if first.shape != second.shape:
            yield f"{op}, weights {_shape(first)} → {_shape(second)}"
        elif first.dtype != second.dtype:
            yield f"{op}, weights {first.dtype} → {second.dtype}"
        elif (equal := _are_equal(first, second, paths)) is not True:
            yield f"{op}, weights {_OTHER if equal is False else _UNREAD}"


def _weights_in(graph: Graph) -> dict[str, list[Tensor]]:
    """Operator → its weights, also those that it takes through a dequantise."""
    stored = {
        output: each.inputs[0] for each in graph.operators if each.kind == "dequantize" for output in each.outputs
    }
    found = {}
    for each in graph.operators:
        names = (stored.get(name, name) for name in each.inputs if name in each.weights or name in stored)
        found[each.name] = [graph.tensors[name] for name in names if graph.tensors[name].constant]
    return found


def types_of(changes: Sequence[str]) -> str:
    """``"float32 → int8"``: the types of an operator's first weights, where nothing but types changed; else ""."""
    found = [change.partition(", weights ")[2] for change in changes]
    return found[0] if found and all(types.partition(" → ")[0] in BITS for types in found) else ""


def are_others(changes: Sequence[str]) -> bool:
    """Whether weights have other values or shapes, so that they are not those of the same network."""
    return not types_of(changes) and any(not change.endswith(_UNREAD) for change in changes)


def is_of_weights(line: str) -> bool:
    """Whether a line of `describe_structure` is about weights, or about what a quantiser adds."""
    return ", weights " in line or (line.startswith(_ONLY_IN) and not line.endswith(")"))


def is_of_values(line: str) -> bool:
    """Whether a line of `describe_structure` is about values or types of weights alone, so that the structure is the
    same, but for what a quantiser adds.
    """
    change = line.partition(", weights ")[2].partition(" (")[0]
    return is_of_weights(line) and (change in ("", _OTHER, _UNREAD) or change.partition(" → ")[0] in BITS)


def say_weights(weighted: int, reweighted: int, retyped: Mapping[str, int]) -> list[str]:
    """``["weights float32 → int8 in 9 of 10 layers", "other weights in 1 of 10 layers"]``: numbers of operators."""
    parts = [f"weights {types} in {count} of {weighted} layers" for types, count in retyped.items()]
    return parts + ([f"other weights in {reweighted} of {weighted} layers"] if reweighted else [])


def count_changes(weights: Mapping[str, tuple[Operator, Sequence[str]]]) -> tuple[int, int, Counter[str]]:
    """Return the number of operators with weights, of those with others, and of those with another type, by types."""
    changes = [each for _, each in weights.values()]
    return len(changes), sum(map(are_others, changes)), Counter(filter(None, map(types_of, changes)))


def describe_change(graphs: Sequence[Graph], paths: Sequence[Path]) -> str:
    """Return ``"same structure, other weights in 27 of 27 layers"``; "" between formats, and where no operators with
    weights are common.
    """
    aligned = align_operators(graphs)
    weights = changed_weights(graphs, paths, aligned)
    if not weights:
        return ""
    lines = describe_structure(graphs, aligned, weights, names=("", ""))
    structure = "same structure" if all(map(is_of_values, lines)) else "other structure"
    said = say_weights(*count_changes(weights)) or ([] if lines else ["same weights"])
    return ", ".join([structure, *said])


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape or ())) or "scalar"


def _are_equal(first: Tensor, second: Tensor, paths: Sequence[Path]) -> bool | None:
    """Whether the elements agree; None where they can't be read."""
    places = (first.data, second.data)
    try:
        arrays = [open_elements(place, path) for place, path in zip(places, paths, strict=True) if place is not None]
    except (BadModel, OSError, KeyError):
        return None
    if len(arrays) < len(places):
        return None
    one, two = (np.ascontiguousarray(each).view(np.uint8) for each in arrays)
    return bool(np.array_equal(one, two))
