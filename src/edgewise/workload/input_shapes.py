"""Concrete shapes for the open dimensions of a model's inputs: given, or plausible and noted as assumed."""

from __future__ import annotations

import ast
import contextlib
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgewise.errors import BadInput
from edgewise.model.signature import Dimension, Signature, TensorSpec
from edgewise.record import InputSpec
from edgewise.workload.inputs import TEXT

if TYPE_CHECKING:
    from edgewise.workload.arrays import Array

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

_MASK = re.compile("mask", re.IGNORECASE)
_STATE = re.compile("state|hidden|^[hc][0-9]?$", re.IGNORECASE)
_PAST = re.compile("past|cache", re.IGNORECASE)
_SOUND = re.compile("audio|waveform|speech|sound|wav$|pcm", re.IGNORECASE)
_LENGTH = re.compile(r"(^|[a-z]*_)(lens?|lengths?)$")
_RATE_TYPES = frozenset({"int16", "int32", "int64", "uint16", "uint32", "uint64", "float32", "float64"})
_ARITHMETIC: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv
}  # fmt: skip

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
    """Return a concrete shape for every input, in the model's order, with a note on whatever was assumed.

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
        raise BadInput(f"⟦batch⟧ must be at least 1, not {batch}", advice="use 1 or more")
    signature = _clear_names(signature)
    resolver = _Resolver(signature, batch, _name_overrides(signature, overrides), attempt, given)
    order = sorted(range(len(signature.inputs)), key=lambda place: _resolution_order(signature.inputs[place]))
    resolved = {place: resolver.resolve(signature.inputs[place]) for place in order}
    specs = tuple(resolved[place] for place in range(len(order)))
    total = sum(math.prod(spec.shape) * _ITEM_BYTES.get(spec.dtype, 1) for spec in specs)
    if total > MAX_INPUT_BYTES:
        raise BadInput(
            f"the inputs of one inference would need {total / 2**30:.1f} GiB; the limit is "
            f"{MAX_INPUT_BYTES // 2**30} GiB",
            advice="lower ⟦batch⟧, or give smaller sizes with ⟦shape=NAME=…⟧",
        )
    return specs


def _clear_names(signature: Signature) -> Signature:
    """Remove names of dimensions that name nothing: two ``?`` are not the same size.

    A bare ``N`` behind a batch is a number of something, not the batch, unless it is one elsewhere.
    """
    shapes = [spec.shape for spec in signature.inputs if spec.shape]
    behind_batch = {size for shape in shapes if _is_batch(0, shape[0]) for size in shape[1:]}
    counts = ({"N", "n"} & behind_batch) - {shape[0] for shape in shapes}

    def clear(size: Dimension) -> Dimension:
        return None if isinstance(size, str) and (size in counts or not re.search(r"\w", size)) else size

    inputs = (spec if spec.shape is None else replace(spec, shape=tuple(map(clear, spec.shape)))
              for spec in signature.inputs)  # fmt: skip
    return replace(signature, inputs=tuple(inputs))


def _resolution_order(spec: TensorSpec) -> int:
    """Return 0 for plain inputs, 1 for computed sizes, 2 for masks and lengths: each needs the ones before."""
    computed = any(isinstance(size, str) and _is_expression(size) for size in spec.shape or ())
    return 2 if _MASK.search(spec.name) or _is_length(spec) else int(computed)


def open_axes(spec: InputSpec) -> frozenset[int]:
    """Dimensions that the model leaves open and whose size was assumed, from the note on them."""
    return frozenset(int(axis) for axis in re.findall(r"open dimension ([0-9]+)", spec.note))


def with_sizes_of(specs: Sequence[InputSpec], arrays: Sequence[Array], sample: str) -> tuple[InputSpec, ...]:
    """Return the inputs with the sizes of a sample's arrays where sizes were assumed."""
    found = []
    for spec, array in zip(specs, arrays, strict=True):
        notes = [f"open dimension {axis} is {array.shape[axis]}, as in {sample}" for axis in sorted(open_axes(spec))]
        same = not notes or len(array.shape) != len(spec.shape)
        found.append(spec if same else replace(spec, shape=array.shape, note="; ".join(notes)))
    return tuple(found)


