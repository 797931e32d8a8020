"""Builds the firmware that executes a lowered network, and runs it in QEMU."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.child_process import Outcome, run_child
from edgewise.errors import BadModel, RunFailed, Unavailable
from edgewise.estimating.mcu.cache import cached
from edgewise.estimating.mcu.cores import Core
from edgewise.estimating.mcu.costs import OperatorCosts
from edgewise.estimating.mcu.counter import (
    INTERFACES,
    NoCounter,
    build_counter,
    counter_option,
    read_counts,
    refuses_plugin,
)
from edgewise.estimating.mcu.lowering import Lowered
from edgewise.estimating.mcu.network import IntNetwork

GCC, QEMU = "arm-none-eabi-gcc", "qemu-system-arm"
INSTALL = "apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
FLAGS = (
    "-O3",
    "-mthumb",
    "-masm-syntax-unified",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-math-errno",
    "-std=c11",
    "-w",
)
SHIFT = 8
"""An instruction takes 2^SHIFT ns of the emulated clock: 5 to 8 ticks of SysTick, so that each one is told apart."""
SCRATCH_BYTES = 2**18
STACK_BYTES = 4096
"""That are left for the stack at least."""
PROGRAM = ("startup.c", "firmware.c")
"""Files of this package that execute a network and report."""
BUILD_S, RUN_S = 120.0, 120.0
SOURCES_SHA256 = "6668c2df88161d642befd11c6d87d198bc7e2943729d0e97bf8edb19a78fe0c7"
"""Of CMSIS-NN's files in the package bakenn, in the order of their paths."""
_REPORTED = {"failed", "stack", "scratch", "ticks of nothing", "ticks of 200000 instructions"}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """What the firmware reported.

    Attributes:
        costs: per input, per operator.
        uncounted: why the classes of `costs` and their bytes from flash are not counted; "" where they are.
        outputs: per input, per output of the network, its bytes.
        stack_bytes: high-water mark.
        scratch_bytes: the most that a kernel of CMSIS-NN asked for.
        flash_bytes: of the image without the inputs; `weight_bytes` of it are constants of the network.
    """

    costs: Sequence[Sequence[OperatorCosts]]
    uncounted: str
    outputs: Sequence[Sequence[NDArray[np.int8]]]
    stack_bytes: int
    scratch_bytes: int
    flash_bytes: int
    weight_bytes: int
    compiler: str
    emulator: str


