"""The catalogue of microcontroller boards: ``boards.toml``, in which every figure has a source."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

_UNITS = {"_mhz": ("_hz", 10**6), "_kib": ("_bytes", 1024), "_mw": ("_w", 1e-3)}
"""Ending of a key in the file → that of the attribute of `Board`, and the factor between the two."""

MVP = "Silicon Labs MVP"
"""`Board.accelerator` of the boards that `edgewise.estimating.mvp` estimates."""

CORE_TITLES = {
    "cortex-m0plus": "Arm Cortex-M0+",
    "cortex-m3": "Arm Cortex-M3",
    "cortex-m4": "Arm Cortex-M4",
    "cortex-m7": "Arm Cortex-M7",
    "cortex-m23": "Arm Cortex-M23",
    "cortex-m33": "Arm Cortex-M33",
    "cortex-m55": "Arm Cortex-M55",
    "cortex-m85": "Arm Cortex-M85",
    "xtensa-lx6": "Xtensa LX6",
    "xtensa-lx7": "Xtensa LX7",
    "riscv32": "RISC-V, 32 bits",
}
"""The cores of the boards, in the order in which tables group them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board, and what is published about it. None: no source gives the figure.

    Attributes:
        name: as ``-d`` takes it.
        soc: the microcontroller.
        core: the one that executes the model, a key of `CORE_TITLES`; with several cores the fastest.
        cores: their number, on the whole microcontroller.
        clock_hz: the highest clock of `core`, Hz.
        ram_bytes: on the microcontroller, in all regions together.
        ram_region_bytes: the largest contiguous region.
        flash_bytes: from which a program can be executed, on the microcontroller or beside it.
        wait_states: of the flash at `clock_hz`.
        flash_access: caches and prefetch between core and flash, in words.
        accelerator: of neural networks; "" where there is none.
        power_w: while it infers at `clock_hz`, W.
        power_includes: what `power_w` was measured of.
        sources: name of each of the attributes from `core` on that is known → where it is published. The source of the
            core also gives the microcontroller and the number of cores.
    """

    name: str
    title: str
    vendor: str
    soc: str
    core: str
    cores: int
    clock_hz: float
    ram_bytes: int
    flash_bytes: int
    sources: Mapping[str, str]
    ram_region_bytes: int | None = None
    wait_states: int | None = None
    flash_access: str = ""
    accelerator: str = ""
    power_w: float | None = None
    power_includes: str = ""

    @property
    def flash_beside(self) -> str:
        """Where the program is, if that is not on the microcontroller; the fitted times are of flash on it."""
        return self.flash_access if self.flash_access.startswith("external ") else ""


@cache
def boards() -> Mapping[str, Board]:
    """Return the boards by name, in the order of their cores, vendors and names."""
    text = (resources.files("edgewise.estimating") / "boards.toml").read_text(encoding="utf-8")
    order = list(CORE_TITLES)
    found = [_read(name, dict(entry)) for name, entry in tomllib.loads(text).items()]
    return {
        board.name: board for board in sorted(found, key=lambda each: (order.index(each.core), each.vendor, each.name))
    }


def _read(name: str, entry: dict[str, Any]) -> Board:
    values = dict(map(_in_base_units, entry.items()))
    sources = {
        _in_base_units((figure, 1))[0]: source for source, figures in entry["sources"].items() for figure in figures
    }
    return Board(name=name, **{**values, "sources": sources})


def _in_base_units(pair: tuple[str, Any]) -> tuple[str, Any]:
    """Return the attribute of `Board` and its value, for a key of the file and its value."""
    key, value = pair
    for ending, (unit, factor) in _UNITS.items():
        if key.endswith(ending):
            return key.removesuffix(ending) + unit, value * factor
    return pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a model needs of the memories of a board.

    Attributes:
        ram_bytes, flash_bytes: None where they are not known.
        arena_bytes: part of the RAM that has to be contiguous; None where it is not known.
        at_least: ``RAM`` or ``flash``, where the number is a lower bound → what it contains, in words.
        at_most: the same → an upper bound in bytes, where there is one.
        basis: the same → how the number is known, where it is no bound.
    """

    board: Board
    ram_bytes: int | None
    flash_bytes: int | None
    arena_bytes: int | None
    at_least: Mapping[str, str] = field(default_factory=dict)
    at_most: Mapping[str, int] = field(default_factory=dict)
    basis: Mapping[str, str] = field(default_factory=dict)

    @property
    def _memories(self) -> tuple[tuple[str, int | None, int], ...]:
        """Name, need and size of each memory, in bytes."""
        board = self.board
        return ("RAM", self.ram_bytes, board.ram_bytes), ("flash", self.flash_bytes, board.flash_bytes)

    @property
    def left(self) -> Mapping[str, int]:
        """Memories that are surely large enough → bytes that are left; of a bound at least these."""
        found = {}
        for name, needed, there in self._memories:
            most = self.at_most.get(name) if name in self.at_least else needed
            if most is not None and most <= (self._there[name] if name in self.at_least else there):
                found[name] = there - most
        return found

    @property
    def _there(self) -> Mapping[str, int]:
        """Memory → bytes that an upper bound must not exceed; of RAM the largest region."""
        board = self.board
        return {"RAM": min(board.ram_bytes, board.ram_region_bytes or board.ram_bytes), "flash": board.flash_bytes}

    @property
    def lacking(self) -> Mapping[str, int]:
        """Memories that are too small → bytes that they lack."""
        board = self.board
        found = {
            "RAM": (self.ram_bytes, board.ram_bytes),
            "contiguous RAM": (self.arena_bytes, board.ram_region_bytes),
            "flash": (self.flash_bytes, board.flash_bytes),
        }
        return {
            name: needed - there
            for name, (needed, there) in found.items()
            if needed is not None and there is not None and needed > there
        }

    @property
    def fits(self) -> bool | None:
        """Whether the model fits; None where what it needs is not known well enough."""
        settled = all(name in self.at_most and self.at_most[name] <= self._there[name] for name in self.at_least)
        return False if self.lacking else settled or None

    def amount(self, name: str, size: int) -> str:
        """`size` bytes of the memory `name` in KiB, with its upper bound, or as a lower bound where it is one."""
        if name not in self.at_least:
            return kib(size)
        return f"{kib(size)} to {kib(self.at_most[name])}" if name in self.at_most else f"at least {kib(size)}"

    @property
    def needs(self) -> str:
        """Return "RAM 41.2 of 640 KiB, 598.8 left (estimated); flash at most 51.2 of 2,048 KiB, at least 1,996.8 left",
        and what the board lacks.
        """
        needed = [self._need(*each) for each in self._memories]
        lacks = ", ".join(f"{kib(size)} KiB {name}" for name, size in self.lacking.items())
        return "; ".join([*needed, *([f"the board lacks {lacks}"] if lacks else [])])

    def _need(self, name: str, size: int | None, there: int) -> str:
        """Return what is needed of one memory, and what is left of it."""
        if size is None:
            return f"{name} unknown"
        basis = f" ({self.basis[name]})" if name in self.basis else ""
        if name not in self.left:
            return f"{name} {self.amount(name, size)} of {kib(there)} KiB{basis}"
        bounds = ("at most ", "at least ") if name in self.at_least else ("", "")
        left = self.left[name]
        return f"{name} {bounds[0]}{kib(there - left)} of {kib(there)} KiB, {bounds[1]}{kib(left)} left{basis}"

    def __str__(self) -> str:
        """Return the verdict and `needs`."""
        verdict = {True: "fits", False: "does not fit", None: "may fit"}[self.fits]
        return f"{verdict}: {self.needs}"

    def to_document(self) -> dict[str, Any]:
        """As JSON; sizes in bytes."""
        names = ("fits", "ram_bytes", "flash_bytes", "arena_bytes", "left", "lacking", "at_least", "at_most", "basis")
        return {name: getattr(self, name) for name in names}


def kib(size: float) -> str:
    """`size` bytes in KiB, with one decimal unless it is a whole number."""
    return f"{size // 1024:,}" if size % 1024 == 0 else f"{size / 1024:,.1f}"
