"""The Cortex-M cores, each with a board of Arm's that QEMU emulates and that executes its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_HARD = ("-mfloat-abi=hard",)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedBoard:
    """A board of QEMU.

    Attributes:
        name: as QEMU's ``-M`` takes it.
        core: its core, in words.
        rom, ram: address and size in bytes; `rom` holds the program.
        data: address and size of a memory that holds the network's constants, so that they are not bound by `rom`.
        tick_hz: of SysTick.
        uart: address of its first serial port, a UART of the CMSDK.
    """

    name: str
    core: str
    rom: tuple[int, int]
    ram: tuple[int, int]
    data: tuple[int, int]
    tick_hz: int
    uart: int


def _mps2(name: str, core: str, *, data: int = 0x21000000) -> EmulatedBoard:
    return EmulatedBoard(name=name, core=core, rom=(0, 2**22), ram=(0x20000000, 2**22), data=(data, 2**24),
                 tick_hz=25_000_000, uart=0x40004000)  # fmt: skip


_AN385 = _mps2("mps2-an385", "Cortex-M3")
_AN505 = EmulatedBoard(name="mps2-an505", core="Cortex-M33", rom=(0x10000000, 2**22), ram=(0x38000000, 2**22),
               data=(0x80000000, 2**24), tick_hz=20_000_000, uart=0x40200000)  # fmt: skip
_AN547 = EmulatedBoard(name="mps3-an547", core="Cortex-M55", rom=(0x10000000, 2**19), ram=(0x71000000, 2**23),
               data=(0x70000000, 2**24), tick_hz=32_000_000, uart=0x49303000)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """A core.

    Attributes:
        name: as ``-d`` takes it.
        title: in words.
        board: that executes its code.
        flags: of GCC, besides ``-mcpu``.
        compiled_for: core that GCC compiles for, as ``-mcpu`` takes it; "" is `name`.
    """

    name: str
    title: str
    board: EmulatedBoard
    flags: tuple[str, ...] = ()
    compiled_for: str = ""

    @property
    def target(self) -> str:
        """The core that GCC compiles for: cores with the same target execute the same code."""
        return self.compiled_for or self.name

    @property
    def compiler_flags(self) -> tuple[str, ...]:
        """All flags of GCC that choose the core."""
        return (f"-mcpu={self.target}", *self.flags)

    @property
    def substitutes(self) -> str:
        """A sentence that names the cores that take the place of this one; "" if the emulated core is this one."""
        short = self.name.capitalize().replace("-m", "-M").replace("plus", "+")
        if self.board.core == short:
            return ""
        compiled = f"compiled for {self.compiled_for}, whose instructions the {short} has" if self.compiled_for else ""
        does = f"{compiled}, and executed" if compiled else "executed"
        return f"QEMU does not emulate the {short}: its code was {does} by an emulated {self.board.core}."


CORES: Mapping[str, Core] = {
    core.name: core
    for core in (
        Core(name="cortex-m0plus", title="Arm Cortex-M0+", board=_AN385),
        Core(name="cortex-m3", title="Arm Cortex-M3", board=_AN385),
        Core(name="cortex-m4", title="Arm Cortex-M4 with DSP extension and FPU", board=_mps2("mps2-an386", "Cortex-M4"),
             flags=("-mfpu=fpv4-sp-d16", *_HARD)),
        Core(name="cortex-m7", title="Arm Cortex-M7 with FPU", board=_mps2("mps2-an500", "Cortex-M7", data=0x60000000),
             flags=("-mfpu=fpv5-sp-d16", *_HARD)),
        Core(name="cortex-m23", title="Arm Cortex-M23", board=_AN505),
        Core(name="cortex-m33", title="Arm Cortex-M33 with DSP extension and FPU", board=_AN505,
             flags=("-mfpu=fpv5-sp-d16", *_HARD)),
        Core(name="cortex-m55", title="Arm Cortex-M55 with Helium", board=_AN547, flags=_HARD),
        # GCC 12 lacks -mcpu=cortex-m85. The M85 has all instructions of the M55, and pointer authentication besides.
        Core(name="cortex-m85", title="Arm Cortex-M85 with Helium", board=_AN547, flags=_HARD,
             compiled_for="cortex-m55"),
    )
}  # fmt: skip
