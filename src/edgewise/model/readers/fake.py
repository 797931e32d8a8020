"""The format of the fake runtime: a line ``edgewise-fake 1``, then one JSON object that scripts a fake model.

Only ``inputs``, ``outputs`` and ``graph`` are read here; every other key belongs to the runtime. Under ``graph`` are

- ``operators``: objects with fields of `edgewise.model.graph.Operator`, in an order in which they can run;
- ``tensors``: name → ``{"shape", "dtype", "constant"}``; the model's inputs and outputs are there of themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from edgewise.model.cost import KINDS
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.readers.base import SelfContained, check_shapes, damaged, make_signature
from edgewise.model.signature import Dimension, Signature, TensorSpec

MARK = b"edgewise-fake"
VERSION = 1
MAX_BYTES = 4 * 2**20
_ADVICE = "write 'edgewise-fake 1' and, from the next line on, one JSON object"

_DEFAULT_INPUTS = (TensorSpec(name="x", shape=(1, 4), dtype="float32"),)
_DEFAULT_OUTPUTS = (TensorSpec(name="y", shape=(1, 2), dtype="float32"),)


class FakeReader(SelfContained):
    """Reads fake models."""

    format = "fake"
    title = "edgewise fake"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the first word is the format's mark."""
        return head.split(maxsplit=1)[:1] == [MARK]

    def read_signature(self, path: Path) -> Signature:
        """Return the scripted inputs and outputs, or one float32 ``x`` [1, 4] and one float32 ``y`` [1, 2].

        A language model may have none, as those in GGUF.
        """
        script = _read_script(path)
        if "generation" in script and script.get("inputs") == script.get("outputs") == []:
            return Signature(inputs=(), outputs=())
        return make_signature(
            path,
            inputs=_read_specs(path, script, "inputs", default=_DEFAULT_INPUTS),
            outputs=_read_specs(path, script, "outputs", default=_DEFAULT_OUTPUTS),
        )

    def read_graph(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """Return the scripted network.

        Raises `BadModel` where the script has none or it is wrong, `BadInput` for `shapes`.
        """
        graph = _read_script(path).get("graph")
        if not isinstance(graph, dict):
            raise damaged(path, "its script has no object 'graph'", advice=_ADVICE)
        try:
            return _make_graph(graph, self.read_signature(path), shapes or {})
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise damaged(path, f"its graph is wrong: {error!r}", advice=_ADVICE) from error


def _make_graph(script: dict[str, Any], signature: Signature, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return the graph; a named dimension takes the size that `shapes` gives it wherever the name stands."""
    stated = {spec.name: spec.shape for spec in signature.inputs}
    check_shapes(stated, shapes)
    sizes = {old: new for name, shape in shapes.items() for old, new in zip(stated[name] or (), shape, strict=False)}

    def fix(shape: Iterable[Dimension] | None) -> tuple[Dimension, ...] | None:
        return None if shape is None else tuple(sizes.get(size, size) if size is not None else None for size in shape)

    specs = (*signature.inputs, *signature.outputs)
    tensors = {
        spec.name: Tensor(name=spec.name, shape=shapes.get(spec.name, fix(spec.shape)), dtype=spec.dtype)
        for spec in specs
    }
    for name, entry in script.get("tensors", {}).items():
        tensors[name] = Tensor(name=name, **{**entry, "shape": fix(entry["shape"])})
    operators = []
    made = {spec.name for spec in signature.inputs} | {name for name, tensor in tensors.items() if tensor.constant}
    for index, entry in enumerate(script.get("operators", ())):
        lists = {key: tuple(entry.get(key, ())) for key in ("inputs", "outputs", "weights")}
        operator = Operator(**{"index": index, "op": "", **entry, **lists})
        if operator.kind and (operator.kind not in KINDS or operator.kind in ("branch", "loop")):
            raise ValueError(f"a script can't have the kind {operator.kind!r}")
        if not made >= {*operator.inputs, *operator.weights} or not tensors.keys() >= {*operator.outputs}:
            raise ValueError(f"the operator {operator.name!r} has a tensor that is not listed or made later")
        made |= {*operator.outputs}
        operators.append(operator)
    inputs, outputs = (tuple(spec.name for spec in each) for each in (signature.inputs, signature.outputs))
    return Graph(
        name="", format="fake", version="1", tensors=tensors, operators=tuple(operators), inputs=inputs, outputs=outputs
    )


def _read_script(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_BYTES:
        raise damaged(path, f"a fake model is no larger than {MAX_BYTES} bytes", advice=_ADVICE)
    first, _, rest = path.read_bytes().partition(b"\n")
    if first.split() != [MARK, str(VERSION).encode()]:
        raise damaged(path, f"its first line is not 'edgewise-fake {VERSION}'", advice=_ADVICE)
    try:
        script = json.loads(rest) if rest.strip() else {}
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its script is not JSON: {error}", advice=_ADVICE) from error
    if not isinstance(script, dict):
        raise damaged(path, "its script is not a JSON object", advice=_ADVICE)
    return script


def _read_specs(
    path: Path, script: dict[str, Any], key: str, *, default: tuple[TensorSpec, ...]
) -> tuple[TensorSpec, ...]:
    entries = script.get(key)
    if entries is None:
        return default
    try:
        return tuple(
            TensorSpec(
                name=each["name"],
                shape=None if each["shape"] is None else tuple(each["shape"]),
                dtype=str(each["dtype"]),
            )
            for each in entries
        )
    except (LookupError, TypeError) as error:
        advice = '{"name": "x", "shape": [1, 4], "dtype": "float32"}; an open dimension is null or its name'
        reason = f"an entry of {key!r} lacks a name, a shape or a dtype of the right type"
        raise damaged(path, reason, advice=advice) from error
