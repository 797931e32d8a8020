"""The seam to model formats: a reader knows its format from content and describes inputs, outputs and weight files."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from heapq import heapify, heappop, heappush
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, Protocol, runtime_checkable

from edgewise.errors import BadInput, BadModel
from edgewise.model.graph import BITS, Graph, Tensor
from edgewise.model.signature import Shape, Signature, TensorSpec, shapes_fit
from edgewise.registry import Registry
from edgewise.wire import Damaged, read_varint

HEAD_BYTES = 4096
"""How many of a file's first bytes `Reader.sniff` is given (fewer where the file is shorter)."""

OUTSIDE_ADVICE = "save the model again with its weights in its folder; edgewise reads no file outside it"

MOST_BESIDE = 1000
"""Files beside a model that are looked at for weights under another name."""
MAX_TENSORS = 10_000
MAX_RANK = 64
MAX_NAME_CHARACTERS = 4096
MAX_DIMENSION = 2**63 - 1

NUMBER_LETTERS = {
    "float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b",
    "uint64": "Q", "uint32": "I", "uint16": "H", "uint8": "B", "bool": "?",
}  # fmt: skip
"""dtype → `struct`'s letter, of the types whose elements Python can read."""
MAX_VALUE_BYTES = 1024
"""Of a constant whose values are read, for shapes, axes and the like; larger ones are weights."""
_HEAD = 16
"""First bytes of a constant, which are enough for an element of any type."""


