"""Pieces of ONNX's protobuf messages as plain values: types, shapes, tensors' sizes, attributes, small constants."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from edgewise.model.graph import BITS, StoredData, Tensor
from edgewise.model.readers.base import MAX_DIMENSION, MAX_RANK, Wrong
from edgewise.model.readers.onnx_wire import LeftOut
from edgewise.model.signature import Dimension

#: ``TensorProto.DataType`` where its name differs: numpy's, and for small floating-point types those of ml_dtypes.
_DTYPES = {
    "FLOAT": "float32", "DOUBLE": "float64",
    "FLOAT8E4M3FN": "float8_e4m3fn", "FLOAT8E4M3FNUZ": "float8_e4m3fnuz", "FLOAT8E5M2": "float8_e5m2",
    "FLOAT8E5M2FNUZ": "float8_e5m2fnuz", "FLOAT8E8M0": "float8_e8m0", "FLOAT4E2M1": "float4_e2m1",
}  # fmt: skip

_INTEGERS = ("int32_data", "int64_data", "uint64_data")
"""Fields whose numbers are varints."""

MAX_VALUES = 4096
"""Elements of a constant that is handed out as values."""
SHOWN = 64
"""Entries of a list, and times four characters of a text, that an operator's attributes show."""

#: ``AttributeProto.AttributeType``: written out, as looking them up costs more than reading an attribute.
FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS, TENSORS, GRAPHS = range(1, 11)
SPARSE_TENSOR, TYPE = 11, 13

Proto = Any
"""A message of the onnx package."""
Shapes = dict[str, tuple[str, "tuple[Dimension, ...] | None"]]
"""Name of a value → its type's name and its shape."""


def name_dtypes(data_types: Iterable[tuple[str, int]]) -> dict[int, str]:
    """Return number of an element type → its name."""
    return {number: _DTYPES.get(name, name.lower()) for name, number in data_types}


def read_type(kind: Proto, names: Mapping[int, str]) -> tuple[str, tuple[Dimension, ...] | None]:
    """Return a type's name and, for tensors, its shape.

    Nesting is bounded by protobuf's own limit (100 messages deep).
    """
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        tensor = kind.tensor_type
        return name_type(tensor.elem_type, names), read_shape(tensor)
    match which:
        case "sparse_tensor_type":
            sparse = kind.sparse_tensor_type
            return f"sparse({name_type(sparse.elem_type, names)})", read_shape(sparse)
        case "sequence_type":
            return f"sequence({read_type(kind.sequence_type.elem_type, names)[0]})", None
        case "optional_type":
            return f"optional({read_type(kind.optional_type.elem_type, names)[0]})", None
        case "map_type":
            key = name_type(kind.map_type.key_type, names)
            return f"map({key}, {read_type(kind.map_type.value_type, names)[0]})", None
    return "undefined", None


def name_type(number: int, names: Mapping[int, str]) -> str:
    """Return the name of an element type; of an unknown one, its number."""
    return names.get(number, f"onnx-type-{number}")


def read_shape(tensor: Proto) -> tuple[Dimension, ...] | None:
    """Return the shape of a tensor's type, None where the file gives none."""
    if not tensor.HasField("shape"):
        return None
    # A size above 0 is a value that is there; the slower questions are for the others.
    return tuple([dim.dim_value if dim.dim_value > 0 else _read_size(dim) for dim in tensor.shape.dim])


def _read_size(dim: Proto) -> Dimension:
    if dim.HasField("dim_value"):
        # Some exporters write -1 where the specification wants no value at all.
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    name = read_text(dim.dim_param)
    # PaddlePaddle's exporter calls every open dimension "?": they are not one.
    return None if name == "?" else name or None


def read_text(value: str | bytes) -> str:
    """Text that is not UTF-8 comes from one of protobuf's implementations as bytes and from the other as an error."""
    return value.decode() if isinstance(value, bytes) else value


