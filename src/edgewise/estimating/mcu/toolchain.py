"""The cross compiler: C sources of a lowered network, CMSIS-NN as a library, and images of both."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from edgewise.child_process import run_child
from edgewise.errors import BadModel, RunFailed, Unavailable
from edgewise.estimating.mcu.cache import cached
from edgewise.estimating.mcu.cores import Core
from edgewise.estimating.mcu.lowering import Lowered
from edgewise.estimating.mcu.network import IntNetwork

GCC = "arm-none-eabi-gcc"
INSTALL = "apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
FLAGS = (
    "-O3", "-mthumb", "-masm-syntax-unified", "-ffunction-sections", "-fdata-sections", "-fno-math-errno", "-std=c11",
    "-w",
)  # fmt: skip
SCRATCH_BYTES = 2**18
STACK_BYTES = 4096
"""That are left for the stack at least."""
BUILD_S = 120.0
SOURCES_SHA256 = "6668c2df88161d642befd11c6d87d198bc7e2943729d0e97bf8edb19a78fe0c7"
"""Of CMSIS-NN's files in the package bakenn, in the order of their paths."""
_OVERFLOW = re.compile(r"region `(ROM|RAM|DATA)' overflowed by (\d+) bytes")
_LINK = """
ENTRY(ew_start)
MEMORY {{
  ROM (rx) : ORIGIN = {rom[0]:#x}, LENGTH = {rom[1]}
  RAM (rw) : ORIGIN = {ram[0]:#x}, LENGTH = {ram[1]}
  DATA (r) : ORIGIN = {data[0]:#x}, LENGTH = {data[1]}
}}
ew_stack_top = ORIGIN(RAM) + LENGTH(RAM);
SECTIONS {{
  .text : {{ KEEP(*(.vectors)) *(.text*) *(.rodata*) . = ALIGN(8); }} > ROM
  .ARM.exidx : {{ *(.ARM.exidx*) }} > ROM
  .constants : {{ *(.constants) }} > DATA
  .data : {{ ew_data_begin = .; *(.data*) . = ALIGN(8); ew_data_end = .; }} > RAM AT > ROM
  ew_data_load = LOADADDR(.data);
  .bss (NOLOAD) : {{ ew_bss_begin = .; *(.bss*) *(COMMON) . = ALIGN(8); ew_bss_end = .; }} > RAM
  .stack (NOLOAD) : {{ . = ALIGN(16); ew_heap_begin = .; . += {stack}; }} > RAM
}}
"""


class TooLarge(BadModel):
    """The image does not fit into the memories of the emulated board."""


def cmsis_folder() -> Path:
    """Return the folder with CMSIS-NN and CMSIS-Core in the package bakenn. Raises `Unavailable`."""
    spec = find_spec("bakenn")
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable(
            "the package bakenn, which brings CMSIS-NN, is not installed", advice="pip install 'edgewise[mcu]'"
        )
    return Path(spec.submodule_search_locations[0]) / "backend" / "cmsis_nn" / "vendor"


def _includes() -> list[str]:
    folder = cmsis_folder()
    return [f"-I{folder / 'cmsis_nn' / 'Include'}", f"-I{folder / 'cmsis_core' / 'Include'}"]


def build_library(core: Core, folder: Path) -> Path:
    """CMSIS-NN and our kernels, compiled once per core and compiler. Raises `Unavailable` and `RunFailed`."""
    compiler = version_of(GCC, folder)
    sources = sorted((cmsis_folder() / "cmsis_nn" / "Source").rglob("*.c"))
    own = resources.files("edgewise.estimating.mcu")
    third_party = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()
    if third_party != SOURCES_SHA256:
        raise Unavailable(
            "the package bakenn has other sources of CMSIS-NN than those that were checked",
            advice="pip install bakenn==1.0.0",
        )
    identity = hashlib.sha256(" ".join((compiler, *core.compiler_flags, *FLAGS, third_party)).encode())
    for name in ("kernels.c", "kernels.h"):
        identity.update((own / name).read_bytes())

    def make(target: Path) -> None:
        objects = folder / "objects"
        objects.mkdir()
        with resources.as_file(own) as here:
            words = [GCC, *core.compiler_flags, *FLAGS, *_includes(), f"-I{here}", "-c"]
            _run([*words, *map(str, sources), str(here / "kernels.c")], "CMSIS-NN could not be built", objects)
        parts = sorted(objects.glob("*.o"))
        _run(["arm-none-eabi-ar", "rcs", str(target), *map(str, parts)], "CMSIS-NN could not be built", folder)

    return cached(f"{core.target}-{identity.hexdigest()[:16]}.a", make, folder=folder)


def build_image(core: Core, folder: Path, program: Sequence[str]) -> Path:
    """Return the image of `program`, files of this package, and the network in `folder`. Raises as `emulate`."""
    return link_image(core, build_library(core, folder), folder, program)


