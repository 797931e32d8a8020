"""What is fed to a model: arrays, random or from a file.

Also used inside the worker, so it needs the standard library and numpy only.
"""

from __future__ import annotations

import contextlib
import io
import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.model.signature import TensorSpec, shapes_fit
from edgewise.record import InputSpec
from edgewise.workload.input_shapes import CONVERTED, TEXT

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

MAX_FILE_BYTES = 4 * 2**30
"""What the arrays of an ``.npz`` may say they unpack to."""
MAX_FILE_ARRAYS = 10_000
_HEADER_BYTES = 2**14


def make_arrays(specs: Sequence[InputSpec], *, seed: int) -> list[Array]:
    """Random arrays, the same for the same seed and position wherever and with whatever numpy they are made.

    Floats are uniform in [0, 1): the range of normalised images, and never negative under a logarithm or a root.
    8-bit integers take their whole range, as quantised data does. Wider integers are 0 or 1: they are indices, tokens
    and masks, and both values are safe as any of these. Booleans are random. An input with a value has that throughout.

    Only numpy's raw bit streams are used: unlike its distributions they never change (NEP 19).

    Raises:
        BadInput: a negative seed, or a type that can't be made.
    """
    import numpy as np

    if seed < 0:
        raise BadInput(f"--seed must be at least 0, not {seed}", advice="0 or more")
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
    raise BadInput(f"data of type {spec.dtype} can't be generated for input {spec.name!r}", advice="give --input-data")


def read_shapes(path: Path, inputs: Sequence[TensorSpec]) -> dict[str, tuple[int, ...]]:
    """The shapes of an ``.npz`` file's arrays, for inputs with open dimensions that they fit.

    What does not fit, or is no such file, is left to `read_arrays` to refuse.
    """
    found: dict[str, tuple[int, ...]] = {}
    with contextlib.suppress(OSError, BadInput, *_DAMAGED), zipfile.ZipFile(path) as archive:
        entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        for spec, name in zip(inputs, _match_names(path, list(entries), inputs), strict=True):
            with archive.open(entries[name]) as stream:
                shape, _, _ = _read_header(io.BytesIO(stream.read(_HEADER_BYTES)), entries[name].filename, path)
            if spec.dynamic and shapes_fit(spec.shape, shape) and 0 not in shape:
                found[spec.name] = shape
    return found


def load_arrays(path: Path, specs: Sequence[InputSpec]) -> list[Array]:
    """The arrays of an ``.npz`` file in the order and of the types of `specs`; `read_arrays` without the notes."""
    return read_arrays(path, specs)[0]


def read_arrays(path: Path, specs: Sequence[InputSpec]) -> tuple[list[Array], tuple[str, ...]]:
    """The arrays of an ``.npz`` file and, for each, a note on how it was converted, empty where it was not.

    Arrays go to inputs by name. A single array of any name goes to a single input, and unnamed arrays (``arr_0``,
    ``arr_1`` … of ``numpy.savez(file, a, b)``) go by position. Floats may be given in another precision and integers
    in another width, as long as every value fits; nothing else is converted. Nothing is unpickled.

    Raises:
        BadInput: no such file, not an ``.npz``, damaged, absurdly large, or arrays that don't match `specs`.
    """
    try:
        if path.is_file() and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return _read_archive(path, archive, specs)
        path.stat()
    except OSError as error:
        raise BadInput(f"can't read {path}: {error.strerror or error}", advice="give an .npz file") from error
    except _DAMAGED as error:
        raise BadInput(f"{path.name} is damaged: {error}", advice="write it again with numpy.savez") from error
    raise BadInput(f"{path.name} is not an .npz file", advice="write one with numpy.savez('inputs.npz', NAME=array, …)")


def _read_archive(
    path: Path, archive: zipfile.ZipFile, specs: Sequence[InputSpec]
) -> tuple[list[Array], tuple[str, ...]]:
    entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if any(info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in entries.values()):
        raise BadInput(f"{path.name} has a compression that numpy does not support", advice="write it with numpy.savez")
    declared = sum(info.file_size for info in archive.infolist())
    if declared > MAX_FILE_BYTES or len(entries) > MAX_FILE_ARRAYS:
        raise BadInput(
            f"{path.name} would unpack to {declared} bytes in {len(entries)} arrays",
            advice=f"at most {MAX_FILE_BYTES} bytes and {MAX_FILE_ARRAYS} arrays",
        )
    arrays = []
    notes = []
    for spec, name in zip(specs, _match_names(path, list(entries), specs), strict=True):
        array = _read_entry(path, archive, entries[name], spec)
        converted = _convert(path, array, spec)
        if array.dtype != converted.dtype and spec.dtype != TEXT:
            notes.append(f"data {CONVERTED} {array.dtype} to {spec.dtype}")
        else:
            notes.append("")
        arrays.append(converted)
    return arrays, tuple(notes)


_DAMAGED = (zipfile.BadZipFile, ValueError, EOFError, RuntimeError, struct.error, zlib.error)


def _match_names(path: Path, found: list[str], specs: Sequence[InputSpec | TensorSpec]) -> list[str]:
    """The archive's name for every input."""
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


def _read_entry(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, spec: InputSpec) -> Array:
    """One array; its header is checked against `spec` before a byte of data is unpacked."""
    import numpy as np

    with archive.open(info) as stream, warnings.catch_warnings(action="ignore"):
        header = io.BytesIO(stream.read(_HEADER_BYTES))
        shape, fortran, dtype = _read_header(header, info.filename, path)
        if dtype.hasobject or dtype.names or dtype.subdtype:
            raise BadInput(
                f"array {spec.name!r} contains Python objects or records", advice=f"convert it to {spec.dtype}"
            )
        if shape != spec.shape:
            advice = f"the model needs {list(spec.shape)}; change the array, --batch or --shape"
            raise BadInput(f"the array for {spec.name!r} has shape {list(shape)}", advice=advice)
        size = math.prod(shape) * dtype.itemsize
        stream.seek(header.tell())
        data = stream.read(size)
        stream.read(1)  # at the end of an entry zipfile checks its CRC
    if len(data) != size:
        raise BadInput(f"the array for {spec.name!r} in {path.name} is truncated", advice="write it again")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _read_header(header: io.BytesIO, name: str, path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type of the array that `header` begins. Raises `BadInput`."""
    import numpy as np

    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        return readers[np.lib.format.read_magic(header)](header)
    except Exception as error:  # numpy reads headers with Python's own tokeniser, which has errors of many kinds
        raise BadInput(f"{name} in {path.name} is not an array", advice="write it with numpy.savez") from error


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
