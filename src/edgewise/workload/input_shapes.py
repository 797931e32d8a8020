"""Concrete shapes for the open dimensions of a model's inputs: given, or plausible and noted as assumed."""

from __future__ import annotations

import ast
import contextlib
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.model.signature import Dimension, Signature, TensorSpec
from edgewise.record import InputSpec
from edgewise.workload.inputs import TEXT

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

ASSUMED = "taken as"
"""Words in `InputSpec.note` of a size or value that was assumed."""

MAX_INPUT_BYTES = 2 * 2**30
"""Of all inputs of one inference together."""
_IMAGE_CHANNELS = (1, 3, 4)
SAMPLE_RATES = (16000, 8000)
"""Values of an input that is a sample rate, Hz, the likeliest first."""

#: Words in a dimension's name → what it is. The first row that fits counts.
_ROLES = (
    ("batch", frozenset({"batch", "batches", "batchsize", "n", "b", "bs"})),
    ("past", frozenset({"past", "cache"})),
    ("image", frozenset({"height", "width", "h", "w", "image", "img"})),
    ("sequence", frozenset({"seq", "seqlen", "sequence", "length", "len", "tokens", "time", "timesteps", "frames"})),
    ("channels", frozenset({"channel", "channels", "c"})),
)
#: What a dimension is → its size, and sizes to try where an engine refuses that one.
_SIZES = {
    "image": (224, 256, 640),  # what most classifiers take, multiples of 32; of strides up to 256; of detectors
    "sequence": (128, 512, 16),
    "token": (1, 16, 128),  # a decoder with a cache makes one token at a time
    "past": (128, 16, 1),
    "sound": (16000, 512, 160000),
    "chunk": (512, 256, 16000),  # of sound, for models with an input for the sample rate
    "channels": (3, 1),
    "": (1, 128, 16),
}
ATTEMPTS = 3
"""Number of sizes that `resolve_inputs` can try for a dimension."""

#: dtypes that can be made and fed → bytes of one element.
_ITEM_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "int32": 4, "uint32": 4, "float32": 4,
    "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip


FEEDABLE = frozenset(_ITEM_BYTES)
"""Data types that inputs can be made of."""


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """``"NAME=1x3x224x224"`` → name and shape; without a name, and its ``=``, the name is ``""``. Raises `BadInput`."""
    name, _, sizes = text.rpartition("=")
    words = re.split(r"[xX,]", sizes.strip().removeprefix("[").removesuffix("]"))
    if not all(re.fullmatch(r"[0-9]{1,12}", word.strip()) for word in words):
        raise BadInput(f"{text!r} is not a shape", advice="use NAME=1x3x224x224, or 1x3x224x224 for the only input")
    shape = tuple(int(word) for word in words)
    if 0 in shape:
        raise BadInput(f"{text!r} has a dimension of size 0", advice="every dimension must be at least 1")
    return name.strip(), shape


def resolve_inputs(
    signature: Signature,
    *,
    batch: int,
    overrides: Mapping[str, tuple[int, ...]],
    attempt: int = 0,
    given: bool = False,
) -> tuple[InputSpec, ...]:
    """A concrete shape for every input, in the model's order, with a note on whatever was assumed.

    An open first dimension is the batch, unless its name says that it is something else; so is any open dimension whose
    name says batch. Where no input has an open batch dimension, a fixed 1 in front may be reshaped to `batch`, which
    the engine must then do. Other open dimensions, in this order: what `overrides` gave to one of the same name; what a
    name such as ``past + 1`` amounts to; 224 for a height or width, 128 for a sequence, 3 for channels, by name; 224
    where the other dimensions look like an image (rank 4 with 1, 3 or 4 channels first or last); 128 for the second
    dimension of integer matrices and masks (tokens); else 1. Beside a cache of 128 tokens there is one token, and a
    mask is as long as both. Sound is a second long, or 512 samples where the model takes the sample rate, which is
    then 16 kHz. An input that holds the length of another one gets that length. Dimensions of one name have one size.

    Args:
        overrides: input name → full shape; the name ``""`` is the only input. They win over every default.
        given: values come from data, so that text can be fed.
        attempt: 0 for these sizes; up to `ATTEMPTS` − 1 for others that are plausible.

    Raises:
        BadInput: an unknown name, a wrong rank, a contradiction with a fixed dimension or with `batch`, a size below
            1, more than `MAX_INPUT_BYTES`, an unknown rank without an override, or a type that can't be fed.
    """
    if batch < 1:
        raise BadInput(f"--batch must be at least 1, not {batch}", advice="use 1 or more")
    counts = _counts(signature)
    signature = replace(signature, inputs=tuple(_without_marks(spec, counts) for spec in signature.inputs))
    resolver = _Resolver(signature, batch, _name_overrides(signature, overrides), attempt, given)
    # A mask is as long as what it masks, and a computed size needs what it is computed of.
    order = sorted(range(len(signature.inputs)), key=lambda place: resolver.rank(signature.inputs[place]))
    resolved = {place: resolver.resolve(signature.inputs[place]) for place in order}
    specs = tuple(resolved[place] for place in range(len(order)))
    total = sum(math.prod(spec.shape) * _ITEM_BYTES.get(spec.dtype, 1) for spec in specs)
    if total > MAX_INPUT_BYTES:
        raise BadInput(
            (
                f"the inputs of one inference would need {total / 2**30:.1f} GiB; the limit is "
                f"{MAX_INPUT_BYTES // 2**30} GiB"
            ),
            advice="lower --batch, or give smaller sizes with --shape NAME=…",
        )
    return specs


