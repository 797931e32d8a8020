"""GGUF files of llama.cpp: weights and metadata of a language model, without its network.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3. Only the header is read, value by
value and within limits. A chat template in it is a program: it is noted and never executed.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from edgewise.model.graph import LANGUAGE_MODEL, Graph, Operator, StoredData, Tensor
from edgewise.model.readers.base import (
    SelfContained,
    Wrong,
    check_shapes,
    explain_damage,
    identify_version,
)
from edgewise.model.signature import Signature

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_KEYS = 100_000
MOST_TENSORS = 100_000
MOST_ELEMENTS = 2**24
MOST_DIMENSIONS = 4
MOST_TEXT = 2**20
MOST_HEADER_BYTES = 2**29
KEPT_ELEMENTS = 1024
"""Longer arrays, such as a vocabulary, are kept as their length."""
KEPT_TEXT = 1000
CHAT_TEMPLATE = "tokenizer.chat_template"
_DAMAGED = "download it again"
NO_NETWORK = "a GGUF file has the weights of a network and not what it computes"

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9

#: ggml's number of a type → its name, the elements of a block, the bytes of a block
TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}  # fmt: skip
_NUMPY = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Elements:
    """An array that is too long to be kept: its length."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTensor:
    """A weight.

    Attributes:
        shape: in numpy's order, the dimension whose elements lie together last.
        kind: ggml's name of its type: ``Q4_1``.
        offset, size: in the file, B.
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """What stands before the weights of a GGUF file.

    Attributes:
        metadata: key → number, text, tuple of up to `KEPT_ELEMENTS` of these, or `Elements`.
        tensors: in the file's order.
    """

    version: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tensors: tuple[GgufTensor, ...] = ()

    @property
    def architecture(self) -> str:
        """``llama``; "" where the file does not say."""
        found = self.metadata.get("general.architecture")
        return found if isinstance(found, str) else ""

    def number(self, key: str) -> int | None:
        """Return the whole number at `key` below the architecture; None where there is none."""
        found = self.metadata.get(f"{self.architecture}.{key}")
        return found if type(found) is int and found >= 0 else None

    @property
    def context_length(self) -> int | None:
        """Tokens that the model was made for; None where the file does not say."""
        return self.number("context_length") or None

    @property
    def kv_cache_type(self) -> str | None:
        """Type of the KV cache that OpenVINO GenAI gives a file of floats, whatever its device's default is."""
        return "f16" if self.metadata.get("general.file_type") in (0, 1) else None

    @property
    def tokenizer(self) -> str:
        """Kind of the tokenizer, ``gpt2``; "" where the file has none."""
        kind, tokens = self.metadata.get("tokenizer.ggml.model"), self.metadata.get("tokenizer.ggml.tokens")
        return kind if isinstance(kind, str) and tokens else ""

    @property
    def has_chat_template(self) -> bool:
        """Whether there is a program that makes a prompt of messages."""
        return CHAT_TEMPLATE in self.metadata

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights."""
        return sum(tensor.size for tensor in self.tensors)

    @property
    def quantisation(self) -> str:
        """The type that most bytes of the weights have: ``Q4_1``; "" without weights."""
        sizes: dict[str, int] = {}
        for tensor in self.tensors:
            sizes[tensor.kind] = sizes.get(tensor.kind, 0) + tensor.size
        return max(sizes, key=sizes.__getitem__, default="")

    def cached_numbers(self) -> tuple[int | None, str]:
        """Numbers that the KV cache keeps of one token: Σ over layers of heads of keys × (size of a key + of a value).

        Returns:
            None and the reason where the header does not tell them, or attention does not keep all tokens this way.
        """
        unlike = ("attention.kv_lora_rank", "ssm.state_size", "attention.sliding_window", "wkv.head_size")
        for key in unlike:
            if self.metadata.get(f"{self.architecture}.{key}"):
                return None, f"its attention is of another kind ({self.architecture}.{key})"
        layers, heads = self.number("block_count"), self.number("attention.head_count")
        kept = self.metadata.get(f"{self.architecture}.attention.head_count_kv", heads)
        width = self.number("embedding_length")
        head = width // heads if width and heads else None
        a_key, a_value = (self.number(f"attention.{name}_length") or head for name in ("key", "value"))
        each = kept if isinstance(kept, tuple) else (kept,) * layers if layers and layers <= MOST_TENSORS else ()
        if not layers or not a_key or not a_value or len(each) != layers or not all(type(one) is int for one in each):
            return None, "the header does not tell its layers, its heads of keys or their size"
        return sum(each) * (a_key + a_value), ""


class _Stream:
    """Values of a header, one after the other, within what the file has and `MOST_HEADER_BYTES`."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = min(size, MOST_HEADER_BYTES)

    def take(self, count: int, what: str) -> bytes:
        self._left -= count
        data = self._file.read(count) if self._left >= 0 else b""
        if len(data) < count:
            raise Wrong(f"it ends inside {what}", advice=_DAMAGED)
        return data

    def skip(self, count: int, what: str) -> None:
        self._left -= count
        if self._left < 0:
            raise Wrong(f"it ends inside {what}", advice=_DAMAGED)
        self._file.seek(count, 1)

    def number(self, letter: str, what: str) -> Any:
        return struct.unpack(f"<{letter}", self.take(struct.calcsize(f"<{letter}"), what))[0]

    def text(self, what: str, *, most: int = MOST_TEXT) -> str:
        length = self.number("Q", what)
        if length > most:
            raise Wrong(f"{what} is a text of {length} bytes, more than {most}", advice=_DAMAGED)
        return self.take(length, what).decode("utf-8", errors="replace")

    def value(self, kind: int, what: str) -> Any:
        """Return a value of metadata."""
        if kind in _SCALARS:
            return self.number(_SCALARS[kind], what)
        if kind == _TEXT:
            return self.text(what)
        if kind != _ARRAY:
            raise Wrong(f"{what} has the unknown type {kind}", advice=_DAMAGED)
        inner, count = self.number("I", what), self.number("Q", what)
        if count > MOST_ELEMENTS:
            raise Wrong(f"{what} has {count} elements, more than {MOST_ELEMENTS}", advice=_DAMAGED)
        if inner not in _SCALARS and inner != _TEXT:
            raise Wrong(f"{what} is an array of the unknown type {inner}", advice=_DAMAGED)
        if count <= KEPT_ELEMENTS:
            return tuple(self.value(inner, what) for _ in range(count))
        if inner == _TEXT:
            for _ in range(count):
                self.skip(self.number("Q", what), what)
        else:
            self.skip(count * struct.calcsize(f"<{_SCALARS[inner]}"), what)
        return Elements(count)


