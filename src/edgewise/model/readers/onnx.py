"""ONNX: a protobuf ``ModelProto``, its weights inside or in files beside it.

The format is described at https://onnx.ai/onnx/repo-docs/IR.html; external data at
https://onnx.ai/onnx/repo-docs/ExternalData.html.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from edgewise.model.graph import Graph
from edgewise.model.readers.base import (
    OUTSIDE_ADVICE,
    Wrong,
    check_inside,
    explain_damage,
    identify_version,
    make_signature,
    missing_weights,
)
from edgewise.model.readers.onnx_blocks import NATIVE, attach, find_calls, put_in_order, read_block
from edgewise.model.readers.onnx_graph import Observed, Source, make_graph, read_declared
from edgewise.model.readers.onnx_shapes import follow_values, infer_shapes, inline_functions, set_input_shapes
from edgewise.model.readers.onnx_types import name_dtypes, read_text, read_type
from edgewise.model.readers.onnx_wire import Description, describe_file
from edgewise.model.signature import Signature, TensorSpec
from edgewise.wire import BYTES, FIXED32, FIXED64, VARINT, Damaged, read_varint

MAX_BYTES = 2**31 - 1
"""protobuf's own limit of one message."""

_GRAPH = 7
#: Field number → wire type, of onnx.ModelProto.
_MODEL_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
_SNIFFED_FIELDS = 256


class OnnxReader:
    """Reads ONNX models."""

    format = "onnx"
    title = "ONNX"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the top-level protobuf fields are those of a ModelProto with a graph (ONNX has no magic number)."""
        with path.open("rb") as file:
            return _has_graph(file, path.stat().st_size)

    def read_signature(self, path: Path) -> Signature:
        """Graph inputs less initialisers, and graph outputs; names of open dimensions are kept."""
        _parse.cache_clear()  # a file may change within one tick of the file system's clock
        return _parse(identify_version(path))[0]

    def read_graph(
        self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None, observed: Observed | None = None
    ) -> Graph:
        """Nodes in an order in which they can run, functions written out, shapes inferred; see `ReadsGraph`.

        Args:
            observed: what a run told of values whose shapes can't be inferred.
        """
        with explain_damage(path):
            model, description, onnx = _load(path)
            _read_signature(path, model, onnx.TensorProto.DataType.items())
            return _make_graph(model, description, onnx.TensorProto.DataType.items(), (shapes or {}, observed))

    def locations(self, path: Path) -> tuple[str, ...]:
        """Return the files of external data as the model names them, whether they are there or not.

        Raises `BadModel`.
        """
        return tuple(location for location, _ in _parse(identify_version(path))[1])

    def weight_files(self, path: Path) -> tuple[Path, ...]:
        """Files of external data, in the order in which the model first mentions them."""
        with explain_damage(path):
            return tuple(_check_weight_file(path, *extent) for extent in _parse(identify_version(path))[1])


@lru_cache(maxsize=1)
def _parse(version: tuple[Path, int, int, int]) -> tuple[Signature, tuple[tuple[str, int], ...]]:
    """Return the signature, and each external file with the last byte that the model needs of it, plus one.

    They are kept for the next call on the same file. Raises `BadModel`.
    """
    path = version[0]
    with explain_damage(path):
        model, _, onnx = _load(path)
        signature = _read_signature(path, model, onnx.TensorProto.DataType.items())
        return signature, tuple(_find_extents(model).items())


def _load(path: Path) -> tuple[Any, Description, ModuleType]:
    """Return the model without big payloads, what was left out of it, and the package onnx."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        advice = "save it with its weights as external data (onnx.save_model(…, save_as_external_data=True))"
        raise Wrong(f"{size} bytes exceed the limit of an ONNX file (2 GiB)", advice=advice)
    import onnx

    description = describe_file(path)
    try:
        return onnx.ModelProto.FromString(description.data), description, onnx
    except Exception as error:  # protobuf's DecodeError; which class it is depends on protobuf's implementation
        raise Wrong("it is truncated or corrupt (not a whole ONNX protobuf)") from error


def _make_graph(
    model: Any,
    description: Description,
    data_types: Iterable[tuple[str, int]],
    given: tuple[Mapping[str, tuple[int, ...]], Observed | None],
) -> Graph:
    shapes, observed = given
    ir_version, notes = model.ir_version, []
    del model.training_info[:]
    calls = find_calls(model)
    if model.functions:
        inlined = inline_functions(model)
        model = inlined.model
        notes.append(inlined.why)
    block = read_block(model.graph, description)
    if [op for op, _ in calls] == [step.op for step in block.steps]:
        for step, (_, path) in zip(block.steps, calls, strict=True):
            step.path = path
    put_in_order(block)
    weights = {tensor.name for tensor in model.graph.initializer}
    set_input_shapes([info for info in model.graph.input if info.name not in weights], shapes)
    dtypes = name_dtypes(data_types)
    versions = {("" if each.domain in NATIVE else read_text(each.domain)): each.version for each in model.opset_import}
    declared = read_declared(block, dtypes)
    inferred = infer_shapes(model, block)
    notes.append(inferred.why)
    attach(block, inferred.model.graph)
    if observed is None:
        observed = Observed({"": follow_values(model, block, dtypes)})
    source = Source(description, dtypes, versions, declared, observed)
    inferred.model.ir_version = ir_version
    return make_graph(inferred.model, block, source, notes=tuple(filter(None, notes)))


