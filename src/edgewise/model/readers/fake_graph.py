"""The scripted network of a fake model, as a graph.

Under the key ``graph`` a script may have

| key | meaning |
|---|---|
| ``operators`` | a list of ``{"name", "op", "kind", "geometry", "inputs", "outputs", "weights", "attributes"}`` as in `edgewise.model.graph.Operator`, in an order in which they can run |
| ``tensors`` | name → ``{"shape", "dtype", "constant"}``; the model's inputs and outputs are there of themselves |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgewise.errors import BadModel
from edgewise.model.cost import KINDS
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.readers.base import MAX_DIMENSION, MAX_NAME_CHARACTERS, MAX_RANK, check_shapes
from edgewise.model.signature import Dimension, Signature

MAX_OPERATORS = 100_000
Refusal = Callable[[str], BadModel]

_FIELDS = frozenset({"name", "op", "kind", "geometry", "inputs", "outputs", "weights", "attributes"})


def make_graph(
    script: Mapping[str, Any],
    signature: Signature,
    *,
    shapes: Mapping[str, tuple[int, ...]],
    refuse: Refusal,
) -> Graph:
    """The graph of a script.

    Args:
        script: what stands under ``graph``.
        signature: the model's inputs and outputs.
        shapes: input name → concrete shape. A named dimension takes its size wherever the name stands.
        refuse: makes the error for a script that is wrong.
    """
    sizes = _named_sizes(signature, shapes)
    tensors = {
        spec.name: Tensor(name=spec.name, shape=shapes.get(spec.name, _fixed(spec.shape, sizes)), dtype=spec.dtype)
        for spec in (*signature.inputs, *signature.outputs)
    }
    entries = script.get("tensors", {})
    if not isinstance(entries, dict) or set(script) - {"operators", "tensors"}:
        raise refuse("'graph' is an object of 'operators' and 'tensors'")
    for name, entry in entries.items():
        if name in tensors:
            raise refuse(f"the tensor {name!r} is an input or output of the model already")
        tensors[name] = _read_tensor(name, entry, sizes, refuse)
    operators = _read_operators(script.get("operators", []), tensors, refuse)
    inputs = tuple(spec.name for spec in signature.inputs)
    outputs = tuple(spec.name for spec in signature.outputs)
    _check_order(operators, tensors, inputs=inputs, outputs=outputs, refuse=refuse)
    return Graph(
        name="", format="fake", version="1", tensors=tensors, operators=operators, inputs=inputs, outputs=outputs
    )


def _named_sizes(signature: Signature, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Names of open dimensions → their sizes. Raises `BadInput` for a shape that is none of an input's."""
    stated = {spec.name: spec.shape for spec in signature.inputs}
    check_shapes(stated, shapes)
    pairs = [pair for name, shape in shapes.items() for pair in zip(stated[name] or (), shape, strict=False)]
    return {size: given for size, given in pairs if isinstance(size, str)}


def _fixed(shape: tuple[Dimension, ...] | None, sizes: Mapping[str, int]) -> tuple[Dimension, ...] | None:
    if shape is None:
        return None
    return tuple(sizes.get(size, size) if isinstance(size, str) else size for size in shape)


def _read_tensor(name: str, entry: Any, sizes: Mapping[str, int], refuse: Refusal) -> Tensor:
    match entry:
        case {"shape": list(shape), "dtype": str(dtype), **others} if set(others) <= {"constant"}:
            constant = others.get("constant", False)
            named = 0 < len(name) <= MAX_NAME_CHARACTERS
            if isinstance(constant, bool) and named and len(shape) <= MAX_RANK and all(map(_is_dimension, shape)):
                return Tensor(name=name, shape=_fixed(tuple(shape), sizes), dtype=dtype, constant=constant)
    raise refuse(f"the tensor {name[:MAX_NAME_CHARACTERS]!r} is no {{'shape', 'dtype', 'constant'}} of the right types")


