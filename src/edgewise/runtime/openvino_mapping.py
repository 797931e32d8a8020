"""Which operators of a model's file the steps of OpenVINO execute.

Every step carries the names of the operators of the engine's model that it was made of. Operators of an IR have those
names in the file. Of an ONNX file, tensors keep their names, and what the engine unfolds an operator into leads to its
tensor. Of a TFLite file little is left after layouts were changed: some operators are called after their index, some
tensors are still there, and the heavy operators are the file's in the same order, which the data flow must confirm.
"""

from __future__ import annotations

import math
import re
from bisect import bisect, bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from edgewise.errors import BadModel
from edgewise.model.readers.tflite_operators import ABSENT, TfliteOperatorReader
from edgewise.model.readers.tflite_tables import open_tables
from edgewise.runtime.operator_mapping import Outline, OutlineNode, complete_claims

_SILENT = frozenset({"Constant", "Parameter", "Result"})
_SUFFIX = re.compile(r"/(?:Dequantization\w+|WithoutBiases)$")
#: operator of the engine's model → TFLite operators that it can be the heart of
_HEARTS: dict[str, frozenset[str]] = {
    kind: frozenset(types.split("|"))
    for kind, types in {
        "Convolution": "CONV_2D", "GroupConvolution": "DEPTHWISE_CONV_2D", "ConvolutionBackpropData": "TRANSPOSE_CONV",
        "MatMul": "FULLY_CONNECTED|BATCH_MATMUL", "AvgPool": "AVERAGE_POOL_2D", "MaxPool": "MAX_POOL_2D",
        "Softmax": "SOFTMAX", "LogSoftmax": "LOG_SOFTMAX", "Concat": "CONCATENATION|PACK", "ReduceMean": "MEAN",
        "ReduceMax": "REDUCE_MAX", "ReduceSum": "SUM", "LSTMSequence": "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "PRelu": "PRELU|LEAKY_RELU", "Relu": "RELU", "Clamp": "RELU_N1_TO_1|RELU6|RELU_0_TO_1", "Elu": "ELU",
        "Exp": "EXP", "Abs": "ABS", "Sqrt": "SQRT", "Sigmoid": "LOGISTIC", "Tanh": "TANH", "HSwish": "HARD_SWISH",
        "Gelu": "GELU", "Pad": "PAD|PADV2|MIRROR_PAD", "Interpolate": "RESIZE_BILINEAR|RESIZE_NEAREST_NEIGHBOR",
        "DepthToSpace": "DEPTH_TO_SPACE", "SpaceToDepth": "SPACE_TO_DEPTH", "StridedSlice": "STRIDED_SLICE",
        "Slice": "SLICE", "Gather": "GATHER", "Add": "ADD", "Multiply": "MUL", "Subtract": "SUB", "Divide": "DIV",
        "Maximum": "MAXIMUM", "Minimum": "MINIMUM",
    }.items()
}  # fmt: skip
#: names that the engine makes up for what it puts in the place of an operator: its type and a number
_MADE_UP = re.compile(r"(?:^|,)([A-Z][A-Za-z0-9]*)_\d+(?=,|$)")
#: operator that the engine puts in the place of several → what those are
_REPLACED = {"VariadicSplit": "Slice"}
#: types of which many belong to no operator of the file
_COMMON = frozenset({"Add", "Constant", "Convert", "Divide", "Multiply", "Reshape", "Squeeze", "Subtract", "Transpose"})
#: of layout, shape and type: they may as well be made before an operator
_CONVERSIONS = frozenset({"Convert", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_BINARY = frozenset({"Add", "Divide", "Maximum", "Minimum", "Multiply", "Subtract"})


@dataclass(frozen=True, slots=True)
class StepOrigin:
    """What a step executes.

    Attributes:
        originals: names of the file's operators, or of the tensors they make.
        types: of the operators of the engine's model.
        place: in the file's order, of the first; None where that is not looked up.
    """

    originals: tuple[str, ...]
    types: frozenset[str]
    place: int | None


def find_origins(model: Any, path: Path, parts: Sequence[ExecutionStep]) -> list[StepOrigin]:
    """Return what each of `parts`, in order of execution, executes of the operators in the file at `path`."""
    outline, tensors = outline_of(model)
    claims = claims_of(outline, parts)
    beside: Sequence[tuple[str, ...]] = [()] * len(outline.nodes)
    places: dict[str, int] = {}
    with path.open("rb") as file:
        head = file.read(64)
    if head[4:8] == b"TFL3":
        try:
            original = outline_of_tflite(path)
        except (BadModel, OSError):
            original = Outline(())
        own, beside = tensors_by_order(outline, tensors, original)
        places = original.producers()
    elif head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<"):
        own = [(node.name,) for node in outline.nodes]
    else:
        own = tensors_by_flow(outline, tensors)
    found = []
    for claim in claims:
        names = dict.fromkeys(name for at in claim for name in own[at])
        # A bias that is added with what follows does not make one row of both.
        originals = tuple(names or dict.fromkeys(name for at in claim for name in beside[at]))
        place = min((places[name] for name in originals if name in places), default=None)
        found.append(StepOrigin(originals, frozenset(outline.nodes[at].op for at in claim), place))
    return found


def outline_of(model: Any) -> tuple[Outline, list[tuple[str, ...]]]:
    """Return the operators of the engine's model, and of each the names of the file's tensors that it makes."""
    nodes: list[OutlineNode] = []
    constants: set[str] = set()
    tensors: list[tuple[str, ...]] = []
    for op in model.get_ordered_ops():
        name, kind = op.get_friendly_name(), op.get_type_name()
        outputs = tuple(_tensor(op, port.get_index()) for port in op.outputs())
        if kind == "Constant":
            constants.update(outputs)
        if kind in _SILENT:
            continue
        sources = [port.get_source_output() for port in op.inputs()]
        inputs = tuple(_tensor(source.get_node(), source.get_index()) for source in sources)
        nodes.append(OutlineNode(name=name, op=kind, inputs=inputs, outputs=outputs))
        tensors.append(tuple(sorted({kept for port in op.outputs() for kept in port.get_names()})))
    return Outline(tuple(nodes), frozenset(constants)), tensors


def outline_of_tflite(path: Path) -> Outline:
    """Return the operators of the first subgraph of the TFLite file at `path`.

    A tensor without a name of its own is called after its index. Raises `BadModel` or OSError.
    """
    with open_tables(path) as tables:
        model = tables.read_model()
        graph = next(iter(model["subgraphs"]), {"tensors": (), "operators": ()})
        operators = TfliteOperatorReader(tables, model).read_all(graph)
    filled = [bool(buffer["data"] and buffer["data"].length) for buffer in model["buffers"]]
    names: list[str] = []
    constants: set[str] = set()
    taken: set[str] = set()
    for index, tensor in enumerate(graph["tensors"]):
        own = tensor["name"] and tensor["name"] not in taken
        names.append(tensor["name"] if own else f"#{index}")
        taken.add(names[-1])
        if tensor["buffer"] < len(filled) and filled[tensor["buffer"]]:
            constants.add(names[-1])

    def named(indices: Sequence[int]) -> tuple[str, ...]:
        return tuple("" if index == ABSENT else names[index] for index in indices)

    nodes = [
        OutlineNode(name="", op=each.code.op, inputs=named(each.inputs), outputs=named(each.outputs))
        for each in operators
    ]
    return Outline(tuple(nodes), frozenset(constants))


def _tensor(op: Any, port: int) -> str:
    return f"{op.get_name()}:{port}"


@dataclass(frozen=True, slots=True)
class ExecutionStep:
    """A step of the graph that runs.

    Attributes:
        texts: its own name, and the text in which the engine lists the operators it was made of.
        fed_with: names of the steps and constants it takes its inputs from.
    """

    texts: tuple[str, str]
    fed_with: tuple[str, ...]


def claims_of(outline: Outline, parts: Sequence[ExecutionStep]) -> list[tuple[int, ...]]:
    """Operators of the engine's model that each step executes; `parts` in the order of execution."""
    places: dict[str, int] = {node.name: index for index, node in enumerate(outline.nodes)}
    claims = [{places[name] for text in part.texts for name in _split(text, places)} for part in parts]
    # Every step lists what it made part of itself: what it does not list before it was replaced, not what follows it.
    visible = frozenset(range(len(outline.nodes)))
    guess = complete_claims(outline, claims, visible=visible)
    _claim_replaced(outline, parts, claims, guess)
    return complete_claims(outline, claims, visible=visible)


def _claim_replaced(
    outline: Outline, parts: Sequence[ExecutionStep], claims: list[set[int]], guess: Sequence[Sequence[int]]
) -> None:
    """Give steps with names of the engine's own making the operators of their type that nothing claims.

    `guess`: what would go to which step otherwise: to one after the step that is looked at.
    """
    after: list[set[int]] = [set() for _ in parts]
    steps = {part.texts[0]: index for index, part in enumerate(parts)}
    for index, part in enumerate(parts):
        for name in part.fed_with:
            if steps.get(name, index) < index:
                after[steps[name]].add(index)
    claimed = set().union(*claims)
    for index, part in enumerate(parts):
        made_up = Counter(_MADE_UP.findall(part.texts[1]))
        for kind in made_up.keys() - _COMMON:
            replaced = _REPLACED.get(kind, kind)
            lacking = made_up[kind] - sum(outline.nodes[at].op == kind and at not in claimed for at in guess[index])
            beyond = [at for at in _beyond(outline, index, after, guess) if at not in claimed]
            beyond = [at for at in beyond if outline.nodes[at].op == replaced]
            found = set(beyond[: max(0, lacking)] if replaced == kind else beyond)
            claims[index] |= found
            claimed |= found


def _beyond(outline: Outline, step: int, after: Sequence[Set[int]], guess: Sequence[Sequence[int]]) -> list[int]:
    """Return what would go to the next steps that compute anything, in the model's order.

    Changes of layout and shape are looked beyond: the engine moves other operators across them.
    """
    found: set[int] = set()
    seen: set[int] = set()
    pending = list(after[step])
    while pending:
        at = pending.pop()
        if at not in seen:
            seen.add(at)
            found.update(guess[at])
            moves = all(outline.nodes[each].op in _CONVERSIONS for each in guess[at])
            pending.extend(after[at] if moves else ())
    return sorted(found)


def _split(text: str, known: Mapping[str, int]) -> Iterator[str]:
    """Yield the known names in a list with commas; a name may have commas itself."""
    parts = text.split(",")
    at = 0
    while at < len(parts):
        for end in range(min(len(parts), at + 16), at, -1):
            name = ",".join(parts[at:end])
            found = name if name in known else _SUFFIX.sub("", name)
            if found in known:
                yield found
                at = end
                break
        else:
            at += 1


def tensors_by_flow(outline: Outline, tensors: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Of each operator the file's tensors it makes or helps to make: its own, else those of what it feeds."""
    producers = outline.producers()
    found = [set(names) for names in tensors]
    for index in reversed(range(len(outline.nodes))):
        for name in outline.nodes[index].inputs:
            source = producers.get(name)
            if source is not None and not tensors[source]:
                found[source] |= found[index]
    return [tuple(sorted(names)) for names in found]


def tensors_by_order(
    outline: Outline, tensors: Sequence[tuple[str, ...]], original: Outline
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Of each operator the outputs of the TFLite operator that it is the heart of, and of that it stands beside.

    Args:
        outline, tensors: of the engine's model.
        original: of the file.
    """
    sure = _sure_pairs(outline, tensors, original)
    pairs = dict(sure)
    dynamic, moving = _moving(outline), _moving(original)
    for kind, types in _HEARTS.items():
        # A change of layout after an operator is called after it too.
        taken = {pair for at, pair in sure.items() if outline.nodes[at].op == kind}
        least = 2 if kind in _BINARY else 1
        ours = [at for at, fed in dynamic.items() if outline.nodes[at].op == kind and fed >= least and at not in sure]
        theirs = [
            at for at, fed in moving.items() if original.nodes[at].op in types and fed >= least and at not in taken
        ]
        if len(ours) == len(theirs):
            pairs.update(zip(sorted(ours, key=lambda at: _made(outline.nodes[at])), theirs, strict=True))
    pairs = _confirm(outline, original, pairs, sure=sure)
    pairs = _confirm(outline, original, pairs | _between(outline, original, pairs), sure=pairs)
    beside = _following(outline, pairs, [at for at in moving if at not in pairs.values()])

    def outputs(chosen: Mapping[int, int]) -> list[tuple[str, ...]]:
        every = range(len(outline.nodes))
        return [tuple(filter(None, original.nodes[chosen[at]].outputs)) if at in chosen else () for at in every]

    return outputs(pairs), outputs(beside)


def _made(node: OutlineNode) -> int:
    """When an operator was made: operators of a TFLite file are unfolded in its order and numbered as they are.

    The number is that of its tensors: by name it may be called after a change of layout that was moved across it.
    """
    number = node.outputs[0].partition(":")[0].rpartition("_")[2]
    return int(number) if number.isdecimal() and len(number) < 10 else 0


def _sure_pairs(outline: Outline, tensors: Sequence[tuple[str, ...]], original: Outline) -> dict[int, int]:
    """Operators of the engine's model that are called after a TFLite operator's index, or make its tensor."""
    producers = original.producers()
    pairs: dict[int, int] = {}
    for at, node in enumerate(outline.nodes):
        makers = {producers[name] for name in tensors[at] if name in producers}
        if len(makers) == 1:
            pairs[at] = makers.pop()
        elif node.name.isdecimal() and len(node.name) < 8 and int(node.name) < len(original.nodes):
            pairs[at] = int(node.name)
    return pairs


def _moving(outline: Outline) -> dict[int, int]:
    """Operators that depend on the model's inputs, in order → how many of their inputs do."""
    producers = outline.producers()
    moving: dict[int, int] = {}
    for at, node in enumerate(outline.nodes):
        fed = sum(
            bool(name) and name not in outline.constants and (name not in producers or producers[name] in moving)
            for name in node.inputs
        )
        if fed:
            moving[at] = fed
    return moving


def _confirm(
    outline: Outline, original: Outline, pairs: Mapping[int, int], *, sure: Mapping[int, int]
) -> dict[int, int]:
    """`pairs` without those whose nearest paired predecessors differ between the two graphs.

    What depends on no input is no predecessor: constants enter the two graphs at different operators.
    """
    kept = dict(pairs)
    dynamic, moving = _moving(outline), _moving(original)
    for _ in range(1 + len(_HEARTS)):
        ours = _nearest(outline, {at: pair for at, pair in kept.items() if at in dynamic})
        theirs = _nearest(original, {pair: pair for pair in kept.values() if pair in moving})
        wrong = {at for at, pair in kept.items() if ours[at] != theirs[pair]} - set(sure)
        if not wrong:
            return kept
        kept = {at: pair for at, pair in kept.items() if at not in wrong}
    return dict(sure)


def _between(outline: Outline, original: Outline, pairs: Mapping[int, int]) -> dict[int, int]:
    """Further hearts where between two that are paired there are as many of a type as the file has there.

    In all there may be more of them: activations that the file has inside another operator.
    """
    ours = sorted(_moving(outline).keys() - pairs.keys(), key=lambda at: _made(outline.nodes[at]))
    made = [_made(outline.nodes[at]) for at in ours]
    theirs = sorted(_moving(original).keys() - set(pairs.values()))
    ends = sorted((_made(outline.nodes[at]), pair) for at, pair in pairs.items() if outline.nodes[at].op in _HEARTS)
    found: dict[int, int] = {}
    for (low, first), (high, last) in pairwise([(0, -1), *ends, (math.inf, math.inf)]):
        inside = ours[bisect(made, low) : bisect_left(made, high)]
        lacking = theirs[bisect(theirs, first) : bisect_left(theirs, last)]
        for kind, types in _HEARTS.items() if inside and lacking else ():
            chosen = [at for at in inside if outline.nodes[at].op == kind]
            meant = [at for at in lacking if original.nodes[at].op in types]
            if len(chosen) == len(meant):
                found.update(zip(chosen, meant, strict=True))
    return found


def _following(outline: Outline, pairs: Mapping[int, int], unpaired: Sequence[int]) -> dict[int, int]:
    """Return what an operator was unfolded into beside its heart: a bias, an activation.

    It was made after the heart and before that of the next operator, and takes from the heart alone. `unpaired`:
    operators of the file, in order, that may have been unfolded between two hearts.
    """
    dynamic = _moving(outline)
    nearest = _nearest(outline, {at: pair for at, pair in pairs.items() if at in dynamic})
    hearts = [(_made(outline.nodes[at]), pair) for at, pair in pairs.items() if outline.nodes[at].op in _HEARTS]
    hearts.sort()
    found = {}
    for at in dynamic.keys() - pairs.keys():
        node = outline.nodes[at]
        place = bisect(hearts, (_made(node),))
        if not place or node.op in _CONVERSIONS:
            continue
        heart = hearts[place - 1][1]
        until = hearts[place][1] if place < len(hearts) else math.inf
        if nearest[at] == {heart} and bisect(unpaired, heart) == bisect_left(unpaired, until):
            found[at] = heart
    return found


def _nearest(outline: Outline, labels: Mapping[int, int]) -> list[frozenset[int]]:
    """Of every operator the labels of the nearest labelled operators before it."""
    producers = outline.producers()
    found: list[frozenset[int]] = []
    for node in outline.nodes:
        before: set[int] = set()
        for name in node.inputs:
            at = producers.get(name)
            if at is not None and at < len(found):
                before |= {labels[at]} if at in labels else found[at]
        found.append(frozenset(before))
    return found
