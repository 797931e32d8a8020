"""Builds the firmware that executes a lowered network, and runs it in QEMU."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.child_process import run_child
from edgewise.errors import BadModel, RunFailed, Unavailable
from edgewise.estimating.mcu.cores import Core
from edgewise.estimating.mcu.costs import OperatorCosts
from edgewise.estimating.mcu.lowering import Lowered
from edgewise.estimating.mcu.network import IntNetwork

GCC, QEMU = "arm-none-eabi-gcc", "qemu-system-arm"
INSTALL = "apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
FLAGS = ("-O3", "-mthumb", "-ffunction-sections", "-fdata-sections", "-fno-math-errno", "-std=c11", "-w")
SHIFT = 8
"""An instruction takes 2^SHIFT ns of the emulated clock: 5 to 8 ticks of SysTick, so that each one is told apart."""
SCRATCH_BYTES = 2**18
BUILD_S, RUN_S = 120.0, 120.0
SOURCES_SHA256 = "6668c2df88161d642befd11c6d87d198bc7e2943729d0e97bf8edb19a78fe0c7"
"""Of CMSIS-NN's files in the package bakenn, in the order of their paths."""
_REPORTED = {"failed", "stack", "scratch", "ticks of reading", "ticks of 200000 instructions"}
_OVERFLOW = re.compile(r"region `(ROM|RAM)' overflowed by (\d+) bytes")
_LINK = """
ENTRY(ew_start)
MEMORY {{ ROM (rx) : ORIGIN = {rom:#x}, LENGTH = {rom_bytes} RAM (rw) : ORIGIN = {ram:#x}, LENGTH = {ram_bytes} }}
ew_stack_top = ORIGIN(RAM) + LENGTH(RAM);
SECTIONS {{
  .text : {{ KEEP(*(.vectors)) *(.text*) *(.rodata*) . = ALIGN(8); }} > ROM
  .ARM.exidx : {{ *(.ARM.exidx*) }} > ROM
  .data : {{ ew_data_begin = .; *(.data*) . = ALIGN(8); ew_data_end = .; }} > RAM AT > ROM
  ew_data_load = LOADADDR(.data);
  .bss (NOLOAD) : {{ ew_bss_begin = .; *(.bss*) *(COMMON) . = ALIGN(8); ew_bss_end = .; }} > RAM
  ew_heap_begin = ALIGN(16);
}}
"""


class TooLarge(BadModel):
    """The image does not fit into the memories of the emulated board."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """What the firmware reported.

    Attributes:
        costs: per input, per operator; the classes and the bytes from flash are not counted.
        outputs: per input, per output of the network, its bytes.
        stack_bytes: high-water mark.
        scratch_bytes: the most that a kernel of CMSIS-NN asked for.
        flash_bytes: of the image without the inputs; `weight_bytes` of it are constants of the network.
    """

    costs: Sequence[Sequence[OperatorCosts]]
    outputs: Sequence[Sequence[NDArray[np.int8]]]
    stack_bytes: int
    scratch_bytes: int
    flash_bytes: int
    weight_bytes: int
    compiler: str
    emulator: str


def emulate(
    network: IntNetwork, lowered: Lowered, *, core: Core, offsets: Mapping[int, int], arena_bytes: int,
    inputs: Sequence[Sequence[NDArray[Any]]],
) -> Emulated:  # fmt: skip
    """Build and run `lowered` once per entry of `inputs`, each an array per input of the network.

    Raises:
        Unavailable: the compiler, the emulator or CMSIS-NN is not installed.
        RunFailed: it could not be built, crashed, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="edgewise-mcu-") as name:
        folder = Path(name)
        _write_sources(folder, network, lowered, offsets=offsets, arena_bytes=arena_bytes, inputs=inputs)
        (folder / "link.ld").write_text(
            _LINK.format(rom=core.rom[0], rom_bytes=core.rom[1], ram=core.ram[0], ram_bytes=core.ram[1])
        )
        library = _library(core)
        image = folder / "image.elf"
        own = resources.files("edgewise.estimating.mcu")
        with resources.as_file(own) as sources:
            _run([GCC, f"-mcpu={core.name}", *core.flags, *FLAGS, *_includes(), f"-I{folder}", f"-I{sources}",
                  "-nostartfiles", "-Wl,--gc-sections", "-T", str(folder / "link.ld"), "-o", str(image),
                  str(folder / "network.c"), str(folder / "constants.s"), str(sources / "firmware.c"), str(library),
                  "--specs=nosys.specs"], "the firmware could not be built")  # fmt: skip
        printed = _run(
            [QEMU, "-display", "none", "-monitor", "none", "-serial", "none", "-chardev", "stdio,id=report",
             "-semihosting-config", "enable=on,target=native,chardev=report", "-icount", f"shift={SHIFT}",
             "-M", core.machine, "-kernel", str(image)],
            "the emulated firmware failed", explain=lambda printed: _fault(printed, network),
        )  # fmt: skip
        # The inputs of the check are constants of the image, too, which no product has.
        flash = _flash_bytes(image) - sum(len(_aligned(array)) for arrays in inputs for array in arrays)
    return _parse(printed, network, core, count=len(inputs), flash=flash, weights=len(lowered.constants))


