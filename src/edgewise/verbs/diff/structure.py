"""What differs between two graphs of one format before any value is computed: operators, their options, weights and
inputs.

What stands between the same neighbours in place of other operators is a replacement, such as a fused operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgewise.grouping import by_key
from edgewise.model.graph import BITS, Graph, Operator
from edgewise.text import enumerate_few, one_line
from edgewise.verbs.diff.alignment import CONVERTS, Stretch, align_operators, pairs_of
from edgewise.verbs.diff.options import changed_options
from edgewise.verbs.diff.weights import OTHER, OTHER_SCALES, UNREAD, are_others, find_changes, types_of, weights_in

MOST_LINES, MOST_NAMES, MOST_TYPES = 12, 3, 6
_ONLY_IN = "only in "
_SCALED = "other scales of its values"
_COMMUTATIVE = {"add", "mul", "multiply", "sum", "max", "min", "maximum", "minimum", "and", "or", "xor", "mean"}
"""Operators whose inputs may change places, without case and underscores."""


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
    """Return what changed in the weights of each operator with weights that both graphs have, by its name, and by those
    of the operators that run it.
    """
    found: dict[str, tuple[Operator, list[str]]] = {}
    for place, some, stretches in _with_bodies(graphs, paths, aligned):
        weights = [weights_in(graph) for graph in some]
        for pair in pairs_of(stretches):
            if weights[0][pair[0].name] or weights[1][pair[1].name]:
                changes = list(dict.fromkeys(find_changes(pair, weights, some, paths)))
                found[f"{place}{pair[0].name}"] = pair[0], changes
    return found


def _with_bodies(
    graphs: Sequence[Graph], paths: Sequence[Path], aligned: Sequence[Stretch], place: str = ""
) -> Iterator[tuple[str, Sequence[Graph], Sequence[Stretch]]]:
    """Yield the names of the operators around, two graphs and what belongs together in them: first of the graphs
    themselves, then of the branches and loop bodies that operators of both run.
    """
    yield place, graphs, aligned
    for one, two in pairs_of(aligned):
        for names in zip(one.subgraphs, two.subgraphs, strict=False):
            inner = [
                replace(graph.subgraphs[name], metadata=graph.metadata)
                for graph, name in zip(graphs, names, strict=True)
            ]
            yield from _with_bodies(inner, paths, align_operators(inner, paths), f"{place}{one.name}/")


def describe_structure(
    graphs: Sequence[Graph],
    paths: Sequence[Path],
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
    left_out = [Counter(each.op for each in graph.operators if each.kind in CONVERTS) for graph in graphs]
    places = list(_with_bodies(graphs, paths, aligned))
    found = [each for _, _, stretches in places for each in _lone_and_replaced(stretches, names)]
    found += [each for _, some, stretches in places for each in _changes_of_pairs(some, paths, pairs_of(stretches))]
    found += [(change, operator.title) for operator, changes in weights.values() for change in changes]
    lines = [f"{change} ({len(names)}: {_few(names)})" for change, names in by_key(found).items()]
    lines += [
        f"{_ONLY_IN}{one_line(whose)}: {', '.join(f'{number} {one_line(op)}' for op, number in counts.most_common())}"
        for whose, counts in zip(names, _differences(*left_out), strict=True)
        if counts
    ]
    rest = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"{rest} more kinds of differences"] if rest > 0 else [])]


def _lone_and_replaced(aligned: Sequence[Stretch], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for tag, first, second in aligned:
        if tag == "replace":
            yield f"{_types(second)} in place of {_types(first)}", first[0].title
        elif tag != "equal":
            whose = one_line(names[not first])
            yield from ((f"{_ONLY_IN}{whose}: {one_line(each.op)}", each.title) for each in (*first, *second))


def _changes_of_pairs(
    graphs: Sequence[Graph], paths: Sequence[Path], pairs: Sequence[tuple[Operator, Operator]]
) -> Iterator[tuple[str, str]]:
    for pair in pairs:
        yield from ((change, pair[0].title) for change in changed_options(pair, graphs, paths))
    yield from _other_inputs(graphs, pairs)
    yield from ((f"{one_line(one.op)}, {_SCALED}", one.title) for one, _ in _rescaled(graphs, pairs))


def _differences(one: Counter[str], two: Counter[str]) -> tuple[Counter[str], Counter[str]]:
    return one - two, two - one


def _rescaled(
    graphs: Sequence[Graph], pairs: Sequence[tuple[Operator, Operator]]
) -> Iterator[tuple[Operator, Operator]]:
    """Yield the pairs whose quantised values stand for other numbers."""
    stored = [_stored(graph) for graph in graphs]
    for pair in pairs:
        both = []
        for operator, graph, made in zip(pair, graphs, stored, strict=True):
            found = [graph.tensors[made.get(name, name)] for name in (*operator.inputs, *operator.outputs) if name]
            both.append([each.quantization for each in found if not each.constant])
        if any(None not in each and each[0] != each[1] for each in zip(*both, strict=False)):
            yield pair


def _stored(graph: Graph) -> dict[str, str]:
    """Tensor that a quantise or dequantise makes → the one that it takes."""
    return {each.outputs[0]: each.inputs[0] for each in graph.operators if each.kind in CONVERTS}


def _other_inputs(graphs: Sequence[Graph], pairs: Sequence[tuple[Operator, Operator]]) -> Iterator[tuple[str, str]]:
    """Yield which pairs take their values from operators that are no pair, and the title; what comes from an operator
    that only one graph has is told by that.
    """
    twins = {one.name: two.name for one, two in pairs}
    known = {two.name for _, two in pairs}
    sources = [_Sources(graph) for graph in graphs]
    for one, two in pairs:
        first, second = (of_graph.of(each) for of_graph, each in zip(sources, (one, two), strict=True))
        if len(first) != len(second):
            yield f"{one_line(one.op)}, {len(first)} inputs → {len(second)}", one.title
            continue
        expected = [(twins.get(name, ""), *rest) if name else (name, *rest) for name, *rest in first]
        open_ends = any(name not in twins for name, *_ in first if name) or any(
            name not in known for name, *_ in second if name
        )
        if open_ends or expected == second:
            continue
        if one.op.replace("_", "").casefold() in _COMMUTATIVE and Counter(expected) == Counter(second):
            continue
        at = next(at for at, pair in enumerate(zip(expected, second, strict=True)) if pair[0] != pair[1])
        before, after = sources[0].title(first[at]), sources[1].title(second[at])
        yield f"{one_line(one.op)}, input {at} from {one_line(before)} → {one_line(after)}", one.title


class _Sources:
    """Where the operators of a graph take their values from."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._stored = _stored(graph)
        self._makers = {name: (each, at) for each in graph.operators for at, name in enumerate(each.outputs) if name}
        self._titles = {each.name: each.title for each in graph.operators}
        self._fed = set(graph.inputs)
        for each in graph.operators:
            if not self._fed.isdisjoint(each.inputs):
                self._fed.update(each.outputs)

    def of(self, operator: Operator) -> list[tuple[str, int]]:
        """Return name and output of the operators that its values come from; "" and place for inputs of the graph. What
        follows from constants alone is left out.
        """
        found = []
        for taken in operator.inputs:
            name, seen = taken, set[str]()
            while name in self._stored and name not in seen:
                seen.add(name)
                name = self._stored[name]
            if name in self._makers and name in self._fed:
                maker, at = self._makers[name]
                found.append((maker.name, at))
            elif name in self._graph.inputs:
                found.append(("", self._graph.inputs.index(name)))
        return found

    def title(self, source: tuple[str, int]) -> str:
        """Return what a person calls a source."""
        name, at = source
        return self._titles[name] if name else self._graph.inputs[at]