def _read_signature(path: Path, model: Any, data_types: Iterable[tuple[str, int]]) -> Signature:
    if not model.HasField("graph"):
        raise Wrong("it has no graph")
    if not model.opset_import:
        raise Wrong("it names no operator set")
    names = name_dtypes(data_types)
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    weights.update(sparse.values.name for sparse in graph.sparse_initializer)
    inputs = [_read_value(info, names) for info in graph.input if info.name not in weights]
    outputs = [_read_value(info, names) for info in graph.output]
    return make_signature(path, inputs=inputs, outputs=outputs)


def _read_value(info: Any, names: dict[int, str]) -> TensorSpec:
    dtype, shape = read_type(info.type, names)
    return TensorSpec(name=read_text(info.name), shape=shape, dtype=dtype)


def _find_extents(model: Any) -> dict[str, int]:
    """External location → how far into that file the model's tensors reach, bytes, in order of first mention."""
    extents: dict[str, int] = {}
    for tensor in _find_tensors(model):
        if tensor.data_location != tensor.EXTERNAL:
            continue
        entries = {read_text(entry.key): read_text(entry.value) for entry in tensor.external_data}
        location = entries.get("location", "")
        end = sum(_read_count(tensor.name, entries.get(key, "")) for key in ("offset", "length"))
        extents[location] = max(end, extents.get(location, 0))
    return extents


def _read_count(tensor: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{0,19}", text):
        raise Wrong(f"the external data of tensor {tensor!r} has a bad offset or length")
    return int(text or 0)


def _find_tensors(model: Any) -> Iterator[Any]:
    """Every tensor of the model: initialisers and attributes, in subgraphs, functions and training graphs too."""
    graphs = [model.graph]
    for training in model.training_info:
        graphs += [training.initialization, training.algorithm]
    nodes = [function.node for function in model.functions]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop(0)
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield sparse.values
                yield sparse.indices
            nodes.insert(0, graph.node)
        for node in nodes.pop(0):
            for attribute in node.attribute:
                yield from _find_attribute_tensors(attribute)
                graphs += [attribute.g] if attribute.HasField("g") else []
                graphs += attribute.graphs


def _find_attribute_tensors(attribute: Any) -> Iterator[Any]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    sparse = list(attribute.sparse_tensors) + ([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else [])
    for tensor in sparse:
        yield tensor.values
        yield tensor.indices


def _check_weight_file(path: Path, location: str, end: int) -> Path:
    """Return the external file at `location`, once it is known to lie in the model's folder and to be long enough."""
    refused = f"its weights are in {location!r}, outside the model's folder"
    if not location or "\0" in location:
        raise Wrong("a tensor has external data without a file name")
    if location.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", location) or ".." in re.split(r"[/\\]", location):
        raise Wrong(refused, advice=OUTSIDE_ADVICE)
    file = path.parent / location
    try:
        check_inside(path, file)
        found = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise missing_weights(path, location, end) from None
    except OSError as error:  # a name that is too long, a folder without access
        raise Wrong(f"its weight file {location!r} can't be opened: {error}") from error
    if not stat.S_ISREG(found.st_mode):
        raise missing_weights(path, location, end)
    if (size := found.st_size) < end:
        raise Wrong(f"its weight file {location!r} is truncated: {size} bytes, at least {end} are needed")
    return file


def _has_graph(file: BinaryIO, size: int) -> bool:
    """Whether the fields of the message in `file` are a ModelProto's, as far as they can be followed."""
    position, found = 0, False
    for _ in range(_SNIFFED_FIELDS):
        if position >= size:
            break
        file.seek(position)
        header = file.read(20)
        try:
            key, after = read_varint(header, 0, len(header))
            number, wire = key >> 3, key & 7
            if number == 0 or _MODEL_FIELDS.get(number, wire) != wire:
                return False
            value, end = read_varint(header, after, len(header)) if wire in (VARINT, BYTES) else (0, after)
        except Damaged:
            return False
        found = found or number == _GRAPH
        widths = {VARINT: 0, BYTES: value, FIXED64: 8, FIXED32: 4}
        if wire not in widths:
            return False
        position += end + widths[wire]
    return found