def other_inputs(
    signature: Signature, *, batch: int, overrides: Mapping[str, tuple[int, ...]]
) -> tuple[tuple[InputSpec, ...], ...]:
    """Return other plausible inputs, the likeliest first, for an engine that refuses what `resolve_inputs` assumed."""
    first = resolve_inputs(signature, batch=batch, overrides=overrides)
    if not any(ASSUMED in spec.note for spec in first):
        return ()
    found: list[tuple[InputSpec, ...]] = []
    for attempt in range(1, ATTEMPTS):
        with contextlib.suppress(BadInput):  # too large
            found.append(resolve_inputs(signature, batch=batch, overrides=overrides, attempt=attempt))
    return tuple(inputs for inputs in dict.fromkeys(found) if inputs != first)


def batch_of(signature: Signature, specs: Sequence[InputSpec]) -> int:
    """Return the batch that concrete shapes amount to: the one size of every open, or reshaped, batch dimension;
    else 1.
    """
    sizes = {
        spec.shape[0]
        for spec, own in zip(specs, signature.inputs, strict=True)
        if spec.shape and own.shape and (_is_batch(0, own.shape[0]) or own.shape[0] == 1)
    }
    return sizes.pop() if len(sizes) == 1 else 1


def has_open_batch(signature: Signature) -> bool:
    """Whether an input leaves its batch open, so that whoever measures chooses it."""
    return any(_is_batch(axis, size) for spec in signature.inputs for axis, size in enumerate(spec.shape or ()))


