"""The arrays that a model is fed, random or from a file.

Also used inside the worker, so it needs the standard library and numpy only.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.model.signature import TensorSpec, shapes_fit
from edgewise.record import InputSpec

if TYPE_CHECKING:
    from edgewise.workload.arrays import Array

CONVERTED = "converted from"
"""Words in `InputSpec.note` of data that was converted."""
TEXT = "string"
"""The type of an input that takes text."""


def make_arrays(specs: Sequence[InputSpec], *, seed: int) -> list[Array]:
    """Return random arrays, the same for the same seed and position wherever and with whatever numpy they are made.

    Floats are uniform in [0, 1): the range of normalised images, and never negative under a logarithm or a root.
    8-bit integers take their whole range, as quantised data does. Wider integers are 0 or 1: they are indices, tokens
    and masks, and both values are safe as any of these. Booleans are random. An input with a value has that throughout.

    Only numpy's raw bit streams are used: unlike its distributions they never change (NEP 19).

    Raises:
        BadInput: a negative seed, or a type that can't be made.
    """
    import numpy as np

    if seed < 0:
        raise BadInput(f"⟦seed⟧ must be at least 0, not {seed}", advice="0 or more")
    arrays = []
    for position, spec in enumerate(specs):
        if spec.value is not None:
            arrays.append(np.full(spec.shape, spec.value, dtype=spec.dtype))
            continue
        stream = np.random.PCG64(np.random.SeedSequence([seed, position]))
        arrays.append(_fill(stream, math.prod(spec.shape), spec).reshape(spec.shape))
    return arrays


def _fill(stream: Any, count: int, spec: InputSpec) -> Array:
    """`count` random elements, flat."""
    import numpy as np

    def draw(unsigned: str, number: int) -> Array:
        width = np.dtype(unsigned).itemsize
        raw: Array = stream.random_raw(-(-number * width // 8)).astype("<u8", copy=False)
        return raw.view(f"<u{width}")[:number]

    match spec.dtype:
        case "float16":  # 11, 24 and 53 bits are what a significand holds, so the largest value stays below 1
            return (draw("u2", count) >> 5).astype("float16") * np.float16(2**-11)
        case "float32":
            return (draw("u4", count) >> 8).astype("float32") * np.float32(2**-24)
        case "float64":
            return (draw("u8", count) >> 11).astype("float64") * 2**-53
        case "uint8" | "int8":
            return draw("u1", count).view(spec.dtype).copy()
        case "bool" | "int16" | "int32" | "int64" | "uint16" | "uint32" | "uint64":
            return (draw("u1", count) >> 7).astype(spec.dtype)
    raise BadInput(f"data of type {spec.dtype} can't be generated for input {spec.name!r}", advice="give ⟦input_data⟧")


def read_shapes(path: Path, inputs: Sequence[TensorSpec]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of an ``.npz`` file's arrays, for inputs with open dimensions that they fit.

    `read_arrays` raises the error about a file that can't be read or doesn't fit.
    """
    from edgewise.workload.arrays import open_archive

    found: dict[str, tuple[int, ...]] = {}
    with contextlib.suppress(BadInput):
        entries = open_archive(path)
        for spec, name in zip(inputs, _match_names(path, list(entries), inputs), strict=True):
            shape = entries[name].shape
            if spec.dynamic and shapes_fit(spec.shape, shape) and 0 not in shape:
                found[spec.name] = shape
    return found


def load_arrays(path: Path, specs: Sequence[InputSpec]) -> list[Array]:
    """Return the arrays of an ``.npz`` file in the order and of the types of `specs`; `read_arrays` without the
    notes.
    """
    return read_arrays(path, specs)[0]


def read_arrays(path: Path, specs: Sequence[InputSpec]) -> tuple[list[Array], tuple[str, ...]]:
    """Return the arrays of an ``.npz`` file and, for each, a note on how it was converted, empty where it was not.

    Arrays go to inputs by name. A single array of any name goes to a single input, and unnamed arrays (``arr_0``,
    ``arr_1`` … of ``numpy.savez(file, a, b)``) go by position. Floats may be given in another precision and integers
    in another width, as long as every value fits; nothing else is converted. Nothing is unpickled.

    Raises:
        BadInput: no such file, not an ``.npz``, damaged, too large, or arrays that don't match `specs`.
    """
    from edgewise.workload.arrays import open_archive

    entries = open_archive(path)
    arrays, notes = [], []
    for spec, name in zip(specs, _match_names(path, list(entries), specs), strict=True):
        entry = entries[name]
        if entry.shape != spec.shape:
            advice = f"the model needs {list(spec.shape)}; change the array, ⟦batch⟧ or ⟦shape⟧"
            raise BadInput(f"the array for {spec.name!r} has shape {list(entry.shape)}", advice=advice)
        arrays.append(_convert(path, entry.whole(), spec))
        converted = entry.dtype.newbyteorder("=") != arrays[-1].dtype and spec.dtype != TEXT
        notes.append(f"data {CONVERTED} {entry.dtype} to {spec.dtype}" if converted else "")
    return arrays, tuple(notes)


def _match_names(path: Path, found: list[str], specs: Sequence[InputSpec | TensorSpec]) -> list[str]:
    """Return the archive's name for every input."""
    wanted = [spec.name for spec in specs]
    if sorted(found) == sorted(wanted):
        return wanted
    unnamed = [f"arr_{position}" for position in range(len(specs))]
    if len(found) == len(wanted) == 1:
        return found
    if sorted(found) == sorted(unnamed):
        return unnamed
    expected = ", ".join(f"{spec.name} {spec.dtype} {list(spec.shape or ())}" for spec in specs)
    missing = [name for name in wanted if name not in found]
    extra = [name for name in found if name not in wanted]
    what = f"lacks {', '.join(missing[:9])}" if missing else f"contains {', '.join(extra[:9])}, which is not an input"
    raise BadInput(f"{path.name} {what}", advice=f"give exactly: {expected}")


def _convert(path: Path, array: Array, spec: InputSpec) -> Array:
    """`array` as `spec` wants it, if no value is lost: a contiguous copy in the machine's byte order."""
    import numpy as np

    if spec.dtype == TEXT:
        if array.dtype.kind != "U":
            raise BadInput(
                f"the array for {spec.name!r} in {path.name} is {array.dtype}, but the model needs text",
                advice="store it as text: numpy.array(['a', 'b'])",
            )
        return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    wanted = np.dtype(spec.dtype)
    refused = BadInput(
        f"the array for {spec.name!r} in {path.name} is {array.dtype}, but the model needs {wanted}",
        advice=f"convert it yourself, scaled as the model expects: array.astype({spec.dtype!r})",
    )
    if array.dtype.kind + wanted.kind not in {"ff", "bb", "ii", "uu", "iu", "ui", "bi", "bu"}:
        raise refused
    with np.errstate(over="ignore"):
        converted = np.array(array, dtype=wanted, order="C", copy=True)
    # Integers must arrive as they are; floats may be rounded, but not to infinity.
    before, after = (np.isfinite(array), np.isfinite(converted)) if wanted.kind == "f" else (array, converted)
    if not np.array_equal(before, after):
        raise refused
    return converted