def _is_dimension(size: Any) -> bool:
    return size is None or isinstance(size, str) or (type(size) is int and 0 <= size <= MAX_DIMENSION)


def _read_operators(entries: Any, tensors: Mapping[str, Tensor], refuse: Refusal) -> tuple[Operator, ...]:
    if not isinstance(entries, list) or len(entries) > MAX_OPERATORS:
        raise refuse(f"'operators' is not a list of at most {MAX_OPERATORS} operators")
    operators = tuple(_read_operator(at, entry, refuse) for at, entry in enumerate(entries))
    if len({operator.name for operator in operators}) != len(operators):
        raise refuse("two operators have one name")
    for operator in operators:
        for name in (*operator.inputs, *operator.outputs, *operator.weights):
            if name and name not in tensors:
                raise refuse(f"the operator {operator.name!r} speaks of the tensor {name!r}, which is not there")
        if not {name for name in operator.weights if tensors[name].constant} >= set(operator.weights):
            raise refuse(f"a weight of the operator {operator.name!r} is no constant")
        if not set(operator.weights) <= set(operator.inputs):
            raise refuse(f"a weight of the operator {operator.name!r} is none of its inputs")
    return operators


def _read_operator(index: int, entry: Any, refuse: Refusal) -> Operator:
    if not isinstance(entry, dict) or set(entry) - _FIELDS:
        raise refuse(f"operator {index} is no object of {', '.join(sorted(_FIELDS))}")
    name, op, kind = entry.get("name"), entry.get("op", ""), entry.get("kind", "")
    if not isinstance(name, str) or not name or len(name) > MAX_NAME_CHARACTERS or not isinstance(op, str):
        raise refuse(f"operator {index} has a name or a type that is no text")
    if not isinstance(kind, str) or (kind and (kind not in KINDS or kind in ("branch", "loop"))):
        raise refuse(f"the operator {name!r} is of no kind that a script can have: {kind!r}")
    names = {key: entry.get(key, []) for key in ("inputs", "outputs", "weights")}
    objects = {key: entry.get(key, {}) for key in ("geometry", "attributes")}
    if not all(isinstance(value, list) and all(isinstance(each, str) for each in value) for value in names.values()):
        raise refuse(f"inputs, outputs and weights of the operator {name!r} are lists of names")
    if not all(isinstance(value, dict) for value in objects.values()):
        raise refuse(f"geometry and attributes of the operator {name!r} are objects")
    if not _is_geometry(objects["geometry"]):
        raise refuse(f"the geometry of the operator {name!r} is made of whole numbers from 0, words and truths")
    return Operator(
        index=index,
        name=name,
        op=op,
        kind=kind,
        inputs=tuple(names["inputs"]),
        outputs=tuple(names["outputs"]),
        weights=tuple(names["weights"]),
        geometry=objects["geometry"],
        attributes=objects["attributes"],
    )


def _is_geometry(geometry: Mapping[str, Any]) -> bool:
    return all(
        isinstance(value, str | bool) or (type(value) is int and 0 <= value <= MAX_DIMENSION)
        for value in geometry.values()
    )


def _check_order(
    operators: tuple[Operator, ...],
    tensors: Mapping[str, Tensor],
    *,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    refuse: Refusal,
) -> None:
    """Whether every operator's inputs are there when its turn comes, and every tensor is made once."""
    made = set(inputs) | {name for name, tensor in tensors.items() if tensor.constant}
    for operator in operators:
        for name in operator.inputs:
            if name and name not in made:
                raise refuse(f"the operator {operator.name!r} takes {name!r} before anything makes it")
        for name in filter(None, operator.outputs):
            if name in made:
                raise refuse(f"the operator {operator.name!r} makes {name!r} once more")
            made.add(name)
    missing = [name for name in outputs if name not in made]
    if missing:
        raise refuse(f"nothing makes the output {missing[0]!r}")
