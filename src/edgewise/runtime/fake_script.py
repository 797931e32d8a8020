"""The script of the fake engine (`edgewise.runtime.fake`): reading it, and every way to misbehave."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from edgewise.model.signature import TensorSpec
from edgewise.runtime.base import CannotProfile, InvalidModel, Role, UnsupportedModel

MARK = "edgewise-fake 1"
MAX_BYTES = 4 * 2**20
PLACES = ("import", "load", "first", "invoke", "outputs", "profile")
_ALLOCATION_STEP = 16 * 2**20


class FakeBehaviour:
    """When to misbehave and how."""

    def __init__(self, script: Mapping[str, Any]) -> None:
        behaviour = script["behaviour"]
        self._at: str = behaviour.get("at", "")
        self._after: int = behaviour.get("after", 0)
        self._do: str = behaviour.get("do", "")
        self._touch: str = behaviour.get("touch", "")
        self._invocations = 0
        self.not_finite = False

    def happen(self, place: str) -> None:
        """Misbehave if this is the place."""
        if place == self._at:
            if self._touch:
                Path(self._touch).touch()  # a test may wait for the misbehaviour to begin
            if self._do == "nan":
                self.not_finite = True
            else:
                DEEDS[self._do](place)

    def invoked(self) -> None:
        """Count one inference that begins, and misbehave if this is the one."""
        earlier, self._invocations = self._invocations, self._invocations + 1
        if earlier == 0:
            self.happen("first")
        elif earlier > self._after:
            self.happen("invoke")


def _channel() -> int:
    """Return the file descriptor on which a worker speaks to its host, else standard output."""
    return int(os.environ.get("EDGEWISE_CHANNEL_FD", "1"))


def _segfault(place: str) -> None:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)


def _hang(place: str) -> None:
    """For ever, with Python's lock released."""
    while True:
        time.sleep(3600)


def _spin(place: str) -> None:
    """For ever, giving Python's lock away as rarely as Python allows."""
    sys.setswitchinterval(1e6)
    while True:
        pass


def _allocate(place: str) -> None:
    """Take memory and touch it, until there is none."""
    blocks = []
    while True:
        # Not bytes(n), which the kernel may back with one shared page of zeros.
        blocks.append(bytearray(b"\x01") * _ALLOCATION_STEP)


def _raise(kind: type[Exception]) -> Callable[[str], None]:
    def deed(place: str) -> None:
        raise kind(f"the script says so, at {place}")

    return deed


#: word in a script → what happens; "nan" is handled where the outputs are
DEEDS: Mapping[str, Callable[[str], object]] = {
    "segfault": _segfault, "abort": lambda place: os.abort(), "exit": lambda place: os._exit(7), "hang": _hang,
    "spin": _spin, "allocate": _allocate, "unsupported": _raise(UnsupportedModel), "invalid": _raise(InvalidModel),
    "memory-error": _raise(MemoryError), "cannot-profile": _raise(CannotProfile), "raise": _raise(RuntimeError),
    "garbage": lambda place: os.write(_channel(), b"\x00\xff this is no message of the protocol\n"),
    "close-channel": lambda place: os.close(_channel()), "nan": lambda place: None,
}  # fmt: skip


def read_script(path: Path) -> dict[str, Any]:
    """Return the script at `path` with its defaults. Raises `InvalidModel` naming what is wrong with it."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidModel(f"can't read {path.name}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise InvalidModel(f"a fake model is no larger than {MAX_BYTES} bytes")
    first, _, rest = data.partition(b"\n")
    if first.split() != MARK.encode().split():
        raise InvalidModel(f"the first line is not {MARK!r}")
    try:
        script = json.loads(rest) if rest.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidModel(f"the script is not JSON: {error}") from error
    if not isinstance(script, dict):
        raise InvalidModel("the script is not a JSON object")
    complete: dict[str, Any] = {**_DEFAULTS, **script}
    _check_script(complete)
    return complete


_DEFAULTS: Mapping[str, Any] = {
    "inputs": [{"name": "x", "shape": [1, 4], "dtype": "float32"}],
    "outputs": [{"name": "y", "shape": [1, 2], "dtype": "float32"}], "latency_ns": [1_000_000], "warmup_ns": [],
    "import_ns": 0, "load_ns": 0, "tick_ns": 0, "speeds": [], "outputs_value": None, "effective": {}, "behaviour": {},
}  # fmt: skip


_OPTIONAL = frozenset(
    {
        "engine_latency_ns", "requests", "layers", "layer_overheads", "turns", "graph", "reference_ns", "states",
        "generation",
    }
)  # fmt: skip
"""Keys that change what the session can do; ``graph`` is read by the format's reader only."""


#: key of ``generation`` → what it is where the script does not say
GENERATION: Mapping[str, Any] = {
    "token_ns": [1_000_000], "prefill_ns": 0, "encode_ns": 0, "decode_ns": 0, "tokens": -1, "depth": 2**62,
    "other_from": 2**62, "beginning": [], "end": None, "log_probabilities": [-1.0],
    "distributions": [],
}  # fmt: skip
_FREE = ("kv_cache_type", "beginning", "end", "log_probabilities", "distributions")


