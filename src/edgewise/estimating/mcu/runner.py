"""Firmware of a model that speaks the protocol of MLPerf Tiny's runner: sources for a folder of the user, and an image.

The image is for the board of Arm that QEMU emulates. Another board needs its own start-up code and the four functions
of ``hal.h``.
"""

from __future__ import annotations

import math
import re
import shutil
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput, Unavailable
from edgewise.estimating.base import find_device
from edgewise.estimating.mcu.arena import plan_arena
from edgewise.estimating.mcu.cores import CORES, Core
from edgewise.estimating.mcu.cortex_m import check_outputs, emulation_availability, sample_inputs
from edgewise.estimating.mcu.firmware import emulate
from edgewise.estimating.mcu.folding import fold_shapes
from edgewise.estimating.mcu.lowering import lower
from edgewise.estimating.mcu.network import IntNetwork, IntTensor, read_network
from edgewise.estimating.mcu.reference import run_reference
from edgewise.estimating.mcu.toolchain import build_image, cmsis_folder, write_sources
from edgewise.folders import job_folder

ENCODINGS = {"ic01": "EW_UINT8", "vww01": "EW_UINT8", "ad01": "EW_FLOAT32"}
"""How MLCommons' runner sends the inputs of a benchmark model; those of other models are the tensor's own bytes."""
SCORED = "ad01"
"""The benchmark whose result is one anomaly score, the mean squared error of the reconstruction."""
SHIFT = 3
"""Of QEMU's ``-icount``: an instruction takes 8 ns of the emulated clock."""
PROGRAM = ("startup.c", "hal.c", "runner.c")
COPIED = ("startup.h", "hal.h", "kernels.c", "kernels.h")
WRITTEN = ("network.c", "network.h", "runner.h", "constants.s", "constants.bin", "link.ld")
IMAGE = "firmware.elf"
LEAST_DECIMALS, MOST_DECIMALS = 3, 9
_TYPES = {"int8": "EW_INT8", "uint8": "EW_UINT8", "float32": "EW_FLOAT32"}
_IDENTITY = re.compile(r"[A-Za-z0-9_.-]{1,32}")


def write_firmware(path: Path, folder: Path, *, device: str, identity: str, force: bool) -> Path:
    """Write the firmware of the model at `path` to `folder` and return the image; nothing is written if that fails.

    The model is executed in QEMU before, and its outputs are compared with those of tflite-micro.

    Args:
        device: a core, or a board that has one, as `edgewise estimate` takes them.
        identity: the name of the model that the firmware reports; those in `ENCODINGS` decide how inputs arrive.
        force: write into a folder that is not empty.

    Raises:
        BadInput: a folder or a device that can't be used; a name or a type that the protocol can't carry.
        CanNotLower, TooLarge: the model can't be executed on the emulated board.
        Unavailable: a tool or a package is missing.
        RunFailed: a tool failed, or an output is wrong.
    """
    core = CORES.get(find_device(device)[1].core)
    if core is None:
        advice = f"cores: {', '.join(CORES)}, and boards with one"
        raise BadInput(f"no firmware can be made for {device}", advice=advice)
    if not (state := emulation_availability()):
        raise Unavailable(f"firmware can't be made: {state.reason}", advice=state.install_hint)
    try:
        if folder.exists() and any(folder.iterdir()) and not force:
            raise BadInput(f"{folder} is not empty", advice="name another folder, or use ⟦force⟧ to write into it")
        with job_folder() as fresh:
            _write(path, fresh, core, identity)
            shutil.copytree(fresh, folder, dirs_exist_ok=True)
    except OSError as error:
        raise BadInput(f"can't write to {folder}: {error.strerror or error}", advice="name another folder") from error
    return folder / IMAGE


def _write(path: Path, folder: Path, core: Core, identity: str) -> None:
    if not _IDENTITY.fullmatch(identity):
        raise BadInput(
            f"⟦model_id⟧ {identity!r} can't be used", advice="use 1 to 32 letters, digits, points, - and _, as in kws01"
        )
    network = fold_shapes(read_network(path))
    settings = _settings(network, core, identity)
    plan, offsets = plan_arena(network)
    arena_bytes = plan.arena_bytes or 0
    lowered, inputs = lower(network, offsets), sample_inputs(network)
    known: dict[str, Any] = {"core": core, "offsets": offsets, "arena_bytes": arena_bytes}
    emulated = emulate(network, lowered, **known, inputs=inputs, counter=False)
    check_outputs(path, network, emulated, run_reference(path, inputs, outputs=len(network.outputs)))
    with job_folder() as work:
        write_sources(work, network, lowered, **known, inputs=(), scratch_bytes=max(16, emulated.scratch_bytes))
        (work / "runner.h").write_text(settings)
        shutil.copyfile(build_image(core, work, PROGRAM), folder / IMAGE)
        for name in WRITTEN:
            shutil.copyfile(work / name, folder / name)
    own = resources.files("edgewise.estimating.mcu")
    for name in (*PROGRAM, *COPIED):
        (folder / name).write_bytes((own / name).read_bytes())
    _copy_cmsis(folder / "cmsis")
    (folder / "README.md").write_text(_readme(path.name, core, identity, arena_bytes + emulated.scratch_bytes))