def _types(operators: Sequence[Operator]) -> str:
    """``"HardSigmoid and 2 Mul"``."""
    counts = Counter(one_line(each.op) for each in operators)
    words = [op if number == 1 else f"{number} {op}" for op, number in counts.items()]
    return enumerate_few(words, most=MOST_TYPES)


def _few(names: Sequence[str]) -> str:
    return enumerate_few([one_line(name) for name in names], most=MOST_NAMES)


def is_of_weights(line: str) -> bool:
    """Whether a line of `describe_structure` is about weights, or about what a quantiser adds."""
    return ", weights " in line or (line.startswith(_ONLY_IN) and not line.endswith(")"))


def is_of_values(line: str) -> bool:
    """Whether a line of `describe_structure` is about values or types of weights alone, so that the structure is the
    same, but for what a quantiser adds.
    """
    change = line.partition(", weights ")[2].partition(" (")[0]
    return is_of_weights(line) and (change in ("", OTHER, UNREAD, OTHER_SCALES) or change.partition(" → ")[0] in BITS)


def is_of_scales(line: str) -> bool:
    """Whether a line of `describe_structure` is about what quantised values stand for."""
    return line.partition(" (")[0].endswith(_SCALED)


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
    aligned = align_operators(graphs, paths)
    weights = changed_weights(graphs, paths, aligned)
    if not weights:
        return ""
    lines = describe_structure(graphs, paths, aligned, weights, names=("", ""))
    structure = (
        "same structure" if all(is_of_values(line) or is_of_scales(line) for line in lines) else "other structure"
    )
    said = say_weights(*count_changes(weights)) + (["other scales"] if any(map(is_of_scales, lines)) else [])
    said = said or ([] if lines else ["same weights"])
    return ", ".join([structure, *said])