def merge_shapes(
    inferred: tuple[Dimension, ...] | None, declared: tuple[Dimension, ...] | None
) -> tuple[Dimension, ...] | None:
    """Return what both tell together; where they disagree, what was inferred holds: declared shapes go stale.

    Dimensions that shape inference has named by itself (``unk__0``) are open ones without a name.
    """
    if inferred is None:
        return declared
    if all([type(size) is int for size in inferred]):  # noqa: C419 (a list is twice as fast here)
        return inferred
    own = tuple([None if isinstance(size, str) and size.startswith("unk__") else size for size in inferred])
    if declared is None or len(declared) != len(own):
        return own
    return tuple(
        mine if isinstance(mine, int) else theirs if isinstance(theirs, int) else mine or theirs
        for mine, theirs in zip(own, declared, strict=True)
    )


def read_constant(tensor: Proto, name: str, gone: LeftOut | None, names: Mapping[int, str]) -> Tensor:
    """Return an initialiser or the value of a Constant node.

    Raises:
        Wrong: its shape is none, or its data has another size than its shape.
    """
    shape = tuple(tensor.dims)
    if len(shape) > MAX_RANK or any(not 0 <= size <= MAX_DIMENSION for size in shape):
        raise Wrong(f"the constant {name!r} has an impossible shape")
    described = Tensor(name=name, shape=shape, dtype=name_type(tensor.data_type, names), constant=True)
    expected = described.size_bytes
    stored, exact = _measure(tensor, gone)
    if exact and expected is not None and stored != expected:
        raise Wrong(f"the constant {name!r} of {expected} bytes has {stored} bytes of data")
    if stored == expected:
        return described
    return Tensor(name=name, shape=shape, dtype=described.dtype, constant=True, stored_bytes=stored)


def _measure(tensor: Proto, gone: LeftOut | None) -> tuple[int | None, bool]:
    """Bytes that a tensor's data takes in the file (None: not said), and whether they have to be its elements' own.

    Integers that are written out one by one, in more or fewer bytes than they have, count by their type.
    """
    if tensor.data_location == tensor.EXTERNAL:
        lengths = [read_text(entry.value) for entry in tensor.external_data if entry.key == "length"]
        return (int(lengths[-1]) if lengths and lengths[-1].isdecimal() and len(lengths[-1]) < 20 else None), False
    if gone is not None:
        return None if gone.field in (*_INTEGERS, "ints") else gone.stored_bytes, gone.field == "raw_data"
    if tensor.raw_data:
        return len(tensor.raw_data), True
    if tensor.float_data:
        return 4 * len(tensor.float_data), False
    if tensor.double_data:
        return 8 * len(tensor.double_data), False
    if tensor.string_data:
        return sum(map(len, tensor.string_data)), False
    return None, False