def _settings(network: IntNetwork, core: Core, identity: str) -> str:
    """``runner.h``. Raises `BadInput` for a type of an input or output that the protocol can't carry."""
    encoding = ENCODINGS.get(identity, "EW_TENSOR")
    sizes = [tensor.bytes for tensor in network.inputs if tensor.dtype == "int8"]
    fits = len(network.inputs) == len(sizes) == 1
    if identity == SCORED:
        fits = fits and [tensor.bytes for tensor in network.outputs] == sizes and network.outputs[0].dtype == "int8"
    if not network.inputs or (encoding != "EW_TENSOR" and not fits):
        needs = "one int8 input" + (", and one output like it" if identity == SCORED else "")
        raise BadInput(f"⟦model_id⟧ {identity} needs a model with {needs}", advice="use another ⟦model_id⟧")
    for tensor in network.outputs:
        if tensor.dtype not in _TYPES:
            raise BadInput(f"output {tensor.name} is {tensor.dtype}; the firmware can report {', '.join(_TYPES)}")
    size = sum(tensor.bytes for tensor in network.inputs) * (4 if encoding == "EW_FLOAT32" else 1)
    scales = ", ".join(
        f"{{{_scale(tensor)!r}, {tensor.zero_point}, {_TYPES[tensor.dtype]}}}" for tensor in network.outputs
    )
    first = network.inputs[0]
    return f"""/* Of the model and of the emulated board. */
#include <stdint.h>
#define EW_NAME "edgewise {version("edgewise")} on QEMU {core.board.name}"
#define EW_PROFILE "edgewise {version("edgewise")} with CMSIS-NN 4.0.0 on {core.name}"
#define EW_MODEL "{identity}"
#define EW_UART {core.board.uart:#x}
#define EW_TICK_HZ {core.board.tick_hz}u
#define EW_TENSOR 0
#define EW_INT8 1
#define EW_UINT8 2
#define EW_FLOAT32 3
#define EW_ENCODING {encoding}
#define EW_SCORE {int(identity == SCORED)}
#define EW_BUFFER_BYTES {size}
#define EW_INPUT_SCALE {_scale(first)!r}f
#define EW_INPUT_ZERO_POINT {first.zero_point}
#define EW_DECIMALS {_decimals(network)}
typedef struct {{ double scale; int32_t zero_point, type; }} ew_scale;
static const ew_scale ew_output_scales[] = {{ {scales} }};
"""


def _scale(tensor: IntTensor) -> float:
    return float(tensor.scales[0]) if len(tensor.scales) else 1.0


def _decimals(network: IntNetwork) -> int:
    """Decimals that tell one step of an output from the next, and at least as many as MLCommons' firmware prints."""
    scales = [_scale(tensor) for tensor in network.outputs if tensor.dtype != "float32"]
    # A float output is that of a DEQUANTIZE, whose input has the scale.
    scales += [
        _scale(operator.inputs[0])
        for operator in network.operators
        if operator.code == "DEQUANTIZE" and operator.inputs[0] is not None
    ]
    finest = min((scale for scale in scales if scale > 0), default=1.0)
    return min(MOST_DECIMALS, max(LEAST_DECIMALS, math.ceil(-math.log10(finest / 20))))


def _copy_cmsis(folder: Path) -> None:
    """CMSIS-NN and the headers of CMSIS-Core from the installed package, each with its licence."""
    for part in ("cmsis_nn", "cmsis_core"):
        source = cmsis_folder() / part
        shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("*.md", "__pycache__"), dirs_exist_ok=True)


def _readme(model: str, core: Core, identity: str, ram: int) -> str:
    flags = " ".join(core.compiler_flags)
    return f"""# Firmware of {model}

It speaks the protocol of MLPerf Tiny's runner over a serial port and reports the model as `{identity}`.

## In the emulator

`firmware.elf` is for QEMU's board {core.board.name}:

    qemu-system-arm -M {core.board.name} -display none -monitor none -serial pty -icount shift={SHIFT} \\
      -kernel firmware.elf

QEMU prints the port, such as /dev/pts/3. An instruction takes {2**SHIFT} ns of the emulated time, so the latency is the
number of instructions × {2**SHIFT} ns, and not that of a real board. Then:

    edgewise bench {model} -d serial:///dev/pts/3

Build the image again with:

    arm-none-eabi-gcc {flags} -O3 -mthumb -std=c11 -w -ffunction-sections -fdata-sections -fno-math-errno \\
      -Icmsis/cmsis_nn/Include -Icmsis/cmsis_core/Include -I. -nostartfiles -Wl,--gc-sections -T link.ld \\
      *.c constants.s $(find cmsis/cmsis_nn/Source -name '*.c') --specs=nosys.specs -o firmware.elf

## On your board

1. Add these files to a project of your board that has start-up code: network.c, network.h, constants.s, constants.bin,
   kernels.c, kernels.h, runner.c, runner.h, hal.h and the folder cmsis.
   Leave out startup.c, startup.h and link.ld, which are for the emulated board.
2. Replace hal.c by the four functions of hal.h: serial port and timer. A timer of microseconds is enough.
3. Call `ew_runner()` from `main`, after the clocks and the caches are set up.
4. Set `EW_NAME` in runner.h to the name of your board, without the word QEMU.
   edgewise takes the latency of a board with this word in its name for a simulated one.
5. Compile with the flags of your core: {flags}.

The section `.constants` holds the weights: place it in flash. Arena and scratch of CMSIS-NN take {ram} B of RAM.

Each inference first copies the input from the buffer of the serial port into the arena, since the network may use that
memory for other tensors. This copy is part of the latency.

## Licences

The folder cmsis holds Arm's CMSIS-NN and CMSIS-Core under the Apache licence 2.0; see LICENSE.txt in both.
"""