def _counts(signature: Signature) -> Set[Dimension]:
    """Whether a bare ``N`` is a number of something: behind a batch it is not the batch, unless it is one elsewhere."""
    shapes = [spec.shape for spec in signature.inputs if spec.shape]
    behind = {size for shape in shapes if _is_batch(0, shape[0]) for size in shape[1:]}
    return ({"N", "n"} & behind) - {shape[0] for shape in shapes}


def _without_marks(spec: TensorSpec, counts: Set[Dimension]) -> TensorSpec:
    """The input without names of dimensions that tell nothing: two ``?`` are not the same size, nor are `counts`."""
    if spec.shape is None:
        return spec
    shape = tuple(
        size if isinstance(size, int) or (re.search(r"\w", size or "") and size not in counts) else None
        for size in spec.shape
    )
    return replace(spec, shape=shape)


def open_axes(spec: InputSpec) -> frozenset[int]:
    """Dimensions that the model leaves open and whose size was assumed, from the note on them."""
    return frozenset(int(axis) for axis in re.findall(r"open dimension ([0-9]+)", spec.note))


def with_sizes_of(specs: Sequence[InputSpec], arrays: Sequence[Array], sample: str) -> tuple[InputSpec, ...]:
    """The inputs with the sizes of a sample's arrays where sizes were assumed."""
    found = []
    for spec, array in zip(specs, arrays, strict=True):
        notes = [f"open dimension {axis} is {array.shape[axis]}, as in {sample}" for axis in sorted(open_axes(spec))]
        same = not notes or len(array.shape) != len(spec.shape)
        found.append(spec if same else replace(spec, shape=array.shape, note="; ".join(notes)))
    return tuple(found)


def other_inputs(
    signature: Signature, *, batch: int, overrides: Mapping[str, tuple[int, ...]]
) -> tuple[tuple[InputSpec, ...], ...]:
    """Other plausible inputs, the likeliest first, for an engine that refuses what `resolve_inputs` assumed."""
    first = resolve_inputs(signature, batch=batch, overrides=overrides)
    if not any(ASSUMED in spec.note for spec in first):
        return ()
    found: list[tuple[InputSpec, ...]] = []
    for attempt in range(1, ATTEMPTS):
        with contextlib.suppress(BadInput):  # too large
            found.append(resolve_inputs(signature, batch=batch, overrides=overrides, attempt=attempt))
    return tuple(inputs for inputs in dict.fromkeys(found) if inputs != first)


def batch_of(signature: Signature, specs: Sequence[InputSpec]) -> int:
    """The batch that concrete shapes amount to: the one size of every open, or reshaped, batch dimension; else 1."""
    sizes = {
        spec.shape[0]
        for spec, own in zip(specs, signature.inputs, strict=True)
        if spec.shape and own.shape and (_is_batch(0, own.shape[0]) or own.shape[0] == 1)
    }
    return sizes.pop() if len(sizes) == 1 else 1


