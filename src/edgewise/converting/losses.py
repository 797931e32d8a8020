"""What a conversion dropped or changed: compares the source's network with that of the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from edgewise.errors import EdgewiseError
from edgewise.model.build_network import BuiltModel
from edgewise.model.graph import Graph
from edgewise.model.identity import open_model, read_graph
from edgewise.model.signature import Signature, TensorSpec, channels_last, shapes_fit
from edgewise.record import ModelRef

_MODES = ("Dropout", "BatchNorm", "AlphaDropout", "FeatureAlphaDropout", "InstanceNorm")


def find_losses(source: BuiltModel | Path, result: Path) -> tuple[str, ...]:
    """One line each on what differs between a source and the file that it was converted into.

    Compared are names, shapes and types of inputs and outputs, types of the weights, and custom operators. What a file
    does not tell, or edgewise can't read, is not compared.
    """
    lines = list(_training_mode(source)) if isinstance(source, BuiltModel) else []
    try:
        if isinstance(source, Path) and (ref := open_model(source).ref).signatures:
            lines.append(only_signature(ref))
        before = signature_of(source)
        after = open_model(result).signature
    except EdgewiseError:  # a format that only an engine takes apart, which is not installed
        return tuple(lines)
    for noun, ours, theirs in (("input", before.inputs, after.inputs), ("output", before.outputs, after.outputs)):
        lines += _compare(noun, ours, theirs)
    return (*lines, *_graph_losses(source, result))


def only_signature(model: ModelRef) -> str:
    """State that one signature of several is in the result."""
    own = model.signature or model.signatures[0]
    others = ", ".join(name for name in model.signatures if name != own)
    return f"only the signature {own} was converted; the file also has {others}"


def signature_of(source: BuiltModel | Path) -> Signature:
    """Return inputs and outputs of a source. Raises `BadModel`."""
    if isinstance(source, Path):
        return open_model(source).signature
    graph = source.graph
    inputs, outputs = (
        tuple(TensorSpec(name=name, shape=graph.tensors[name].shape, dtype=graph.tensors[name].dtype) for name in names)
        for names in (graph.inputs, graph.outputs)
    )
    return Signature(inputs=inputs, outputs=outputs)


def _training_mode(built: BuiltModel) -> list[str]:
    """Layers of a module that compute otherwise in training; a conversion is always for inference."""
    if built.made.kind != "torch":
        return []
    kinds = Counter(type(each).__name__ for each in built.made.value.modules())
    changed = [f"{name} ({count})" for name, count in kinds.items() if name.startswith(_MODES)]
    return [f"layers that compute otherwise in training are in inference mode: {', '.join(changed)}"] if changed else []


def _compare(noun: str, before: Sequence[TensorSpec], after: Sequence[TensorSpec]) -> list[str]:
    if len(before) != len(after):
        return [f"{len(before)} {noun}s became {len(after)}"]
    lines = []
    renamed = [(one.name, two.name) for one, two in zip(before, after, strict=True) if one.name != two.name]
    if renamed and {one for one, _ in renamed} == {two for _, two in renamed}:
        lines.append(f"the order of {noun}s changed: {', '.join(each.name for each in after)}")
        after = [next(two for two in after if two.name == one.name) for one in before]
    elif renamed:
        lines.append(f"names of {noun}s: " + ", ".join(f"{one} → {two}" for one, two in renamed[:8]))
    for one, two in zip(before, after, strict=True):
        if one.dtype != two.dtype:
            lines.append(f"type of {noun} {one.name}: {one.dtype} → {two.dtype}")
        if one.shape != two.shape and one.shape is not None and two.shape is not None:
            if not shapes_fit(one.shape, two.shape) and shapes_fit(channels_last(one.shape), two.shape):
                lines.append(f"{noun} {one.name} has its channels last: {_words(one)} → {_words(two)}")
                continue
            fixed = one.dynamic and not two.dynamic
            what = f"open dimensions of {noun} {one.name} are fixed" if fixed else f"shape of {noun} {one.name}"
            if fixed or not _only_names(one, two):
                lines.append(f"{what}: {_words(one)} → {_words(two)}")
    return lines


def _only_names(one: TensorSpec, two: TensorSpec) -> bool:
    """Whether two shapes differ in the names of open dimensions alone."""
    sizes = [[size if isinstance(size, int) else None for size in each.shape or ()] for each in (one, two)]
    return sizes[0] == sizes[1]


def _words(spec: TensorSpec) -> str:
    return "×".join(str(size) if isinstance(size, int) else f"{size or '?'}" for size in spec.shape or ()) or "a number"


def _graph_losses(source: BuiltModel | Path, result: Path) -> list[str]:
    try:
        before = source.graph if isinstance(source, BuiltModel) else read_graph(source)
        after = read_graph(result)
    except EdgewiseError:
        return []
    lines = []
    ours, theirs = _bits_of_weights(before), _bits_of_weights(after)
    if ours and theirs and theirs < ours - 1:
        lines.append(f"weights are stored in {theirs} bits instead of {ours}, on average")
    custom = sorted({each.op for each in after.operators if each.custom} - {each.op for each in before.operators})
    if custom:
        lines.append(f"custom operators, which only some engines have: {', '.join(custom[:8])}")
    if len(after.operators) > len(before.operators):
        lines.append(f"operators are composed of simpler ones: {len(before.operators)} → {len(after.operators)}")
    return lines


def _bits_of_weights(graph: Graph) -> int | None:
    """Bits per element of the floating-point constants as they are stored, on average; None without any."""
    floats = [each for each in graph.tensors.values() if each.constant and "float" in each.dtype and each.elements]
    stored = sum((each.size_bytes or 0) if each.stored_bytes is None else each.stored_bytes for each in floats)
    return round(8 * stored / sum(each.elements or 0 for each in floats)) if floats else None
