"""Scripted passes for tests: each does one thing, right or wrong, to whatever model it is given.

They come in as a plug-in's passes do, through an entry point (`install`), and work in processes of their own, which
import this module by its name.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from edgewise.optimizing.base import CannotApply, Capabilities, PassResult, PassSettings, Recipe
from edgewise.registry import Availability
from installed_package import write_metadata

MARK = "edgewise-fake 1"


def install(monkeypatch, folder: Path, *classes: type, name: str = "scripted") -> None:
    """Make `classes` known as the passes of an installed package, here and to processes that are started from now on."""
    points = {one.name: f"{one.__module__}:{one.__name__}" for one in classes}
    write_metadata(folder / "plugins", name, {"edgewise.passes": points})
    paths = [str(Path(__file__).parent), str(folder / "plugins")]
    monkeypatch.syspath_prepend(paths[1])
    importlib.invalidate_caches()
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*paths, *([before] if before else [])]))


class Scripted:
    """What all have in common. `change` is what a subclass does to the script of a fake model."""

    name: ClassVar[str] = "scripted"
    title: ClassVar[str] = "scripted"
    capabilities: ClassVar[Capabilities] = Capabilities(
        kind="compression", reads=("fake",), writes="fake", runtimes=("fake",)
    )
    labels: ClassVar[tuple[str, ...]] = ("",)

    def availability(self):
        return Availability(True, version=f"scripted {os.environ.get('SCRIPTED_VERSION', '1')}")

    def recipes(self, facts):
        return tuple(Recipe(label=label) for label in self.labels)

    def apply(self, task):
        first, _, rest = Path(task.model).read_text().partition("\n")
        assert first == MARK
        script = json.loads(rest)
        self.change(script, task)
        file = task.folder / "model.fake"
        file.write_text(f"{MARK}\n{json.dumps(script)}")
        return PassResult(model=file, notes=("1 of 1 operators changed",), versions={"scripted": "1.0"})

    def change(self, script, task):
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed(PassSettings):
    """What to do, and files to leave word in."""

    do: str = "make"
    count: str | None = None
    touch: str | None = None
    level: int | None = None


class Deeds(Scripted):
    """Does what its settings say under ``do``, and counts how often in the file that `count` names."""

    name = "deeds"

    def apply(self, task):
        if count := task.settings.count:
            with Path(count).open("a") as file:
                file.write(f"{os.getpid()}\n")
        return DEEDS[task.settings.do](task)


def _make(task, data=b"made"):
    file = task.folder / "model.bin"
    file.write_bytes(data)
    return PassResult(model=file, notes=("one\ntwo\x1b[31m",), versions={"scripted": "1.0"})


def _copy(task):
    return _make(task, Path(task.model).read_bytes() + b"\n")


def _segfault(task):
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    ctypes.string_at(0)


def _hang(task):
    Path(task.settings.touch).write_text(str(os.getpid())) if task.settings.touch else None
    while True:
        time.sleep(3600)  # real time: it is ended


def _eat(task):
    blocks = []
    while True:
        blocks.append(bytearray(b"\x01") * (16 * 2**20))


def _babble(task):
    os.write(1, b'\x00\xff{"model": "/etc/passwd"}\n' * 1000)
    print('{"cause": "failed", "reason": "not from here"}', flush=True)
    sys.stderr.write("\x1b[2Jlast words\n")
    return _make(task)


def _flood(task):
    """40 MiB; fails with how much that was and how large the file is at the end."""
    for _ in range(40):
        os.write(2, b"x" * 2**20)
    raise RuntimeError(f"{40 * 2**20} {os.fstat(2).st_size}")


def _fork(task):
    child = subprocess.Popen(["sleep", "1000"])
    Path(task.settings.touch).write_text(str(child.pid))
    return _make(task)


def _fork_and_crash(task):
    _fork(task)
    os.abort()


class OddError(Exception):
    def __str__(self):
        return "\n\n  first\x00\x1b[31m line\udcff \n second line\n"


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def _raise(error):
    def deed(task):
        raise error

    return deed


def _exit(code):
    def deed(task):
        sys.exit(code)

    return deed


DEEDS = {
    "make": _make,
    "copy": _copy,
    "segfault": _segfault,
    "abort": lambda task: os.abort(),
    "kill": lambda task: os.kill(os.getpid(), signal.SIGKILL),
    "hang": _hang,
    "eat": _eat,
    "babble": _babble,
    "flood": _flood,
    "fork": _fork,
    "fork-crash": _fork_and_crash,
    "cannot": _raise(CannotApply("not this\none")),
    "full": _raise(OSError(errno.ENOSPC, "No space left on device")),
    "quota": _raise(OSError(errno.EDQUOT, "Disk quota exceeded")),
    "os-error": _raise(OSError("odd\nthing")),
    "memory": _raise(MemoryError()),
    "bad-alloc": _raise(RuntimeError("std::bad_alloc")),
    "odd": _raise(OddError()),
    "mute": _raise(MuteError()),
    "interrupt": _raise(KeyboardInterrupt()),
    "exit": _exit(0),
    "exit-3": _exit(3),
    "nothing": lambda task: None,
    "no-file": lambda task: PassResult(model=task.folder / "model.bin"),
    "folder": lambda task: PassResult(model=task.folder),
    "text": lambda task: PassResult(model="model.bin"),
    "unchanged": lambda task: PassResult(model=Path(task.model), unchanged=True),
    "odd-notes": lambda task: PassResult(model=_make(task).model, notes=(3, None, ["x"])),
    "odd-versions": lambda task: PassResult(model=_make(task).model, versions={"x": object()}),
    "broken": lambda task: _make(task, b"edgewise-fake 1\n{ this is no JSON"),
    "empty": lambda task: _make(task, b""),
}


# --- passes that change the script of a fake model, for whole searches ---

FUSION = Capabilities(kind="fusion", reads=("fake",), writes="fake", exact=True, runtimes=("fake",))


class Faster(Scripted):
    """Half the time, the same outputs."""

    name = "faster"
    capabilities = FUSION

    def change(self, script, task):
        script["latency_ns"] = [number // 2 for number in script["latency_ns"]]


class Fastest(Faster):
    """A tenth of the time; one class for everything."""

    name = "fastest"

    def change(self, script, task):
        script["latency_ns"] = [number // 10 for number in script["latency_ns"]]
        script["outputs_value"] = 0.0


class Slower(Faster):
    name = "slower"

    def change(self, script, task):
        script["latency_ns"] = [number * 2 for number in script["latency_ns"]]


class Same(Faster):
    """Another file that is no faster."""

    name = "same"

    def change(self, script, task):
        script["import_ns"] = 5


class Copied(Faster):
    """The very file it was given, under another name."""

    name = "copied"

    def apply(self, task):
        file = task.folder / "copy.fake"
        file.write_bytes(Path(task.model).read_bytes())
        return PassResult(model=file)


class Unchanged(Faster):
    name = "unchanged"

    def apply(self, task):
        return PassResult(model=Path(task.model), unchanged=True)


class Failing(Faster):
    name = "failing"

    def apply(self, task):
        raise OddError


class Crashing(Faster):
    name = "crashing"

    def apply(self, task):
        os.abort()


class Filling(Faster):
    name = "filling"

    def apply(self, task):
        raise OSError(errno.ENOSPC, "No space left on device")


class Broken(Faster):
    """No model at all."""

    name = "broken"

    def apply(self, task):
        return _make(task, b"edgewise-fake 1\n{ this is no JSON")


class Nan(Faster):
    name = "nan"

    def change(self, script, task):
        super().change(script, task)
        script["behaviour"] = {"at": "outputs", "do": "nan"}


class Narrow(Faster):
    """Another number of classes."""

    name = "narrow"

    def change(self, script, task):
        script["outputs"][0]["shape"] = [1, 2]


class Unloadable(Faster):
    name = "unloadable"

    def change(self, script, task):
        script["behaviour"] = {"at": "load", "do": "abort"}


class Dying(Faster):
    """Dies on the data, after the first look."""

    name = "dying"

    def change(self, script, task):
        super().change(script, task)
        script["behaviour"] = {"at": "invoke", "after": 30, "do": "segfault"}


class Tiring(Faster):
    """Dies in the race, long after it was judged."""

    name = "tiring"

    def change(self, script, task):
        super().change(script, task)
        script["behaviour"] = {"at": "invoke", "after": 110, "do": "segfault"}


class Hanging(Faster):
    name = "hanging"

    def apply(self, task):
        (task.folder / "hangs").touch()
        time.sleep(3600)  # real time: it is ended


class Looking(Faster):
    """A quarter of the time, and it tells which samples it was given."""

    name = "looking"
    capabilities = replace(FUSION, calibrates=True)

    def change(self, script, task):
        script["latency_ns"] = [number // 4 for number in script["latency_ns"]]

    def apply(self, task):
        return replace(super().apply(task), notes=(f"looked at {task.calibration.name}",))


class Converted(Faster):
    """Three files that are as fast as the original, of a pass that comes before quantisation."""

    name = "converted"
    capabilities = replace(FUSION, kind="conversion", exact=False)
    labels = ("", "second", "third")

    def change(self, script, task):
        script["latency_ns"] = [number - len(str(task.folder.name)) for number in script["latency_ns"]]


class Int8(Faster):
    """What its name says, for the search."""

    name = "int8"
    capabilities = replace(FUSION, kind="quantisation", exact=False, arithmetic="int8", calibrates=True)


class FailingInt8(Int8):
    """It comes first of all, and makes nothing."""

    name = "a-failing-int8"

    def apply(self, task):
        raise OddError("first")