def emulate(
    network: IntNetwork, lowered: Lowered, *, core: Core, offsets: Mapping[int, int], arena_bytes: int,
    inputs: Sequence[Sequence[NDArray[Any]]], counter: bool = True,
) -> Emulated:  # fmt: skip
    """Build and run `lowered` once per entry of `inputs`, each an array per input of the network.

    What the firmware reports is kept in the cache folder, since it is always the same.

    Args:
        counter: use the plug-in that counts classes of instructions, where that is possible.

    Raises:
        Unavailable: the compiler, the emulator or CMSIS-NN is not installed.
        TooLarge: the network does not fit into the memories of the emulated board.
        RunFailed: it could not be built, crashed, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="edgewise-mcu-") as name:
        folder = Path(name)
        write_sources(folder, network, lowered, core=core, offsets=offsets, arena_bytes=arena_bytes, inputs=inputs)
        compiler, emulator = (
            _run([tool, "--version"], "no version", folder).partition("\n")[0] for tool in (GCC, QEMU)
        )
        library = _library(core, compiler, folder)
        plugins, uncounted = _plugins(folder) if counter else ([], "not requested")
        identity = hashlib.sha256(repr((library.name, [each.name for each in plugins], uncounted, emulator)).encode())
        own = resources.files("edgewise.estimating.mcu")
        for source in (
            *(own / name for name in (*PROGRAM, "startup.h")),
            *(folder / name for name in ("network.c", "network.h", "constants.bin")),
        ):
            identity.update(source.read_bytes())
        identity.update((folder / "link.ld").read_bytes())

        def make(target: Path) -> None:
            image = _build(core, library, folder)
            found = _execute(image, plugins, network, core, folder) | {"image_bytes": _image_bytes(image, folder)}
            _parse(found, network, core, runs=len(inputs))  # what is damaged is not kept
            target.write_text(json.dumps(found | ({"uncounted": uncounted} if uncounted else {})))

        report = cached(f"{core.name}-{identity.hexdigest()[:32]}.json", make, folder=folder)
        try:
            found = json.loads(report.read_bytes())
        except ValueError:
            raise RunFailed(f"{report} is damaged", advice="delete this file, and run the command again") from None
    # The inputs of the check are constants of the image, too, which no product has.
    flash = found["image_bytes"] - sum(len(_aligned(array)) for arrays in inputs for array in arrays)
    return Emulated(
        **_parse(found, network, core, runs=len(inputs)), uncounted=found["uncounted"], flash_bytes=flash,
        weight_bytes=len(lowered.constants), compiler=compiler, emulator=emulator,
    )  # fmt: skip


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


def _library(core: Core, compiler: str, folder: Path) -> Path:
    """CMSIS-NN and our kernels, compiled once per core and compiler."""
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

    return cached(f"{core.name}-{identity.hexdigest()[:16]}.a", make, folder=folder)


def build_image(core: Core, folder: Path, program: Sequence[str]) -> Path:
    """The image of `program`, files of this package, and the network in `folder`. Raises as `emulate`."""
    compiler = _run([GCC, "--version"], "no version", folder).splitlines()[0]
    return _build(core, _library(core, compiler, folder), folder, program)


def _build(core: Core, library: Path, folder: Path, program: Sequence[str] = PROGRAM) -> Path:
    image = folder / "image.elf"
    with resources.as_file(resources.files("edgewise.estimating.mcu")) as own:
        _run([GCC, *core.compiler_flags, *FLAGS, *_includes(), f"-I{folder}", f"-I{own}",
              "-nostartfiles", "-Wl,--gc-sections", "-T", str(folder / "link.ld"), "-o", str(image),
              str(folder / "network.c"), str(folder / "constants.s"), *(str(own / name) for name in program),
              str(library),
              "--specs=nosys.specs"], "the firmware could not be built", folder)  # fmt: skip
    return image


def _run(command: Sequence[str], what: str, folder: Path) -> str:
    """What `command` prints, which leaves its temporary files in `folder`."""
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not installed", advice=INSTALL)
    environment = {**os.environ, "TMPDIR": str(folder)}
    outcome = run_child(command, seconds=BUILD_S, folder=folder, environment=environment)
    printed = outcome.output.decode("utf-8", "replace")
    if outcome.cause and (over := _OVERFLOW.search(outcome.tail)):
        memory = "RAM" if over[1] == "RAM" else "flash"
        raise TooLarge(f"the model needs {int(over[2]):,} B more {memory} than the emulated board has")
    if outcome.cause:
        told = " ".join((*outcome.tail.splitlines()[-3:], *printed.splitlines()[-3:]))[:600]
        raise RunFailed(f"{what}: {command[0]} {outcome.failure}: {told}")
    return printed


def _plugins(folder: Path) -> tuple[list[Path], str]:
    """The plug-in of QEMU for each version of its interface, and why there is none."""
    try:
        return [build_counter(interface, folder=folder) for interface in INTERFACES], ""
    except NoCounter as error:
        return [], str(error)


def _execute(image: Path, plugins: Sequence[Path], network: IntNetwork, core: Core, folder: Path) -> dict[str, str]:
    """What the firmware prints, what the first plug-in counts that QEMU loads, and why none is loaded.

    Raises:
        RunFailed: the firmware or QEMU failed.
    """
    counts, refusal = folder / "counts", ""
    command = [QEMU, "-display", "none", "-monitor", "none", "-serial", "none", "-chardev", "stdio,id=report",
               "-semihosting-config", "enable=on,target=native,chardev=report", "-icount", f"shift={SHIFT}",
               "-M", core.board.name, "-kernel", str(image)]  # fmt: skip
    for plugin in (*plugins, None):
        option = counter_option(plugin, counts, board=core.board, watched=1 + len(network.operators)) if plugin else ""
        outcome = run_child([*command, "-plugin", option] if plugin else command, seconds=RUN_S, folder=folder)
        printed = outcome.output.decode("utf-8", "replace")
        if outcome.cause == "exit" and not printed and plugin and (said := refuses_plugin(outcome.tail)):
            refusal = said
            continue
        if outcome.cause:
            raise RunFailed(f"the emulated firmware failed: {_failure(outcome, printed, network)}")
        counted = counts.read_text() if counts.is_file() else ""
        return {"printed": printed, "counts": counted, "uncounted": "" if counted else refusal or "not requested"}
    raise AssertionError("QEMU was not started")


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
            constants += _aligned(array)
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


def _aligned(array: NDArray[Any]) -> bytes:
    return array.tobytes() + bytes(-array.nbytes % 16)


def _image_bytes(image: Path, folder: Path) -> int:
    printed = _run(["arm-none-eabi-size", str(image)], "the image can't be read", folder).splitlines()
    text, data, *_ = printed[1].split()
    return int(text) + int(data)


def _failure(outcome: Outcome, printed: str, network: IntNetwork) -> str:
    """Why the firmware failed, with the operator that it executed last."""
    begun = re.findall(r"^operator (\d{1,9})$", printed, re.MULTILINE)
    last = {operator.index: f"in operator {operator.index} ({operator.code})" for operator in network.operators}
    where = last.get(int(begun[-1]), "") if begun else "outside of the operators"
    found = {name: int(value) for name, value in re.findall(r"^fault (\w+) (\d{1,10})$", printed, re.MULTILINE)}
    if re.search(r"^stack overflow$", printed, re.MULTILINE):
        return f"stack overflow {where}"
    if not {"status", "instruction"} <= found.keys():
        lines = outcome.tail.splitlines()
        said = " ".join([line for line in lines if "qemu" in line] or lines[-3:])[:600]
        return f"{QEMU} {outcome.failure} {where}" + (f": {said}" if said else "")
    kind = "memory" if found["status"] & 0xFF else "bus" if found["status"] & 0xFF00 else "usage"
    data = f" at the address {found['address']:#x}" if "address" in found else ""
    return f"{kind} fault{data} {where}, by the instruction at {found['instruction']:#x}"


def _parse(found: Mapping[str, Any], network: IntNetwork, core: Core, *, runs: int) -> dict[str, Any]:
    """Attributes of `Emulated`, from what `_execute` returns. Raises `RunFailed` where that is damaged."""
    printed = found["printed"]
    ticks = [int(value) for value in re.findall(r"^t (\d{1,20})$", printed, re.MULTILINE)]
    outputs = [bytes.fromhex(value) for value in re.findall(r"^output ((?:[\da-f]{2})*)$", printed, re.MULTILINE)]
    numbers = {name: int(value) for name, value in re.findall(r"^([\w ]+) (\d{1,20})$", printed, re.MULTILINE)}
    operators, sizes = len(network.operators), [tensor.bytes for tensor in network.outputs] * runs
    if len(ticks) != runs * operators or [len(each) for each in outputs] != sizes or not numbers.keys() >= _REPORTED:
        raise RunFailed(f"the emulated firmware ended early or reported garbage: {' '.join(printed.split())[-300:]}")
    if numbers["failed"]:
        raise RunFailed(f"operator {numbers['failed'] - 1} failed in the emulated firmware")
    per_tick = 1e9 / core.board.tick_hz / 2**SHIFT
    if abs(numbers["ticks of 200000 instructions"] * per_tick / 200_000 - 1) > 0.001:
        raise RunFailed("the emulator's clock does not count instructions as expected")
    overhead = numbers["ticks of nothing"]
    per_input = [ticks[at * operators : (at + 1) * operators] for at in range(runs)]
    places = len(network.outputs)
    if found["counts"]:
        try:
            costs = read_counts(found["counts"], runs=runs, operators=operators)
        except ValueError as error:
            raise RunFailed(f"QEMU's plug-in reported garbage: {error}") from None
    else:
        costs = [[OperatorCosts(round(max(0, each - overhead) * per_tick)) for each in row] for row in per_input]
    return {
        "costs": costs,
        "outputs": [
            [np.frombuffer(each, np.int8) for each in outputs[at * places : (at + 1) * places]] for at in range(runs)
        ],
        "stack_bytes": numbers["stack"],
        "scratch_bytes": numbers["scratch"],
    }
