"""The scripted network of a fake model, as a graph.

Under the key ``graph`` a script may have

| key | meaning |
|---|---|
| ``operators`` | a list of ``{"name", "op", "kind", "geometry", "inputs", "outputs", "weights", "attributes"}`` as in `edgewise.model.graph.Operator`, in an order in which they can run |
| ``tensors`` | name → ``{"shape", "dtype", "constant"}``; the model's inputs and outputs are there of themselves |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from edgewise.errors import BadModel
from edgewise.model.cost import KINDS
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.readers.base import MAX_DIMENSION, MAX_NAME_CHARACTERS, MAX_RANK, check_shapes
from edgewise.model.signature import Dimension, Signature

MAX_OPERATORS = 100_000
Refusal = Callable[[str], BadModel]


def _check_kind(kind: str) -> str:
    if kind and (kind not in KINDS or kind in ("branch", "loop")):
        raise ValueError(f"a script can't have the kind {kind!r}")
    return kind


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Names = Annotated[tuple[str, ...], Field(strict=False)]
Size = Annotated[int, Field(ge=0, le=MAX_DIMENSION)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class ScriptTensor(_Part):
    """A tensor of a script."""

    shape: Annotated[list[Size | str | None], Field(max_length=MAX_RANK)]
    dtype: str
    constant: bool = False


class ScriptOperator(_Part):
    """An operator of a script; the fields are those of `edgewise.model.graph.Operator`."""

    name: Name
    op: str = ""
    kind: Annotated[str, AfterValidator(_check_kind)] = ""
    geometry: dict[str, bool | Size | str] = {}
    inputs: Names = ()
    outputs: Names = ()
    weights: Names = ()
    attributes: dict[str, Any] = {}


class ScriptGraph(_Part):
    """The object under ``graph``."""

    operators: Annotated[list[ScriptOperator], Field(max_length=MAX_OPERATORS)] = []
    tensors: dict[Name, ScriptTensor] = {}


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
    try:
        content = ScriptGraph.model_validate(script)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, ("graph", *first["loc"])))
        raise refuse(f"{where[:MAX_NAME_CHARACTERS]}: {first['msg']}") from error
    tensors = {
        spec.name: Tensor(name=spec.name, shape=shapes.get(spec.name, _fixed(spec.shape, sizes)), dtype=spec.dtype)
        for spec in (*signature.inputs, *signature.outputs)
    }
    for name, entry in content.tensors.items():
        if name in tensors:
            raise refuse(f"the tensor {name!r} is an input or output of the model already")
        tensors[name] = Tensor(name=name, shape=_fixed(entry.shape, sizes), dtype=entry.dtype, constant=entry.constant)
    operators = tuple(Operator(index=index, **dict(each)) for index, each in enumerate(content.operators))
    inputs = tuple(spec.name for spec in signature.inputs)
    outputs = tuple(spec.name for spec in signature.outputs)
    _check(operators, tensors, inputs=inputs, outputs=outputs, refuse=refuse)
    return Graph(
        name="", format="fake", version="1", tensors=tensors, operators=operators, inputs=inputs, outputs=outputs
    )


def _named_sizes(signature: Signature, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Names of open dimensions → their sizes. Raises `BadInput` for a shape that is none of an input's."""
    stated = {spec.name: spec.shape for spec in signature.inputs}
    check_shapes(stated, shapes)
    pairs = [pair for name, shape in shapes.items() for pair in zip(stated[name] or (), shape, strict=False)]
    return {size: given for size, given in pairs if isinstance(size, str)}


def _fixed(shape: Iterable[Dimension] | None, sizes: Mapping[str, int]) -> tuple[Dimension, ...] | None:
    if shape is None:
        return None
    return tuple(sizes.get(size, size) if isinstance(size, str) else size for size in shape)


def _check(
    operators: tuple[Operator, ...],
    tensors: Mapping[str, Tensor],
    *,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    refuse: Refusal,
) -> None:
    """Refuse unknown tensors, weights that are no constant inputs, a wrong order, and tensors that are made twice."""
    if len({operator.name for operator in operators}) != len(operators):
        raise refuse("two operators have the same name")
    made = set(inputs) | {name for name, tensor in tensors.items() if tensor.constant}
    for operator in operators:
        constants = {name for name in operator.inputs if name in tensors and tensors[name].constant}
        if not set(operator.weights) <= constants:
            raise refuse(f"a weight of the operator {operator.name!r} is not one of its constant inputs")
        for name in filter(None, operator.inputs):
            if name not in made:
                raise refuse(f"the operator {operator.name!r} reads {name!r} before it is made")
        for name in filter(None, operator.outputs):
            if name in made or name not in tensors:
                raise refuse(f"the operator {operator.name!r} makes {name!r}, which exists already or is not listed")
            made.add(name)
    if missing := [name for name in outputs if name not in made]:
        raise refuse(f"no operator makes the output {missing[0]!r}")