def find_data(tensor: Proto, dtype: str, gone: LeftOut | None, path: Path) -> StoredData | None:
    """Where the elements of a constant of the model at `path` lie; None where they are no plain bytes."""
    if tensor.data_location == tensor.EXTERNAL:
        entries = {read_text(entry.key): read_text(entry.value) for entry in tensor.external_data}
        numbers = [entries.get(key, "0") for key in ("offset", "length")]
        if not entries.get("location") or not all(re.fullmatch(r"[0-9]{1,19}", text) for text in numbers):
            return None
        size = int(numbers[1]) or (math.prod(tensor.dims) * BITS.get(dtype, 0) + 7) // 8
        return StoredData(dtype=dtype, file=str(path.parent / entries["location"]), offset=int(numbers[0]), size=size)
    plain = {"float_data": "float32", "double_data": "float64", "raw_data": dtype}
    if gone is not None:
        if gone.field in _INTEGERS:
            file = str(path) if gone.start is not None else ""
            return StoredData(dtype="varint", file=file, offset=gone.start or 0, size=gone.stored_bytes)
        if gone.start is None or plain.get(gone.field) != dtype:
            return None
        return StoredData(dtype=dtype, file=str(path), offset=gone.start, size=gone.stored_bytes)
    if tensor.raw_data:
        return StoredData(dtype=dtype, inline=tensor.raw_data)
    if integers := tensor.int32_data or tensor.int64_data or tensor.uint64_data:
        width = max(1, BITS.get(dtype, 64) // 8)
        parts = [(value % 2 ** (8 * width)).to_bytes(width, "little") for value in integers]
        return StoredData(dtype=dtype, inline=b"".join(parts))
    if dtype == "float32" and tensor.float_data:
        return StoredData(dtype=dtype, inline=struct.pack(f"<{len(tensor.float_data)}f", *tensor.float_data))
    return None


def read_values(tensor: Proto, gone: LeftOut | None) -> tuple[int | float, ...] | None:
    """Return the elements of a small constant of numbers, flattened; None where it is large, elsewhere or no
    numbers.
    """
    if gone is not None or tensor.data_location == tensor.EXTERNAL:
        return None
    if math.prod(tensor.dims) > MAX_VALUES or tensor.data_type in (tensor.STRING, tensor.UNDEFINED):
        return None
    if tensor.data_type == tensor.INT64 and tensor.raw_data and len(tensor.raw_data) % 8 == 0:
        return struct.unpack(f"<{len(tensor.raw_data) // 8}q", tensor.raw_data)
    from onnx import numpy_helper

    try:
        values = numpy_helper.to_array(tensor).reshape(-1).tolist()
    except Exception:  # whatever numpy and onnx say of data that does not fit its type
        return None
    return tuple(values) if all(isinstance(value, (int, float)) for value in values) else None


def read_attribute(attribute: Proto, gone: LeftOut | None, names: Mapping[int, str]) -> tuple[Any, Any]:
    """Return an attribute's plain value (None: it has none that is plain), and the value as an operator shows it."""
    if gone is not None and gone.field:
        return (
            None,
            f"{gone.field.removesuffix('s') or 'bytes'}[{gone.stored_bytes if gone.field == 's' else gone.count}]",
        )
    if attribute.ref_attr_name:
        return None, f"→ {read_text(attribute.ref_attr_name)}"
    kind = attribute.type or _guess_type(attribute)
    if kind == INT:
        return attribute.i, attribute.i
    if kind == INTS:
        return (numbers := tuple(attribute.ints)), _show_list(numbers, "int")
    if kind == FLOAT:
        return attribute.f, _show(attribute.f)
    if kind == STRING:
        return (text := attribute.s.decode("utf-8", "backslashreplace")), _show(text)
    if kind == FLOATS:
        return (floats := tuple(attribute.floats)), _show_list(floats, "float")
    if kind == STRINGS:
        texts = tuple([text.decode("utf-8", "backslashreplace") for text in attribute.strings])
        return texts, _show_list(texts, "string")
    return None, _show_message(attribute, kind, names)


def _show_message(attribute: Proto, kind: int, names: Mapping[int, str]) -> Any:
    if kind == TENSOR:
        return _show_tensor(attribute.t, names)
    if kind == TENSORS:
        return _show_list(tuple([_show_tensor(each, names) for each in attribute.tensors]), "tensor")
    if kind == SPARSE_TENSOR:
        return f"sparse {_show_tensor(attribute.sparse_tensor.values, names)}"
    if kind == TYPE:
        dtype, shape = read_type(attribute.tp, names)
        return dtype if shape is None else f"{dtype}{list(shape)}"
    return None


def _guess_type(attribute: Proto) -> int:
    """Files of before IR 2 name no type; the field that is there tells it."""
    for field, kind in (("f", FLOAT), ("i", INT), ("s", STRING), ("t", TENSOR), ("g", GRAPH)):
        if attribute.HasField(field):
            return kind
    for field, kind in (("floats", FLOATS), ("ints", INTS), ("strings", STRINGS)):
        if len(getattr(attribute, field)):
            return kind
    return 0


def _show(value: Any) -> Any:
    """Return a value that JSON has, short."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str) and len(value) > 4 * SHOWN:
        return f"string[{len(value)}]"
    return value


def _show_list(values: tuple[Any, ...], noun: str) -> Any:
    return f"{noun}[{len(values)}]" if len(values) > SHOWN else tuple([_show(value) for value in values])


def _show_tensor(tensor: Proto, names: Mapping[int, str]) -> str:
    dims = ", ".join(map(str, tensor.dims[:MAX_RANK]))
    return f"{name_type(tensor.data_type, names)}[{dims}]"