def _check_script(script: Mapping[str, Any]) -> None:
    unknown = set(script) - set(_DEFAULTS) - _OPTIONAL
    if unknown:
        raise InvalidModel(f"the script has unknown keys: {', '.join(sorted(unknown))}")
    for key in ("latency_ns", "warmup_ns", "engine_latency_ns", "reference_ns"):
        _check_times(key, script.get(key, [0]), may_be_empty=key == "warmup_ns")
    if "generation" in script:
        _check_generation(script["generation"])
    for key in ("import_ns", "load_ns", "tick_ns"):
        if type(script[key]) is not int or script[key] < 0:
            raise InvalidModel(f"{key!r} is not a whole number of nanoseconds")
    speeds = script["speeds"]
    if not isinstance(speeds, list) or not all(isinstance(each, list) and len(each) == 2 for each in speeds):
        raise InvalidModel("'speeds' is not a list of [ns, percent]")
    for each in speeds:
        _check_times("speeds", each)
    _check_shapes(script)
    _check_layers(script)
    behaviour = script["behaviour"]
    if type(behaviour.get("after", 0)) is not int:
        raise InvalidModel("'after' is not a number of inferences")
    if behaviour and (behaviour.get("at") not in PLACES or behaviour.get("do") not in DEEDS):
        raise InvalidModel(f"'behaviour' needs at: {', '.join(PLACES)} and do: {', '.join(DEEDS)}")


def _check_generation(told: Any) -> None:
    if not isinstance(told, dict) or set(told) - {*GENERATION, "kv_cache_type"}:
        raise InvalidModel(f"'generation' is not an object with {', '.join(GENERATION)}, kv_cache_type")
    for key, value in told.items():
        if key == "token_ns":
            _check_times(key, value)
        elif key not in _FREE and (type(value) is not int or value < 0):
            raise InvalidModel(f"{key!r} is not a whole number of 0 or more")


def _check_shapes(script: Mapping[str, Any]) -> None:
    """Whether lists are lists, objects objects, and there are as many numbers as outputs."""
    for key in ("effective", "behaviour"):
        if not isinstance(script[key], dict):
            raise InvalidModel(f"{key!r} is not an object")
    for key in ("inputs", "outputs"):
        if not isinstance(script[key], list):
            raise InvalidModel(f"{key!r} is not a list")
    states = script.get("states", [])
    if not isinstance(states, list) or not all(isinstance(name, str) for name in states):
        raise InvalidModel("'states' is not a list of names")
    requests = script.get("requests", 1)
    if type(requests) is not int or requests < 1:
        raise InvalidModel("'requests' is not a number of requests")
    value = script["outputs_value"]
    if isinstance(value, list) and len(value) != len(script["outputs"]):
        raise InvalidModel(f"'outputs_value' has {len(value)} numbers for {len(script['outputs'])} outputs")


def _check_times(key: str, times: Any, *, may_be_empty: bool = False) -> None:
    if not isinstance(times, list) or not all(type(item) is int and item >= 0 for item in times):
        raise InvalidModel(f"{key!r} is not a list of whole nanoseconds")
    if not times and not may_be_empty:
        raise InvalidModel(f"{key!r} is empty")


_LAYER_TEXTS = ("name", "op", "role", "provider", "dtype")
_LAYER_LISTS = ("kinds", "originals", "inputs", "outputs")


def _check_layers(script: Mapping[str, Any]) -> None:
    """Whether steps and overheads of a scripted profile have the fields of `EngineNode` and `EngineOverhead`."""
    if "layer_overheads" in script and "layers" not in script:
        raise InvalidModel("'layer_overheads' without 'layers'")
    for key, texts, lists in (("layers", _LAYER_TEXTS, _LAYER_LISTS), ("layer_overheads", ("name",), ())):
        entries = script.get(key, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise InvalidModel(f"{key!r} is not a list of objects")
        for entry in entries:
            unknown = set(entry) - {"times_ns", *texts, *lists}
            if unknown:
                raise InvalidModel(f"an entry of {key!r} has unknown keys: {', '.join(sorted(unknown))}")
            _check_times("times_ns", entry.get("times_ns"))
            given = [entry[text] for text in texts if text in entry]
            words = [word for name in lists for word in _as_list(entry.get(name, []))]
            if not all(isinstance(word, str) for word in (*given, *words)) or not entry.get("name"):
                raise InvalidModel(f"an entry of {key!r} has a name, an op, a kind or a tensor that is no text")
            if entry.get("role", "operator") not in get_args(Role):
                raise InvalidModel(f"'role' is one of {', '.join(get_args(Role))}")
        if len({entry["name"] for entry in entries}) != len(entries):
            raise InvalidModel(f"two entries of {key!r} have one name")


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidModel(f"{value!r} is not a list")
    return value


def read_spec(entry: Any) -> TensorSpec:
    """Return the input or output of one entry of the script. Raises `InvalidModel`."""
    match entry:
        case {"name": str(name), "shape": list(shape), "dtype": str(dtype)}:
            return TensorSpec(name=name, shape=tuple(shape), dtype=dtype)
    raise InvalidModel(f"not an input or output: {entry!r}")
