"""The plug-in of QEMU that counts instructions by class, compiled with this machine's C compiler."""

from __future__ import annotations

import hashlib
import shutil
from importlib import resources
from pathlib import Path

from edgewise.child_process import run_child
from edgewise.estimating.mcu.cache import cached
from edgewise.estimating.mcu.cores import EmulatedBoard
from edgewise.estimating.mcu.costs import CLASSES, OperatorCosts

INTERFACES = (1, 3)
"""Versions of QEMU's plug-in interface that counter.c supports, such as those of QEMU 7.2 and 10.0."""
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden")
COMPILE_S = 60.0


class NoCounter(Exception):
    """The plug-in can't be used; the message is the reason."""


def build_counter(interface: int, *, folder: Path) -> Path:
    """Return the plug-in for one of `INTERFACES`, from the cache or compiled in `folder`. Raises `NoCounter`."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NoCounter("no C compiler for this machine is installed ('apt-get install gcc' installs one)")
    own = resources.files("edgewise.estimating.mcu")
    sources = b"".join((own / name).read_bytes() for name in ("counter.c", "thumb.h"))
    words = [compiler, *FLAGS, f"-DEW_API={interface}"]
    identity = hashlib.sha256(" ".join(words).encode() + sources).hexdigest()[:16]

    def make(target: Path) -> None:
        with resources.as_file(own) as here:
            outcome = run_child([*words, "-o", str(target), str(here / "counter.c")], seconds=COMPILE_S, folder=folder)
        if outcome.cause:
            raise NoCounter(f"{compiler} could not compile the plug-in of QEMU: it {outcome.failure}")

    return cached(f"counter-{identity}.so", make, folder=folder)


def counter_option(plugin: Path, report: Path, *, board: EmulatedBoard, watched: int) -> str:
    """Return the value of QEMU's ``-plugin``.

    Args:
        report: written by the plug-in, read by `read_counts`.
        watched: number of lines of the report for which reads of flash are counted.
    """
    memories = [f"flash={begin:#x}:{size:#x}" for begin, size in (board.rom, board.data)]
    words = (f"file={plugin}", f"out={report}", f"watched={watched}", *memories)
    return ",".join(word.replace(",", ",,") for word in words)  # QEMU reads two commas as one


def read_counts(text: str, *, runs: int, operators: int) -> list[list[OperatorCosts]]:
    """Return the costs per run and operator from a report.

    Its first line is that of an operator that does nothing, which is subtracted from the others. Only the first run
    counts the bytes from flash; the other runs get its numbers, because addresses don't depend on the values of inputs.

    Raises:
        ValueError: the report is incomplete or malformed.
    """
    rows = [[int(word) for word in line.split()] for line in text.splitlines()]
    if len(rows) != 1 + runs * operators or any(len(row) != len(CLASSES) + 1 for row in rows):
        raise ValueError(f"{len(rows)} lines, not {1 + runs * operators} with {len(CLASSES) + 1} numbers each")
    nothing, *rows = rows
    flash = [row[-1] - nothing[-1] for row in rows[:operators]]
    costs = []
    for at, row in enumerate(rows):
        counts = [count - less for count, less in zip(row[:-1], nothing[:-1], strict=True)]
        costs.append(
            OperatorCosts(sum(counts), dict(zip(CLASSES, counts, strict=True)), flash_bytes=flash[at % operators])
        )
    return [costs[at : at + operators] for at in range(0, len(costs), operators)]


def refuses_plugin(tail: str) -> str:
    """Return why QEMU does not load a plug-in, from its standard error; "" where that is not what it says."""
    said = next((line for line in tail.splitlines() if "plugin" in line), "")
    return said and f"QEMU does not load the plug-in that counts them ({said.rpartition(': ')[2]})"