def _name_overrides(signature: Signature, overrides: Mapping[str, tuple[int, ...]]) -> Mapping[str, tuple[int, ...]]:
    """Return the overrides by real names. Raises `BadInput` for a name the model doesn't have."""
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
        lengths: role of a dimension → size of the first dimension with that role.
        cached: whether the model takes a cache of earlier tokens.
        rated: whether the model takes the sample rate.
    """

    def __init__(
        self, signature: Signature, batch: int, overrides: Mapping[str, tuple[int, ...]], attempt: int, given: bool
    ) -> None:
        self.batch, self.overrides, self.attempt, self.given = batch, overrides, attempt, given
        self.lengths: dict[str, int] = {}
        self.sizes: dict[str, tuple[int, str]] = {}
        self.cached = any(_is_past(spec) for spec in signature.inputs)
        self.rated = any(_is_sample_rate(spec) for spec in signature.inputs)
        shapes = [spec.shape or () for spec in signature.inputs]
        self.open_batch = any(_is_batch(axis, size) for shape in shapes for axis, size in enumerate(shape))
        fixed_front = any(isinstance(shape[0], int) for shape in shapes if shape)
        unknown_rank = any(spec.shape is None for spec in signature.inputs)
        if batch != 1 and not (self.open_batch or fixed_front or unknown_rank):
            raise BadInput(
                f"no input has a batch dimension, so a batch of {batch} is not possible", advice="leave ⟦batch=1⟧"
            )
        for spec in signature.inputs:
            if spec.name in overrides:
                self._check_override(spec, overrides[spec.name])
        # Before any default: the name of one input's batch may stand elsewhere in another's shape.
        for shape in shapes:
            for axis, size in enumerate(shape):
                if isinstance(size, str) and _is_batch(axis, size) and not _is_expression(size):
                    self.sizes.setdefault(size, (batch, ""))

    def resolve(self, spec: TensorSpec) -> InputSpec:
        """Return the input with a size for every dimension. Raises `BadInput`."""
        _check_feedable(spec, given=self.given)
        value, note = (None, "") if self.given else self._choose_value(spec)
        notes = [note] if note else []
        if spec.name in self.overrides:
            shape = self.overrides[spec.name]
            if spec.shape and spec.shape[0] == 1 and shape[0] != 1:
                notes.append(f"leading dimension reshaped from 1 to {shape[0]}")
        elif spec.shape is None:
            raise BadInput(
                f"the number of dimensions of input {spec.name!r} is unknown",
                advice=f"give its shape: ⟦shape⟧ {spec.name}=1x3x224x224",
            )
        else:
            shape = tuple(self._resolve_size(spec, axis, size, notes) for axis, size in enumerate(spec.shape))
        if 0 in shape:
            raise BadInput(f"input {spec.name!r} has a dimension of size 0", advice="export the model with real sizes")
        for axis, size in enumerate(spec.shape or ()):
            if not isinstance(size, int) and not _is_batch(axis, size):
                self.lengths.setdefault(self._find_role(spec, axis)[0], shape[axis])
        return InputSpec(name=spec.name, shape=shape, dtype=spec.dtype, note="; ".join(notes), value=value)

    def _choose_value(self, spec: TensorSpec) -> tuple[float | None, str]:
        """Return the value of an input that is a sample rate or a length, with a note; None for all others."""
        if _is_sample_rate(spec):
            rate = float(SAMPLE_RATES[self.attempt % len(SAMPLE_RATES)])
            return rate, f"its value {ASSUMED} {rate:g} (a sample rate)"
        roles = [role for role in ("sound", "chunk", "sequence", "token") if self.lengths.get(role)]
        if not _is_length(spec) or not roles:
            return None, ""
        length = self.lengths[roles[0]]
        return float(length), f"its value {ASSUMED} {length} (the length of another input)"

    def _resolve_size(self, spec: TensorSpec, axis: int, size: Dimension, notes: list[str]) -> int:
        if isinstance(size, int):
            return self._resolve_front(spec, size, notes) if axis == 0 else size
        if size is not None and size in self.sizes:
            resolved, why = self.sizes[size]
        elif size is not None and _is_expression(size) and (computed := self._compute(size)) is not None:
            resolved, why = computed, "computed from its name"
        elif _is_batch(axis, size):
            resolved, why = self.batch, ""
        else:
            role, why = self._find_role(spec, axis)
            resolved = self._default(role)
        if size is not None:
            self.sizes[size] = resolved, why
        if why:
            name = "" if size is None else f" {size!r}"
            notes.append(f"open dimension {axis}{name} {ASSUMED} {resolved} ({why})")
        return resolved

    def _default(self, role: str) -> int:
        """Return the stated default size of a dimension with this role."""
        if role == "batch":
            return self.batch
        if role == "total":
            return sum(self.lengths.get(part) or self._default(part) for part in ("past", "token"))
        sizes = _SIZES[role]
        return sizes[min(self.attempt, len(sizes) - 1)]

    def _find_role(self, spec: TensorSpec, axis: int) -> tuple[str, str]:
        """Return the role of an open dimension other than the batch, and the evidence; "" and "unknown" without any."""
        shape = spec.shape or ()
        size, rank = shape[axis], len(shape)
        name = size if isinstance(size, str) else ""
        role = _role_of_name(name)
        floats = spec.dtype.startswith("float")
        is_mask = _MASK.search(spec.name) is not None
        in_rows = rank == 2 and axis == 1 and (not floats or is_mask)
        of_decoder = self.cached and "encoder" not in (name + spec.name).lower()
        if of_decoder and (role == "sequence" or (in_rows and not role)):
            if is_mask or "total" in name.lower():
                return "total", f"{'a mask' if is_mask else 'its name'}: past and new tokens"
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
        channels_first = rank == 4 and axis in (2, 3) and shape[1] in _IMAGE_CHANNELS
        if channels_first or (rank == 4 and axis in (1, 2) and shape[3] in _IMAGE_CHANNELS):
            return "image", "image-like position"
        if in_rows and (is_mask or spec.dtype in ("int32", "int64")):
            return "sequence", "integers in rows, like tokens" if spec.dtype.startswith("int") else "a mask"
        return "", "unknown"

    def _compute(self, text: str) -> int | None:
        """Return the size that a name such as ``past_length + 1`` amounts to; None where it is no size."""

        def evaluate(node: ast.AST) -> int:
            match node:
                case ast.Constant(value=int(number)):
                    return number
                case ast.Name(id=name):
                    return self._size_of_name(name)
                case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                    return _ARITHMETIC[type(op)](evaluate(left), evaluate(right))
            raise ValueError(text)

        try:
            size = evaluate(ast.parse(text.strip(), mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
            return None
        return size if size >= 1 else None

    def _size_of_name(self, name: str) -> int:
        if name not in self.sizes:
            role = _role_of_name(name)
            if role == "sequence" and self.cached and "encoder" not in name:
                role = "token"
            why = f"{role}-like name" if role else "unknown"
            self.sizes[name] = self._default(role), "" if role == "batch" else why
        return self.sizes[name][0]

    def _resolve_front(self, spec: TensorSpec, size: int, notes: list[str]) -> int:
        """Return the size of a fixed first dimension, which stays where another input has an open batch."""
        if self.batch == 1 or self.open_batch or size == self.batch:
            return size
        if size == 1:
            notes.append(f"leading dimension reshaped from 1 to {self.batch}")
            return self.batch
        raise BadInput(
            f"input {spec.name!r} has a fixed leading dimension of {size}, so a batch of {self.batch} is not possible",
            advice=f"⟦batch⟧ {size}, or export the model with an open batch dimension",
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
                    f"{text} contradicts a batch of {self.batch}", advice=f"⟦batch⟧ {asked}, or another shape"
                )
            if isinstance(size, int) and size != asked and not (batched and size == 1 and asked == self.batch):
                hint = f"; for a batch: ⟦batch⟧ {asked}" if batched and size == 1 else ""
                raise BadInput(f"{text} contradicts dimension {axis}, fixed at {size}", advice=wanted + hint)
            if isinstance(size, str) and self.sizes.setdefault(size, (asked, ""))[0] != asked:
                clash = f"{text} sets {size!r} to {asked}, but another input has {self.sizes[size][0]}"
                raise BadInput(clash, advice=f"give {size!r} the same size everywhere")


def _check_feedable(spec: TensorSpec, *, given: bool) -> None:
    """Raise `BadInput` for a type that can't be fed, or text that is not given."""
    if spec.dtype == TEXT and not given:
        raise BadInput(
            f"input {spec.name!r} needs text, and random text would be meaningless",
            advice="give it with ⟦input_data⟧ F.npz (bench, profile, compare): numpy.savez('F.npz', "
            f"**{{{spec.name!r}: [['a text']]}})",
        )
    if spec.dtype not in _ITEM_BYTES and spec.dtype != TEXT:
        raise BadInput(
            f"input {spec.name!r} has the unsupported type {spec.dtype}",
            advice=f"supported types: {', '.join(_ITEM_BYTES)}; text, from ⟦input_data⟧",
        )


