"""LiteRT's C API through ctypes, as far as its profiler needs it: the Python package has no profiler.

The package's shared library exports the whole C API, profiler included (``litert/c/litert_profiler.h`` and its
neighbours in https://github.com/google-ai-edge/LiteRT). It is not a stable interface, so what it returns is checked: a
structure of another size or with other fields is noticed before a pointer in it is followed. `CHECKED` lists the
versions on which prototypes and structures were verified; later ones are tried, and the profile says that they were
not verified.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.runtime.base import CannotProfile

CHECKED = ("2.1.6", "2.2.0", "2.3.0")
"""Versions of ai-edge-litert on which the prototypes and the structure of an event below were verified, in order."""
ADVICE = f"pip install 'ai-edge-litert=={CHECKED[-1]}'"
MAX_RANK = 8
MAX_EVENTS = 1_000_000
_UNTOUCHED = 0xA5
_CPU = 1
_READ, _WRITE = 0, 1
_STATUS_OK = 0

_pointer = ctypes.c_void_p
_size = ctypes.c_size_t
_integer = ctypes.c_int
_text = ctypes.c_char_p


class EventStructure(ctypes.Structure):
    """``ProfiledEventData`` of LiteRT on 64-bit Linux: 104 bytes."""

    _fields_ = (
        ("tag", ctypes.c_void_p), ("type", ctypes.c_int32), ("start_us", ctypes.c_uint64),
        ("elapsed_us", ctypes.c_uint64), ("memory", ctypes.c_size_t * 6), ("index", ctypes.c_uint64),
        ("subgraph", ctypes.c_uint64), ("source", ctypes.c_int32),
    )  # fmt: skip


EVENT_TYPES = frozenset(1 << bit for bit in range(9))
EVENT_SOURCES = frozenset({0, 1, 2})


class _Layout(ctypes.Structure):
    """Rank in the lowest seven bits of the first word, then the sizes."""

    _fields_ = (
        ("rank", ctypes.c_uint32),
        ("sizes", ctypes.c_int32 * MAX_RANK),
        ("strides", ctypes.c_uint32 * MAX_RANK),
    )


class _TensorType(ctypes.Structure):
    _fields_ = (("element", ctypes.c_int32), ("layout", _Layout))


_ELEMENTS: Mapping[str, int] = {
    "float32": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9, "float16": 10, "float64": 11,
    "uint64": 13, "uint32": 16, "uint16": 17,
}  # fmt: skip

_TYPES = {"p": _pointer, "n": _size, "i": _integer, "s": _text, "b": ctypes.c_bool}
#: functions and the types of their arguments (`_TYPES`); all return a status, but for those that destroy.
_PROTOTYPES: Mapping[str, tuple[Any, ...]] = {
    name: tuple(_TYPES[letter] for letter in letters)
    for name, letters in re.findall(
        r"(\w+)\((\w+)\)",
        """
        CreateEnvironment(ipp) DestroyEnvironment(p) CreateModelFromFile(psp) DestroyModel(p) CreateOptions(p)
        DestroyOptions(p) SetOptionsHardwareAccelerators(pi) CreateOpaqueOptions(sppp) DestroyOpaqueOptions(p)
        AddOpaqueOptions(pp) CreateCompiledModel(pppp) DestroyCompiledModel(p)
        CompiledModelResizeInputTensorNonStrict(pnnpn) GetCompiledModelOutputTensorLayouts(pnnpb)
        RunCompiledModel(pnnpnp) CompiledModelGetProfiler(pp) StartProfiler(p) StopProfiler(p) GetNumProfilerEvents(pp)
        GetProfilerEvents(pip) GetModelSignature(pnp) GetModelSubgraph(pnp) GetSignatureSubgraph(pp)
        GetNumSignatureInputs(pp) GetNumSignatureOutputs(pp) GetSignatureInputTensorByIndex(pnp)
        GetSignatureOutputTensorByIndex(pnp) GetTensorName(pp) GetRankedTensorType(pp)
        GetCompiledModelInputBufferRequirements(pnnp) GetCompiledModelOutputBufferRequirements(pnnp)
        CreateManagedTensorBufferFromRequirements(pppp) DestroyTensorBuffer(p) GetTensorBufferPackedSize(pp)
        LockTensorBuffer(ppi) UnlockTensorBuffer(p)
        """,
    )
}


Named = tuple[str, Any]
"""A tensor's name and its array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of LiteRT's profiler.

    Attributes:
        type: a bit of ``LiteRtProfilerEventType``.
        start_us: by the monotonic clock; 0 for events that tell a duration only.
        index, subgraph: of the operator, or of the delegate's own step.
    """

    tag: str
    type: int
    start_us: int
    elapsed_us: int
    index: int
    subgraph: int


class Library:
    """The C API of one version.

    Attributes:
        note: for a profile by a version that was not verified; else "".

    Raises `CannotProfile` on an older version, on another system than 64-bit Linux, or without the library.
    """

    def __init__(self, path: Path, version: str) -> None:
        if _release(version) < _release(CHECKED[0]):
            raise CannotProfile(
                f"LiteRT's profiler needs ai-edge-litert {CHECKED[0]} or newer, and this is {version} ({ADVICE})"
            )
        if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_void_p) != 8:
            raise CannotProfile("LiteRT's C API was verified on 64-bit Linux only, which this machine does not run")
        self.note = ""
        if version not in CHECKED:
            self.note = (
                f"LiteRT's profiler is not a stable interface. It was verified with ai-edge-litert "
                f"{', '.join(CHECKED)}, but not with {version}; its events passed all checks"
            )
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise CannotProfile(f"LiteRT's library can't be loaded: {error} ({ADVICE})") from error
        self._functions = {name: self._bind(name, types) for name, types in _PROTOTYPES.items()}

    def _bind(self, name: str, types: tuple[Any, ...]) -> Any:
        try:
            function = getattr(self._library, f"LiteRt{name}")
        except AttributeError as error:
            raise CannotProfile(f"LiteRT's library lacks LiteRt{name} ({ADVICE})") from error
        function.argtypes = types
        function.restype = None if name.startswith("Destroy") else _integer
        return function

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call ``LiteRt<name>``. Raises `CannotProfile` where it reports an error."""
        status = self._functions[name](*arguments)
        if status not in (None, _STATUS_OK):
            raise CannotProfile(f"LiteRt{name} failed with status {status}")

    def create(self, name: str, *arguments: Any, of: Any = ctypes.c_void_p) -> Any:
        """Return what ``LiteRt<name>`` writes to its last argument. Raises `CannotProfile` where it tells an error."""
        result = of()
        self(name, *arguments, ctypes.byref(result))
        return result.value

    def function(self, name: str) -> Callable[..., int]:
        """``LiteRt<name>`` itself, whose status the caller checks."""
        found: Callable[..., int] = self._functions[name]
        return found

    def read_events(self, profiler: int) -> list[Event]:
        """Everything the profiler recorded since it was started. Raises `CannotProfile` where it is not as expected."""
        count = self.create("GetNumProfilerEvents", profiler, of=ctypes.c_int)
        if not 0 < count <= MAX_EVENTS:
            raise CannotProfile(f"LiteRT's profiler recorded {count} events")
        # As much again behind it: an event that is longer than expected writes there and not into others' memory.
        size = count * ctypes.sizeof(EventStructure)
        memory = (ctypes.c_ubyte * (2 * size))()
        ctypes.memset(memory, _UNTOUCHED, 2 * size)
        self("GetProfilerEvents", profiler, count, memory)
        if bytes(memory[size:]) != bytes([_UNTOUCHED]) * size:
            raise CannotProfile(f"LiteRT's events have an unexpected size ({ADVICE})")
        events = (EventStructure * count).from_buffer(memory)
        for event in events:
            if event.type not in EVENT_TYPES or event.source not in EVENT_SOURCES or not event.tag:
                raise CannotProfile(f"LiteRT's events have unexpected fields ({ADVICE})")
        return [_read_event(event) for event in events]


