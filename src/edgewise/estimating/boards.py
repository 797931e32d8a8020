"""The catalogue of microcontroller boards: ``boards.toml``, in which every figure has a source."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

_FIGURES = {
    "clock": ("clock_mhz", "clock_hz", 1e6),
    "ram": ("ram_kib", "ram_bytes", 1024),
    "ram_region": ("ram_region_kib", "ram_region_bytes", 1024),
    "flash": ("flash_kib", "flash_bytes", 1024),
    "wait_states": ("wait_states", "wait_states", 1),
    "flash_access": ("flash_access", "flash_access", None),
    "power": ("power_mw", "power_w", 1e-3),
}
"""Name of a figure in `Board.sources` → key in the file, attribute of `Board`, and factor between the two."""

MVP = "Silicon Labs MVP"
"""`Board.accelerator` of the boards that `edgewise.estimating.mvp` estimates."""

CORE_TITLES = {
    "cortex-m0plus": "Arm Cortex-M0+",
    "cortex-m3": "Arm Cortex-M3",
    "cortex-m4": "Arm Cortex-M4",
    "cortex-m7": "Arm Cortex-M7",
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
        sources: name of each figure above → where it is published.
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


@cache
def boards() -> Mapping[str, Board]:
    """The boards by name, in the order of their cores, vendors and names."""
    text = (resources.files("edgewise.estimating") / "boards.toml").read_text(encoding="utf-8")
    order = list(CORE_TITLES)
    found = [_read(name, dict(entry)) for name, entry in tomllib.loads(text).items()]
    return {
        board.name: board for board in sorted(found, key=lambda each: (order.index(each.core), each.vendor, each.name))
    }


def _read(name: str, entry: dict[str, Any]) -> Board:
    for key, attribute, factor in _FIGURES.values():
        if factor is not None and key in entry:
            entry[attribute] = entry.pop(key) * factor
    return Board(name=name, **entry)