def _is_expression(name: str) -> bool:
    return len(name) < 200 and any(sign in name[1:] for sign in "+-*/")


def _is_past(spec: TensorSpec) -> bool:
    """Return whether an input is a decoder's cache of open length."""
    shape = spec.shape or ()
    names = [size for size in shape if isinstance(size, str) and not _is_expression(size)]
    named = _PAST.search(spec.name) is not None and len(shape) >= 3
    return any(_role_of_name(name) == "past" for name in names) or (
        named and any(not isinstance(size, int) for size in shape[1:])
    )


def _is_sample_rate(spec: TensorSpec) -> bool:
    name = re.sub("[^a-z]", "", spec.name.lower())
    known = name in ("sr", "fs") or name.endswith(("samplerate", "samplingrate"))
    if spec.shape is None or len(spec.shape) > 1 or spec.dtype not in _RATE_TYPES:
        return False
    return known and all(size == 1 or not isinstance(size, int) for size in spec.shape)


def _is_length(spec: TensorSpec) -> bool:
    """Return whether an input holds the lengths of the sequences of a batch."""
    named = _LENGTH.search(spec.name.lower()) is not None
    return named and spec.shape is not None and len(spec.shape) <= 1 and spec.dtype in ("int32", "int64")


def _is_batch(axis: int, size: Dimension) -> bool:
    """Return whether an open dimension is the batch: by its name, or as the first one without another role."""
    if isinstance(size, int):
        return False
    role = _role_of_name(size or "")
    return role == "batch" or (axis == 0 and not role)


def _role_of_name(name: str) -> str:
    """Return the role that a dimension's name tells, else "": ``inputHeight_1`` is an image's."""
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    return next((role for role, known in _ROLES if known.intersection(words)), "")