def _name_overrides(signature: Signature, overrides: Mapping[str, tuple[int, ...]]) -> Mapping[str, tuple[int, ...]]:
    """The overrides by real names. Raises `BadInput` for a name the model doesn't have."""
    names = [spec.name for spec in signature.inputs]
    known = f"its inputs: {', '.join(names) or 'none'}"
    if "" in overrides and "" not in names:
        if len(names) != 1:
            raise BadInput(f"a shape without a name, but the model has {len(names)} inputs", advice=known)
        overrides = {names[0]: overrides[""]} | {name: shape for name, shape in overrides.items() if name}
    for name in overrides:
        if name not in names:
            raise BadInput(f"the model has no input {name!r}", advice=known)
    return overrides


class _Resolver:
    """Gives open dimensions their sizes, the same for the same name throughout a model.

    Attributes:
        sizes: name of a dimension → its size and why it was assumed, "" where it was asked for.
        lengths: what a dimension is → the size of the first that is one.
        cached: whether the model takes what it remembers of earlier tokens.
        rated: whether the model takes the sample rate.
    """

    def __init__(
        self, signature: Signature, batch: int, overrides: Mapping[str, tuple[int, ...]], attempt: int, given: bool
    ) -> None:
        self.attempt = attempt
        self.given = given
        self.lengths: dict[str, int] = {}
        self.cached = any(_is_past(spec) for spec in signature.inputs)
        self.rated = any(_is_sample_rate(spec) for spec in signature.inputs)
        self.batch = batch
        self.overrides = overrides
        self.sizes: dict[str, tuple[int, str]] = {}
        shapes = [spec.shape or () for spec in signature.inputs]
        self.open_batch = any(_is_batch(axis, size) for shape in shapes for axis, size in enumerate(shape))
        fixed_front = any(isinstance(shape[0], int) for shape in shapes if shape)
        if batch != 1 and not (self.open_batch or fixed_front or any(s.shape is None for s in signature.inputs)):
            raise BadInput(
                (f"no input has a batch dimension, so a batch of {batch} is not possible"), advice="leave --batch 1"
            )
        for spec in signature.inputs:
            if spec.name in overrides:
                self._check_override(spec, overrides[spec.name])
        # Before any default: the name of one input's batch may stand elsewhere in another's shape.
        for axis, size in (pair for shape in shapes for pair in enumerate(shape)):
            if isinstance(size, str) and _is_batch(axis, size) and not _is_expression(size):
                self.sizes.setdefault(size, (batch, ""))

    def resolve(self, spec: TensorSpec) -> InputSpec:
        """The input with a size for every dimension."""
        if spec.dtype == TEXT and not self.given:
            raise BadInput(
                f"input {spec.name!r} needs text, and random text would be meaningless",
                advice="give it with --input-data F.npz (bench, profile, compare): numpy.savez('F.npz', "
                f"**{{{spec.name!r}: [['a text']]}})",
            )
        if spec.dtype not in _ITEM_BYTES and spec.dtype != TEXT:
            raise BadInput(
                f"input {spec.name!r} has the unsupported type {spec.dtype}",
                advice=f"supported types: {', '.join(_ITEM_BYTES)}; text, from --input-data",
            )
        notes: list[str] = []
        value = None
        if _is_sample_rate(spec) and not self.given:
            value = float(SAMPLE_RATES[self.attempt % len(SAMPLE_RATES)])
            notes.append(f"its value {ASSUMED} {value:g} (a sample rate)")
        elif _is_length(spec) and not self.given and (length := self._longest()):
            value = float(length)
            notes.append(f"its value {ASSUMED} {length} (the length of another input)")
        if spec.name in self.overrides:
            shape = self.overrides[spec.name]
            if spec.shape and spec.shape[0] == 1 and shape[0] != 1:
                notes.append(f"leading dimension reshaped from 1 to {shape[0]}")
        elif spec.shape is None:
            raise BadInput(
                f"the number of dimensions of input {spec.name!r} is unknown",
                advice=f"give its shape: --shape {spec.name}=1x3x224x224",
            )
        else:
            shape = tuple(self._resolve_size(spec, spec.shape, axis, notes) for axis in range(len(spec.shape)))
        if 0 in shape:
            raise BadInput(f"input {spec.name!r} has a dimension of size 0", advice="export the model with real sizes")
        for axis, open_size in enumerate(spec.shape or ()):
            if not isinstance(open_size, int) and not _is_batch(axis, open_size):
                self.lengths.setdefault(self._role(spec, axis)[0], shape[axis])
        return InputSpec(name=spec.name, shape=shape, dtype=spec.dtype, note="; ".join(notes), value=value)

    def _longest(self) -> int | None:
        """The open length of what was resolved so far."""
        return next(
            (self.lengths[role] for role in ("sound", "chunk", "sequence", "token") if role in self.lengths), None
        )

    def rank(self, spec: TensorSpec) -> int:
        """In which order inputs are resolved: plain ones, those with a computed size, masks and lengths."""
        computed = any(isinstance(size, str) and _is_expression(size) for size in spec.shape or ())
        return 2 if _MASK.search(spec.name) or _is_length(spec) else int(computed)

    def _resolve_size(self, spec: TensorSpec, shape: tuple[Dimension, ...], axis: int, notes: list[str]) -> int:
        size = shape[axis]
        if isinstance(size, int):
            return self._resolve_front(spec, size, notes) if axis == 0 else size
        if isinstance(size, str) and size in self.sizes:
            found, why = self.sizes[size]
        elif isinstance(size, str) and _is_expression(size) and (computed := self._compute(size)) is not None:
            found, why = computed, "computed from its name"
        elif _is_batch(axis, size):
            found, why = self.batch, ""
        else:
            found, why = self._assume_size(spec, axis)
        if isinstance(size, str):
            self.sizes[size] = found, why
        if why:
            name = f" {size!r}" if isinstance(size, str) else ""
            notes.append(f"open dimension {axis}{name} {ASSUMED} {found} ({why})")
        return found

    def _assume_size(self, spec: TensorSpec, axis: int) -> tuple[int, str]:
        """The stated default of an open dimension that is not the batch, and why."""
        role, why = self._role(spec, axis)
        if role == "total":
            return self._length("past") + self._length("token"), f"{why}: past and new tokens"
        return self._default(role), why

    def _default(self, role: str) -> int:
        if role == "batch":
            return self.batch
        sizes = _SIZES[role]
        return sizes[min(self.attempt, len(sizes) - 1)]

    def _length(self, role: str) -> int:
        return self.lengths.get(role) or self._default(role)

    def _role(self, spec: TensorSpec, axis: int) -> tuple[str, str]:
        """The role of an open dimension that is not the batch, and the evidence; "" and "unknown" without any."""
        shape = spec.shape or ()
        size, rank = shape[axis], len(shape)
        name = size if isinstance(size, str) else ""
        role = _find_role(name)
        floats = spec.dtype.startswith("float")
        in_rows = rank == 2 and axis == 1 and (not floats or _MASK.search(spec.name) is not None)
        if (
            self.cached
            and (role == "sequence" or (in_rows and not role))
            and "encoder" not in (name + spec.name).lower()
        ):
            if "total" in name.lower() or _MASK.search(spec.name):
                return "total", "a mask" if _MASK.search(spec.name) else "its name"
            return "token", "one step of a decoder with a cache"
        if role in ("", "sequence") and floats and rank in (1, 2) and axis == rank - 1 and not in_rows:
            if self.rated:
                return "chunk", "samples of sound"
            if _SOUND.search(spec.name):
                return "sound", "samples of sound"
        if role:
            return role, f"{role}-like name"
        if _STATE.search(spec.name) and rank == 3 and axis == 1:
            return "batch", "a recurrent state is layers, batch, units"
        if _PAST.search(spec.name) and rank >= 3 and axis == rank - 2:
            return "past", "a cache's position"
        if rank == 4 and (
            (axis in (2, 3) and shape[1] in _IMAGE_CHANNELS) or (axis in (1, 2) and shape[3] in _IMAGE_CHANNELS)
        ):
            return "image", "image-like position"
        if in_rows and (spec.dtype in ("int32", "int64") or _MASK.search(spec.name)):
            return "sequence", "integers in rows, like tokens" if spec.dtype.startswith("int") else "a mask"
        return "", "unknown"

    def _compute(self, text: str) -> int | None:
        """What a dimension's name amounts to, such as ``past_length + 1``; None where that is no size."""

        def value(node: ast.AST) -> int:
            match node:
                case ast.Constant(value=int(number)):
                    return number
                case ast.Name(id=name):
                    if name not in self.sizes:
                        role = _find_role(name)
                        role = "token" if role == "sequence" and self.cached and "encoder" not in name else role
                        why = f"{role}-like name" if role else "unknown"
                        self.sizes[name] = self._default(role), "" if role == "batch" else why
                    return self.sizes[name][0]
                case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                    return _ARITHMETIC[type(op)](value(left), value(right))
            raise ValueError(text)

        try:
            found = value(ast.parse(text.strip(), mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
            return None
        return found if found >= 1 else None

    def _resolve_front(self, spec: TensorSpec, size: int, notes: list[str]) -> int:
        """A fixed first dimension. Where another input has an open batch, this one stays as it is."""
        if self.batch == 1 or self.open_batch or size == self.batch:
            return size
        if size == 1:
            notes.append(f"leading dimension reshaped from 1 to {self.batch}")
            return self.batch
        raise BadInput(
            f"input {spec.name!r} has a fixed leading dimension of {size}, so a batch of {self.batch} is not possible",
            advice=f"--batch {size}, or export the model with an open batch dimension",
        )

    def _check_override(self, spec: TensorSpec, given: tuple[int, ...]) -> None:
        text = f"shape {'x'.join(map(str, given))} for input {spec.name!r}"
        shape = given if spec.shape is None else spec.shape
        wanted = "the model's: " + ("x".join("?" if size is None else str(size) for size in shape) or "a scalar")
        if any(size < 1 for size in given):
            raise BadInput(f"{text} has a dimension below 1", advice="every dimension must be at least 1")
        if len(given) != len(shape):
            raise BadInput(f"{text} has {len(given)} dimensions, the model's has {len(shape)}", advice=wanted)
        for axis, (size, asked) in enumerate(zip(shape, given, strict=True)):
            batched = _is_batch(axis, size) or (axis == 0 and isinstance(size, int) and not self.open_batch)
            if batched and self.batch not in (1, asked):
                raise BadInput(
                    f"{text} contradicts a batch of {self.batch}", advice=f"--batch {asked}, or another shape"
                )
            if isinstance(size, int) and size != asked and not (batched and size == 1 and asked == self.batch):
                hint = f"; for a batch: --batch {asked}" if batched and size == 1 else ""
                raise BadInput(f"{text} contradicts dimension {axis}, fixed at {size}", advice=wanted + hint)
            if isinstance(size, str) and self.sizes.setdefault(size, (asked, ""))[0] != asked:
                clash = f"{text} sets {size!r} to {asked}, but another input has {self.sizes[size][0]}"
                raise BadInput(clash, advice=f"give {size!r} the same size everywhere")


_MASK = re.compile("mask", re.IGNORECASE)
_STATE = re.compile("state|hidden|^[hc][0-9]?$", re.IGNORECASE)
_PAST = re.compile("past|cache", re.IGNORECASE)
_SOUND = re.compile("audio|waveform|speech|sound|wav$|pcm", re.IGNORECASE)
_ARITHMETIC: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv
}  # fmt: skip


def _is_expression(name: str) -> bool:
    return len(name) < 200 and any(sign in name[1:] for sign in "+-*/")


def _is_past(spec: TensorSpec) -> bool:
    """Whether an input is what a decoder remembers, of open length."""
    names = [size for size in spec.shape or () if isinstance(size, str)]
    open_sizes = sum(not isinstance(size, int) for size in (spec.shape or ())[1:])
    return any(_find_role(name) == "past" for name in names if not _is_expression(name)) or bool(
        _PAST.search(spec.name) and open_sizes and len(spec.shape or ()) >= 3
    )


def _is_sample_rate(spec: TensorSpec) -> bool:
    name = re.sub("[^a-z]", "", spec.name.lower())
    single = spec.shape is not None and all(size in (1, None) or isinstance(size, str) for size in spec.shape)
    known = name in ("sr", "fs") or name.endswith(("samplerate", "samplingrate"))
    return known and single and len(spec.shape or ()) <= 1 and spec.dtype in _RATE_TYPES


def _is_length(spec: TensorSpec) -> bool:
    """Whether an input says how long the sequences of a batch are."""
    named = re.search(r"(^|[a-z]*_)(lens?|lengths?)$", spec.name.lower())
    return bool(named) and spec.shape is not None and len(spec.shape) <= 1 and spec.dtype in ("int32", "int64")


_RATE_TYPES = frozenset({"int16", "int32", "int64", "uint16", "uint32", "uint64", "float32", "float64"})


def _is_batch(axis: int, size: Dimension) -> bool:
    """Whether an open dimension is the batch: by its name, or by being first with no name that says otherwise."""
    if isinstance(size, int):
        return False
    role = _find_role(size) if size is not None else ""
    return role == "batch" or (axis == 0 and not role)


def _find_role(name: str) -> str:
    """What a dimension is by its name, "" where the name does not tell: ``inputHeight_1`` is an image's."""
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    return next((role for role, known in _ROLES if known.intersection(words)), "")