def cmsis_folder() -> Path:
    """The folder with CMSIS-NN and CMSIS-Core in the package bakenn. Raises `Unavailable`."""
    spec = find_spec("bakenn")
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable(
            "the package bakenn, which brings CMSIS-NN, is not installed", advice="pip install 'edgewise[mcu]'"
        )
    return Path(spec.submodule_search_locations[0]) / "backend" / "cmsis_nn" / "vendor"


def _includes() -> list[str]:
    folder = cmsis_folder()
    return [f"-I{folder / 'cmsis_nn' / 'Include'}", f"-I{folder / 'cmsis_core' / 'Include'}"]


def _library(core: Core) -> Path:
    """CMSIS-NN and our kernels, compiled once per core and compiler."""
    from platformdirs import user_cache_path

    sources = sorted((cmsis_folder() / "cmsis_nn" / "Source").rglob("*.c"))
    own = resources.files("edgewise.estimating.mcu")
    compiler = _run([GCC, "--version"], "no compiler").splitlines()[0]
    third_party = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()
    if third_party != SOURCES_SHA256:
        raise Unavailable(
            "the package bakenn has other sources of CMSIS-NN than those that were checked",
            advice="pip install bakenn==1.0.0",
        )
    identity = hashlib.sha256(" ".join((compiler, core.name, *core.flags, *FLAGS, third_party)).encode())
    for name in ("kernels.c", "kernels.h"):
        identity.update((own / name).read_bytes())
    target = user_cache_path("edgewise") / "mcu" / f"{core.name}-{identity.hexdigest()[:16]}.a"
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="edgewise-cmsis-") as name, resources.as_file(own) as folder:
        words = [GCC, f"-mcpu={core.name}", *core.flags, *FLAGS, *_includes(), f"-I{folder}", "-c"]
        _run([*words, *map(str, sources), str(folder / "kernels.c")], "CMSIS-NN could not be built", folder=Path(name))
        made, parts = Path(name) / "library.a", sorted(Path(name).glob("*.o"))
        _run(["arm-none-eabi-ar", "rcs", str(made), *map(str, parts)], "CMSIS-NN could not be built")
        fresh = target.with_suffix(f".{os.getpid()}")
        shutil.copyfile(made, fresh)
        fresh.replace(target)
    return target


def _run(
    command: Sequence[str], what: str, *, folder: Path | None = None, explain: Callable[[str], str] = lambda printed: ""
) -> str:
    """What `command` prints; `explain` finds the reason for a failure in it."""
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not installed", advice=INSTALL)
    outcome = run_child(command, seconds=RUN_S if command[0] == QEMU else BUILD_S, folder=folder)
    printed = outcome.output.decode("utf-8", "replace")
    if outcome.cause and (over := _OVERFLOW.search(outcome.tail)):
        memory = "flash" if over[1] == "ROM" else "RAM"
        raise TooLarge(f"the model needs {int(over[2]):,} B more {memory} than the emulated board has")
    if outcome.cause and (reason := explain(printed)):
        raise RunFailed(f"{what}: {reason}")
    if outcome.cause:
        told = " ".join((*outcome.tail.splitlines()[-3:], *printed.splitlines()[-3:]))[:600]
        raise RunFailed(f"{what}: {command[0]} {outcome.failure}: {told}")
    return printed


