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
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from edgewise.optimizing.base import CannotApply, Capabilities, Product, Recipe
from edgewise.registry import Availability

MARK = "edgewise-fake 1"


def install(monkeypatch, folder: Path, *classes: type, name: str = "scripted") -> None:
    """Make `classes` known as the passes of an installed package, here and to processes that are started from now on."""
    info = folder / "plugins" / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    points = "".join(f"{one.name} = {one.__module__}:{one.__name__}\n" for one in classes)
    (info / "entry_points.txt").write_text(f"[edgewise.passes]\n{points}")
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

    def apply(self, work):
        first, _, rest = Path(work.model).read_text().partition("\n")
        assert first == MARK
        script = json.loads(rest)
        self.change(script, work)
        file = work.folder / "model.fake"
        file.write_text(f"{MARK}\n{json.dumps(script)}")
        return Product(model=file, notes=("1 of 1 operators changed",), versions={"scripted": "1.0"})

    def change(self, script, work):
        raise NotImplementedError


class Deeds(Scripted):
    """Does what its settings say under ``do``, and counts how often in the file that `count` names."""

    name = "deeds"

    def apply(self, work):
        if count := work.settings.get("count"):
            with Path(count).open("a") as file:
                file.write(f"{os.getpid()}\n")
        return DEEDS[work.settings["do"]](work)


def _make(work, data=b"made"):
    file = work.folder / "model.bin"
    file.write_bytes(data)
    return Product(model=file, notes=("one\ntwo\x1b[31m",), versions={"scripted": "1.0"})


def _copy(work):
    return _make(work, Path(work.model).read_bytes() + b"\n")


def _segfault(work):
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    ctypes.string_at(0)


def _hang(work):
    Path(work.settings["touch"]).write_text(str(os.getpid())) if "touch" in work.settings else None
    while True:
        time.sleep(3600)


def _eat(work):
    blocks = []
    while True:
        blocks.append(bytearray(b"\x01") * (16 * 2**20))


def _babble(work):
    os.write(1, b'\x00\xff{"model": "/etc/passwd"}\n' * 1000)
    print('{"cause": "failed", "reason": "not from here"}', flush=True)
    sys.stderr.write("\x1b[2Jlast words\n")
    return _make(work)


def _flood(work):
    """40 MiB in two seconds; fails with how much that was and how large the file is at the end."""
    for _ in range(40):
        os.write(2, b"x" * 2**20)
        time.sleep(0.05)
    raise RuntimeError(f"{40 * 2**20} {os.fstat(2).st_size}")


def _fork(work):
    child = subprocess.Popen(["sleep", "1000"])
    Path(work.settings["touch"]).write_text(str(child.pid))
    return _make(work)


def _fork_and_crash(work):
    _fork(work)
    os.abort()


class OddError(Exception):
    def __str__(self):
        return "\n\n  first\x00\x1b[31m line\udcff \n second line\n"


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def _raise(error):
    def deed(work):
        raise error

    return deed


def _exit(code):
    def deed(work):
        sys.exit(code)

    return deed


DEEDS = {
    "make": _make,
    "copy": _copy,
    "segfault": _segfault,
    "abort": lambda work: os.abort(),
    "kill": lambda work: os.kill(os.getpid(), signal.SIGKILL),
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
    "nothing": lambda work: None,
    "no-file": lambda work: Product(model=work.folder / "model.bin"),
    "folder": lambda work: Product(model=work.folder),
    "text": lambda work: Product(model="model.bin"),
    "unchanged": lambda work: Product(model=Path(work.model), unchanged=True),
    "odd-notes": lambda work: Product(model=_make(work).model, notes=(3, None, ["x"])),
    "odd-versions": lambda work: Product(model=_make(work).model, versions={"x": object()}),
    "broken": lambda work: _make(work, b"edgewise-fake 1\n{ this is no JSON"),
    "empty": lambda work: _make(work, b""),
}


# --- passes that change the script of a fake model, for whole searches ---

FUSION = Capabilities(kind="fusion", reads=("fake",), writes="fake", exact=True, runtimes=("fake",))


class Faster(Scripted):
    """Half the time, the same outputs."""

    name = "faster"
    capabilities = FUSION

    def change(self, script, work):
        script["latency_ns"] = [number // 2 for number in script["latency_ns"]]


class Fastest(Faster):
    """A tenth of the time; one class for everything."""

    name = "fastest"

    def change(self, script, work):
        script["latency_ns"] = [number // 10 for number in script["latency_ns"]]
        script["outputs_value"] = 0.0


class Slower(Faster):
    name = "slower"

    def change(self, script, work):
        script["latency_ns"] = [number * 2 for number in script["latency_ns"]]


class Same(Faster):
    """Another file that is no faster."""

    name = "same"

    def change(self, script, work):
        script["import_ns"] = 5


class Copied(Faster):
    """The very file it was given, under another name."""

    name = "copied"

    def apply(self, work):
        file = work.folder / "copy.fake"
        file.write_bytes(Path(work.model).read_bytes())
        return Product(model=file)


class Unchanged(Faster):
    name = "unchanged"

    def apply(self, work):
        return Product(model=Path(work.model), unchanged=True)


class Failing(Faster):
    name = "failing"

    def apply(self, work):
        raise OddError


class Crashing(Faster):
    name = "crashing"

    def apply(self, work):
        os.abort()


class Filling(Faster):
    name = "filling"

    def apply(self, work):
        raise OSError(errno.ENOSPC, "No space left on device")


class Broken(Faster):
    """No model at all."""

    name = "broken"

    def apply(self, work):
        return _make(work, b"edgewise-fake 1\n{ this is no JSON")


class Nan(Faster):
    name = "nan"

    def change(self, script, work):
        super().change(script, work)
        script["behaviour"] = {"at": "outputs", "do": "nan"}


class Narrow(Faster):
    """Another number of classes."""

    name = "narrow"

    def change(self, script, work):
        script["outputs"][0]["shape"] = [1, 2]


class Unloadable(Faster):
    name = "unloadable"

    def change(self, script, work):
        script["behaviour"] = {"at": "load", "do": "abort"}


class Dying(Faster):
    """Dies on the data, after the first look."""

    name = "dying"

    def change(self, script, work):
        super().change(script, work)
        script["behaviour"] = {"at": "invoke", "after": 30, "do": "segfault"}


class Tiring(Faster):
    """Dies in the race, long after it was judged."""

    name = "tiring"

    def change(self, script, work):
        super().change(script, work)
        script["behaviour"] = {"at": "invoke", "after": 110, "do": "segfault"}


class Hanging(Faster):
    name = "hanging"

    def apply(self, work):
        time.sleep(3600)


class Looking(Faster):
    """A quarter of the time, and it tells which samples it was given."""

    name = "looking"
    capabilities = replace(FUSION, calibrates=True)

    def change(self, script, work):
        script["latency_ns"] = [number // 4 for number in script["latency_ns"]]

    def apply(self, work):
        return replace(super().apply(work), notes=(f"looked at {work.calibration.name}",))
