"""Which operators of two graphs of one format belong together, in the order of execution.

Operators are paired by their names where both graphs have them, else by their type between neighbours that are paired
(`difflib`). Layers with the same weights belong together, whatever they are called; where that contradicts names, as
where a layer was added and an exporter numbered all that follow anew, no name counts. Files may also list independent
branches in another order: then both are read in one order, that of their connections.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from edgewise.model.graph import Graph, Operator
from edgewise.verbs.diff.weights import marks_in

MOST_UNNAMED = 3000
"""Operators without a name in common that are paired by type: more take more than some seconds."""
CONVERTS = ("quantize", "dequantize")

Stretch = tuple[str, Sequence[Operator], Sequence[Operator]]
"""What `difflib` calls a stretch of both graphs (``equal``, ``replace``, ``delete``, ``insert``), and its operators."""
_Code = tuple[str, int, int, int, int]
_Keys = Sequence[Mapping[str, object]]
"""Of each graph: operator → what it has in common with its twin."""


def align_operators(graphs: Sequence[Graph], paths: Sequence[Path]) -> list[Stretch]:
    """Return which operators of both belong together; none between formats, whose types have other names.

    What a quantiser puts between all operators would hide what else changed: it is left out.
    """
    if graphs[0].format != graphs[1].format:
        return []
    marks = [marks_in(graph, path) for graph, path in zip(graphs, paths, strict=True)]
    stored = [[each for each in graph.operators if each.kind not in CONVERTS] for graph in graphs]
    keys = _keys_of(stored, marks)
    found = list(_aligned(stored, keys))
    if all(tag == "equal" for tag, *_ in found):
        return found
    ordered = [_by_connections(graph, side) for graph, side in zip(graphs, stored, strict=True)]
    return max(found, list(_aligned(ordered, keys)), key=lambda each: (_same(each, marks), len(pairs_of(each))))


def _keys_of(sides: Sequence[Sequence[Operator]], marks: Sequence[Mapping[str, bytes]]) -> _Keys:
    """Return what tells each operator: weights that no other has, and its name, where names don't mislead."""
    counts = [Counter(side.values()) for side in marks]
    single = [{name: mark for name, mark in side.items() if all(each[mark] == 1 for each in counts)} for side in marks]
    named = {mark: name for name, mark in single[1].items()}
    names = {each.name for each in sides[0]} & {each.name for each in sides[1]}
    if any(name in names and named[mark] != name for name, mark in single[0].items()):
        return single
    by_name: dict[str, object] = {name: name for name in names}
    return [{**by_name, **own} for own in single]


def pairs_of(aligned: Sequence[Stretch]) -> list[tuple[Operator, Operator]]:
    """Return the operators that both graphs have."""
    return [pair for tag, *both in aligned if tag == "equal" for pair in zip(*both, strict=True)]


def find_misnamed(graphs: Sequence[Graph], aligned: Sequence[Stretch]) -> dict[str, Operator]:
    """Operator of the first graph → its twin in the second, where an operator has the name of another one's twin.

    Returns:
        All pairs; none where names do not mislead.
    """
    pairs, others = pairs_of(aligned), {each.name for each in graphs[1].operators}
    misled = any(one.name != two.name and one.name in others for one, two in pairs)
    return {one.name: two for one, two in pairs} if misled else {}


def _aligned(sides: Sequence[Sequence[Operator]], known: _Keys) -> Iterator[Stretch]:
    one, two = sides
    if max(len(one), len(two)) - len(known[0]) > MOST_UNNAMED:
        yield "replace", one, two
        return
    keys = [[own.get(each.name, f"\0{each.op}") for each in some] for some, own in zip(sides, known, strict=True)]
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    for tag, start, end, begin, stop in _late(matcher.get_opcodes(), keys):
        yield tag, one[start:end], two[begin:stop]


def _late(codes: Sequence[_Code], keys: Sequence[Sequence[object]]) -> Iterator[_Code]:
    """Yield `codes` with what only one side has as far behind as it can stand: so both agree as long as possible."""
    moved = 0
    for at, (tag, *ends) in enumerate(codes):
        start, end, begin, stop = ends
        if tag == "equal":
            # The first of them stand before what was moved behind them.
            yield tag, start + moved, end, begin + moved, stop
            moved = 0
        elif tag in ("insert", "delete") and at + 1 < len(codes):
            own, first, last = (keys[1], begin, stop) if tag == "insert" else (keys[0], start, end)
            most = codes[at + 1][2] - codes[at + 1][1] if codes[at + 1][0] == "equal" else 0
            while moved < most and own[first + moved] == own[last + moved]:
                moved += 1
            if moved:
                yield "equal", start, start + moved, begin, begin + moved
            yield tag, start + moved, end + moved, begin + moved, stop + moved
        else:
            yield tag, start, end, begin, stop


def _same(aligned: Sequence[Stretch], marks: Sequence[Mapping[str, bytes]]) -> int:
    """How many pairs have the same weights."""
    return sum(one.name in marks[0] and marks[0][one.name] == marks[1].get(two.name) for one, two in pairs_of(aligned))


def _by_connections(graph: Graph, operators: Sequence[Operator]) -> list[Operator]:
    """Return `operators` in an order in which they can run that does not depend on the file's: from the outputs back,
    input by input, then those that no output needs.
    """
    makers = {output: each for each in graph.operators for output in each.outputs if output}
    kept = {each.name for each in operators}
    found: dict[str, Operator] = {}
    entered = set[str]()
    waiting = [(makers[name], False) for name in reversed(graph.outputs) if name in makers]
    waiting = [*((each, False) for each in reversed(operators)), *waiting]
    while waiting:
        operator, is_done = waiting.pop()
        if is_done:
            found[operator.name] = operator
        elif operator.name not in entered:
            entered.add(operator.name)
            waiting.append((operator, True))
            waiting += [(makers[name], False) for name in reversed(operator.inputs) if name in makers]
    return [each for name, each in found.items() if name in kept]