def _release(version: str) -> tuple[int, ...]:
    """``(2, 4, 0)`` of ``2.4.0.dev20261026``."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _read_event(event: Any) -> Event:
    tag = ctypes.string_at(event.tag)
    if not tag.isascii() or not tag.decode("ascii").isprintable():
        raise CannotProfile(f"an event of LiteRT's profiler has no readable name ({ADVICE})")
    return Event(
        tag=tag.decode("ascii"), type=event.type, start_us=event.start_us, elapsed_us=event.elapsed_us,
        index=event.index, subgraph=event.subgraph,
    )  # fmt: skip


class TimedModel:
    """A model compiled for the CPU with its profiler on.

    Args:
        settings: of the CPU accelerator, as lines of TOML.
        inputs: names and the arrays to run it on.
        outputs: names and arrays of the shapes and types it gives.

    Names that are not the model's own go by position. Raises `CannotProfile`.
    """

    def __init__(
        self, library: Library, path: Path, *, settings: str, inputs: Sequence[Named], outputs: Sequence[Named]
    ) -> None:
        self._library = library
        self._owned: list[tuple[str, int]] = []
        try:
            self._compile(path, settings)
            self._tensors = {"Input": self._match("Input", inputs), "Output": self._match("Output", outputs)}
            self._resize()
            self._inputs = self._buffers("Input")
            self._outputs = self._buffers("Output")
            for (_, array), buffer in zip(self._tensors["Input"], self._inputs, strict=True):
                self._transfer(buffer, array.nbytes, array.tobytes())
            self._profiler = library.create("CompiledModelGetProfiler", self._model)
            if not self._profiler:
                raise CannotProfile("LiteRT compiled the model without a profiler")
        except BaseException:
            self.close()
            raise
        self._run = library.function("RunCompiledModel")
        self._arguments = (self._model, 0, len(self._inputs), self._inputs, len(self._outputs), self._outputs)

    def run(self) -> None:
        """One inference. Raises `CannotProfile`."""
        status = self._run(*self._arguments)
        if status != _STATUS_OK:
            raise CannotProfile(f"LiteRtRunCompiledModel failed with status {status}")

    def record(self, clock: Callable[[], int]) -> tuple[list[Event], int, int]:
        """One inference under the profiler: its events, and when it began and ended by `clock`."""
        # One without it before: reading the last one's events took so long that the engine's threads went to sleep.
        self.run()
        self._library("StartProfiler", self._profiler)
        begin = clock()
        status = self._run(*self._arguments)
        end = clock()
        self._library("StopProfiler", self._profiler)
        if status != _STATUS_OK:
            raise CannotProfile(f"LiteRtRunCompiledModel failed with status {status}")
        return self._library.read_events(self._profiler), begin, end

    def read_outputs(self) -> list[tuple[Any, Any]]:
        """For each output what was given for it and a copy of what the last inference made."""
        import numpy as np

        found = []
        for (_, array), buffer in zip(self._tensors["Output"], self._outputs, strict=True):
            data = self._transfer(buffer, array.nbytes, None)
            found.append((array, np.frombuffer(data, dtype=array.dtype).reshape(array.shape)))
        return found

    def close(self) -> None:
        """Release everything, the last made first."""
        while self._owned:
            kind, handle = self._owned.pop()
            self._library(f"Destroy{kind}", handle)

    def _own(self, kind: str, handle: int) -> int:
        self._owned.append((kind, handle))
        return handle

    def _compile(self, path: Path, settings: str) -> None:
        library = self._library
        environment = self._environment = self._own("Environment", library.create("CreateEnvironment", 0, None))
        model = self._own("Model", library.create("CreateModelFromFile", environment, bytes(path)))
        options = self._own("Options", library.create("CreateOptions"))
        library("SetOptionsHardwareAccelerators", options, _CPU)
        self._add_options(options, "runtime_options_string", "enable_profiling = true\n")
        self._add_options(options, "xnnpack", settings)
        self._model = self._own("CompiledModel", library.create("CreateCompiledModel", environment, model, options))
        self._signature = library.create("GetModelSignature", model, 0)
        runs = library.create("GetSignatureSubgraph", self._signature)
        if runs != library.create("GetModelSubgraph", model, 0):
            raise CannotProfile("the model's first signature runs another graph than its first")

    def _add_options(self, options: int, kind: str, text: str) -> None:
        if not text:
            return
        process = ctypes.CDLL(None)
        process.strdup.restype, process.strdup.argtypes = ctypes.c_void_p, (_text,)
        payload = process.strdup(text.encode())
        if not payload:
            raise MemoryError("no memory for LiteRT's options")
        # The library frees its copy with the function it is given.
        opaque = self._library.create(
            "CreateOpaqueOptions", kind.encode(), payload, ctypes.cast(process.free, ctypes.c_void_p)
        )
        self._library("AddOpaqueOptions", options, opaque)

    def _match(self, side: str, arrays: Sequence[Named]) -> list[Named]:
        """Return the arrays in the order of the signature, by name where all names agree, else by position."""
        library = self._library
        count = library.create(f"GetNumSignature{side}s", self._signature, of=_size)
        if count != len(arrays):
            raise CannotProfile(f"the model has {count} {side.lower()}s in its signature, not {len(arrays)}")
        handles = [library.create(f"GetSignature{side}TensorByIndex", self._signature, at) for at in range(count)]
        names = [self._name(handle) for handle in handles]
        known = dict(arrays)
        by_name = len(known) == count and set(names) == set(known)
        ordered = [(name, known[name]) for name in names] if by_name else list(arrays)
        for handle, (name, array) in zip(handles, ordered, strict=True):
            own = _TensorType()
            library("GetRankedTensorType", handle, ctypes.byref(own))
            if own.element != _ELEMENTS.get(array.dtype.name) or own.layout.rank & 0x7F != array.ndim:
                raise CannotProfile(f"LiteRT's C and Python APIs describe the {side.lower()} {name!r} differently")
        return ordered

    def _name(self, tensor: int) -> str:
        name = self._library.create("GetTensorName", tensor)
        return ctypes.string_at(name).decode("utf-8", "replace") if name else ""

    def _resize(self) -> None:
        for at, (_, array) in enumerate(self._tensors["Input"]):
            sizes = (ctypes.c_int32 * max(1, array.ndim))(*array.shape)
            if array.ndim:
                self._library("CompiledModelResizeInputTensorNonStrict", self._model, 0, at, sizes, array.ndim)
        # Only this lets the engine find its outputs' new shapes before it first runs.
        count = len(self._tensors["Output"])
        self._library("GetCompiledModelOutputTensorLayouts", self._model, 0, count, (_Layout * count)(), True)

    def _buffers(self, side: str) -> ctypes.Array[ctypes.c_void_p]:
        library, handles = self._library, []
        for at, (name, array) in enumerate(self._tensors[side]):
            needs = library.create(f"GetCompiledModel{side}BufferRequirements", self._model, 0, at)
            kind = _tensor_type(array)
            handle = library.create(
                "CreateManagedTensorBufferFromRequirements", self._environment, ctypes.byref(kind), needs
            )
            handles.append(self._own("TensorBuffer", handle))
            size = library.create("GetTensorBufferPackedSize", handle, of=_size)
            if size != array.nbytes:
                raise CannotProfile(f"LiteRT's buffer of {name!r} has {size} bytes instead of {array.nbytes}")
        return (ctypes.c_void_p * len(handles))(*handles)

    def _transfer(self, buffer: int, size: int, data: bytes | None) -> bytes:
        """Write `data` to a buffer, or read `size` bytes of it."""
        address = ctypes.c_void_p()
        self._library("LockTensorBuffer", buffer, ctypes.byref(address), _READ if data is None else _WRITE)
        try:
            if not address.value:
                raise CannotProfile("LiteRT gives no access to a buffer of the model")
            if data is None:
                return ctypes.string_at(address.value, size)
            ctypes.memmove(address.value, data, size)
            return data
        finally:
            self._library("UnlockTensorBuffer", buffer)


def _tensor_type(array: Any) -> _TensorType:
    if array.ndim > MAX_RANK:
        raise CannotProfile(f"LiteRT's C API takes at most {MAX_RANK} dimensions")
    kind = _TensorType(element=_ELEMENTS[array.dtype.name])
    kind.layout.rank = array.ndim
    kind.layout.sizes[: array.ndim] = array.shape
    return kind