def read_header(path: Path) -> GgufHeader:
    """Return the header of the GGUF file at `path`; read once as long as the file does not change.

    Raises `BadModel`.
    """
    with explain_damage(path):
        return _read_header(identify_version(path))


@lru_cache(maxsize=8)
def _read_header(version: tuple[Path, int, int, int]) -> GgufHeader:
    path, _, size, _ = version
    with path.open("rb") as file:
        stream = _Stream(file, size)
        stream.take(len(MAGIC), "its mark")
        number = stream.number("I", "its version")
        if number not in VERSIONS:
            reverse = int.from_bytes(number.to_bytes(4, "little"), "big")
            raise Wrong(
                f"its bytes are big-endian (GGUF version {reverse})" if reverse in VERSIONS
                else f"it has GGUF version {number}; edgewise reads {' and '.join(map(str, VERSIONS))}",
                advice="convert it again with llama.cpp",
            )  # fmt: skip
        tensors, keys = stream.number("Q", "its counts"), stream.number("Q", "its counts")
        if tensors > MOST_TENSORS or keys > MOST_KEYS:
            raise Wrong(f"it has {tensors} tensors and {keys} keys, more than any model", advice=_DAMAGED)
        metadata = {}
        for _ in range(keys):
            key = stream.text("a key", most=2**16)
            metadata[key] = stream.value(stream.number("I", key), f"the value of {key[:100]!r}")
        described = [_read_tensor(stream) for _ in range(tensors)]
        alignment = metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 1 <= alignment <= 2**20:
            raise Wrong(f"its alignment is {alignment!r}", advice=_DAMAGED)
        begin = -(-file.tell() // alignment) * alignment
    found = tuple(_place(row, begin, size) for row in described)
    if not found:
        raise Wrong("it has no weights, only a vocabulary", advice="give the file with the weights")
    if len({tensor.name for tensor in found}) != len(found):
        raise Wrong("two of its tensors have one name", advice=_DAMAGED)
    return GgufHeader(version=number, metadata=metadata, tensors=found)


def _read_tensor(stream: _Stream) -> tuple[str, tuple[int, ...], int, int]:
    """Name, shape in ggml's order, number of the type, offset."""
    name = stream.text("the name of a tensor", most=1024)
    count = stream.number("I", name)
    if not 1 <= count <= MOST_DIMENSIONS:
        raise Wrong(f"the tensor {name!r} has {count} dimensions; ggml has 1 to {MOST_DIMENSIONS}", advice=_DAMAGED)
    shape = tuple(stream.number("Q", name) for _ in range(count))
    return name, shape, stream.number("I", name), stream.number("Q", name)


def _place(row: tuple[str, tuple[int, ...], int, int], begin: int, file_size: int) -> GgufTensor:
    name, shape, number, offset = row
    if number not in TYPES:
        raise Wrong(
            f"the tensor {name!r} has ggml's type {number}, a quantisation that edgewise does not know",
            advice="update edgewise, or quantise the model again with a common type such as Q4_K_M or Q8_0",
        )
    kind, block, block_bytes = TYPES[number]
    if not all(0 < length < 2**48 for length in shape) or shape[0] % block:
        raise Wrong(f"the tensor {name!r} of type {kind} has the shape {list(shape)}", advice=_DAMAGED)
    size = prod(shape) // block * block_bytes
    if begin + offset + size > file_size:
        missing = begin + offset + size - file_size
        raise Wrong(f"the tensor {name!r} lies {missing:,} B beyond the end of the file", advice=_DAMAGED)
    return GgufTensor(name=name, shape=shape[::-1], kind=kind, offset=begin + offset, size=size)


class GgufReader(SelfContained):
    """Reads the header of GGUF files."""

    format, title = "gguf", "GGUF"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the file has the format's mark."""
        return head.startswith(MAGIC)

    def read_signature(self, path: Path) -> Signature:
        """No inputs and outputs: it is fed with text. Raises `BadModel` for a damaged header."""
        read_header(path)
        return Signature(inputs=(), outputs=())

    def read_graph(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """Return the blocks of the model with their weights; what they compute stands in no GGUF file.

        Raises `BadModel`.
        """
        check_shapes({}, shapes or {})
        header = read_header(path)
        tensors = {
            each.name: Tensor(
                name=each.name,
                shape=each.shape,
                dtype=_NUMPY.get(each.kind, each.kind),
                constant=True,
                stored_bytes=each.size,
                data=StoredData(dtype=_NUMPY[each.kind], file=str(path), offset=each.offset, size=each.size)
                if each.kind in _NUMPY
                else None,
            )
            for each in header.tensors
        }
        blocks: dict[str, list[str]] = {}
        for name in sorted(tensors, key=_by_block):
            parts = name.split(".")
            blocks.setdefault(".".join(parts[:2]) if parts[0] == "blk" else parts[0], []).append(name)
        tensors |= {f"{name}:output": Tensor(name=f"{name}:output", shape=None, dtype="unknown") for name in blocks}
        before = ["", *(f"{name}:output" for name in blocks)]
        operators = tuple(
            Operator(
                index=index,
                name=block,
                op=f"{header.architecture or 'unknown'} block" if block.startswith("blk.") else block,
                inputs=(before[index], *names),
                outputs=(f"{block}:output",),
                weights=tuple(names),
                unknown_because=NO_NETWORK,
            )
            for index, (block, names) in enumerate(blocks.items())
        )
        return Graph(
            name=str(header.metadata.get("general.name", ""))[:KEPT_TEXT],
            format=self.format,
            version=f"version {header.version}",
            tensors=tensors,
            operators=operators,
            inputs=(),
            outputs=(before[-1],),
            metadata={LANGUAGE_MODEL: describe_header(header), "unobserved": NO_NETWORK},
        )


def _by_block(name: str) -> tuple[int, int]:
    """Before the blocks, the blocks by their numbers, after them; within each in the order of the file."""
    first, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    if first == "blk":
        return 1, int(number) if number.isdecimal() and len(number) < 10 else MOST_TENSORS
    return (0, 0) if first.startswith("token") else (2, 0)


def describe_header(header: GgufHeader) -> dict[str, Any]:
    """Return what the header says of the language model, JSON-shaped; what it does not say is None."""
    numbers, why = header.cached_numbers()
    vocabulary = header.metadata.get("tokenizer.ggml.tokens")
    return {
        "architecture": header.architecture or None,
        "context_length": header.context_length,
        "quantisation": header.quantisation,
        "tokenizer": header.tokenizer or None,
        "vocabulary": vocabulary.count if isinstance(vocabulary, Elements) else len(vocabulary or ()) or None,
        "chat_template": "present, never executed" if header.has_chat_template else None,
        "kv_cache_numbers_per_token": numbers,
        "kv_cache_absent_because": why or None,
    }
