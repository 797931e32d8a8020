"""The Cortex-M cores that QEMU emulates, each with a board of Arm's that has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """A core, and the emulated board.

    Attributes:
        name: as GCC's ``-mcpu`` takes it.
        title: in words.
        machine: QEMU's board.
        flags: of GCC, besides ``-mcpu``.
        rom, ram: address and size in bytes.
        tick_hz: of SysTick on this board.
    """

    name: str
    title: str
    machine: str
    flags: tuple[str, ...]
    rom: tuple[int, int]
    ram: tuple[int, int]
    tick_hz: int


_HARD = ("-mfloat-abi=hard",)
CORES: Mapping[str, Core] = {
    core.name: core
    for core in (
        Core(name="cortex-m3", title="Arm Cortex-M3", machine="mps2-an385", flags=(), rom=(0, 2**22),
             ram=(0x20000000, 2**22), tick_hz=25_000_000),
        Core(name="cortex-m4", title="Arm Cortex-M4 with DSP extension and FPU", machine="mps2-an386",
             flags=("-mfpu=fpv4-sp-d16", *_HARD), rom=(0, 2**22), ram=(0x20000000, 2**22), tick_hz=25_000_000),
        Core(name="cortex-m7", title="Arm Cortex-M7 with FPU", machine="mps2-an500",
             flags=("-mfpu=fpv5-sp-d16", *_HARD), rom=(0, 2**22), ram=(0x20000000, 2**22), tick_hz=25_000_000),
        Core(name="cortex-m33", title="Arm Cortex-M33 with DSP extension and FPU", machine="mps2-an505",
             flags=("-mfpu=fpv5-sp-d16", *_HARD), rom=(0x10000000, 2**22), ram=(0x38000000, 2**22), tick_hz=20_000_000),
        Core(name="cortex-m55", title="Arm Cortex-M55 with Helium", machine="mps3-an547", flags=_HARD,
             rom=(0x10000000, 2**19), ram=(0x31000000, 2**21), tick_hz=32_000_000),
    )
}  # fmt: skip