def link_image(core: Core, library: Path, folder: Path, program: Sequence[str]) -> Path:
    """As `build_image`, with the library that `build_library` returns."""
    image = folder / "image.elf"
    with resources.as_file(resources.files("edgewise.estimating.mcu")) as own:
        _run([GCC, *core.compiler_flags, *FLAGS, *_includes(), f"-I{folder}", f"-I{own}",
              "-nostartfiles", "-Wl,--gc-sections", "-T", str(folder / "link.ld"), "-o", str(image),
              str(folder / "network.c"), str(folder / "constants.s"), *(str(own / name) for name in program),
              str(library),
              "--specs=nosys.specs"], "the firmware could not be built", folder)  # fmt: skip
    return image


def _run(command: Sequence[str], what: str, folder: Path) -> str:
    """Return what `command` prints, which leaves its temporary files in `folder`."""
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not installed", advice=INSTALL)
    environment = {**os.environ, "TMPDIR": str(folder)}
    outcome = run_child(command, seconds=BUILD_S, folder=folder, environment=environment)
    printed = outcome.output.decode("utf-8", "replace")
    if outcome.cause and (over := _OVERFLOW.search(outcome.tail)):
        memory = "RAM" if over[1] == "RAM" else "flash"
        raise TooLarge(f"the model needs {int(over[2]):,} B more {memory} than the emulated board has")
    if outcome.cause and os.strerror(errno.ENOSPC) in outcome.tail:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if outcome.cause:
        told = " ".join((*outcome.tail.splitlines()[-3:], *printed.splitlines()[-3:]))[:600]
        raise RunFailed(f"{what}: {command[0]} {outcome.failure}: {told}")
    return printed


def version_of(tool: str, folder: Path) -> str:
    """Return the first line that `tool` prints about its version. Raises `Unavailable` and `RunFailed`."""
    return _run([tool, "--version"], "no version", folder).partition("\n")[0]


def write_sources(
    folder: Path, network: IntNetwork, lowered: Lowered, *, core: Core, offsets: Mapping[int, int], arena_bytes: int,
    inputs: Sequence[Sequence[NDArray[Any]]], scratch_bytes: int = SCRATCH_BYTES,
) -> None:  # fmt: skip
    """Write the C sources of a network, its constants, and the linker script of the emulated board.

    Args:
        inputs: that ``ew_load`` offers, per entry an array per input of the network.
    """
    (folder / "link.ld").write_text(
        _LINK.format(rom=core.board.rom, ram=core.board.ram, data=core.board.data, stack=STACK_BYTES)
    )
    constants = bytearray(lowered.constants)
    constants += bytes(-len(constants) % 16)
    starts: list[list[int]] = []
    for arrays in inputs:
        starts.append([])
        for array in arrays:
            starts[-1].append(len(constants))
            constants += aligned(array)
    (folder / "constants.bin").write_bytes(bytes(constants))
    (folder / "constants.s").write_text(
        '.section .constants,"a"\n.balign 16\n.global ew_constants\new_constants:\n.incbin "constants.bin"\n'
    )
    (folder / "network.h").write_text(
        "#include <stdint.h>\n"
        f"#define EW_OPERATORS {len(network.operators)}\n#define EW_INPUTS {len(inputs)}\n"
        f"#define EW_OUTPUTS {len(network.outputs)}\n"
        f"#define EW_MODEL_INPUTS {len(network.inputs)}\n"
        "typedef struct { int8_t *data; int32_t count; } ew_tensor; /* count: bytes */\n"
        "extern const ew_tensor ew_inputs[EW_MODEL_INPUTS], ew_outputs[EW_OUTPUTS];\n"
        "extern int32_t ew_current, ew_scratch_needed, ew_failed;\n"
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
    inputs_there, outputs = (
        ", ".join(f"{{ew_arena + {offsets[each.index]}, {each.bytes}}}" for each in tensors)
        for tensors in (network.inputs, network.outputs)
    )
    table = ", ".join([*(f"layer_{at}" for at in range(len(lowered.calls))), "nothing"])
    (folder / "network.c").write_text(
        f"""#include "network.h"
#include "arm_nnfunctions.h"
#include "kernels.h"
extern const uint8_t ew_constants[];
__attribute__((aligned(16))) static int8_t ew_arena[{max(arena_bytes, 16)}];
__attribute__((aligned(16))) static uint8_t scratch[{scratch_bytes}];
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
__attribute__((noinline)) static void nothing(void) {{}}
static void (*const layers[])(void) = {{ {table} }};
void ew_execute(int32_t at) {{ layers[at](); }}
void ew_load(int32_t input) {{ {loads} }}
void ew_reset(void) {{ {lowered.reset} }}
const ew_tensor ew_inputs[EW_MODEL_INPUTS] = {{ {inputs_there} }}, ew_outputs[EW_OUTPUTS] = {{ {outputs} }};
"""
    )


def aligned(array: NDArray[Any]) -> bytes:
    """Return the bytes of `array`, filled up to a multiple of 16."""
    return array.tobytes() + bytes(-array.nbytes % 16)


def image_bytes(image: Path, folder: Path) -> int:
    """Bytes of flash that `image` needs."""
    printed = _run(["arm-none-eabi-size", str(image)], "the image can't be read", folder).splitlines()
    text, data, *_ = printed[1].split()
    return int(text) + int(data)