class Reader(Protocol):
    """A model format.

    Files are hostile: every method works in bounded time and memory, and whatever is wrong with a file is `BadModel`.

    Attributes:
        format: its name in records and in `Runtime.formats`.
        title: its proper name.
    """

    format: str
    title: str

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the file is of this format, judged cheaply from its content and never from its name.

        A damaged file whose format can still be told is of this format: `read_signature` says what is wrong with it.

        Args:
            head: the first `HEAD_BYTES` bytes.
            path: the file, for formats whose mark lies further inside.
        """

    def read_signature(self, path: Path) -> Signature:
        """Return inputs and outputs, without reading weights that lie in files of their own. Raises `BadModel`."""

    def weight_files(self, path: Path) -> tuple[Path, ...]:
        """Return the other files the model needs, in the order in which they enter its hash.

        Raises:
            BadModel: one is missing, too short, or lies where a model has no business.
        """


class SelfContained:
    """What readers share whose models are one file."""

    def weight_files(self, path: Path) -> tuple[Path, ...]:
        """None: all weights are inside."""
        return ()


@runtime_checkable
class ReadsGraph(Protocol):
    """A reader that can also tell a model's network. Hostile files are bounded and refused as `Reader` says."""

    def read_graph(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """Return the network, with every shape that can be known without running it.

        Weights are described and never copied; those in files of their own are not read.

        Args:
            shapes: input name → concrete shape, for inputs with open dimensions; the others stay as the file has them.

        Raises:
            BadModel: it is damaged: cyclic, inconsistent, out of range, absurdly large.
            BadInput: a name in `shapes` is no input, or a shape does not fit.
        """


@runtime_checkable
class HasSignatures(Protocol):
    """A reader of a format whose files may have several named entry points."""

    def read_signatures(self, path: Path) -> Mapping[str, Signature]:
        """Name → inputs and outputs, the entry point that engines run by default first. Raises `BadModel`."""


@runtime_checkable
class ReadsGraphs(Protocol):
    """A reader that can also tell the network of each of `HasSignatures.read_signatures`."""

    def read_graph(
        self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None, signature: str | None = None
    ) -> Graph:
        """As `ReadsGraph.read_graph`, of the entry point `signature`; None is the default."""


def readers() -> Registry[Reader]:
    """All model formats, built-in and plugged in."""
    return Registry("edgewise.readers", "model format")


def make_signature(path: Path, *, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Signature:
    """Return a signature whose names, ranks and sizes are sane.

    Raises:
        BadModel: no outputs, two inputs of one name, absurd counts, names, ranks or sizes.
    """
    if not outputs:
        raise damaged(path, "it has no outputs")
    for noun, specs in (("inputs", inputs), ("outputs", outputs)):
        if len(specs) > MAX_TENSORS:
            raise damaged(path, f"it has {len(specs)} {noun}, more than {MAX_TENSORS}")
        seen: set[str] = set()
        for spec in specs:
            if len(spec.name) > MAX_NAME_CHARACTERS:
                raise damaged(path, f"one of its {noun} has a name of {len(spec.name)} characters")
            # Shapes and arrays are given by input name, so a doubled one could not be addressed.
            if spec.name in seen and noun == "inputs":
                raise damaged(path, f"two inputs have the name {spec.name!r}")
            seen.add(spec.name)
            if spec.shape is not None and len(spec.shape) > MAX_RANK:
                raise damaged(path, f"{spec.name!r} has {len(spec.shape)} dimensions, more than {MAX_RANK}")
            for size in spec.shape or ():
                if isinstance(size, int) and not 0 <= size <= MAX_DIMENSION:
                    raise damaged(path, f"{spec.name!r} has a dimension of size {size}")
    return Signature(inputs=tuple(inputs), outputs=tuple(outputs))


def sign_graph(path: Path, graph: Graph) -> Signature:
    """Return the inputs and outputs of `graph` as the signature of its file. Raises as `make_signature`."""
    inputs, outputs = (
        [TensorSpec(name=name, shape=graph.tensors[name].shape, dtype=graph.tensors[name].dtype) for name in names]
        for names in (graph.inputs, graph.outputs)
    )
    return make_signature(path, inputs=inputs, outputs=outputs)


def check_shapes(stated: Mapping[str, Shape | None], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse shapes that the inputs of a model can't have.

    Args:
        stated: name of an input → its shape as the file has it.
        shapes: name of an input → the shape that the user wants.

    Raises:
        BadInput: an unknown name, an impossible size, or a shape that differs from what the file fixes.
    """
    for name, shape in shapes.items():
        given = "x".join(map(str, shape))
        if name not in stated:
            raise BadInput(f"the model has no input {name!r}", advice=f"its inputs: {', '.join(stated) or 'none'}")
        if any(not 0 <= size <= MAX_DIMENSION for size in shape) or math.prod(shape) > MAX_DIMENSION:
            raise BadInput(
                f"{given} for input {name!r} has an impossible size", advice="every dimension must be at least 1"
            )
        fixed = stated[name]
        if not shapes_fit(fixed, shape):
            wanted = "x".join(str(size) if isinstance(size, int) else "?" for size in fixed or ())
            raise BadInput(f"{given} does not fit input {name!r}", advice=f"the model takes {wanted or 'a scalar'}")


def order_by_needs(needs: Sequence[Set[int]]) -> tuple[list[int], int | None]:
    """Return indices so that each follows those that it needs, else in the order they have; and one on a cycle.

    What is on a cycle or behind one is not in the order. Without a cycle the second value is None.
    """
    waiting = [len(makers) for makers in needs]
    users: dict[int, list[int]] = {}
    for index, makers in enumerate(needs):
        for maker in makers:
            users.setdefault(maker, []).append(index)
    heap = [index for index, count in enumerate(waiting) if not count]
    heapify(heap)
    order: list[int] = []
    while heap:
        index = heappop(heap)
        order.append(index)
        for user in users.get(index, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heappush(heap, user)
    stuck = next((index for index, count in enumerate(waiting) if count), None)
    seen: set[int] = set()
    while stuck is not None and stuck not in seen:
        seen.add(stuck)
        stuck = next(maker for maker in needs[stuck] if waiting[maker])
    return order, stuck


def identify_version(path: Path) -> tuple[Path, int, int, int]:
    """Return what changes when the file at `path` does: its inode, size and time of change."""
    stat = path.stat()
    return path, stat.st_ino, stat.st_size, stat.st_mtime_ns


def damaged(path: Path, reason: str, *, advice: str = "export or download it again") -> BadModel:
    """Return the error for a file whose format is known and whose content is wrong."""
    return BadModel(f"{path.name} can't be used: {reason}", advice=advice)


class Wrong(Exception):
    """What is wrong inside a model's file; `explain_damage` makes it the error that names the file."""

    def __init__(self, reason: str, *, advice: str = "export or download it again") -> None:
        super().__init__(reason)
        self.advice = advice


@contextmanager
def explain_damage(path: Path) -> Iterator[None]:
    """Turn what is wrong inside the file at `path` into `BadModel`."""
    try:
        yield
    except Wrong as error:
        raise damaged(path, str(error), advice=error.advice) from error
    except UnicodeDecodeError as error:
        raise damaged(path, "it contains text that is not UTF-8") from error


def read_json(path: Path, most: int = 2**20) -> Mapping[str, Any]:
    """Return the JSON object in the file at `path`. Raises `Wrong` for what is none, or has more than `most` bytes."""
    with path.open("rb") as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise Wrong(f"it is longer than {most} bytes")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Wrong(f"it is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise Wrong("it is no JSON object")
    return found


def read_values(constant: Tensor) -> tuple[int | float, ...] | None:
    """Return the elements of a small constant from its file, flattened; None for large, packed and all other ones."""
    letter, data, count = NUMBER_LETTERS.get(constant.dtype), constant.data, constant.elements
    if letter is None or data is None or data.dtype != constant.dtype or constant.stored_bytes is not None:
        return None
    if count is None or count * struct.calcsize(letter) > MAX_VALUE_BYTES:
        return None
    layout = f"<{count}{letter}"
    with Path(data.file).open("rb") as file:
        file.seek(data.offset)
        content = file.read(struct.calcsize(layout))
    return struct.unpack(layout, content) if len(content) == struct.calcsize(layout) else None


def read_first(constant: Tensor) -> int | float | None:
    """Return the first element of a constant from its file; None where it has none, or none that is a number."""
    data, dtype = constant.data, constant.dtype
    if data is None or not data.file or not constant.elements:
        return None
    with Path(data.file).open("rb") as file:
        file.seek(data.offset)
        head = file.read(min(data.size, _HEAD))
    if data.dtype == "varint":
        try:
            head = read_varint(head, 0, len(head))[0].to_bytes(_HEAD, "little")
        except Damaged:
            return None
    elif data.dtype != dtype:
        return None
    bits = BITS.get(dtype, 0)
    letter = NUMBER_LETTERS.get({"bfloat16": "uint16"}.get(dtype, "uint8" if 0 < bits < 8 else dtype))
    if letter is None or len(head) < struct.calcsize(letter):
        return None
    number: int | float = struct.unpack_from(f"<{letter}", head)[0]
    if dtype == "bfloat16":  # the upper half of a float32
        (number,) = struct.unpack("<f", struct.pack("<I", int(number) << 16))
    elif bits < 8:  # the first of several is in the lowest bits
        number = int(number) & ((1 << bits) - 1)
        number -= (number >> (bits - 1) << bits) if dtype.startswith("int") else 0
    return number


class MissingWeights(BadModel):
    """A weight file that a model names is not there.

    Attributes:
        name: path of the weight file, below the model's folder, as the model gives it.
    """

    def __init__(self, message: str, *, advice: str, name: str) -> None:
        super().__init__(message, advice=advice)
        self.name = name


def missing_weights(path: Path, name: str, size: int) -> MissingWeights:
    """Return the error for a weight file that is not there: where it must be, and whether it is there under another
    name.

    Args:
        size: bytes that the model needs of it.
    """
    place = path.parent / name
    advice = f"put it at {place}: {path.name} names it so"
    with suppress(OSError):
        files = [each for each in islice(path.parent.iterdir(), MOST_BESIDE) if each.is_file() and each != path]
        if len(renamed := [each for each in files if size and each.stat().st_size == size]) == 1:
            make = "" if place.parent.is_dir() else f"mkdir -p {quote(str(place.parent))} && "
            advice += f". If {renamed[0].name} is this file: {make}mv {quote(str(renamed[0]))} {quote(str(place))}"
    message = f"{path.name} can't be used: its weight file {name!r} is missing"
    return MissingWeights(message, advice=advice, name=name)


def check_inside(path: Path, weights: Path) -> None:
    """Raise `BadModel` where a link leads `weights` out of the folder of the model at `path`.

    A model that is a link itself, as in the caches of Hugging Face, may have its weights beside the file it leads to.
    """
    try:
        real = weights.resolve()
        if real.is_relative_to(path.parent.resolve()) or real.parent == path.resolve().parent:
            return
    except (OSError, RuntimeError) as error:  # a loop of links, a name that is too long, a folder without access
        raise damaged(path, f"its weight file {weights.name!r} can't be opened: {error}") from error
    reason = f"its weights are in {weights.name!r}, outside the model's folder (through a symbolic link)"
    raise damaged(path, reason, advice=OUTSIDE_ADVICE)