def _write_sources(
    folder: Path, network: IntNetwork, lowered: Lowered, *, offsets: Mapping[int, int], arena_bytes: int,
    inputs: Sequence[Sequence[NDArray[Any]]],
) -> None:  # fmt: skip
    constants = bytearray(lowered.constants)
    constants += bytes(-len(constants) % 16)
    starts: list[list[int]] = []
    for arrays in inputs:
        starts.append([])
        for array in arrays:
            starts[-1].append(len(constants))
            constants += _aligned(array)
    (folder / "constants.bin").write_bytes(bytes(constants))
    (folder / "constants.s").write_text(
        f'.section .rodata\n.balign 16\n.global ew_constants\new_constants:\n.incbin "{folder / "constants.bin"}"\n'
    )
    (folder / "network.h").write_text(
        "#include <stdint.h>\n"
        f"#define EW_OPERATORS {len(network.operators)}\n#define EW_INPUTS {len(inputs)}\n"
        f"#define EW_OUTPUTS {len(network.outputs)}\n"
        "typedef struct { const int8_t *data; int32_t count; } ew_output;\n"
        "extern const ew_output ew_outputs[EW_OUTPUTS];\nextern int32_t ew_current, ew_scratch_needed, ew_failed;\n"
        "void ew_reset(void);\nvoid ew_load(int32_t input);\nvoid ew_execute(int32_t operator_index);\n"
    )
    layers = [
        f"__attribute__((noinline)) static void layer_{at}(void) {{ {call} }}" for at, call in enumerate(lowered.calls)
    ]
    loads = "\n".join(
        f"if (input == {number}) {{ "
        + " ".join(
            f"ew_copy((const int8_t *)ew_constants + {start}, ew_arena + {offsets[tensor.index]}, {tensor.bytes});"
            for start, tensor in zip(own, network.inputs, strict=True)
        )
        + " }"
        for number, own in enumerate(starts)
    )
    outputs = ", ".join(f"{{ew_arena + {offsets[each.index]}, {each.bytes}}}" for each in network.outputs)
    table = ", ".join(f"layer_{at}" for at in range(len(lowered.calls)))
    (folder / "network.c").write_text(
        f"""#include "network.h"
#include "arm_nnfunctions.h"
#include "kernels.h"
extern const uint8_t ew_constants[];
__attribute__((aligned(16))) static int8_t ew_arena[{max(arena_bytes, 16)}];
__attribute__((aligned(16))) static uint8_t scratch[{SCRATCH_BYTES}];
int32_t ew_current, ew_scratch_needed, ew_failed;
static cmsis_nn_context context;
static const cmsis_nn_context *ew_scratch(int32_t bytes) {{
    if (bytes > ew_scratch_needed) ew_scratch_needed = bytes;
    if (bytes > (int32_t)sizeof scratch) ew_failed = ew_current;
    context.buf = scratch;
    context.size = bytes;
    return &context;
}}
static void ew_check(arm_cmsis_nn_status status) {{ if (status) ew_failed = ew_current; }}
{chr(10).join(layers)}
static void (*const layers[])(void) = {{ {table} }};
void ew_execute(int32_t at) {{ layers[at](); }}
void ew_load(int32_t input) {{ {loads} }}
void ew_reset(void) {{ {lowered.reset} }}
const ew_output ew_outputs[EW_OUTPUTS] = {{ {outputs} }};
"""
    )


def _aligned(array: NDArray[Any]) -> bytes:
    return array.tobytes() + bytes(-array.nbytes % 16)


def _flash_bytes(image: Path) -> int:
    printed = _run(["arm-none-eabi-size", str(image)], "the image can't be read").splitlines()
    text, data, *_ = printed[1].split()
    return int(text) + int(data)


def _fault(printed: str, network: IntNetwork) -> str:
    """The fault of the core that the firmware reported; "" where there was none."""
    found = {name: int(value) for name, value in re.findall(r"^fault (\w+) (\d{1,10})$", printed, re.MULTILINE)}
    if not {"in", "status", "instruction"} <= found.keys():
        return ""
    operators = {0: "outside of the operators"} | {
        operator.index + 1: f"in operator {operator.index} ({operator.code})" for operator in network.operators
    }
    kind = "memory" if found["status"] & 0xFF else "bus" if found["status"] & 0xFF00 else "usage"
    data = f" at the address {found['address']:#x}" if "address" in found else ""
    return f"{kind} fault{data} {operators.get(found['in'], '')}, by the instruction at {found['instruction']:#x}"


def _parse(printed: str, network: IntNetwork, core: Core, *, count: int, flash: int, weights: int) -> Emulated:
    ticks = [int(value) for value in re.findall(r"^t (\d{1,20})$", printed, re.MULTILINE)]
    outputs = [bytes.fromhex(value) for value in re.findall(r"^output ((?:[\da-f]{2})*)$", printed, re.MULTILINE)]
    numbers = {name: int(value) for name, value in re.findall(r"^([\w ]+) (\d{1,20})$", printed, re.MULTILINE)}
    operators, sizes = len(network.operators), [tensor.bytes for tensor in network.outputs] * count
    if len(ticks) != count * operators or [len(each) for each in outputs] != sizes or not numbers.keys() >= _REPORTED:
        raise RunFailed(f"the emulated firmware ended early or reported garbage: {' '.join(printed.split())[-300:]}")
    if numbers["failed"]:
        raise RunFailed(f"operator {numbers['failed'] - 1} failed in the emulated firmware")
    per_tick = 1e9 / core.tick_hz / 2**SHIFT
    if abs(numbers["ticks of 200000 instructions"] * per_tick / 200_000 - 1) > 0.001:
        raise RunFailed("the emulator's clock does not count instructions as expected")
    overhead = numbers["ticks of reading"]
    per_input = [ticks[at * operators : (at + 1) * operators] for at in range(count)]
    places = len(network.outputs)
    return Emulated(
        costs=[[OperatorCosts(round(max(0, each - overhead) * per_tick)) for each in row] for row in per_input],
        outputs=[
            [np.frombuffer(each, np.int8) for each in outputs[at * places : (at + 1) * places]] for at in range(count)
        ],
        stack_bytes=numbers["stack"],
        scratch_bytes=numbers["scratch"],
        flash_bytes=flash,
        weight_bytes=weights,
        compiler=_run([GCC, "--version"], "no compiler").splitlines()[0],
        emulator=_run([QEMU, "--version"], "no emulator").splitlines()[0],
    )
